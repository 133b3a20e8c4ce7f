//! The packages that are published: each is complete, and a vendor's project builds against that of the contract as it would from a
//! registry.

use std::path::{Path, PathBuf};
use std::process::Command;

use byoc_tests::folder::Folder;
use byoc_tests::places;
use byoc_tests::program::{byoc, isolate, outcome};
use serde_json::{Value, json};

/// What is published, in an order in which each comes after those that it needs.
const PUBLISHED: [&str; 10] = [
    "byoc-dim",
    "byoc-plugin-api",
    "byoc-json-reference",
    "byoc-json",
    "byoc-kendryte",
    "byoc-core",
    "byoc-tools",
    "byoc-conformance",
    "byoc",
    "byoc-cli",
];

/// Cargo, without the network.
fn cargo(arguments: &[&str], from: &Path) -> Command {
    let mut command = Command::new("cargo");
    isolate(&mut command).args(arguments).current_dir(from).env("CARGO_NET_OFFLINE", "true");
    command.env_remove("CARGO_BUILD_TARGET_DIR");
    command
}

/// What cargo knows of every package that is in this build.
fn metadata() -> Vec<Value> {
    let mut command = cargo(&["metadata", "--format-version", "1", "--locked"], &places::checkout());
    // Packages for other systems are a part of it, which no build here has downloaded.
    command.env_remove("CARGO_NET_OFFLINE");
    let told: Value = serde_json::from_str(outcome(&mut command).success()).expect("JSON");
    told["packages"].as_array().expect("a list").clone()
}

/// Makes the packages, and returns the folder that they are in.
fn packaged(folder: &Folder) -> PathBuf {
    let target = folder.path().join("target");
    let mut command = cargo(&["package", "--no-verify", "--allow-dirty", "--quiet"], &places::checkout());
    command.args(PUBLISHED.iter().flat_map(|name| ["--package", name]));
    let made = outcome(command.env("CARGO_TARGET_DIR", &target));
    assert_eq!((made.code, made.stderr.as_str()), (Some(0), ""), "cargo says nothing of what is complete");
    target.join("package")
}

fn unpack(package: &Path, into: &Path) {
    outcome(Command::new("tar").arg("-xzf").arg(package).arg("-C").arg(into)).success();
}

#[test]
fn packages_are_complete() {
    let folder = Folder::empty();
    let made = packaged(&folder);
    let metadata = metadata();
    let of = |name: &str| metadata.iter().find(|package| package["name"] == name).expect("a package").clone();
    let published = metadata.iter().filter(|package| package["source"].is_null() && package["publish"].is_null());
    let mut names: Vec<_> = published.map(|package| package["name"].as_str().expect("a name")).collect();
    names.sort_unstable();
    let mut expected = PUBLISHED;
    expected.sort_unstable();
    assert_eq!(names, expected);
    for name in PUBLISHED {
        let about = of(name);
        let version = about["version"].as_str().expect("a version");
        unpack(&made.join(format!("{name}-{version}.crate")), folder.path());
        let files = folder.path().join(format!("{name}-{version}"));
        for file in ["LICENSE-MIT", "LICENSE-APACHE", "README.md"] {
            assert!(files.join(file).is_file(), "{name} has no {file}");
        }
        for key in ["description", "license", "rust_version", "readme"] {
            assert!(about[key].is_string(), "{name} does not say its {key}");
        }
        // What lies outside of the package is not in it.
        let outside = outcome(
            Command::new("grep")
                .args(["-rlE", r#"include_(str|bytes)!\("(\.\./)+(Cargo|backends|plugin-api)"#])
                .arg(&files),
        );
        assert_eq!(outside.stdout, "", "{name}");
    }
}

/// A registry in a folder: every package that our build has, as cargo keeps it, and the packages of the contract.
fn registry(folder: &Folder, made: &Path) -> PathBuf {
    let registry = folder.path().join("registry");
    std::fs::create_dir(&registry).expect("the folder is ours");
    let lock = String::from_utf8(places::read(&places::checkout().join("Cargo.lock"))).expect("text");
    for package in metadata().iter().filter(|package| package["source"].is_string()) {
        let text = |key: &str| package[key].as_str().expect("a text").to_owned();
        let (name, version) = (text("name"), text("version"));
        let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        let entry = lock.split("[[package]]\n").find(|found| found.starts_with(&entry)).expect("it is locked");
        let sum =
            entry.lines().find_map(|line| line.strip_prefix("checksum = \"")).map(|sum| sum.trim_end_matches('"'));
        let sources = PathBuf::from(text("manifest_path"));
        let sources = sources.parent().expect("a folder");
        let place = registry.join(format!("{name}-{version}"));
        std::fs::create_dir(&place).expect("the folder is ours");
        for file in places::list(sources).iter().filter(|file| *file != ".cargo-ok" && *file != ".cargo-checksum.json")
        {
            std::os::unix::fs::symlink(sources.join(file), place.join(file)).expect("the folder is ours");
        }
        places::write(&place, ".cargo-checksum.json", json!({ "files": {}, "package": sum }).to_string());
    }
    for name in ["byoc-dim-1.0.0", "byoc-plugin-api-1.0.0"] {
        unpack(&made.join(format!("{name}.crate")), &registry);
        let place = registry.join(name);
        places::write(&place, ".cargo-checksum.json", json!({ "files": {} }).to_string());
    }
    registry
}

/// `byoc plugin new --api 1.0` needs neither a clone nor the sources that are part of the program.
#[test]
fn a_backend_against_the_packaged_contract() {
    let folder = Folder::empty();
    let registry = registry(&folder, &packaged(&folder));
    let mut new = byoc(&["plugin", "new", "acme", "--api", "1.0"]);
    outcome(new.current_dir(folder.path())).success();
    let project = folder.path().join("byoc-acme");
    assert!(!project.join("api").exists());
    std::fs::create_dir(project.join(".cargo")).expect("the folder is ours");
    let sources = format!(
        "[source.crates-io]\nreplace-with = \"folder\"\n[source.folder]\ndirectory = \"{}\"\n",
        registry.display()
    );
    places::write(&project.join(".cargo"), "config.toml", sources);
    // The versions that are there.
    places::copy_into(&project, &places::checkout().join("Cargo.lock"), "Cargo.lock");
    // Third-party crates are those of the other projects.
    let target = places::target().join("vendor");
    let mut build = cargo(&["build", "--quiet"], &project);
    outcome(build.env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_DEV_DEBUG", "0")).success();
    let plugin = target.join("debug/libbyoc_acme.so");
    let info = outcome(&mut byoc(&["plugin", "info", "acme", "--plugin", plugin.to_str().expect("text")]));
    assert!(info.success().contains("Element-wise Add of f32 tensors"), "{info:?}");
}
