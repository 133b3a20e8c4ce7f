//! Regions that run in a worker: they give what they give in this process, and what becomes of them there is an error of that run.

use byoc_core::diagnostic::Code;
use byoc_core::partition::NodeRow;
use byoc_core::plugin::{Isolation, Registry, SearchPath};
use byoc_core::runtime::Session;
use byoc_tests::fixture::c_plugin_of_today;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places, program};
use serde_json::{Value, json};

/// The line of the plugin in C that writes an element of the output.
const WRITE: &str = "y[row * sizes->columns + column] = sum;";
/// The line that takes the matrix at load.
const LOAD: &str = "region->matrix = matrix->tensor;";

/// The plugins of these files, whose regions run in workers.
fn isolated(files: Vec<std::path::PathBuf>) -> Registry {
    let isolation = Isolation { runs: true, ..Isolation::by(program::path().to_owned()) };
    let search = SearchPath { files, ..SearchPath::default() };
    Registry::discover(&search, &byoc_plugin_api::registered(), Some(&isolation)).expect("the plugins load")
}

/// A product with a bias, which the plugin in C takes, of as many rows as one likes, and behind it what it does not take.
fn model() -> Model {
    let weights: Vec<f32> = (0..12).map(|i| ((i * 5) % 7) as f32 - 3.0).collect();
    Model::default()
        .input("x", Type::Float, &[-1, 4])
        .weight("w", &[4, 3], &weights)
        .weight("bias", &[3], &weights[..3])
        .node("MatMul", &["x", "w"], &["a"])
        .node("Add", &["a", "bias"], &["s"])
        .node("Relu", &["s"], &["b"])
        .node("MatMul", &["b", "v"], &["y"])
        .weight("v", &[3, 2], &weights[..6])
        .output("y", Type::Float, &[-1, 2])
}

fn rows(count: usize, first: f32) -> [(String, Tensor); 1] {
    let values: Vec<f32> = (0..count * 4).map(|i| first + i as f32 / 2.0).collect();
    [("x".into(), Tensor::f32(&[count as i64, 4], &values))]
}

#[test]
fn results_are_those_of_this_process() {
    let folder = places::temporary();
    let plugins = || vec![c_plugin_of_today(folder.path(), "cmatmul", &[]), places::plugin("json")];
    let path = places::write(folder.path(), "model.onnx", model().finish());
    let artifact = folder.path().join("model.byoc");
    for backends in [&["cmatmul", "json"][..], &["json"]] {
        let (here, apart) = (engine::from_files(plugins()), isolated(plugins()));
        let report = engine::compile(&path, &artifact, &apart, backends).expect("compiled");
        let is_taken = |row: &NodeRow| row.taken.as_ref().is_some_and(|(_, backend)| backend == backends[0]);
        assert!(report.nodes.iter().any(is_taken), "{backends:?}");
        let mut here = engine::load(&artifact, &here, 1).expect("loaded");
        let mut apart = engine::load(&artifact, &apart, 1).expect("loaded");
        // Fewer rows, none, and more than there was memory for.
        for count in [3, 1, 0, 500] {
            let inputs = rows(count, -1.0);
            let found = engine::run(&mut apart, &inputs).expect("it runs");
            assert_eq!(found, engine::run(&mut here, &inputs).expect("it runs"), "{backends:?}: {count}");
        }
    }
}

/// `run` fails the way that `error` says, and afterwards the session runs on.
fn fails_once(session: &mut Session, error: &str) {
    let right = engine::run(session, &rows(2, 0.0)).expect("it runs");
    for _ in 0..2 {
        let failed = engine::run(session, &rows(2, 100.0)).expect_err("it fails");
        assert_eq!((failed.code, failed.message.as_str()), (Code::BackendCrashed, error));
        assert_eq!(engine::run(session, &rows(2, 0.0)).expect("it runs"), right);
    }
}

#[test]
fn a_crash_is_an_error_of_one_run() {
    let folder = places::temporary();
    for (code, how) in [
        ("*(volatile int *)0 = 1;", "crashed (signal 11)"),
        ("abort();", "crashed (signal 6)"),
        ("exit(7);", "ended its process (exit code 7)"),
    ] {
        let change = format!("if (sum > 100) {code} y[row * sizes->columns + column] = sum;");
        let plugin = c_plugin_of_today(folder.path(), "cmatmul", &[("plugin.c", WRITE, &change)]);
        let registry = isolated(vec![plugin]);
        let path = places::write(folder.path(), "model.onnx", model().finish());
        let artifact = folder.path().join("model.byoc");
        engine::compile(&path, &artifact, &registry, &["cmatmul", "json"]).expect("compiled");
        let mut session = engine::load(&artifact, &registry, 1).expect("loaded");
        fails_once(&mut session, &format!("region byoc_main_cmatmul_0 of the backend 'cmatmul' {how} while it ran"));
    }
}

#[test]
fn the_program_tells_who_it_was() {
    let cases = [
        (WRITE, "*(volatile int *)0 = 1;", "crashed (signal 11) while it ran"),
        (WRITE, "for (;;);", "did not answer within 2 s while it ran"),
        (
            WRITE,
            "if (!malloc((size_t)1 << 31)) abort(); y[row * sizes->columns + column] = sum;",
            "crashed (signal 6, with 1024 MiB of memory) while it ran",
        ),
        (LOAD, "abort();", "crashed (signal 6, with 1024 MiB of memory) while it was loaded"),
    ];
    for (old, new, how) in cases {
        let folder = Folder::empty();
        folder.write("model.onnx", small().finish());
        let plugin = c_plugin_of_today(folder.path(), "cmatmul", &[("plugin.c", old, new)]);
        let plugin = ["--plugin", plugin.to_str().expect("plain"), "--plugin-timeout", "2", "--plugin-memory", "1024"];
        let compile = ["compile", "model.onnx", "-o", "m.byoc", "--backend", "cmatmul,cpu"];
        folder.byoc(&[&compile[..], &plugin[..2]].concat()).success();
        let hint = match how.starts_with("did not answer") {
            true => {
                "Report this to the backend's maker, or allow more with --plugin-timeout; each sign of life begins it anew"
            }
            false => "Report this to the backend's maker; leave it out of --backend to compile without it",
        };
        let error = format!("error: [B307] region byoc_main_cmatmul_0 of the backend 'cmatmul' {how}\n  hint: {hint}");
        for verb in [
            &["run", "m.byoc", "--fill", "ones", "--isolate"][..],
            &["verify", "m.byoc", "--model", "model.onnx", "--isolate"],
        ] {
            let outcome = folder.byoc(&[verb, &plugin].concat());
            assert_eq!((outcome.code, outcome.stderr.trim_end()), (Some(5), error.as_str()), "{new}: {verb:?}");
        }
    }
}

#[test]
fn steps_are_told_from_there() {
    let folder = Folder::empty();
    folder.write("model.onnx", model().finish());
    let plugin = places::plugin("json");
    let plugin = ["--plugin", plugin.to_str().expect("plain")];
    folder.byoc(&[&["compile", "model.onnx", "-o", "m.byoc", "--backend", "json"][..], &plugin].concat()).success();
    let run = ["run", "m.byoc", "--fill", "ones", "--dim", "batch=2", "--profile", "--json"];
    let steps = |more: &[&str]| {
        let told = folder.byoc(&[&run[..], &plugin, more].concat());
        let report: Value = serde_json::from_str(&told.stdout).unwrap_or_else(|_| panic!("{told:?}"));
        let steps = report["regions"][0]["steps"].as_array().map(Vec::len);
        steps.unwrap_or_else(|| panic!("{report}"))
    };
    let here = steps(&[]);
    assert!(here > 1, "{here} steps");
    assert_eq!(steps(&["--isolate"]), here);
}

#[test]
fn what_cannot_run_there_says_so() {
    let texts = Model::default().input("x", Type::String, &[2]).node("StringConcat", &["x", "x"], &["y"]).output(
        "y",
        Type::String,
        &[2],
    );
    let sized = Model::default().input("x", Type::Float, &[4]).node("NonZero", &["x"], &["y"]).output(
        "y",
        Type::Int64,
        &[1, -1],
    );
    let cases = [
        (texts, "backend 'json' cannot load region byoc_main_json_0: regions with texts run in this process only"),
        (
            sized,
            "region byoc_main_json_0 failed on backend 'json': regions that tell the sizes of outputs run in this process only",
        ),
    ];
    let folder = Folder::empty();
    let json = places::plugin("json");
    let flags = ["--fill", "zeros", "--backend", "json", "--isolate", "--plugin", json.to_str().expect("plain")];
    for (model, error) in cases {
        folder.write("model.onnx", model.finish());
        let outcome = folder.byoc(&[&["run", "model.onnx"][..], &flags].concat());
        let error = format!("error: [B703] {error}\n  hint: Leave out --isolate");
        assert_eq!((outcome.code, outcome.stderr.trim_end()), (Some(1), error.as_str()));
    }
}

/// What a region tells is the same from there, and counts as a sign of life.
#[test]
fn what_is_told_in_a_run() {
    // Together longer than may be without a sign of life, and each by far shorter.
    let told = "byoc_log(byoc_events(told), \"a row\"); for (int n = 0; n < 16; n++) { usleep(150000); \
                byoc_progress(byoc_events(told), 1, 2, \"the next\"); }";
    let change = format!("if (!column && !row) {{ {told} }} {WRITE}");
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let includes =
        ("plugin.c", "#include <stdlib.h>", "#define _DEFAULT_SOURCE\n#include <stdlib.h>\n#include <unistd.h>");
    let plugin = c_plugin_of_today(folder.path(), "cmatmul", &[includes, ("plugin.c", WRITE, &change)]);
    let plugin = ["--plugin", plugin.to_str().expect("plain")];
    let compile = ["compile", "model.onnx", "-o", "m.byoc", "--backend", "cmatmul,cpu"];
    folder.byoc(&[&compile[..], &plugin].concat()).success();
    let about = "region byoc_main_cmatmul_0 of the backend 'cmatmul'";
    for more in [&[][..], &["--isolate", "--plugin-timeout", "2"]] {
        let run = [&["run", "m.byoc", "--fill", "ones"][..], &plugin, more].concat();
        let ran = folder.byoc(&[&run[..], &["--json"]].concat());
        let report: Value = serde_json::from_str(ran.success()).expect("JSON");
        let lines = report["log"].as_array().expect("a list");
        assert_eq!(lines[0], json!({ "about": about, "text": "the matrix is bound" }), "{more:?}");
        assert_eq!(lines.len(), 2, "{report}");
        assert!(lines[1..].iter().all(|line| *line == json!({ "about": about, "text": "a row" })), "{report}");
        let ran = folder.byoc(&[&run[..], &["--verbose"]].concat());
        for line in ["the matrix is bound", "a row", "1 of 2: the next"] {
            assert!(ran.stderr.contains(&format!("{about}: {line}\n")), "{}", ran.stderr);
        }
    }
}

/// Sessions of several threads share the worker; one that ends it does no harm to the others.
#[test]
fn one_thread_ends_the_worker_of_others() {
    let folder = places::temporary();
    let change = format!("if (sum > 100) abort(); {WRITE}");
    let plugin = c_plugin_of_today(folder.path(), "cmatmul", &[("plugin.c", WRITE, &change)]);
    let registry = isolated(vec![plugin]);
    let path = places::write(folder.path(), "model.onnx", model().finish());
    let artifact = folder.path().join("model.byoc");
    engine::compile(&path, &artifact, &registry, &["cmatmul", "json"]).expect("compiled");
    let (artifact, registry) = (&artifact, &registry);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let mut session = engine::load(artifact, registry, 1).expect("loaded");
                let right = engine::run(&mut session, &rows(2, 0.0));
                for _ in 0..20 {
                    if thread == 0 {
                        let failed = engine::run(&mut session, &rows(2, 100.0)).expect_err("it fails");
                        assert_eq!(failed.code, Code::BackendCrashed, "{failed}");
                        continue;
                    }
                    match (engine::run(&mut session, &rows(2, 0.0)), &right) {
                        (Ok(found), Ok(right)) => assert_eq!(found, *right),
                        // The worker was ended each time between loading and running.
                        (Err(error), _) => assert_eq!(error.code, Code::BackendCrashed, "{error}"),
                        (Ok(_), Err(_)) => {}
                    }
                }
            });
        }
    });
}
