//! A backend that ends the process while its region runs, or while it is loaded: backend and region are named, with an exit code of
//! their own. What it prints there is not among the results.

use byoc_tests::fixture::c_plugin_of_today;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::small;
use serde_json::Value;

/// The line of the plugin in C that writes an element of the output.
const WRITE: &str = "y[row * sizes->columns + column] = sum;";
/// The line that takes the matrix at load.
const LOAD: &str = "region->matrix = matrix->tensor;";

/// A folder with a compiled model and the plugin, with one line of it replaced.
fn bench(old: &str, new: &str) -> (Folder, String) {
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let plugin = c_plugin_of_today(folder.path(), "cmatmul", &[("plugin.c", old, new)]);
    let plugin = plugin.to_str().expect("plain").to_owned();
    folder.byoc(&["compile", "model.onnx", "-o", "m.byoc", "--backend", "cmatmul,cpu", "--plugin", &plugin]).success();
    (folder, plugin)
}

#[test]
fn who_crashed_is_told() {
    let cases = [
        (WRITE, "*(volatile int *)0 = 1;", "crashed (signal 11)"),
        (WRITE, "abort();", "crashed (signal 6)"),
        (WRITE, "exit(0);", "ended the process"),
        (LOAD, "abort();", "crashed (signal 6)"),
    ];
    for (old, new, how) in cases {
        let (folder, plugin) = bench(old, new);
        let error = format!(
            "error: [B307] region byoc_main_cmatmul_0 of the backend 'cmatmul' {how} while it ran\n  hint: Report this to the \
             backend's maker; leave it out of --backend to compile without it"
        );
        for verb in [
            &["run", "m.byoc", "--fill", "ones"][..],
            &["verify", "m.byoc", "--model", "model.onnx"],
            &["bench", "m.byoc"],
        ] {
            let outcome = folder.byoc(&[verb, &["--plugin", &plugin]].concat());
            assert_eq!((outcome.code, outcome.stderr.trim_end()), (Some(5), error.as_str()), "{new}: {verb:?}");
        }
    }
}

#[test]
fn what_is_printed_in_a_run_is_no_result() {
    let (folder, plugin) = bench(WRITE, "puts(\"tick\"); fflush(stdout); y[row * sizes->columns + column] = sum;");
    for verb in
        [&["run", "m.byoc", "--fill", "ones", "--json"][..], &["verify", "m.byoc", "--model", "model.onnx", "--json"]]
    {
        let outcome = folder.byoc(&[verb, &["--plugin", &plugin]].concat());
        let printed: Result<Value, _> = serde_json::from_str(&outcome.stdout);
        assert!(outcome.code == Some(0) && printed.is_ok(), "{}", outcome.stdout);
        assert!(outcome.stderr.contains("tick\n"), "{}", outcome.stderr);
    }
}
