//! The suite on stand-ins for CUDA's libraries: it passes on right ones, and finds what is wrong with others. It is
//! started as its user starts it, and of what it measures nothing is looked at.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use byoc_nvidia_standins::{both, compile, shield, temporary, with_cutlass};
use tempfile::TempDir;

/// Its line at the beginning.
const NO_GPU: &str = "'stand-in 0' is not a GPU: it computes on the CPU, and its times and sizes say nothing of one";

/// The plugin with a backend, which cargo builds for this test and puts where it puts the test.
fn plugin(backend: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the running program has a path");
    let path = program.with_file_name(format!("libbyoc_{backend}.so"));
    assert!(path.is_file(), "there is no {}; is it among the dev-dependencies?", path.display());
    path
}

/// The suite with these libraries only, in the order of the folders.
fn suite(libraries: &[&Path], scratch: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_byoc-gpu-suite"));
    for name in ["CUDA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX"] {
        command.env_remove(name);
    }
    // An environment whose Python comes first in PATH would be searched, too.
    command.env("PATH", "/usr/bin:/bin");
    let folders = std::env::join_paths(libraries).expect("folders have plain names");
    command.env("BYOC_CUDA_PATH", folders).env("LD_LIBRARY_PATH", shield(scratch)).env("TMPDIR", scratch);
    command.args(["--quick", "--plugin"]).arg(plugin("cublas"));
    command
}

fn text(output: &Output) -> String {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// What the parts print when nothing is wrong; the temporary folder is empty again.
#[track_caller]
fn passes(parts: &[&str]) -> String {
    let scratch = temporary();
    let command = suite(&[both()], scratch.path());
    passed(command, parts, &scratch)
}

/// The same, with the plugins that generate kernels, which run on the host.
#[track_caller]
fn generated_passes(parts: &[&str]) -> String {
    let scratch = temporary();
    let mut command = suite(&[with_cutlass()], scratch.path());
    for backend in ["cutlass", "cuda"] {
        command.arg("--plugin").arg(plugin(backend));
    }
    command.env("STANDIN_CAPABILITY", "80").env("BYOC_CACHE_DIR", scratch.path().join("shield"));
    passed(command, parts, &scratch)
}

#[track_caller]
fn passed(mut command: Command, parts: &[&str], scratch: &TempDir) -> String {
    command.args(parts.iter().flat_map(|part| ["--only", *part]));
    let output = command.output().expect("the suite starts");
    let text = text(&output);
    assert!(output.status.success() && !text.contains("FAIL"), "{}\n{text}", output.status);
    assert!(text.contains(NO_GPU) && text.ends_with(" checks, 0 failed\n"), "{text}");
    let left: Vec<_> = std::fs::read_dir(scratch.path()).expect("the folder is ours").flatten().collect();
    assert_eq!(left.len(), 1, "beside the shield there is {left:?}");
    text
}

#[test]
fn results_and_replays_are_right() {
    let text = passes(&["environment", "correctness", "replay"]);
    assert!(text.contains("ok    device                             cuda:0: stand-in 0, compute capability 9.0"));
    assert!(checks(&text) > 80, "{text}");
}

/// How many checks were done, beside those of the machine, whose parts come first.
fn checks(text: &str) -> usize {
    let (_, parts) = text.split_once("\n\n").expect("a part begins with an empty line");
    parts.lines().filter(|line| line.starts_with("ok ")).count()
}

#[test]
fn generated_kernels_are_right() {
    let text = generated_passes(&["kernels", "probes"]);
    assert!(text.contains("ok    compiled convolution tf32"), "{text}");
    assert!(text.contains("ok    a product by mma                   64 x 64 x 16, "), "{text}");
    assert_eq!(checks(&text), 33, "{text}");
}

/// What has no tensor cores here: all tiles of `mma`, and attention.
#[test]
fn tiles_and_attention_are_right() {
    let text = generated_passes(&["tiles", "attention"]);
    assert!(text.contains("ok    16x128x64_4 mma f16 edges"), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("ok    attention, masks 1, f16 2/2 heads of 32/32, 50 x 77")),
        "{text}"
    );
}

#[test]
fn whole_models_stay_on_the_device() {
    let text = generated_passes(&["times"]);
    assert!(text.contains("ok    cutlass f16 48^3 bias gelu, replayed"), "{text}");
    assert!(text.contains("ok    tiny f16, sequence of 6, batch 3"), "{text}");
}

#[test]
fn memory_and_errors_are_as_said() {
    let text = passes(&["memory", "errors"]);
    assert!(text.contains("ok    10000 runs leave nothing"), "{text}");
}

#[test]
fn times_are_marked_as_no_gpus() {
    let text = passes(&["times"]);
    let tables: Vec<_> = text.lines().filter(|line| line.starts_with("### ")).collect();
    assert!(tables.len() == 3 && tables.iter().all(|title| title.ends_with(", stand-in 0 (NO GPU)")), "{tables:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let scratch = temporary();
    let run = |seed: &str| {
        let mut command = suite(&[both()], scratch.path());
        let output = command.args(["--only", "correctness", "--json", "--seed", seed]).output().expect("it starts");
        let text = String::from_utf8(output.stdout).expect("JSON is text");
        // Checks end in any order, and notes have times.
        let mut lines: Vec<_> = text.lines().filter(|line| !line.contains("\"note\"")).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let (first, again, other) = (run("1"), run("1"), run("2"));
    let has = |line: &str| first.iter().any(|found| found == line);
    assert!(has(r#"{"figure":"seed","value":1}"#) && has(r#"{"figure":"stand_in","value":true}"#), "{first:?}");
    assert_eq!(first, again);
    assert_ne!(first, other.iter().map(|line| line.replace("\"value\":2", "\"value\":1")).collect::<Vec<_>>());
}

/// Whatever goes wrong with one check is a line of it, and the others are done.
#[track_caller]
fn is_one_line(library: (&str, &str), change: (&str, &str), arguments: &[&str], expected: &str) {
    let (folder, scratch) = (temporary(), temporary());
    changed(folder.path(), library.0, library.1, change);
    let mut command = suite(&[folder.path(), both()], scratch.path());
    // Of a seed whose matrices have many elements: rounding of a single one would tell another factor.
    let output = command.args(["--only", "correctness", "--case", "two inputs f", "--seed", "1"]).args(arguments);
    let output = output.output().expect("the suite starts");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lines: Vec<_> = text.lines().filter(|line| line.contains(" two inputs f")).collect();
    let failed: Vec<_> = lines.iter().filter(|line| line.starts_with("FAIL ")).collect();
    assert!(lines.len() == 3 && failed.len() == 1, "{text}");
    assert!(failed.iter().all(|line| line.contains(expected)), "{expected} is not in {failed:?}");
}

/// Where in the stand-in for cublasLt a product of f16 is computed.
const OF_F16: (&str, &str) = ("sum *= p->alpha;", "if (b->type == 2) { BREAK; } sum *= p->alpha;");

#[test]
fn a_check_that_hangs_is_ended() {
    let change = OF_F16.1.replace("BREAK", "for (;;) {}");
    is_one_line(CUBLASLT, (OF_F16.0, &change), &["--limit", "5"], "was not done after 5 s");
}

#[test]
fn a_check_that_crashes_is_one_line() {
    let change = OF_F16.1.replace("BREAK", "*(volatile int *)0 = 1");
    is_one_line(CUBLASLT, (OF_F16.0, &change), &[], "signal: 11 (SIGSEGV)");
}

#[test]
fn a_wrong_result_is_described() {
    let change = OF_F16.1.replace("BREAK", "sum *= 2");
    is_one_line(CUBLASLT, (OF_F16.0, &change), &[], "; found / expected is 2.");
}

#[test]
fn a_name_that_no_check_has_is_an_error() {
    let scratch = temporary();
    let output = suite(&[both()], scratch.path()).args(["--only", "replay", "--case", "speed"]).output();
    let output = output.expect("the suite starts");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let expected = "\nFAIL  suite                              no check has 'speed' in its name; --list names them\n";
    assert!(text.contains(expected), "{text}");
}

/// A driver that has the function that tells the sizes of parameters, and says nothing by it, is no damage of the code.
#[test]
fn a_driver_that_tells_no_sizes_of_parameters_loads_kernels() {
    let (folder, scratch) = (temporary(), temporary());
    let told = "if (!function->kernel || position >= function->kernel->parameters) return INVALID_VALUE;";
    changed(folder.path(), DRIVER.0, DRIVER.1, (told, "if (position < 1000) return 801;"));
    let mut command = suite(&[folder.path(), with_cutlass()], scratch.path());
    command.arg("--plugin").arg(plugin("cutlass"));
    command.env("STANDIN_CAPABILITY", "80").env("BYOC_CACHE_DIR", scratch.path().join("shield"));
    let output = command.args(["--only", "probes", "--case", "a launch"]).output().expect("the suite starts");
    assert!(output.status.success() && text(&output).contains("ok    a launch"), "{}", text(&output));
}

/// Parts that do not need it are done without cublasLt; those that do say once what is missing.
#[test]
fn without_cublaslt_the_rest_goes_on() {
    let (scratch, driver) = (temporary(), temporary());
    std::fs::copy(both().join("libcuda.so.1"), driver.path().join("libcuda.so.1")).expect("the folder is ours");
    let mut command = suite(&[driver.path()], scratch.path());
    let output = command.args(["--only", "replay", "--only", "errors", "--only", "probes", "--list"]).output();
    assert!(text(&output.expect("the suite starts")).contains("\n      recorded and queued: same bits\n"));
    let mut command = suite(&[driver.path()], scratch.path());
    let output = command.args(["--only", "replay", "--only", "correctness"]).output().expect("the suite starts");
    let text = text(&output);
    let failed: Vec<_> = text.lines().filter(|line| line.starts_with("FAIL ")).collect();
    assert!(failed.len() == 2 && failed.iter().all(|line| line.contains("there is no libcublasLt.so.13")), "{text}");
    assert!(failed[0].contains("pip install"), "{text}");
}

/// The sources of a stand-in with a text in one of them replaced, built.
fn changed(folder: &Path, source: &str, file: &str, (from, to): (&str, &str)) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../backends/nvidia/standins").join(source);
    let copies = folder.join(source);
    std::fs::create_dir(&copies).expect("the folder is ours");
    let (mut files, mut found) = (Vec::new(), 0);
    for entry in std::fs::read_dir(sources).expect("the stand-in is in the checkout").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("sources are text");
        found += text.matches(from).count();
        let copy = copies.join(entry.file_name());
        std::fs::write(&copy, text.replace(from, to)).expect("the folder is ours");
        files.extend(Some(copy).filter(|copy| copy.extension() == Some("c".as_ref())));
    }
    assert_eq!(found, 1, "{from}");
    compile(&files, &folder.join(file), &[]);
}

/// The part finds what is wrong with a library: a line of a failed check with this text.
#[track_caller]
fn finds(part: &str, library: (&str, &str), change: (&str, &str), expected: &str) {
    let (folder, scratch) = (temporary(), temporary());
    changed(folder.path(), library.0, library.1, change);
    let output = suite(&[folder.path(), both()], scratch.path()).args(["--only", part]).output();
    let output = output.expect("the suite starts");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.lines().any(|line| line.starts_with("FAIL ") && line.contains(expected)), "{text}");
}

const DRIVER: (&str, &str) = ("libcuda", "libcuda.so.1");
const CUBLASLT: (&str, &str) = ("libcublasLt", "libcublasLt.so.13");

#[test]
fn elements_that_are_not_written_are_found() {
    let row = "row < (int64_t)d->rows; row++";
    finds("correctness", CUBLASLT, (row, "row < (int64_t)d->rows - (d->rows > 2); row++"), " NaN");
}

#[test]
fn wrong_sums_are_found() {
    finds("correctness", CUBLASLT, ("sum *= p->alpha;", "sum *= p->alpha * 1.02;"), "times what is allowed");
}

#[test]
fn replays_that_do_nothing_are_found() {
    let replay = "for (const struct job *job = executable->first; job; job = job->next) run(job);";
    finds("replay", DRIVER, (replay, ""), "recorded and queued: same bits");
}

#[test]
fn memory_that_is_not_given_back_is_found() {
    let released = "found->context->used -= found->bytes;";
    finds("memory", DRIVER, (released, "found->context->used -= found->bytes / 2;"), "200 loads leave nothing");
}

#[test]
fn memory_that_nobody_told_of_is_found() {
    let used = "else current->used += bytes;";
    finds("memory", DRIVER, (used, "else current->used += 2 * bytes;"), "weights once + arena, by the driver");
}

#[test]
fn timed_replays_that_do_nothing_are_found() {
    let replay = "for (const struct job *job = executable->first; job; job = job->next) run(job);";
    finds("times", DRIVER, (replay, ""), "f16 24^3, replayed");
}

#[test]
fn runs_that_are_not_recorded_are_found() {
    let begin = ("stream->capture = new_graph();", "return ILLEGAL_STATE;");
    finds("memory", DRIVER, begin, "two artifacts at once");
}

/// A stand-in for the memory checker: runs the program, and says what it is told to. What the suite says of one check.
fn checked(summary: &str, status: i32) -> Output {
    use std::os::unix::fs::PermissionsExt;
    let scratch = temporary();
    let checker = scratch.path().join("shield/compute-sanitizer");
    shield(scratch.path());
    let program = "#!/bin/sh\nshift 6\n\"$@\" || exit 1\n";
    let program = format!("{program}echo '========= ERROR SUMMARY: {summary}'\nexit {status}\n");
    std::fs::write(&checker, program).expect("the folder is ours");
    std::fs::set_permissions(&checker, std::fs::Permissions::from_mode(0o755)).expect("the file is ours");
    let mut command = suite(&[both()], scratch.path());
    let path = [scratch.path().join("shield"), "/usr/bin".into(), "/bin".into()];
    command.env("PATH", std::env::join_paths(path).expect("plain names"));
    command.args(["--only", "checker", "--case", "memcheck of correctness"]).output().expect("the suite starts")
}

#[test]
fn the_memory_checkers_verdict_is_told() {
    const NAME: &str = "memcheck of correctness: residual and bias f16";
    let clean = checked("0 errors", 0);
    assert!(clean.status.success(), "{}", text(&clean));
    let line = format!("ok    {NAME} memcheck: ERROR SUMMARY: 0 errors");
    assert!(text(&clean).contains(&line), "{}", text(&clean));
    let found = checked("3 errors", 86);
    assert_eq!(found.status.code(), Some(1), "{}", text(&found));
    let line = format!("FAIL  {NAME} ERROR SUMMARY: 3 errors; exit status: 86");
    assert!(text(&found).contains(&line), "{}", text(&found));
}

/// What the checkers look at are checks that there are.
#[test]
fn what_is_checked_has_a_name() {
    let (scratch, mut command) = (temporary(), Command::new(env!("CARGO_BIN_EXE_byoc-gpu-suite")));
    command.env("TMPDIR", scratch.path());
    for backend in ["cublas", "cutlass", "cuda"] {
        command.arg("--plugin").arg(plugin(backend));
    }
    let output = command.args(["--only", "checker", "--list"]).output().expect("the suite starts");
    assert!(output.status.success(), "{}", text(&output));
}

#[test]
fn a_machine_without_a_driver_is_one_failed_line() {
    let scratch = temporary();
    let output = suite(&[], scratch.path()).output().expect("the suite starts");
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("\nFAIL  plugin and device                  there is no libcuda.so.1 in "), "{text}");
    assert!(text.ends_with("1 checks, 1 failed\n"), "{text}");
}
