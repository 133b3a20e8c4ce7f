//! Which plugin files are opened, and which are not: nothing from the current folder, nothing that is not needed, nothing
//! that says beforehand that it does not fit, and nothing that `BYOC_PLUGIN_ALLOW` does not name.

use std::path::{Path, PathBuf};
use std::process::Command;

use byoc_core::plugin::digest;
use byoc_tests::fixture::{Change, c_plugin, c_plugin_of_today};
use byoc_tests::folder::Folder;
use byoc_tests::program::{self, Outcome, byoc, isolate, outcome};
use byoc_tests::{engine, onnx, places};

/// Makes a plugin in C write the file `$OPENED` as soon as it is opened, before anything of it is called.
const TELLS: Change<'_> = (
    "plugin.c",
    "#include <stdlib.h>\n",
    "#include <stdlib.h>\n#include <stdio.h>\n__attribute__((constructor)) static void tell(void) {\n    \
     const char *path = getenv(\"OPENED\");\n    FILE *file = path ? fopen(path, \"w\") : NULL;\n    \
     if (file) fclose(file);\n}\n",
);

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Runs a command in the folder; also, whether it opened a plugin that tells.
fn run(folder: &Folder, command: &mut Command) -> (Outcome, bool) {
    let opened = folder.path().join("opened");
    let outcome = outcome(command.current_dir(folder.path()).env("OPENED", &opened));
    (outcome, std::fs::remove_file(opened).is_ok())
}

/// A folder with an artifact that needs the backend `cmatmul`, and in the folder `plugins` a plugin that holds it, as
/// `libbyoc_<name>.so`, with these changes.
fn folder_with(name: &str, build: fn(&Path, &str, &[Change<'_>]) -> PathBuf, changes: &[Change<'_>]) -> Folder {
    let folder = Folder::empty();
    let model = folder.write("model.onnx", onnx::small().finish());
    let plain = c_plugin_of_today(folder.path(), "plain", &[]);
    let registry = engine::from_files(vec![plain, places::plugin("json")]);
    engine::compile(&model, &folder.path().join("model.byoc"), &registry, &["cmatmul", "json"]).expect("compiles");
    let plugins = folder.path().join("plugins");
    std::fs::create_dir(&plugins).expect("the folder is ours");
    build(&plugins, name, &[&[TELLS], changes].concat());
    folder
}

/// `run` of the artifact, which has a plugin in `plugins`.
fn run_artifact(folder: &Folder) -> (Outcome, bool) {
    run(folder, &mut byoc(&["run", "model.byoc", "--fill", "ones", "--plugin-dir", "plugins"]))
}

#[test]
fn nothing_is_opened_from_the_current_folder() {
    let folder = folder_with("cmatmul", c_plugin_of_today, &[]);
    let here = folder.path().join("plugins/libbyoc_cmatmul.so");
    std::fs::copy(&here, folder.path().join("libbyoc_cmatmul.so")).expect("the folder is ours");
    let missing =
        "error: [B604] region byoc_main_cmatmul_0 needs the backend 'cmatmul': there is no backend 'cmatmul'\n  hint: ";
    let with = |path: &str| run(&folder, byoc(&["run", "model.byoc", "--fill", "ones"]).env("BYOC_PLUGIN_PATH", path));
    for path in ["plugins", ".", ":/tmp", "./plugins:"] {
        let (outcome, opened) = with(path);
        assert!(!opened, "{path}");
        let entry = path.split(':').next().unwrap_or_default();
        outcome.fails(
            3,
            &format!("{missing}The entry '{entry}' of BYOC_PLUGIN_PATH is not used: write it as an absolute path"),
        );
    }
    let (outcome, opened) = with("");
    assert!(!opened);
    outcome.fails(3, &format!("{missing}There is json, kendryte; name further plugins with --plugin or --plugin-dir; -v shows where they are looked for"));
    let (list, opened) = run(&folder, byoc(&["plugin", "list"]).env("BYOC_PLUGIN_PATH", "plugins:"));
    assert!(!opened);
    let ignored = "ignored: the entry 'plugins' of BYOC_PLUGIN_PATH is not an absolute path\n\
                   ignored: the entry '' of BYOC_PLUGIN_PATH is not an absolute path\n";
    assert!(list.success().ends_with(ignored), "{}", list.stdout);
    // What the user names may be relative, and so may an absolute place be anywhere.
    let (outcome, opened) = run_artifact(&folder);
    assert!(opened, "{}", outcome.stderr);
    outcome.success();
    let (outcome, opened) = with(text(&folder.path().join("plugins")));
    assert!(opened, "{}", outcome.stderr);
    outcome.success();
}

/// Where a build puts plugins: beside the program, of which only the ones that are named are opened.
#[test]
fn a_backend_that_is_named_is_found_beside_the_program() {
    let folder = folder_with("cmatmul", c_plugin_of_today, &[]);
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).expect("the folder is ours");
    std::fs::copy(program::path(), bin.join("byoc")).expect("the folder is ours");
    std::fs::rename(folder.path().join("plugins/libbyoc_cmatmul.so"), bin.join("libbyoc_cmatmul.so")).expect("ours");
    let try_it = |arguments: &[&str]| {
        let mut command = Command::new(bin.join("byoc"));
        isolate(command.args(arguments));
        run(&folder, &mut command)
    };
    let (list, opened) = try_it(&["plugin", "list"]);
    assert!(!opened && !list.success().contains("cmatmul"), "{}", list.stdout);
    let (explained, opened) = try_it(&["explain", "model.onnx", "--backend", "cmatmul,cpu"]);
    assert!(opened && explained.success().contains("\ncmatmul      2        1\n"), "{explained:?}");
    let (ran, opened) = try_it(&["run", "model.byoc", "--fill", "ones"]);
    assert!(opened, "{}", ran.stderr);
    ran.success();
    let (missing, opened) = try_it(&["explain", "model.onnx", "--backend", "../cmatmul"]);
    assert!(!opened && missing.code == Some(3), "{missing:?}");
}

/// A file named after another backend is opened when its manifest says that it holds this one, or when it says nothing.
#[test]
fn what_an_artifact_does_not_need_is_not_opened() {
    // Needed for nothing, whatever it holds: the backend has a file of its name.
    let folder = folder_with("suite", c_plugin, &[]);
    let needed = c_plugin_of_today(folder.path(), "cmatmul", &[]);
    std::fs::rename(needed, folder.path().join("plugins/libbyoc_cmatmul.so")).expect("the folder is ours");
    let (outcome, opened) = run_artifact(&folder);
    outcome.success();
    assert!(!opened, "another file was there for it");
    let (outcome, opened) = run(&folder, &mut byoc(&["check", "model.byoc", "--plugin-dir", "plugins"]));
    outcome.success();
    assert!(!opened, "the same for check");
    // The only one that holds it.
    let (outcome, opened) = run_artifact(&folder_with("suite", c_plugin_of_today, &[]));
    outcome.success();
    assert!(opened);
    // Holds another one, and says so.
    let other: &[Change<'_>] = &[("plugin.c", "\\\"cmatmul\\\"", "\\\"other\\\"")];
    let (outcome, opened) = run_artifact(&folder_with("suite", c_plugin_of_today, other));
    assert_eq!((outcome.code, opened), (Some(3), false), "{}", outcome.stderr);
    // Does not say: only opening it can tell.
    let (outcome, opened) = run_artifact(&folder_with("suite", c_plugin, &[]));
    assert_eq!((outcome.code, opened), (Some(3), true), "{}", outcome.stderr);
}

/// A manifest of another ABI version is enough; one that lies is found out.
#[test]
fn a_manifest_is_read_before_the_file_is_opened() {
    let folder = Folder::empty();
    let cases: [(&str, Change<'_>, bool, i32, &str); 4] = [
        (
            "newer",
            ("byoc_plugin.h", "#define BYOC_ABI_VERSION 1", "#define BYOC_ABI_VERSION 7"),
            false,
            3,
            "[B302] '{file}': plugin 'cmatmul' 1.0.0 speaks ABI 7; this byoc speaks 1\n  \
             hint: Update byoc, or install an older cmatmul",
        ),
        (
            "damaged",
            ("byoc_plugin.h", "\"{\\\"name\\\"", "\"{name"),
            false,
            3,
            "[B301] '{file}' cannot be loaded as a plugin: its section .byoc is not a manifest: key must be a string at line 1 column 2\n  \
             hint: A plugin is a dynamic library; byoc plugin new writes one to start from",
        ),
        (
            "other_name",
            ("plugin.c", "BYOC_PLUGIN_MANIFEST(\"cmatmul\"", "BYOC_PLUGIN_MANIFEST(\"acme\""),
            true,
            3,
            "[B305] '{file}' breaks the plugin contract: its manifest says 'acme' 1.0.0, and it is 'cmatmul' 1.0.0\n  \
             hint: Report this to the plugin's maker",
        ),
        (
            "other_backend",
            ("plugin.c", "[\\\"cmatmul\\\"]", "[\\\"gpu\\\"]"),
            true,
            3,
            "[B305] '{file}' breaks the plugin contract: its manifest names the backends gpu, and it has cmatmul\n  \
             hint: Report this to the plugin's maker",
        ),
    ];
    for (name, change, opens, code, message) in cases {
        let file = c_plugin_of_today(folder.path(), name, &[TELLS, change]);
        let (outcome, opened) = run(&folder, &mut byoc(&["plugin", "list", "--plugin", text(&file)]));
        outcome.fails(code, &format!("error: {}", message.replace("{file}", text(&file))));
        assert_eq!(opened, opens, "{name}");
    }
}

/// With `BYOC_PLUGIN_ALLOW` only listed files are opened, by whatever command; what is embedded needs no permission.
#[test]
fn only_allowed_files_are_opened() {
    let folder = folder_with("cmatmul", c_plugin_of_today, &[]);
    let file = folder.path().join("plugins/libbyoc_cmatmul.so");
    let hex = digest(&file).expect("readable");
    let other = "0".repeat(64);
    folder.write("allowed", format!("# ours\n{}  libbyoc_cmatmul.so\n\n{other}\n", hex.to_uppercase()));
    let command = |arguments: &[&str], list: &str| run(&folder, byoc(arguments).env("BYOC_PLUGIN_ALLOW", list));
    let run_it = ["run", "model.byoc", "--fill", "ones", "--plugin", text(&file)];
    let compile = ["compile", "model.onnx", "-o", "new.byoc", "--backend", "cmatmul,json", "--plugin", text(&file)];
    let in_process = [&compile[..], &["--in-process"]].concat();
    for arguments in [&run_it[..], &compile[..], &in_process[..]] {
        for list in [hex.clone(), format!("{other}:{hex}"), format!("{hex},{other}"), "@allowed".to_owned()] {
            let (outcome, opened) = command(arguments, &list);
            outcome.success();
            assert!(opened, "{arguments:?} {list}");
        }
        let refused = |list: &str, why: &str| {
            let (outcome, opened) = command(arguments, list);
            let message = format!("error: [B308] '{}' is not allowed: {why}", text(&file));
            outcome.fails(3, &format!("{message}\n  hint: If you trust the file, add its digest to the list"));
            assert!(!opened, "{arguments:?} {list}");
        };
        refused(&other, &format!("its digest {hex} is not in BYOC_PLUGIN_ALLOW"));
        refused("", &format!("its digest {hex} is not in BYOC_PLUGIN_ALLOW"));
        refused("abc", "BYOC_PLUGIN_ALLOW cannot be used: 'abc' is not a BLAKE3 digest of 64 hex digits");
        let missing = "BYOC_PLUGIN_ALLOW cannot be used: '/no/list': No such file or directory (os error 2)";
        refused(&format!("{hex}:@/no/list"), missing);
    }
    let (outcome, opened) = command(&["compile", "model.onnx", "-o", "new.byoc", "--plugin-dir", "plugins"], &other);
    outcome.success();
    assert!(!opened, "the embedded backend does without");
}

/// `plugin list` and `plugin info` show digests, and the list what is shadowed and what is refused, as text and as JSON.
#[test]
fn the_list_says_what_became_of_each_file() {
    let folder = Folder::empty();
    let first = c_plugin_of_today(folder.path(), "first", &[]);
    let second = c_plugin_of_today(folder.path(), "second", &[]);
    let third = folder.write("libbyoc_third.so", "not a library");
    let arguments = ["plugin", "list", "--plugin-dir", text(folder.path())];
    let (list, _) = run(&folder, &mut byoc(&arguments));
    let ending = format!(
        "shadowed: 'cmatmul' from {0}, by an earlier one of the same name\n\
         refused: [B301] '{1}' cannot be loaded as a plugin: {1}: file too short. A plugin is a dynamic library; byoc plugin new writes one to start from\n",
        text(&second),
        text(&third)
    );
    assert!(list.success().ends_with(&ending), "{}", list.stdout);
    let (list, _) = run(&folder, byoc(&arguments).arg("--json"));
    let list: serde_json::Value = serde_json::from_str(list.success()).expect("JSON");
    let digest_of = |path: &Path| digest(path).expect("readable");
    assert_eq!(list["backends"][0]["digest"], digest_of(&first), "{list}");
    assert_eq!(list["backends"][1]["origin"], "embedded", "{list}");
    assert_eq!(list["backends"][1]["digest"], serde_json::Value::Null, "{list}");
    assert_eq!(list["refused"][0]["digest"], digest_of(&third), "{list}");
    assert_eq!(list["ignored"], serde_json::json!([]), "{list}");
    let (info, _) = run(&folder, &mut byoc(&["plugin", "info", "cmatmul", "--plugin", text(&first)]));
    assert!(info.success().contains(&format!("digest   {}\n", digest_of(&first))), "{}", info.stdout);
}

/// The names of backends without running anything of the files that hold them.
#[test]
fn files_are_listed_without_opening_them() {
    let folder = Folder::empty();
    let today = c_plugin_of_today(folder.path(), "a_today", &[TELLS]);
    let old = c_plugin(folder.path(), "b_old", &[TELLS]);
    let broken = folder.write("libbyoc_c_broken.so", "not a library");
    // Reading it would never end.
    let pipe = folder.path().join("libbyoc_d_pipe.so");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    let json = places::plugin("json");
    let arguments = ["plugin", "list", "--no-load", "--plugin-dir", text(folder.path()), "--plugin", text(&json)];
    let (list, opened) = run(&folder, byoc(&arguments).arg("--json"));
    assert!(!opened);
    let list: serde_json::Value = serde_json::from_str(list.success()).expect("JSON");
    let names: Vec<_> =
        list["files"].as_array().expect("a list").iter().map(|file| &file["manifest"]["backends"]).collect();
    assert_eq!(serde_json::json!(names), serde_json::json!([["json"], ["cmatmul"], null, null, null]), "{list}");
    assert_eq!(list["files"][1]["digest"], digest(&today).expect("readable"), "{list}");
    let (list, opened) = run(&folder, &mut byoc(&arguments));
    assert!(!opened);
    let rows: Vec<Vec<_>> = list.success().lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["json", "byoc-json-plugin", "0.1.0", "1"], "{}", list.stdout);
    assert_eq!(rows[1], ["cmatmul", "cmatmul", "1.0.0", "1", text(&today)], "{}", list.stdout);
    assert_eq!(rows[2], ["?", "?", "?", "?", text(&old)], "{}", list.stdout);
    assert_eq!(rows[3], ["?", "?", "?", "?", text(&broken)], "{}", list.stdout);
    let refused = format!(
        "refused: [B301] '{}' cannot be loaded as a plugin: it is not a regular file. \
         A plugin is a dynamic library; byoc plugin new writes one to start from\n",
        text(&pipe)
    );
    assert!(list.stdout.ends_with(&refused), "{}", list.stdout);
    let (list, _) = run(&folder, &mut byoc(&["plugin", "list", "--json", "--plugin-dir", text(folder.path())]));
    assert!(list.success().contains("it is not a regular file"), "{}", list.stdout);
}
