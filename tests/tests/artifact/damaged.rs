//! Artifacts that are damaged, and compiles that cannot end: damage is found and named, and no half-written file is left.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use byoc_plugin_api::testing::Rng;
use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, small};
use byoc_tests::program::{byoc, isolate, outcome};
use byoc_tests::{places, program};

/// The name of each section of `model.byoc`, and where it starts in the file.
fn sections(folder: &Folder) -> Vec<(String, usize)> {
    let listed = folder.byoc(&["inspect", "model.byoc", "--sections", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(listed.success()).expect("JSON");
    let sections = listed["sections"].as_array().expect("a list").iter();
    let offset = |section: &serde_json::Value| section["offset"].as_u64().expect("an offset") as usize;
    sections.map(|section| (section["name"].as_str().expect("a name").to_owned(), offset(section))).collect()
}

/// A flipped bit in any section is found, and the message names the section.
#[test]
fn damage_is_found_in_every_section() {
    let folder = Folder::compiled(small());
    let whole = places::read(&folder.path().join("model.byoc"));
    let hint = "\n  hint: Copy the file again, or compile the model again";
    let mut kinds = Vec::new();
    for (name, offset) in sections(&folder) {
        kinds.push(name.split('/').next().unwrap_or_default().to_owned());
        let mut damaged = whole.clone();
        damaged[offset] ^= 1;
        folder.write("damaged.byoc", damaged);
        let cause = match name.starts_with("__pad__") {
            true => "padding is not zero",
            false => "its bytes do not have the digest of the header",
        };
        folder
            .byoc(&["inspect", "damaged.byoc", "--verify-digests"])
            .fails(1, &format!("error: [B602] 'damaged.byoc' is damaged: section '{name}': {cause}{hint}"));
    }
    for kind in ["graph", "code", "const", "__pad__"] {
        assert!(kinds.iter().any(|known| known == kind), "no section of kind {kind}: {kinds:?}");
    }
}

/// What each verb makes of a flipped bit in each kind of section: with `--verify-digests`, and with `verify`, none goes unseen.
#[test]
fn flipped_bits_are_found_by_whoever_looks_at_them() {
    let folder = Folder::compiled(small());
    let whole = places::read(&folder.path().join("model.byoc"));
    let hint = "\n  hint: Copy the file again, or compile the model again";
    let run = ["run", "damaged.byoc", "--fill", "ones"];
    let bench = ["bench", "damaged.byoc", "--repeat", "1", "--warmup", "0"];
    let verify = ["verify", "damaged.byoc", "--model", "model.onnx"];
    let by_itself = [&["check", "damaged.byoc"][..], &verify];
    for (name, offset) in sections(&folder) {
        let kind = name.split('/').next().unwrap_or_default();
        let mut damaged = whole.clone();
        // Of a float, this is a high bit of the exponent.
        damaged[offset + 3] ^= 0x40;
        folder.write("damaged.byoc", damaged);
        let cause = match kind {
            "__pad__" => "padding is not zero",
            _ => "its bytes do not have the digest of the header",
        };
        let message = format!("error: [B602] 'damaged.byoc' is damaged: section '{name}': {cause}{hint}");
        let lookers: &[&[&str]] = match kind {
            "graph" => &[&["inspect", "damaged.byoc"], &run, &bench],
            "code" => &[&run, &bench],
            "ledger" => &[&["inspect", "damaged.byoc"]],
            _ => &[],
        };
        for verb in lookers.iter().chain(&by_itself) {
            folder.byoc(verb).fails(1, &message);
        }
        for verb in [&["inspect", "damaged.byoc"][..], &run, &bench, &verify] {
            folder.byoc(&[verb, &["--verify-digests"]].concat()[..]).fails(1, &message);
        }
        let blind: &[&[&str]] = match kind {
            "graph" => &[],
            "code" => &[&["inspect", "damaged.byoc"]],
            "ledger" => &[&run, &bench],
            _ => &[&["inspect", "damaged.byoc"], &run, &bench],
        };
        blind.iter().for_each(|verb| drop(folder.byoc(verb).success().to_owned()));
    }
    // The header and its length.
    for at in [0, 1, 9] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        folder.write("damaged.byoc", damaged);
        for verb in [&["inspect", "damaged.byoc"][..], &run, &bench].iter().chain(&by_itself) {
            let found = folder.byoc(verb);
            assert_eq!(found.code, Some(1), "{}", found.stderr);
            assert!(found.stderr.starts_with("error: [B602] 'damaged.byoc' is damaged: its "), "{}", found.stderr);
        }
    }
}

/// Verbs say how much of the file they have looked at.
#[test]
fn what_was_compared_is_told() {
    let folder = Folder::compiled(small());
    let all = sections(&folder).len();
    let ends = |arguments: &[&str], end: &str| {
        let found = folder.byoc(arguments);
        assert!(found.success().ends_with(end), "{}", found.stdout);
    };
    let plain = format!("checked: the header, the graph and the ledger; --verify-digests reads all {all} sections\n");
    ends(&["inspect", "model.byoc"], &plain);
    ends(&["inspect", "model.byoc", "--verify-digests"], &format!("digests ok: all {all} sections\n"));
    ends(&["check", "model.byoc"], &format!("digests ok: all {all} sections\nthis machine can run it\n"));
    let compared = |arguments: &[&str]| {
        let found: serde_json::Value = serde_json::from_str(folder.byoc(arguments).success()).expect("JSON");
        (found["compared"]["sections"].as_u64(), found["compared"]["of"].as_u64())
    };
    let all = Some(all as u64);
    assert_eq!(compared(&["inspect", "model.byoc", "--json"]), (Some(2), all));
    assert_eq!(compared(&["inspect", "model.byoc", "--json", "--verify-digests"]), (all, all));
    assert_eq!(compared(&["check", "model.byoc", "--json"]), (all, all));
    let message = "error: [B901] 'model.onnx' is a model, so it takes no --verify-digests\n  hint: Leave the flag out, or name \
        the artifact";
    folder.byoc(&["run", "model.onnx", "--fill", "ones", "--verify-digests"]).fails(2, message);
}

/// Damage that makes the file unreadable is found by every verb.
#[test]
fn damaged_artifacts_are_not_run() {
    let folder = Folder::compiled(small());
    let whole = places::read(&folder.path().join("model.byoc"));
    let graph = sections(&folder).into_iter().find(|(name, _)| name == "graph").expect("a graph").1;
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        bytes
    };
    let size = whole.len();
    let first = whole[9];
    assert_eq!(first, b'"', "the header is a JSON object");
    let damaged = |cause: &str| {
        format!("[B602] 'bad.byoc' is damaged: {cause}\n  hint: Copy the file again, or compile the model again")
    };
    let other = |kind: &str, hint: &str| format!("[B602] 'bad.byoc' is not an artifact: it is {kind}\n  hint: {hint}");
    let again = "Copy the file again, or compile the model again";
    let cases: [(Vec<u8>, String); 8] = [
        (Vec::new(), other("empty", again)),
        (whole[..5].to_vec(), damaged("it ends after 5 bytes")),
        (b"no artifact at all, but long enough".to_vec(), other("a text file", again)),
        (vec![0xff; 100], other("of no known kind", "Artifacts are made by 'byoc compile'")),
        (flipped(9), damaged("its header is not valid: key must be a string at line 1 column 2")),
        (flipped(graph), damaged("section 'graph': its bytes do not have the digest of the header")),
        (whole[..size - 1].to_vec(), damaged("{cut}")),
        ([whole.as_slice(), b"x"].concat(), damaged("{grown}")),
    ];
    let data = 8 + u64::from_le_bytes(whole[..8].try_into().expect("eight bytes")) as usize;
    for (bytes, message) in cases {
        let message = message
            .replace("{cut}", &format!("its sections hold {} bytes, and the file has {}", size - data, size - data - 1))
            .replace(
                "{grown}",
                &format!("its sections hold {} bytes, and the file has {}", size - data, size - data + 1),
            );
        folder.write("bad.byoc", bytes);
        for verb in [&["run", "bad.byoc", "--fill", "ones"][..], &["inspect", "bad.byoc"], &["bench", "bad.byoc"]] {
            folder.byoc(verb).fails(1, &format!("error: {message}"));
        }
    }
    folder
        .byoc(&["run", "model.onnx.byoc", "--fill", "ones"])
        .fails(1, "error: [B601] cannot open 'model.onnx.byoc': No such file or directory (os error 2)\n  hint: In its folder there is bad.byoc, model.byoc");
}

/// A limit on the size of files stands in for a full disk: writing fails in the same place, with another reason.
#[test]
fn a_full_disk_leaves_nothing() {
    let folder = Folder::empty();
    folder.write("model.onnx", scaled(64 * 1024).finish());
    let old = folder.write("model.byoc", b"\x01old");
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" compile model.onnx -o model.byoc";
    let mut command = Command::new("sh");
    isolate(&mut command).args(["-c", script]).arg(program::path()).current_dir(folder.path());
    outcome(&mut command).fails(
        1,
        "error: [B601] cannot write 'model.byoc': File too large (os error 27)\n  hint: Make room on that disk, or write the \
         output to another one",
    );
    assert_eq!(places::list(folder.path()), ["model.byoc", "model.onnx"]);
    assert_eq!(places::read(&old), b"\x01old");
    folder.byoc(&["compile", "model.onnx", "-o", "/nonexistent/model.byoc"]).fails(
        1,
        "error: [B601] cannot write '/nonexistent/model.byoc': there is no folder '/nonexistent'\n  hint: Make the folder first, or name \
         another one",
    );
    folder
        .byoc(&["compile", "model.onnx", "-o", "/dev/null"])
        .fails(1, "error: [B601] cannot write '/dev/null': it is not a regular file");
}

/// `y = x * w` with a weight of that many elements, all different.
fn scaled(width: i64) -> Model {
    Model::default()
        .input("x", Type::Float, &[1, width])
        .weight("w", &[1, width], &(0..width).map(|i| i as f32).collect::<Vec<_>>())
        .node("Mul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, width])
}

/// A disk in memory that is really full, where the system lets us mount one: of whatever size it is, the compile ends
/// well, or with the old file still there and nothing beside it.
#[test]
fn a_full_disk_leaves_the_old_file() {
    let folder = Folder::empty();
    // In namespaces of its own a process may mount without being root, and what it mounts goes when it ends.
    let script = "mount -t tmpfs -o size=$1k none disk || exit 77; printf '\\001old' > disk/model.byoc; \
        \"$0\" compile model.onnx -o disk/model.byoc; code=$?; cp disk/model.byoc found; ls -A disk > listed; exit $code";
    let width = 32 * 1024;
    folder.write("model.onnx", scaled(width).finish());
    std::fs::create_dir(folder.path().join("disk")).expect("a folder");
    let on_disk = |kib: u64| {
        let mut command = Command::new("unshare");
        isolate(&mut command).args(["--map-root-user", "--mount", "sh", "-c", script]).arg(program::path());
        let output = command.arg(kib.to_string()).current_dir(folder.path()).output().ok()?;
        Some((output.status.code()?, String::from_utf8(output.stderr).expect("text")))
    };
    let roomy = on_disk(1024);
    if !folder.path().join("listed").exists() {
        // Past the test harness, which keeps what a passing test prints to itself.
        let _ = writeln!(std::io::stderr(), "no disk can be mounted here: only a limit on file sizes was tested");
        return;
    }
    assert_eq!(roomy, Some((0, String::new())));
    let whole = places::read(&folder.path().join("found"));
    assert!(whole.len() as i64 > width * 4);
    let mut full = 0;
    for kib in [4, 8, 32, 64, 128, 132, 136, 140, 144, 160, 256] {
        let (code, stderr) = on_disk(kib).expect("it was mounted before");
        assert_eq!(String::from_utf8(places::read(&folder.path().join("listed"))).expect("text"), "model.byoc\n");
        let found = places::read(&folder.path().join("found"));
        if code == 0 {
            assert!(found == whole, "a disk of {kib} KiB: {} bytes", found.len());
            continue;
        }
        full += 1;
        assert_eq!(found, b"\x01old", "a disk of {kib} KiB");
        let (cause, hint) = stderr.trim_end().split_once('\n').expect("a cause and a hint");
        let causes = [
            "error: [B601] cannot write 'disk/model.byoc': No space left on device (os error 28)",
            "error: [B601] cannot keep the code of region byoc_main_json_0 in a temporary file in 'disk': No space left on \
             device (os error 28)",
        ];
        assert!(causes.contains(&cause), "a disk of {kib} KiB: {cause}");
        assert_eq!(hint, "  hint: Make room on that disk, or write the output to another one");
        assert_eq!(code, 1);
    }
    assert!(full > 4, "only {full} disks were full");
}

/// How many compiles are killed for each case.
const KILLS: usize = 200;

/// A folder with a model and, after a compile, the bytes of the artifact, and the time that takes (the least of three).
fn timed() -> (Folder, Vec<u8>, Duration) {
    let folder = Folder::empty();
    folder.write("model.onnx", scaled(256 * 1024).finish());
    let once = |_| {
        let start = Instant::now();
        folder.byoc(&["compile", "model.onnx", "-o", "model.byoc"]).success();
        start.elapsed()
    };
    let time = (0..3).map(once).min().expect("three");
    let whole = places::read(&folder.path().join("model.byoc"));
    (folder, whole, time)
}

/// Starts a compile and kills it after `delay`.
fn kill_after(folder: &Folder, delay: Duration) {
    let mut command = byoc(&["compile", "model.onnx", "-o", "model.byoc"]);
    let mut child = command.current_dir(folder.path()).stdout(Stdio::null()).spawn().expect("the program starts");
    std::thread::sleep(delay);
    child.kill().expect("the child is ours");
    child.wait().expect("the child is ours");
}

/// Killed at any point, a compile leaves the whole file or none: no part of one, no temporary file.
#[test]
fn a_killed_compile_leaves_the_whole_file_or_none() {
    let (folder, whole, time) = timed();
    let (output, mut random, mut absent) = (folder.path().join("model.byoc"), Rng::with_seed(1), 0);
    for _ in 0..KILLS {
        let _ = std::fs::remove_file(&output);
        kill_after(&folder, time.mul_f64(1.2 * random.f64()));
        if output.exists() {
            assert_eq!(places::list(folder.path()), ["model.byoc", "model.onnx"]);
            assert!(places::read(&output) == whole, "not the whole file");
        } else {
            assert_eq!(places::list(folder.path()), ["model.onnx"]);
            absent += 1;
        }
    }
    assert!(absent > KILLS / 10, "only {absent} compiles were killed before they ended");
}

/// Killed at any point, a compile over an old file leaves the old file or the whole new one. Between the two system calls
/// that put the new one in its place, and only there, it has another name.
#[test]
fn a_killed_compile_leaves_the_old_file_or_the_new_one() {
    let (folder, whole, time) = timed();
    let (output, mut random, mut kept, mut named) = (folder.path().join("model.byoc"), Rng::with_seed(2), 0, 0);
    for _ in 0..KILLS {
        folder.write("model.byoc", b"\x01old");
        kill_after(&folder, time.mul_f64(1.2 * random.f64()));
        let found = places::read(&output);
        assert!(found == b"\x01old" || found == whole, "{} bytes, neither the old file nor the new one", found.len());
        kept += usize::from(found == b"\x01old");
        for other in
            places::list(folder.path()).iter().filter(|name| !["model.byoc", "model.onnx"].contains(&name.as_str()))
        {
            let other = folder.path().join(other);
            assert!(found == b"\x01old" && places::read(&other) == whole, "{} is left", other.display());
            std::fs::remove_file(&other).expect("it is ours");
            named += 1;
        }
    }
    assert!(kept > KILLS / 10, "only {kept} compiles were killed before they ended");
    assert!(named <= KILLS / 25, "{named} compiles were killed between two system calls, which cannot be chance");
}
