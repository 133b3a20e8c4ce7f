//! The Python module, as it is built for the tests beside the files of the package: `core/bindings/python/tests`.

use std::path::Path;
use std::process::{Command, ExitCode};

use byoc_tests::program::{self, isolate};
use byoc_tests::trial::{self, Needed, Trial, trial};
use byoc_tests::{data, markdown, places};

fn main() -> ExitCode {
    trial::run(&[("module", trials)])
}

fn trials() -> Vec<Trial> {
    vec![trial("tests_in_python_pass", tests_in_python_pass), trial("pages_show_what_runs", pages_show_what_runs)]
}

/// The package of the module, complete, in a folder.
fn install(folder: &Path) {
    let sources = places::checkout().join("core/bindings/python/python/byoc");
    let package = folder.join("byoc");
    std::fs::create_dir(&package).expect("the folder is ours");
    for name in places::list(&sources).iter().filter(|name| !name.starts_with("__pycache__")) {
        places::copy_into(&package, &sources.join(name), name);
    }
    places::copy_into(&package, &places::plugin("python"), "_native.abi3.so");
}

/// An interpreter that finds the module in that folder.
fn python(folder: &Path) -> Needed<Command> {
    install(folder);
    let mut command = Command::new(data::python()?);
    isolate(&mut command).env("PYTHONPATH", folder).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

fn tests_in_python_pass() -> Needed<()> {
    let folder = places::temporary();
    let mut command = python(folder.path())?;
    command
        .args(["-W", "error::ResourceWarning", "-m", "unittest", "test_module"])
        .current_dir(places::checkout().join("core/bindings/python/tests"))
        .env("BYOC_PROGRAM", program::path())
        .env("BYOC_PLUGIN", places::plugin("template"));
    let output = command.output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What the blocks of the pages take for granted.
const PRELUDE: &str = r#"
import numpy
import onnx
from onnx import TensorProto, helper

shape = ["batch", 3, 224, 224]
ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "main", ports[:1], ports[1:])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), "model.onnx")
array = x = numpy.ones((1, 3, 224, 224), numpy.float32)
"#;

/// What they must have made.
const PROOF: &str =
    "\nfound = outputs['y'] if isinstance(outputs, dict) else outputs[0]\nassert found.shape == x.shape, found\n";

fn pages_show_what_runs() -> Needed<()> {
    let plugin = places::plugin("template").display().to_string();
    let mut run = 0;
    for page in ["README.md", "docs/python.md", "core/bindings/python/README.md"] {
        let text = std::fs::read_to_string(places::checkout().join(page)).expect("the page is there");
        for block in markdown::blocks(&text)
            .into_iter()
            .filter(|block| block.info == "python" && block.text.contains("import byoc"))
        {
            let folder = places::temporary();
            let shown = block.text.replace("libbyoc_acme.so", &plugin).replace("\"acme\"", "\"template\"");
            let script = places::write(folder.path(), "page.py", format!("{PRELUDE}{shown}{PROOF}"));
            let output = python(folder.path())?.arg(script).current_dir(folder.path()).output().expect("Python runs");
            assert!(output.status.success(), "{page}:{}: {}", block.line, String::from_utf8_lossy(&output.stderr));
            run += 1;
        }
    }
    assert_eq!(run, 4, "blocks of the pages");
    Ok(())
}
