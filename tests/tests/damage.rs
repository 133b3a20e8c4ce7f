//! Artifacts that are damaged, and compiles that cannot end: damage is found and named, and no half-written file is left.

use std::process::{Command, Stdio};
use std::time::Duration;

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
    let cases: [(Vec<u8>, String); 6] = [
        (Vec::new(), damaged("0 bytes are too few for a header")),
        (
            b"no artifact at all, but long enough".to_vec(),
            damaged("its header claims 7379557499027877742 bytes, more than the 100000000 that the format allows"),
        ),
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
        .fails(1, "error: [B601] cannot open 'model.onnx.byoc': No such file or directory (os error 2)");
}

/// A limit on the size of files stands in for a full disk: writing fails in the same place, with another reason.
#[test]
fn a_full_disk_leaves_nothing() {
    let folder = Folder::empty();
    let wide = 64 * 1024;
    let model = Model::default()
        .input("x", Type::Float, &[1, wide])
        .weight("w", &[1, wide], &(0..wide).map(|i| i as f32).collect::<Vec<_>>())
        .node("Mul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, wide]);
    folder.write("model.onnx", model.finish());
    let old = folder.write("model.byoc", "old");
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" compile model.onnx -o model.byoc";
    let mut command = Command::new("sh");
    isolate(&mut command).args(["-c", script]).arg(program::path()).current_dir(folder.path());
    outcome(&mut command).fails(
        1,
        "error: [B601] cannot write 'model.byoc': File too large (os error 27)\n  hint: Make room on that disk, or write the \
         output to another one",
    );
    assert_eq!(places::list(folder.path()), ["model.byoc", "model.onnx"]);
    assert_eq!(places::read(&old), b"old");
    folder.byoc(&["compile", "model.onnx", "-o", "/nonexistent/model.byoc"]).fails(
        1,
        "error: [B601] cannot create a temporary file in '/nonexistent': No such file or directory (os error 2)",
    );
    folder
        .byoc(&["compile", "model.onnx", "-o", "/dev/null"])
        .fails(1, "error: [B601] cannot write '/dev/null': it is no regular file");
}

/// Killed at many points, a compile leaves the whole file or none: no part of one, no temporary file.
#[test]
fn a_killed_compile_leaves_the_whole_file_or_none() {
    let folder = Folder::empty();
    let wide = 4 * 1024 * 1024;
    let model = Model::default()
        .input("x", Type::Float, &[1, wide])
        .weight("w", &[1, wide], &(0..wide).map(|i| i as f32).collect::<Vec<_>>())
        .node("Mul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, wide]);
    folder.write("model.onnx", model.finish());
    let (mut killed, mut delay) = (0, Duration::ZERO);
    loop {
        let mut command = byoc(&["compile", "model.onnx", "-o", "model.byoc"]);
        let mut child = command.current_dir(folder.path()).stdout(Stdio::null()).spawn().expect("the program starts");
        std::thread::sleep(delay);
        child.kill().expect("the child is ours");
        let finished = child.wait().expect("the child is ours").success();
        let found = places::list(folder.path());
        if found != ["model.onnx"] {
            assert_eq!(found, ["model.byoc", "model.onnx"]);
            folder.byoc(&["check", "model.byoc"]).success();
            std::fs::remove_file(folder.path().join("model.byoc")).expect("the file can be removed");
        }
        if finished {
            break;
        }
        killed += 1;
        delay += Duration::from_millis(3);
    }
    assert!(killed > 3, "only {killed} compiles were killed");
}
