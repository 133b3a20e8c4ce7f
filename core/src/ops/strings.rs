//! Operators on texts, after ONNX: RegexFullMatch 20, StringConcat 20, StringNormalizer 10, StringSplit 20. And the one of byoc's own
//! domain that makes a tensor of texts of a constant.

use byoc_plugin_api::{DType, Dim};

use super::OpDef;
use super::attributes::{List, int, int_or, ints, string, string_or, strings};
use super::infer::{Infer, STRING, bad, mismatch, unknown};
use super::run_time::{PartialType, Size};
use crate::diagnostic::Result;

/// The domain of operators of byoc's own, which the importer brings in.
pub const DOMAIN: &str = "byoc";

/// Makes texts of a constant of bytes ([`byoc_plugin_api::text_block`]).
pub const DECODE: &str = "DecodeStrings";

/// Every operator of that domain.
pub static OPS: &[OpDef] =
    &[OpDef { domain: DOMAIN, ..OpDef::new(DECODE, 1, (1, 1), decode) }.attributes(&[ints("shape").required()])];

pub(super) const FULL_MATCH: List = &[string("pattern")];
pub(super) const NORMALIZER: List = &[
    string_or("case_change_action", "NONE"),
    int_or("is_case_sensitive", 0),
    string("locale"),
    strings("stopwords").lifted(),
];
pub(super) const SPLIT: List = &[string("delimiter"), int("maxsplit")];

/// DecodeStrings: the texts of a block, in a tensor of the shape in attribute `shape`.
fn decode(infer: &mut Infer<'_>) -> Result<()> {
    infer.ranked(0, &[DType::U8], 1)?;
    let sizes = infer.ints("shape")?.ok_or_else(|| bad("attribute 'shape' is missing"))?;
    let size = |&size: &i64| usize::try_from(size).map(Dim::Fixed);
    let shape = sizes.iter().map(size).collect::<std::result::Result<Vec<_>, _>>();
    let shape = shape.map_err(|_| bad(format!("attribute 'shape' is {sizes:?}, which has a negative size")))?;
    infer.set(0, DType::String, shape);
    Ok(())
}

/// RegexFullMatch: whether all of each text matches.
pub(super) fn full_match(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, STRING)?;
    infer.set(0, DType::Bool, x.shape);
    Ok(())
}

/// StringConcat: the texts of both inputs one behind the other.
pub(super) fn concat(infer: &mut Infer<'_>) -> Result<()> {
    infer.typed(0, STRING)?;
    infer.typed(1, STRING)?;
    let shape = infer.broadcast(0)?;
    infer.set(0, DType::String, shape);
    Ok(())
}

/// The input of StringNormalizer: a list, or a row of a table of one.
fn list(infer: &Infer<'_>) -> Result<Vec<Dim>> {
    let x = infer.typed(0, STRING)?;
    infer.choice("case_change_action", &["NONE", "LOWER", "UPPER"])?;
    match x.shape.as_slice() {
        [_] => Ok(x.shape),
        [row, _] if row.fixed().is_none_or(|row| row == 1) => Ok(x.shape),
        _ => Err(mismatch(format!("input 0 is {x}, expected a list of texts, or one row of them"))),
    }
}

/// StringNormalizer: without stop words every text stays.
pub(super) fn normalizer(infer: &mut Infer<'_>) -> Result<()> {
    let shape = list(infer)?;
    let some = shape.last().and_then(Dim::fixed).is_some_and(|count| count > 0);
    if infer.has(1) || !some {
        return Err(unknown("how many texts are left is known only at run time"));
    }
    infer.set(0, DType::String, shape);
    Ok(())
}

/// StringNormalizer, of texts that may be stop words.
pub(super) fn some_normalized(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let mut shape: Vec<Size> = list(infer)?.into_iter().map(Size::Known).collect();
    if let Some(last) = shape.last_mut() {
        *last = Size::Open(0);
    }
    if let [row, _] = shape.as_mut_slice() {
        *row = Size::Known(Dim::Fixed(1));
    }
    Ok(Some(vec![PartialType { dtype: DType::String, shape }]))
}

/// StringSplit: how many parts the text with the most has is known only at run time.
pub(super) fn split(infer: &mut Infer<'_>) -> Result<()> {
    infer.typed(0, STRING)?;
    Err(unknown("how many parts the texts have is known only at run time"))
}

/// StringSplit: the parts of each text, filled up with empty ones, and how many there are.
pub(super) fn some_parts(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.typed(0, STRING)?;
    let known = || x.shape.iter().cloned().map(Size::Known);
    let parts = PartialType { dtype: DType::String, shape: known().chain([Size::Open(0)]).collect() };
    Ok(Some(vec![parts, PartialType { dtype: DType::I64, shape: known().collect() }]))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const STRINGS: &[Case] = &[
        ("byoc.DecodeStrings", "shape=[2,3]", "u8[70]", "string[2,3]"),
        ("byoc.DecodeStrings", "shape=[-1]", "u8[70]", "[B106] attribute 'shape' is [-1], which has a negative size"),
        ("byoc.DecodeStrings", "", "u8[70]", "[B106] attribute 'shape' is missing"),
        ("RegexFullMatch", "pattern=a*", "string[n,3]", "bool[n,3]"),
        ("RegexFullMatch", "pattern=a*", "i64[3]", "[B201] input 0 is i64[3], expected string"),
        ("StringConcat", "", "string[n,1] string[3]", "string[n,3]"),
        ("StringConcat", "", "string[n] c64[n]", "[B201] input 1 is c64[n], a type that the operator does not take"),
        ("StringNormalizer", "", "string[3]", "string[3]"),
        ("StringNormalizer", "case_change_action=UPPER", "string[1,n]", "string[1,n_size0]"),
        ("StringNormalizer", "", "string[3] string[2]", "string[n_size0]"),
        (
            "StringNormalizer",
            "",
            "string[2,3]",
            "[B202] input 0 is string[2,3], expected a list of texts, or one row of them",
        ),
        ("StringSplit", "delimiter=,", "string[n,2]", "string[n,2,n_size0] i64[n,2]"),
        ("Reshape", "", "c128[4] i64[2]=2,2", "c128[2,2]"),
        ("Gather", "", "string[4] i64[2]", "string[2]"),
        ("Equal", "", "string[4] string[1]", "bool[4]"),
        ("Equal", "", "c64[4] c64[1]", "[B201] input 0 is c64[4], a type that the operator does not take"),
        ("Cast", "to=8", "f32[4]", "string[4]"),
        ("Cast", "to=14", "f32[4]", "[B106] attribute 'to' is 14, and nothing is cast to c64"),
        (
            "ScatterElements",
            "reduction=add",
            "string[4] i64[2] string[2]",
            "[B201] input 0 is string[4], and nothing is added to that",
        ),
    ];

    #[test]
    fn texts_and_complex_numbers() {
        check(STRINGS);
    }
}
