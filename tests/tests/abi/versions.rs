//! Plugins and hosts of different ages. What was built for an older or a newer state of the plugin API, and fits, works;
//! what does not fit is refused in a line. The plugins of the day of ABI 1.0 stand in `tests/plugins/frozen`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use byoc_core::artifact::Artifact;
use byoc_tests::fixture::{Change, Fixture, c_plugin, other_toolchain};
use byoc_tests::program::{byoc, outcome};
use byoc_tests::tensor::{Tensor, Tolerance, compare};
use byoc_tests::trial::{Skip, Trial, optional, trial};
use byoc_tests::{engine, onnx, places};

/// One function more at the end of both tables, as the next minor version of the API would have it.
const GROWN: &[Change<'_>] = &[
    (
        "plugin-api/src/abi.rs",
        "    pub extension: extern \"C\" fn(backend: usize, id: Slice, version: u32) -> *const c_void,\n",
        "    pub extension: extern \"C\" fn(backend: usize, id: Slice, version: u32) -> *const c_void,\n    \
         /// New.\n    pub grown: extern \"C\" fn() -> usize,\n",
    ),
    ("plugin-api/src/export.rs", "free, extension }", "free, extension, grown: count }"),
    (
        "plugin-api/src/table.rs",
        "    pub extension: extern \"C\" fn(backend: usize, id: Slice, version: u32) -> *const c_void,\n",
        "    pub extension: extern \"C\" fn(backend: usize, id: Slice, version: u32) -> *const c_void,\n    \
         /// New.\n    pub grown: Option<extern \"C\" fn() -> usize>,\n",
    ),
    (
        "plugin-api/src/host/handshake.rs",
        "        extension: module.extension(),\n",
        "        extension: module.extension(),\n        grown: module.grown(),\n",
    ),
];

/// A field of a frozen struct has another type, and nobody thought of the version.
const CHANGED: &[Change<'_>] = &[("plugin-api/src/dlpack.rs", "pub byte_offset: u64", "pub byte_offset: u32")];

/// The same of a C plugin: the last function of the table is gone.
const C_SHORTER: &[Change<'_>] = &[
    ("byoc_plugin.h", "  const void *(*extension)(size_t backend, byoc_slice id, uint32_t version);\n", ""),
    ("plugin.c", "free_executable, extension,", "free_executable,"),
];

/// One function more.
const C_GROWN: &[Change<'_>] = &[
    (
        "byoc_plugin.h",
        "  const void *(*extension)(size_t backend, byoc_slice id, uint32_t version);\n",
        "  const void *(*extension)(size_t backend, byoc_slice id, uint32_t version);\n  size_t (*grown)(void);\n",
    ),
    ("plugin.c", "free_executable, extension,", "free_executable, extension, count,"),
];

/// A field has another meaning, so the ABI version was raised.
const C_MEANING: &[Change<'_>] = &[("byoc_plugin.h", "#define BYOC_ABI_VERSION 1", "#define BYOC_ABI_VERSION 2")];

/// The plugin's own version, which is nobody's business but its maker's.
const C_PRODUCT: &[Change<'_>] = &[("plugin.c", "1.0.0", "99.0.0-rc.1")];

/// The backend of another plugin under the name of a second one.
const C_SAME_NAME: &[Change<'_>] = &[("plugin.c", "\\\"name\\\":\\\"frozen-c\\\"", "\\\"name\\\":\\\"frozen\\\"")];

static FROZEN: LazyLock<PathBuf> = LazyLock::new(|| Fixture::frozen().plugin());

/// A plugin and a host, both of the next version.
static NEWER: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
    let fixture = Fixture::changed("grown", "1.1.0", GROWN);
    (fixture.plugin(), fixture.host())
});

/// What becomes of a plugin in this byoc.
enum Outcome {
    /// Its backend of that name compiles and runs.
    Works(&'static str),
    /// It is refused with this line and hint; `{file}` stands for the plugin.
    Refused(&'static str),
}
use Outcome::{Refused, Works};

/// How a plugin comes about, in a folder of the test's own.
type Build = fn(&Path) -> PathBuf;

const MATRIX: &[(&str, Build, Outcome)] = &[
    ("old_plugin_in_rust_with_its_own_allocator", |_| FROZEN.clone(), Works("frozen")),
    ("old_plugin_in_c", |folder| c_plugin(folder, "old", &[]), Works("frozen-c")),
    ("newer_plugin_in_rust", |_| NEWER.0.clone(), Works("template")),
    ("newer_plugin_in_c", |folder| c_plugin(folder, "newer", C_GROWN), Works("frozen-c")),
    ("other_product_version", |folder| c_plugin(folder, "product", C_PRODUCT), Works("frozen-c")),
    (
        "changed_struct_in_rust",
        |_| Fixture::changed("changed", "1.0.1", CHANGED).plugin(),
        Refused(
            "[B302] '{file}': plugin 'byoc-changed' 0.1.0 does not fit this byoc: mismatched type: expected u64, found u32\n  \
             hint: Install a build of byoc-changed for byoc-plugin-api 1.0.0",
        ),
    ),
    (
        "changed_struct_in_c",
        |folder| c_plugin(folder, "shorter", C_SHORTER),
        Refused(
            "[B301] '{file}' cannot be loaded as a plugin: its byoc_plugin_table has 48 bytes, and 56 are needed\n  \
             hint: In Rust a plugin ends with export_plugin!; in C it defines byoc_plugin_info and byoc_plugin_table, as byoc_plugin.h says",
        ),
    ),
    (
        "changed_meaning",
        |folder| c_plugin(folder, "meaning", C_MEANING),
        Refused(
            "[B302] '{file}': plugin 'frozen-c' 1.0.0 speaks ABI 2; this byoc speaks 1\n  \
             hint: Update byoc, or install an older frozen-c",
        ),
    ),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut all: Vec<_> = MATRIX
        .iter()
        .map(|(name, build, expected)| {
            trial(*name, || {
                row(*build, expected);
                Ok(())
            })
        })
        .collect();
    all.push(optional("plugin_of_another_rustc", || {
        let other = other_toolchain().ok_or_else(|| Skip("there is no second Rust toolchain".into()))?;
        works(&[(Fixture::frozen().plugin_of(&other), "frozen")]);
        Ok(())
    }));
    all
}

fn row(build: Build, expected: &Outcome) {
    let folder = places::temporary();
    let plugin = build(folder.path());
    match expected {
        Works(backend) => works(&[(plugin, backend)]),
        Refused(message) => {
            let file = plugin.to_str().expect("a plain path");
            let outcome = outcome(&mut byoc(&["plugin", "list", "--plugin", file]));
            outcome.fails(3, &format!("error: {}", message.replace("{file}", file)));
        }
    }
}

/// A model with something in it for each of the plugins compiles with all of them, each gets a region, and the results
/// are those of the host backend.
fn works(plugins: &[(PathBuf, &str)]) {
    let files = plugins.iter().map(|(file, _)| file.clone()).chain([places::plugin("json")]).collect();
    let registry = engine::from_files(files);
    let folder = places::temporary();
    let weights: Vec<f32> = (0..12).map(|i| i as f32 / 4.0 - 1.0).collect();
    let model = onnx::Model::default()
        .input("x", onnx::Type::Float, &[2, 3])
        .weight("w", &[3, 4], &weights)
        .weight("b", &[4], &[0.5, -0.5, 0.25, -0.25])
        .weight("by", &[1], &[3.0])
        .weight("more", &[2, 4], &weights[..8])
        .node("MatMul", &["x", "w"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("Relu", &["sum"], &["positive"])
        .node("Mul", &["positive", "by"], &["scaled"])
        .node("Add", &["scaled", "more"], &["y"])
        .output("y", onnx::Type::Float, &[2, 4]);
    let (model, path) = (places::write(folder.path(), "model.onnx", model.finish()), folder.path().join("model.byoc"));
    let input = [("x".to_owned(), Tensor::f32(&[2, 3], &[1.0, -2.0, 3.0, 0.5, 0.25, -1.0]))];
    let names: Vec<_> = plugins.iter().map(|(_, name)| *name).collect();
    let results = [&[&names[..], &["json"]].concat()[..], &["json"]].map(|backends| {
        engine::compile(&model, &path, &registry, backends).expect("compiles");
        let artifact = Artifact::open(&path).expect("opens");
        for name in backends {
            assert!(artifact.manifest().regions.iter().any(|region| region.backend == *name), "{name} has no region");
        }
        let mut session = engine::load(&path, &registry, 1).expect("loads");
        engine::run(&mut session, &input).expect("runs")
    });
    compare(&results[0][0].1, &results[1][0].1, Tolerance { relative: 1e-6, absolute: 1e-6 }).expect("the same");
}

#[test]
fn old_plugins_in_a_newer_host() {
    let folder = places::temporary();
    let plugins = [
        (places::plugin("template"), "template (Add ?x ?y)\n"),
        (FROZEN.clone(), "frozen (Mul ?x ?by:const)\n"),
        (c_plugin(folder.path(), "old", &[]), "frozen-c (Add (MatMul ?x ?w:const) ?b:const)\n"),
    ];
    for (plugin, expected) in plugins {
        let output = Command::new(&NEWER.1).arg(plugin).output().expect("the host runs");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn two_plugins_at_once() {
    let folder = places::temporary();
    works(&[
        (FROZEN.clone(), "frozen"),
        (c_plugin(folder.path(), "old", &[]), "frozen-c"),
        (places::plugin("template"), "template"),
    ]);
}

/// The first is taken and the second is listed, whichever of them is newer.
#[test]
fn two_versions_of_a_plugin() {
    let folder = places::temporary();
    let (one, two) = (c_plugin(folder.path(), "one", &[]), c_plugin(folder.path(), "two", C_PRODUCT));
    for (files, version) in [([&one, &two], "1.0.0"), ([&two, &one], "99.0.0-rc.1")] {
        let list = list(files);
        assert_eq!(list["backends"][0]["description"]["version"], version, "{list}");
        assert_eq!(list["backends"][0]["origin"], files[0].to_str().expect("text"), "{list}");
        assert_eq!(list["shadowed"][0]["name"], "frozen-c", "{list}");
        assert_eq!(list["shadowed"][0]["origin"], files[1].to_str().expect("text"), "{list}");
    }
}

/// Two makers chose one name: the same, and both can be used by whoever names one of the files.
#[test]
fn one_name_in_two_plugins() {
    let folder = places::temporary();
    let other = c_plugin(folder.path(), "other", C_SAME_NAME);
    let list = list([&FROZEN, &other]);
    assert_eq!(list["backends"][0]["description"]["summary"], "Multiplies by a constant", "{list}");
    assert_eq!(list["shadowed"][0]["name"], "frozen", "{list}");
    assert_eq!(list["shadowed"][0]["origin"], other.to_str().expect("text"), "{list}");
    works(&[(FROZEN.clone(), "frozen")]);
    works(&[(other, "frozen")]);
}

/// What `byoc plugin list` says of these two files.
fn list(files: [&PathBuf; 2]) -> serde_json::Value {
    let mut command = byoc(&["plugin", "list", "--json"]);
    command.args(files.iter().flat_map(|file| ["--plugin".as_ref(), file.as_os_str()]));
    serde_json::from_str(outcome(&mut command).success()).expect("JSON")
}
