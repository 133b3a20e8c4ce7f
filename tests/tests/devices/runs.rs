//! Regions on devices, with the plugin of the simulated one: what is copied and when, where memory comes from and goes to,
//! what is recorded, and what users are told.

use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;
use byoc_tests::program::{Outcome, byoc, outcome, without_places};

/// A folder with a model in which the device of two backends and the host take turns.
struct Bench {
    folder: Folder,
    plugin: String,
}

/// `x w` and the sum with `b` on simdev, the product with `w` again on simdev-guest, Tanh on the host, Relu on the device.
fn model() -> Model {
    let weights: Vec<f32> = (0..16).map(|i| i as f32 / 8.0 - 1.0).collect();
    Model::default()
        .input("x", Type::Float, &[4, 4])
        .weight("w", &[4, 4], &weights)
        .weight("b", &[4], &[0.5, -0.5, 0.25, -0.25])
        .node("MatMul", &["x", "w"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("Mul", &["sum", "w"], &["scaled"])
        .node("Tanh", &["scaled"], &["curved"])
        .node("Relu", &["curved"], &["y"])
        .output("y", Type::Float, &[4, 4])
        .output("sum", Type::Float, &[4, 4])
}

const BACKENDS: &str = "simdev,simdev-guest,json";

impl Bench {
    fn new(model: Model) -> Bench {
        let plugin = places::plugin("simdev").to_str().expect("a plain path").to_owned();
        let bench = Bench { folder: Folder::empty(), plugin };
        bench.folder.write("model.onnx", model.finish());
        bench.byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", BACKENDS]).success();
        bench
    }

    fn byoc(&self, arguments: &[&str]) -> Outcome {
        self.folder.byoc(&[arguments, &["--plugin", self.plugin.as_str()]].concat())
    }

    /// What is called on the device while a command runs.
    fn log(&self, arguments: &[&str]) -> String {
        let path = self.folder.path().join("log");
        let _ = std::fs::remove_file(&path);
        let mut command = byoc(&[arguments, &["--plugin", self.plugin.as_str()]].concat());
        outcome(command.current_dir(self.folder.path()).env("BYOC_SIMDEV_LOG", &path)).success();
        String::from_utf8(places::read(&path)).expect("text")
    }

    /// The outputs on the device and on the host alone.
    fn same_as_on_the_host(&self) {
        self.byoc(&["verify", "model.byoc", "--model", "model.onnx", "--atol", "0"]).success();
    }
}

#[test]
fn a_run_copies_what_crosses_and_nothing_else() {
    let bench = Bench::new(model());
    bench.same_as_on_the_host();
    golden("devices/regions.txt", bench.byoc(&["inspect", "model.byoc", "--regions"]).success());
    golden("devices/run.txt", &bench.log(&["run", "model.byoc", "--fill", "random"]));
}

#[test]
fn sequences_are_recorded_in_the_second_run_and_replayed() {
    let bench = Bench::new(model());
    let runs = ["bench", "model.byoc", "--warmup", "0", "--repeat", "4"];
    golden("devices/replayed.txt", &bench.log(&runs));
    let resident = [&runs[..], &["--resident"]].concat();
    golden("devices/resident.txt", &bench.log(&resident));
    for off in [&["--replay", "off"][..], &["--cuda-graph", "off"], &["--profile"], &["--sync-each"]] {
        let log = bench.log(&[&runs[..], off].concat());
        assert!(!log.contains("begin") && !log.contains("replay"), "{off:?}: {log}");
    }
    let unable = ["--backend-opt", "simdev.records=false"];
    assert!(!bench.log(&[&runs[..], &unable].concat()).contains("begin"));
    // What is between the regions that may not be recorded still is.
    let unwilling = bench.log(&[&runs[..], &["--backend-opt", "simdev-guest.unrecordable=true"]].concat());
    assert_eq!(unwilling.matches("begin").count(), 1, "{unwilling}");
}

#[test]
fn users_are_told_what_is_on_the_device() {
    let bench = Bench::new(model());
    let told = bench.byoc(&["run", "model.byoc", "--fill", "zeros", "--profile"]);
    // The host's own time, and with it the shares, are never the same.
    let (_, copies) = told.success().split_once("copy of").expect("copies come last");
    let columns = copies.lines().map(|line| line.split_whitespace().take(5).collect::<Vec<_>>().join(" "));
    assert_eq!(columns.collect::<Vec<_>>(), COPIES);
    golden("devices/check.txt", bench.byoc(&["check", "model.byoc", "--device", "sim:1"]).success());
    golden("devices/device.txt", bench.byoc(&["check", "--device", "sim:0"]).success());
    golden("devices/info.txt", &without_digest(bench.byoc(&["plugin", "info", "simdev"]).success()));
}

/// Value, memories and size of each copy; then what is on the device.
const COPIES: [&str; 7] = [
    "from to size time share",
    "x host sim:0 64 B",
    "scaled sim:0 host 64 B",
    "curved host sim:0 64 B",
    "y sim:0 host 64 B",
    "sum sim:0 host 64 B",
    "sim:0: constants 512 B, values",
];

/// The lines that are the same everywhere.
fn without_digest(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.starts_with("digest") && !line.starts_with("origin"));
    lines.map(|line| format!("{line}\n")).collect()
}

/// A region that faults and its neighbour, recorded together or not.
#[test]
fn errors_name_the_device_and_the_region() {
    let bench = Bench::new(model());
    let run = |more: &[&str]| bench.byoc(&[&["run", "model.byoc", "--fill", "ones"], more].concat());
    let fails = |more: &[&str], code: i32, message: &str| {
        let outcome = run(more);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(code), format!("error: {message}\n").as_str()));
    };
    fails(
        &["--backend-opt", "simdev.fault=Mul"],
        1,
        "[B706] one of region byoc_main_simdev_0, region byoc_main_simdev-guest_0, region byoc_main_simdev_1 failed on sim:0: a kernel \
         wrote outside of its memory\n  hint: Run again with --sync-each to learn which region it was",
    );
    fails(
        &["--backend-opt", "simdev.fault=Mul", "--sync-each"],
        1,
        "[B706] region byoc_main_simdev-guest_0 failed on sim:0: a kernel wrote outside of its memory",
    );
    fails(
        &["--backend-opt", "simdev.memory=100"],
        1,
        "[B706] sim:0 has no 512 bytes for constants: the simulator has 100 bytes free of 100, and 512 were asked for",
    );
    fails(
        &["--backend-opt", "simdev.memory=700", "--backend-opt", "simdev-guest.scratch=300"],
        1,
        "[B706] sim:0 has no 1088 bytes for values and scratch, of which region byoc_main_simdev-guest_0 takes 300 bytes: the \
         simulator has 188 bytes free of 700, and 1088 were asked for",
    );
    fails(
        &["--device", "sim:7"],
        3,
        "[B604] backend 'simdev' cannot open sim:7: the simulator has no device sim:7\n  hint: It has sim:0 and sim:1",
    );
    fails(
        &["--device", "cuda:0"],
        2,
        "[B702] no region runs on cuda:0\n  hint: Leave out --device; see byoc inspect --regions",
    );
    fails(
        &["--device", "sim:0", "--device", "sim:1"],
        2,
        "[B901] sim:0 and sim:1 are two devices of one kind\n  hint: Name one of them with --device",
    );
    fails(
        &["--backend-opt", "simdev.takes=Add"],
        2,
        "[B304] option 'simdev.takes' is not an option of running\n  hint: Give it to byoc compile, or name the \
         .onnx model",
    );
}

/// Every region that its backend does not load on the device is named, not only the first.
#[test]
fn a_check_on_a_device_asks_for_each_region() {
    let bench = Bench::new(model());
    let told = bench.byoc(&["check", "model.byoc", "--device", "sim:0", "--backend-opt", "simdev.panic=load_on"]);
    assert_eq!(told.code, Some(3), "{}", told.stderr);
    golden("devices/unsupported.txt", &without_places(&told.stdout));
}

#[test]
fn what_no_backend_opens_is_missing() {
    let bench = Bench::new(model());
    let outcome = bench.byoc(&["check", "--device", "cuda:0"]);
    let message = "error: [B604] no backend that was found opens cuda:0\n  hint: There are backends for sim\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(3), message));
    let outcome = bench.folder.byoc(&["check", "--device", "sim:0"]);
    let message = "error: [B604] no backend that was found opens sim:0\n  hint: Name the plugin of such a backend with --plugin\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(3), message));
    bench.byoc(&["run", "model.byoc", "--fill", "ones", "--device", "sim"]).success();
    let outcome = bench.byoc(&["run", "model.byoc", "--device", "sim:x"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("expected a kind of device and its number, such as cuda:0"), "{}", outcome.stderr);
}
