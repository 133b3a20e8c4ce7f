//! Variants of a model for a device and for the host: which is taken where the device is there, is not there, or is named.

use byoc_tests::folder::WithPlugin;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::program::Outcome;

struct Bench(WithPlugin);

impl Bench {
    /// With `sim-first.byoc` and `cpu-first.byoc`.
    fn new() -> Bench {
        let bench = Bench(WithPlugin::empty("simdev"));
        let weights: Vec<f32> = (0..16).map(|i| i as f32 / 8.0 - 1.0).collect();
        let model = Model::default()
            .input("x", Type::Float, &[4, 4])
            .weight("w", &[4, 4], &weights)
            .node("MatMul", &["x", "w"], &["y"])
            .output("y", Type::Float, &[4, 4]);
        bench.0.folder.write("model.onnx", model.finish());
        let (sim, cpu) = (["--variant", "sim=simdev,cpu"], ["--variant", "cpu=cpu"]);
        for (output, flags) in [("sim-first.byoc", [sim, cpu]), ("cpu-first.byoc", [cpu, sim])] {
            bench.byoc(&[&["compile", "model.onnx", "-o", output], &flags.concat()[..]].concat()).success();
        }
        bench
    }

    fn byoc(&self, arguments: &[&str]) -> Outcome {
        self.0.byoc(arguments)
    }

    /// What is said of the choice in a run.
    fn chosen(&self, file: &str, flags: &[&str]) -> String {
        let outcome = self.byoc(&[&["run", file, "--fill", "ones"], flags].concat());
        outcome.success();
        outcome.stderr
    }
}

const OFF: [&str; 2] = ["--backend-opt", "simdev.off=true"];

#[test]
fn the_device_decides() {
    let bench = Bench::new();
    assert_eq!(bench.chosen("sim-first.byoc", &[]), "variant sim\n");
    // The option is one of a backend that the other variant has not.
    let off = "variant cpu; not sim: backend 'simdev' cannot open sim:0: the simulator is switched off\n";
    assert_eq!(bench.chosen("sim-first.byoc", &OFF), off);
    assert_eq!(bench.chosen("cpu-first.byoc", &[]), "variant cpu\n");
    assert_eq!(
        bench.chosen("cpu-first.byoc", &["--device", "sim:0"]),
        "variant sim; not cpu: no region runs on sim:0\n"
    );
    assert_eq!(bench.chosen("cpu-first.byoc", &["--variant", "sim"]), "");
    bench.byoc(&["verify", "sim-first.byoc", "--model", "model.onnx"]).success();
}

/// An option of the backend that opens a device is for every variant with regions on it, whoever those are of.
#[test]
fn options_of_the_device_are_for_all_variants_on_it() {
    let bench = Bench::new();
    let variants = ["--variant", "guest=simdev-guest,cpu", "--variant", "sim=simdev,cpu", "--variant", "cpu=cpu"];
    let weights: Vec<f32> = (0..16).map(|i| i as f32 / 4.0).collect();
    let scaled = Model::default()
        .input("x", Type::Float, &[4, 4])
        .weight("w", &[4, 4], &weights)
        .node("MatMul", &["x", "w"], &["product"])
        .node("Mul", &["product", "w"], &["y"])
        .output("y", Type::Float, &[4, 4]);
    bench.0.folder.write("model.onnx", scaled.finish());
    bench.byoc(&[&["compile", "model.onnx", "-o", "guest.byoc"], &variants[..]].concat()).success();
    assert_eq!(bench.chosen("guest.byoc", &[]), "variant guest\n");
    let off = "backend 'simdev' cannot open sim:0: the simulator is switched off";
    assert_eq!(bench.chosen("guest.byoc", &OFF), format!("variant cpu; not guest: {off}; not sim: {off}\n"));
}

#[test]
fn check_tells_of_devices() {
    let bench = Bench::new();
    let with = |flags: &[&str]| bench.byoc(&[&["check", "sim-first.byoc"], flags].concat()).success().to_owned();
    assert!(with(&[]).ends_with("this machine can run it, and takes variant sim\n"));
    let off = with(&OFF);
    assert!(off.contains("cannot open sim:0"), "{off}");
    assert!(off.ends_with("this machine can run it, and takes variant cpu\n"), "{off}");
    let named = with(&["--device", "sim:0"]);
    assert!(named.contains("\ncpu      no    no region runs on sim:0\n"), "{named}");
}
