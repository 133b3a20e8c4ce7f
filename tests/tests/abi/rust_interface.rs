//! The Rust interface of the contract, `byoc-plugin-api`, as a text: `tests/golden/plugin-api-<major version>.txt` has a line for
//! each public item. Lines may come, and `UPDATE_GOLDEN=1` writes them down; none may go or change before the next major version, for
//! backends are written against them. What a line does not show is not seen, such as whether a method of a trait has a
//! default: every new one needs one.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use byoc_tests::places;
use byoc_tests::program::outcome;

/// The interface as rustdoc knows it. Its JSON is no stable output of the compiler yet, but this toolchain is pinned.
fn documented() -> PathBuf {
    let folder = places::temporary();
    // Not for cargo: build scripts would run once more, and all that depends on them, for this test and after it.
    let rustdoc = places::write(folder.path(), "rustdoc", "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n");
    std::fs::set_permissions(&rustdoc, Permissions::from_mode(0o755)).expect("the file is ours");
    let mut command = Command::new("cargo");
    command.args(["rustdoc", "--package", "byoc-plugin-api", "--lib", "--locked", "--", "-Zunstable-options"]);
    command.args(["--output-format=json", "--cap-lints=allow"]).current_dir(places::checkout());
    outcome(command.env("RUSTDOC", rustdoc).env("CARGO_TARGET_DIR", places::target())).success();
    places::target().join("doc/byoc_plugin_api.json")
}

fn interface() -> BTreeSet<String> {
    let builder = public_api::Builder::from_rustdoc_json(documented());
    let items =
        builder.omit_blanket_impls(true).build().expect("the toolchain's JSON is of the version that the crate reads");
    // Of the traits that the compiler implements these are of interest to backends.
    let of_interest = |line: &String| {
        !line.starts_with("impl")
            || !["Freeze", "RefUnwindSafe", "UnwindSafe", "Unpin", "UnsafeUnpin"]
                .iter()
                .any(|name| line.contains(&format!("::{name} for ")))
    };
    items.items().map(ToString::to_string).filter(of_interest).collect()
}

#[test]
fn nothing_that_backends_use_goes() {
    let manifest = std::fs::read_to_string(places::checkout().join("plugin-api/Cargo.toml")).expect("it is there");
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")).expect("it has a version");
    let major = version.split('.').next().expect("numbers");
    let path = places::checkout().join(format!("tests/golden/plugin-api-{major}.txt"));
    let now = interface();
    let bless = std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    let then = std::fs::read_to_string(&path).unwrap_or_default();
    let then: BTreeSet<String> = then.lines().map(str::to_owned).collect();
    assert!(bless || !then.is_empty(), "there is no {}; write it with UPDATE_GOLDEN=1", path.display());
    let gone: Vec<_> = then.difference(&now).map(String::as_str).collect();
    assert!(gone.is_empty(), "backends may use what is gone or changed here:\n{}", gone.join("\n"));
    assert!(bless || then == now, "the interface has grown; write that down with UPDATE_GOLDEN=1");
    if bless {
        let lines: Vec<_> = now.iter().map(String::as_str).collect();
        std::fs::write(&path, lines.join("\n") + "\n").expect("the checkout is ours");
    }
}
