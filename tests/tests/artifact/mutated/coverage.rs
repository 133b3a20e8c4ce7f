//! That the models have code of every kind: each kernel, recipe and part of one that the host backend's source has a form
//! for, and each operator that has a reference kernel, but for those that no artifact has.

use std::collections::BTreeSet;

use byoc_json_backend::reference::kernels;
use byoc_tests::mutator::Mutator;
use byoc_tests::places;
use byoc_tests::trial::Needed;
use serde_json::Value;
use syn::Item;

use super::bases::bases;
use super::compiled;

/// Where the forms of code are, below the source of the host backend.
const FORMS: [(&str, &str); 8] = [
    ("program/op.rs", "Op"),
    ("kernels/conv.rs", "ConvKind"),
    ("kernels/recurrent.rs", "Cell"),
    ("program/op.rs", "Side"),
    ("program.rs", "Source"),
    ("constants/integer.rs", "Form"),
    ("constants/recipe.rs", "Recipe"),
    ("constants/parts.rs", "Part"),
];

/// Operators that are computed when a model is compiled, or are views of what they are given.
const NEVER: [&str; 5] = ["ConstantOfShape", "Identity", "Range", "Squeeze", "Unsqueeze"];

/// Every word of the code of every model.
fn words() -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    for base in bases() {
        let folder = places::temporary();
        for (_, path) in compiled(&base, folder.path()) {
            Mutator::new(&places::read(&path), false).documents().for_each(|document| collect(document, &mut words));
        }
    }
    words
}

fn collect(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => drop(words.insert(text.clone())),
        Value::Array(list) => list.iter().for_each(|item| collect(item, words)),
        Value::Object(fields) => fields.iter().for_each(|(key, item)| {
            words.insert(key.clone());
            collect(item, words);
        }),
        _ => {}
    }
}

/// The variants of an enum of the source, as they are written in code.
fn variants(file: &str, name: &str) -> Vec<String> {
    let path = places::checkout().join("backends/json/src").join(file);
    let file = syn::parse_file(&String::from_utf8(places::read(&path)).expect("text")).expect("it compiles");
    let found = file.items.into_iter().find_map(|item| match item {
        Item::Enum(item) if item.ident == name => Some(item),
        _ => None,
    });
    let variants = found.unwrap_or_else(|| panic!("there is no {name}")).variants;
    variants.iter().map(|variant| snake_case(&variant.ident.to_string())).collect()
}

/// As serde writes it with `rename_all = "snake_case"`.
fn snake_case(name: &str) -> String {
    let mut text = String::new();
    for (at, letter) in name.char_indices() {
        if letter.is_uppercase() && at > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

pub(crate) fn every_kernel() -> Needed<()> {
    let words = words();
    let forms = FORMS.into_iter().flat_map(|(file, name)| variants(file, name));
    let operators = kernels().map(|kernel| kernel.op.to_owned()).filter(|op| !NEVER.contains(&op.as_str()));
    let missing: Vec<_> = forms.chain(operators).filter(|word| !words.contains(word)).collect();
    assert!(missing.is_empty(), "no model has {missing:?}");
    Ok(())
}
