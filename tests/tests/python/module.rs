//! What the module does, what its pages show, its types, and ONNX's cases by ONNX's runner.

use byoc_tests::program;
use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{data, markdown, places, sample};

use crate::{python, with_module};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("tests_in_python_pass", tests_in_python_pass),
        trial("tensors_stay_on_devices", tensors_stay_on_devices),
        trial("cases_of_onnx_pass_by_its_runner", cases_of_onnx_pass_by_its_runner),
        trial("types_are_those_of_the_module", types_are_those_of_the_module),
        trial("pages_show_what_runs", pages_show_what_runs),
    ]
}

fn tests_in_python_pass() -> Needed<()> {
    let folder = places::temporary();
    let mut command = python(folder.path())?;
    command
        .args(["-W", "error::ResourceWarning", "-m", "unittest", "test_module"])
        .current_dir(places::checkout().join("core/bindings/python/tests"))
        .env("BYOC_PROGRAM", program::path())
        .env("BYOC_PLUGIN", places::plugin("template"))
        .env("BYOC_DEVICE_PLUGIN", places::plugin("simdev"));
    let output = command.output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// On the simulated device, and on that of stand-ins for CUDA, whose memory is the host's.
fn tensors_stay_on_devices() -> Needed<()> {
    let cuda = byoc_nvidia_standins::both().to_str().expect("a plain path");
    for (backend, device, number, shared) in [("simdev", "sim:0", "12", "0"), ("cublas", "cuda:0", "2", "1")] {
        let folder = places::temporary();
        let mut command = python(folder.path())?;
        command
            .args(["-W", "error::ResourceWarning", "-m", "unittest", "test_devices"])
            .current_dir(places::checkout().join("core/bindings/python/tests"))
            .env("BYOC_DEVICE_PLUGIN", places::plugin(backend))
            .envs([("BYOC_DEVICE_BACKEND", backend), ("BYOC_DEVICE", device), ("BYOC_DEVICE_TYPE", number)])
            .envs([("BYOC_DEVICE_SHARED", shared), ("BYOC_CUDA_PATH", cuda)]);
        let output = command.output().expect("Python runs");
        assert!(output.status.success(), "{backend}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}

/// The cases of nodes of the onnx package that do not pass in our own suite.
fn failing() -> Vec<String> {
    let list = |name: &str, prefixes: &[&str]| {
        let text = places::read(&places::checkout().join("tests/tests/onnx").join(name));
        let text = String::from_utf8(text).expect("text");
        let case = |line: &str| prefixes.iter().find_map(|prefix| line.strip_prefix(prefix)).map(str::to_owned);
        text.lines().filter_map(case).collect::<Vec<_>>()
    };
    let others = ["onnx-1.23.2/node/", "onnx-1.23.2/node_expanded/"];
    [list("nodes.expected", &["node/"]), list("suites.expected", &others)].concat()
}

fn cases_of_onnx_pass_by_its_runner() -> Needed<()> {
    let folder = places::temporary();
    let mut command = python(folder.path())?;
    let failing = places::write(folder.path(), "failing.txt", failing().join("\n"));
    command.args(["-m", "unittest", "test_onnx"]).env("BYOC_FAILING", failing);
    command.env("BYOC_SHARD", sample::shard(3).to_string());
    let output = command.current_dir(places::checkout().join("core/bindings/python/tests")).output();
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn types_are_those_of_the_module() -> Needed<()> {
    let folder = places::temporary();
    let mut command = with_module(&data::examples()?, folder.path());
    command.args(["-m", "mypy.stubtest", "byoc._native", "--mypy-config-file"]);
    let config = places::write(folder.path(), "mypy.ini", "[mypy]\nstrict = True\n");
    let output = command.arg(&config).current_dir(folder.path()).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let mut command = std::process::Command::new(data::examples()?);
    command.args(["-m", "mypy", "--config-file"]).arg(&config).args(["-p", "byoc"]);
    let output = command.current_dir(folder.path()).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
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
