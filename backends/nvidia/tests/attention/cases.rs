//! The problems on which the attention kernels are tested, on the host and on devices.

use std::collections::HashMap;

use byoc_dim as dim;
use byoc_nvidia::attention::{Effect, Layout, Mask, Spec};
use byoc_plugin_api::{DType, Dim};

/// The types that have a kernel of their own. What differs between f16 and bf16 is in all of their head sizes.
pub(crate) const TYPES: [DType; 2] = [DType::F16, DType::F32];

/// A list of problems.
pub(crate) type Cases = fn() -> Vec<Spec>;

/// All lists, by name.
pub(crate) const ALL: [(&str, Cases); 7] = [
    ("head sizes", head_sizes),
    ("lengths, heads and scores", lengths_heads_and_scores),
    ("masks", masks),
    ("layouts", layouts),
    ("sizes of the run", sizes_of_the_run),
    ("long", long),
    ("warpgroups", warpgroups),
];

/// The greatest difference to f64 that is allowed: weights are rounded to the type before they are multiplied, and so is the
/// result.
pub(crate) fn allowed(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => 5e-6,
        DType::F16 => 4e-3,
        _ => 3e-2,
    }
}

pub(crate) fn plain(dtype: DType) -> Spec {
    Spec {
        dtype,
        batch: 1.into(),
        heads: 2,
        kv_heads: 2,
        queries: 40.into(),
        keys: 40.into(),
        size: 32,
        value_size: 32,
        scale: 0.2,
        softcap: 0.0,
        causal: false,
        mask: None,
        q: Layout::HeadsFirst,
        k: Layout::HeadsFirst,
        v: Layout::HeadsFirst,
        y: Layout::HeadsFirst,
    }
}

pub(crate) fn symbol(text: &str) -> Dim {
    Dim::Symbolic(text.into())
}

pub(crate) fn rows(width: usize, start: usize) -> Layout {
    Layout::RowsFirst { width, start }
}

/// The sizes of symbols in these tests. No key is there where they are counted by `none`.
pub(crate) fn size(of: &Dim) -> usize {
    let symbols = [("b", 2), ("s", 45), ("p", 30), ("none", 0)].map(|(name, size)| (name.to_owned(), size));
    match of {
        Dim::Fixed(size) => *size,
        Dim::Symbolic(text) => dim::eval(text, &HashMap::from(symbols)).expect("its symbols are known"),
    }
}

fn head_sizes() -> Vec<Spec> {
    let sizes = [(8, 8), (16, 16), (64, 64), (72, 40), (128, 128), (192, 128), (256, 256)];
    let types = [DType::F16, DType::BF16, DType::F32];
    let specs = types.iter().flat_map(|&dtype| {
        let tails = Spec { heads: 1, kv_heads: 1, queries: 37.into(), keys: 70.into(), ..plain(dtype) };
        sizes.map(|(size, value_size)| Spec { size, value_size, scale: 1.0 / (size as f32).sqrt(), ..tails.clone() })
    });
    specs.collect()
}

fn lengths_heads_and_scores() -> Vec<Spec> {
    let specs = TYPES.iter().flat_map(|&dtype| {
        let long = |queries: usize, keys: usize| Spec { queries: queries.into(), keys: keys.into(), ..plain(dtype) };
        [
            Spec { causal: true, heads: 4, ..long(150, 150) },
            Spec { causal: true, softcap: 1.5, ..long(90, 33) },
            Spec { causal: true, batch: 2.into(), ..long(33, 130) },
            Spec { scale: -0.3, ..long(20, 70) },
            Spec { batch: 2.into(), heads: 40, kv_heads: 8, size: 16, value_size: 16, ..long(64, 64) },
            long(1, 1),
        ]
    });
    specs.collect()
}

/// More tiles of keys than are in shared memory at a time, and more blocks of queries than one.
fn long() -> Vec<Spec> {
    let types = [DType::F16, DType::BF16, DType::F32];
    let specs = types.iter().flat_map(|&dtype| {
        let of = |queries: usize, keys: usize, size: usize| Spec {
            queries: queries.into(),
            keys: keys.into(),
            size,
            value_size: size,
            scale: 1.0 / (size as f32).sqrt(),
            ..plain(dtype)
        };
        [
            of(257, 1030, 64),
            Spec { causal: true, ..of(300, 300, 128) },
            Spec { heads: 8, kv_heads: 2, ..of(1, 1000, 128) },
        ]
    });
    specs.collect()
}

/// A batch that is known late has blocks of 64 queries, which `wgmma` multiplies where there is any.
fn warpgroups() -> Vec<Spec> {
    let specs = [DType::F16, DType::BF16].into_iter().flat_map(|dtype| {
        let of = |queries: usize, keys: usize, size: usize, value_size: usize| Spec {
            batch: symbol("b"),
            queries: queries.into(),
            keys: keys.into(),
            size,
            value_size,
            scale: 1.0 / (size as f32).sqrt(),
            ..plain(dtype)
        };
        let added = Mask { effect: Effect::Added(DType::F32), shape: [1, 1, 65, 200].map(Dim::Fixed), short: false };
        let three = |start: usize| rows(3 * 128, start);
        [
            of(64, 128, 64, 64),
            of(100, 330, 64, 64),
            of(70, 150, 128, 128),
            of(65, 70, 64, 128),
            of(65, 70, 128, 64),
            Spec { causal: true, heads: 4, kv_heads: 1, ..of(130, 130, 64, 64) },
            Spec { mask: Some(added), ..of(65, 200, 64, 64) },
            Spec { q: three(0), k: three(128), v: three(256), y: rows(128, 0), ..of(64, 64, 64, 64) },
            Spec { queries: symbol("s"), keys: symbol("p + s"), softcap: 1.5, ..of(1, 1, 64, 64) },
        ]
    });
    specs.collect()
}

fn masked(dtype: DType, effect: Effect, shape: [usize; 4]) -> Spec {
    let mask = Mask { effect, shape: shape.map(Dim::Fixed), short: ![1, 77].contains(&shape[3]) };
    Spec { batch: 2.into(), queries: 50.into(), keys: 77.into(), mask: Some(mask), ..plain(dtype) }
}

fn masks() -> Vec<Spec> {
    let shapes = [[1, 1, 1, 77], [2, 1, 1, 77], [2, 2, 50, 77], [1, 2, 1, 77], [1, 1, 50, 1], [1, 1, 50, 60]];
    let specs = TYPES.iter().flat_map(|&dtype| {
        let added =
            shapes.map(|shape| masked(dtype, Effect::Added(if shape[0] == 1 { DType::F32 } else { dtype }), shape));
        let fills = [(false, f32::NEG_INFINITY), (false, f32::MIN), (true, -1e4)];
        let fills = fills.map(|(hides, fill)| masked(dtype, Effect::Fills { hides, fill }, [2, 1, 50, 77]));
        added.into_iter().chain(fills)
    });
    specs.collect()
}

fn layouts() -> Vec<Spec> {
    let specs = TYPES.iter().flat_map(|&dtype| {
        let three = Spec { batch: 2.into(), heads: 3, kv_heads: 3, ..plain(dtype) };
        [
            Spec { q: rows(96, 0), k: rows(96, 0), v: rows(96, 0), y: rows(96, 0), ..three.clone() },
            Spec { q: rows(288, 0), k: rows(288, 96), v: rows(288, 192), y: rows(96, 0), ..three },
            Spec { heads: 4, kv_heads: 1, value_size: 16, q: rows(128, 0), y: rows(64, 0), ..plain(dtype) },
        ]
    });
    specs.collect()
}

fn sizes_of_the_run() -> Vec<Spec> {
    let specs = TYPES.iter().flat_map(|&dtype| {
        let effect = Effect::Added(DType::F32);
        let mask = Mask { effect, shape: [symbol("b"), 1.into(), symbol("s"), symbol("p + s")], short: false };
        let open = Spec { batch: symbol("b"), queries: symbol("s"), keys: symbol("s"), ..plain(dtype) };
        [
            Spec { keys: symbol("p + s"), mask: Some(mask), ..open.clone() },
            Spec { causal: true, q: rows(64, 0), k: rows(64, 0), y: rows(64, 0), ..open.clone() },
            // Without keys the result is 0.
            Spec { keys: symbol("none"), ..open },
        ]
    });
    specs.collect()
}
