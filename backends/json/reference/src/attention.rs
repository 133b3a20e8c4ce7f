//! `Attention`: scaled dot products with masks, grouped heads and a key-value cache, all in `f64`.

use byoc_plugin_api::{Attribute, Error};
use ndarray::{Array2, Array4, ArrayD, ArrayView2, Axis, Ix4, concatenate, s};

use super::array::Array;
use super::call::{Call, Outputs};
use super::matmul::dot;
use super::softmax::softmax_row;
use super::{ANY, FLOAT, I64, Kernel, SAME, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Attention", attention, &[FLOAT, SAME, FLOAT, ANY, SAME, FLOAT, I64]),
];

/// An input as `(batch, heads, tokens, size)`; one of rank 3 has its heads in the last axis, `heads` of them.
fn heads(x: &Array<'_>, heads: i64) -> Result<Array4<f64>, Error> {
    let wrong = || Error::new(format!("Attention cannot take {:?} with {heads} heads", x.shape()));
    let array = x.to_f64();
    match *x.shape() {
        [_, _, _, _] => array.into_dimensionality::<Ix4>().map_err(|_| wrong()),
        [batch, tokens, hidden] => {
            let heads =
                usize::try_from(heads).ok().filter(|&heads| heads > 0 && hidden % heads == 0).ok_or_else(wrong)?;
            let split = array.into_shape_with_order((batch, tokens, heads, hidden / heads)).map_err(|_| wrong())?;
            Ok(split.permuted_axes([0, 2, 1, 3]).as_standard_layout().into_owned())
        }
        _ => Err(wrong()),
    }
}

/// The cache with the new tokens behind it.
fn with_past(past: Option<&Array<'_>>, new: Array4<f64>) -> Result<Array4<f64>, Error> {
    let Some(past) = past else { return Ok(new) };
    let past = heads(past, 0)?;
    concatenate(Axis(2), &[past.view(), new.view()])
        .map(|joined| joined.as_standard_layout().into_owned())
        .map_err(|_| Error::new(format!("a cache of {:?} for {:?}", past.shape(), new.shape())))
}

/// What is added to the scores of one query: minus infinity where it must not look.
struct Mask<'a> {
    /// The mask input as something to add, in the rank it came in.
    added: Option<ArrayD<f64>>,
    /// Keys of the cache, before the queries' own.
    past: Past<'a>,
    /// How many keys before and behind its own a query sees; `None` if it sees all.
    window: [Option<i64>; 2],
    /// Tokens that are not padding, for each of the batch.
    lengths: Option<&'a [i64]>,
}

/// Keys before those of the queries themselves.
enum Past<'a> {
    /// As many as the cache has.
    Cached(usize),
    /// The keys hold the cache and the queries' own: those that are not padding, for each of the batch, end with the last
    /// of so many queries.
    Within(&'a [i64], usize),
}

impl Past<'_> {
    /// How many there are. Queries may be more than keys: the first ones then see none.
    fn keys(&self, batch: usize) -> i64 {
        match self {
            Past::Cached(keys) => *keys as i64,
            Past::Within(lengths, queries) => lengths[batch].saturating_sub(*queries as i64),
        }
    }
}

impl Mask<'_> {
    /// The mask input; `true` becomes 0 and `false` minus infinity.
    fn added(mask: &Array<'_>, scores: [usize; 4]) -> Result<ArrayD<f64>, Error> {
        let mut added = mask.to_f64();
        if matches!(mask, Array::Bool(_)) {
            added.mapv_inplace(|seen| if seen != 0.0 { 0.0 } else { f64::NEG_INFINITY });
        }
        let skipped = 4usize.checked_sub(added.ndim());
        let fits = skipped.is_some_and(|skipped| {
            let sizes = added.shape().iter().zip(&scores[skipped..]).enumerate();
            sizes
                .into_iter()
                .all(|(i, (&size, &wanted))| size == 1 || size == wanted || skipped + i == 3 && size < wanted)
        });
        if fits && added.ndim() > 0 {
            Ok(added)
        } else {
            Err(Error::new(format!("a mask of {:?} for scores of {scores:?}", mask.shape())))
        }
    }

    /// What to add to the score of query `q` for key `k`.
    fn at(&self, [batch, head, q, k]: [usize; 4]) -> f64 {
        let behind = (k as i64).saturating_sub(self.past.keys(batch).saturating_add(q as i64));
        let [left, right] = self.window;
        let hidden = left.is_some_and(|left| behind.saturating_neg() > left)
            || right.is_some_and(|right| behind > right)
            || self.lengths.is_some_and(|lengths| k as i64 >= lengths[batch]);
        if hidden {
            return f64::NEG_INFINITY;
        }
        let Some(added) = &self.added else { return 0.0 };
        let shape = added.shape();
        // A mask for fewer keys hides the rest, one for a single key too.
        if k >= shape[shape.len() - 1] {
            return f64::NEG_INFINITY;
        }
        let skipped = 4 - shape.len();
        let position: Vec<usize> = [batch, head, q, k][skipped..]
            .iter()
            .zip(shape)
            .map(|(&at, &size)| if size == 1 { 0 } else { at })
            .collect();
        added[position.as_slice()]
    }
}

/// How far a query sees to either side of its own key. Causal ones see nothing that follows it.
fn window(call: &Call<'_, '_>) -> [Option<i64>; 2] {
    let side = |name: &str| Some(call.node.int(name, -1)).filter(|&size| size >= 0);
    let right = side("right_window_size");
    let causal = call.node.int("is_causal", 0) != 0;
    [side("left_window_size"), if causal { Some(0) } else { right }]
}

/// `Attention`.
pub(crate) fn attention(call: &Call<'_, '_>) -> Outputs {
    let node = call.node;
    let (q_heads, kv_heads) = (node.int("q_num_heads", 0), node.int("kv_num_heads", 0));
    let query = heads(call.input(0)?, q_heads)?;
    let past_tokens = call.optional(4).and_then(|past| past.shape().get(2).copied()).unwrap_or(0);
    let key = with_past(call.optional(4), heads(call.input(1)?, kv_heads)?)?;
    let value = with_past(call.optional(5), heads(call.input(2)?, kv_heads)?)?;
    let (batch, heads, queries, size) = query.dim();
    let (key_heads, keys) = (key.dim().1, key.dim().2);
    let grouped = key_heads > 0 && heads.is_multiple_of(key_heads);
    if !grouped && heads > 0 || key.dim().0 != batch || key.dim().3 != size || value.shape()[..3] != key.shape()[..3] {
        return Err(Error::new(format!(
            "query {:?}, key {:?} and value {:?} do not fit",
            query.shape(),
            key.shape(),
            value.shape()
        )));
    }
    let scale = match node.attributes.get("scale") {
        Some(Attribute::Float(scale)) => f64::from(*scale),
        _ => 1.0 / (size as f64).sqrt(),
    };
    let lengths = call.ints(6);
    if lengths.as_ref().is_some_and(|lengths| lengths.len() != batch) {
        return Err(Error::new("nonpad_kv_seqlen does not have one element a batch"));
    }
    let past = match &lengths {
        Some(lengths) if call.optional(4).is_none() => Past::Within(lengths, queries),
        _ => Past::Cached(past_tokens),
    };
    let mask = Mask {
        added: call.optional(3).map(|mask| Mask::added(mask, [batch, heads, queries, keys])).transpose()?,
        past,
        window: window(call),
        lengths: lengths.as_deref(),
    };
    let softcap = f64::from(node.float("softcap", 0.0));
    let mut scores = Array4::zeros((batch, heads, queries, keys));
    let mut y = Array4::zeros((batch, heads, queries, value.dim().3));
    for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
        let group = h / (heads / key_heads);
        let (query, key) = (query.slice(s![b, h, .., ..]), key.slice(s![b, group, .., ..]));
        let bias = |q: usize, k: usize| mask.at([b, h, q, k]);
        let stages = Stages::new(&query, &key, scale, softcap, bias);
        y.slice_mut(s![b, h, .., ..]).assign(&dot(&stages.weights.view(), &value.slice(s![b, group, .., ..])));
        scores.slice_mut(s![b, h, .., ..]).assign(stages.wanted(node.int("qk_matmul_output_mode", 0)));
    }
    outputs(call, y, [key, value, scores])
}

/// The scores of one head after each step.
struct Stages {
    raw: Array2<f64>,
    capped: Array2<f64>,
    masked: Array2<f64>,
    weights: Array2<f64>,
}

impl Stages {
    fn new(
        query: &ArrayView2<'_, f64>,
        key: &ArrayView2<'_, f64>,
        scale: f64,
        softcap: f64,
        bias: impl Fn(usize, usize) -> f64,
    ) -> Stages {
        let raw = dot(query, &key.t()) * scale;
        let capped = if softcap > 0.0 { raw.mapv(|score| (score / softcap).tanh() * softcap) } else { raw.clone() };
        let mut masked = capped.clone();
        masked.indexed_iter_mut().for_each(|((q, k), score)| *score += bias(q, k));
        let mut weights = masked.clone();
        for mut row in weights.rows_mut() {
            match row.as_slice_mut() {
                // Where every key is masked there is nothing to divide by: ONNX's own reference and onnxruntime give
                // zeros. Softmax, the operator, gives NaN.
                Some(row) if row.iter().all(|&score| score == f64::NEG_INFINITY) => row.fill(0.0),
                Some(row) => softmax_row(row),
                None => {}
            }
        }
        Stages { raw, capped, masked, weights }
    }

    /// The stage that `qk_matmul_output_mode` asks for.
    fn wanted(&self, mode: i64) -> &Array2<f64> {
        match mode {
            1 => &self.capped,
            2 => &self.masked,
            3 => &self.weights,
            _ => &self.raw,
        }
    }
}

/// The four outputs, in the rank and types of the inputs.
fn outputs(call: &Call<'_, '_>, y: Array4<f64>, [key, value, scores]: [Array4<f64>; 3]) -> Outputs {
    let (query_type, value_type) = (call.input(0)?.dtype(), call.input(2)?.dtype());
    let y = if call.input(0)?.shape().len() == 3 {
        let (batch, heads, queries, size) = y.dim();
        let merged = y.permuted_axes([0, 2, 1, 3]).as_standard_layout().into_owned();
        let merged = merged.into_shape_with_order((batch, queries, heads * size));
        merged.map_err(|error| Error::new(error.to_string()))?.into_dyn()
    } else {
        y.into_dyn()
    };
    let all = [
        (query_type, y),
        (query_type, key.into_dyn()),
        (value_type, value.into_dyn()),
        (query_type, scores.into_dyn()),
    ];
    Ok(all.into_iter().map(|(dtype, array)| Array::from_f64(dtype, array)).collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{all, counting, first, tensor};
    use super::*;

    /// Queries of zeros weigh every key they see the same, so the outputs are means of the values.
    fn means(
        heads: [usize; 2],
        queries: usize,
        attributes: &[(&str, i64)],
        rest: Vec<Option<Array<'static>>>,
    ) -> Vec<f64> {
        let zeros = |heads, tokens| tensor(&[1, heads, tokens, 1], &vec![0f32; heads * tokens]);
        let attributes: Vec<_> = attributes.iter().map(|&(name, value)| (name, Attribute::Int(value))).collect();
        let inputs = vec![zeros(heads[0], queries), zeros(heads[1], 3), counting(&[1, heads[1], 3, 1])];
        first("Attention", &attributes, [inputs, rest].concat()).1
    }

    #[test]
    fn each_query_sees_what_the_masks_leave() {
        assert_eq!(means([1, 1], 2, &[], vec![]), [2.0, 2.0]);
        assert_eq!(means([1, 1], 3, &[("is_causal", 1)], vec![]), [1.0, 1.5, 2.0]);
        let mask = tensor(&[2, 3], &[false, true, false, true, false, true]);
        assert_eq!(means([1, 1], 2, &[], vec![mask]), [2.0, 2.0]);
        // A mask for two of three keys hides the third, and one for the first hides both others.
        assert_eq!(means([1, 1], 1, &[], vec![tensor(&[1, 2], &[0f32, 0.0])]), [1.5]);
        assert_eq!(means([1, 1], 1, &[], vec![tensor(&[1, 1], &[7f32])]), [1.0]);
        let lengths = vec![None, None, None, tensor(&[1], &[2i64])];
        assert_eq!(means([1, 1], 1, &[], lengths), [1.5]);
        // With a cache among the keys, the last query sees all that is not padding.
        let lengths = vec![None, None, None, tensor(&[1], &[3i64])];
        assert_eq!(means([1, 1], 2, &[("is_causal", 1)], lengths), [1.5, 2.0]);
    }

    #[test]
    fn windows_hide_what_is_far_away() {
        assert_eq!(means([1, 1], 3, &[("left_window_size", 0)], vec![]), [2.0, 2.5, 3.0]);
        assert_eq!(means([1, 1], 3, &[("right_window_size", 1)], vec![]), [1.5, 2.0, 2.0]);
        let both = [("left_window_size", 1), ("right_window_size", 0)];
        assert_eq!(means([1, 1], 3, &both, vec![]), [1.0, 1.5, 2.5]);
        assert_eq!(means([1, 1], 3, &[("right_window_size", 2), ("is_causal", 1)], vec![]), [1.0, 1.5, 2.0]);
        // The keys end with that of the last query.
        let lengths = vec![None, None, None, tensor(&[1], &[3i64])];
        assert_eq!(means([1, 1], 2, &[("left_window_size", 0)], lengths), [2.5, 3.0]);
        let past = |value: f32| tensor(&[1, 1, 1, 1], &[value]);
        let cached = vec![None, past(0.0), past(6.0)];
        assert_eq!(means([1, 1], 1, &both, cached), [3.5]);
    }

    #[test]
    fn a_query_without_keys_gives_zeros() {
        let hidden = tensor(&[2, 3], &[false, false, false, true, false, false]);
        assert_eq!(means([1, 1], 2, &[], vec![hidden]), [0.0, 1.0]);
        let minus = f32::NEG_INFINITY;
        let added = tensor(&[2, 3], &[minus, minus, minus, 0.0, 0.0, 0.0]);
        assert_eq!(means([1, 1], 2, &[], vec![added]), [0.0, 2.0]);
        let unknown = means([1, 1], 1, &[], vec![tensor(&[1, 3], &[f32::NAN, minus, minus])]);
        assert!(unknown[0].is_nan(), "a NaN is not a mask");
    }

    #[test]
    fn heads_share_keys_and_caches_come_first() {
        assert_eq!(means([4, 2], 1, &[], vec![]), [2.0, 2.0, 5.0, 5.0]);
        let past = |value: f32| tensor(&[1, 1, 1, 1], &[value]);
        let cached = vec![None, past(0.0), past(6.0)];
        assert_eq!(means([1, 1], 2, &[("is_causal", 1)], cached.clone()), [3.5, 3.0]);
        // The only query is the first one still, and does not see the keys of the later ones.
        assert_eq!(means([1, 1], 1, &[("is_causal", 1)], cached), [3.5]);
    }

    #[test]
    fn scores_are_given_after_the_wanted_stage() {
        let one = |value: f32| tensor(&[1, 1, 1, 1], &[value]);
        for (mode, expected) in [(0, 6.0), (1, 2.0 * 3f64.tanh()), (2, 2.0 * 3f64.tanh() + 1.0), (3, 1.0)] {
            let attributes = [("softcap", Attribute::Float(2.0)), ("qk_matmul_output_mode", Attribute::Int(mode))];
            let outputs =
                all("Attention", &attributes, vec![one(2.0), one(3.0), one(5.0), one(1.0)]).expect("attention");
            assert!((outputs[3].to_f64()[[0, 0, 0, 0]] - expected).abs() < 1e-6, "mode {mode}");
        }
        assert!(all("Attention", &[], vec![counting(&[1, 2, 4]), counting(&[1, 2, 4]), counting(&[1, 2, 4])]).is_err());
    }
}
