//! Each file under `tests/filetests` is a test: a graph as text, the stage that it is brought to, and the text that comes
//! out. `UPDATE_GOLDEN=1` writes what comes out into the files; `docs/testing.md` tells how a file is written.

mod backend;
mod case;
mod contents;
mod onnx;
mod stages;

use std::path::{Path, PathBuf};

use byoc_tests::golden::golden_file;
use byoc_tests::places;
use byoc_tests::trial::{Trial, trial};

use self::case::Case;

pub(crate) fn trials() -> Vec<Trial> {
    let root = places::checkout().join("tests/filetests");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let trials = files.into_iter().map(|path| {
        let name = path.strip_prefix(&root).expect("below the root").with_extension("");
        trial(name.display().to_string(), move || {
            run(&path);
            Ok(())
        })
    });
    trials.collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}

fn run(path: &Path) {
    let place = path.strip_prefix(places::checkout()).expect("in the checkout").display().to_string();
    let text = String::from_utf8(places::read(path)).expect("UTF-8");
    let case = Case::parse(&text).unwrap_or_else(|cause| panic!("{place}: {cause}"));
    let found = stages::run(&case).unwrap_or_else(|cause| panic!("{place}: {cause}"));
    golden_file(&place, &format!("{}{found}", case.head));
}
