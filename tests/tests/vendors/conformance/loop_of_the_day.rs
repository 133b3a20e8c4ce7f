//! What a vendor does with the kit between two changes: the one case, the failures alone, the smallest model; and what it is told of
//! that is no failure.

use byoc_tests::folder::Folder;
use byoc_tests::places;
use serde_json::Value;

use super::{Tested, c_plugin, verb};

/// The line of the plugin in C that writes an element of the output.
const WRITE: &str = "y[row * sizes->columns + column] = sum;";

/// Names of the cases that are reported.
fn names(tested: &Tested) -> Vec<&str> {
    let cases = tested.report["cases"].as_array().expect("a list").iter();
    cases.filter_map(|case| case["name"].as_str()).collect()
}

#[test]
fn some_cases_and_the_first_failure() {
    let folder = places::temporary();
    let plugin = c_plugin(folder.path(), &[(WRITE, "y[row * sizes->columns + column] = sum + (column == 2);")]);
    let some = Tested::plain(&plugin, &["--only", "dense: f32[3x16]*: claims"]);
    assert_eq!((some.code, names(&some)), (Some(0), vec!["dense: f32[3x16] constants broadcast: claims"]));
    let first = Tested::plain(&plugin, &["--fail-fast"]);
    assert_eq!((first.code, first.failures().len()), (Some(1), 1));
    assert_eq!(names(&first).last(), Some(&first.first_failure().0));
    let failed = Tested::plain(&plugin, &["--failed"]);
    assert_eq!(names(&failed).len() as u64, failed.count("fail"));
    let text = verb(&plugin, &["--failed"], &|_| {}).stdout;
    assert!(!text.contains(" pass ") && text.contains("\nsmallest models\n"), "{text}");
}

/// The third column is wrong: it takes three columns to see it, and no more than one row and one product.
#[test]
fn the_smallest_model_that_fails_is_shown_and_saved() {
    let folder = Folder::empty();
    let plugin = c_plugin(folder.path(), &[(WRITE, "y[row * sizes->columns + column] = sum + (column == 2);")]);
    let saved = folder.path().join("failing");
    let arguments =
        ["--only", "dense: f32[3x16] constants broadcast: run", "--save-failing", saved.to_str().expect("plain")];
    let tested = Tested::plain(&plugin, &arguments);
    let case = &tested.report["cases"][0];
    let smallest = "input x1: f32[1,6]; v3: f32[1,3] = MatMul(x1, w2<f32[6,3] #c4f8c7fc>); \
                    v5: f32[1,3] = Add(v3, w4<f32[3] -0.43617868 0.4614699 -0.23980665>); output v5: f32[1,3]";
    assert_eq!((tested.code, case["model"].as_str()), (Some(1), Some(smallest)));
    let files = places::list(&saved);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    assert!(file.starts_with("cmatmul-dense-f32-3x16-constants-broadcast-") && file.ends_with(".onnx"), "{file}");
    let model = saved.join(file);
    folder
        .byoc(&[
            "verify",
            model.to_str().expect("plain"),
            "--backend",
            "cpu",
            "--model",
            model.to_str().expect("plain"),
        ])
        .success();
    let again = verb(&plugin, &arguments, &|_| {});
    let message = format!(
        "error: [B601] cannot write into '{}': it is not empty\n  hint: Name another folder with --save-failing",
        saved.display()
    );
    assert_eq!((again.code, again.stderr.trim_end()), (Some(1), message.as_str()));
}

/// Far beside an output there is no memory: the case is named, and the others are asked.
#[test]
fn far_writes_are_found_within_their_case() {
    let folder = places::temporary();
    for far in ["4096", "65536", "-65536"] {
        let write = format!("y[row * sizes->columns + column] = sum; if (rows == 3 && !row && !column) y[{far}] = 1;");
        let tested = Tested::plain(&c_plugin(folder.path(), &[(WRITE, &write)]), &[]);
        let (case, reason) = tested.first_failure();
        assert!(case.ends_with(": run") && reason == "crashed (signal 11)", "{far}: {case} {reason}");
        assert!(names(&tested).len() > 30, "{far}: {}", tested.report["summary"]);
    }
}

/// A crash between two cases is told of behind the one before, and does not end the report.
#[test]
fn a_crash_between_cases_does_not_end_the_report() {
    let folder = places::temporary();
    let later = "#include <signal.h>\n#include <unistd.h>\nstatic void end(int signal) { (void)signal; abort(); }\nstatic size_t count(void)";
    let begin = "if (rows == 3 && sizes->columns == 16) { signal(SIGALRM, end); ualarm(1, 0); usleep(10); } y[row * sizes->columns + column] = sum;";
    let tested = Tested::plain(&c_plugin(folder.path(), &[("static size_t count(void)", later), (WRITE, begin)]), &[]);
    assert_eq!(tested.code, Some(1));
    assert!(names(&tested).len() > 30, "{}", tested.report["summary"]);
    assert!(tested.failures().iter().all(|(_, reason)| *reason == "crashed (signal 6)"), "{:?}", tested.failures());
}

/// Changes of the plugin in C that are no failures, and what is told of them.
const NOTED: &[(&str, &str, &str)] = &[
    (
        "\\\"constant_access\\\":\\\"both\\\"",
        "\\\"constant_acess\\\":\\\"both\\\"",
        "describe has the field 'constant_acess', which this byoc does not know",
    ),
    (
        WRITE,
        "static void *volatile kept; kept = malloc(1000); y[row * sizes->columns + column] = sum;",
        "each run keeps ",
    ),
    (
        WRITE,
        "if (!row && !column) { void *volatile much = malloc(100 << 20); memset((void *)much, 1, 100 << 20); free((void *)much); } y[row * sizes->columns + column] = sum;",
        "a run takes ",
    ),
    (
        WRITE,
        "puts(\"here I am\"); fflush(stdout); y[row * sizes->columns + column] = sum;",
        "the plugin prints to the standard output: 'here I am'",
    ),
];

#[test]
fn what_is_no_failure_is_a_note() {
    let folder = places::temporary();
    for (old, new, note) in NOTED {
        let tested = Tested::plain(&c_plugin(folder.path(), &[(old, new)]), &["--only", "dense: f32[3x16]*: run"]);
        let tested = if note.starts_with("describe") {
            Tested::plain(&c_plugin(folder.path(), &[(old, new)]), &[])
        } else {
            tested
        };
        assert_eq!((tested.code, tested.failures()), (Some(0), vec![]), "{new}");
        let of_cases =
            tested.report["cases"].as_array().expect("a list").iter().filter_map(|case| case["notes"].as_array());
        let notes: Vec<&Value> = of_cases.flatten().chain(tested.report["notes"].as_array().expect("a list")).collect();
        assert!(
            notes.iter().any(|found| found.as_str().is_some_and(|found| found.starts_with(note))),
            "{note}: {notes:?}"
        );
    }
    let quiet = Tested::plain(&c_plugin(folder.path(), &[]), &[]);
    let of_cases = quiet.report["cases"].as_array().expect("a list").iter().filter(|case| case["notes"].is_array());
    assert_eq!((of_cases.count(), quiet.report["notes"].as_array().map(Vec::len)), (0, Some(0)));
}

/// A plugin that can take nothing, by a name that nobody knows or by refusing all, does not pass.
#[test]
fn a_plugin_that_takes_nothing_fails() {
    let folder = places::temporary();
    let pattern = "(Add (MatMul ?x ?w:const) ?b:const)";
    let cases = [
        ("(Adddd ?x ?y)", "dense: matches", "nobody knows the operator Adddd"),
        (
            "(PRelu ?x ?y)",
            "dense: matches",
            "PRelu is expanded before patterns are matched, unless the backend has it among its operators",
        ),
        (
            "(Relu ?x)",
            "takes something",
            "it takes none of the models: cases of your own can show what it takes (--case)",
        ),
    ];
    for (text, case, reason) in cases {
        let tested = Tested::plain(&c_plugin(folder.path(), &[(pattern, text)]), &[]);
        assert_eq!(tested.code, Some(1), "{text}");
        assert!(tested.failures().contains(&(case, reason)), "{text}: {:?}", tested.failures());
    }
}

/// A host of ABI 1.0 is one like any other to a plugin that needs nothing newer.
#[test]
fn the_first_host_is_asked_as() {
    let folder = places::temporary();
    let tested = Tested::plain(&c_plugin(folder.path(), &[]), &["--as-host", "1.0"]);
    assert_eq!((tested.code, tested.failures()), (Some(0), vec![]));
    assert!(names(&tested).iter().all(|name| !name.ends_with(": open")), "it knows no files");
    let refused = verb(&places::plugin("calibrated"), &["--as-host", "1.0"], &|_| {});
    let message = "error: [B901] a host of ABI 1.0 knows nothing of a data set, which the backend needs";
    assert_eq!((refused.code, refused.stderr.trim_end()), (Some(2), message));
}
