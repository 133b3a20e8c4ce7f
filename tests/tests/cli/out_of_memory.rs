//! Sizes that memory does not have, from models and inputs: an error of one line, and never the end of the process.

use std::process::Command;

use byoc_core::memory::readable;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::program::{self, Outcome, isolate, outcome};

/// Elements that no machine has the memory for.
const HUGE: i64 = 1 << 45;

/// `y = op(x, shape)` from `x` of one element to `y` of [`HUGE`].
fn grown(op: &str, shape: &[i64]) -> Model {
    Model::default()
        .input("x", Type::Float, &[1])
        .ints("shape", &[shape.len() as i64], shape)
        .node(op, &["x", "shape"], &["y"])
        .output("y", Type::Float, &[HUGE])
}

/// What this machine has, as messages have it.
fn machine() -> String {
    let text = std::fs::read_to_string("/proc/meminfo").expect("Linux");
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).expect("a line");
        line.trim().strip_suffix(" kB").and_then(|number| number.parse::<u64>().ok()).expect("a number") * 1024
    };
    readable(of("MemTotal:") + of("SwapTotal:"))
}

/// Runs the program with an address space of so many KiB.
fn limited(folder: &Folder, kib: u64, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("sh");
    let script = format!("ulimit -v {kib}; exec \"$0\" \"$@\"");
    outcome(isolate(&mut command).args(["-c", &script]).arg(program::path()).args(arguments).current_dir(folder.path()))
}

#[test]
fn outputs_that_no_machine_has_memory_for_are_errors() {
    let hint = "\n  hint: Choose smaller shapes, or a machine with more memory";
    let cases = [("Expand", vec![HUGE]), ("Tile", vec![HUGE]), ("Pad", vec![0, HUGE - 1])];
    for (op, shape) in cases {
        let folder = Folder::compiled(grown(op, &shape));
        for file in ["model.onnx", "model.byoc"] {
            let message =
                format!("value 'y' f32[{HUGE}] needs 128.0 TiB of memory, and this machine has {}", machine());
            folder.byoc(&["run", file, "--fill", "ones"]).fails(1, &format!("error: [B703] {message}{hint}"));
        }
    }
}

/// Such a constant is a view of one element in the file, and whole only in memory.
#[test]
fn outputs_that_are_views_of_constants_are_judged_before_they_are_made() {
    let model = Model::default()
        .input("x", Type::Float, &[1])
        .weight("w", &[1], &[1.5])
        .ints("shape", &[1], &[HUGE])
        .node("Expand", &["w", "shape"], &["y"])
        .node("Relu", &["x"], &["z"])
        .output("y", Type::Float, &[HUGE])
        .output("z", Type::Float, &[1]);
    let folder = Folder::compiled(model);
    let message = format!("value 'y' f32[{HUGE}] needs 128.0 TiB of memory, and this machine has {}", machine());
    let hint = "\n  hint: Choose smaller shapes, or a machine with more memory";
    folder.byoc(&["run", "model.byoc", "--fill", "ones"]).fails(1, &format!("error: [B703] {message}{hint}"));
}

/// Memory that the machine has and the process may not take.
#[test]
fn limits_of_the_process_are_errors() {
    let rows = 1i64 << 31;
    let model = Model::default().input("x", Type::Float, &[rows]).node("Relu", &["x"], &["y"]).output(
        "y",
        Type::Float,
        &[rows],
    );
    let folder = Folder::compiled(model);
    let hint = "\n  hint: Free memory, or raise the limit on it (ulimit -v)";
    for mode in ["zeros", "ones", "random"] {
        limited(&folder, 4 << 20, &["run", "model.byoc", "--threads", "1", "--fill", mode]).fails(
            2,
            &format!(
                "error: [B701] input 'x' f32[{rows}] needs 8.0 GiB of memory, which the system does not give{hint}"
            ),
        );
    }
    let folder = Folder::compiled(grown_to(1 << 30));
    limited(&folder, 4 << 20, &["run", "model.byoc", "--threads", "1", "--fill", "ones"]).fails(
        1,
        &format!(
            "error: [B703] value 'y' f32[{}] needs 4.0 GiB of memory, which the system does not give{hint}",
            1 << 30
        ),
    );
}

/// `x` of one element, repeated to so many.
fn grown_to(size: i64) -> Model {
    Model::default()
        .input("x", Type::Float, &[1])
        .ints("shape", &[1], &[size])
        .node("Expand", &["x", "shape"], &["y"])
        .output("y", Type::Float, &[size])
}
