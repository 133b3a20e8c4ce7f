//! Runs whose shapes change: what a session keeps of earlier ones, on the simulated device, which refuses to replay what it may not.

use byoc_core::artifact::Artifact;
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_plugin_api::TensorView;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::{engine, places};

/// Columns of the input.
const SIZE: usize = 16;

/// Bytes of the weight.
const WEIGHT: usize = SIZE * SIZE * 4;

struct Bench {
    artifact: Artifact,
    registry: Registry,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// `relu(tanh(x w) w)`, where `w` counts from 0: two regions on the device, and one on the host between them.
    fn new() -> Bench {
        let folder = places::temporary();
        let registry = engine::from_files(vec![places::plugin("simdev"), places::plugin("json")]);
        let size = SIZE as i64;
        let weights: Vec<f32> = (0..SIZE * SIZE).map(|i| i as f32 / 256.0).collect();
        let model = Model::default()
            .input("x", Type::Float, &[-1, size])
            .weight("w", &[size, size], &weights)
            .node("MatMul", &["x", "w"], &["p"])
            .node("Tanh", &["p"], &["t"])
            .node("MatMul", &["t", "w"], &["q"])
            .node("Relu", &["q"], &["y"])
            .output("y", Type::Float, &[-1, size]);
        let (model, path) =
            (places::write(folder.path(), "model.onnx", model.finish()), folder.path().join("model.byoc"));
        engine::compile(&model, &path, &registry, &["simdev", "json"]).expect("compiles");
        Bench { artifact: Artifact::open(&path).expect("opens"), registry, _folder: folder }
    }

    fn load(&self, settings: &[(&str, &str)]) -> Session {
        let run_options = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let options = LoadOptions { threads: 1, run_options, ..LoadOptions::default() };
        Session::load(self.artifact.clone(), &self.registry, &options).expect("loads")
    }
}

/// Runs with so many rows, each of which has to give the same, and tells how many sequences of regions were replayed.
fn run(session: &mut Session, rows: usize) -> usize {
    let data = vec![0.5f32; rows * SIZE];
    let (shape, strides) = ([rows as i64, SIZE as i64], [SIZE as i64, 1]);
    let input = TensorView::from_slice(&data, &shape, &strides).expect("a tensor");
    session.run(&[input]).expect("runs");
    let sum = |column: usize, scale: &dyn Fn(usize) -> f32| -> f32 {
        (0..SIZE).map(|row| scale(row) * (row * SIZE + column) as f32 / 256.0).sum()
    };
    let inner: Vec<f32> = (0..SIZE).map(|column| sum(column, &|_| 0.5).tanh()).collect();
    let expected: Vec<f32> = (0..rows * SIZE).map(|i| sum(i % SIZE, &|row| inner[row])).collect();
    let found = session.output(0).expect("y").to_vec::<f32>().expect("f32");
    assert_eq!(found.len(), expected.len());
    assert!(
        found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4),
        "{rows} rows: {found:?} is not {expected:?}"
    );
    session.devices()[0].recordings
}

/// What came twice is recorded when the shapes change, and replayed at once when it comes again.
#[test]
fn shapes_that_take_turns_keep_their_recordings() {
    let mut session = Bench::new().load(&[]);
    let found: Vec<_> = [3, 1, 3, 1, 3, 1, 2, 3].map(|rows| run(&mut session, rows)).into();
    assert_eq!(found, [0, 0, 0, 0, 2, 2, 0, 2]);
}

/// A backend whose recordings do not last is asked to plan and to prepare again.
#[test]
fn recordings_that_do_not_last_are_made_again() {
    let mut session = Bench::new().load(&[("simdev.brief", "true")]);
    let found: Vec<_> = [3, 1, 3, 1, 3, 3, 3, 1].map(|rows| run(&mut session, rows)).into();
    assert_eq!(found, [0, 0, 0, 0, 0, 2, 2, 0]);
}

/// All shapes work in the memory of the largest. Where that grows it moves, and so what was recorded in it is forgotten.
#[test]
fn memory_is_that_of_the_largest_shapes() {
    let bench = Bench::new();
    let mut once = bench.load(&[]);
    run(&mut once, 40);
    let largest = once.devices()[0].arena_bytes;
    assert!(largest >= 2 * 40 * SIZE * 4, "{largest}");
    // An eighth more, which what grows is given.
    let memory = (WEIGHT + largest + largest / 8).to_string();
    let mut session = bench.load(&[("simdev.memory", &memory)]);
    let rows = [1, 2, 1, 2, 1, 40, 1, 2, 40, 1, 40, 2];
    let found: Vec<_> = rows.map(|rows| run(&mut session, rows)).into();
    assert_eq!(found, [0, 0, 0, 0, 2, 0, 0, 0, 0, 2, 2, 2]);
    assert_eq!(session.devices()[0].arena_bytes, largest + largest / 8);
    // Where there is just room for them, they get it.
    let memory = (WEIGHT + largest).to_string();
    let mut session = bench.load(&[("simdev.memory", &memory)]);
    assert_eq!([1, 40, 1].map(|rows| run(&mut session, rows)), [0; 3]);
    assert_eq!(session.devices()[0].arena_bytes, largest);
}

/// Shapes that do not fit are an error of that run, and what fits runs after it as before.
#[test]
fn shapes_that_do_not_fit_are_an_error_of_their_run() {
    let mut session = Bench::new().load(&[("simdev.memory", "16384")]);
    assert_eq!([1, 2, 1, 2].map(|rows| run(&mut session, rows)), [0; 4]);
    let data = vec![0.5f32; 400 * SIZE];
    let input = TensorView::from_slice(&data, &[400, SIZE as i64], &[SIZE as i64, 1]).expect("a tensor");
    let error = session.run(&[input]).expect_err("it has no room").to_string();
    assert_eq!(
        error,
        "[B706] sim:0 has no 76800 bytes for values: the simulator has 15360 bytes free of 16384, and 76800 were asked for"
    );
    assert!(session.output(0).is_err(), "there is no run whose outputs these were");
    assert_eq!([1, 1, 1].map(|rows| run(&mut session, rows)), [0, 2, 2]);
}
