//! Shape makers of operators on texts.

use byoc_plugin_api::{Attribute, DType};

use super::{Recipe, Wish, any, with};
use crate::data::WORDS;

/// The recipe for such an operator of ONNX's own domain.
pub(super) fn find(op: &str, Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let word = |text: &str| Attribute::String(text.into());
    let texts = any(DType::String, shape);
    match (op, dtype, shape.as_slice()) {
        ("RegexFullMatch", DType::Bool, _) => with(vec![texts], 1, &[("pattern", word("[a-z]+ ?[a-z]*"))]),
        ("StringConcat", DType::String, _) => with(vec![texts.clone(), texts], 2, &[]),
        ("StringNormalizer", DType::String, [_]) => with(vec![texts], 1, &[("case_change_action", word("UPPER"))]),
        ("StringSplit", DType::String, [front @ .., _]) => {
            let recipe = with(vec![any(DType::String, front)], 1, &[("delimiter", word(" "))])?;
            Some(Recipe { more_outputs: vec![DType::I64], ..recipe })
        }
        _ => None,
    }
}

/// The numbers of all but one of the words, which `CategoryMapper` is given.
pub(super) fn categories(Wish { dtype, shape }: &Wish) -> Option<Recipe> {
    let known = Attribute::Strings(WORDS[1..].iter().map(|&word| word.into()).collect());
    let numbers = Attribute::Ints((1..WORDS.len() as i64).map(|at| 100 - at).collect());
    let attributes = [("cats_strings", known), ("cats_int64s", numbers)];
    (*dtype == DType::I64).then(|| with(vec![any(DType::String, shape)], 1, &attributes))?
}
