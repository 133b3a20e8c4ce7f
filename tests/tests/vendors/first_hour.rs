//! A vendor's first hour, from an empty folder: `byoc plugin new`, and then every command of `docs/writing-a-backend.md` and of
//! the new project's README, as they are written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use byoc_tests::folder::Folder;
use byoc_tests::markdown::{Block, blocks};
use byoc_tests::onnx::small;
use byoc_tests::program::{self, isolate, outcome};
use byoc_tests::{data, places};
use serde_json::Value;

/// A folder that has nothing but what the documentation says: `byoc`, a clone. The program is on the path.
struct Vendor {
    folder: Folder,
    path: OsString,
}

impl Vendor {
    fn new() -> Vendor {
        let folder = Folder::empty();
        std::os::unix::fs::symlink(places::checkout(), folder.path().join("byoc")).expect("the folder is ours");
        let mut path = vec![program::path().parent().expect("a program lies in a folder").to_owned()];
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        Vendor { folder, path: std::env::join_paths(path).expect("a path") }
    }

    /// Runs commands in one shell, from a folder on; the first that fails ends it.
    #[track_caller]
    fn run(&self, from: &str, commands: &str) -> String {
        let mut shell = Command::new("sh");
        isolate(&mut shell).args(["-ec", commands]).current_dir(self.folder.path().join(from)).env("PATH", &self.path);
        // What the tests themselves were built with is none of the vendor's.
        for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR", "CARGO_BUILD_TARGET", "CFLAGS", "CC"] {
            shell.env_remove(name);
        }
        // The network is not asked for, and unoptimised code is built sooner.
        shell.env("CARGO_NET_OFFLINE", "true").env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        let done = outcome(&mut shell);
        assert_eq!(done.code, Some(0), "{commands}\n{}\n{}", done.stdout, done.stderr);
        done.stdout
    }

    /// The project's folder.
    fn project(&self) -> PathBuf {
        self.folder.path().join("byoc-acme")
    }

    /// Goes the whole way: the documentation's commands for one language, and those of the README that comes with it.
    fn goes_the_whole_way(&self, section: &str, prepare: impl FnOnce()) {
        let page = self.commands(&places::checkout().join("docs/writing-a-backend.md"));
        let commands: Vec<_> = page.iter().filter(|block| block.section == section).map(|block| &*block.text).collect();
        let [new, rest @ ..] = commands.as_slice() else { panic!("no commands in {section}") };
        let printed = self.run(".", new);
        assert!(printed.starts_with("Wrote the backend 'acme' into byoc-acme, "), "{printed}");
        prepare();
        self.run(".", &rest.concat());
        let readme = self.commands(&self.project().join("README.md"));
        let printed = self.run("byoc-acme", &readme.iter().map(|block| &*block.text).collect::<String>());
        assert!(printed.contains("summary  Element-wise Add of f32 tensors"), "{printed}");
        assert!(printed.contains("/plugins/libbyoc_acme.so") && !printed.contains("ignored: "), "{printed}");
        let regions = self.run("byoc-acme", "byoc inspect model.byoc --regions --json");
        let regions: Value = serde_json::from_str(&regions).expect("JSON");
        let regions = regions["regions"].as_array().expect("a list").iter().map(|region| &region["backend"]);
        assert_eq!(regions.collect::<Vec<_>>(), ["acme", "json"]);
    }

    /// The commands of each section of the guide.
    fn guide(&self) -> impl Fn(&str) -> Vec<String> + use<> {
        let page = self.commands(&places::checkout().join("docs/writing-a-backend.md"));
        move |section| page.iter().filter(|block| block.section == section).map(|block| block.text.clone()).collect()
    }

    /// Has programs of that folder found before all others.
    fn first_on_path(&mut self, folder: &Path) {
        let others = std::env::split_paths(&self.path).collect::<Vec<_>>();
        self.path = std::env::join_paths([vec![folder.to_owned()], others].concat()).expect("a path");
    }

    /// Installs a package of the project, and has the program that is beside it find the backend, without a flag or a variable.
    fn finds_what_was_installed(&self, install: &str, program: &str) {
        self.run("byoc-acme", install);
        let listed = self.run("byoc-acme", &format!("unset BYOC_PLUGIN_PATH; {program} plugin list"));
        assert!(listed.lines().any(|line| line.starts_with("acme ")), "{listed}");
    }

    /// The commands of a page. `byoc plugin test` is left out by a program that does not have it.
    fn commands(&self, page: &Path) -> Vec<Block> {
        let page = String::from_utf8(places::read(page)).expect("text");
        let tests = self.run(".", "byoc plugin --help").lines().any(|line| line.starts_with("  test "));
        let commands = blocks(&page).into_iter().filter(|block| block.info == "sh");
        commands.filter(|block| tests || !block.text.starts_with("byoc plugin test ")).collect()
    }
}

/// Packages put the library where the program looks by itself.
#[test]
fn packages_for_debian_and_for_python() {
    // Its `pip` downloads what builds wheels.
    let python = data::python();
    assert!(python.is_ok() || std::env::var_os("CI").is_none(), "{python:?}");
    let Ok(python) = python else { return };
    let mut vendor = Vendor::new();
    vendor.first_on_path(python.parent().expect("an interpreter lies in a folder"));
    let of = vendor.guide();
    vendor.run(".", &of("In C")[0]);
    vendor.run("byoc-acme", &of("Packages").concat());
    vendor.finds_what_was_installed(
        "mkdir -p root/usr/bin; cp -L \"$(command -v byoc)\" root/usr/bin/; dpkg-deb -x byoc-acme.deb root",
        "root/usr/bin/byoc",
    );
    vendor.finds_what_was_installed(
        "python -m venv environment; environment/bin/pip install --quiet --no-deps wheels/*.whl; \
         cp -L \"$(command -v byoc)\" environment/bin/",
        "environment/bin/byoc",
    );
}

/// A read behind an input, which nothing but a sanitizer sees.
#[test]
fn a_sanitizer_sees_what_guard_pages_do_not() {
    let vendor = Vendor::new();
    let of = vendor.guide();
    vendor.run(".", &of("In C")[0]);
    let source = vendor.project().join("acme.c");
    let text = String::from_utf8(places::read(&source)).expect("text");
    const LOAD: &str = "    *handle = result;\n";
    assert!(text.contains(LOAD), "nothing to change");
    let beyond = "    { char *own = (char *)malloc(code.len); *(volatile char *)(own + code.len) = 1; free(own); }\n";
    std::fs::write(&source, text.replace(LOAD, &format!("{beyond}{LOAD}"))).expect("it is ours");
    let commands = of("Under a sanitizer").concat();
    let told = vendor.run("byoc-acme", &format!("({commands}) > told 2>&1 || true; cat told"));
    assert!(told.contains("ERROR: AddressSanitizer: heap-buffer-overflow"), "{told}");
    assert!(told.contains(" fail ") && told.contains("ended the process (exit code 1)"), "{told}");
}

/// Third-party crates are built once, under our own build folder, with the versions that we have. A vendor's own are downloaded.
fn build_in_our_folder(project: &Path) {
    let target = places::target().join("vendor");
    std::fs::create_dir_all(&target).expect("the build folder is ours");
    std::os::unix::fs::symlink(target, project.join("target")).expect("the folder is ours");
    places::copy_into(project, &places::checkout().join("Cargo.lock"), "Cargo.lock");
}

#[test]
fn a_backend_in_rust() {
    let vendor = Vendor::new();
    vendor.goes_the_whole_way("In Rust", || build_in_our_folder(&vendor.project()));
}

/// Every command of the README that a reader would copy, in a folder that has a model and no clone.
#[test]
fn the_readme_works_as_written() {
    let vendor = Vendor::new();
    std::fs::remove_file(vendor.folder.path().join("byoc")).expect("the link is ours");
    vendor.folder.write("model.onnx", small().finish());
    let page = vendor.commands(&places::checkout().join("README.md"));
    let of = |section: &str| page.iter().find(|block| block.section == section).expect("a block").text.clone();
    vendor.run(".", &of("Your first model"));
    let backend = of("Your first backend");
    let (new, rest) = backend.split_once('\n').expect("several lines");
    vendor.run(".", new);
    build_in_our_folder(&vendor.project());
    vendor.run(".", rest);
    assert!(vendor.folder.path().join("model.byoc").is_file() && vendor.folder.path().join("acme.byoc").is_file());
    assert_eq!(page.len(), 2, "nobody runs {page:?}");
}

#[test]
fn a_backend_in_c() {
    let vendor = Vendor::new();
    vendor.goes_the_whole_way("In C", || {});
    let of = vendor.guide();
    vendor.run("byoc-acme", &of("Under a sanitizer").concat());
    vendor.run("byoc-acme", "make clean all test CFLAGS='-O1 -Werror -pedantic'");
    vendor.run("byoc-acme", "make clean; ! make CC=false");
    if Command::new("c++").arg("--version").output().is_ok() {
        vendor.run("byoc-acme", "make clean all test CC=c++ STD=c++11 CFLAGS='-O1 -Werror'");
    }
    let headers = |folder: PathBuf| {
        ["byoc_plugin.h", "byoc_json.h", "byoc_number.h", "byoc_dim.h"].map(|name| places::read(&folder.join(name)))
    };
    assert_eq!(headers(vendor.project()), headers(places::checkout().join("plugin-api/include")));
}

/// Files in a folder and in those in it.
fn files_in(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("an entry").path());
    entries.map(|path| if path.is_dir() { files_in(&path) } else { 1 }).sum()
}

/// What is written where nothing is said, and under names that are not identifiers.
#[test]
fn names_and_places() {
    let folder = Folder::empty();
    let printed = folder.byoc(&["plugin", "new", "my-npu-2"]);
    let files = files_in(&folder.path().join("byoc-my-npu-2"));
    assert!(files > 70, "the contract's sources are there");
    assert_eq!(
        printed.success(),
        format!("Wrote the backend 'my-npu-2' into byoc-my-npu-2, {files} files. Its README.md says how to go on\n")
    );
    let text = |path: &str| String::from_utf8(places::read(&folder.path().join(path))).expect("text");
    let manifest = text("byoc-my-npu-2/Cargo.toml");
    for line in
        ["name = \"byoc-my-npu-2\"", "name = \"byoc_my_npu_2\"", "byoc-plugin-api = { path = \"api\" }", "[workspace]"]
    {
        assert!(manifest.lines().any(|found| found == line), "{line} is missing in\n{manifest}");
    }
    assert!(text("byoc-my-npu-2/src/lib.rs").contains("name: \"my-npu-2\".into()"));
    assert!(text("byoc-my-npu-2/README.md").contains("--plugin target/release/libbyoc_my_npu_2.so"));
    assert!(!manifest.contains("template"), "{manifest}");

    folder.byoc(&["plugin", "new", "x", "--lang", "c", "--dir", "a/b"]).success();
    let mut files = places::list(&folder.path().join("a/b"));
    files.retain(|name| !name.starts_with('.'));
    let headers = ["byoc_dim.h", "byoc_json.h", "byoc_number.h", "byoc_plugin.h"];
    assert_eq!(files, [&["Makefile", "README.md"], &headers[..], &["model.onnx", "test.c", "x.c"]].concat());
    folder.byoc(&["plugin", "new", "x", "--dir", "v", "--api", "1.2"]).success();
    assert!(text("v/Cargo.toml").contains("\nbyoc-plugin-api = \"1.2\"\n"));
}

#[test]
fn what_cannot_be_written_is_refused_and_nothing_is_overwritten() {
    let folder = Folder::empty();
    folder.write("file", "mine");
    std::fs::create_dir(folder.path().join("full")).expect("the folder is ours");
    folder.write("full/README.md", "mine");
    let names = "hint: Names are lower-case letters, digits and '-', a letter first";
    let cases: [(&[&str], i32, String); 10] = [
        (&["Acme"], 2, format!("[B901] 'Acme' cannot be the name of a backend\n  {names}")),
        (&["2acme"], 2, format!("[B901] '2acme' cannot be the name of a backend\n  {names}")),
        (&["../acme"], 2, format!("[B901] '../acme' cannot be the name of a backend\n  {names}")),
        (&[""], 2, format!("[B901] '' cannot be the name of a backend\n  {names}")),
        (&["json"], 2, "[B901] 'json' is the name of a backend of this byoc\n  hint: Take another name".into()),
        (
            &["acme", "--dir", "full"],
            1,
            "[B601] cannot write into 'full': it is not empty\n  hint: Name another folder with --dir".into(),
        ),
        (&["acme", "--dir", "file"], 1, "[B601] cannot make the folder 'file': File exists (os error 17)".into()),
        (
            &["acme", "--api", "full"],
            2,
            "[B901] --api full does not hold the crate byoc-plugin-api\n  hint: Give the folder that has its \
             Cargo.toml, or a version"
                .into(),
        ),
        (
            &["acme", "--api", "1.x"],
            2,
            "[B901] --api 1.x is not a version\n  hint: Give one such as 1.0; a folder whose name begins with a digit as \
             ./1.x"
                .into(),
        ),
        (
            &["acme", "--lang", "c", "--api", "1.0"],
            2,
            "[B901] --api is for a crate; a project in C has its headers with it\n  hint: Leave out --api, or say \
             --lang rust"
                .into(),
        ),
    ];
    for (arguments, code, expected) in cases {
        let outcome = folder.byoc(&[&["plugin", "new"], arguments].concat());
        outcome.fails(code, &format!("error: {expected}"));
    }
    assert_eq!(places::list(folder.path()), ["file", "full"]);
    assert_eq!(places::list(&folder.path().join("full")), ["README.md"]);
    assert_eq!(places::read(&folder.path().join("full/README.md")), b"mine");
}
