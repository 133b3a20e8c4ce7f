//! Plugins as files: what is refused and in which words, which of several is taken, and a plan that two of them share.

use std::path::{Path, PathBuf};

use byoc_core::artifact::Artifact;
use byoc_core::artifact::Fate;
use byoc_core::artifact::manifest::ClaimKind;
use byoc_tests::program::{byoc, isolate, outcome};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, onnx, places, program};

/// What stands before the ABI version in a plugin's info: the magic and the size of the info.
const MAGIC: &[u8] = b"byocplug";

/// Where a library is cut short: within its code.
const CUT: usize = 64 * 1024;

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The template plugin with some of its bytes replaced everywhere.
fn patched(find: &[u8], replace: &[u8]) -> Vec<u8> {
    assert_eq!(find.len(), replace.len());
    let mut bytes = places::read(&places::plugin("template"));
    let places: Vec<_> = (0..bytes.len() - find.len()).filter(|&at| bytes[at..].starts_with(find)).collect();
    assert!(!places.is_empty(), "the plugin has no such bytes");
    places.iter().for_each(|&at| bytes[at..at + find.len()].copy_from_slice(replace));
    bytes
}

/// The template plugin as if it spoke another ABI version.
fn of_abi(version: u32) -> Vec<u8> {
    let bytes = places::read(&places::plugin("template"));
    let at = bytes.windows(MAGIC.len()).position(|window| window == MAGIC).expect("the magic");
    let header = &bytes[at..at + 16];
    assert_eq!(header[12..], 1u32.to_le_bytes());
    patched(header, &[&header[..12], &version.to_le_bytes()].concat())
}

#[test]
fn files_that_are_no_plugins_are_refused_in_one_line() {
    let template = places::read(&places::plugin("template"));
    let cannot = "[B301] '{file}' cannot be loaded as a plugin: ";
    let hint = "\n  hint: A plugin is a dynamic library; byoc plugin new writes one to start from";
    let symbols = "\n  hint: In Rust a plugin ends with export_plugin!; in C it defines byoc_plugin_info and byoc_plugin_table, as \
                   byoc_plugin.h says";
    let cases: [(&str, Option<Vec<u8>>, String); 8] = [
        ("missing", None, format!("{cannot}No such file or directory (os error 2)")),
        ("text", Some(b"not a library\n".to_vec()), format!("{cannot}{{file}}: file too short{hint}")),
        ("truncated", Some(template[..CUT].to_vec()), format!("{cannot}truncated ELF file: {CUT} bytes, its segments need ")),
        ("no_symbol", Some(patched(b"byoc_plugin_info", b"byoc_plugin_inf_")), format!("{cannot}it has no symbol byoc_plugin_info{symbols}")),
        ("wrong_magic", Some(patched(MAGIC, b"acmeplug")), format!("{cannot}its symbol byoc_plugin_info is not what it should be{symbols}")),
        ("newer", Some(of_abi(3)), "[B302] '{file}': plugin 'byoc-template' 0.1.0 speaks ABI 3; this byoc speaks 1\n  hint: Update byoc, or install an older byoc-template".into()),
        ("older", Some(of_abi(0)), "[B302] '{file}': plugin 'byoc-template' 0.1.0 speaks ABI 0; this byoc speaks 1\n  hint: Install a newer byoc-template".into()),
        ("empty", Some(places::read(&places::plugin("empty"))), "[B305] '{file}' breaks the plugin contract: it registers no backend\n  hint: Report this to the plugin's maker".into()),
    ];
    let folder = places::temporary();
    for (name, bytes, expected) in cases {
        let file = folder.path().join(format!("libbyoc_{name}.so"));
        if let Some(bytes) = bytes {
            std::fs::write(&file, bytes).expect("the folder is ours");
        }
        let expected = format!("error: {}", expected.replace("{file}", text(&file)));
        let outcome = outcome(&mut byoc(&["plugin", "list", "--plugin", text(&file)]));
        assert_eq!(outcome.code, Some(3), "{name}: {}", outcome.stderr);
        if name == "truncated" {
            assert!(outcome.stderr.starts_with(&expected), "{}", outcome.stderr);
        } else {
            assert_eq!(outcome.stderr.trim_end(), expected, "{name}");
        }
        assert_eq!(outcome.stdout, "", "{name}");
    }
}

/// A file in a folder that does not load is passed over; it shows in the list, and where its backend is asked for.
#[test]
fn a_refused_file_in_a_folder_is_named_when_it_is_missed() {
    let folder = places::temporary();
    let file = places::write(folder.path(), "libbyoc_acme.so", "not a library");
    places::write(folder.path(), "libother.so", "not even named like a plugin");
    let list = outcome(&mut byoc(&["plugin", "list", "--json", "--plugin-dir", text(folder.path())]));
    let list: serde_json::Value = serde_json::from_str(list.success()).expect("JSON");
    let refused = list["refused"].as_array().expect("a list");
    assert_eq!(refused.len(), 1, "{list}");
    assert_eq!(refused[0]["path"], text(&file), "{list}");
    let model = places::write(folder.path(), "model.onnx", onnx::small().finish());
    let output = folder.path().join("a.byoc");
    let mut command = byoc(&["compile", text(&model), "-o", text(&output), "--backend", "acme"]);
    outcome(command.args(["--plugin-dir", text(folder.path())])).fails(
        3,
        &format!(
            "error: [B303] there is no backend 'acme'\n  hint: Its plugin was not loaded: '{0}' cannot be loaded as a \
             plugin: {0}: file too short",
            text(&file)
        ),
    );
}

/// Of several backends of one name the first place wins: files, folders in order, the environment, the user's folder,
/// the program's own, and last what is embedded. The others are listed as shadowed.
#[test]
fn the_first_place_wins_and_the_others_are_listed() {
    let root = places::temporary();
    let place = |name: &str| {
        let folder = root.path().join(name);
        std::fs::create_dir_all(&folder).expect("the folder is ours");
        places::copy_into(&folder, &places::plugin("json"), "libbyoc_json.so")
    };
    let (file, first, second) = (place("file"), place("first"), place("second"));
    let (environment, user) = (place("environment"), place("data/byoc/plugins"));
    let own = place("lib/byoc/plugins");
    std::fs::create_dir(root.path().join("bin")).expect("the folder is ours");
    let program = places::copy_into(&root.path().join("bin"), program::path(), "byoc");
    let folder = |file: &Path| text(file.parent().expect("a folder")).to_owned();
    let mut command = std::process::Command::new(program);
    isolate(&mut command).args(["plugin", "list", "--json", "--plugin", text(&file)]);
    command.args(["--plugin-dir", &folder(&first), "--plugin-dir", &folder(&second)]);
    command.env("BYOC_PLUGIN_PATH", folder(&environment)).env("XDG_DATA_HOME", root.path().join("data"));
    let list: serde_json::Value = serde_json::from_str(outcome(&mut command).success()).expect("JSON");
    assert_eq!(list["backends"][0]["description"]["name"], "json", "{list}");
    assert_eq!(list["backends"][0]["origin"], text(&file), "{list}");
    let names = list["backends"].as_array().expect("a list").iter().map(|row| &row["description"]["name"]);
    assert_eq!(names.filter(|name| *name == "json").count(), 1, "{list}");
    let shadowed = list["shadowed"].as_array().expect("a list").iter().map(|row| &row["origin"]);
    let canonical = |path: &str| std::fs::canonicalize(path).unwrap_or_else(|_| PathBuf::from(path));
    let shadowed: Vec<_> = shadowed.map(|origin| canonical(origin.as_str().expect("text"))).collect();
    let others = [&first, &second, &environment, &user, &own].map(|path| canonical(text(path)));
    assert_eq!(shadowed[..5], others, "{list}");
    assert_eq!(shadowed[5..], [PathBuf::from("embedded")], "{list}");
}

#[test]
fn unknown_backends_and_options_have_suggestions() {
    let folder = places::temporary();
    let model = places::write(folder.path(), "model.onnx", onnx::small().finish());
    let cases: [(&[&str], i32, &str); 5] = [
        (&["--backend", "jsn"], 3, "[B303] there is no backend 'jsn'\n  hint: Did you mean 'json'?"),
        (
            &["--backend", "acme"],
            3,
            "[B303] there is no backend 'acme'\n  hint: There is json, kendryte; name further plugins with --plugin or --plugin-dir; -v shows where they are looked for",
        ),
        (
            &["--backend-opt", "json.kernel=fast"],
            2,
            "[B304] backend 'json': there is no option 'kernel'\n  hint: Did you mean 'kernels'?",
        ),
        (
            &["--backend-opt", "json.kernels=slow"],
            2,
            "[B304] backend 'json': option 'kernels' takes fast or reference, not 'slow'",
        ),
        (
            &["--backend-opt", "acme.size=1"],
            2,
            "[B304] option 'acme.size' belongs to no backend of the list json\n  hint: Write --backend-opt BACKEND.KEY=VALUE",
        ),
    ];
    let output = folder.path().join("model.byoc");
    for (arguments, code, message) in cases {
        let mut command = byoc(&["compile", text(&model), "-o", text(&output)]);
        outcome(command.args(arguments)).fails(code, &format!("error: {message}"));
        assert!(!output.exists());
    }
}

/// `y = (x + w) * w`, the sum on one plugin and the product on another: both read the one copy of `w`.
#[test]
fn two_plugins_share_a_constant() {
    let weights: Vec<f32> = (0..600).map(|i| i as f32 / 100.0).collect();
    let model = onnx::Model::default()
        .input("x", onnx::Type::Float, &[2, 300])
        .weight("w", &[2, 300], &weights)
        .node("Add", &["x", "w"], &["sum"])
        .node("Mul", &["sum", "w"], &["y"])
        .output("y", onnx::Type::Float, &[2, 300]);
    let folder = places::temporary();
    let model = places::write(folder.path(), "model.onnx", model.finish());
    let path = folder.path().join("model.byoc");
    let registry = engine::from_files(vec![places::plugin("template"), places::plugin("json")]);
    engine::compile(&model, &path, &registry, &["template", "json"]).expect("compiles");

    let artifact = Artifact::open(&path).expect("opens");
    let manifest = artifact.manifest();
    let regions: Vec<_> = manifest.regions.iter().map(|region| region.backend.as_str()).collect();
    assert_eq!(regions, ["template", "json"]);
    assert!(
        manifest
            .regions
            .iter()
            .all(|region| region.constants.len() == 1 && region.constants[0].claim == ClaimKind::Host)
    );
    assert_eq!(manifest.constants.len(), 1);
    let ledger = artifact.ledger().expect("it fits");
    let [row] = ledger else { panic!("{ledger:?}") };
    assert_eq!((row.names.as_slice(), row.bytes, row.fate), (["w".to_owned()].as_slice(), 2400, Fate::Stored));
    assert_eq!(row.readers, ["byoc_main_template_0", "byoc_main_json_0"]);

    let mut session = engine::load(&path, &registry, 1).expect("loads");
    let input = Tensor::f32(&[2, 300], &[2.0; 600]);
    let outputs = engine::run(&mut session, &[("x".to_owned(), input)]).expect("runs");
    let expected: Vec<f32> = weights.iter().map(|w| (2.0 + w) * w).collect();
    assert_eq!(outputs, [("y".to_owned(), Tensor::f32(&[2, 300], &expected))]);
}

/// The program without its plugin cannot run the artifact, and says which backend it misses.
#[test]
fn an_artifact_names_the_backend_it_misses() {
    let folder = places::temporary();
    let model = places::write(folder.path(), "model.onnx", onnx::scale().finish());
    let path = folder.path().join("model.byoc");
    let plugin = places::plugin("hostile");
    let mut command = byoc(&["compile", text(&model), "-o", text(&path), "--backend", "hostile"]);
    outcome(command.args(["--plugin", text(&plugin)])).success();
    outcome(&mut byoc(&["run", text(&path), "--fill", "ones"])).fails(
        3,
        "error: [B604] region byoc_main_hostile_0 needs the backend 'hostile': there is no backend 'hostile'\n  \
         hint: There is json, kendryte; name further plugins with --plugin or --plugin-dir; -v shows where they are looked for",
    );
}
