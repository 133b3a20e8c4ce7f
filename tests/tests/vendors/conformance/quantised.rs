//! Backends that choose ranges from samples: what the kit asks of results that are near and not the same.

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::{places, sample};

use super::Tested;

/// Patterns of the backend for the K210.
const PATTERNS: [&str; 13] = [
    "conv_bn",
    "conv",
    "dense_bias",
    "dense",
    "swish",
    "add",
    "concat",
    "max_pool",
    "average_pool",
    "function",
    "resize",
    "softmax",
    "reshape",
];

/// All but convolutions cannot start a region of this backend: the kit has to put some in front.
#[test]
fn the_kendryte_backend_passes() {
    // One of the two: each takes the kit a minute.
    for dense in sample::every(2, ["false", "true"]) {
        let option = format!("kendryte.float-dense={dense}");
        let tested = Tested::plain(&places::plugin("kendryte"), &["--backend-opt", &option]);
        assert_eq!((tested.code, tested.failures()), (Some(0), vec![]));
        assert!(tested.count("pass") >= 700, "{}", tested.report["summary"]);
        for pattern in PATTERNS {
            for case in ["run", "artifact", "special", "open", "damaged code"] {
                let is_case =
                    |name: &str| name.starts_with(&format!("{pattern}: ")) && name.ends_with(&format!(": {case}"));
                assert!(tested.passed().any(is_case), "{pattern}: {case}");
            }
        }
    }
}

/// The kit has samples. This backend wants every value to be observed, and computes nothing.
#[test]
fn backends_that_ask_for_calibration_get_it() {
    let tested = Tested::plain(&places::plugin("calibrated"), &["--only", "*x16] *"]);
    let generated = tested.passed().filter(|name| name.ends_with(": codegen"));
    assert!(generated.count() >= 10, "{}", tested.report["summary"]);
    for (case, reason) in tested.failures() {
        assert!(reason.contains("this backend computes nothing"), "{case}: {reason}");
    }
}

/// `y = conv(exp(conv(x)))`, or without the first convolution: the backend has no code for what is in between.
fn model(first: bool) -> Vec<u8> {
    let weights: Vec<f32> = (0..32).map(|i| (i * 7 % 32) as f32 / 16.0 - 1.0).collect();
    let model = Model::default().input("x", Type::Float, &[1, 4, 5, 6]).weight("w", &[8, 4, 1, 1], &weights).weight(
        "v",
        &[4, 8, 1, 1],
        &weights,
    );
    let (model, inner) = if first {
        (model.node("Conv", &["x", "w"], &["a"]).node("Exp", &["a"], &["b"]), "v")
    } else {
        (model.node("Exp", &["x"], &["b"]), "w")
    };
    model.node("Conv", &["b", inner], &["y"]).output("y", Type::Float, &[1, if first { 4 } else { 8 }, 5, 6]).finish()
}

/// The beginning and another part of the reason of a failure.
type Reason = (&'static str, &'static str);

/// Model, tolerance, and why the case fails if it does.
const CASES: [(&str, &str, Option<Reason>); 7] = [
    ("both", "", None),
    ("both", "noise_db = 25", None),
    ("both", "absolute = 0.1", None),
    ("both", "absolute = 1e-6", Some(("run: output 'a': ", " of 240 elements differ, worst at ["))),
    ("both", "noise_db = 100", Some(("run: output 'a': the signal is ", " dB above the noise, not 100.0: "))),
    ("last", "", None),
    // What a region by itself makes of inner values is not asked: no range is for made-up ones.
    ("last", "noise_db = 100", Some(("artifact: output 'y': the signal is ", " dB above the noise, not 100.0: "))),
];

#[test]
fn noise_is_judged_as_the_vendor_says() {
    let folder = Folder::empty();
    folder.write("both.onnx", model(true));
    folder.write("last.onnx", model(false));
    let cases = CASES.iter().enumerate().map(|(number, (name, tolerance, _))| {
        let given = if tolerance.is_empty() { String::new() } else { format!("tolerance = {{ {tolerance} }}\n") };
        format!("[[case]]\nname = \"own {number}\"\nmodel = \"{name}.onnx\"\n{given}")
    });
    let file = folder.write("cases.toml", cases.collect::<String>());
    let tested =
        Tested::plain(&places::plugin("kendryte"), &["--only", "own *", "--case", file.to_str().expect("plain")]);
    for (number, (name, tolerance, expected)) in CASES.into_iter().enumerate() {
        let own = format!("own {number}");
        let failure = tested.failures().into_iter().find(|(failed, _)| *failed == own).map(|(_, reason)| reason);
        match (expected, failure) {
            (None, None) => assert!(tested.passed().any(|passed| passed == own), "{name} {tolerance}"),
            (Some((start, part)), Some(reason)) if reason.starts_with(start) && reason.contains(part) => {}
            (_, failure) => panic!("{name} {tolerance}: {failure:?}"),
        }
    }
    assert_eq!(tested.failures().len(), CASES.iter().filter(|(.., expected)| expected.is_some()).count());
}
