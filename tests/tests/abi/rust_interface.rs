//! The Rust interface of the contract, `byoc-plugin-api`, as a text: `tests/golden/plugin-api-<major version>.txt` has a line for
//! each public item. Lines may come, and `UPDATE_GOLDEN=1` writes them down; none may go or change before the next major version, for
//! backends are written against them. What a line does not show is not seen, such as whether a method of a trait has a
//! default: every new one needs one.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use byoc_tests::places;
use byoc_tests::program::outcome;

/// The interface as rustdoc knows it. Its JSON is no stable output of the compiler yet, but this toolchain is pinned.
fn documented() -> PathBuf {
    let mut command = Command::new("cargo");
    command.args(["rustdoc", "--package", "byoc-plugin-api", "--lib", "--locked", "--", "-Zunstable-options"]);
    command.args(["--output-format=json", "--cap-lints=allow"]).current_dir(places::checkout());
    command.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", places::target());
    outcome(&mut command).success();
    places::target().join("doc/byoc_plugin_api.json")
}

fn interface() -> BTreeSet<String> {
    let builder = public_api::Builder::from_rustdoc_json(documented());
    let builder = builder.omit_blanket_impls(true).omit_auto_trait_impls(true).omit_auto_derived_impls(true);
    let items = builder.build().expect("the toolchain's JSON is of the version that the crate reads");
    items.items().map(ToString::to_string).collect()
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
