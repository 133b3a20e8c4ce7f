//! A disk without room, under every verb that writes: one error that names the file, and no part of it is left. A limit on
//! the size of files stands in for the disk: writing fails in the same place, with another reason.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, scale, small};
use byoc_tests::program::{Outcome, byoc, isolate, outcome};
use byoc_tests::{places, program};

/// Runs the program in the folder where no file may have a byte.
fn without_room(folder: &Folder, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("sh");
    isolate(&mut command).args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(program::path());
    command.args(arguments).env("TMPDIR", folder.path().join("tmp")).env("BYOC_CACHE_DIR", "");
    outcome(command.current_dir(folder.path()))
}

/// A folder with `model.onnx`, `model.byoc`, `other.onnx` with other weights, and `tmp`.
fn folder() -> Folder {
    let folder = Folder::compiled(scale());
    let other = Model::default().input("x", Type::Float, &[1, 512]).weight("w", &[1, 512], &[3.0; 512]);
    let other = other.node("Mul", &["x", "w"], &["y"]).output("y", Type::Float, &[1, 512]);
    folder.write("other.onnx", other.finish());
    std::fs::create_dir(folder.path().join("tmp")).expect("the folder is ours");
    folder
}

const FULL: &str = "File too large (os error 27)";

const OUTPUT: &str = "hint: Make room on that disk, or write the output to another one";

const TEMPORARY: &str = "hint: Make room on that disk, or name a folder on another one in TMPDIR";

#[test]
fn no_verb_leaves_a_part_of_a_file() {
    let folder = folder();
    let plugin = places::plugin("simdev");
    let plugin = plugin.to_str().expect("a plain path");
    folder.write("simdev.onnx", small().finish());
    folder
        .byoc(&["compile", "simdev.onnx", "-o", "simdev.byoc", "--backend", "simdev,json", "--plugin", plugin])
        .success();
    let tune = ["tune", "simdev.byoc", "--device", "sim:0", "--in-process", "--plugin", plugin, "-o", "out"];
    folder.byoc(&["merge", "a=model.byoc", "b=model.byoc", "-o", "variants.byoc"]).success();
    let commands: [&[&str]; 6] = [
        &["merge", "variants.byoc", "c=model.byoc", "-o", "out"],
        &["extract", "variants.byoc", "--variant", "b", "-o", "out"],
        &["run", "model.byoc", "--fill", "ones", "-o", "out"],
        &["swap", "model.byoc", "--from", "other.onnx", "-o", "out"],
        &["repro", "model.onnx", "--region", "byoc_main_json_0", "-o", "out"],
        &tune,
    ];
    let before = places::list(folder.path());
    for command in commands {
        let error = format!("error: [B601] cannot write 'out': {FULL}\n  {OUTPUT}");
        without_room(&folder, command).fails(1, &error);
        assert_eq!(places::list(folder.path()), before, "{command:?}");
        let old = folder.write("out", b"\x01old");
        without_room(&folder, command).fails(1, &error);
        assert_eq!(places::read(&old), b"\x01old", "{command:?}");
        std::fs::remove_file(old).expect("it is ours");
    }
    let fails = |command: &[&str], file: &str, left: &[&str]| {
        without_room(&folder, command).fails(1, &format!("error: [B601] cannot write '{file}': {FULL}\n  {OUTPUT}"));
        let expected = before.iter().map(String::as_str).chain(left.iter().copied());
        let mut expected: Vec<_> = expected.collect();
        expected.sort_unstable();
        assert_eq!(places::list(folder.path()), expected, "{command:?}");
        for left in left {
            assert!(places::list(&folder.path().join(left)).is_empty(), "{left}");
            std::fs::remove_dir(folder.path().join(left)).expect("it is ours");
        }
    };
    fails(&["compile", "model.onnx", "-o", "out", "--dump-ir", "dump"], "dump/1-onnx.txt", &["dump"]);
    fails(&["plugin", "new", "acme", "--lang", "c"], "byoc-acme/Makefile", &[]);
    fails(&["plugin", "new", "acme", "--lang", "c", "--dir", "new/acme"], "new/acme/Makefile", &["new"]);
    fails(&["quickstart"], "byoc-quickstart/model.onnx", &["byoc-quickstart"]);
    assert!(places::list(&folder.path().join("tmp")).is_empty());
}

#[test]
fn what_is_extracted_is_whole() {
    let folder = Folder::empty();
    folder.write("model.onnx", scale().finish());
    std::fs::create_dir(folder.path().join("tmp")).expect("the folder is ours");
    let plugin = places::plugin("file_format");
    let plugin = ["--plugin", plugin.to_str().expect("a plain path")];
    folder
        .byoc(&[&["compile", "model.onnx", "-o", "model.byoc", "--backend", "file-format,json"], &plugin[..]].concat());
    let extract =
        ["inspect", "model.byoc", "--region", "byoc_main_file-format_0", "--in-process", "--extract", "out.scale"];
    let found = without_room(&folder, &[&extract[..], &plugin].concat());
    found.fails(1, &format!("error: [B601] cannot write 'out.scale': {FULL}\n  {OUTPUT}"));
    assert_eq!(places::list(folder.path()), ["model.byoc", "model.onnx", "tmp"]);
}

/// Whoever runs a model named no file to write: what is full is the folder for temporary files.
#[test]
fn a_model_that_is_run_needs_room_for_temporary_files() {
    let folder = folder();
    let tmp = folder.path().join("tmp");
    let place = tmp.display();
    for verb in ["run", "bench"] {
        without_room(&folder, &[verb, "model.onnx", "--fill", "ones"]).fails(
            1,
            &format!(
                "error: [B601] cannot keep the code of region byoc_main_json_0 in a temporary file in '{place}': {FULL}\n  {TEMPORARY}"
            ),
        );
    }
    assert!(places::list(&tmp).is_empty());
}

/// Killed at any point, a run of a model leaves nothing in the folder for temporary files.
#[test]
fn a_killed_run_leaves_nothing() {
    const KILLS: u32 = 40;
    let folder = Folder::empty();
    folder.write("model.onnx", small().finish());
    let tmp = folder.path().join("tmp");
    std::fs::create_dir(&tmp).expect("the folder is ours");
    let start = || {
        let mut command = byoc(&["run", "model.onnx", "--fill", "ones"]);
        command.current_dir(folder.path()).env("TMPDIR", &tmp).stdout(Stdio::null()).spawn().expect("it starts")
    };
    // The least of three: the first one may be the first to read the program from the disk.
    let once = |_| {
        let begin = Instant::now();
        assert!(start().wait().expect("it is ours").success());
        begin.elapsed()
    };
    let time = (0..3).map(once).min().expect("three");
    let mut killed = 0;
    for step in 0..KILLS {
        let mut child = start();
        std::thread::sleep(Duration::min(time * step / KILLS, Duration::from_secs(5)));
        child.kill().expect("it is ours");
        killed += u32::from(!child.wait().expect("it is ours").success());
        assert_eq!(places::list(&tmp), Vec::<String>::new());
    }
    assert!(killed > KILLS / 10, "only {killed} runs were killed before they ended");
}
