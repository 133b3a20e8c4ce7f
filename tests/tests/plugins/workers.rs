//! Workers as processes: what becomes of them, of what a plugin starts in them, and of those who wait, however either ends.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byoc_tests::c_plugin;
use byoc_tests::fixture::c_plugin_of_today;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::small;
use byoc_tests::places;
use byoc_tests::program::{byoc, outcome};
use serde_json::{Value, json};

const IN_CODEGEN: &str = "    (void)backend, (void)constants, (void)options;\n    if (reason)";
const COMPILE: [&str; 8] =
    ["compile", "model.onnx", "-o", "model.byoc", "--backend", "cmatmul,json", "--plugin", "plugin.so"];

/// What the plugin may call. It tells who is there in files of the name `*.pid`, each complete once it is there.
const PRELUDE: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void tell(const char *name, long pid) {
    FILE *file = fopen("new", "w");
    fprintf(file, "%ld", pid);
    fclose(file);
    rename("new", name);
}
static void wait_for_ever(void) { for (;;) pause(); }
"#;

/// A folder with a model and the plugin, which does `code` in its codegen and has `functions` besides.
fn bench(functions: &str, code: &str) -> Folder {
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let source = c_plugin::matmul();
    assert!(source.contains(IN_CODEGEN), "nothing to change");
    let changed = source.replace(IN_CODEGEN, &format!("    {code}\n{IN_CODEGEN}"));
    c_plugin::build(folder.path(), &format!("{PRELUDE}{functions}{changed}"), false);
    folder
}

/// The process of that name, once it is there.
fn pid(folder: &Path, name: &str) -> u32 {
    let path = folder.join(name);
    assert!(soon(30, || path.exists()), "there is no {name}");
    String::from_utf8(places::read(&path)).expect("text").parse().expect("a number")
}

/// Whether something becomes true within so many seconds.
fn soon(seconds: u64, is_so: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        if is_so() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

/// Whether a process has ended; it may still wait for its parent to hear of it.
fn has_ended(pid: u32) -> bool {
    let Ok(line) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    line.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['Z', 'X']))
}

#[test]
fn no_worker_outlives_a_killed_host() {
    let atexit = "__attribute__((constructor)) static void opened(void) { atexit(wait_for_ever); }";
    let children = r#"{ pid_t child = fork(); if (child == 0) wait_for_ever(); tell("helper.pid", child); }"#;
    for (name, code) in [
        ("it waits", r#"tell("worker.pid", getpid()); wait_for_ever();"#.to_owned()),
        ("it is on its way out", r#"tell("worker.pid", getpid()); exit(0);"#.to_owned()),
        ("it has a helper", format!(r#"{children} tell("worker.pid", getpid()); wait_for_ever();"#)),
    ] {
        let folder = bench(atexit, &code);
        let mut host = byoc(&COMPILE);
        let mut host = host.current_dir(folder.path()).stderr(Stdio::null()).spawn().expect("it starts");
        let worker = pid(folder.path(), "worker.pid");
        assert!(!has_ended(worker), "{name}");
        host.kill().expect("it is killed");
        host.wait().expect("it has ended");
        assert!(soon(1, || has_ended(worker)), "{name}: the worker is still there");
        if code.contains("helper") {
            let helper = pid(folder.path(), "helper.pid");
            assert!(soon(1, || has_ended(helper)), "{name}: the helper is still there");
        }
    }
}

/// A crash is told of at once, and by its own name, whatever the plugin has started before.
#[test]
fn a_crash_is_seen_beside_helpers_that_live_on() {
    let error = "error: [B307] backend 'cmatmul' crashed (signal 6) while generating byoc_main_cmatmul_0; the region, with its \
                 weights, is saved in 'byoc_main_cmatmul_0.repro.onnx'\n  hint: Report this to the backend's maker; \
                 --fallback-on-crash gives the region to the next backend";
    let program = r#"execlp("sleep", "sleep", "20", NULL);"#;
    for (name, helper, stays) in [
        ("another program", program.to_owned(), false),
        ("a fork that holds all that is open", "sleep(20);".to_owned(), false),
        ("another program in a session of its own", format!("setsid(); close(1); close(2); {program}"), true),
        ("a fork in a session of its own", "setsid(); close(1); close(2); sleep(20);".to_owned(), true),
    ] {
        let code = format!(
            r#"{{ pid_t child = fork(); if (child == 0) {{ {helper} }} usleep(200000); tell("helper.pid", child); abort(); }}"#
        );
        let folder = bench("", &code);
        let start = Instant::now();
        folder.byoc(&COMPILE).fails(5, error);
        assert!(start.elapsed() < Duration::from_secs(10), "{name}: {:?}", start.elapsed());
        let helper = pid(folder.path(), "helper.pid");
        assert_eq!(soon(1, || has_ended(helper)), !stays, "{name}");
        if stays {
            outcome(Command::new("kill").args(["-9", &helper.to_string()])).success();
        }
    }
}

#[test]
fn the_standard_input_of_a_plugin_is_empty() {
    let folder = bench("", "{ char byte; if (read(0, &byte, 1) != 0) return byoc_fail(error, \"there is input\"); }");
    folder.byoc(&COMPILE).success();
}

#[test]
fn what_a_backend_logs_is_told() {
    const CODEGEN: &str = "if (byoc_is(method, \"codegen\")) return";
    let logs = CODEGEN.replace(" return", " byoc_log(out, \"a tile of 8\");");
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let plugin =
        c_plugin_of_today(folder.path(), "cmatmul", &[("plugin.c", CODEGEN, &format!("{logs}\n    {CODEGEN}"))]);
    let compile = ["compile", "model.onnx", "-o", "model.byoc", "--backend", "cmatmul,json", "--plugin"];
    let compile = [&compile[..], &[plugin.to_str().expect("a plain path")]].concat();
    let told = folder.byoc(&[&compile[..], &["--json"]].concat());
    let report: Value = serde_json::from_str(told.success()).expect("JSON");
    assert_eq!(report["log"], json!([{ "backend": "cmatmul", "text": "byoc_main_cmatmul_0: a tile of 8" }]));
    let told = folder.byoc(&[&compile[..], &["--verbose"]].concat());
    assert!(told.stderr.contains("cmatmul: byoc_main_cmatmul_0: a tile of 8\n"), "{}", told.stderr);
}
