//! Functions of a model that have the name of a backend's operator: the backend is offered a call whole, and the function's
//! body takes its place where nobody takes it.

use byoc_core::onnx::proto::{FunctionProto, NodeProto};
use byoc_core::onnx::write::{attribute, node, opset};
use byoc_plugin_api::{Attribute, DType};
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, tensor};
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};
use serde_json::Value;

use crate::calibration::data::{calibrated, observed, regions};

const X: [f32; 4] = [1.0, -2.0, 3.5, -4.0];

/// A function of `a` that gives `r`.
fn function(name: &str, body: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: Some(name.into()),
        domain: Some("com.acme".into()),
        input: vec!["a".into()],
        output: vec!["r".into()],
        node: body,
        opset_import: vec![opset("", 17), opset("com.acme", 1)],
        ..FunctionProto::default()
    }
}

fn step(name: &str, op: (&str, &str), inputs: &[&str], output: &str) -> NodeProto {
    node(name, op, inputs.iter().map(|&input| input.to_owned()).collect(), vec![output.to_owned()])
}

/// What `com.acme.Twist` does by default, in ONNX's operators.
fn twist() -> FunctionProto {
    function("Twist", vec![step("double", ("", "Add"), &["a", "a"], "r")])
}

/// Calls of functions of the plugin's domain, each with its input and output.
fn calling(functions: Vec<FunctionProto>, model: Model) -> Model {
    let mut model = model.domain("com.acme", 1);
    model.head.functions = functions;
    model
}

fn call(model: Model, name: &str, input: &str, output: &str) -> Model {
    model.node_of(("com.acme", name), &[input], &[output], &[])
}

/// A folder with that model of one input `x` and one output `y`.
fn folder(model: Model) -> Folder {
    let folder = Folder::empty();
    folder.write("model.onnx", model.output("y", Type::Float, &[1, 4]).finish());
    npz::write(&folder.path().join("in.npz"), &[("x", &Tensor::f32(&[1, 4], &X))]);
    folder
}

fn x() -> Model {
    Model::default().input("x", Type::Float, &[1, 4])
}

/// With the plugin, and without it.
fn lists() -> [Vec<String>; 2] {
    let plugin = places::plugin("custom_operators").to_str().expect("a plain path").to_owned();
    [vec!["--plugin".into(), plugin, "--backend".into(), "acme,json".into()], vec![]]
}

/// Runs the program with `arguments` and these `more`.
fn byoc(folder: &Folder, arguments: &[&str], more: &[String]) -> byoc_tests::program::Outcome {
    folder.byoc(&[arguments, &more.iter().map(String::as_str).collect::<Vec<_>>()].concat())
}

/// Compiles the model with that list, runs it and gives `y`.
fn result(folder: &Folder, list: &[String]) -> Vec<f32> {
    byoc(folder, &["compile", "model.onnx", "-o", "model.byoc"], list).success();
    run(folder, list)
}

fn run(folder: &Folder, list: &[String]) -> Vec<f32> {
    let plugin = &list[..list.len().min(2)];
    byoc(folder, &["run", "model.byoc", "-i", "in.npz", "-o", "out.npz"], plugin).success();
    npz::find(&npz::read(&folder.path().join("out.npz")), "y").floats().map(|element| element as f32).collect()
}

/// The rows of `byoc explain`: node, operator, backend, and the refusals.
fn explained(folder: &Folder, list: &[String]) -> Vec<String> {
    let explained = byoc(folder, &["explain", "model.onnx", "--json"], list);
    let report: Value = serde_json::from_str(explained.success()).expect("JSON");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let row = |row: &Value| {
        let expanded = if row["expanded"] == true { "expanded" } else { "nobody" };
        let backend = text(&row["backend"]).unwrap_or_else(|| expanded.into());
        let refused = row["refused"].as_array().into_iter().flatten();
        let refused = refused.map(|refused| format!("{}: {}", refused["backend"], refused["reason"]));
        let words = [&row["node"], &row["op"]].map(|value| text(value).unwrap_or_default());
        [words.join(" "), backend, refused.collect::<Vec<_>>().join("; ").replace('"', "")].join(" ").trim_end().into()
    };
    report["nodes"].as_array().expect("a list").iter().map(row).collect()
}

/// A model with one call that the plugin takes, and one of f16 that it does not.
fn two_calls() -> Model {
    let model = call(x(), "Twist", "x", "t").cast("x", Type::Float16, "h");
    let model = call(model, "Twist", "h", "u").cast("u", Type::Float, "v");
    calling(vec![twist()], model.node("Add", &["t", "v"], &["y"]))
}

#[test]
fn one_call_is_taken_whole_and_another_is_expanded() {
    let folder = folder(two_calls());
    let [with, without] = lists();
    let json = |row: &str| format!("{row} json");
    let both = |row: &str| format!("{row} json acme: no pattern matches");
    let expected = [
        "make_t com.acme.Twist acme".to_owned(),
        both("make_h Cast"),
        "make_u com.acme.Twist expanded acme: twist: type: 'h' is f16; json: no pattern matches".to_owned(),
        both("make_u/double Add"),
        both("make_v Cast"),
        both("make_y Add"),
    ];
    assert_eq!(explained(&folder, &with), expected);
    let table = byoc(&folder, &["explain", "model.onnx", "--nodes"], &with);
    assert!(table.success().ends_with("\nacme: 1 node in 1 region; json: 4 nodes in 1 region\n"), "{}", table.stdout);
    let expected = ["make_t/double Add", "make_h Cast", "make_u/double Add", "make_v Cast", "make_y Add"].map(json);
    assert_eq!(explained(&folder, &without), expected);
    for list in [&with, &without] {
        assert_eq!(result(&folder, list), X.map(|x| 4.0 * x));
        // Against the model with its functions' bodies.
        byoc(&folder, &["verify", "model.byoc", "--model", "model.onnx"], &list[..list.len().min(2)]).success();
    }
    let partition = ["compile", "model.onnx", "--stop-after", "partition", "--print"];
    let printed = byoc(&folder, &partition, &with);
    let region = "region byoc_main_acme_0 on acme\n  t: f32[1,4] = com.acme.Twist{by=2.0}(x)\n";
    assert!(printed.success().starts_with(region), "{}", printed.stdout);
    assert_eq!(printed.stdout.matches("Twist").count(), 1, "{}", printed.stdout);
    let repro = ["repro", "model.onnx", "--region", "byoc_main_json_0", "-o", "repro.onnx"];
    byoc(&folder, &repro, &with).success();
    byoc(&folder, &["compile", "model.onnx", "-o", "model.byoc", "--require", "acme=com.acme.Twist"], &with).fails(
        4,
        "error: [B402] --require acme=com.acme.Twist: node 'make_u' (com.acme.Twist) goes to no backend (acme: twist: type: \
         'h' is f16)\n  hint: byoc explain has the reasons, node by node",
    );
}

/// What `com.acme.Swirl` and a `com.acme.Twist` do, where the table is empty.
fn swirl() -> FunctionProto {
    let body = vec![step("scaled", ("", "Mul"), &["a", "s"], "m"), step("inner", ("com.acme", "Twist"), &["m"], "r")];
    let mut swirl = function("Swirl", body);
    swirl.input.push("s".into());
    swirl.attribute.push("table".into());
    swirl
}

fn no_table() -> Attribute {
    Attribute::Tensor { dtype: DType::F32, shape: vec![0], hex: String::new() }
}

/// Inside of a function that the plugin does not know, and of one that it knows and refuses.
#[test]
fn calls_in_bodies_are_offered_too() {
    let [with, without] = lists();
    let body = vec![step("inner", ("com.acme", "Twist"), &["a"], "m"), step("last", ("", "Relu"), &["m"], "r")];
    let functions = vec![twist(), function("Outer", body)];
    let taken = folder(calling(functions.clone(), call(x(), "Outer", "x", "y")));
    let expected =
        ["make_y/inner com.acme.Twist acme", "make_y/last Relu json acme: no pattern matches"].map(str::to_owned);
    assert_eq!(explained(&taken, &with), expected);
    let model = call(x().cast("x", Type::Float16, "h"), "Outer", "h", "o").cast("o", Type::Float, "y");
    let refused = folder(calling(functions, model));
    let names: Vec<_> = explained(&refused, &with).iter().map(|row| first_words(row)).collect();
    let inner = ["make_o/inner com.acme.Twist expanded", "make_o/inner/double Add json", "make_o/last Relu json"];
    assert_eq!(names, [&["make_h Cast json"], &inner[..], &["make_y Cast json"]].concat());
    for folder in [taken, refused] {
        for list in [&with, &without] {
            assert_eq!(result(&folder, list), X.map(|x| (2.0 * x).max(0.0)));
        }
    }
    let scales = tensor("s", Type::Float16, &[4], [0x3c00_u16, 0x4000, 0x3c00, 0x4000].map(u16::to_le_bytes).concat());
    let model = x().tensor(scales).cast("x", Type::Float16, "h");
    let model = model.node_of(("com.acme", "Swirl"), &["h", "s"], &["o"], &[("table", no_table())]);
    let folder = folder(calling(vec![twist(), swirl()], model.cast("o", Type::Float, "y")));
    let names: Vec<_> = explained(&folder, &with).iter().map(|row| first_words(row)).collect();
    let nested = [
        "make_o com.acme.Swirl expanded",
        "make_o/scaled Mul json",
        "make_o/inner com.acme.Twist expanded",
        "make_o/inner/double Add json",
    ];
    assert_eq!(names, [&["make_h Cast json"], &nested[..], &["make_y Cast json"]].concat());
    for list in [&with, &without] {
        assert_eq!(result(&folder, list), [2.0, -8.0, 7.0, -16.0]);
    }
}

/// Node, operator and backend of a row.
fn first_words(row: &str) -> String {
    row.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The types of a call's outputs are the backend's to tell, as those of any node of its operators.
#[test]
fn what_does_not_fit_the_operator_is_an_error() {
    let mut more = twist();
    more.attribute.push("more".into());
    let given = attribute("more", &Attribute::Int(1));
    let mut model = call(x(), "Twist", "x", "y");
    model.graph.node[0].attribute.push(given);
    let declared = folder(calling(vec![more], model));
    let [with, without] = lists();
    byoc(&declared, &["compile", "model.onnx", "-o", "model.byoc"], &with).fails(
        1,
        "error: [B106] node 'make_y' (com.acme.Twist): attribute 'more' is not known to backend 'acme'\n  hint: Take it out, or \
         update the backend",
    );
    assert_eq!(result(&declared, &without), X.map(|x| 2.0 * x));
    let model = x().weight("s", &[1], &[2.0]);
    let model = model.node_of(("com.acme", "Swirl"), &["x", "s"], &["y"], &[("table", no_table())]);
    let asked = folder(calling(vec![twist(), swirl()], model));
    byoc(&asked, &["compile", "model.onnx", "-o", "model.byoc"], &with).fails(
        1,
        "error: [B106] node 'make_y' (com.acme.Swirl): backend 'acme' cannot tell the types of its outputs: input 1 has \
         another size than a row of input 0\n  hint: Export the operator with one scale for each element of a row",
    );
    assert_eq!(result(&asked, &without), X.map(|x| 4.0 * x));
}

/// After a crash the backend is not offered the call again; its body replaces it, and what is left goes on as before.
#[test]
fn a_crash_gives_the_body_to_the_next_backend() {
    let model = call(call(x(), "Twist", "x", "t").node("Relu", &["t"], &["r"]), "Twist", "r", "y");
    let folder = folder(calling(vec![twist()], model));
    let [mut list, _] = lists();
    list.extend(["--backend-opt", "acme.codegen=abort", "--fallback-on-crash"].map(str::to_owned));
    let crash = "[B307] backend 'acme' crashed (signal 6) while generating byoc_main_acme_0; the region, with its weights, is saved in \
                 'byoc_main_acme_0.repro.onnx'\n  hint: ";
    let compiled = byoc(&folder, &["compile", "model.onnx", "-o", "model.byoc"], &list);
    compiled.success();
    let warning = format!("warning: {crash}Its nodes go to the next backend\n");
    assert_eq!(compiled.stderr, format!("{warning}{warning}"));
    assert_eq!(run(&folder, &list), X.map(|x| (4.0 * x).max(0.0)));
    let listed = folder.byoc(&["inspect", "model.byoc"]);
    assert!(!listed.success().contains("acme"), "{}", listed.stdout);
    list.pop();
    let error = format!(
        "error: {crash}Report this to the backend's maker; --fallback-on-crash gives the region to the next backend"
    );
    byoc(&folder, &["compile", "model.onnx", "-o", "model.byoc"], &list).fails(5, &error);
}

/// A `DequantizeLinear` with two readers, which the plugin takes with each; after a crash the copies are gone.
#[test]
fn a_shared_dequantisation_is_taken_twice() {
    let model = Model::default().input("q", Type::Uint8, &[1, 4]);
    let model = model.weight("s", &[], &[0.5]).tensor(tensor("z", Type::Uint8, &[], vec![3]));
    let model = model.node("DequantizeLinear", &["q", "s", "z"], &["x"]);
    let model = call(call(model, "Twist", "x", "t"), "Twist", "x", "u").node("Add", &["t", "u"], &["y"]);
    let folder = folder(calling(vec![twist()], model));
    npz::write(&folder.path().join("in.npz"), &[("q", &Tensor::new(DType::U8, vec![1, 4], vec![0, 3, 7, 255]))]);
    let [mut list, without] = lists();
    let expected = [-6.0, 0.0, 8.0, 504.0];
    assert_eq!(result(&folder, &list), expected);
    let rows = [
        "make_x DequantizeLinear acme",
        "make_t com.acme.Twist acme",
        "make_x_2 DequantizeLinear acme",
        "make_u com.acme.Twist acme",
        "make_y Add json acme: no pattern matches",
    ];
    assert_eq!(explained(&folder, &list), rows);
    assert_eq!(result(&folder, &without), expected);
    list.extend(["--backend-opt", "acme.codegen=abort", "--fallback-on-crash"].map(str::to_owned));
    assert_eq!(result(&folder, &list), expected);
    let listed = folder.byoc(&["inspect", "model.byoc"]);
    assert!(!listed.success().contains("acme"), "{}", listed.stdout);
}

/// The constants of a body are those of the artifact only where the body is in it.
#[test]
fn weights_are_swapped_beside_whole_calls() {
    let two = NodeProto {
        attribute: vec![attribute("value_float", &Attribute::Float(2.0))],
        ..step("two", ("", "Constant"), &[], "c")
    };
    let twist = function("Twist", vec![two, step("double", ("", "Mul"), &["a", "c"], "r")]);
    let model = |weight: f32| {
        let model = call(x().weight("w", &[4], &[weight; 4]), "Twist", "x", "t");
        calling(vec![twist.clone()], model.node("Mul", &["t", "w"], &["y"]))
    };
    let old = folder(model(1.0));
    let new = folder(model(3.0));
    let new = new.path().join("model.onnx");
    let new = new.to_str().expect("a plain path");
    for list in &lists() {
        assert_eq!(result(&old, list), X.map(|x| 2.0 * x));
        old.byoc(&["swap", "model.byoc", "--from", new, "-o", "swapped.byoc"]).success();
        std::fs::rename(old.path().join("swapped.byoc"), old.path().join("model.byoc")).expect("both are ours");
        assert_eq!(run(&old, list), X.map(|x| 6.0 * x));
    }
}

/// The host backend that observes the model for another one need not know the operator, for it has the body, even where that
/// gives its result a second name.
#[test]
fn values_around_whole_calls_are_observed() {
    let body = vec![step("double", ("", "Add"), &["a", "a"], "m"), step("same", ("", "Identity"), &["m"], "r")];
    let model = call(x(), "Twist", "x", "t").node("Relu", &["t"], &["r"]);
    let folder = folder(calling(vec![function("Twist", body)], call(model, "Twist", "r", "y")));
    let [acme, _] = lists();
    let plugins = ["--plugin", &acme[1], "--plugin", &calibrated(), "--backend", "acme,calibrated,json"];
    let compile = ["compile", "model.onnx", "-o", "model.byoc", "--dataset", "in.npz"];
    folder.byoc(&[&compile[..], &plugins].concat()).success();
    let region = regions(&folder).remove(0);
    let range = |name: &str| [observed(&region, name).min, observed(&region, name).max];
    assert_eq!((range("t"), range("r")), ([-8.0, 7.0], [0.0, 7.0]));
    let listed = folder.byoc(&["inspect", "model.byoc"]);
    assert!(listed.success().contains("acme        0.1.0          2      2\n"), "{}", listed.stdout);
}
