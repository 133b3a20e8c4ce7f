//! `byoc verify`: what decides, statistics, and the search for the region and the node that differ.

use byoc_plugin_api::{Attribute, DType};
use byoc_tests::folder::Folder;
use byoc_tests::golden::golden;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::program::Outcome;
use byoc_tests::tensor::Tensor;
use byoc_tests::{npz, places};

/// Two backends of a simulated device and the host take turns: `x w + b`, the product with `w`, Abs on the host, Relu. On ones all
/// numbers are exact.
fn turns() -> Model {
    let weights: Vec<f32> = (0..16).map(|i| i as f32 / 8.0 - 1.0).collect();
    Model::default()
        .input("x", Type::Float, &[4, 4])
        .weight("w", &[4, 4], &weights)
        .weight("b", &[4], &[0.5, -0.5, 0.25, -0.25])
        .node("MatMul", &["x", "w"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("Mul", &["sum", "w"], &["scaled"])
        .node("Abs", &["scaled"], &["curved"])
        .node("Relu", &["curved"], &["y"])
        .output("y", Type::Float, &[4, 4])
}

struct Bench {
    folder: Folder,
    plugin: String,
}

impl Bench {
    fn new(model: Model, backends: &str) -> Bench {
        let plugin = places::plugin("simdev").to_str().expect("a plain path").to_owned();
        let bench = Bench { folder: Folder::empty(), plugin };
        bench.folder.write("model.onnx", model.finish());
        bench.byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", backends]).success();
        bench
    }

    fn byoc(&self, arguments: &[&str]) -> Outcome {
        self.folder.byoc(&[arguments, &["--plugin", self.plugin.as_str()]].concat())
    }

    fn verify(&self, more: &[&str]) -> Outcome {
        self.byoc(&[&["verify", "model.byoc", "--model", "model.onnx"], more].concat())
    }

    /// The region that is named, and the results of all of them.
    fn first_that_differs(&self, more: &[&str]) -> (Option<String>, Vec<bool>) {
        let outcome = self.verify(&[&["--regions", "--json"], more].concat());
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
        assert_eq!(outcome.code, Some(if report["matches"] == true { 0 } else { 6 }), "{}", outcome.stderr);
        let regions = report["regions"].as_array().expect("regions").iter();
        let holds = |region: &serde_json::Value| {
            let mut outputs = region["outputs"].as_array().expect("outputs").iter();
            outputs.all(|output| output["problem"].is_null())
        };
        (report["first_that_differs"].as_str().map(str::to_owned), regions.map(holds).collect())
    }
}

const TURNS: &str = "simdev,simdev-guest,json";

#[test]
fn each_region_is_judged_by_itself() {
    let bench = Bench::new(turns(), TURNS);
    golden("verify/regions.txt", bench.verify(&["--regions", "--fill", "ones"]).success());
    assert_eq!(bench.first_that_differs(&[]), (None, vec![true; 4]));
    // What is wrong at the beginning, and in the middle: those behind are judged on what they should have been given.
    let wrong = |backend: &str| bench.first_that_differs(&["--backend-opt", &format!("{backend}.wrong=result")]);
    assert_eq!(wrong("simdev"), (Some("byoc_main_simdev_0".into()), vec![false, true, true, false]));
    assert_eq!(wrong("simdev-guest"), (Some("byoc_main_simdev-guest_0".into()), vec![true, false, true, true]));
}

#[test]
fn the_first_that_differs_is_shown_with_its_repro() {
    let bench = Bench::new(turns(), TURNS);
    let outcome = bench.verify(&["--regions", "--fill", "ones", "--backend-opt", "simdev.wrong=result"]);
    assert_eq!(outcome.code, Some(6), "{}", outcome.stderr);
    golden("verify/culprit.txt", &outcome.stdout.replace(&bench.plugin, "SIMDEV"));
    assert!(
        outcome.stdout.lines().all(|line| line.len() <= 80 || line.starts_with("byoc repro")),
        "{}",
        outcome.stdout
    );
    // The command works as it is printed.
    let command = outcome.stdout.lines().last().expect("a command").strip_prefix("byoc ").expect("byoc");
    let words: Vec<&str> = command.split(' ').collect();
    bench.folder.byoc(&words).success();
    bench.byoc(&["run", "byoc_main_simdev_0.repro.onnx", "--fill", "ones"]).success();
    // A model that is compiled for the command is as good as an artifact.
    let wrong = ["--backend-opt", "simdev-guest.wrong=result"];
    let of_model = bench.byoc(
        &[&["verify", "model.onnx", "--model", "model.onnx", "--regions", "--backend", TURNS], &wrong[..]].concat(),
    );
    assert_eq!(of_model.code, Some(6), "{}", of_model.stderr);
    let expected = "byoc repro model.onnx --region byoc_main_simdev-guest_0 --backend simdev,simdev-guest,json --backend-opt \
                    simdev-guest.wrong=result --plugin SIMDEV -o byoc_main_simdev-guest_0.repro.onnx";
    assert_eq!(of_model.stdout.replace(&bench.plugin, "SIMDEV").lines().last(), Some(expected));
}

/// A region of which all but one node give the same bits as the reference kernels.
fn curved() -> Model {
    Model::default()
        .input("x", Type::Float, &[64, 16])
        .node("Relu", &["x"], &["positive"])
        .node("Neg", &["positive"], &["negative"])
        .node("Sigmoid", &["negative"], &["curve"])
        .node("Neg", &["curve"], &["y"])
        .output("y", Type::Float, &[64, 16])
}

#[test]
fn the_first_node_that_differs_is_found() {
    let bench = Bench::new(curved(), "json");
    let exact = ["--atol", "0", "--rtol", "0"];
    let outcome = bench.verify(&[&["--regions", "--bisect"], &exact[..]].concat());
    assert_eq!(outcome.code, Some(6), "{}\n{}", outcome.stdout, outcome.stderr);
    let sentence = "\nfirst of its 4 nodes whose result differs: make_curve (Sigmoid)\n";
    assert!(outcome.stdout.contains(sentence), "{}", outcome.stdout);
    // On a device, of a backend that is a plugin.
    let bench = Bench::new(turns(), TURNS);
    let outcome = bench.verify(&["--regions", "--bisect", "--backend-opt", "simdev.wrong=result"]);
    let sentence = "\nfirst of its 2 nodes whose result differs: make_product (MatMul)\n";
    assert!(outcome.stdout.contains(sentence), "{}\n{}", outcome.stdout, outcome.stderr);
}

#[test]
fn sizes_may_be_open() {
    let model = || {
        Model::default()
            .input("x", Type::Float, &[-1, 4])
            .weight("w", &[4, 4], &(0..16).map(|i| i as f32 / 16.0).collect::<Vec<_>>())
            .node("MatMul", &["x", "w"], &["product"])
            .node_with("Concat", &["product", "x"], &["both"], &[("axis", Attribute::Int(0))])
            .node("Tanh", &["both"], &["curved"])
            .node("Relu", &["curved"], &["y"])
            .output("y", Type::Float, &[-1, 4])
    };
    let bench = Bench::new(model(), "simdev,json");
    let open = ["--shape", "x:3x4"];
    assert_eq!(bench.first_that_differs(&open), (None, vec![true; 3]));
    let wrong = [&open[..], &["--backend-opt", "simdev.wrong=result", "--regions"]].concat();
    let repro = bench.verify(&wrong).stdout.replace(&bench.plugin, "SIMDEV");
    let expected = "byoc repro model.onnx --region byoc_main_simdev_0 --backend simdev,json --plugin SIMDEV -o \
                    byoc_main_simdev_0.repro.onnx";
    assert_eq!(repro.lines().last(), Some(expected));
    // Sizes that were fixed when it was compiled are fixed in the command, too.
    bench
        .byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "simdev,json", "--dim", "batch=2"])
        .success();
    let fixed =
        bench.verify(&["--regions", "--backend-opt", "simdev.wrong=result"]).stdout.replace(&bench.plugin, "SIMDEV");
    let expected = "byoc repro model.onnx --region byoc_main_simdev_0 --backend simdev,json --shape 'x:[2,4]' --plugin SIMDEV \
                    -o byoc_main_simdev_0.repro.onnx";
    assert_eq!(fixed.lines().last(), Some(expected));
}

/// Regions around control flow are compared; what control flow gives is the reference's, and regions in bodies are named.
#[test]
fn bodies_are_named_and_not_passed_over() {
    let body = Model::default()
        .input("i", Type::Int64, &[])
        .input("on", Type::Bool, &[])
        .input("a", Type::Float, &[2])
        .node("Add", &["a", "a"], &["twice"])
        .output("on", Type::Bool, &[])
        .output("twice", Type::Float, &[2]);
    let model = Model::default()
        .input("x", Type::Float, &[2])
        .input("n", Type::Int64, &[])
        .node("Abs", &["x"], &["curved"])
        .node("Loop", &["n", "", "curved"], &["grown"])
        .body("body", body)
        .node("Neg", &["grown"], &["y"])
        .output("y", Type::Float, &[2]);
    let bench = Bench::new(model, "json");
    npz::write(
        &bench.folder.path().join("in.npz"),
        &[
            ("x", &Tensor::f32(&[2], &[0.5, -2.0])),
            ("n", &Tensor::new(DType::I64, vec![], 3i64.to_le_bytes().to_vec())),
        ],
    );
    let printed = bench.verify(&["--regions", "-i", "in.npz"]);
    golden("verify/bodies.txt", printed.success());
}

#[test]
fn outputs_have_tolerances_of_their_own() {
    let folder = Folder::compiled(small());
    let values = [0.5, 0.0, 0.5, 1.0, 0.5, 0.0, 0.5, 2.0];
    npz::write(&folder.path().join("wrong.npz"), &[("y", &Tensor::f32(&[2, 4], &values))]);
    let verify = |more: &[&str]| {
        folder.byoc(&[&["verify", "model.byoc", "--fill", "ones", "--reference", "wrong.npz"], more].concat())
    };
    let outcome = verify(&[]);
    assert_eq!(outcome.code, Some(6), "{}", outcome.stderr);
    golden("verify/outputs.txt", &outcome.stdout);
    assert_eq!(verify(&["--atol", "y=100"]).code, Some(0));
    assert_eq!(verify(&["--atol", "y=100", "--atol", "0"]).code, Some(0));
    assert_eq!(verify(&["--min-cosine", "-1"]).code, Some(0));
    assert_eq!(verify(&["--min-cosine", "0.999"]).code, Some(6));
    let cases: [(&[&str], &str); 3] = [
        (&["--atol", "z=1"], "error: [B702] there is no output 'z' to have a tolerance\n  hint: The outputs are: y"),
        (
            &["--atol", "1", "--atol", "2"],
            "error: [B901] --atol is given twice for all outputs\n  hint: Leave one of them out",
        ),
        (
            &["--rtol", "y=1", "--rtol", "y=2"],
            "error: [B901] --rtol is given twice for output 'y'\n  hint: Leave one of them out",
        ),
    ];
    for (more, message) in cases {
        verify(more).fails(2, message);
    }
}

/// A backend that rounds to few bits is not wrong where it differs element by element: that is said, and the search for a node
/// takes what the region was run on as its data set.
#[test]
fn rounded_values_are_told_from_wrong_ones() {
    let folder = Folder::empty();
    let model = Model::default()
        .input("x", Type::Float, &[1, 1, 8, 8])
        .weight("w", &[2, 1, 1, 1], &[0.5, -1.0])
        .node("Conv", &["x", "w"], &["c"])
        .node("Relu", &["c"], &["y"])
        .output("y", Type::Float, &[1, 2, 8, 8]);
    folder.write("model.onnx", model.finish());
    let samples: Vec<f32> = (0..128).map(|i| i as f32 / 127.0).collect();
    npz::write(&folder.path().join("data.npz"), &[("x", &Tensor::f32(&[2, 1, 8, 8], &samples))]);
    folder.run(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "kendryte", "--dataset", "data.npz"]);
    let verify = |more: &[&str]| folder.byoc(&[&["verify", "model.byoc", "--model", "model.onnx"], more].concat());
    let hint = "\nhint: kendryte rounds values to few bits: --snr 20 or --min-cosine 0.99 is usual\n  y has ";
    for more in [&[][..], &["--regions", "--bisect"]] {
        let outcome = verify(more);
        assert_eq!(outcome.code, Some(6), "{}", outcome.stderr);
        assert!(outcome.stdout.contains(hint), "{}", outcome.stdout);
    }
    let found = verify(&["--regions", "--bisect"]).stdout;
    assert!(found.contains("whose result differs: "), "{found}");
    verify(&["--snr", "20"]).success();
}

#[test]
fn a_reference_of_another_shape_has_no_numbers() {
    let folder = Folder::compiled(small());
    npz::write(&folder.path().join("other.npz"), &[("y", &Tensor::f32(&[2, 3], &[0.0; 6]))]);
    let outcome = folder.byoc(&["verify", "model.byoc", "--fill", "ones", "--reference", "other.npz"]);
    assert_eq!(outcome.code, Some(6), "{}", outcome.stderr);
    let lines: Vec<_> =
        outcome.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(lines.contains(&"y - - - - - -".to_owned()), "{}", outcome.stdout);
    assert_eq!(lines.last().map(String::as_str), Some("y: shape f32[2,4], expected f32[2,3]"));
}

/// Whatever cannot be read is no mismatch.
#[test]
fn errors_are_not_differences() {
    let folder = Folder::compiled(small());
    for more in [&[][..], &["--regions"]] {
        let outcome = folder.byoc(&[&["verify", "missing.byoc", "--model", "model.onnx"], more].concat());
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
        let outcome = folder.byoc(&[&["verify", "model.byoc", "--model", "missing.onnx"], more].concat());
        assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    }
    // Another model: nothing in it has the artifact's names.
    let other =
        Model::default().input("x", Type::Float, &[2, 3]).node("Neg", &["x"], &["z"]).output("z", Type::Float, &[2, 3]);
    folder.write("other.onnx", other.finish());
    folder.byoc(&["verify", "model.byoc", "--model", "other.onnx", "--regions"]).fails(
        2,
        "error: [B701] no region of 'model.byoc' can be compared: the model has no value 'y'\n  hint: Is it the model that the \
         artifact was compiled from?",
    );
}
