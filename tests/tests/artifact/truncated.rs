//! Files that another program cuts short while they are in use: one line that names the file, and an exit code of ours.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, external};
use byoc_tests::program::byoc;

/// Elements of the weight: many pages.
const WIDTH: i64 = 1 << 20;

/// KiB of a file that are in memory only once its constants are read: the first touch of an artifact, to read its header, maps up to
/// 2 MiB, as much as is written at once.
const CONSTANTS: u64 = 3 << 10;

/// `y = x * w`.
fn scaled() -> Model {
    Model::default()
        .input("x", Type::Float, &[1, WIDTH])
        .weight("w", &[1, WIDTH], &(0..WIDTH).map(|i| i as f32).collect::<Vec<_>>())
        .node("Mul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, WIDTH])
}

/// `y = x * w` with a weight of that many elements in a file `w.bin`: a one and zeros, which take no blocks on the disk.
fn scaled_from_a_file(folder: &Folder, width: i64) {
    let model = Model::default()
        .input("x", Type::Float, &[1, width])
        .tensor(external("w", &[1, width], "w.bin"))
        .node("Mul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, width]);
    folder.write("model.onnx", model.finish());
    let data = File::create(folder.path().join("w.bin")).expect("a file");
    data.set_len(width as u64 * 4).expect("a sparse file");
    data.write_all_at(&1f32.to_le_bytes(), 0).expect("its first element");
}

/// How much of that file is in the memory of a process: KiB of pages that it has touched, from its list of mappings.
fn touched(process: u32, file: &str) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{process}/smaps")).unwrap_or_default();
    let rest = maps.split_once(file).map_or("", |(_, rest)| rest);
    let resident = rest.lines().find_map(|line| line.strip_prefix("Rss:")?.strip_suffix("kB")?.trim().parse().ok());
    resident.unwrap_or(0)
}

/// Starts the program, and waits until it reads constants of that file: then its length has been looked at, and a cut is one
/// that happens in use.
fn start(folder: &Folder, arguments: &[&str], file: &str) -> Child {
    let mut command = byoc(arguments);
    let command = command.current_dir(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let start = Instant::now();
    while touched(child.id(), file) < CONSTANTS {
        let ended = child.try_wait().expect("the child is ours");
        assert!(ended.is_none() && start.elapsed() < Duration::from_secs(60), "{file} is not read: {ended:?}");
    }
    child
}

/// Leaves the first page of a file.
fn cut(path: &Path) {
    File::options().write(true).open(path).expect("it is there").set_len(4096).expect("it is ours");
}

/// How the program ends once the file that it has mapped is cut.
#[track_caller]
fn ends(folder: &Folder, arguments: &[&str], file: &str) {
    let child = start(folder, arguments, file);
    cut(&folder.path().join(file));
    let output = child.wait_with_output().expect("the child is ours");
    let stderr = String::from_utf8_lossy(&output.stderr);
    let line = stderr.split_once("' was cut short").expect(&stderr);
    assert!(line.0.starts_with("error: [B602] '") && line.0.ends_with(file), "{stderr}");
    let rest = " while it was in use\n  hint: Put the whole file back and try again; where files are replaced, rename the new \
        one into its place\n";
    assert_eq!((output.status.code(), line.1), (Some(1), rest), "{:?}", output.status);
}

#[test]
fn an_artifact_is_cut_while_it_runs() {
    let folder = Folder::compiled(scaled());
    ends(&folder, &["bench", "model.byoc", "--duration", "60", "--threads", "1"], "model.byoc");
    // By threads of a kernel as well.
    let folder = Folder::compiled(scaled());
    ends(&folder, &["bench", "model.byoc", "--duration", "60", "--threads", "2"], "model.byoc");
}

#[test]
fn a_file_of_constants_is_cut_while_it_runs() {
    let folder = Folder::empty();
    scaled_from_a_file(&folder, WIDTH);
    folder.byoc(&["compile", "model.onnx", "-o", "model.byoc", "--external-constants"]).success();
    ends(&folder, &["bench", "model.byoc", "--duration", "60"], "w.bin");
}

#[test]
fn the_data_of_a_model_is_cut_while_it_compiles() {
    let folder = Folder::empty();
    scaled_from_a_file(&folder, WIDTH << 7);
    ends(&folder, &["compile", "model.onnx", "-o", "model.byoc"], "w.bin");
}
