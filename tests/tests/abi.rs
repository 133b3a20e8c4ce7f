//! Plugins and hosts of other ages. The plugin API is copied, changed, and a plugin or a host is built with it: what
//! grew is taken by both sides, what was changed is refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use byoc_tests::program::{byoc, outcome};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, onnx, places};

/// A changed copy of the plugin API with a copy of the template plugin, built in a workspace of their own.
struct Fixture {
    name: &'static str,
    root: PathBuf,
}

impl Fixture {
    /// Copies what is needed under `target` and applies the changes, as (file, text, new text). The API's version must
    /// be new: cargo goes by name and version, and would take the copy for the real one in the build folder they share.
    fn new(name: &'static str, version: &str, changes: &[(&str, &str, &str)]) -> Fixture {
        let fixture = Fixture { name, root: places::target().join("abi").join(name) };
        let (from, to) = (places::checkout(), &fixture.root);
        let _ = std::fs::remove_dir_all(to);
        copy_folder(&from.join("plugin-api"), &to.join("plugin-api"));
        copy_folder(&from.join("backends/template"), &to.join("template"));
        for file in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
            places::copy_into(to, &from.join(file), file);
        }
        std::fs::create_dir_all(to.join("probe/src")).expect("the build folder is ours");
        std::fs::write(to.join("probe/src/main.rs"), PROBE).expect("the build folder is ours");
        let manifest = std::fs::read_to_string(to.join("Cargo.toml")).expect("text");
        std::fs::write(to.join("probe/Cargo.toml"), probe_manifest(&manifest)).expect("the build folder is ours");
        let list = manifest.lines().find(|line| line.starts_with("members")).expect("the workspace lists its members");
        let manifest = manifest.replace(list, "members = [\"plugin-api\", \"template\", \"probe\"]");
        let manifest = manifest.replace("default-members", "exclude");
        std::fs::write(to.join("Cargo.toml"), manifest).expect("the build folder is ours");
        // Dynamic libraries have no hash in their names: it must not take the place of the real one.
        fixture.change("template/Cargo.toml", "byoc_template", &format!("byoc_{name}"));
        fixture.change("template/Cargo.toml", "byoc-template", &format!("byoc-{name}"));
        fixture.change("plugin-api/Cargo.toml", "version = \"1.0.0\"", &format!("version = \"{version}\""));
        changes.iter().for_each(|(file, text, new)| fixture.change(file, text, new));
        fixture
    }

    fn change(&self, file: &str, text: &str, new: &str) {
        let path = self.root.join(file);
        let old = std::fs::read_to_string(&path).expect("text");
        assert!(old.contains(text), "{file} does not say {text}");
        std::fs::write(&path, old.replace(text, new)).expect("the build folder is ours");
    }

    /// Builds the plugin and the host, both at once, so that third-party crates are those of the tests themselves and
    /// nothing but the copies is compiled.
    fn build(&self) -> PathBuf {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(&self.root).args(["build", "--quiet", "--offline", "--workspace", "--target-dir"]);
        let output = command.arg(places::target()).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        places::target().join("debug")
    }

    fn plugin(&self) -> PathBuf {
        self.build().join(format!("libbyoc_{}.so", self.name))
    }

    fn host(&self) -> PathBuf {
        self.build().join("byoc-abi-probe")
    }
}

/// The host's manifest. It names every crate that the workspace names: cargo then turns on the same features of them.
fn probe_manifest(workspace: &str) -> String {
    let mut manifest = "[package]\nname = \"byoc-abi-probe\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
                        [dependencies]\nbyoc-plugin-api = { workspace = true, features = [\"host\"] }\n"
        .to_owned();
    let listed = workspace.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let names = listed.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
    for (name, _) in names.filter(|(name, _)| !name.starts_with(['#', ' ']) && !name.starts_with("byoc-")) {
        manifest += &format!("{name}.workspace = true\n");
    }
    manifest
}

/// A host: opens a plugin and asks each of its backends something.
const PROBE: &str = r#"//! Opens a plugin.
use byoc_plugin_api::{Backend, Options};
fn main() {
    let path = std::env::args().nth(1).expect("a path");
    let plugin = byoc_plugin_api::host::open(path.as_ref()).expect("the plugin loads");
    for backend in plugin.backends {
        let patterns = backend.patterns(&Options::default()).expect("patterns");
        println!("{} {}", backend.describe().name, patterns[0].text);
    }
}
"#;

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the build folder is ours");
    for name in places::list(from) {
        let path = from.join(&name);
        if path.is_dir() { copy_folder(&path, &to.join(&name)) } else { drop(places::copy_into(to, &path, &name)) }
    }
}

/// One function more at the end of the table, as the next minor version of the API would have it.
const GROWN: &[(&str, &str, &str)] = &[
    (
        "plugin-api/src/abi.rs",
        "    pub extension: extern \"C\" fn(backend: usize, id: Slice, version: u32) -> *const c_void,\n",
        "    pub extension: extern \"C\" fn(backend: usize, id: Slice, version: u32) -> *const c_void,\n    \
         /// New.\n    pub grown: extern \"C\" fn() -> usize,\n",
    ),
    ("plugin-api/src/export.rs", "free, extension }", "free, extension, grown: count }"),
];

/// A field of a frozen struct has another type, and nobody thought of the version.
const CHANGED: &[(&str, &str, &str)] = &[("plugin-api/src/dlpack.rs", "pub byte_offset: u64", "pub byte_offset: u32")];

#[test]
fn what_grew_is_taken_by_both_sides() {
    let fixture = Fixture::new("grown", "1.1.0", GROWN);
    let probe = Command::new(fixture.host()).arg(places::plugin("template")).output().expect("the host runs");
    assert_eq!(String::from_utf8_lossy(&probe.stdout), "template (Add ?x ?y)\n", "an older plugin in a newer host");

    let registry = engine::from_files(vec![fixture.plugin(), places::plugin("json")]);
    let folder = places::temporary();
    let model = onnx::Model::default()
        .input("x", onnx::Type::Float, &[2])
        .weight("w", &[2], &[1.0, 2.0])
        .node("Add", &["x", "w"], &["y"])
        .output("y", onnx::Type::Float, &[2]);
    let (model, path) = (places::write(folder.path(), "model.onnx", model.finish()), folder.path().join("model.byoc"));
    engine::compile(&model, &path, &registry, &["template", "json"]).expect("a newer plugin in an older host compiles");
    let mut session = engine::load(&path, &registry, 1).expect("loads");
    let outputs = engine::run(&mut session, &[("x".to_owned(), Tensor::f32(&[2], &[3.0, 4.0]))]).expect("runs");
    assert_eq!(outputs, [("y".to_owned(), Tensor::f32(&[2], &[4.0, 6.0]))]);
}

#[test]
fn what_was_changed_is_refused_in_one_line() {
    let plugin = Fixture::new("changed", "1.0.1", CHANGED).plugin();
    let plugin = plugin.to_str().expect("a plain path");
    let outcome = outcome(&mut byoc(&["plugin", "list", "--plugin", plugin]));
    outcome.fails(
        3,
        &format!(
            "error: [B302] '{plugin}': plugin 'byoc-changed' 0.1.0 does not fit this byoc: mismatched type: expected u64, found u32\n  \
             hint: Install a build of byoc-changed for byoc-plugin-api 1.0.0"
        ),
    );
}
