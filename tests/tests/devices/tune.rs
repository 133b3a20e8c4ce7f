//! `byoc tune` on the simulated device, whose clock is exact: what is tried and chosen, what is kept for the next time, what
//! the artifact is afterwards, and what goes wrong.

use std::path::PathBuf;

use byoc_core::artifact::Artifact;
use byoc_core::artifact::manifest::Chosen;
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::places;
use byoc_tests::program::{Outcome, byoc, outcome, without_places};

/// Two layers of one form with weights of their own and a third of another form, all but Tanh on the device.
fn model() -> Vec<u8> {
    let weights: Vec<f32> = (0..16).map(|i| (i as f32 - 8.0) / 16.0).collect();
    let others: Vec<f32> = weights.iter().map(|weight| 1.0 - weight).collect();
    Model::default()
        .input("x", Type::Float, &[4, 4])
        .weight("w0", &[4, 4], &weights)
        .weight("w1", &[4, 4], &others)
        .node("MatMul", &["x", "w0"], &["product0"])
        .node("Tanh", &["product0"], &["curved0"])
        .node("MatMul", &["curved0", "w1"], &["product1"])
        .node("Tanh", &["product1"], &["curved1"])
        .node("Add", &["curved1", "w0"], &["y"])
        .output("y", Type::Float, &[4, 4])
        .finish()
}

struct Bench {
    folder: Folder,
    plugin: String,
}

impl Bench {
    /// With the model compiled into `m.byoc`.
    fn new() -> Bench {
        Bench::of(model(), &[])
    }

    fn of(model: Vec<u8>, more: &[&str]) -> Bench {
        let plugin = places::plugin("simdev").to_str().expect("a plain path").to_owned();
        let bench = Bench { folder: Folder::empty(), plugin };
        bench.folder.write("model.onnx", model);
        let compile = ["compile", "model.onnx", "-o", "m.byoc", "--backend", "simdev,json"];
        bench.byoc(&[&compile[..], &["--backend-opt", "simdev.named=false"], more].concat()).success();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn byoc(&self, arguments: &[&str]) -> Outcome {
        self.bare(&[arguments, &["--plugin", self.plugin.as_str()]].concat())
    }

    /// Without the plugin.
    fn bare(&self, arguments: &[&str]) -> Outcome {
        outcome(byoc(arguments).current_dir(self.folder.path()).env("BYOC_CACHE_DIR", self.path("cache")))
    }

    fn tune(&self, more: &[&str]) -> Outcome {
        self.byoc(&[&["tune", "m.byoc", "--device", "sim:0", "-o", "tuned.byoc"], more].concat())
    }

    /// What is called on the device while the artifact is tuned.
    fn log(&self, more: &[&str]) -> String {
        let _ = std::fs::remove_file(self.path("log"));
        let arguments = [&["tune", "m.byoc", "--device", "sim:0", "-o", "tuned.byoc", "--plugin", &self.plugin], more];
        let mut command = byoc(&arguments.concat());
        command.current_dir(self.folder.path()).env("BYOC_CACHE_DIR", self.path("cache"));
        outcome(command.env("BYOC_SIMDEV_LOG", self.path("log"))).success();
        String::from_utf8(places::read(&self.path("log"))).expect("text")
    }

    fn artifact(&self, name: &str) -> Artifact {
        Artifact::open(&self.path(name)).expect("it opens")
    }
}

#[test]
fn the_fastest_that_is_right_is_chosen() {
    let bench = Bench::new();
    golden("tune/text.txt", bench.tune(&[]).success());
    golden("tune/regions.txt", bench.byoc(&["inspect", "tuned.byoc", "--regions"]).success());
    let before = bench.byoc(&["inspect", "m.byoc", "--regions"]);
    assert_eq!(before.success().matches("\n  kernels  by the table\n").count(), 3, "{}", before.stdout);
    bench.byoc(&["verify", "tuned.byoc", "--model", "model.onnx"]).success();
    let results = ["m.byoc", "tuned.byoc"].map(|file| {
        bench.byoc(&["run", file, "--fill", "random", "-o", "y.npz"]).success();
        places::read(&bench.path("y.npz"))
    });
    assert_eq!(results[0], results[1], "the same numbers");
    let bytes = |artifact: &Artifact, name: &str| artifact.section(name).expect("it is there");
    let (old, new) = (bench.artifact("m.byoc"), bench.artifact("tuned.byoc"));
    new.verify_digests().expect("whole");
    // Every constant once, as it was; the code is other code, and still shared.
    assert_eq!(old.manifest().constants, new.manifest().constants);
    assert_eq!(old.ledger().expect("it fits"), new.ledger().expect("it fits"));
    for stored in &old.manifest().constants {
        assert_eq!(bytes(&old, &stored.section), bytes(&new, &stored.section));
    }
    // What lies between them may differ, as the code is longer or shorter.
    let stored =
        |artifact: &Artifact| artifact.sections().filter(|section| !section.name.starts_with("__pad__")).count();
    assert_eq!(stored(&old), stored(&new));
    for (old_region, new_region) in old.manifest().regions.iter().zip(&new.manifest().regions) {
        let (was, is) = (bytes(&old, &old_region.code), bytes(&new, &new_region.code));
        match &new_region.chosen {
            Some(Chosen::Tuned { device, candidate, seconds, before }) => {
                assert_eq!((device.as_str(), candidate.as_str()), ("a simulated device", "wide"));
                assert!(seconds < before);
                assert_eq!(is.len(), was.len() + r#","kernel":"wide""#.len());
            }
            Some(Chosen::Table) => panic!("{} was not tuned", new_region.symbol),
            None => assert_eq!((new_region.backend.as_str(), was), ("json", is)),
        }
    }
}

#[test]
fn what_was_found_is_not_tried_again() {
    let bench = Bench::new();
    let first = bench.log(&[]);
    // Of two equal layers one is tried: five kernels, one of which does not load, and the sum.
    assert_eq!(first.matches("\nload region").count(), 2 * 4, "{first}");
    let tuned = places::read(&bench.path("tuned.byoc"));
    let second = bench.log(&[]);
    assert!(!second.contains("load") && !second.contains("run"), "{second}");
    golden("tune/known.txt", bench.tune(&[]).success());
    assert_eq!(places::read(&bench.path("tuned.byoc")), tuned);
    assert_eq!(bench.log(&["--again"]), first);
    // Another device with other software would be another key, and so are other options of the machine.
    assert_eq!(bench.log(&["--backend-opt", "simdev.scratch=256"]).matches("\nload region").count(), 2 * 4);
    // What was chosen is known as well: the file stays as it is.
    let again = ["tune", "tuned.byoc", "--device", "sim:0", "-o", "again.byoc"];
    golden("tune/again.txt", bench.byoc(&again).success());
    assert_eq!(places::read(&bench.path("again.byoc")), tuned);
    // Damage costs time only.
    for name in places::list(&bench.path("cache/tune")) {
        std::fs::write(bench.path("cache/tune").join(name), "damaged").expect("the folder is ours");
    }
    assert_eq!(bench.log(&[]), first);
    assert_eq!(places::read(&bench.path("tuned.byoc")), tuned);
}

#[test]
fn a_file_can_be_tuned_in_parts() {
    let bench = Bench::new();
    let told = bench.byoc(&["tune", "m.byoc", "--device", "sim:1", "-o", "part.byoc", "--backend", "simdev", "--json"]);
    let told: serde_json::Value = serde_json::from_str(told.success()).expect("JSON");
    assert_eq!((&told["device"], &told["title"]), (&"sim:1".into(), &"a simulated device".into()));
    let first = &told["tuned"][0];
    assert_eq!(first["regions"], serde_json::json!(["byoc_main_simdev_0", "byoc_main_simdev_1"]));
    assert_eq!((&first["known"], &first["changed"]), (&false.into(), &true.into()));
    assert_eq!(first["outcome"]["left_out"].as_array().map(Vec::len), Some(2));
    assert_eq!(told["file_bytes"].as_u64(), Some(places::read(&bench.path("part.byoc")).len() as u64));
    bench.byoc(&["verify", "part.byoc", "--model", "model.onnx", "--atol", "0"]).success();
    // Other weights leave the choice alone.
    bench.bare(&["swap", "part.byoc", "--from", "model.onnx", "-o", "swapped.byoc"]).success();
    let chosen = |name: &str| {
        let regions = bench.artifact(name).manifest().regions.clone();
        regions.into_iter().map(|region| region.chosen).collect::<Vec<_>>()
    };
    assert_eq!(chosen("part.byoc"), chosen("swapped.byoc"));
}

#[test]
fn open_sizes_are_told() {
    let model = Model::default()
        .input("x", Type::Float, &[-1, 4])
        .weight("w", &[4, 4], &[0.5; 16])
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[-1, 4]);
    let bench = Bench::of(model.finish(), &[]);
    bench.tune(&[]).fails(
        2,
        "error: [B701] region byoc_main_simdev_0: input 'x' of shape [batch,4] cannot be filled: the size 'batch' is open\n  \
         hint: Set it, as in --dim 'batch=1'",
    );
    bench
        .tune(&["--dim", "batsh=2"])
        .fails(2, "error: [B204] no region has a dimension 'batsh'\n  hint: Their dimensions are: batch");
    assert!(bench.tune(&["--dim", "batch=64"]).success().contains(" wide "));
    // Other sizes are other work.
    assert!(!bench.tune(&["--dim", "batch=32"]).success().contains("known"));
    bench.byoc(&["verify", "tuned.byoc", "--model", "model.onnx", "--dim", "batch=3", "--atol", "0"]).success();
}

#[test]
fn constants_in_other_files_stay_there() {
    let weights: Vec<f32> = (0..1024).map(|i| (i % 32) as f32 / 32.0).collect();
    let model = Model::default()
        .input("x", Type::Float, &[1, 32])
        .weight("w", &[32, 32], &weights)
        .node("MatMul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, 32]);
    let bench = Bench::of(model.finish(), &["--external-constants"]);
    bench.tune(&["--repeat", "1"]).success();
    assert_eq!(bench.artifact("tuned.byoc").manifest().files, bench.artifact("m.byoc").manifest().files);
    bench.byoc(&["verify", "tuned.byoc", "--model", "model.onnx", "--atol", "0"]).success();
    let model = places::read(&bench.path("model.onnx"));
    bench.byoc(&["tune", "m.byoc", "--device", "sim:0", "-o", "model.onnx"]).fails(
        2,
        "error: [B901] 'model.onnx' is an ONNX model, which an artifact would replace\n  hint: Name another file, or remove that \
         one first",
    );
    assert_eq!(places::read(&bench.path("model.onnx")), model);
    std::fs::create_dir(bench.path("elsewhere")).expect("the folder is ours");
    bench.byoc(&["tune", "m.byoc", "--device", "sim:0", "-o", "elsewhere/m.byoc"]).fails(
        2,
        "error: [B901] 'm.byoc' refers to 'model.onnx' from its folder\n  hint: Write the output into the same folder",
    );
}

#[test]
fn what_cannot_be_tuned_is_said_and_nothing_is_written() {
    let bench = Bench::new();
    std::fs::write(bench.path("tuned.byoc"), "\x01what was there before").expect("the folder is ours");
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["--backend", "simdev-guest"],
            2,
            "[B702] 'm.byoc' has no region of the backend 'simdev-guest'\n  hint: See byoc inspect --plugins",
        ),
        (
            &["--backend", "json"],
            2,
            "[B702] no region of 'm.byoc' that is asked about runs on sim:0\n  hint: See byoc inspect --regions",
        ),
        (
            &["--backend-opt", "simdev.off=true"],
            3,
            "[B604] backend 'simdev' cannot open sim:0: the simulator is switched off\n  hint: Leave out simdev.off",
        ),
        (
            &["--backend-opt", "simdev.fault=MatMul"],
            1,
            "[B706] region byoc_main_simdev_0 failed on sim:0: a kernel wrote outside of its memory",
        ),
        (
            &["--backend-opt", "simdev.fatal=true"],
            1,
            "[B706] sim:0 is lost after the kernel 'fatal' of region byoc_main_simdev_0: region byoc_main_simdev_0 failed on \
             sim:0: a kernel wrote outside of its memory\n  hint: Report this to the backend's maker; what was found before is kept",
        ),
        (
            &["--backend-opt", "simdev.panic=candidates"],
            1,
            "[B306] backend 'simdev' cannot make kernels for region byoc_main_simdev_0: backend panicked: as asked in candidates",
        ),
        (
            &["--backend-opt", "simdev.named=true"],
            2,
            "[B304] option 'simdev.named' is not an option of running\n  hint: Give it to byoc compile, or name the .onnx model",
        ),
    ];
    let mut wrong = Vec::new();
    for (more, code, message) in cases {
        let found = bench.tune(more);
        let told = without_places(&found.stderr);
        let error = told.rfind("error: ").map_or("", |at| &told[at + "error: ".len()..]).trim_end();
        if (found.code, error) != (Some(*code), *message) {
            wrong.push(format!("{more:?}:\n  expected {code} {message}\n  found {:?} {error}", found.code));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    bench.bare(&["tune", "m.byoc", "--device", "sim:0", "-o", "tuned.byoc"]).fails(
        3,
        "error: [B604] region byoc_main_simdev_0 needs the backend 'simdev': there is no backend 'simdev'\n  hint: There is json, \
         kendryte; name further plugins with --plugin or --plugin-dir; -v shows where they are looked for",
    );
    let without = bench.byoc(&["tune", "m.byoc", "-o", "tuned.byoc"]);
    assert_eq!(without.code, Some(2));
    assert!(without.stderr.contains("--device <KIND:N>"), "{}", without.stderr);
    assert_eq!(places::read(&bench.path("tuned.byoc")), b"\x01what was there before");
}

/// Backends with one code for each region are left as they are.
#[test]
fn without_candidates_there_is_nothing_to_choose() {
    let bench = Bench::new();
    let compile = [
        "compile",
        "model.onnx",
        "-o",
        "m.byoc",
        "--backend",
        "simdev-guest,json",
        "--backend-opt",
        "simdev-guest.takes=Add",
    ];
    bench.byoc(&compile).success();
    let before = places::read(&bench.path("m.byoc"));
    let told = bench.tune(&[]);
    assert!(
        told.success().starts_with("no region has kernels to choose from\ntuned.byoc: as it was; "),
        "{}",
        told.stdout
    );
    assert_eq!(places::read(&bench.path("tuned.byoc")), before);
}

/// The variant of the device is tuned, as it is where it is alone; the others stay as they are.
#[test]
fn the_variant_of_the_device_is_tuned() {
    let bench = Bench::new();
    bench.tune(&[]).success();
    let variants = ["--variant", "cpu=json", "--variant", "sim=simdev,json", "--backend-opt", "simdev.named=false"];
    bench.byoc(&[&["compile", "model.onnx", "-o", "both.byoc"], &variants[..]].concat()).success();
    let read = |name: &str| places::read(&bench.path(name));
    let extract = |file: &str, name: &str, output: &str| {
        bench.bare(&["extract", file, "--variant", name, "-o", output]).success();
        read(output)
    };
    bench.byoc(&["tune", "both.byoc", "--device", "sim:0", "-o", "tuned-both.byoc"]).success();
    assert!(extract("both.byoc", "cpu", "cpu.byoc") == extract("tuned-both.byoc", "cpu", "tuned-cpu.byoc"));
    let sim = extract("tuned-both.byoc", "sim", "sim.byoc");
    bench.bare(&["merge", "cpu.byoc", "sim=tuned.byoc", "-o", "merged.byoc"]).success();
    assert!(read("merged.byoc") == read("tuned-both.byoc"));
    assert!(sim == extract("merged.byoc", "sim", "alone.byoc"));
    bench.byoc(&["verify", "tuned-both.byoc", "--model", "model.onnx"]).success();
    bench.byoc(&["tune", "cpu.byoc", "--device", "sim:0", "-o", "out.byoc"]).fails(
        2,
        "error: [B702] no region of 'cpu.byoc' that is asked about runs on sim:0\n  hint: See byoc inspect --regions",
    );
    let none = ["tune", "two.byoc", "--device", "sim:0", "-o", "out.byoc"];
    bench.byoc(&["compile", "model.onnx", "-o", "two.byoc", "--variant", "a=json", "--variant", "b=json"]).success();
    bench.byoc(&none).fails(
        2,
        "error: [B702] no variant of 'two.byoc' has regions that run on sim:0\n  hint: byoc inspect shows the variants",
    );
}
