//! What `bench` reports: exact shapes of its tables and of its JSON, samples in files, several sessions, and Ctrl-C.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use byoc_tests::folder::Folder;
use byoc_tests::onnx::small;
use byoc_tests::places;
use byoc_tests::program::byoc;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The words of the first line that starts with this one.
#[track_caller]
fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_else(|| panic!("no {start}: {text}"))
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn the_report_fits_into_80_columns() {
    let folder = Folder::compiled(small());
    let arguments =
        ["bench", "model.byoc", "--repeat", "20", "--threads", "1", "--percentile", "50", "--percentile", "99.9"];
    let text = folder.run(&arguments);
    let heads = ["runs", "mean", "stddev", "median", "p90", "p95", "p99", "min", "max"];
    assert_eq!(words(line(&text, "runs")), heads);
    assert_eq!(words(line(&text, "20 ")).len(), 1 + 2 * (heads.len() - 1), "{text}");
    for start in ["p50 ", "p99.9 ", "throughput ", "load ", "peak memory "] {
        line(&text, start);
    }
    let memory = line(&text, "peak memory ");
    assert!(["mapped file ", "values between regions "].iter().all(|part| memory.contains(part)), "{memory}");
    assert!(text.contains("\n  other "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn several_sessions_have_a_row_each() {
    let folder = Folder::compiled(small());
    let arguments = ["bench", "model.byoc", "--repeat", "3", "--streams", "2", "--threads", "1"];
    let text = folder.run(&arguments);
    assert_eq!(words(line(&text, "stream"))[..3], ["stream", "runs", "mean"]);
    let runs: Vec<_> = ["0 ", "1 ", "all "].iter().map(|start| words(line(&text, start))[1]).collect();
    assert_eq!(runs, ["3", "3", "6"], "{text}");
    assert!(line(&text, "throughput").ends_with(", 2 sessions at once"), "{text}");
    let report: Value = serde_json::from_str(&folder.run(&[&arguments[..], &["--json"]].concat())).expect("JSON");
    assert_eq!((&report["streams"], &report["threads"]), (&2.into(), &1.into()));
    assert_eq!(report["stream_seconds"].as_array().map(Vec::len), Some(2));
    assert_eq!((&report["stream_seconds"][1]["runs"], &report["seconds"]["runs"]), (&3.into(), &6.into()));
}

#[test]
fn the_record_says_what_was_measured_where() {
    let folder = Folder::compiled(small());
    let arguments =
        ["bench", "model.byoc", "--repeat", "4", "--warmup", "1", "--threads", "1", "--percentile", "50", "--json"];
    let report: Value = serde_json::from_str(&folder.run(&arguments)).expect("JSON");
    let digest = blake3::hash(&places::read(&folder.path().join("model.byoc"))).to_hex().to_string();
    assert_eq!(report["file_blake3"], digest);
    assert_eq!((&report["schema"], &report["byoc"]), (&1.into(), &env!("CARGO_PKG_VERSION").into()));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(
        (&report["cores"], &report["streams"], &report["interrupted"]),
        (&cores.into(), &1.into(), &false.into())
    );
    assert_eq!((&report["options"]["repeat"], &report["options"]["warmup"]), (&4.into(), &1.into()));
    assert_eq!(report["percentiles"][0]["percent"], 50.0);
    let number = |value: &Value| value.as_f64().expect("a number");
    let (seconds, elapsed) = (&report["seconds"], number(&report["elapsed_seconds"]));
    assert_eq!(seconds["runs"], 4);
    assert!(
        number(&seconds["min"]) <= number(&seconds["median"]) && number(&seconds["p95"]) <= number(&seconds["max"])
    );
    assert!((number(&report["runs_per_second"]) - 4.0 / elapsed).abs() < 1e-6 * 4.0 / elapsed, "{report}");
    let memory = &report["memory"];
    let parts: f64 = ["mapped_file_bytes", "arena_bytes", "other_bytes"].iter().map(|part| number(&memory[part])).sum();
    assert!(number(&memory["mapped_file_bytes"]) > 0.0 && parts >= number(&memory["peak_bytes"]), "{memory}");
}

#[test]
fn samples_go_to_a_file() {
    let folder = Folder::compiled(small());
    let run = |file: &str| {
        let arguments = ["bench", "model.byoc", "--repeat", "3", "--streams", "2", "--threads", "1", "--samples", file];
        folder.byoc(&arguments)
    };
    run("s.csv").success();
    let text = String::from_utf8(places::read(&folder.path().join("s.csv"))).expect("text");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines[0], lines.len()), ("stream,run,start_seconds,seconds", 7));
    assert!(lines[3].starts_with("0,2,") && lines[4].starts_with("1,0,"), "{text}");
    run("s.json").success();
    let file: Value = serde_json::from_slice(&places::read(&folder.path().join("s.json"))).expect("JSON");
    assert_eq!((&file["schema"], file["samples"].as_array().map(Vec::len)), (&1.into(), Some(6)));
    run("s.txt").fails(
        2,
        "error: [B901] 's.txt' does not end with .csv or .json\n  hint: The end of the name says how samples are written",
    );
    assert_eq!(places::list(folder.path()), ["model.byoc", "model.onnx", "s.csv", "s.json"]);
}

#[test]
fn more_threads_than_cores_are_told_once() {
    let folder = Folder::compiled(small());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for verb in ["bench", "run"] {
        let repeat: &[&str] = if verb == "bench" { &["--repeat", "1"] } else { &[] };
        let outcome = folder.byoc(&[&[verb, "model.byoc", "--fill", "ones", "--threads", "999"], repeat].concat());
        let cores = if cores == 1 { "1 core".to_owned() } else { format!("{cores} cores") };
        let number = cores.split(' ').next().unwrap_or_default();
        let warning = format!(
            "warning: [B901] 999 threads on {cores}: they wait for one another\n  hint: Give \
             --threads {number} or less\n"
        );
        outcome.success();
        assert_eq!(outcome.stderr, warning);
    }
}

/// Starts a long measurement, and sends it signals once it has begun: its samples are the sign that runs are measured.
fn start(folder: &Folder, arguments: &[&str]) -> Child {
    let mut command = byoc(&[&["bench", "model.byoc", "--duration", "60", "--threads", "1"], arguments].concat());
    let command = command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    let (status, begun) = (format!("/proc/{}/status", child.id()), Instant::now());
    // The handler is there when the signal is caught.
    let caught = |text: String| {
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim).map(str::to_owned);
        mask.and_then(|mask| u64::from_str_radix(&mask, 16).ok()).is_some_and(|mask| mask & 0b10 != 0)
    };
    while !caught(std::fs::read_to_string(&status).unwrap_or_default()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    child
}

fn interrupt(child: &Child) {
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    kill_process(pid, Signal::INT).expect("the child is ours");
}

#[test]
fn an_interrupt_prints_what_was_measured() {
    let folder = Folder::compiled(small());
    for arguments in [&["--samples", "s.csv"][..], &["--streams", "2"]] {
        let child = start(&folder, arguments);
        interrupt(&child);
        let output = child.wait_with_output().expect("the child is ours");
        let text = String::from_utf8(output.stdout).expect("text");
        assert_eq!(output.status.code(), Some(130), "{text}");
        let first = text.lines().next().unwrap_or_default();
        assert!(first.starts_with("interrupted after ") && first.ends_with(" runs"), "{text}");
        assert!(line(&text, "throughput").contains(" runs/s over "), "{text}");
    }
    assert!(places::read(&folder.path().join("s.csv")).len() > 40);
    let child = start(&folder, &["--json"]);
    interrupt(&child);
    let output = child.wait_with_output().expect("the child is ours");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &report["interrupted"]), (Some(130), &true.into()));
}
