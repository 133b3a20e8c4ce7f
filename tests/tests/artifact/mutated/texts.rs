//! A model of the operators on texts.

use byoc_core::onnx::write;
use byoc_plugin_api::Attribute::{Int, Ints, String, Strings};
use byoc_tests::onnx::{Model, Type};

/// Texts that are put together, changed, split, compared and looked up.
pub(super) fn texts() -> Model {
    let list = |texts: &[&str]| Strings(texts.iter().map(|text| (*text).to_owned()).collect());
    let model = Model::default().opset(20).domain("ai.onnx.ml", 3);
    let model = model.input("x", Type::String, &[3]).tensor(write::texts("end", &[3], &["a", "bb", ""]));
    let model = model.node("StringConcat", &["x", "end"], &["z"]).output("z", Type::String, &[3]);
    let model = model.node_with("RegexFullMatch", &["z"], &["m"], &[("pattern", String("[ab]+".into()))]);
    let normal = [("case_change_action", String("UPPER".into())), ("stopwords", list(&["a"]))];
    let model = model.node_with("StringNormalizer", &["z"], &["n"], &normal);
    let split = [("delimiter", String("b".into())), ("maxsplit", Int(2))];
    let model = model.node_with("StringSplit", &["z"], &["p", "c"], &split);
    let map = [("cats_int64s", Ints(vec![5, 6])), ("cats_strings", list(&["a", "bb"]))];
    let model = model.node_of(("ai.onnx.ml", "CategoryMapper"), &["z"], &["k"], &map);
    let model =
        model.output("m", Type::Bool, &[3]).output("n", Type::String, &[-1]).output("p", Type::String, &[3, -1]);
    model.output("c", Type::Int64, &[3]).output("k", Type::Int64, &[3])
}
