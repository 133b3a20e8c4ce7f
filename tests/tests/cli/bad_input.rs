//! What users get wrong, one exact message each: the exit code is right, nothing is printed as a result, no output file
//! is left, and one that was there before is as it was.

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, external, small, tensor};
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};

/// Compiles `model` and asserts the error, once without and once with an old output file.
/// What stands in the place of an output: of no known kind, since other kinds are not replaced at all.
const OLD: &[u8] = b"\x01old";

#[track_caller]
fn compile_fails(model: impl AsRef<[u8]>, arguments: &[&str], code: i32, message: &str) {
    let folder = Folder::empty();
    folder.write("model.onnx", model);
    compile_fails_in(&folder, arguments, code, message);
}

#[track_caller]
fn compile_fails_in(folder: &Folder, arguments: &[&str], code: i32, message: &str) {
    let arguments = [&["compile", "model.onnx", "-o", "model.byoc"], arguments].concat();
    let before = places::list(folder.path());
    folder.byoc(&arguments).fails(code, &format!("error: {message}"));
    assert_eq!(places::list(folder.path()), before, "a file is left");
    let old = folder.write("model.byoc", OLD);
    folder.byoc(&arguments).fails(code, &format!("error: {message}"));
    assert_eq!(places::read(&old), OLD);
    std::fs::remove_file(old).expect("the folder is ours");
    assert_eq!(places::list(folder.path()), before, "a file is left");
}

#[test]
fn files_that_are_no_models() {
    let cases: [(&[u8], &str); 4] = [
        (b"", "it is empty{complete}"),
        (
            b"PK\x03\x04 and so on",
            "it is a zip archive\n  hint: Unpack it; a PyTorch checkpoint is exported with torch.onnx.export",
        ),
        (b"just a text", "it is a text file{complete}"),
        (b"\x3a\x7f\x0a", "failed to decode Protobuf message: ModelProto.graph: buffer underflow{complete}"),
    ];
    let complete = "\n  hint: Is the file complete, and was it exported as ONNX?";
    for (bytes, cause) in cases {
        let cause = cause.replace("{complete}", complete);
        compile_fails(bytes, &[], 1, &format!("[B101] 'model.onnx' is not an ONNX model: {cause}"));
    }
    let folder = Folder::empty();
    compile_fails_in(&folder, &[], 1, "[B601] cannot open 'model.onnx': No such file or directory (os error 2)");
}

#[test]
fn unknown_operators_are_named_with_domain_and_version() {
    let io = |model: Model| model.input("x", Type::Float, &[2]).output("y", Type::Float, &[2]);
    let acme = io(Model::default()).domain("com.acme", 3).node_of(("com.acme", "Frobnicate"), &["x"], &["y"], &[]);
    compile_fails(
        acme.finish(),
        &[],
        1,
        "[B102] node 'make_y': operator com.acme.Frobnicate version 3 is not known, neither to byoc nor to json\n  hint: Add a backend that brings it to --backend, and its plugin with --plugin",
    );
    let future = io(Model::default()).node("Frobnicate", &["x"], &["y"]);
    compile_fails(
        future.finish(),
        &[],
        1,
        "[B102] node 'make_y': operator Frobnicate version 17 is not known, neither to byoc nor to json\n  hint: \
         docs/operators.md lists those that byoc knows; a plugin may bring others (--plugin, --backend)",
    );
    let fused = io(Model::default()).domain("com.microsoft", 1).node_of(
        ("com.microsoft", "LongformerAttention"),
        &["x"],
        &["y"],
        &[],
    );
    compile_fails(
        fused.finish(),
        &[],
        1,
        "[B102] node 'make_y': operator com.microsoft.LongformerAttention version 1 is not known, neither to byoc nor to json\n  hint: Take the model as it was \
         before ONNX Runtime optimised it",
    );
}

#[test]
fn wrong_types_and_shapes() {
    let float = |model: Model| model.input("x", Type::Float, &[2, 3]).output("y", Type::Float, &[2, 5]);
    let cases = [
        (
            float(Model::default()).input("i", Type::Int64, &[2, 3]).node("Add", &["x", "i"], &["y"]),
            "[B201] node 'make_y' (Add): input 1 is i64[2,3], but input 0 is f32[2,3]: both must have the same element type",
        ),
        (
            Model::default().input("x", Type::Undefined, &[2]).node("Identity", &["x"], &["y"]).output(
                "y",
                Type::Float,
                &[2],
            ),
            "[B103] input 'x': element type UNDEFINED is not supported\n  hint: byoc takes f32, f64, f16, bf16, i8, i16, i32, i64, \
             u8, u16, u32, u64, bool, f8e4m3fn, f8e4m3fnuz, f8e5m2, f8e5m2fnuz, f8e8m0, f4e2m1, i4, u4, i2, u2, c64, c128, string",
        ),
        (
            float(Model::default()).weight("w", &[4, 5], &[0.0; 20]).node("MatMul", &["x", "w"], &["y"]),
            "[B202] node 'make_y' (MatMul): the factors are f32[2,3] and f32[4,5]: 3 columns of the first against 4 rows of \
             the second",
        ),
        (
            float(Model::default()).tensor(tensor("v", Type::Float, &[3], vec![0; 8])).node("Relu", &["v"], &["y"]),
            "[B103] tensor 'v': f32[3] needs 12 bytes, but the file has 8",
        ),
        (
            float(Model::default()).node("Relu", &["nowhere"], &["y"]),
            "[B105] node 'make_y': nothing defines its input 'nowhere'",
        ),
    ];
    for (model, message) in cases {
        compile_fails(model.finish(), &[], 1, message);
    }
}

/// `y = x + w`, with `w` in a file at `location`.
fn with_external(location: &str) -> Vec<u8> {
    Model::default()
        .input("x", Type::Float, &[2])
        .tensor(external("w", &[2], location))
        .node("Add", &["x", "w"], &["y"])
        .output("y", Type::Float, &[2])
        .finish()
}

#[test]
fn external_data_stays_in_the_models_folder() {
    let folder = Folder::empty();
    let model = folder.path().join("model");
    std::fs::create_dir(&model).expect("the folder is ours");
    let secret = folder.write("secret", [0; 8]);
    let inner = Folder::within(&model);
    std::fs::write(model.join("secret"), [0; 8]).expect("the folder is ours");
    std::os::unix::fs::symlink(&secret, inner.path().join("link")).expect("links work");
    inner.write("short", [0; 4]);
    let no_path = |location: &str| {
        format!(
            "[B104] tensor 'w': external data '{location}' is not a relative path without '..'\n  hint: Export the model with \
             its data in one folder"
        )
    };
    let absolute = secret.to_str().expect("a plain path");
    let cases = [
        ("../secret", no_path("../secret")),
        ("a/../../secret", no_path("a/../../secret")),
        (absolute, no_path(absolute)),
        (
            "link",
            "[B104] tensor 'w': external data 'link' is a link to outside the model's folder\n  hint: Copy the file in place \
             of the link ('cp -L')"
                .into(),
        ),
        (
            "missing",
            "[B104] tensor 'w': external data 'missing' cannot be opened: No such file or directory (os error 2)\n  hint: \
             The file belongs in the model's folder, under the name that it had at the export"
                .into(),
        ),
        (
            "short",
            "[B104] tensor 'w': 'short' has 4 bytes, but 8 at offset 0 are referenced\n  hint: Is the file complete, and \
             does it belong to this model?"
                .into(),
        ),
    ];
    for (location, message) in cases {
        inner.write("model.onnx", with_external(location));
        compile_fails_in(&inner, &[], 1, &message);
    }
}

#[test]
fn inputs_of_a_wrong_name_shape_or_type() {
    let folder = Folder::compiled(small());
    let right = Tensor::f32(&[2, 3], &[1.0; 6]);
    let whole = Tensor::new(byoc_plugin_api::DType::I64, vec![2, 3], vec![0; 48]);
    let cases = [
        ("z", &right, "[B701] there is no input 'z', which 'in.npz' gives\n  hint: The inputs are: x"),
        ("x", &Tensor::f32(&[3, 2], &[1.0; 6]), "[B701] input 'x' has shape [3,2], the entry takes [2,3]"),
        ("x", &Tensor::f32(&[6], &[1.0; 6]), "[B701] input 'x' has shape [6], the entry takes [2,3]"),
        (
            "x",
            &whole,
            "[B701] input 'x' is i64 in 'in.npz', the entry takes f32\n  hint: Convert it with NumPy's astype('float32')",
        ),
    ];
    for (name, tensor, message) in cases {
        npz::write(&folder.path().join("in.npz"), &[(name, tensor)]);
        folder.byoc(&["run", "model.byoc", "-i", "in.npz", "-o", "out.npz"]).fails(2, &format!("error: {message}"));
    }
    folder.byoc(&["run", "model.byoc", "-o", "out.npz"]).fails(
        2,
        "error: [B701] input 'x' is not given\n  hint: Give it with --input, or make it up with --fill random. The inputs \
         are: x: f32[2,3]",
    );
    assert_eq!(places::list(folder.path()), ["in.npz", "model.byoc", "model.onnx"]);
}

#[test]
fn placement_policies() {
    let template = places::plugin("template");
    let template = template.to_str().expect("a plain path");
    let mixed = ["--plugin", template, "--backend", "template,json"];
    let cases: [(&[&str], &str); 4] = [
        (
            &["--require", "template=MatMul"],
            "[B402] --require template=MatMul: node 'make_product' (MatMul) goes to json (template: no pattern matches)",
        ),
        (&["--require", "json=Conv*"], "[B402] --require json=Conv*: the model has no such node"),
        (&["--no-fallback"], "[B402] --no-fallback: 3 nodes go to a host backend, first 'make_product' (MatMul)"),
        (&["--max-host-nodes", "2"], "[B402] --max-host-nodes 2: 3 nodes go to a host backend"),
    ];
    for (arguments, message) in cases {
        let message = format!("{message}\n  hint: byoc explain has the reasons, node by node");
        compile_fails(small().finish(), &[&mixed, arguments].concat(), 4, &message);
    }
    compile_fails(
        small().finish(),
        &["--plugin", template, "--backend", "template"],
        4,
        "[B401] no backend of the list template takes node 'make_product' (MatMul) and 2 more: template: no pattern \
         matches\n  hint: Add a host backend at the end of the list; byoc plugin list shows what there is",
    );
}

#[test]
fn usage_errors_exit_with_two() {
    let folder = Folder::compiled(small());
    let help = folder.byoc(&[]);
    assert_eq!((help.code, help.stdout.as_str()), (Some(2), ""), "{}", help.stderr);
    assert!(help.stderr.contains("Usage: byoc"), "{}", help.stderr);
    let stages = "It takes one of: onnx, passes, partition, codegen, ownership, artifact";
    let see = |verb: &str| format!("`byoc {verb} --help` shows what there is");
    let cases: [(&[&str], &str, String); 5] = [
        (&["frobnicate"], "'frobnicate' is not a verb of byoc", "`byoc --help` shows what there is".into()),
        (&["compile"], "byoc compile needs <[NAME=]MODEL.onnx>...", see("compile")),
        (
            &["compile", "model.onnx", "-o", "b.byoc", "--stop-after", "lunch"],
            "'lunch' is not a value of --stop-after <STAGE>",
            stages.into(),
        ),
        (
            &["run", "model.byoc", "--fill", "sevens"],
            "'sevens' is not a value of --fill <MODE>",
            "It takes one of: random, zeros, ones".into(),
        ),
        (
            &["bench", "model.byoc", "--duration", "soon"],
            "'soon' is not a value of --duration <SECONDS>: expected a number of seconds",
            see("bench"),
        ),
    ];
    for (arguments, message, hint) in cases {
        folder.byoc(arguments).fails(2, &format!("error: [B901] {message}\n  hint: {hint}"));
    }
    let shape = ["compile", "model.onnx", "-o", "b.byoc", "--shape", "z:1x3"];
    folder.byoc(&shape).fails(2, "error: [B204] the model has no input 'z'\n  hint: Its inputs are: x");
    let dim = ["compile", "model.onnx", "-o", "b.byoc", "--dim", "batch=4"];
    let message = "the model has no dimension 'batch'\n  hint: All dimensions of its inputs are fixed";
    folder.byoc(&dim).fails(2, &format!("error: [B204] {message}"));
}

#[test]
fn a_mismatch_is_told_and_exits_with_six() {
    let folder = Folder::compiled(small());
    let values = [0.5, 0.0, 0.5, 1.0, 0.5, 0.0, 0.5, 2.0];
    npz::write(&folder.path().join("wrong.npz"), &[("y", &Tensor::f32(&[2, 4], &values))]);
    let outcome = folder.byoc(&["verify", "model.byoc", "--fill", "ones", "--reference", "wrong.npz"]);
    assert_eq!(outcome.code, Some(6), "{}", outcome.stderr);
    let outcome = folder.byoc(&["verify", "model.byoc", "--fill", "ones", "--reference", "wrong.npz", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    assert_eq!((outcome.code, &found["matches"]), (Some(6), &serde_json::Value::Bool(false)));
    npz::write(&folder.path().join("other.npz"), &[("z", &Tensor::f32(&[1], &[0.0]))]);
    folder
        .byoc(&["verify", "model.byoc", "--fill", "ones", "--reference", "other.npz"])
        .fails(2, "error: [B702] there is no output 'z', which the reference has\n  hint: The outputs are: y");
}

/// A pipe that nobody writes to could be waited for for ever, so none is opened.
#[test]
fn data_comes_from_regular_files() {
    let folder = Folder::compiled(small());
    for name in ["pipe.npz", "pipe.npy"] {
        let made = std::process::Command::new("mkfifo").arg(folder.path().join(name)).status();
        assert!(made.expect("it is there").success());
    }
    let commands: [(&[&str], &str); 5] = [
        (&["run", "model.byoc", "-i", "pipe.npz"], "pipe.npz"),
        (&["run", "model.byoc", "-i", "x=@pipe.npy"], "pipe.npy"),
        (&["verify", "model.byoc", "--fill", "ones", "--reference", "pipe.npz"], "pipe.npz"),
        (&["compile", "model.onnx", "-o", "new.byoc", "--dataset", "pipe.npz"], "pipe.npz"),
        (&["compile", "model.onnx", "-o", "new.byoc", "--dataset", "pipe.npy"], "pipe.npy"),
    ];
    for (command, pipe) in commands {
        folder.byoc(command).fails(
            1,
            &format!(
                "error: [B601] cannot read '{pipe}': it is not a regular file\n  hint: Copy its contents into a file"
            ),
        );
    }
}

/// The artifact is right, but not what the model says: whoever goes by the model is told.
#[test]
fn outputs_that_are_not_what_the_model_declares_are_told() {
    let folder = Folder::empty();
    let model = |ty, shape: &[i64]| {
        let model = Model::default().input("x", Type::Float, &[2]).node("Relu", &["x"], &["y"]);
        model.output("y", ty, shape).finish()
    };
    let hint = "\n  hint: The output is what is computed; correct its declared type\n";
    let cases: [(Type, &[i64], &str); 5] = [
        (Type::Float, &[2], ""),
        (Type::Float, &[-1], ""),
        (Type::Float, &[7, 7], "warning: [B202] output 'y' is declared as f32[7,7] in the model, and is f32[2]"),
        (Type::Float, &[-1, 2], "warning: [B202] output 'y' is declared as f32[?,2] in the model, and is f32[2]"),
        (Type::Int64, &[2], "warning: [B201] output 'y' is declared as i64[2] in the model, and is f32[2]"),
    ];
    for (ty, shape, warning) in cases {
        folder.write("model.onnx", model(ty, shape));
        let expected = if warning.is_empty() { String::new() } else { format!("{warning}{hint}") };
        for command in [
            &["compile", "model.onnx", "-o", "model.byoc", "--check-reproducible"][..],
            &["run", "model.onnx", "--fill", "ones"],
        ] {
            let found = folder.byoc(command);
            assert_eq!((found.code, found.stderr.as_str()), (Some(0), expected.as_str()), "{command:?}");
        }
    }
}

/// A loop that would run forever ends at the limit that its user sets.
#[test]
fn iterations_beyond_the_limit() {
    let body = Model::default().input("i", Type::Int64, &[]).input("on", Type::Bool, &[]).input("v", Type::Float, &[2]);
    let body = body.node("Relu", &["v"], &["w"]).output("on", Type::Bool, &[]).output("w", Type::Float, &[2]);
    let model = Model::default().input("x", Type::Float, &[2]).node("Loop", &["", "", "x"], &["y"]).body("body", body);
    let folder = Folder::empty();
    folder.write("model.onnx", model.output("y", Type::Float, &[2]).finish());
    let arguments = ["run", "model.onnx", "-o", "out.npz", "--fill", "ones", "--max-iterations", "1000"];
    let message = "error: [B703] 'make_y': the run takes more than 1000 iterations\n  \
                   hint: Raise --max-iterations, if the model is to run so long";
    folder.byoc(&arguments).fails(1, message);
    assert_eq!(places::list(folder.path()), ["model.onnx"]);
}
