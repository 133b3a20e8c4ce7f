//! The vendor's TOML files: cases of its own, and failures that it knows of.

use byoc_tests::folder::Folder;
use byoc_tests::markdown::blocks;
use byoc_tests::onnx::small;
use byoc_tests::places;

use super::{Tested, c_plugin, verb};

const CASES: &str = r#"
[[case]]
name = "a model"
model = "small.onnx"

[[case]]
name = "an operator"
op = "Add"
inputs = [{ dtype = "f32", shape = [2, 3] }, { dtype = "f32", shape = [2, 3], constant = true }]
tolerance = { absolute = 1e-6 }

[[case]]
name = "values and attributes"
op = "Add"
inputs = [{ dtype = "f32", shape = [2] }, { dtype = "f32", shape = [2], values = [1, -0.5] }]

[[case]]
name = "refused as said"
op = "Add"
inputs = [{ dtype = "i64", shape = [2] }, { dtype = "i64", shape = [2] }]
expect = "unsupported"

[[case]]
name = "refused"
op = "Relu"
inputs = [{ dtype = "f32", shape = [2] }]

[[case]]
name = "misspelt"
op = "Addd"
inputs = [{ dtype = "f32", shape = [2] }]

[[case]]
name = "for another backend"
backend = "other"
op = "Relu"
inputs = [{ dtype = "f32", shape = [2] }]
"#;

/// The file that the documentation shows is one, but for the model, which it does not have.
#[test]
fn the_documented_file_is_read() {
    let page = String::from_utf8(places::read(&places::checkout().join("docs/writing-a-backend.md"))).expect("text");
    let shown = blocks(&page).into_iter().find(|block| block.info == "toml").expect("a file in TOML");
    let folder = Folder::empty();
    let file = folder.write("cases.toml", shown.text);
    let tested = Tested::plain(&places::plugin("template"), &["--case", file.to_str().expect("plain")]);
    // The template has no such cases as those that something is expected of.
    let of_others = |name: &str| name == "expectations";
    let failures: Vec<_> = tested.failures().into_iter().filter(|(name, _)| !of_others(name)).collect();
    let [(name, reason)] = failures[..] else { panic!("{:?}", tested.failures()) };
    assert!(name == "encoder" && reason.starts_with("[B601] ") && reason.contains("encoder.onnx"), "{reason}");
    let gelu = tested.report["cases"].as_array().and_then(|cases| cases.iter().find(|case| case["name"] == "gelu"));
    assert_eq!(gelu.map(|case| &case["result"]), Some(&"pass".into()));
}

#[test]
fn cases_of_the_vendor_are_run() {
    let folder = Folder::empty();
    folder.write("small.onnx", small().finish());
    let file = folder.write("cases.toml", CASES);
    let places_of_cases = [file.clone(), folder.path().to_owned()];
    for place in places_of_cases {
        let tested = Tested::plain(&places::plugin("template"), &["--case", place.to_str().expect("plain")]);
        let refused = "expected to pass, and it is unsupported: ";
        let unknown = "the compiler refuses the model: [B102] node 'make_y': operator Addd version 24 is not known, neither to byoc nor to \
                       template. docs/operators.md lists those that byoc knows; a plugin may bring others (--plugin, --backend)";
        let expected = [
            ("a model", format!("{refused}shape: 'product' and 'b' differ in shape")),
            ("refused", format!("{refused}no pattern matches")),
            ("misspelt", format!("{refused}{unknown}")),
        ];
        let failures: Vec<_> = tested.failures().iter().map(|(name, reason)| (*name, (*reason).to_owned())).collect();
        assert_eq!((tested.code, failures), (Some(1), expected.to_vec()));
        let all = tested.report["cases"].as_array().expect("a list");
        let own: Vec<_> = all[all.len() - 6..]
            .iter()
            .map(|case| (case["name"].as_str().unwrap_or_default(), case["result"].as_str().unwrap_or_default()))
            .collect();
        let expected = [
            ("a model", "fail"),
            ("an operator", "pass"),
            ("values and attributes", "pass"),
            ("refused as said", "pass"),
            ("refused", "fail"),
            ("misspelt", "fail"),
        ];
        assert_eq!(own, expected);
    }
}

#[test]
fn a_model_that_the_backend_takes_is_compared() {
    let folder = Folder::empty();
    folder.write("small.onnx", small().finish());
    let file = folder.write("cases.toml", "case = [{ name = \"small\", model = \"small.onnx\" }]");
    let write = "y[row * sizes->columns + column] = sum;";
    for (new, code) in [(write, 0), ("y[row * sizes->columns + column] = sum + 1;", 1)] {
        let plugin = c_plugin(folder.path(), &[(write, new)]);
        let tested = Tested::plain(&plugin, &["--case", file.to_str().expect("plain")]);
        assert_eq!(tested.code, Some(code));
        let failed = tested.failures().into_iter().find(|(name, _)| *name == "small");
        assert_eq!(failed.is_some(), code == 1);
        assert!(failed.is_none_or(|(_, reason)| reason.starts_with("run: output 'sum': 8 of 8 elements differ")));
    }
}

#[test]
fn expected_failures_are_told_apart() {
    let folder = Folder::empty();
    let known = "[[expect]]\ncase = \"dense: * constants broadcast: *\"\nresult = \"fail\"\nreason = \"known\"\n";
    let file = folder.write("known.toml", known);
    let arguments = ["--case", file.to_str().expect("plain")];
    // All of them pass, and none of them should.
    let tested = Tested::plain(&c_plugin(folder.path(), &[]), &arguments);
    assert_eq!((tested.code, tested.count("expected_failure")), (Some(1), 0));
    let expected = ("dense: f32[3x16] constants broadcast: check", "expected to fail (known), but the result is pass");
    assert_eq!(tested.first_failure(), expected);
    // One of them fails.
    let file = folder.write("known.toml", known.replace("broadcast: *", "broadcast: damaged constants"));
    let plugin = c_plugin(folder.path(), &[("bias->layout.len != 0", "0")]);
    let tested = Tested::plain(&plugin, &["--case", file.to_str().expect("plain")]);
    assert_eq!((tested.code, tested.failures()), (Some(0), vec![]));
    assert!(tested.count("expected_failure") >= 2);
}

#[test]
fn a_file_that_is_none_is_an_error() {
    let folder = Folder::empty();
    let hint = "\n  hint: `docs/writing-a-backend.md` shows one";
    let cases = [
        ("[[case]]\nname = \"a\"\n", "case 'a' needs either a model or an op"),
        ("[[case]]\nname = \"a\"\nop = \"Add\"\nfoo = 1\n", "line 4: unknown field `foo`"),
        ("[[case]\n", "line 1: "),
    ];
    for (text, cause) in cases {
        let file = folder.write("bad.toml", text);
        let plugin = places::plugin("template");
        let outcome = verb(&plugin, &["--case", file.to_str().expect("plain")], &|_| {});
        assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
        let message = format!("error: [B901] '{}' is not a file of cases: {cause}", file.display());
        assert!(outcome.stderr.starts_with(&message), "{}", outcome.stderr);
        assert!(outcome.stderr.trim_end().ends_with(hint), "{}", outcome.stderr);
    }
}
