//! Operators that plugins bring, in Rust and in C: models with them compile, run and are explained, and what does not fit is
//! one line.

mod functions;

use std::path::{Path, PathBuf};

use byoc_plugin_api::{Attribute, to_hex};
use byoc_tests::fixture::{Change, c_operator_plugin};
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::program::without_places;
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};

const SCALES: [f32; 4] = [1.0, -1.0, 2.0, 0.5];
const TABLE: [f32; 2] = [7.0, -8.0];

fn table() -> Attribute {
    let bytes = TABLE.map(f32::to_le_bytes).concat();
    Attribute::Tensor { dtype: byoc_plugin_api::DType::F32, shape: vec![2], hex: to_hex(&bytes) }
}

/// A `Swirl` of `c` by the constant `scales` gives `s`.
fn swirl(model: Model, scales: &str, attributes: &[(&str, Attribute)]) -> Model {
    model.domain("com.acme", 1).node_of(("com.acme", "Swirl"), &["c", scales], &["s"], attributes)
}

/// Convolution, `Swirl`, `Relu`: `[batch,1,2,4]` becomes `[batch,1,2,6]`.
fn convolution(batch: i64) -> Model {
    let model = Model::default()
        .input("x", Type::Float, &[batch, 1, 2, 4])
        .weight("w", &[1, 1, 1, 1], &[3.0])
        .weight("scales", &[4], &SCALES)
        .node("Conv", &["x", "w"], &["c"]);
    swirl(model, "scales", &[("table", table())]).node("Relu", &["s"], &["y"]).output(
        "y",
        Type::Float,
        &[batch, 1, 2, 6],
    )
}

/// What becomes of the elements of `x`.
fn expected(x: &[f32]) -> Vec<f32> {
    let rows = x.chunks(4).flat_map(|row| row.iter().zip(SCALES).map(|(x, scale)| 3.0 * x * scale).chain(TABLE));
    rows.map(|element| element.max(0.0)).collect()
}

/// The two plugins with their backends.
fn plugins(folder: &Path) -> [(&'static str, PathBuf); 2] {
    [("acme", places::plugin("custom_operators")), ("cacme", c_operator_plugin(folder, "cacme", &[]))]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_model_with_one_compiles_runs_and_is_explained() {
    let built = places::temporary();
    for (backend, plugin) in plugins(built.path()) {
        let folder = Folder::empty();
        folder.write("model.onnx", convolution(-1).finish());
        let list = format!("{backend},json");
        let chosen = ["--plugin", text(&plugin), "--backend", &list];
        let explained = folder.byoc(&[&["explain", "model.onnx", "--nodes"][..], &chosen].concat());
        let lines: Vec<Vec<&str>> =
            explained.success().lines().skip(1).take(3).map(|line| line.split_whitespace().collect()).collect();
        let region = |backend: &str, number: usize| format!("byoc_main_{backend}_{number}");
        let (first, own, second) = (region("json", 0), region(backend, 0), region("json", 1));
        let no_pattern = ["no", "pattern", "matches"];
        let refused = format!("{backend}:");
        let row = |words: [&'static str; 2], by, region| [&words[..], &[by, region]].concat();
        assert_eq!(
            lines,
            [
                [&row(["make_c", "Conv"], "json", &first)[..], &[refused.as_str()], &no_pattern].concat(),
                row(["make_s", "com.acme.Swirl"], backend, &own),
                [&row(["make_y", "Relu"], "json", &second)[..], &[refused.as_str()], &no_pattern].concat(),
            ]
        );
        folder.byoc(&[&["compile", "model.onnx", "-o", "model.byoc"][..], &chosen].concat()).success();
        // One artifact for every batch.
        for batch in [1_i64, 3] {
            let x: Vec<f32> = (0..batch * 8).map(|i| i as f32 / 4.0 - 2.0).collect();
            npz::write(&folder.path().join("in.npz"), &[("x", &Tensor::f32(&[batch, 1, 2, 4], &x))]);
            let run = ["run", "model.byoc", "-i", "in.npz", "-o", "out.npz", "--plugin", text(&plugin)];
            folder.byoc(&run).success();
            let found = npz::find(&npz::read(&folder.path().join("out.npz")), "y");
            assert_eq!(found, Tensor::f32(&[batch, 1, 2, 6], &expected(&x)), "{backend}");
        }
        // Its constant is owned like any other.
        let ledger = folder.byoc(&["inspect", "model.byoc", "--constants"]);
        let row = ledger.success().lines().find(|line| line.split_whitespace().any(|word| word == "scales"));
        assert!(row.is_some_and(|row| row.contains(&own)), "{}", ledger.stdout);
    }
}

/// The error of compiling a model for a plugin.
#[track_caller]
fn fails(model: Model, arguments: &[&str], code: i32, message: &str) {
    let folder = Folder::empty();
    folder.write("model.onnx", model.finish());
    let before = places::list(folder.path());
    folder.byoc(&[&["compile", "model.onnx", "-o", "model.byoc"], arguments].concat()).fails(code, message);
    assert_eq!(places::list(folder.path()), before, "a file is left");
}

#[test]
fn without_the_backend_one_line_says_what_is_missing() {
    let remedy = "\n  hint: Add a backend that brings it to --backend, and its plugin with --plugin";
    let unknown = "error: [B102] node 'make_s': operator com.acme.Swirl version 1 is not known";
    fails(convolution(1), &[], 1, &format!("{unknown}, neither to byoc nor to json{remedy}"));
    let plugin = places::plugin("custom_operators");
    let remedy = "\n  hint: The backend 'acme' brings it: add it to --backend";
    let found = ["--plugin", text(&plugin)];
    fails(convolution(1), &found, 1, &format!("{unknown}, neither to byoc nor to json{remedy}"));
    let folder = Folder::empty();
    folder.write("model.onnx", convolution(1).finish());
    // Who looks at a model needs no backend.
    let shown = folder.byoc(&["inspect", "model.onnx"]);
    assert!(shown.success().contains("1 com.acme.Swirl"), "{}", shown.stdout);
    let mut newer = convolution(1);
    newer.head.opset_import[1].version = Some(3);
    fails(
        newer,
        &["--plugin", text(&plugin), "--backend", "acme,json"],
        1,
        "error: [B102] node 'make_s': operator com.acme.Swirl version 3 is not known: acme knows versions 1 to 2\n  hint: \
         Update the backend, or export the model with a version that it knows",
    );
}

/// A model whose `Swirl` reads an input of that shape and scales of that length.
fn plain(shape: &[i64], scales: usize) -> Model {
    let model = Model::default().input("c", Type::Float, shape).weight("scales", &[scales as i64], &vec![1.0; scales]);
    swirl(model, "scales", &[("table", table())]).output("s", Type::Float, &[])
}

#[test]
fn what_does_not_fit_is_an_error_of_the_model() {
    let plugin = places::plugin("custom_operators");
    let place = "node 'make_s' (com.acme.Swirl)";
    let fails = |model: Model, option: &str, code: i32, message: &str| {
        let option = format!("acme.infer={option}");
        let arguments = ["--plugin", text(&plugin), "--backend", "acme,json", "--backend-opt", &option];
        fails(model, &arguments, code, &format!("error: {message}"));
    };
    let cannot = format!("[B106] {place}: backend 'acme' cannot tell the types of its outputs");
    fails(
        plain(&[2, 3], 4),
        "",
        1,
        &format!(
            "{cannot}: input 1 has another size than a row of input 0\n  hint: Export the operator with one scale for each \
             element of a row"
        ),
    );
    let folder = Folder::empty();
    folder.write("model.onnx", plain(&[2, 4], 4).finish());
    let options = ["--plugin", text(&plugin), "--backend", "acme,json", "--backend-opt", "acme.infer=panic"];
    let panicked = folder.byoc(&[&["compile", "model.onnx", "-o", "model.byoc"][..], &options].concat());
    let message = format!("error: {cannot}: backend panicked: no types today\n");
    assert_eq!((panicked.code, without_places(&panicked.stderr)), (Some(1), message));
    let broken = format!("[B305] {place}: backend 'acme' breaks the plugin contract");
    let report = "\n  hint: Report this to the plugin's maker";
    let told = "it tells the types of 0 outputs, and the node has 1";
    fails(plain(&[2, 4], 4), "none", 3, &format!("{broken}: {told}{report}"));
    let unknown = "output 0 has the size 'rows*2', and no input has 'rows'";
    fails(plain(&[2, 4], 4), "rows*2", 3, &format!("{broken}: {unknown}{report}"));
    let model = plain(&[2, 4], 4);
    fails(
        model,
        "2*",
        3,
        &format!("{broken}: output 0 has the size '2*': '2*' is not a size: it cannot be read from byte 2 on{report}"),
    );
    let crashed = format!(
        "[B307] {place}: backend 'acme' crashed (signal 6) while it was asked for the types of its outputs\n  hint: Report \
         this to the backend's maker"
    );
    fails(plain(&[2, 4], 4), "abort", 5, &crashed);
}

/// A change of the plugin's description in C, and what the plugin is refused for.
const BROKEN: &[(&str, &str, &str)] = &[
    ("\\\"name\\\":\\\"Swirl\\\"", "\\\"name\\\":\\\"\\\"", "an operator 'com.acme::', which no model can name"),
    (
        "\\\"inputs\\\":2",
        "\\\"inputs\\\":2,\\\"outputs\\\":[{\\\"dtype\\\":{\\\"input\\\":2},\\\"shape\\\":\\\"broadcast\\\"}]",
        "an operator 'com.acme::Swirl' that takes the type of output 0 from input 2, which it may lack",
    ),
];

#[test]
fn operators_that_contradict_themselves_are_refused_with_their_plugin() {
    let built = places::temporary();
    for (index, (text, new, cause)) in BROKEN.iter().enumerate() {
        let change: Change<'_> = ("plugin.c", text, new);
        let plugin = c_operator_plugin(built.path(), &format!("broken{index}"), &[change]);
        let path = plugin.to_str().expect("a plain path");
        fails(
            convolution(1),
            &["--plugin", path, "--backend", "cacme,json"],
            3,
            &format!(
                "error: [B305] '{path}' breaks the plugin contract: its backend 'cacme' has {cause}\n  hint: Report this to the \
                 plugin's maker"
            ),
        );
    }
}

/// A node that the backend refuses is nobody's, and its reason is given.
#[test]
fn a_refusal_is_told() {
    let model = Model::default().input("c", Type::Float16, &[2, 4]).weight("scales", &[4], &SCALES);
    let model = swirl(model, "scales", &[("table", table())]).output("s", Type::Float16, &[2, 6]);
    let plugin = places::plugin("custom_operators");
    fails(
        model,
        &["--plugin", text(&plugin), "--backend", "acme,json"],
        4,
        "error: [B401] no backend of the list acme,json takes node 'make_s' (com.acme.Swirl): acme: swirl: type: 'c' is f16\n  \
         hint: See byoc explain for every node",
    );
}

/// A length of the rows that is known when the model runs gives a symbolic length of the result.
#[test]
fn sizes_may_be_expressions() {
    let model = Model::default().input("c", Type::Float, &[2, -1]).node("Relu", &["c"], &["r"]);
    let model = model.domain("com.acme", 1).node_of(("com.acme", "Twist"), &["r"], &["t"], &[]);
    let model = model.node("Concat", &["t", "c"], &["y"]).output("y", Type::Float, &[2, -1]);
    let mut model = model;
    let axis = byoc_core::onnx::write::attribute("axis", &Attribute::Int(1));
    model.graph.node.last_mut().expect("a Concat").attribute.push(axis);
    let folder = Folder::empty();
    folder.write("model.onnx", model.finish());
    let plugin = places::plugin("custom_operators");
    let chosen = ["--plugin", text(&plugin), "--backend", "acme,json"];
    let typed = folder.byoc(&[&["compile", "model.onnx", "--stop-after", "passes", "--print"], &chosen[..]].concat());
    let twist = "  t: f32[2,batch] = com.acme.Twist{by=2.0}(r)\n";
    assert!(typed.success().contains(twist), "{}", typed.stdout);
    folder.byoc(&[&["compile", "model.onnx", "-o", "model.byoc"], &chosen[..]].concat()).success();
    npz::write(&folder.path().join("in.npz"), &[("c", &Tensor::f32(&[2, 2], &[1.0, -2.0, 3.0, -4.0]))]);
    folder.byoc(&["run", "model.byoc", "-i", "in.npz", "-o", "out.npz", "--plugin", text(&plugin)]).success();
    let found = npz::find(&npz::read(&folder.path().join("out.npz")), "y");
    assert_eq!(found, Tensor::f32(&[2, 4], &[2.0, 0.0, 1.0, -2.0, 6.0, 0.0, 3.0, -4.0]));
}

/// The elements of `x` above 0, each doubled.
fn picking() -> Model {
    let model = Model::default().input("x", Type::Float, &[-1, 3]).domain("com.acme", 1);
    let model = model.node_of(("com.acme", "Pick"), &["x"], &["p"], &[]);
    model.node("Add", &["p", "p"], &["y"]).output("y", Type::Float, &[-1])
}

#[test]
fn the_run_may_tell_sizes() {
    let built = places::temporary();
    for (backend, plugin) in plugins(built.path()) {
        let folder = Folder::empty();
        folder.write("model.onnx", picking().finish());
        let list = format!("{backend},json");
        let chosen = ["--plugin", text(&plugin), "--backend", &list];
        folder.byoc(&[&["compile", "model.onnx", "-o", "model.byoc"][..], &chosen].concat()).success();
        for (x, y) in [(&[1.0, -2.0, 3.0, 0.5, 0.0, -1.0][..], &[2.0, 6.0, 1.0][..]), (&[-1.0; 3], &[])] {
            let input = Tensor::f32(&[x.len() as i64 / 3, 3], x);
            npz::write(&folder.path().join("in.npz"), &[("x", &input)]);
            let run = ["run", "model.byoc", "-i", "in.npz", "-o", "out.npz", "--plugin", text(&plugin)];
            folder.byoc(&run).success();
            let found = npz::find(&npz::read(&folder.path().join("out.npz")), "y");
            assert_eq!(found.shape, [y.len() as i64]);
            assert_eq!(found.floats().map(|element| element as f32).collect::<Vec<_>>(), y);
        }
    }
}

/// What the plugin says of the output is checked; each fault is one line.
#[test]
fn sizes_of_the_run_that_cannot_be_are_errors() {
    let plugin = places::plugin("custom_operators");
    let folder = Folder::empty();
    folder.write("model.onnx", picking().finish());
    npz::write(&folder.path().join("in.npz"), &[("x", &Tensor::f32(&[1, 3], &[1.0; 3]))]);
    let faults = [
        ("rank", "it computed 'p' of shape [3, 1], expected [make_p_size0]"),
        ("size", "it computed 'p' of shape [-1], expected [make_p_size0]"),
        ("huge", "a tensor of shape [9223372036854775807] does not fit in memory"),
        ("none", "it did not give 'p'"),
        ("other", "there is no output 1 of 1"),
        ("twice", "the memory of 'p' was asked for twice"),
    ];
    for (fault, cause) in faults {
        let option = format!("acme.pick={fault}");
        let list = ["--plugin", text(&plugin), "--backend", "acme,json", "--backend-opt", &option];
        folder.byoc(&[&["compile", "model.onnx", "-o", "model.byoc"][..], &list].concat()).success();
        let run = folder.byoc(&["run", "model.byoc", "-i", "in.npz", "-o", "out.npz", "--plugin", text(&plugin)]);
        run.fails(1, &format!("error: [B703] region byoc_main_acme_0 failed on backend 'acme': {cause}"));
        assert!(!folder.path().join("out.npz").exists());
    }
}
