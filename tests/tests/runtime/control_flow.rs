//! What is particular to running control flow: values that change places, limits, what the run finds wrong, and bodies on a
//! device.

use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_plugin_api::testing::Counting;
use byoc_plugin_api::{Attribute, DType};
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};

const NONE: &str = "";

/// A body of a loop, with its counter, its condition and what else it has.
fn step(carried: &[&str]) -> Model {
    let step = Model::default().input("i", Type::Int64, &[]).input("on", Type::Bool, &[]);
    carried.iter().fold(step, |step, name| step.input(name, Type::Float, &[2]))
}

/// A model whose only input of f32, `x`, has two elements.
fn main() -> Model {
    Model::default().input("x", Type::Float, &[2])
}

fn given(inputs: &[(&str, Tensor)]) -> Vec<(String, Tensor)> {
    inputs.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect()
}

fn number(value: i64) -> Tensor {
    Tensor::new(DType::I64, vec![], value.to_le_bytes().to_vec())
}

fn truth(values: &[u8]) -> Tensor {
    Tensor::new(DType::Bool, vec![values.len() as i64], values.to_vec())
}

fn x() -> Tensor {
    Tensor::f32(&[2], &[1.0, -2.0])
}

fn load(model: Model, registry: &Registry, backends: &[&str], options: &LoadOptions) -> Session {
    let folder = places::temporary();
    let model = places::write(folder.path(), "model.onnx", model.finish());
    let artifact = folder.path().join("model.byoc");
    engine::compile(&model, &artifact, registry, backends).expect("compiled");
    Session::open(&artifact, registry, &LoadOptions { threads: 1, ..options.clone() }).expect("loaded")
}

fn on_host(model: Model) -> Session {
    load(model, &engine::embedded(), &["json"], &LoadOptions::default())
}

fn floats(session: &mut Session, inputs: &[(&str, Tensor)]) -> Vec<Vec<f64>> {
    let outputs = engine::run(session, &given(inputs)).expect("it runs");
    outputs.iter().map(|(_, tensor)| tensor.floats().collect()).collect()
}

fn failure(session: &mut Session, inputs: &[(&str, Tensor)]) -> String {
    engine::run(session, &given(inputs)).expect_err("it fails").to_string()
}

/// `n` times: `(a, b) = (b, a + b)`; each time `b` is kept, in its place among the others.
fn fibonacci() -> Model {
    let body = step(&["a", "b"]).node("Add", &["a", "b"], &["sum"]).output("on", Type::Bool, &[]);
    let body = body.output("b", Type::Float, &[2]).output("sum", Type::Float, &[2]).output("b", Type::Float, &[2]);
    let model = main().input("n", Type::Int64, &[]).weight("zero", &[2], &[0.0, 0.0]);
    let model = model.node("Loop", &["n", NONE, "zero", "x"], &["a", "b", "all"]).body("body", body);
    model.output("a", Type::Float, &[2]).output("b", Type::Float, &[2]).output("all", Type::Float, &[-1, 2])
}

#[test]
fn carried_values_change_places() {
    let mut session = on_host(fibonacci());
    for (times, a, b) in [(0, 0.0, 1.0), (1, 1.0, 1.0), (6, 8.0, 13.0), (2, 1.0, 2.0)] {
        let found = floats(&mut session, &[("x", x()), ("n", number(times))]);
        assert_eq!(found[..2], [vec![a, -2.0 * a], vec![b, -2.0 * b]], "{times}");
        assert_eq!(found[2].len(), 2 * times as usize);
    }
    let found = floats(&mut session, &[("x", x()), ("n", number(4))]);
    assert_eq!(found[2], [1.0, -2.0, 1.0, -2.0, 2.0, -4.0, 3.0, -6.0]);
    let refused = session.carry(0, 0).expect_err("a body may run in between").to_string();
    assert!(refused.starts_with("[B701] cannot carry an output"), "{refused}");
}

/// Iterations take no memory for values once there is some, however many there are.
#[test]
fn iterations_take_no_memory() {
    let mut model = fibonacci();
    model.graph.output.pop();
    let mut session = on_host(model);
    let mut count = |times| {
        let before = Counting::count();
        floats(&mut session, &[("x", x()), ("n", number(times))]);
        Counting::count() - before
    };
    count(100);
    let (few, many) = (count(100), count(200));
    assert!(many - few <= 100 * 16, "{few} allocations in 100 iterations, {many} in 200");
}

#[test]
fn iterations_have_a_limit() {
    let options = LoadOptions { max_iterations: Some(12), ..LoadOptions::default() };
    let mut session = load(fibonacci(), &engine::embedded(), &["json"], &options);
    floats(&mut session, &[("x", x()), ("n", number(12))]);
    let message = "[B703] 'make_a': the run takes more than 12 iterations. Raise --max-iterations, if the model is to run so long";
    assert_eq!(failure(&mut session, &[("x", x()), ("n", number(13))]), message);
    let none = session.output(0).map(drop).expect_err("no outputs").to_string();
    assert_eq!(none, "[B703] the entry did not run yet");
    floats(&mut session, &[("x", x()), ("n", number(12))]);

    // Those of nested loops are added up: 3 and 3 times 3.
    let inner =
        step(&["u"]).node("Add", &["u", "x"], &["v"]).output("on", Type::Bool, &[]).output("v", Type::Float, &[2]);
    let outer = step(&["w"]).node("Loop", &["n", NONE, "w"], &["t"]).body("body", inner);
    let outer = outer.output("on", Type::Bool, &[]).output("t", Type::Float, &[2]);
    let model = main().input("n", Type::Int64, &[]).node("Loop", &["n", NONE, "x"], &["y"]).body("body", outer);
    let mut session = load(model.output("y", Type::Float, &[2]), &engine::embedded(), &["json"], &options);
    assert_eq!(floats(&mut session, &[("x", x()), ("n", number(3))]), [[10.0, -20.0]]);
    let nested = failure(&mut session, &[("x", x()), ("n", number(4))]);
    assert_eq!(
        nested,
        "[B703] 'make_y': 'make_y/make_t': the run takes more than 12 iterations. Raise --max-iterations, if the model is to run so long"
    );
}

/// `c ? x + x : Relu(x)`, for a condition of any number of elements.
#[test]
fn a_condition_is_one_element() {
    let branch = |op: &str, inputs: &[&str]| Model::default().node(op, inputs, &["z"]).output("z", Type::Float, &[2]);
    let model = main().input("c", Type::Bool, &[-1]).node("If", &["c"], &["y"]);
    let model = model.body("then_branch", branch("Add", &["x", "x"])).body("else_branch", branch("Relu", &["x"]));
    let mut session = on_host(model.output("y", Type::Float, &[2]));
    assert_eq!(floats(&mut session, &[("x", x()), ("c", truth(&[1]))]), [[2.0, -4.0]]);
    assert_eq!(floats(&mut session, &[("x", x()), ("c", truth(&[0]))]), [[1.0, 0.0]]);
    for wrong in [&[][..], &[1, 0]] {
        let message = failure(&mut session, &[("x", x()), ("c", truth(wrong))]);
        assert_eq!(message, format!("[B701] 'make_y': its condition has {} elements, expected 1", wrong.len()));
    }
}

/// What an iteration gives may have another size each time, but then it cannot be put together.
#[test]
fn what_is_put_together_has_one_shape() {
    let body = Model::default().input("i", Type::Int64, &[]).input("on", Type::Bool, &[]).ints("one", &[1], &[1]);
    let body = body.node("Reshape", &["i", "one"], &["times"]).node("Tile", &["x", "times"], &["t"]);
    let body = body.output("on", Type::Bool, &[]).output("t", Type::Float, &[-1]);
    let model = main().input("n", Type::Int64, &[]).node("Loop", &["n"], &["y"]).body("body", body);
    let mut session = on_host(model.output("y", Type::Float, &[-1, -2]));
    assert_eq!(floats(&mut session, &[("x", x()), ("n", number(1))]), [[]; 1] as [[f64; 0]; 1]);
    assert_eq!(
        failure(&mut session, &[("x", x()), ("n", number(2))]),
        "[B703] 'make_y': an iteration gave a tensor of shape [2], those before it [0]. What is put together has one shape in all \
         iterations"
    );
}

#[test]
fn what_is_scanned_has_one_length() {
    let body = Model::default().input("s", Type::Float, &[]).input("a", Type::Float, &[]).input("b", Type::Float, &[]);
    let body = body.node("Mul", &["a", "b"], &["p"]).node("Add", &["s", "p"], &["t"]).output("t", Type::Float, &[]);
    let model =
        Model::default().input("p", Type::Float, &[-1]).input("n", Type::Int64, &[1]).weight("zero", &[], &[0.0]);
    let model = model.weight("two", &[1], &[2.0]).node("Tile", &["two", "n"], &["q"]);
    let two = [("num_scan_inputs", Attribute::Int(2))];
    let model = model.node_with("Scan", &["zero", "p", "q"], &["y"], &two).body("body", body);
    let mut session = on_host(model.output("y", Type::Float, &[]));
    let p = Tensor::f32(&[3], &[1.0, 2.0, 4.0]);
    let n = |n: i64| Tensor::new(DType::I64, vec![1], n.to_le_bytes().to_vec());
    assert_eq!(floats(&mut session, &[("p", p.clone()), ("n", n(3))]), [[14.0]]);
    let none = Tensor::f32(&[0], &[]);
    assert_eq!(floats(&mut session, &[("p", none), ("n", n(0))]), [[0.0]]);
    assert_eq!(
        failure(&mut session, &[("p", p), ("n", n(2))]),
        "[B701] 'make_y': it scans 3 slices of one input and 2 of another"
    );
}

/// Regions of bodies run where their backend does; what they read is there once.
#[test]
fn bodies_run_on_a_device() {
    let registry = engine::from_files(vec![places::plugin("simdev"), places::plugin("json")]);
    let body = step(&["v"]).node("Add", &["v", "half"], &["p"]).node("Add", &["p", "x"], &["q"]);
    let body = body.node("Relu", &["q"], &["next"]).output("on", Type::Bool, &[]).output("next", Type::Float, &[2]);
    let model = main().input("n", Type::Int64, &[]).weight("half", &[1], &[0.5]).node("Add", &["x", "half"], &["h"]);
    let model = model.node("Loop", &["n", NONE, "h"], &["l"]).body("body", body).node("Add", &["l", "half"], &["y"]);
    let mut session =
        load(model.output("y", Type::Float, &[2]), &registry, &["simdev", "json"], &LoadOptions::default());
    for (times, expected) in [(1, [3.5, 0.5]), (0, [2.0, -1.0]), (3, [6.5, 0.5]), (3, [6.5, 0.5]), (1, [3.5, 0.5])] {
        assert_eq!(floats(&mut session, &[("x", x()), ("n", number(times))]), [expected], "{times}");
    }
    let devices = session.devices();
    assert_eq!((devices.len(), devices[0].constant_bytes), (1, 256), "the constant is on the device once");
    let times: Vec<_> = session.times().into_iter().map(|time| format!("{} {}", time.symbol, time.backend)).collect();
    assert_eq!(times, ["byoc_main_simdev_0 simdev", "byoc_main_simdev_2 simdev", "byoc_main_simdev_1 simdev"]);
}

/// The time of a region in a body is that of all its iterations.
#[test]
fn times_are_of_the_whole_run() {
    let mut session = on_host(fibonacci());
    let mut time = |times: i64| {
        floats(&mut session, &[("x", x()), ("n", number(times))]);
        session.times().iter().map(|region| region.time).sum::<std::time::Duration>()
    };
    assert!(time(20_000) > 20 * time(20).max(std::time::Duration::from_nanos(20)));
    assert_eq!(time(0), std::time::Duration::ZERO);
}
