//! Sessions in several threads and several processes at once: what may go to another thread, the same bits everywhere, and no
//! memory that grows. `BYOC_SOAK_SECONDS` makes the last test as long as that, with 20 processes.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byoc_core::artifact::Artifact;
use byoc_core::plugin::Registry;
use byoc_core::runtime::{Device, LoadOptions, Session};
use byoc_plugin_api::TensorView;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::{engine, places};

/// Threads at once.
const THREADS: usize = 8;

/// Width of the layers: enough that kernels share their work among threads.
const WIDTH: i64 = 192;

/// How long the soak takes, and the file that a process of it works with.
const SECONDS: &str = "BYOC_SOAK_SECONDS";
const FILE: &str = "BYOC_SOAK_FILE";

/// A session may go to another thread; an artifact, the backends and a device may be shared as well.
#[test]
fn what_may_go_to_another_thread() {
    fn moves<T: Send>() {}
    fn is_shared<T: Send + Sync>() {}
    moves::<Session>();
    is_shared::<Artifact>();
    is_shared::<Registry>();
    is_shared::<Device>();
    is_shared::<LoadOptions>();
}

/// Two layers whose products the kernels share among threads.
fn model() -> Model {
    let weights: Vec<f32> = (0..WIDTH * WIDTH).map(|i| ((i * 37) % 101) as f32 / 101.0 - 0.5).collect();
    Model::default()
        .input("x", Type::Float, &[-1, WIDTH])
        .weight("v", &[WIDTH, WIDTH], &weights)
        .weight("w", &[WIDTH, WIDTH], &weights.iter().rev().copied().collect::<Vec<_>>())
        .node("MatMul", &["x", "v"], &["a"])
        .node("Relu", &["a"], &["b"])
        .node("MatMul", &["b", "w"], &["c"])
        .node("Softmax", &["c"], &["y"])
        .output("y", Type::Float, &[-1, WIDTH])
}

/// The bits of the output for `rows` rows of the input of that number.
fn run(session: &mut Session, number: usize, rows: usize) -> Vec<u32> {
    let x: Vec<f32> = (0..rows * WIDTH as usize).map(|i| ((i * 7 + number * 13) % 23) as f32 / 23.0).collect();
    let shape = [rows as i64, WIDTH];
    let view = TensorView::from_slice(&x, &shape, &[WIDTH, 1]).expect("a tensor");
    session.run(&[view]).expect("it runs");
    let y = session.output(0).expect("y").to_vec::<f32>().expect("f32");
    y.iter().map(|value| value.to_bits()).collect()
}

/// The number of rows of the input of that number: the shape changes from one to the next.
fn rows(number: usize) -> usize {
    1 + number % 3 * 40
}

fn load(artifact: &Artifact, registry: &Registry, threads: usize) -> Session {
    let options = LoadOptions { threads, ..LoadOptions::default() };
    Session::load(artifact.clone(), registry, &options).expect("it loads")
}

/// What a session in one thread gives for each input.
fn expected(artifact: &Artifact, registry: &Registry) -> Vec<Vec<u32>> {
    let mut session = load(artifact, registry, 1);
    (0..6).map(|number| run(&mut session, number, rows(number))).collect()
}

/// Loads, runs and drops sessions in [`THREADS`] threads until the time is over; every result has the same bits.
fn work(artifact: &Artifact, registry: &Registry, expected: &[Vec<u32>], time: Duration) {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let mut rounds = 0;
                while rounds == 0 || start.elapsed() < time {
                    let mut session = load(artifact, registry, 1 + (thread + rounds) % 4);
                    for (number, expected) in expected.iter().enumerate() {
                        let found = run(&mut session, number, rows(number));
                        assert!(found == *expected, "input {number} in thread {thread}, round {rounds}");
                    }
                    rounds += 1;
                }
            });
        }
    });
}

#[test]
fn sessions_of_one_artifact_run_in_threads_at_once() {
    let folder = Folder::compiled(model());
    let artifact = Artifact::open(&folder.path().join("model.byoc")).expect("an artifact");
    let registry = engine::embedded();
    work(&artifact, &registry, &expected(&artifact, &registry), Duration::ZERO);
}

/// A session is made in one thread, runs in others, and is dropped in a last one.
#[test]
fn a_session_goes_from_thread_to_thread() {
    let folder = Folder::compiled(model());
    let artifact = Artifact::open(&folder.path().join("model.byoc")).expect("an artifact");
    let registry = engine::embedded();
    let expected = expected(&artifact, &registry);
    let mut session = load(&artifact, &registry, 3);
    for (number, expected) in expected.iter().enumerate() {
        let moved = std::thread::spawn(move || {
            let found = run(&mut session, number, rows(number));
            (session, found)
        });
        let (back, found) = moved.join().expect("it runs");
        assert!(found == *expected, "input {number}");
        session = back;
    }
    std::thread::spawn(move || drop(session)).join().expect("it ends");
}

/// Bytes of this process that are in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4096
}

/// A process of the soak: nothing without the file that it is given.
#[test]
fn process_of_the_soak() {
    let Some(file) = std::env::var_os(FILE) else { return };
    let artifact = Artifact::open(Path::new(&file)).expect("an artifact");
    let registry = engine::embedded();
    let (expected, part) = (expected(&artifact, &registry), seconds() / 10);
    // Allocators keep what they were once given: what counts is what comes after.
    work(&artifact, &registry, &expected, part * 3);
    let before = resident();
    work(&artifact, &registry, &expected, part * 7);
    let after = resident();
    assert!(after < before + before / 5 + (8 << 20), "{before} bytes in memory, then {after}");
    let name = format!("{}-{}.bits", Path::new(&file).display(), std::process::id());
    let bits: Vec<u8> = expected.iter().flatten().flat_map(|bits| bits.to_le_bytes()).collect();
    std::fs::write(name, bits).expect("the bits");
}

fn seconds() -> Duration {
    let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

#[test]
fn processes_and_threads_at_once_give_the_same_bits_and_do_not_grow() {
    let folder = Folder::compiled(model());
    let processes = if std::env::var_os(SECONDS).is_some() { 20 } else { 2 };
    let start = |_| {
        let mut command = Command::new(std::env::current_exe().expect("a program"));
        command.args(["--exact", "threads::process_of_the_soak"]).env(FILE, folder.path().join("model.byoc"));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let children: Vec<_> = (0..processes).map(start).collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success(), "{said}");
    }
    let names = places::list(folder.path()).into_iter().filter(|name| name.ends_with(".bits"));
    let bits: Vec<_> = names.map(|name| places::read(&folder.path().join(name))).collect();
    assert_eq!(bits.len(), processes);
    assert!(bits.iter().all(|found| *found == bits[0]));
}
