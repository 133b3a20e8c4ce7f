//! Files of other kinds than a verb reads: each is told by its contents, and none is called damaged.

use byoc_tests::folder::Folder;
use byoc_tests::npz;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::places;
use byoc_tests::tensor::Tensor;

use super::pictures;

/// A folder with a file of every kind, none of whose names tells what it is; the array is also an input of the model.
fn folder() -> Folder {
    let folder = Folder::compiled(small());
    npz::write(&folder.path().join("arrays"), &[("x", &Tensor::f32(&[2, 3], &[1.0; 6]))]);
    npz::write_one(&folder.path().join("array"), &Tensor::f32(&[2, 3], &[1.0; 6]));
    pictures::write_png(&folder.path().join("picture"), 3, 2);
    for (from, to) in [("model.onnx", "model"), ("model.byoc", "artifact")] {
        places::copy_into(folder.path(), &folder.path().join(from), to);
    }
    let convolution = Model::default()
        .input("x", Type::Float, &[1, 1, 8, 8])
        .weight("w", &[2, 1, 1, 1], &[0.5, -1.0])
        .node("Conv", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, 2, 8, 8]);
    let k210 = Folder::within(folder.path());
    k210.write("model.onnx", convolution.finish());
    npz::write(&k210.path().join("data.npz"), &[("x", &Tensor::f32(&[1, 1, 8, 8], &[0.5; 64]))]);
    k210.run(&["compile", "model.onnx", "-o", "model.byoc", "--dataset", "data.npz", "--backend", "kendryte,json"]);
    k210.run(&["inspect", "model.byoc", "--region", "byoc_main_kendryte_0", "--extract", "kmodel"]);
    places::copy_into(folder.path(), &k210.path().join("kmodel"), "kmodel");
    folder.write("text", "no artifact, and long enough to have a header");
    folder.write("empty", "");
    folder
}

/// What a file is, and the hint where an artifact, a model or values are read; `None` where it is one.
type Kind = (&'static str, &'static str, Option<&'static str>, Option<&'static str>, Option<&'static str>);

const INPUT: &str = "Values of inputs are given with --input";
const AGAIN: &str = "Copy the file again, or compile the model again";
const COMPLETE: &str = "Is the file complete, and was it exported as ONNX?";
const VALUES: &str = "Inputs are .npz and .npy files, tensors of ONNX (.pb), and PNG, JPEG and BMP images";
const COMPILED: &str = "It is compiled already: byoc run and byoc inspect take it as it is";

const KINDS: [Kind; 8] = [
    ("model", "an ONNX model", Some("Compile it first: byoc compile model -o model.byoc"), None, Some(VALUES)),
    ("artifact", "an artifact", None, Some("Name the model that it was compiled from"), Some(VALUES)),
    ("arrays", "an .npz file of arrays", Some(INPUT), Some(INPUT), None),
    ("array", "an .npy file with an array", Some(INPUT), Some(INPUT), None),
    ("picture", "an image", Some(INPUT), Some(INPUT), None),
    ("kmodel", "a file of the backend 'kendryte', kmodel v3", Some(COMPILED), Some(COMPILED), Some(VALUES)),
    ("text", "a text file", Some(AGAIN), Some(COMPLETE), Some(VALUES)),
    ("empty", "empty", Some(AGAIN), Some(COMPLETE), Some(VALUES)),
];

#[test]
fn verbs_tell_what_a_file_is() {
    let folder = folder();
    let before = places::list(folder.path());
    let fails = |command: &str, file: &str, code: i32, error: &str| {
        let arguments = command.replace("FILE", file);
        folder.byoc(&arguments.split(' ').collect::<Vec<_>>()).fails(code, &format!("error: {error}"));
    };
    for (file, is, artifact, model, values) in KINDS {
        let artifacts = ["check FILE", "swap FILE --from model.onnx -o new", "tune FILE --device sim:0 -o new"];
        for command in artifacts.iter().filter(|_| artifact.is_some()) {
            let hint = artifact.unwrap_or_default();
            fails(command, file, 1, &format!("[B602] '{file}' is not an artifact: it is {is}\n  hint: {hint}"));
        }
        let models = [
            "compile FILE -o new",
            "explain FILE",
            "repro FILE --region byoc_main_json_0 -o new",
            "swap model.byoc --from FILE -o new",
            "verify model.byoc --model FILE",
        ];
        for command in models.iter().filter(|_| model.is_some()) {
            let hint = model.unwrap_or_default();
            // The registry of `swap` is that of the program itself.
            fails(command, file, 1, &format!("[B101] '{file}' is not an ONNX model: it is {is}\n  hint: {hint}"));
        }
        if let Some(hint) = values {
            // Only backends know their files, and none is asked about inputs.
            let is = if file == "kmodel" { "of no known kind" } else { is };
            let error = format!("[B701] '{file}' is not a file of values: it is {is}\n  hint: {hint}");
            fails("run model.byoc -i FILE", file, 2, &error);
            fails("bench model.byoc -i x=FILE", file, 2, &error);
        }
    }
    assert_eq!(places::list(folder.path()), before, "a file is left");
}

/// Verbs that take a model, an artifact or a file of a backend know each by its contents, and say what others are.
#[test]
fn what_can_be_run_is_run_whatever_its_name() {
    let folder = folder();
    let verbs = ["run FILE --fill ones", "bench FILE --repeat 1", "inspect FILE"];
    for (file, is, hint, ..) in KINDS {
        for verb in verbs {
            let arguments = verb.replace("FILE", file);
            let outcome = folder.byoc(&arguments.split(' ').collect::<Vec<_>>());
            match file {
                "model" | "artifact" | "kmodel" => drop(outcome.success().to_owned()),
                // What is known of files of backends follows.
                "text" => {
                    let hint = hint.unwrap_or_default();
                    let error =
                        format!("error: [B602] 'text' is not an artifact: it is {is}\n  hint: {hint}. Files of");
                    assert!(outcome.code == Some(1) && outcome.stderr.starts_with(&error), "{}", outcome.stderr);
                }
                _ => {
                    let hint = hint.unwrap_or_default();
                    outcome.fails(1, &format!("error: [B602] '{file}' is not an artifact: it is {is}\n  hint: {hint}"));
                }
            }
        }
    }
    for (model, other) in [("model", "artifact"), ("artifact", "model")] {
        folder.run(&["verify", model, "--model", "model.onnx"]);
        assert!(folder.run(&["inspect", model]) != folder.run(&["inspect", other]));
    }
    // A name that says otherwise.
    places::copy_into(folder.path(), &folder.path().join("model.byoc"), "wrong.onnx");
    places::copy_into(folder.path(), &folder.path().join("model.onnx"), "wrong.byoc");
    folder.run(&["run", "wrong.onnx", "--fill", "ones"]);
    folder.run(&["run", "wrong.byoc", "--fill", "ones"]);
}

#[test]
fn a_model_that_is_cut_short_says_where() {
    let folder = Folder::empty();
    let whole = small().finish();
    let size = whole.len();
    folder.write("model.onnx", &whole[..size / 2]);
    let message = format!("it ends after {} bytes, within its graph", size / 2);
    for command in
        [&["compile", "model.onnx", "-o", "m.byoc"][..], &["inspect", "model.onnx"], &["explain", "model.onnx"]]
    {
        folder.byoc(command).fails(
            1,
            &format!(
                "error: [B101] 'model.onnx' is not an ONNX model: {message}\n  hint: Is the file complete? Copy or export it again"
            ),
        );
    }
}

#[test]
fn a_file_in_the_place_of_a_verb() {
    let folder = folder();
    let cases = [("model.onnx", "an ONNX model"), ("artifact", "an artifact"), ("missing.onnx", "a file")];
    for (file, is) in cases {
        folder.byoc(&[file]).fails(
            2,
            &format!("error: [B901] '{file}' is {is}, and a verb comes first\n  hint: Did you mean: byoc run {file}"),
        );
    }
}

#[test]
fn an_artifact_without_a_name_is_called_like_its_model() {
    let folder = Folder::empty();
    folder.write("m.v1.onnx", small().finish());
    std::fs::create_dir(folder.path().join("sub")).expect("the folder is ours");
    folder.write("sub/m.onnx", small().finish());
    let outcome = folder.byoc(&["compile", "sub/m.onnx"]);
    assert_eq!(outcome.stderr, "named after the model; --output names another file\n");
    assert!(outcome.success().starts_with("written to 'm.byoc', "), "{}", outcome.stdout);
    folder.run(&["compile", "m.v1.onnx"]);
    // An artifact of before is replaced, another file is not.
    folder.run(&["compile", "m.v1.onnx"]);
    assert_eq!(places::list(folder.path()), ["m.byoc", "m.v1.byoc", "m.v1.onnx", "sub"]);
    folder.byoc(&["compile", "m.byoc"]).fails(
        1,
        "error: [B101] 'm.byoc' is not an ONNX model: it is an artifact\n  hint: Name the model that it was compiled from",
    );
    folder.byoc(&["plugin", "test", "m.v1.byo"]).fails(
        1,
        "error: [B601] cannot read 'm.v1.byo': No such file or directory (os error 2)\n  hint: Did you mean 'm.v1.byoc'?",
    );
    folder.write("m.byoc", "notes");
    folder.byoc(&["compile", "sub/m.onnx"]).fails(
        2,
        "error: [B901] 'm.byoc' is there already, and is not an artifact\n  hint: Name the artifact with --output FILE",
    );
    assert_eq!(places::read(&folder.path().join("m.byoc")), b"notes");
    folder.byoc(&["compile", "m.v1.onnx", "sub/m.onnx"]).fails(
        2,
        "error: [B901] 2 models become one artifact, which has no name\n  hint: Name the artifact with --output FILE",
    );
}
