//! A run that follows another of the same shapes allocates nothing, in core or in an embedded backend.

use byoc_core::artifact::Artifact;
use byoc_core::calibrate::{Dataset, Input, Samples};
use byoc_core::compile::{self, Request, Silent};
use byoc_core::diagnostic::{Diagnostic, Result};
use byoc_core::onnx::write::value;
use byoc_core::plugin::Registry;
use byoc_core::runtime::Session;
use byoc_kendryte_backend as _;
use byoc_plugin_api::testing::Counting;
use byoc_plugin_api::{Attribute, Dim, TensorView};
use byoc_tests::onnx::{Model, Type};
use byoc_tests::{engine, places};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of the second run.
fn allocations(session: &mut Session, input: TensorView<'_>) -> usize {
    session.run(&[input]).expect("the first run");
    allocations_of_one(session, input)
}

fn allocations_of_one(session: &mut Session, input: TensorView<'_>) -> usize {
    let before = Counting::count();
    session.run(&[input]).expect("a run");
    Counting::count() - before
}

/// Allocations of the second run of `relu(x * w + x)` on one thread.
fn second_run(registry: &Registry, backends: &[&str], regions: usize) -> usize {
    let folder = places::temporary();
    let (model, artifact) = (folder.path().join("model.onnx"), folder.path().join("model.byoc"));
    let bytes = Model::default()
        .input("x", Type::Float, &[2, 8])
        .weight("w", &[2, 8], &(0..16).map(|i| i as f32).collect::<Vec<_>>())
        .node("Mul", &["x", "w"], &["p"])
        .node("Add", &["p", "x"], &["s"])
        .node("Relu", &["s"], &["y"])
        .output("y", Type::Float, &[2, 8])
        .finish();
    std::fs::write(&model, bytes).expect("the model can be written");
    engine::compile(&model, &artifact, registry, backends).expect("compiled");
    let mut session = engine::load(&artifact, registry, 1).expect("loaded");
    let data = [1f32; 16];
    let input = TensorView::from_slice(&data, &[2, 8], &[8, 1]).expect("a tensor");
    let count = allocations(&mut session, input);
    assert_eq!(session.times().len(), regions);
    let expected: Vec<f32> = (0..16).map(|i| i as f32 + 1.0).collect();
    assert_eq!(session.output(0).expect("y").to_vec::<f32>().expect("f32"), expected);
    count
}

#[test]
fn one_region_in_the_program() {
    assert_eq!(second_run(&engine::embedded(), &["json"], 1), 0);
}

#[test]
fn regions_of_two_plugins() {
    let registry = engine::from_files(vec![places::plugin("template"), places::plugin("json")]);
    assert_eq!(second_run(&registry, &["template", "json"], 3), 0);
}

/// Regions on a device and on the host in turns: once what is on the device is recorded, nothing is allocated.
#[test]
fn a_device_and_the_host() {
    let folder = places::temporary();
    let bytes = Model::default()
        .input("x", Type::Float, &[2, 8])
        .node("Relu", &["x"], &["a"])
        .node("Tanh", &["a"], &["b"])
        .node("Add", &["a", "b"], &["y"])
        .output("y", Type::Float, &[2, 8])
        .finish();
    let model = places::write(folder.path(), "model.onnx", bytes);
    let artifact = folder.path().join("model.byoc");
    let registry = engine::from_files(vec![places::plugin("simdev"), places::plugin("json")]);
    engine::compile(&model, &artifact, &registry, &["simdev", "json"]).expect("compiled");
    let mut session = engine::load(&artifact, &registry, 1).expect("loaded");
    let data = [1f32; 16];
    let input = TensorView::from_slice(&data, &[2, 8], &[8, 1]).expect("a tensor");
    // The second run records.
    session.run(&[input]).expect("the first run");
    assert_eq!(allocations(&mut session, input), 0);
    assert_eq!(session.devices()[0].recordings, 2);
    let expected = [1.0 + 1f32.tanh(); 16];
    let found = session.output(0).expect("y").to_vec::<f32>().expect("f32");
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
}

/// What `--dataset` would name: one sample of a model with one input.
struct One(Vec<f32>);

impl Dataset for One {
    fn name(&self) -> String {
        "one".into()
    }

    fn open(&self, _: &[Input], _: &mut dyn FnMut(Diagnostic)) -> Result<Box<dyn Samples + '_>> {
        Ok(Box::new(One(self.0.clone())))
    }
}

impl Samples for One {
    fn count(&self) -> usize {
        1
    }

    fn name(&self, sample: usize) -> String {
        sample.to_string()
    }

    fn load(&self, _: usize) -> Result<Vec<Vec<u8>>> {
        Ok(vec![self.0.iter().flat_map(|value| value.to_le_bytes()).collect()])
    }
}

/// A classifier with layers of the accelerator and of its CPU, in bytes and in `f32`.
#[test]
fn a_quantised_region() {
    let folder = places::temporary();
    let (model, artifact) = (folder.path().join("model.onnx"), folder.path().join("model.byoc"));
    let weights = |count: usize| -> Vec<f32> { (0..count).map(|i| ((i * 7) % 17) as f32 / 8.0 - 1.0).collect() };
    let bytes = Model::default()
        .input("x", Type::Float, &[1, 2, 8, 8])
        .weight("first", &[6, 2, 1, 1], &weights(12))
        .weight("second", &[6, 6, 1, 1], &weights(36))
        .node("Conv", &["x", "first"], &["a"])
        .node("Relu", &["a"], &["b"])
        .node("Conv", &["b", "second"], &["c"])
        .node("Add", &["b", "c"], &["d"])
        .node("GlobalAveragePool", &["d"], &["e"])
        .node("Flatten", &["e"], &["f"])
        .node("Softmax", &["f"], &["y"])
        .output("y", Type::Float, &[1, 6])
        .finish();
    std::fs::write(&model, bytes).expect("the model can be written");
    let data: Vec<f32> = (0..128).map(|i| (i % 11) as f32 / 10.0).collect();
    let registry = engine::embedded();
    let backends = registry.select(&["kendryte".into(), "json".into()], &[]).expect("both are there");
    let request = Request {
        calibration: Some(Box::new(One(data.clone()))),
        ..Request::new(vec![("main".into(), model)], backends)
    };
    compile::compile(&request, &artifact, &mut Silent).expect("compiled");
    let opened = Artifact::open(&artifact).expect("it opens");
    let backends: Vec<_> = opened.manifest().regions.iter().map(|region| region.backend.as_str()).collect();
    assert_eq!(backends, ["kendryte"]);
    let mut session = engine::load(&artifact, &registry, 1).expect("loaded");
    let input = TensorView::from_slice(&data, &[1, 2, 8, 8], &[128, 64, 8, 1]).expect("a tensor");
    assert_eq!(allocations(&mut session, input), 0);
    let probabilities = session.output(0).expect("y").to_vec::<f32>().expect("f32");
    assert!((probabilities.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{probabilities:?}");
}

/// Sizes that the inputs tell: a batch of any length, whose heads are split by shapes that the graph computes.
#[test]
fn shapes_of_every_length() {
    let folder = places::temporary();
    let mut sizes = Model::default();
    let free = ["batch", "length"].map(|name| Dim::Symbolic(name.into()));
    sizes.graph.input.push(value("x", Type::Float, Some(&[&free[..], &[8.into()]].concat())));
    let sizes = sizes
        .weight("w", &[8, 8], &(0..64).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>())
        .ints("from", &[1], &[0])
        .ints("to", &[1], &[2])
        .ints("heads", &[2], &[2, 4])
        .ints("joined", &[1], &[8])
        .node("Shape", &["x"], &["shape"])
        .node("Slice", &["shape", "from", "to"], &["rows"])
        .node_with("Concat", &["rows", "heads"], &["split"], &[("axis", Attribute::Int(0))])
        .node_with("Concat", &["rows", "joined"], &["join"], &[("axis", Attribute::Int(0))]);
    let order = Attribute::Ints(vec![0, 2, 1, 3]);
    let mut model = sizes
        .node("MatMul", &["x", "w"], &["q"])
        .node("Reshape", &["q", "split"], &["parts"])
        .node_with("Transpose", &["parts"], &["q_heads"], &[("perm", order.clone())])
        .node_with("Transpose", &["q_heads"], &["k_heads"], &[("perm", Attribute::Ints(vec![0, 1, 3, 2]))])
        .node("MatMul", &["q_heads", "k_heads"], &["scores"])
        .node_with("Softmax", &["scores"], &["weights"], &[("axis", Attribute::Int(-1))])
        .node("MatMul", &["weights", "q_heads"], &["seen"])
        .node_with("Transpose", &["seen"], &["rows_first"], &[("perm", order)])
        .node("Reshape", &["rows_first", "join"], &["y"])
        .output("y", Type::Float, &[]);
    model.graph.output[0] = value("y", Type::Float, None);
    let (path, artifact) = (folder.path().join("model.onnx"), folder.path().join("model.byoc"));
    std::fs::write(&path, model.finish()).expect("the model can be written");
    let registry = engine::embedded();
    engine::compile(&path, &artifact, &registry, &["json"]).expect("compiled");
    let mut session = engine::load(&artifact, &registry, 1).expect("loaded");
    let sizes = [(1i64, 1i64), (2, 7), (1, 64), (3, 128), (1, 300), (2, 7)];
    // What was prepared for each is there when they come again.
    let counts: [fn(&mut Session, TensorView<'_>) -> usize; 2] = [allocations, allocations_of_one];
    for (count, (batch, length)) in counts.into_iter().flat_map(|count| sizes.map(|size| (count, size))) {
        let data = vec![0.5f32; (batch * length * 8) as usize];
        let (shape, strides) = ([batch, length, 8], [length * 8, 8, 1]);
        let input = TensorView::from_slice(&data, &shape, &strides).expect("a tensor");
        assert_eq!(count(&mut session, input), 0, "{batch} of {length}");
        assert_eq!(session.output(0).expect("y").shape(), shape);
    }
    assert_eq!(session.times().len(), 1);
}
