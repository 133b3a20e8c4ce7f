//! Files that are code of a backend by themselves: they are shown and run like artifacts, come out of artifacts, and what
//! their backend says of them is not trusted.

use byoc_core::artifact::Artifact;
use byoc_tests::fixture::c_plugin_of_today;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::program::{Outcome, without_places};
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};
use serde_json::{Value, json};

/// A folder with the plugin `file_format`, which takes files that end with `.scale`.
struct Bench {
    folder: Folder,
    plugin: String,
}

impl Bench {
    fn new() -> Bench {
        let plugin = places::plugin("file_format").to_str().expect("a plain path").to_owned();
        Bench { folder: Folder::empty(), plugin }
    }

    /// With a file of one line, changed as a test wants it.
    fn with(name: &str, change: Value) -> Bench {
        let bench = Bench::new();
        let mut file = json!({ "version": 1, "x": "in", "y": "out", "shape": [2, 2], "by": [2.5f32.to_bits()] });
        if let (Some(file), Value::Object(change)) = (file.as_object_mut(), change) {
            file.extend(change);
        }
        bench.folder.write(name, format!("{file}\n"));
        bench
    }

    /// With a model of a scaled input behind a `Relu`, and what `file-format` and the host backend make of it.
    fn compiled(by: f32) -> Bench {
        let bench = Bench::new();
        bench.folder.write("model.onnx", model(by).finish());
        bench.byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "file-format,json"]).success();
        bench
    }

    fn byoc(&self, arguments: &[&str]) -> Outcome {
        self.folder.byoc(&[arguments, &["--plugin", self.plugin.as_str()]].concat())
    }
}

fn model(by: f32) -> Model {
    Model::default()
        .input("x", Type::Float, &[2, 2])
        .weight("by", &[1], &[by])
        .node("Relu", &["x"], &["positive"])
        .node("Mul", &["positive", "by"], &["y"])
        .output("y", Type::Float, &[2, 2])
}

const STEPS: &str = "\nsteps\nstep  factor\nMul      2.5\n";

#[test]
fn a_file_is_shown() {
    for name in ["a.scale", "A.SCALE"] {
        let bench = Bench::with(name, json!({}));
        let size = places::read(&bench.folder.path().join(name)).len();
        let shown = bench.byoc(&["inspect", name]);
        let values = "input  in: f32[2,2]\noutput out: f32[2,2]\n";
        assert_eq!(
            shown.success(),
            format!("{name}: scale v1, {size} B, for the backend file-format\n{values}{STEPS}")
        );
        let shown: Value = serde_json::from_str(bench.byoc(&["inspect", name, "--json"]).success()).expect("JSON");
        let expected = json!({
            "schema": 1,
            "format": "scale v1",
            "file_bytes": size,
            "inputs": [{ "name": "in", "dtype": "f32", "shape": [2, 2] }],
            "outputs": [{ "name": "out", "dtype": "f32", "shape": [2, 2] }],
            "tables": [{ "title": "steps", "columns": ["step", ">factor"], "rows": [["Mul", "2.5"]] }],
            "notes": [],
        });
        assert_eq!(shown, expected);
    }
}

#[test]
fn a_file_is_run_like_an_artifact() {
    let bench = Bench::with("a.scale", json!({}));
    let input = Tensor::f32(&[2, 2], &[1.0, -2.0, 0.5, 4.0]);
    npz::write(&bench.folder.path().join("in.npz"), &[("in", &input)]);
    let run = ["run", "a.scale", "-i", "in.npz", "-o", "out.npz", "--threads", "1"];
    bench.byoc(&run).success();
    let found = npz::read(&bench.folder.path().join("out.npz"));
    assert_eq!(npz::find(&found, "out"), Tensor::f32(&[2, 2], &[2.5, -5.0, 1.25, 10.0]));
    bench.byoc(&["verify", "a.scale", "-i", "in.npz", "--reference", "out.npz"]).success();
    let profile = bench.byoc(&["run", "a.scale", "--fill", "ones", "--profile", "--json"]);
    let profile: Value = serde_json::from_str(profile.success()).expect("JSON");
    assert_eq!(
        (&profile["outputs"][0]["max"], &profile["regions"][0]["backend"]),
        (&json!(2.5), &json!("file-format"))
    );
    let timed = bench.byoc(&["bench", "a.scale", "--repeat", "1", "--warmup", "0", "--json"]);
    assert!(serde_json::from_str::<Value>(timed.success()).is_ok());
}

#[test]
fn flags_that_a_file_does_not_take_are_errors() {
    let bench = Bench::with("a.scale", json!({}));
    let cases: [(&[&str], &str); 7] = [
        (
            &["run", "a.scale", "--backend", "json"],
            "[B901] 'a.scale' is compiled already, so it takes no --backend\n  hint: Leave the flag out, or name the .onnx model",
        ),
        (
            &["run", "a.scale", "--constants-from", "."],
            "[B901] 'a.scale' is a file of a backend's own, so it takes no --constants-from\n  hint: Leave the flag out, or name the artifact",
        ),
        (
            &["run", "a.scale", "--entry", "main"],
            "[B702] 'a.scale' has one entry, which has no name\n  hint: Leave out --entry",
        ),
        (
            &["run", "a.scale"],
            "[B701] input 'in' is not given\n  hint: Give it with --input, or make it up with --fill random. The inputs are: in: f32[2,2]",
        ),
        (
            &["run", "a.scale", "--fill", "ones", "--dim", "n=2"],
            "[B204] the entry has no dimension 'n'\n  hint: All dimensions of its inputs are fixed",
        ),
        (
            &["inspect", "a.scale", "--regions"],
            "[B901] 'a.scale' is a file of a backend's own; only an artifact has these parts\n  hint: Leave the flags out",
        ),
        (
            &["inspect", "a.scale", "--region", "byoc_main_file-format_0"],
            "[B901] 'a.scale' is a file of a backend's own; only an artifact has these parts\n  hint: Leave the flags out",
        ),
    ];
    for (arguments, message) in cases {
        bench.byoc(arguments).fails(2, &format!("error: {message}"));
    }
}

/// What a file says, and what comes of showing it.
#[test]
fn files_that_cannot_be_read_are_errors() {
    let answer = |change: fn(&mut Value)| {
        let value = json!({ "name": "x", "dtype": "f32", "shape": [2] });
        let table = json!({ "title": "t", "columns": ["a", "b"], "rows": [["1", "2"]] });
        let mut answer = json!({ "format": "f", "file_bytes": 1, "inputs": [value], "outputs": [], "tables": [table] });
        change(&mut answer);
        json!({ "answer": answer })
    };
    let invalid = "what it says of the file is not valid: ";
    let cases: [(Value, i32, &str, String); 8] = [
        (json!({ "version": 0 }), 1, "B606", "it does not say which version it has".into()),
        (json!({ "version": 2 }), 1, "B606", "it is of version 2\n  hint: Install a newer file-format".into()),
        (
            answer(|answer| answer["file_bytes"] = json!(99_999)),
            1,
            "B606",
            format!("{invalid}it would have 99999 bytes, and has "),
        ),
        (
            answer(|answer| answer["inputs"][0]["shape"] = json!(["n"])),
            1,
            "B606",
            format!("{invalid}the shape of input 'x' is not fixed"),
        ),
        (
            answer(|answer| answer["inputs"][0]["name"] = json!("\n")),
            1,
            "B606",
            format!("{invalid}an input has no name"),
        ),
        (
            answer(|answer| answer["inputs"][0]["shape"] = json!([1u64 << 40, 1u64 << 40])),
            1,
            "B606",
            format!("{invalid}the shape of input 'x' is too large"),
        ),
        (
            answer(|answer| answer["tables"][0]["rows"] = json!([["1"]])),
            1,
            "B606",
            format!("{invalid}a row of the table 't' has 1 cells for 2 columns"),
        ),
        (json!({ "fault": "panic" }), 1, "B606", "backend panicked: as asked".into()),
    ];
    for (change, code, id, cause) in cases {
        let bench = Bench::with("a.scale", change);
        for verb in [&["inspect", "a.scale"][..], &["run", "a.scale", "--fill", "ones"]] {
            let found = bench.byoc(verb);
            let expected = format!("error: [{id}] backend 'file-format' cannot read 'a.scale': {cause}");
            let told = without_places(&found.stderr);
            let error = told.trim_end();
            let exact = if cause.ends_with(' ') { error.starts_with(&expected) } else { error == expected };
            assert!(found.code == Some(code) && exact, "expected {expected}\nfound {error}");
        }
    }
}

#[test]
fn a_file_that_is_no_such_file_or_crashes_its_backend_is_an_error() {
    let bench = Bench::new();
    bench.folder.write("a.scale", "no line");
    bench
        .byoc(&["inspect", "a.scale"])
        .fails(1, "error: [B606] backend 'file-format' cannot read 'a.scale': it is cut short");
    let crash = Bench::with("a.scale", json!({ "fault": "crash" }));
    let message = "[B307] backend 'file-format' crashed (signal 6) while it read 'a.scale'\n  hint: Report this to the backend's maker";
    crash.byoc(&["inspect", "a.scale"]).fails(5, &format!("error: {message}"));
}

/// Control characters, in every text that an answer has.
#[test]
fn what_a_backend_says_is_one_line_each() {
    let evil = "a\u{1b}[31m\nb";
    let answer = json!({
        "format": evil, "file_bytes": 0,
        "inputs": [{ "name": evil, "dtype": "f32", "shape": [] }], "outputs": [],
        "tables": [{ "title": evil, "columns": [evil], "rows": [[evil]] }],
    });
    let bench = Bench::with("a.scale", json!({ "answer": answer }));
    let text = "a [31m b";
    let expected =
        format!("a.scale: {text}, 0 B, for the backend file-format\ninput  {text}: f32[]\n\n{text}\n{text}\n{text}\n");
    assert_eq!(bench.byoc(&["inspect", "a.scale"]).success(), expected);
}

#[test]
fn a_file_may_fail_to_load_and_to_run() {
    let cases = [
        ("load", "[B703] backend 'file-format' cannot load 'a.scale': the device is busy\n  hint: Wait"),
        ("run", "[B703] 'a.scale' failed on backend 'file-format': the device is gone"),
    ];
    for (fault, message) in cases {
        let bench = Bench::with("a.scale", json!({ "fault": fault }));
        bench.byoc(&["inspect", "a.scale"]).success();
        bench.byoc(&["run", "a.scale", "--fill", "ones"]).fails(1, &format!("error: {message}"));
    }
}

#[test]
fn a_file_that_nobody_knows_is_an_error_that_tells_what_is_known() {
    let bench = Bench::new();
    let known = ". Files of backends end with '.scale' (file-format)";
    for (name, hint) in [("a.scales", known), ("a.byoc", ""), ("a", known)] {
        bench.folder.write(name, "no artifact, and long enough to have a header");
        for verb in ["inspect", "run"] {
            let found = bench.byoc(&[verb, name]);
            let error = format!("error: [B602] '{name}' is not an artifact: it is a text file");
            let hint = format!("\n  hint: Copy the file again, or compile the model again{hint}");
            // Backends that are part of the program may have files as well.
            let told = found.stderr.starts_with(&error) && found.stderr.contains(&hint);
            assert!(found.code == Some(1) && told, "{}", found.stderr);
        }
    }
    bench
        .byoc(&["inspect", "none.scale"])
        .fails(1, "error: [B601] cannot open 'none.scale': No such file or directory (os error 2)");
}

#[test]
fn the_code_of_a_region_is_shown_and_comes_out_as_a_file() {
    let bench = Bench::compiled(2.5);
    let artifact = Artifact::open(&bench.folder.path().join("model.byoc")).expect("opens");
    let code = artifact.section("code/byoc_main_file-format_0").expect("code");
    let (file, rest) = code.split_at(code.iter().position(|&byte| byte == b'\n').expect("two lines") + 1);
    assert_eq!(rest, b"for byoc_main_file-format_0\n");
    let region = ["inspect", "model.byoc", "--region", "byoc_main_file-format_0"];
    let head = format!("region byoc_main_file-format_0: scale v1, {} B, for the backend file-format\n", file.len());
    let expected = format!("{head}input  positive: f32[2,2]\noutput y: f32[2,2]\n{STEPS}");
    assert_eq!(bench.byoc(&region).success(), expected);
    let extract = [&region[..], &["--extract", "out.scale", "--json"]].concat();
    for before in [None, Some("an older file")] {
        before.map(|text| bench.folder.write("out.scale", text));
        let shown: Value = serde_json::from_str(bench.byoc(&extract).success()).expect("JSON");
        assert_eq!(shown["file_bytes"], file.len());
        assert_eq!(places::read(&bench.folder.path().join("out.scale")), file);
    }
    let input = Tensor::f32(&[2, 2], &[1.0, 2.0, 0.5, 4.0]);
    let mut results = Vec::new();
    for (path, input_name, output) in [("model.byoc", "x", "y"), ("out.scale", "positive", "y")] {
        npz::write(&bench.folder.path().join("in.npz"), &[(input_name, &input)]);
        bench.byoc(&["run", path, "-i", "in.npz", "-o", "out.npz"]).success();
        results.push(npz::find(&npz::read(&bench.folder.path().join("out.npz")), output));
    }
    assert_eq!(results[0], results[1]);
}

#[test]
fn regions_that_cannot_be_shown_are_errors() {
    let bench = Bench::compiled(2.5);
    let before = places::read(&bench.folder.path().join("model.byoc"));
    let cases: [(&str, &[&str], i32, &str); 5] = [
        (
            "byoc_main_file-format_1",
            &[],
            2,
            "[B702] 'model.byoc' has no region 'byoc_main_file-format_1'\n  hint: Did you mean 'byoc_main_file-format_0'?",
        ),
        (
            "elsewhere",
            &[],
            2,
            "[B702] 'model.byoc' has no region 'elsewhere'\n  hint: There is byoc_main_json_0, byoc_main_file-format_0",
        ),
        (
            "byoc_main_json_0",
            &["--extract", "out.scale"],
            1,
            "[B606] region byoc_main_json_0 has no file in it: the backend 'json' makes none\n  hint: byoc inspect model.byoc --region byoc_main_json_0 shows the region",
        ),
        (
            "byoc_main_file-format_0",
            &["--extract", "./model.byoc"],
            2,
            "[B901] the output './model.byoc' is the file 'model.byoc', which is read as the artifact\n  hint: Write the output to another file",
        ),
        (
            "byoc_main_file-format_0",
            &["--extract", "none/out.scale"],
            1,
            "[B601] cannot write 'none/out.scale': there is no folder 'none'\n  hint: Make the folder first, or name another one",
        ),
    ];
    for (symbol, more, code, message) in cases {
        let arguments = [&["inspect", "model.byoc", "--region", symbol], more].concat();
        let found = bench.byoc(&arguments);
        let at = found.stderr.find(" at path").map_or(found.stderr.trim_end(), |at| &found.stderr[..at]);
        assert_eq!((found.code, at, found.stdout.as_str()), (Some(code), &*format!("error: {message}"), ""));
    }
    bench.folder.byoc(&["inspect", "model.byoc", "--region", "byoc_main_file-format_0", "--extract", "out.scale"]).fails(
        3,
        "error: [B604] region byoc_main_file-format_0 needs the backend 'file-format': there is no backend 'file-format'\n  \
         hint: There is json, kendryte; name further plugins with --plugin or --plugin-dir; -v shows where they are looked for",
    );
    assert_eq!(places::read(&bench.folder.path().join("model.byoc")), before);
    assert_eq!(places::list(bench.folder.path()), ["model.byoc", "model.onnx"]);
}

#[test]
fn a_backend_may_tell_something_of_its_code_when_it_is_compiled() {
    let bench = Bench::new();
    // Backends fold no factor of one that is not there: the note is about the file.
    bench.folder.write("model.onnx", model(1.0).finish());
    let note = "warning: [B309] backend 'file-format', region byoc_main_file-format_0: the factor is 1, so nothing is computed\n";
    for process in [&[][..], &["--in-process"]] {
        let compile = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "file-format,json"];
        let compiled = bench.byoc(&[&compile[..], process].concat());
        compiled.success();
        assert_eq!(compiled.stderr, note);
        let shown = bench.byoc(&["inspect", "model.byoc", "--region", "byoc_main_file-format_0"]);
        let said = "\nnote   the factor is 1, so nothing is computed\n\nsteps\n";
        assert!(shown.success().contains(said), "{}", shown.stdout);
        let talk = bench.byoc(&[&compile[..], process, &["--verbose"]].concat());
        talk.success();
        let said: String = talk.stderr.split_inclusive('\n').filter(|line| !line.starts_with("plugins: ")).collect();
        assert_eq!(said, format!("file-format: byoc_main_file-format_0: 1 factors\n{note}"));
    }
    std::fs::remove_file(bench.folder.path().join("model.byoc")).expect("it is ours");
    let broken = ["--backend", "file-format,json", "--backend-opt", "file-format.version=2"];
    bench.byoc(&[&["compile", "model.onnx", "-o", "model.byoc"], &broken[..]].concat()).fails(
        1,
        "error: [B306] backend 'file-format' failed on region byoc_main_file-format_0: it cannot read its own code: it is of version 2\n  \
         hint: Install a newer file-format",
    );
    assert_eq!(places::list(bench.folder.path()), ["model.onnx"]);
}

#[test]
fn info_tells_of_files_and_where_regions_start() {
    let bench = Bench::new();
    let info = bench.byoc(&["plugin", "info", "file-format"]);
    let text = info.success();
    assert!(text.contains("\nregions  one for each match, at most 1 input, start with Mul\n"), "{text}");
    assert!(text.contains("\nfile     .scale: A tensor and its factors\n"), "{text}");
}

/// The same ability, from a plugin in C.
#[test]
fn a_plugin_in_c_opens_files() {
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let plugin = |name: &str, changes: &[(&str, &str, &str)]| {
        c_plugin_of_today(folder.path(), name, changes).to_str().expect("a plain path").to_owned()
    };
    let good = plugin("good", &[]);
    let compile = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "cmatmul,json", "--plugin"];
    folder.byoc(&[&compile[..], &[&good]].concat()).success();
    let region = ["inspect", "model.byoc", "--region", "byoc_main_cmatmul_0", "--extract", "m.dense", "--plugin"];
    let shown = folder.byoc(&[&region[..], &[&good]].concat());
    let values = "input  x: f32[2,3]\noutput y: f32[2,4]\n";
    assert_eq!(
        shown.success(),
        format!(
            "region byoc_main_cmatmul_0: dense 1, 40 B, for the backend cmatmul\n{values}\nwritten to 'm.dense', 40 B\n"
        )
    );
    assert_eq!(
        folder.byoc(&["inspect", "m.dense", "--plugin", &good]).success(),
        format!("m.dense: dense 1, 40 B, for the backend cmatmul\n{values}")
    );
    // Its weights are not in the file.
    folder.byoc(&["run", "m.dense", "--fill", "ones", "--plugin", &good]).fails(
        1,
        "error: [B703] backend 'cmatmul' cannot load 'm.dense': a constant is missing, or not laid out as it was claimed",
    );
    let cannot = "error: [B606] backend 'cmatmul' cannot read 'm.dense': ";
    let none = "this backend opens no files";
    let cases = [
        ("none", "byoc_is(method, \"open\")", "byoc_is(method, \"later\")", format!("{cannot}{none}")),
        (
            "invalid",
            "{\\\"format\\\":\\\"dense 1\\\"",
            "{\\\"format\\\":1",
            format!(
                "{cannot}the plugin's answer is not valid: invalid type: integer `1`, expected a string at line 1 column 11"
            ),
        ),
    ];
    for (name, text, new, message) in cases {
        let plugin = plugin(name, &[("plugin.c", text, new)]);
        folder.byoc(&["inspect", "m.dense", "--plugin", &plugin]).fails(1, &message);
    }
    let odd = plugin("odd", &[("plugin.c", "\\\"extension\\\":\\\"dense\\\"", "\\\"extension\\\":\\\"../a\\\"")]);
    let refused = format!(
        "error: [B305] '{odd}' breaks the plugin contract: its backend 'cmatmul' has files that end with '.../a'; \
         extensions are lower-case letters, digits and '-'\n  hint: Report this to the plugin's maker"
    );
    folder.byoc(&["plugin", "list", "--plugin", &odd]).fails(3, &refused);
}
