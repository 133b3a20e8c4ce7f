//! Texts across the border of a plugin: the host backend as a plugin, one in C, and one that takes none.

use std::path::Path;

use byoc_core::onnx::write;
use byoc_core::plugin::Registry;
use byoc_plugin_api::Attribute;
use byoc_tests::onnx::{Model, Type};
use byoc_tests::tensor::Tensor;
use byoc_tests::{c_plugin, engine, places};

/// Texts are put together, split, and looked at.
fn model() -> Model {
    let model =
        Model::default().opset(20).input("x", Type::String, &[2]).tensor(write::texts("end", &[2], &[",é", ","]));
    let comma = [("delimiter", Attribute::String(",".into()))];
    let model = model.node("StringConcat", &["x", "end"], &["z"]).node_with("StringSplit", &["z"], &["y", "n"], &comma);
    model.output("y", Type::String, &[2, -1]).output("z", Type::String, &[2])
}

fn outputs(folder: &Path, registry: &Registry, backends: &[&str]) -> Result<Vec<(String, Tensor)>, String> {
    let path = places::write(folder, "model.onnx", model().finish());
    let artifact = folder.join("model.byoc");
    engine::compile(&path, &artifact, registry, backends).expect("compiled");
    let mut session = engine::load(&artifact, registry, 1).expect("loaded");
    engine::run(&mut session, &[("x".into(), Tensor::texts(&[2], &["a,b", ""]))]).map_err(|error| error.to_string())
}

fn expected() -> Vec<(String, Tensor)> {
    let parts = Tensor::texts(&[2, 3], &["a", "b", "é", "", "", ""]);
    vec![("y".into(), parts), ("z".into(), Tensor::texts(&[2], &["a,b,é", ","]))]
}

#[test]
fn texts_go_to_a_plugin_and_back() {
    let folder = places::temporary();
    let embedded = outputs(folder.path(), &engine::embedded(), &["json"]);
    let plugin = outputs(folder.path(), &engine::from_files(vec![places::plugin("json")]), &["json"]);
    assert_eq!(embedded, Ok(expected()));
    assert_eq!(plugin, Ok(expected()));
}

/// The source of a plugin in C that takes StringConcat.
fn source() -> String {
    let path = places::checkout().join("tests/plugins/c/strings.c");
    String::from_utf8(places::read(&path)).expect("the source is text")
}

fn with_c(change: (&str, &str)) -> Result<Vec<(String, Tensor)>, String> {
    let (folder, source) = (places::temporary(), source());
    assert!(source.contains(change.0));
    c_plugin::build(folder.path(), &source.replace(change.0, change.1), false);
    let files = vec![folder.path().join("plugin.so"), places::plugin("json")];
    outputs(folder.path(), &engine::from_files(files), &["cstrings", "json"])
}

#[test]
fn a_plugin_in_c_reads_and_makes_texts() {
    assert_eq!(with_c(("", "")), Ok(expected()));
}

/// What a plugin does wrong with texts is an error of the run, whatever it makes of the answer.
#[test]
fn mistakes_of_a_plugin_are_errors() {
    let message =
        |cause: &str| Err(format!("[B703] region byoc_main_cstrings_0 failed on backend 'cstrings': {cause}"));
    // The first handle that the caller is given, and 5000 more.
    let handle = with_c(("a[index], &first", "a[index] + 5000, &first"));
    assert_eq!(handle, message("the handle 9223372036854780809 stands for no text"));
    let invalid = with_c(("both.data = joined;", "both.data = joined; joined[0] = 0xff;"));
    assert_eq!(invalid, message("the plugin made a text that is not UTF-8"));
    let none = with_c(("texts.add(texts.context, both, &y[index])", "texts.add(texts.context, both, NULL)"));
    assert_eq!(none, message("the plugin adds a text without a place for its handle"));
}

/// Without the table the plugin's executable gets no texts.
#[test]
fn a_plugin_without_the_table_is_named() {
    let (folder, source) = (places::temporary(), source());
    c_plugin::build(folder.path(), &source.replace("version == BYOC_STRINGS_VERSION", "version == 99"), false);
    let registry = engine::from_files(vec![folder.path().join("plugin.so"), places::plugin("json")]);
    let path = places::write(folder.path(), "model.onnx", model().finish());
    let artifact = folder.path().join("model.byoc");
    engine::compile(&path, &artifact, &registry, &["cstrings", "json"]).expect("compiled");
    let error = engine::load(&artifact, &registry, 1).map(drop).expect_err("it takes none").to_string();
    assert_eq!(
        error,
        "[B703] backend 'cstrings' cannot load region byoc_main_cstrings_0: this backend takes no strings"
    );
}
