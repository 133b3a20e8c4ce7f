//! No output takes the place of a file that is read: for every verb, every path that it reads and every name that the file
//! goes by, the error is exact and every file is as it was.

mod paths;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byoc_tests::folder::Folder;
use byoc_tests::onnx::{Model, Type, external, small};
use byoc_tests::places;
use byoc_tests::program::{Outcome, byoc, outcome};

use self::paths::{DUMP, ROWS, Row};

/// Rows and columns of a weight that is large enough to be referred to.
const SHAPE: [i64; 2] = [64, 32];

/// A folder with a file of every kind that a verb reads.
struct Bench(Folder);

impl Bench {
    fn new() -> Bench {
        let bench = Bench(Folder::compiled(small()));
        let folder = &bench.0;
        for name in ["other.onnx", "region.onnx"] {
            folder.write(name, small().finish());
        }
        let weight = external("w", &SHAPE, "ext.data");
        let model = Model::default().input("x", Type::Float, &[1, SHAPE[0]]).tensor(weight);
        let model = model.node("MatMul", &["x", "w"], &["y"]).output("y", Type::Float, &[1, SHAPE[1]]);
        folder.write("ext.onnx", model.finish());
        let data: Vec<u8> = (0..SHAPE[0] * SHAPE[1]).flat_map(|i| (i as f32).to_le_bytes()).collect();
        folder.write("ext.data", &data);
        let as_they_are = ["--external-constants", "--backend-opt", "cpu.pack=false"];
        folder.byoc(&[&["compile", "ext.onnx", "-o", "ext.byoc"], &as_they_are[..]].concat()).success();
        folder.byoc(&["compile", "other.onnx", "-o", "other.byoc"]).success();
        folder.byoc(&["compile", "model.onnx", "-o", "variants.byoc", "--variant", "cpu=cpu"]).success();
        for name in ["moved", "plugins", "set", "test_data", "cache", "cache/tune"] {
            std::fs::create_dir(folder.path().join(name)).expect("the folder is ours");
        }
        folder.write("moved/ext.data", &data);
        // What stands in these does not matter: nothing of them is looked at where a verb is about to write over them.
        let values = ["in.npz", "x.npy", "picture.png", "test_data/input_0.pb", "labels.txt", "set.npz", "set/a.npy"];
        for name in values.into_iter().chain(["one.so", "plugins/libbyoc_two.so", "allowed"]) {
            folder.write(name, name);
        }
        folder.write("cache/tune/choice", "a choice");
        bench
    }

    fn byoc(&self, arguments: &[&str]) -> Outcome {
        let mut command = byoc(arguments);
        outcome(command.env("BYOC_PLUGIN_ALLOW", "@allowed").env("BYOC_CACHE_DIR", "cache").current_dir(self.path()))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Every file with what is in it.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut open = vec![self.path().to_owned()];
        while let Some(folder) = open.pop() {
            for name in places::list(&folder) {
                let path = folder.join(name);
                if path.is_dir() { open.push(path) } else { drop(files.insert(path.clone(), places::read(&path))) }
            }
        }
        files
    }

    /// Runs a row with that output, which is the input under another name, and asserts the error and that nothing changed.
    #[track_caller]
    fn refuses(&self, row: &Row, output: &str) {
        let arguments = row.arguments.replace("OUT", if row.writes == "--dump-ir" { DUMP.0 } else { output });
        let folder = self.path().canonicalize().expect("it is there");
        let input = row.shown.replace("{folder}", &folder.display().to_string());
        let before = self.files();
        let message = format!("the output '{output}' is the file '{input}', which is read as {}", row.role);
        let expected = format!("error: [B901] {message}\n  hint: Write the output to another file");
        let arguments: Vec<_> = arguments.split(' ').collect();
        let found = self.byoc(&arguments);
        assert_eq!((found.code, found.stderr.trim_end()), (Some(2), expected.as_str()), "{arguments:?}");
        assert_eq!(found.stdout, "", "{arguments:?}");
        assert!(self.files() == before, "{arguments:?} changed files");
    }
}

/// Gives a file another name.
type Link = fn(&Path, &Path) -> std::io::Result<()>;

#[test]
fn no_output_takes_the_place_of_a_file_that_is_read() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path().join(DUMP.0)).expect("the folder is ours");
    let links: [(&str, Link); 2] = [
        ("symlink", |from, to| std::os::unix::fs::symlink(from, to)),
        ("hard link", |from, to| std::fs::hard_link(from, to)),
    ];
    for row in ROWS {
        let input = bench.path().join(row.input);
        let alias = if row.writes == "--dump-ir" { DUMP.1 } else { "alias" };
        if row.writes != "--dump-ir" {
            bench.refuses(row, row.input);
            bench.refuses(row, &format!("./{}", row.input));
            bench.refuses(row, &format!("plugins/../{}", row.input));
        }
        for (kind, link) in links {
            link(&input, &bench.path().join(alias)).unwrap_or_else(|error| panic!("{kind}: {error}"));
            bench.refuses(row, alias);
            std::fs::remove_file(bench.path().join(alias)).expect("it is ours");
        }
    }
}

/// The same files under names of their own are written.
#[test]
fn other_files_are_replaced() {
    let bench = Bench::new();
    let folder = &bench.0;
    // Of no known kind: what is known to be something else stays (`mistakes`).
    folder.write("old", b"\x01old");
    let commands: [&[&str]; 5] = [
        &["compile", "model.onnx", "-o", "old"],
        &["run", "model.byoc", "--fill", "ones", "-o", "old"],
        &["run", "ext.onnx", "--fill", "ones", "-o", "old"],
        &["swap", "model.byoc", "--from", "other.onnx", "-o", "old"],
        &["repro", "model.onnx", "--region", "byoc_main_json_0", "-o", "old"],
    ];
    for command in commands {
        folder.byoc(command).success();
        assert_ne!(places::read(&folder.path().join("old")), b"\x01old", "{command:?}");
        folder.write("old", b"\x01old");
    }
}

#[test]
fn two_outputs_are_two_files() {
    let bench = Bench::new();
    let before = bench.files();
    for output in ["dump/2-passes.txt", "./dump/2-passes.txt"] {
        bench.0.byoc(&["compile", "model.onnx", "--dump-ir", "dump", "-o", output]).fails(
            2,
            &format!(
                "error: [B901] the outputs '{output}' and 'dump/2-passes.txt' are one file\n  hint: Give each its own file"
            ),
        );
    }
    assert!(bench.files() == before, "files changed");
}

/// The tour writes a model, and leaves one of the user's alone.
#[test]
fn the_tour_takes_no_models_place() {
    let folder = Folder::compiled(small());
    let (model, artifact) = (folder.path().join("model.onnx"), folder.path().join("model.byoc"));
    let before = (places::read(&model), places::read(&artifact));
    folder.byoc(&["quickstart", "--dir", "."]).fails(
        2,
        "error: [B901] './model.onnx' is there already, and is not the model of the tour\n  hint: Name another folder with --dir",
    );
    assert!((places::read(&model), places::read(&artifact)) == before, "files changed");
    std::fs::remove_file(&artifact).expect("it is ours");
    std::fs::hard_link(&model, &artifact).expect("links work");
    folder.byoc(&["quickstart", "--dir", "."]).fails(
        2,
        "error: [B901] the outputs './model.onnx' and './model.byoc' are one file\n  hint: Give each its own file",
    );
    assert_eq!(places::read(&model), before.0);
}
