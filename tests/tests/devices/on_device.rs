//! Runs whose inputs are on a device already, and whose outputs stay there.

use byoc_core::diagnostic::Diagnostic;
use byoc_core::plugin::Registry;
use byoc_core::runtime::{DeviceArray, Input, LoadOptions, PortIndex, Queueing, Session};
use byoc_plugin_api::dlpack::DLDevice;
use byoc_plugin_api::{DType, TensorView, contiguous_strides};
use byoc_tests::onnx::{Model, Type};
use byoc_tests::{engine, places};

const DEVICE: DLDevice = DLDevice { device_type: 12, device_id: 0 };

/// The session of a model, and what it needs to stay.
struct Bench {
    session: Session,
    _registry: Registry,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new(model: Model, queueing: Queueing) -> Bench {
        let folder = places::temporary();
        let registry = engine::from_files(vec![places::plugin("simdev"), places::plugin("json")]);
        let model = places::write(folder.path(), "model.onnx", model.finish());
        let path = folder.path().join("model.byoc");
        let takes = [("simdev.takes", "Add Mul Relu")];
        engine::compile_with(&model, &path, &registry, &["simdev", "json"], &takes).expect("compiles");
        let options = LoadOptions { threads: 1, queueing, ..LoadOptions::default() };
        let session = Session::open(&path, &registry, &options).expect("loads");
        Bench { session, _registry: registry, _folder: folder }
    }

    fn run(&mut self, inputs: &[Input<'_>]) -> Result<(), Diagnostic> {
        // SAFETY: the arrays are those that this session gave, or it refuses them.
        unsafe { self.session.run_on_devices(inputs) }
    }

    /// An output on the host.
    fn fetched(&mut self, index: usize) -> Vec<f32> {
        self.session.fetch().expect("the outputs come back");
        self.session.output(index).expect("an output").to_vec().expect("f32")
    }

    /// The address and the shape of an output on the device.
    fn output(&self, index: usize) -> (u64, Vec<i64>) {
        let array = self.session.device_output(index).expect("there was a run").expect("it is on the device");
        assert_eq!((array.device, array.dtype), (DEVICE, DType::F32));
        (array.address, array.shape.to_vec())
    }

    /// How many copies the last run made from one memory to another.
    fn copies(&self, from: &str, to: &str) -> usize {
        let copies = self.session.copies();
        copies
            .iter()
            .filter(|copy| (copy.from.as_str(), copy.to.as_str()) == (from, to) && !copy.time.is_zero())
            .count()
    }
}

fn on_host<'a>(data: &'a [f32], shape: &'a [i64], strides: &'a [i64]) -> Input<'a> {
    Input::Host(TensorView::from_slice(data, shape, strides).expect("a tensor"))
}

fn on_device((address, shape): &(u64, Vec<i64>)) -> Input<'_> {
    Input::Device(DeviceArray { device: DEVICE, address: *address, dtype: DType::F32, shape })
}

/// `y = x + w` and `z = y * z`, where each is of any number of rows that fits 4.
fn sums() -> Model {
    Model::default()
        .input("x", Type::Float, &[-1, 4])
        .input("z", Type::Float, &[-1, 4])
        .weight("w", &[4], &[0.5, 1.0, 1.5, 2.0])
        .node("Add", &["x", "w"], &["y"])
        .node("Mul", &["y", "z"], &["product"])
        .output("y", Type::Float, &[-1, 4])
        .output("product", Type::Float, &[-1, 4])
}

#[test]
fn outputs_stay_and_become_inputs_within_the_device() {
    let mut bench = Bench::new(sums(), Queueing::Timed);
    let (shape, strides) = ([1, 4], [4, 1]);
    let (x, z) = ([1.0, 2.0, 3.0, 4.0], [2.0, 2.0, 0.5, 1.0]);
    bench.run(&[on_host(&x, &shape, &strides), on_host(&z, &shape, &strides)]).expect("runs");
    assert_eq!((bench.copies("host", "sim:0"), bench.copies("sim:0", "host")), (2, 0));
    let error = bench.session.output(0).err().expect("it is on the device").to_string();
    assert_eq!(error, "[B703] the outputs are on the device that computed them. Fetch them first");
    assert_eq!(bench.fetched(0), [1.5, 3.0, 4.5, 6.0]);
    assert_eq!(bench.fetched(1), [3.0, 6.0, 2.25, 6.0]);

    // Each to the place of the other input; what they were is read before anything is written.
    let (y, product) = (bench.output(0), bench.output(1));
    bench.run(&[on_device(&product), on_device(&y)]).expect("runs");
    assert_eq!((bench.copies("host", "sim:0"), bench.copies("sim:0", "host")), (2, 0));
    assert_eq!(bench.fetched(0), [3.5, 7.0, 3.75, 8.0]);
    assert_eq!(bench.fetched(1), [3.5 * 1.5, 7.0 * 3.0, 3.75 * 4.5, 8.0 * 6.0]);

    // What is in its place already is not copied.
    let place = |bench: &Bench, index| (bench.session.address(PortIndex::Input(index)).expect("there").1, vec![1, 4]);
    let (first, second) = (place(&bench, 0), place(&bench, 1));
    bench.run(&[on_device(&first), on_host(&z, &shape, &strides)]).expect("runs");
    assert_eq!(bench.copies("host", "sim:0"), 1);
    assert_eq!(bench.fetched(0), [3.5, 7.0, 3.75, 8.0]);
    // Each in the place of the other goes over the host, for the first copy would overwrite what the second one reads.
    bench.run(&[on_device(&second), on_device(&first)]).expect("runs");
    assert_eq!(bench.fetched(0), [2.5, 3.0, 2.0, 3.0]);
    assert_eq!(bench.fetched(1), [2.5 * 3.0, 3.0 * 6.0, 2.0 * 2.25, 3.0 * 6.0]);
}

/// An empty output, and an input that is an output too, have places where a run writes other things before it reads them.
#[test]
fn places_of_inputs_are_told_from_those_of_outputs() {
    let model = Model::default()
        .input("x", Type::Float, &[1, 4])
        .input("z", Type::Float, &[1, 4])
        .input("e", Type::Float, &[-1, 4])
        .weight("w", &[4], &[0.5, 1.0, 1.5, 2.0])
        .node("Add", &["e", "w"], &["none"])
        .node("Add", &["x", "w"], &["y"])
        .node("Mul", &["y", "z"], &["product"])
        .output("none", Type::Float, &[-1, 4])
        .output("y", Type::Float, &[1, 4])
        .output("product", Type::Float, &[1, 4])
        .output("z", Type::Float, &[1, 4]);
    let mut bench = Bench::new(model, Queueing::Direct);
    let (x, z, shape, strides) = ([1.0; 4], [2.0; 4], [1, 4], [4, 1]);
    let (x, z, empty) = (on_host(&x, &shape, &strides), on_host(&z, &shape, &strides), on_host(&[], &[0, 4], &[4, 1]));
    bench.run(&[x, z, empty]).expect("runs");
    let place = |bench: &Bench, index| (bench.session.device_input(index).expect("it is there").address, vec![1, 4]);
    let (first, second) = (place(&bench, 0), place(&bench, 1));
    bench.run(&[on_device(&second), on_device(&first), empty]).expect("runs");
    assert_eq!(bench.fetched(1), [2.5, 3.0, 3.5, 4.0]);
    assert_eq!(bench.fetched(2), [2.5, 3.0, 3.5, 4.0]);
    assert_eq!(bench.fetched(3), [1.0; 4]);
    // What `z` was, beside what it is now.
    let (first, three) = (place(&bench, 1), [3.0; 4]);
    bench.run(&[on_device(&first), on_host(&three, &shape, &strides), empty]).expect("runs");
    assert_eq!(bench.fetched(1), [1.5, 2.0, 2.5, 3.0]);
    assert_eq!(bench.fetched(2), [4.5, 6.0, 7.5, 9.0]);
}

/// Memory for other shapes takes the place of what an input is in.
#[test]
fn an_output_of_another_shape_is_brought_over_in_time() {
    let model = Model::default()
        .input("x", Type::Float, &[-1, 4])
        .weight("w", &[3, 4], &(0..12).map(|i| i as f32).collect::<Vec<_>>())
        .node("Add", &["x", "w"], &["y"])
        .output("y", Type::Float, &[3, 4]);
    for queueing in [Queueing::Recorded, Queueing::Direct, Queueing::Timed, Queueing::Waiting] {
        let mut bench = Bench::new(model.clone(), queueing);
        bench.run(&[on_host(&[1.0; 4], &[1, 4], &[4, 1])]).expect("runs");
        for times in 2..6 {
            let y = bench.output(0);
            assert_eq!(y.1, [3, 4]);
            bench.run(&[on_device(&y)]).expect("runs");
            let expected: Vec<_> = (0..12).map(|i| 1.0 + (times * i) as f32).collect();
            assert_eq!(bench.fetched(0), expected, "{queueing:?}, {times} times");
        }
    }
}

/// `Tanh` is the host's, and `x` an output as it is.
#[test]
fn inputs_that_the_host_reads_are_brought_to_it() {
    let model = Model::default()
        .input("x", Type::Float, &[2])
        .input("v", Type::Float, &[2])
        .node("Relu", &["x"], &["y"])
        .node("Tanh", &["x"], &["curved"])
        .output("y", Type::Float, &[2])
        .output("curved", Type::Float, &[2])
        .output("v", Type::Float, &[2]);
    let mut bench = Bench::new(model, Queueing::Direct);
    let data = [0.25, -3.0];
    bench.run(&[on_host(&data, &[2], &[1]), on_host(&data, &[2], &[1])]).expect("runs");
    assert!(bench.session.device_output(1).expect("there was a run").is_none());
    let curved: Vec<f32> = bench.session.output(1).expect("it is on the host").to_vec().expect("f32");
    let y = bench.output(0);
    bench.run(&[on_device(&y), on_device(&y)]).expect("runs");
    assert_eq!(bench.session.output(2).expect("an input").to_vec::<f32>().expect("f32"), [0.25, 0.0]);
    assert_eq!(bench.session.output(1).expect("of the host").to_vec::<f32>().expect("f32"), [curved[0], 0.0]);
    assert_eq!(bench.fetched(0), [0.25, 0.0]);
}

#[test]
fn what_cannot_be_is_refused() {
    let mut bench = Bench::new(sums(), Queueing::Recorded);
    let (data, shape, strides) = ([1.0; 4], [1, 4], [4, 1]);
    let host = on_host(&data, &shape, &strides);
    let mut refused = |inputs: &[Input<'_>]| bench.run(inputs).expect_err("refused").to_string();
    assert_eq!(refused(&[host]), "[B701] the entry 'main' takes 2 inputs, got 1");
    let at = |device_type, device_id, dtype, shape| {
        let device = DLDevice { device_type, device_id };
        Input::Device(DeviceArray { device, address: 256, dtype, shape })
    };
    for (given, message) in [
        (
            at(2, 1, DType::F32, &[1, 4][..]),
            "input 'z' is on device 1 of DLPack's type 2, the session uses sim:0. Copy it to the host first",
        ),
        (at(12, 0, DType::F64, &[1, 4]), "input 'z' is f64, the entry takes f32"),
        (at(12, 0, DType::I4, &[1, 4]), "input 'z' cannot be on a device: its type is i4"),
        (at(12, 0, DType::F32, &[-1, 4]), "input 'z' has a dimension of size -1"),
        (at(12, 0, DType::F32, &[4]), "input 'z' has shape [4], the entry takes [batch,4]"),
    ] {
        assert_eq!(refused(&[host, given]), format!("[B701] {message}"));
    }
    let none = bench.session.device_output(2).expect_err("two").to_string();
    assert_eq!(none, "[B702] there is no output 2");
    bench.run(&[host, host]).expect("runs");
    assert_eq!(bench.session.device_handles().iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>(), ["sim:0"]);
    assert_eq!(contiguous_strides(&bench.output(1).1), [4, 1]);
}
