//! Sizes that only the run tells: what follows is planned when they are known, on the host and on a device, and planned anew
//! for others.

use byoc_core::onnx::write::value;
use byoc_core::plugin::Registry;
use byoc_core::runtime::Session;
use byoc_plugin_api::testing::Counting;
use byoc_plugin_api::{Attribute, DType, Dim};
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};

/// `a = x + x`, reshaped as `shape` says to `r`, `b = relu(r)`, repeated as `times` says to `t`, `c = t + one`. Of every
/// stage there is an output, and so is an input and a constant.
fn model() -> Vec<u8> {
    Model::default()
        .input("x", Type::Float, &[-1, 4])
        .input("shape", Type::Int64, &[2])
        .input("times", Type::Int64, &[2])
        .weight("one", &[1], &[1.0])
        .node("Add", &["x", "x"], &["a"])
        .node("Reshape", &["a", "shape"], &["r"])
        .node("Relu", &["r"], &["b"])
        .node("Tile", &["b", "times"], &["t"])
        .node("Add", &["t", "one"], &["c"])
        .output("c", Type::Float, &[-1, -1])
        .output("a", Type::Float, &[-1, 4])
        .output("r", Type::Float, &[-1, -1])
        .output("b", Type::Float, &[-1, -1])
        .output("x", Type::Float, &[-1, 4])
        .output("one", Type::Float, &[1])
        .finish()
}

fn ints(values: &[i64]) -> Tensor {
    Tensor::new(DType::I64, vec![values.len() as i64], values.iter().flat_map(|value| value.to_le_bytes()).collect())
}

fn given(rows: i64, shape: [i64; 2], times: [i64; 2]) -> Vec<(String, Tensor)> {
    let x: Vec<f32> = (0..rows * 4).map(|index| (index as f32 - 3.5) / 4.0).collect();
    let inputs = [("x", Tensor::f32(&[rows, 4], &x)), ("shape", ints(&shape)), ("times", ints(&times))];
    inputs.map(|(name, tensor)| (name.to_owned(), tensor)).into()
}

/// The outputs, by plain loops.
fn expected(rows: i64, [height, width]: [i64; 2], [down, right]: [i64; 2]) -> Vec<Tensor> {
    let x: Vec<f32> = (0..rows * 4).map(|index| (index as f32 - 3.5) / 4.0).collect();
    let a: Vec<f32> = x.iter().map(|x| x + x).collect();
    let b: Vec<f32> = a.iter().map(|a| a.max(0.0)).collect();
    let mut c = Vec::new();
    for row in 0..height * down {
        for column in 0..width * right {
            c.push(b[((row % height) * width + column % width) as usize] + 1.0);
        }
    }
    vec![
        Tensor::f32(&[height * down, width * right], &c),
        Tensor::f32(&[rows, 4], &a),
        Tensor::f32(&[height, width], &a),
        Tensor::f32(&[height, width], &b),
        Tensor::f32(&[rows, 4], &x),
        Tensor::f32(&[1], &[1.0]),
    ]
}

fn check(session: &mut Session, rows: i64, shape: [i64; 2], times: [i64; 2]) {
    let found = engine::run(session, &given(rows, shape, times)).expect("it runs");
    assert_eq!(found.len(), 6);
    for ((name, found), expected) in found.into_iter().zip(expected(rows, shape, times)) {
        assert_eq!((found.dtype, &found.shape), (expected.dtype, &expected.shape), "{name}");
        let near = found.floats().zip(expected.floats()).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near, "{name} of {shape:?} times {times:?}");
    }
}

fn session(registry: &Registry, backends: &[&str]) -> Session {
    let folder = places::temporary();
    let model = places::write(folder.path(), "model.onnx", model());
    let artifact = folder.path().join("model.byoc");
    engine::compile(&model, &artifact, registry, backends).expect("compiled");
    engine::load(&artifact, registry, 1).expect("loaded")
}

#[test]
fn what_follows_is_planned_for_the_sizes_of_each_run() {
    let mut session = session(&engine::embedded(), &["json"]);
    let shapes: Vec<_> = session.outputs().into_iter().map(|port| port.shape).collect();
    assert_eq!(format!("{}", shapes[2][0]), "make_r_size0");
    let early = session.output(0).map(drop).expect_err("no run yet").to_string();
    assert_eq!(early, "[B703] the entry did not run yet");
    check(&mut session, 3, [2, 6], [1, 2]);
    check(&mut session, 3, [12, 1], [3, 1]);
    check(&mut session, 3, [2, 6], [1, 2]);
    check(&mut session, 1, [4, 1], [0, 1]);
    check(&mut session, 0, [0, 7], [2, 1]);
    check(&mut session, 2, [1, 8], [5, 1]);
    let regions: Vec<_> = session.times().into_iter().map(|time| time.symbol).collect();
    assert_eq!(
        regions,
        ["byoc_main_json_0", "byoc_main_json_1", "byoc_main_json_2", "byoc_main_json_3", "byoc_main_json_4"]
    );
}

/// What is allocated in a run with the sizes of the one before are lists of inputs, not memory for values.
#[test]
fn memory_stays_for_runs_of_the_same_sizes() {
    let mut session = session(&engine::embedded(), &["json"]);
    check(&mut session, 64, [16, 16], [4, 4]);
    let (bytes, before) = (session.arena_bytes(), Counting::count());
    check(&mut session, 64, [16, 16], [4, 4]);
    assert_eq!(session.arena_bytes(), bytes);
    assert!(Counting::count() - before < 400, "{} allocations", Counting::count() - before);
}

#[test]
fn a_device_works_before_between_and_behind() {
    let registry = engine::from_files(vec![places::plugin("simdev"), places::plugin("json")]);
    let mut session = session(&registry, &["simdev", "json"]);
    for _ in 0..3 {
        check(&mut session, 3, [2, 6], [1, 2]);
        check(&mut session, 1, [2, 2], [2, 2]);
    }
    check(&mut session, 1, [2, 2], [2, 2]);
    let devices = session.devices();
    assert_eq!(devices.len(), 1);
    assert_eq!(devices[0].constant_bytes, 256, "the constant is on the device once");
    let backends: Vec<_> = session.times().into_iter().map(|time| time.backend).collect();
    assert_eq!(backends, ["simdev", "json", "simdev", "json", "simdev"]);
    let copies: Vec<_> = session.copies().into_iter().map(|copy| format!("{} to {}", copy.value, copy.to)).collect();
    assert_eq!(copies, ["x to sim:0", "a to host", "r to sim:0", "b to host", "t to sim:0", "c to host"]);
    let refused = session.carry(0, 0).expect_err("a size may be another one next time").to_string();
    assert_eq!(
        refused,
        "[B701] cannot carry an output: the entry has sizes that are known only at run time. Give the output to the next run as \
         its input"
    );
    let inputs = given(1, [2, 2], [2, 2]);
    let borrowed: Vec<_> = inputs.iter().map(|(_, tensor)| tensor.borrowed()).collect();
    let views: Vec<_> = borrowed.iter().map(|tensor| tensor.view()).collect();
    session.run_resident(&views).expect("runs as a whole");
    session.fetch().expect("there is nothing to fetch");
    assert_eq!(Tensor::of(&session.output(0).expect("c")).shape, [4, 4]);
}

/// A stage without the sizes that change is not planned anew: what is recorded on a device stays.
#[test]
fn stages_of_fixed_sizes_stay_as_they_are() {
    let x = input(input(Model::default(), "x", Type::Float, &["2", "4"]), "k", Type::Int64, &["2"]);
    let model = x.node("Tile", &["x", "k"], &["t"]).node("Relu", &["x"], &["r"]).node("Add", &["r", "r"], &["y"]);
    let model = model.output("t", Type::Float, &[-1, -1]).output("y", Type::Float, &[2, 4]);
    let folder = places::temporary();
    let (model, artifact) =
        (places::write(folder.path(), "model.onnx", model.finish()), folder.path().join("model.byoc"));
    let registry = engine::from_files(vec![places::plugin("simdev"), places::plugin("json")]);
    engine::compile(&model, &artifact, &registry, &["simdev", "json"]).expect("compiled");
    let mut session = engine::load(&artifact, &registry, 1).expect("loaded");
    for times in 1..5 {
        let given = [("x", counted(&[2, 4])), ("k", ints(&[times, 1]))].map(|(name, tensor)| (name.to_owned(), tensor));
        let found = engine::run(&mut session, &given).expect("it runs");
        assert_eq!(found[0].1.shape, [2 * times, 4]);
    }
    let backends: Vec<_> = session.times().into_iter().map(|time| time.backend).collect();
    assert_eq!((backends.join(" "), session.devices()[0].recordings), ("json simdev".into(), 1));
}

/// A run that fails leaves no outputs, and the next one is as if it had not been.
#[test]
fn a_run_that_fails_is_no_run() {
    let mut session = session(&engine::embedded(), &["json"]);
    check(&mut session, 3, [2, 6], [1, 2]);
    let failed = engine::run(&mut session, &given(3, [5, 5], [1, 2])).expect_err("12 elements").to_string();
    assert_eq!(
        failed,
        "[B703] region byoc_main_json_1, node 'make_r' failed on backend 'json': 12 elements do not make a tensor of shape [5, 5]"
    );
    let none = session.output(0).map(drop).expect_err("no outputs").to_string();
    assert_eq!(none, "[B703] the entry did not run yet");
    let failed = engine::run(&mut session, &given(3, [2, 6], [-1, 2])).expect_err("a negative number").to_string();
    assert_eq!(
        failed,
        "[B703] region byoc_main_json_3, node 'make_t' failed on backend 'json': negative size in shape [-1, 2]"
    );
    check(&mut session, 3, [2, 6], [1, 2]);
}

/// An input whose sizes are numbers or names.
fn input(mut model: Model, name: &str, ty: Type, sizes: &[&str]) -> Model {
    let size = |size: &&str| size.parse().map_or_else(|_| Dim::Symbolic((*size).to_owned()), Dim::Fixed);
    model.graph.input.push(value(name, ty, Some(&sizes.iter().map(size).collect::<Vec<_>>())));
    model
}

/// What json makes of a model with an output `y` of any shape.
fn computed(mut model: Model, inputs: &[(&str, Tensor)]) -> (Vec<i64>, Vec<f64>) {
    model.graph.output.push(value("y", Type::Float, None));
    let folder = places::temporary();
    let (model, artifact) =
        (places::write(folder.path(), "model.onnx", model.finish()), folder.path().join("model.byoc"));
    let registry = engine::embedded();
    engine::compile(&model, &artifact, &registry, &["json"]).expect("compiled");
    let mut session = engine::load(&artifact, &registry, 1).expect("loaded");
    let inputs: Vec<_> = inputs.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
    let (_, y) = engine::run(&mut session, &inputs).expect("it runs").swap_remove(0);
    (y.shape.clone(), y.floats().collect())
}

fn counted(shape: &[i64]) -> Tensor {
    let count: i64 = shape.iter().product();
    Tensor::f32(shape, &(0..count).map(|index| index as f32).collect::<Vec<_>>())
}

fn axis(axis: i64) -> [(&'static str, Attribute); 1] {
    [("axis", Attribute::Int(axis))]
}

/// What crosses a border may have only the product of two sizes, half of one, or a list of them.
#[test]
fn regions_and_stages_know_the_sizes_in_them() {
    let x = |sizes: &[&str]| input(Model::default(), "x", Type::Float, sizes);
    let k = |model| input(model, "k", Type::Int64, &["1"]);
    let flat =
        k(x(&["n", "m"])).ints("all", &[1], &[-1]).ints("zero", &[1], &[0]).node("Reshape", &["x", "all"], &["flat"]);
    let flat =
        flat.node("Slice", &["flat", "zero", "k"], &["some"]).node_with("Concat", &["flat", "some"], &["y"], &axis(0));
    let found = computed(flat, &[("x", counted(&[2, 3])), ("k", ints(&[2]))]);
    assert_eq!(found, (vec![8], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 0.0, 1.0]));

    let window = [("kernel_shape", Attribute::Ints(vec![2, 2])), ("strides", Attribute::Ints(vec![2, 2]))];
    let pooled = k(x(&["1", "1", "h", "w"])).ints("zero", &[1], &[0]).ints("last", &[1], &[3]);
    let pooled =
        pooled.node_with("MaxPool", &["x"], &["p"], &window).node("Slice", &["p", "zero", "k", "last"], &["some"]);
    let pooled = pooled.node_with("Concat", &["p", "some"], &["y"], &axis(3));
    let found = computed(pooled, &[("x", counted(&[1, 1, 2, 4])), ("k", ints(&[1]))]);
    assert_eq!(found, (vec![1, 1, 1, 3], vec![5.0, 7.0, 5.0]));

    let told = input(k(x(&["n", "m"])), "s", Type::Int64, &["2"]).ints("all", &[1], &[-1]);
    let told = told.node("Reshape", &["x", "s"], &["r"]).node("Reshape", &["r", "all"], &["flat"]);
    let told = told.node("Tile", &["flat", "k"], &["t"]).node_with("Concat", &["t", "flat"], &["y"], &axis(0));
    let found = computed(told, &[("x", counted(&[1, 2])), ("k", ints(&[2])), ("s", ints(&[2, 1]))]);
    assert_eq!(found, (vec![6], [0.0, 1.0].repeat(3)));

    let back = input(x(&["n", "m"]), "k", Type::Int64, &["2"]).node("Shape", &["x"], &["h"]);
    let back = back.node("Mul", &["h", "k"], &["hk"]).node("Reshape", &["x", "hk"], &["r"]);
    let back = back.node("Relu", &["r"], &["b"]).node("Reshape", &["b", "h"], &["y"]);
    let found = computed(back, &[("x", counted(&[2, 2])), ("k", ints(&[1, 1]))]);
    assert_eq!(found, (vec![2, 2], vec![0.0, 1.0, 2.0, 3.0]));
}

/// A size that a run tells may turn out to be 1 where it meets another one, whatever the names are.
#[test]
fn told_sizes_broadcast() {
    let x = input(Model::default().opset(18), "x", Type::Float, &["sequence_length", "hidden_dimension"]);
    let centred =
        input(x, "a", Type::Int64, &["1"]).node("ReduceMax", &["x", "a"], &["r"]).node("Sub", &["x", "r"], &["y"]);
    let found = computed(centred, &[("x", counted(&[2, 3])), ("a", ints(&[1]))]);
    assert_eq!(found, (vec![2, 3], vec![-2.0, -1.0, 0.0, -2.0, -1.0, 0.0]));

    let x = input(input(Model::default(), "x", Type::Float, &["n"]), "k", Type::Int64, &["1"]);
    let cut = input(x, "w", Type::Float, &["a_longer_name"]).ints("zero", &[1], &[0]);
    let cut = cut.node("Slice", &["x", "zero", "k"], &["s"]).node("Add", &["s", "w"], &["y"]);
    let found = computed(cut, &[("x", counted(&[4])), ("k", ints(&[1])), ("w", counted(&[3]))]);
    assert_eq!(found, (vec![3], vec![0.0, 1.0, 2.0]));
}

#[test]
fn long_parts_are_told() {
    let x = input(input(Model::default(), "x", Type::Float, &["8000"]), "s", Type::Int64, &["2"]);
    let model =
        x.node_with("Split", &["x", "s"], &["a", "b"], &axis(0)).node_with("Concat", &["b", "a"], &["y"], &axis(0));
    let (shape, found) = computed(model, &[("x", counted(&[8000])), ("s", ints(&[6000, 2000]))]);
    assert_eq!((shape, found[0], found[2000], found[7999]), (vec![8000], 6000.0, 0.0, 5999.0));
    let x = input(input(Model::default(), "x", Type::Float, &["n"]), "s", Type::Int64, &["3"]);
    let model = x.node_with("Split", &["x", "s"], &["a", "b"], &axis(0)).output("a", Type::Float, &[-1]);
    let folder = places::temporary();
    let model = places::write(folder.path(), "model.onnx", model.finish());
    let error = engine::compile(&model, &folder.path().join("a.byoc"), &engine::embedded(), &["json"]);
    let error = error.map(drop).expect_err("three parts, two outputs").to_string();
    assert_eq!(error, "[B202] node 'make_a' (Split): input 1 (split) has 3 entries, but there are 2 outputs");
}
