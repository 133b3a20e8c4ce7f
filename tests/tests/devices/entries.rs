//! Two entries of one artifact on one device: what both read stands there once, and their runs take turns.

use byoc_core::artifact::Artifact;
use byoc_core::compile::{self, Request, Silent};
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, PortIndex, Session};
use byoc_plugin_api::TensorView;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::{engine, places};

/// Rows and columns of the weight.
const SIZE: usize = 16;

/// Bytes of the weight.
const WEIGHT: usize = SIZE * SIZE * 4;

fn weights() -> Vec<f32> {
    (0..SIZE * SIZE).map(|i| ((i * 7) % 13) as f32 / 8.0 - 0.5).collect()
}

/// `x w` for one entry, `w + x` for the other.
fn entry(op: &str, rows: i64) -> Model {
    let size = SIZE as i64;
    let operands = if op == "MatMul" { ["x", "w"] } else { ["w", "x"] };
    Model::default()
        .input("x", Type::Float, &[rows, size])
        .weight("w", &[size, size], &weights())
        .node(op, &operands, &["y"])
        .output("y", Type::Float, &[if op == "MatMul" { rows } else { size }, size])
}

struct Bench {
    artifact: Artifact,
    registry: Registry,
    _folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        let folder = places::temporary();
        let registry = engine::from_files(vec![places::plugin("simdev"), places::plugin("json")]);
        let source = |name: &str, model: Model| {
            (name.to_owned(), places::write(folder.path(), &format!("{name}.onnx"), model.finish()))
        };
        let sources = vec![source("product", entry("MatMul", -1)), source("sum", entry("Add", 1))];
        let backends = registry.select(&["simdev".into(), "json".into()], &[]).expect("both are there");
        let path = folder.path().join("model.byoc");
        compile::compile(&Request::new(sources, backends), &path, &mut Silent).expect("compiles");
        Bench { artifact: Artifact::open(&path).expect("opens"), registry, _folder: folder }
    }

    fn options(&self, entry: &str, memory: usize) -> LoadOptions {
        let run_options = vec![("simdev.memory".to_owned(), memory.to_string())];
        LoadOptions { entry: Some(entry.into()), threads: 1, run_options, ..LoadOptions::default() }
    }
}

fn run(session: &mut Session, rows: usize, value: f32) -> Vec<f32> {
    let data = vec![value; rows * SIZE];
    let (shape, strides) = ([rows as i64, SIZE as i64], [SIZE as i64, 1]);
    let input = TensorView::from_slice(&data, &shape, &strides).expect("a tensor");
    session.run(&[input]).expect("runs");
    session.output(0).expect("y").to_vec::<f32>().expect("f32")
}

#[test]
fn a_shared_weight_is_on_the_device_once() {
    let bench = Bench::new();
    // Room for the weight once, and for the values of both entries: of one `y` is as large as the weight, the other three are
    // small.
    let memory = WEIGHT + WEIGHT + 3 * 256;
    let product = Session::load(bench.artifact.clone(), &bench.registry, &bench.options("product", memory));
    let mut product = product.expect("the weight fits once");
    let mut sum = product.load_beside(&bench.registry, &bench.options("sum", memory)).expect("it is there already");
    let alone = Session::load(bench.artifact.clone(), &bench.registry, &bench.options("sum", WEIGHT - 1));
    let error = alone.err().expect("a session of its own has a device of its own").to_string();
    assert_eq!(
        error,
        "[B706] sim:0 has no 1024 bytes for constants: the simulator has 1023 bytes free of 1023, and 1024 were asked for"
    );
    assert_eq!([&product, &sum].map(|session| session.devices()[0].constant_bytes), [WEIGHT; 2]);
    assert_eq!(product.address(PortIndex::Input(0)), None, "nothing has run");
    assert_eq!(run(&mut sum, 1, 0.5), weights().iter().map(|w| w + 0.5).collect::<Vec<_>>());
    let column = |column: usize| (0..SIZE).map(|row| weights()[row * SIZE + column]).sum::<f32>();
    let expected: Vec<_> = (0..4 * SIZE).map(|i| column(i % SIZE)).collect();
    let found = run(&mut product, 4, 1.0);
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?}");
    let (device, address) = product.address(PortIndex::Input(0)).expect("it is on the device");
    assert!(device.to_string() == "sim:0" && address % 256 == 0);
    // The weight outlives the session that sent it.
    drop(product);
    assert_eq!(run(&mut sum, 1, 2.0), weights().iter().map(|w| w + 2.0).collect::<Vec<_>>());
}

/// What a run gave is fed to the next one without leaving the device.
#[test]
fn an_output_becomes_the_next_input_on_the_device() {
    let bench = Bench::new();
    let load = |entry: &str| Session::load(bench.artifact.clone(), &bench.registry, &bench.options(entry, 1 << 20));
    let mut session = load("product").expect("loads");
    let refused = |result: Result<(), byoc_core::diagnostic::Diagnostic>| result.expect_err("refused").to_string();
    let early = "[B703] cannot carry 'y' to 'x': the entry did not run yet";
    assert_eq!(refused(session.carry(0, 0)), early);
    let once = run(&mut session, 2, 0.5);
    assert_eq!(refused(session.carry(0, 1)), "[B702] there is no output 0 or no input 1");
    session.carry(0, 0).expect("both are on the device");
    let (ignored, shape, strides) = (vec![f32::NAN; 2 * SIZE], [2, SIZE as i64], [SIZE as i64, 1]);
    let input = TensorView::from_slice(&ignored, &shape, &strides).expect("a tensor");
    session.run_resident(&[input]).expect("runs");
    session.fetch().expect("the outputs come back");
    let twice = session.output(0).expect("y").to_vec::<f32>().expect("f32");
    for (i, found) in twice.iter().enumerate() {
        let (row, column) = (i / SIZE, i % SIZE);
        let expected: f32 = (0..SIZE).map(|k| once[row * SIZE + k] * weights()[k * SIZE + column]).sum();
        assert!((found - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{i}: {found} is not {expected}");
    }
    let mut sum = load("sum").expect("loads");
    run(&mut sum, 1, 1.0);
    let other = "[B701] cannot carry 'y' to 'x': they are of different types or shapes";
    assert_eq!(refused(sum.carry(0, 0)), other);
}

/// Shapes change in every round, so that each second run is recorded, while others record, load and go.
#[test]
fn sessions_on_one_queue_take_turns() {
    const ROUNDS: usize = 40;
    let bench = Bench::new();
    let load = |entry: &str| bench.options(entry, 1 << 20);
    let keeper = Session::load(bench.artifact.clone(), &bench.registry, &load("sum")).expect("loads");
    let mut product = keeper.load_beside(&bench.registry, &load("product")).expect("loads");
    let mut sum = keeper.load_beside(&bench.registry, &load("sum")).expect("loads");
    let expected = run(&mut product, 1, 1.0);
    let (bench, expected) = (&bench, &expected);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for value in (0..ROUNDS).map(|i| i as f32) {
                assert_eq!(run(&mut sum, 1, value), weights().iter().map(|w| w + value).collect::<Vec<_>>());
            }
        });
        scope.spawn(move || {
            for _ in 0..ROUNDS {
                let options = bench.options("product", 1 << 20);
                let mut other = keeper.load_beside(&bench.registry, &options).expect("loads");
                assert_eq!(run(&mut other, 1, 1.0), *expected);
            }
        });
        for round in 0..ROUNDS {
            let rows = 1 + round % 3;
            for _ in 0..2 {
                assert_eq!(run(&mut product, rows, 1.0), expected.repeat(rows));
            }
            let there = product.devices().remove(0);
            assert_eq!((there.recordings, there.unrecorded), (1, vec![]), "round {round}");
        }
    });
}
