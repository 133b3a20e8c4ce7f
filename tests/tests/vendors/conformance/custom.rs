//! Backends with operators of their own, which nobody else can compute: the kit makes models of them by their declarations.

use byoc_tests::fixture::c_operator_plugin;
use byoc_tests::folder::Folder;
use byoc_tests::places;

use super::Tested;

/// The kit's own models have no scales that fit.
const CASE: &str = r#"
[[case]]
name = "rows with a table"
op = "Swirl"
domain = "com.acme"
inputs = [{ dtype = "f32", shape = [3, 4] }, { dtype = "f32", shape = [4], constant = true }]
attributes = { table = { dtype = "f32", shape = [3], values = [1, 2.5, -3] } }
"#;

#[test]
fn their_operators_are_tried() {
    let folder = Folder::empty();
    let case = folder.write("cases.toml", CASE);
    let case = case.to_str().expect("a plain path");
    let rust = Tested::plain(&places::plugin("custom_operators"), &["--case", case]);
    let c = Tested::plain(&c_operator_plugin(folder.path(), "cacme", &[]), &["--case", case]);
    for tested in [&rust, &c] {
        assert_eq!((tested.code, tested.failures()), (Some(0), vec![]));
        for name in ["rows with a table", "swirl: matches", "swirl: f32[5] constants: run"] {
            assert!(tested.passed().any(|passed| passed == name), "{name}: {}", tested.report);
        }
    }
    for name in ["run", "artifact", "together", "damaged code"] {
        let name = format!("twist: f32[3x16] constants: {name}");
        assert!(rust.passed().any(|passed| passed == name), "{name}: {}", rust.report);
    }
}

/// What a run gives depends on nothing but its inputs: that is asked although nobody knows what is right.
#[test]
fn results_that_change_are_found() {
    let folder = Folder::empty();
    let change = ("plugin.c", "*y++ = *x++ * scale;", "{ static float runs; *y++ = *x++ * scale + runs++; }");
    let plugin = c_operator_plugin(folder.path(), "changing", &[change]);
    let tested = Tested::plain(&plugin, &[]);
    let expected = ("swirl: f32[5] constants: run", "byte 0 of output 'v3' is another one in the second run");
    assert_eq!(tested.first_failure(), expected);
}
