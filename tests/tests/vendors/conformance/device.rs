//! The kit on backends that run in memory of a device: what it finds there, and what it does without the device.

use byoc_tests::places;

use super::Tested;

/// What regions do wrong, by the option `wrong` of both backends, and the reason that is given.
const WRONG: &[(&str, &str)] = &[
    ("result", "of 48 elements differ"),
    ("output", "byte 0 of output 'v3' is not written"),
    ("beyond", "run fails: it writes outside of output 0"),
    ("input", "run fails: it writes to input 0"),
    // Scratch memory is overwritten before each run.
    ("scratch", "of 48 elements differ, worst at [0, 0]: NaN"),
    // What a run reads, and what is to be overwritten by it, is still in the queue.
    ("queue", "byte 0 of output 'v3' is not written"),
    ("recording", "run fails: run, while it is recorded: it cannot be recorded after all"),
    // The region is prepared anew between a recording and its replay.
    ("past", "of output 'v3' is another one in the second run"),
];

#[test]
fn faults_on_a_device_are_found() {
    let plugin = places::plugin("simdev");
    for (backend, pattern) in [("simdev", "MatMul"), ("simdev-guest", "Mul")] {
        for (wrong, reason) in WRONG {
            let setting = format!("{backend}.wrong={wrong}");
            let tested = Tested::plain(&plugin, &["--backend", backend, "--backend-opt", &setting, "--fail-fast"]);
            assert_eq!(tested.code, Some(1), "{setting}");
            let (name, found) = tested.first_failure();
            assert_eq!(name, format!("{pattern}: f32[3x16] constants: run"), "{setting}");
            assert!(found.contains(reason), "{setting}: {found}");
        }
    }
}

/// A kernel that faults is an error of the run, and so is a device that is full.
#[test]
fn errors_of_a_device_are_told() {
    let plugin = places::plugin("simdev");
    let cases = [
        ("simdev.fault=MatMul", "run fails: a kernel wrote outside of its memory"),
        ("simdev.memory=600", "load fails: the simulator has 600 bytes free of 600, and "),
    ];
    for (setting, reason) in cases {
        let tested = Tested::plain(&plugin, &["--backend", "simdev", "--backend-opt", setting, "--fail-fast"]);
        let (name, found) = tested.first_failure();
        assert!(name == "MatMul: f32[3x16] constants: run" && found.starts_with(reason), "{name}: {found}");
    }
}

/// Regions that cannot be recorded, devices that record nothing, and recordings that do not last are not faults.
#[test]
fn recordings_are_not_asked_for_where_there_are_none() {
    for settings in [
        ["simdev.unrecordable=true", "simdev.scratch=100"],
        ["simdev.records=false", "simdev.wrong=recording"],
        ["simdev.brief=true", "simdev.wrong=past"],
    ] {
        let settings = settings.map(|setting| ["--backend-opt", setting]).concat();
        let tested = Tested::plain(&places::plugin("simdev"), &[&["--backend", "simdev"], &settings[..]].concat());
        assert_eq!((tested.code, tested.failures()), (Some(0), vec![]), "{settings:?}");
    }
}

/// Where there is no device, what needs none is still asked.
#[test]
fn without_the_device_the_compile_side_is_tested() {
    let plugin = places::plugin("simdev");
    let there = Tested::plain(&plugin, &["--backend", "simdev"]);
    for backend in ["simdev", "simdev-guest"] {
        let tested = Tested::plain(&plugin, &["--backend", backend, "--backend-opt", "simdev.off=true"]);
        assert_eq!((tested.code, tested.failures()), (Some(0), vec![]));
        let cases = tested.report["cases"].as_array().expect("a list").iter();
        let runs: Vec<_> =
            cases.filter(|case| case["name"].as_str().is_some_and(|name| name.ends_with(": run"))).collect();
        // Each backend of the kind is asked, and the one that could open it says why it did not.
        let reason = "cannot open sim:0: the simulator is switched off";
        assert!(runs.len() >= 10, "{}", runs.len());
        assert!(runs.iter().all(|case| case["result"] == "unsupported" && case["reason"] == reason), "{runs:?}");
        for kind in ["codegen", "claims", "newer host"] {
            assert!(tested.passed().any(|name| name.ends_with(kind)), "{backend} {kind}");
        }
        let needing = ["artifact", "special", "layouts", "shared", "together", "damaged code", "damaged constants"];
        assert!(!tested.passed().any(|name| needing.iter().any(|kind| name.ends_with(kind))), "{backend}");
    }
    assert!(there.passed().any(|name| name.ends_with("artifact")));
}
