//! `TfIdfVectorizer`.

use std::collections::HashMap;

use byoc_plugin_api::{DType, Error};

use super::array::{Array, shaped};
use super::call::{Call, Outputs};
use super::{ANY, INDEX, Kernel, STRING, kernel};

/// The operator of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("TfIdfVectorizer", tf_idf, &[INDEX.or(STRING), ANY.or(STRING)]),
];

/// The n-grams of each length, with their numbers.
type Grams = Vec<HashMap<Vec<i64>, usize>>;

/// The n-grams, and how many numbers there are.
fn grams(counts: &[i64], pool: &[i64]) -> Option<(Grams, usize)> {
    let mut number = 0;
    let mut all = Vec::with_capacity(counts.len());
    for (index, &start) in counts.iter().enumerate() {
        let end = counts.get(index + 1).map_or(Some(pool.len()), |&end| usize::try_from(end).ok())?;
        let part = pool.get(usize::try_from(start).ok()?..end)?;
        let mut of_length = HashMap::new();
        for gram in part.chunks(index + 1) {
            of_length.insert(gram.to_vec(), number);
            number += 1;
        }
        all.push(of_length);
    }
    Some((all, number))
}

/// `TfIdfVectorizer`: how often each n-gram is in a row, with up to so many elements left out between any two of its own; or its
/// weight; or the product of both.
fn tf_idf(call: &Call<'_, '_>) -> Outputs {
    let unfit = || Error::new("the n-grams of TfIdfVectorizer do not fit its other lists");
    let pool = if call.input(0)?.dtype() == DType::String { 2 } else { 1 };
    call.optional(pool).ok_or_else(unfit)?;
    let [x, pool] = &call.comparable([0, pool])?;
    let pool = pool.to_ints();
    let places = call.node.ints("ngram_indexes").unwrap_or_default();
    let (grams, numbers) = grams(call.node.ints("ngram_counts").unwrap_or_default(), &pool).ok_or_else(unfit)?;
    let weights: Option<Vec<f64>> = call.optional(3).map(|weights| weights.to_f64().into_iter().collect());
    let places =
        places.iter().map(|&place| usize::try_from(place).map_err(|_| unfit())).collect::<Result<Vec<_>, _>>()?;
    if numbers > places.len() || weights.as_ref().is_some_and(|weights| weights.len() != places.len()) {
        return Err(unfit());
    }
    let (rows, columns) = match *x.shape() {
        [columns] => (1, columns),
        [rows, columns] => (rows, columns),
        ref shape => return Err(Error::new(format!("TfIdfVectorizer takes a table, not the shape {shape:?}"))),
    };
    let size = places.iter().max().map_or(0, |largest| largest.saturating_add(1));
    let shape = if x.shape().len() == 1 { vec![size] } else { vec![rows, size] };
    let mut y = vec![0.0; call.count(&shape)?];
    let length = |name: &str| usize::try_from(call.node.int(name, 0)).map_err(|_| unfit());
    let (least, most, skips) = (length("min_gram_length")?, length("max_gram_length")?, length("max_skip_count")?);
    let (mode, elements) = (call.node.string("mode", "TF"), x.to_ints());
    for row in 0..rows {
        let (from, to) = (&elements[row * columns..(row + 1) * columns], &mut y[row * size..(row + 1) * size]);
        count(&grams, from, (least, most, skips), |number| {
            let weight = weights.as_ref().map_or(1.0, |weights| weights[number]);
            let place = &mut to[places[number]];
            match mode {
                "TF" => *place += 1.0,
                "IDF" => *place = weight,
                _ => *place += weight,
            }
        });
    }
    Ok(vec![Array::from_f64(DType::F32, shaped(&shape, y)?)])
}

/// Tells `found` of each n-gram of a row. One of a single element has nothing between.
fn count(
    grams: &[HashMap<Vec<i64>, usize>],
    row: &[i64],
    (least, most, skips): (usize, usize, usize),
    mut found: impl FnMut(usize),
) {
    for (index, of_length) in grams.iter().enumerate().filter(|(index, _)| (least..=most).contains(&(index + 1))) {
        for skip in 0..=if index == 0 { 0 } else { skips } {
            let Some(last) = index.checked_mul(skip.saturating_add(1)).filter(|&last| last < row.len()) else { break };
            for start in 0..row.len() - last {
                let gram: Vec<i64> = row[start..=start + last].iter().step_by(skip + 1).copied().collect();
                of_length.get(&gram).into_iter().for_each(|&number| found(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use crate::testing::{all, first, list, tensor, text};

    /// Figures are onnxruntime's.
    #[test]
    fn n_grams_are_counted_and_weighed() {
        let attributes = |mode: &str, counts: &[i64]| {
            let number = |name, value| (name, Attribute::Int(value));
            let places = ("ngram_indexes", list(&[5, 4, 3, 2, 1, 0]));
            let lengths = [number("min_gram_length", 1), number("max_gram_length", 2), number("max_skip_count", 2)];
            [&lengths[..], &[("mode", text(mode)), ("ngram_counts", list(counts)), places]].concat()
        };
        let x = || tensor(&[2, 8], &[1i64, 1, 3, 3, 3, 7, 8, 6, 5, 4, 5, 6, 7, 5, 2, 5]);
        let pool = || tensor(&[9], &[2u8, 3, 5, 5, 4, 5, 6, 7, 8]);
        let weights = || tensor(&[6], &[1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let run = |mode: &str| first("TfIdfVectorizer", &attributes(mode, &[0, 3]), vec![x(), pool(), None, weights()]);
        assert_eq!(run("TF"), (vec![2, 6], vec![1.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 2.0, 1.0, 4.0, 0.0, 1.0]));
        assert_eq!(run("IDF").1, [6.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 5.0, 4.0, 3.0, 0.0, 1.0]);
        assert_eq!(run("TFIDF").1, [6.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0, 10.0, 4.0, 12.0, 0.0, 1.0]);
        for counts in [&[0, 12][..], &[-1], &[0]] {
            let error = all("TfIdfVectorizer", &attributes("TF", counts), vec![x(), pool()]).map(drop);
            assert_eq!(error.expect_err("counts").message, "the n-grams of TfIdfVectorizer do not fit its other lists");
        }
    }
}
