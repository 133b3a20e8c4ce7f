//! Artifacts that take constants from the model's own files: what they compute, what they cost, how they are moved, and
//! that a file which is not the one of the compile is refused by name.

use byoc_plugin_api::testing::{Rng, Tensor};
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, external_at};
use byoc_tests::places;
use serde_json::Value;

/// Rows and columns of the large weight: 2 MiB.
const SHAPE: [i64; 2] = [1024, 512];

/// Most bytes of an artifact that holds no large constant.
const SMALL: usize = 12 * 1024;

/// What is packed is in no file as it is.
const AS_THEY_ARE: [&str; 2] = ["--backend-opt", "cpu.pack=false"];

const FILL: [&str; 4] = ["--fill", "random", "--seed", "3"];

/// Numbers that repeat nowhere.
fn values(seed: u64, count: i64) -> Vec<f32> {
    Tensor::random([count as usize], -0.5..0.5, &mut Rng::with_seed(seed)).to_vec()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `y = relu(x * fc1.weight + fc1.bias)`, of which the bias is too small to be referred to.
fn body(model: Model) -> Model {
    let [rows, columns] = SHAPE;
    model
        .input("x", Type::Float, &[2, rows])
        .weight("fc1.bias", &[columns], &values(5, columns))
        .node("MatMul", &["x", "fc1.weight"], &["product"])
        .node("Add", &["product", "fc1.bias"], &["sum"])
        .node("Relu", &["sum"], &["y"])
        .output("y", Type::Float, &[2, columns])
}

/// The model with its weight in the file itself, where it is not a multiple of four bytes from the start.
fn in_one_file() -> Vec<u8> {
    let weight = values(7, SHAPE[0] * SHAPE[1]);
    let model = (0..4).map(|pad| {
        let aside = "a".repeat(pad + 1);
        body(Model::default().weight(&aside, &[1], &[0.5]).weight("fc1.weight", &SHAPE, &weight)).finish()
    });
    let head = bytes(&weight[..16]);
    let at = |model: &[u8]| model.windows(head.len()).position(|window| window == head).expect("the weight");
    model.into_iter().find(|model| at(model) % 4 == 1).expect("one of four lengths fits")
}

/// A folder with `model.onnx`, whose weight stands in `model.data` after a page of something else.
fn in_two_files() -> Folder {
    let folder = Folder::empty();
    let model = body(Model::default().tensor(external_at("fc1.weight", &SHAPE, "model.data", 4096)));
    folder.write("model.onnx", model.finish());
    folder.write("model.data", data());
    folder
}

fn data() -> Vec<u8> {
    [vec![7; 4096], bytes(&values(7, SHAPE[0] * SHAPE[1]))].concat()
}

fn compile(folder: &Folder, output: &str) {
    let flags = ["--external-constants", "--check-reproducible"];
    folder.byoc(&[&["compile", "model.onnx", "-o", output], &flags[..], &AS_THEY_ARE].concat()).success();
}

/// The outputs of a run, as a file.
fn outputs(folder: &Folder, artifact: &str, flags: &[&str]) -> Vec<u8> {
    folder.byoc(&[&["run", artifact, "-o", "out.npz"], &FILL[..], flags].concat()).success();
    places::read(&folder.path().join("out.npz"))
}

fn json(folder: &Folder, arguments: &[&str]) -> Value {
    serde_json::from_str(folder.byoc(&[arguments, &["--json"]].concat()).success()).expect("JSON")
}

/// Compiles the model in both ways and compares all there is to compare; `file` is where the weight stands.
fn same_results(folder: &Folder, file: &str) {
    folder.byoc(&[&["compile", "model.onnx", "-o", "whole.byoc"][..], &AS_THEY_ARE].concat()).success();
    compile(folder, "m.byoc");
    let size = places::read(&folder.path().join("m.byoc")).len();
    assert!(size <= SMALL, "{size} bytes");
    let expected = outputs(folder, "whole.byoc", &[]);
    assert!(outputs(folder, "m.byoc", &[]) == expected, "the results differ");
    for verb in [
        &["bench", "m.byoc", "--repeat", "1"][..],
        &["verify", "m.byoc", "--model", "model.onnx"],
        &["check", "m.byoc"],
        &["inspect", "m.byoc", "--verify-digests"],
    ] {
        folder.byoc(verb).success();
    }
    let found = json(folder, &["inspect", "m.byoc", "--constants"]);
    let weight = (SHAPE[0] * SHAPE[1] * 4) as u64;
    assert_eq!((&found["totals"]["external"], &found["totals"]["file"]), (&weight.into(), &size.into()));
    assert!(found["totals"]["stored"].as_u64() < Some(4096), "{}", found["totals"]);
    assert_eq!(found["files"][0]["path"], file);
    let table = folder.byoc(&["inspect", "m.byoc", "--constants"]);
    assert!(table.success().contains("2.0 MiB in other files"), "{}", table.stdout);
    let row = table.stdout.lines().find(|line| line.contains(" fc1.weight ")).expect("a row");
    assert!(row.contains(&format!("  {file}@")), "{row}");
    assert!(!folder.byoc(&["inspect", "m.byoc", "--sections"]).success().contains("1024"));
}

#[test]
fn weights_in_the_model_file_need_no_copy() {
    let folder = Folder::empty();
    folder.write("model.onnx", in_one_file());
    same_results(&folder, "model.onnx");
    let found = json(&folder, &["inspect", "m.byoc", "--constants"]);
    let stored = found["stored"].as_array().expect("a list").iter();
    let offsets: Vec<_> = stored.filter_map(|stored| stored["external"]["offset"].as_u64()).collect();
    assert!(matches!(offsets[..], [offset] if offset % 4 == 1), "{offsets:?}");
}

#[test]
fn weights_in_a_data_file_need_no_copy() {
    let folder = in_two_files();
    same_results(&folder, "model.data");
    // Read into memory, the files are the same.
    let arguments = ["compile", "model.onnx", "-o", "read.byoc", "--external-constants", "--no-mmap"];
    folder.byoc(&[&arguments[..], &AS_THEY_ARE].concat()).success();
    let artifact = |name: &str| places::read(&folder.path().join(name));
    assert!(artifact("read.byoc") == artifact("m.byoc"));
    // The model itself is not needed.
    std::fs::remove_file(folder.path().join("model.onnx")).expect("the folder is ours");
    outputs(&folder, "m.byoc", &[]);
}

#[test]
fn a_moved_artifact_is_told_where_the_constants_are() {
    let folder = in_two_files();
    std::fs::create_dir_all(folder.path().join("out/deep")).expect("a folder");
    compile(&folder, "out/deep/m.byoc");
    let expected = outputs(&folder, "out/deep/m.byoc", &[]);
    let found = json(&folder, &["inspect", "out/deep/m.byoc", "--constants"]);
    assert_eq!(found["files"][0]["path"], "../../model.data");
    std::fs::rename(folder.path().join("out/deep/m.byoc"), folder.path().join("m.byoc")).expect("moved");
    std::fs::create_dir(folder.path().join("weights")).expect("a folder");
    std::fs::rename(folder.path().join("model.data"), folder.path().join("weights/model.data")).expect("moved");
    let from = ["--constants-from", "weights"];
    assert!(outputs(&folder, "m.byoc", &from) == expected, "the results differ");
    for verb in [
        &["bench", "m.byoc", "--repeat", "1"][..],
        &["check", "m.byoc"],
        &["inspect", "m.byoc", "--verify-digests"],
        &["verify", "m.byoc", "--reference", "out.npz", "--fill", "random", "--seed", "3"],
    ] {
        folder.byoc(&[verb, &from].concat()).success();
    }
    // What needs no constant needs no file.
    folder.byoc(&["inspect", "m.byoc", "--constants", "--regions", "--sections"]).success();
    folder.byoc(&["run", "model.onnx", "--fill", "ones", "--constants-from", "weights"]).fails(
        2,
        "error: [B901] 'model.onnx' is a model, so it takes no --constants-from\n  hint: Leave the flag out, or name the \
         artifact",
    );
}

#[test]
fn the_same_layout_gives_the_same_bytes() {
    let artifacts = [in_two_files(), in_two_files()].map(|folder| {
        compile(&folder, "m.byoc");
        let bytes = places::read(&folder.path().join("m.byoc"));
        let name = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
        assert!(!bytes.windows(name.len()).any(|window| window == name.as_bytes()), "a path of this machine is in it");
        bytes
    });
    assert!(artifacts[0] == artifacts[1]);
}

#[test]
fn another_file_is_refused_by_name() {
    let folder = in_two_files();
    compile(&folder, "m.byoc");
    let path = folder.path().join("model.data");
    let whole = data();
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let length = whole.len();
    let cases = [
        (whole[..length - 1].to_vec(), format!("it has {} bytes, not {length}", length - 1)),
        ([whole.as_slice(), b"x"].concat(), format!("it has {} bytes, not {length}", length + 1)),
        (Vec::new(), format!("it has 0 bytes, not {length}")),
        (changed(4096), "`fc1.weight` differs".to_owned()),
        (changed(length - 1), "`fc1.weight` differs".to_owned()),
    ];
    for (bytes, cause) in cases {
        folder.write("model.data", bytes);
        refused(&folder, &format!("'model.data' is not the file that 'm.byoc' was compiled from: {cause}"), OTHER);
    }
    folder.write("model.data", changed(0));
    outputs(&folder, "m.byoc", &[]);
    std::fs::remove_file(&path).expect("the folder is ours");
    let missing = "cannot open 'model.data': No such file or directory (os error 2)";
    refused(&folder, &format!("'m.byoc' takes constants from 'model.data': {missing}"), MISSING);
    folder.byoc(&[&["run", "m.byoc", "--constants-from", "none"], &FILL[..]].concat()).fails(
        1,
        &format!(
            "error: [B605] 'm.byoc' takes constants from 'model.data': cannot open 'none/model.data': No such file or \
             directory (os error 2){MISSING}"
        ),
    );
    std::fs::create_dir(&path).expect("the folder is ours");
    let cause = "cannot map 'model.data': it is not a regular file";
    refused(&folder, &format!("'m.byoc' takes constants from 'model.data': {cause}"), MISSING);
}

const MISSING: &str = "\n  hint: Put the file back, or name its folder with --constants-from DIR";

const OTHER: &str =
    "\n  hint: Put that file back, name its folder with --constants-from DIR, or compile the model again";

/// Every verb that loads the artifact ends with that error.
#[track_caller]
fn refused(folder: &Folder, message: &str, hint: &str) {
    for verb in [
        &[&["run", "m.byoc"], &FILL[..]].concat()[..],
        &["bench", "m.byoc"],
        &["verify", "m.byoc", "--model", "model.onnx"],
        &["check", "m.byoc"],
        &["inspect", "m.byoc", "--verify-digests"],
    ] {
        folder.byoc(verb).fails(1, &format!("error: [B605] {message}{hint}"));
    }
}

/// Entries of several models, each of which has its files; equal weights are referred to once.
#[test]
fn every_entry_has_its_own_files() {
    let folder = in_two_files();
    std::fs::create_dir(folder.path().join("other")).expect("a folder");
    let other = body(Model::default().weight("fc2.weight", &SHAPE, &values(11, SHAPE[0] * SHAPE[1])))
        .node("MatMul", &["x", "fc2.weight"], &["z"])
        .output("z", Type::Float, &[2, SHAPE[1]]);
    let other = other.tensor(external_at("fc1.weight", &SHAPE, "model.data", 4096));
    folder.write("other/model.onnx", other.finish());
    folder.write("other/model.data", data());
    let models = ["first=model.onnx", "second=other/model.onnx"];
    let arguments = [&["compile"], &models[..], &["-o", "m.byoc", "--external-constants"], &AS_THEY_ARE].concat();
    folder.byoc(&arguments).success();
    let found = json(&folder, &["inspect", "m.byoc", "--constants"]);
    let files: Vec<_> = found["files"].as_array().expect("a list").iter().map(|file| &file["path"]).collect();
    assert_eq!(files, ["model.data", "other/model.onnx"]);
    folder.byoc(&[&["compile"], &models[..], &["-o", "whole.byoc"], &AS_THEY_ARE].concat()).success();
    for entry in ["first", "second"] {
        let expected = outputs(&folder, "whole.byoc", &["--entry", entry]);
        assert!(outputs(&folder, "m.byoc", &["--entry", entry]) == expected, "the results of {entry} differ");
    }
}

#[test]
fn a_file_that_is_read_is_never_written() {
    let folder = in_two_files();
    let model = places::read(&folder.path().join("model.onnx"));
    let data_path = folder.path().canonicalize().expect("it is there").join("model.data").display().to_string();
    let message = |output: &str, input: &str, role: &str| {
        let message = format!("the output '{output}' is the file '{input}', which is read as {role}");
        format!("error: [B901] {message}\n  hint: Write the output to another file")
    };
    for (output, input, role) in [
        ("model.onnx", "model.onnx", "a model"),
        ("model.data", &data_path, "data of a model"),
        ("./model.data", &data_path, "data of a model"),
    ] {
        for flags in [&[][..], &["--external-constants"]] {
            let arguments = [&["compile", "model.onnx", "-o", output], flags].concat();
            folder.byoc(&arguments).fails(2, &message(output, input, role));
        }
    }
    std::os::unix::fs::symlink("model.onnx", folder.path().join("link.onnx")).expect("a link");
    folder.byoc(&["compile", "link.onnx", "-o", "model.onnx"]).fails(2, &message("model.onnx", "link.onnx", "a model"));
    assert!(places::read(&folder.path().join("model.onnx")) == model);
    assert!(places::read(&folder.path().join("model.data")) == data());
}

/// A swap would leave FILE2 with references that its place in the file system may break.
#[test]
fn swap_is_refused() {
    let folder = in_two_files();
    compile(&folder, "m.byoc");
    folder.byoc(&["swap", "m.byoc", "--from", "model.onnx", "-o", "n.byoc"]).fails(
        1,
        "error: [B504] cannot swap constants of 'm.byoc': it refers to 'model.data'\n  \
         hint: Compile the new model; with --external-constants that copies no weight",
    );
    assert!(!places::list(folder.path()).contains(&"n.byoc".to_owned()));
}
