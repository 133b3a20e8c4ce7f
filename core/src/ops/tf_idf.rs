//! TfIdfVectorizer 9.

use byoc_plugin_api::{DType, Dim};

use super::Infer;
use super::attributes::{List, floats, int, ints, string_or, strings};
use super::infer::{INDEX, STRING, bad, mismatch};
use crate::diagnostic::Result;

/// The n-grams are a constant in canonical form, and so are their weights. Their places in the output stay, since the largest of
/// them is its size.
pub(super) const ATTRIBUTES: List = &[
    int("max_gram_length").required(),
    int("max_skip_count").required(),
    int("min_gram_length").required(),
    string_or("mode", "TF").required(),
    ints("ngram_counts").required(),
    ints("ngram_indexes").required(),
    ints("pool_int64s").lifted(),
    strings("pool_strings").lifted(),
    floats("weights").lifted(),
];

/// How often each n-gram is in a row, or what that weighs.
pub(super) fn tf_idf(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, &[INDEX, STRING].concat())?;
    infer.choice("mode", &["TF", "IDF", "TFIDF"])?;
    let (least, most) = (infer.int("min_gram_length", 0)?, infer.int("max_gram_length", 0)?);
    if least < 1 || most < least || infer.int("max_skip_count", -1)? < 0 {
        return Err(bad(
            "attributes 'min_gram_length', 'max_gram_length' and 'max_skip_count' must be there and in order",
        ));
    }
    let list = |name: &str| infer.ints(name)?.ok_or_else(|| bad(format!("attribute '{name}' is missing")));
    let (counts, places) = (list("ngram_counts")?, list("ngram_indexes")?);
    // What an element is compared with.
    let (at, name) = if x.dtype == DType::String { (2, "pool_strings") } else { (1, "pool_int64s") };
    let pool = infer.has(at).then(|| infer.input(at)).transpose()?.and_then(|pool| pool.fixed_shape());
    let pool: usize = pool.ok_or_else(|| bad(format!("attribute '{name}' is missing")))?.iter().product();
    let mut grams = 0;
    for (index, &start) in counts.iter().enumerate() {
        let end = counts.get(index + 1).map_or(i64::try_from(pool).ok(), |&end| Some(end));
        let length = end.and_then(|end| usize::try_from(end.checked_sub(start)?).ok());
        let known = length.filter(|length| start >= 0 && end <= i64::try_from(pool).ok() && length % (index + 1) == 0);
        let length =
            known.ok_or_else(|| bad(format!("attribute 'ngram_counts' does not cut {pool} elements into n-grams")))?;
        grams += length / (index + 1);
    }
    if grams != places.len() {
        return Err(mismatch(format!(
            "there are {grams} n-grams, and attribute 'ngram_indexes' has {} numbers",
            places.len()
        )));
    }
    let largest = places.iter().copied().max().filter(|_| places.iter().all(|place| (0..1 << 28).contains(place)));
    let size = largest.and_then(|largest| usize::try_from(largest).ok()).map(|largest| largest + 1);
    let size = size.ok_or_else(|| bad("attribute 'ngram_indexes' must have places from 0 on"))?;
    if infer.has(3) && infer.input(3)?.fixed_shape().is_none_or(|shape| shape != [grams]) {
        return Err(mismatch(format!("'weights' is {}, and there are {grams} n-grams", infer.input(3)?)));
    }
    let mut shape = match x.shape.as_slice() {
        [_] => vec![],
        [rows, _] => vec![rows.clone()],
        _ => return Err(mismatch(format!("input 0 is {x}, expected one or two dimensions"))),
    };
    shape.push(Dim::Fixed(size));
    infer.set(0, DType::F32, shape);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const GRAMS: &str =
        "mode=TF min_gram_length=1 max_gram_length=2 max_skip_count=0 ngram_counts=[0,3] ngram_indexes=[0,1,5,2,3]";

    const CASES: &[Case] = &[
        ("TfIdfVectorizer", GRAMS, "i64[n,8] u8[7] - f32[5]", "f32[n,6]"),
        ("TfIdfVectorizer", GRAMS, "string[n,8] - string[7] f32[5]", "f32[n,6]"),
        ("TfIdfVectorizer", GRAMS, "i32[8] u8[7]", "f32[6]"),
        (
            "TfIdfVectorizer",
            GRAMS,
            "i32[8] u8[8]",
            "[B106] attribute 'ngram_counts' does not cut 8 elements into n-grams",
        ),
        (
            "TfIdfVectorizer",
            GRAMS,
            "i32[8] u8[9]",
            "[B202] there are 6 n-grams, and attribute 'ngram_indexes' has 5 numbers",
        ),
        ("TfIdfVectorizer", GRAMS, "i32[8] u8[7] - f32[4]", "[B202] 'weights' is f32[4], and there are 5 n-grams"),
        ("TfIdfVectorizer", GRAMS, "f32[8] u8[7]", "[B201] input 0 is f32[8], expected one of i32, i64, string"),
        ("TfIdfVectorizer", GRAMS, "i32[8]", "[B106] attribute 'pool_int64s' is missing"),
    ];

    #[test]
    fn n_grams() {
        check(CASES);
    }
}
