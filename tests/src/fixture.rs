//! Plugins and hosts of other ages: copies of the plugin API or of the frozen plugins, changed where a test asks for it,
//! and built in a workspace of their own under `target`. Third-party crates are those of the tests themselves.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::places;

/// A change: in this file, this text becomes that one.
pub type Change<'a> = (&'a str, &'a str, &'a str);

/// The folder of the plugins that were frozen with ABI 1.0.
const FROZEN: &str = "tests/plugins/frozen/1.0";

/// A workspace of its own.
pub struct Fixture {
    root: PathBuf,
    /// The file of its plugin, without prefix and suffix.
    library: String,
}

impl Fixture {
    /// A copy of the plugin API with a plugin, `libbyoc_<name>`, that is a copy of the template, and a host that opens
    /// plugins. The version of every crate of it must be new: cargo goes by name, version and place in the workspace, and
    /// would take a copy for the real one in the build folder they share.
    pub fn changed(name: &str, version: &str, changes: &[Change<'_>]) -> Fixture {
        let fixture = Fixture::empty(name, &["plugin-api", "template", "probe"]);
        let (from, to) = (places::checkout(), &fixture.root);
        copy_folder(&from.join("plugin-api"), &to.join("plugin-api"));
        copy_folder(&from.join("backends/template"), &to.join("template"));
        fixture.probe(&["byoc-plugin-api = { workspace = true, features = [\"host\"] }"], PROBE);
        // Dynamic libraries have no hash in their names: it must not take the place of the real one.
        fixture.change("template/Cargo.toml", "byoc_template", &fixture.library);
        fixture.change("template/Cargo.toml", "byoc-template", &fixture.library.replace('_', "-"));
        let version = format!("version = \"{version}\"");
        fixture.change("plugin-api/Cargo.toml", "version = \"1.0.0\"", &version);
        fixture.change("plugin-api/dim/Cargo.toml", "version = \"1.0.0\"", &version);
        changes.iter().for_each(|(file, text, new)| fixture.change(file, text, new));
        fixture
    }

    /// The plugin API and the plugin that were frozen with ABI 1.0.
    pub fn frozen() -> Fixture {
        let fixture = Fixture::empty("frozen", &["frozen/plugin-api", "frozen/rust", "probe"]);
        copy_folder(&places::checkout().join(FROZEN), &fixture.root.join("frozen"));
        // Another place, and so, to cargo, another package than the real plugin API.
        fixture.probe(&[], "//! Here for its dependencies.\nfn main() {}\n");
        fixture
    }

    /// An empty workspace with the versions and the profiles of ours.
    fn empty(name: &str, members: &[&str]) -> Fixture {
        let root = places::target().join("abi").join(name);
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir_all(root.join("probe/src")).expect("the build folder is ours");
        for file in ["Cargo.lock", "rust-toolchain.toml"] {
            places::copy_into(&root, &places::checkout().join(file), file);
        }
        let manifest = workspace_manifest();
        let list = manifest.lines().find(|line| line.starts_with("members")).expect("the workspace lists its members");
        let manifest = manifest.replace(list, &format!("members = {members:?}"));
        places::write(&root, "Cargo.toml", manifest.replace("default-members", "exclude"));
        Fixture { root, library: format!("byoc_{name}") }
    }

    /// Adds a program. It names every crate that the workspace names: cargo then turns on the same features of them.
    fn probe(&self, dependencies: &[&str], program: &str) {
        let manifest = workspace_manifest();
        let listed = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
        let names = listed.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
        let others =
            names.map(|(name, _)| name).filter(|name| !name.starts_with(['#', ' ']) && !name.starts_with("byoc"));
        let others = others.map(|name| format!("{name}.workspace = true"));
        let dependencies: Vec<_> = dependencies.iter().map(|line| (*line).to_owned()).chain(others).collect();
        let head = "[package]\nname = \"byoc-abi-probe\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n";
        places::write(&self.root, "probe/Cargo.toml", format!("{head}{}\n", dependencies.join("\n")));
        places::write(&self.root, "probe/src/main.rs", program);
    }

    fn change(&self, file: &str, text: &str, new: &str) {
        change(&self.root, &(file, text, new));
    }

    /// Builds all of it, so that nothing but the copies is compiled.
    fn build(&self) -> PathBuf {
        let mut command = cargo();
        command.args(["build", "--quiet", "--offline", "--workspace", "--target-dir"]).arg(places::target());
        self.run(&mut command);
        places::target().join("debug")
    }

    fn run(&self, command: &mut Command) {
        let output = command.current_dir(&self.root).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Its plugin.
    pub fn plugin(&self) -> PathBuf {
        self.build().join(format!("lib{}.so", self.library))
    }

    /// Its host, which opens a plugin file and prints the backends in it with their first patterns.
    pub fn host(&self) -> PathBuf {
        self.build().join("byoc-abi-probe")
    }

    /// Its plugin, built by another toolchain in a folder that nothing else uses.
    pub fn plugin_of(&self, toolchain: &str) -> PathBuf {
        let target = places::target().join("abi").join(format!("target-{toolchain}"));
        let mut command = Command::new("rustup");
        command.args(["run", toolchain, "cargo", "build", "--quiet", "--offline", "-p", "byoc-frozen", "--target-dir"]);
        command.arg(&target).args(["--config", "profile.dev.package.'*'.opt-level=0"]);
        // What the cargo that runs the tests has set is for its own compiler.
        command.env_remove("CARGO").env_remove("RUSTC").env_remove("RUSTUP_TOOLCHAIN");
        self.run(&mut command);
        target.join("debug").join(format!("lib{}.so", self.library))
    }
}

/// The frozen plugin in C, with changes to it or to the header it is compiled with, as `folder/libbyoc_<name>.so`.
pub fn c_plugin(folder: &Path, name: &str, changes: &[Change<'_>]) -> PathBuf {
    let sources = folder.join(format!("{name}-sources"));
    copy_folder(&places::checkout().join(FROZEN).join("c"), &sources);
    compile_c(folder, name, &sources, changes)
}

/// The same with the plugin and the header of today; its backend is `cmatmul`.
pub fn c_plugin_of_today(folder: &Path, name: &str, changes: &[Change<'_>]) -> PathBuf {
    c_plugin_from("matmul.c", folder, name, changes)
}

/// The plugin in C that opens a memory domain; its backend is `cdevice`.
pub fn c_device_plugin(folder: &Path, name: &str, changes: &[Change<'_>]) -> PathBuf {
    c_plugin_from("device.c", folder, name, changes)
}

/// The plugin in C that brings an operator; its backend is `cacme`.
pub fn c_operator_plugin(folder: &Path, name: &str, changes: &[Change<'_>]) -> PathBuf {
    c_plugin_from("swirl.c", folder, name, changes)
}

fn c_plugin_from(file: &str, folder: &Path, name: &str, changes: &[Change<'_>]) -> PathBuf {
    let sources = folder.join(format!("{name}-sources"));
    copy_folder(&places::checkout().join("plugin-api/include"), &sources);
    places::copy_into(&sources, &places::checkout().join("tests/plugins/c").join(file), "plugin.c");
    compile_c(folder, name, &sources, changes)
}

fn compile_c(folder: &Path, name: &str, sources: &Path, changes: &[Change<'_>]) -> PathBuf {
    changes.iter().for_each(|entry| change(sources, entry));
    let library = folder.join(format!("libbyoc_{name}.so"));
    let mut command = Command::new("cc");
    command.args(["-std=c99", "-shared", "-fPIC", "-o"]).arg(&library).arg(sources.join("plugin.c"));
    let output = command.output().expect("Rust links with it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

/// A toolchain that is not the one that runs the tests: with another compiler, and able to build here.
pub fn other_toolchain() -> Option<String> {
    let text = |command: &mut Command| {
        let output = command.output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok()
    };
    let ours = text(Command::new("rustc").arg("--version"))?;
    let list = text(Command::new("rustup").args(["toolchain", "list"]))?;
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let mut others = names.filter(|name| {
        let version = text(Command::new("rustup").args(["run", name, "rustc", "--version"]));
        version.is_some_and(|version| version != ours)
    });
    others.next().map(str::to_owned)
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

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn workspace_manifest() -> String {
    String::from_utf8(places::read(&places::checkout().join("Cargo.toml"))).expect("text")
}

fn change(folder: &Path, (file, text, new): &Change<'_>) {
    let old = String::from_utf8(places::read(&folder.join(file))).expect("text");
    assert!(old.contains(text), "{file} does not say {text}");
    places::write(folder, file, old.replace(text, new));
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the folder is ours");
    for name in places::list(from) {
        let path = from.join(&name);
        if path.is_dir() { copy_folder(&path, &to.join(&name)) } else { drop(places::copy_into(to, &path, &name)) }
    }
}
