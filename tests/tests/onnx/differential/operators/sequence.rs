//! Attention and rotary position embedding.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, Size, each, fixed};
use super::super::values::Mood;

/// Attention of new queries, keys and values: those of a graph seldom fit together.
pub(crate) fn attention(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, queries, keys) = (builder.size(), builder.size(), builder.size());
    if [batch, queries, keys].iter().any(|size| size.contains(&0)) {
        return None;
    }
    let groups = builder.random.of(&[1, 1, 2]);
    let kv_heads = 1 + builder.random.below(2);
    let (heads, size, v_size) = (kv_heads * groups, builder.random.of(&[2, 4, 8]), builder.random.of(&[2, 4, 8]));
    let flat = builder.random.chance(40);
    let shape = |heads: usize, length: Size, size: usize| match flat {
        true => vec![batch, length, fixed(heads * size)],
        false => vec![batch, fixed(heads), length, fixed(size)],
    };
    let q = builder.leaf(dtype, &shape(heads, queries, size), Mood::Tame);
    let k = builder.leaf(dtype, &shape(kv_heads, keys, size), Mood::Tame);
    let v = builder.leaf(dtype, &shape(kv_heads, keys, v_size), Mood::Tame);
    let mut names = vec![q.name, k.name, v.name];
    let mut attributes = vec![];
    if flat {
        attributes.push(("q_num_heads", Attribute::Int(heads as i64)));
        attributes.push(("kv_num_heads", Attribute::Int(kv_heads as i64)));
    }
    if builder.random.chance(30) {
        attributes.push(("is_causal", Attribute::Int(1)));
    }
    if builder.random.chance(30) {
        attributes.push(("scale", Attribute::Float(builder.random.of(&[0.5, 1.0]))));
    }
    if builder.random.chance(20) {
        attributes.push(("softcap", Attribute::Float(2.0)));
    }
    let past = (builder.random.chance(20)).then(|| fixed(1 + builder.random.below(3)));
    let total = past.map_or(keys, |past| each(&past, &keys, |a, b| a + b));
    names.push(match builder.random.below(4) {
        0 if builder.declarable(&total) => builder.leaf(dtype, &[queries, total], Mood::Tame).name,
        1 if builder.declarable(&total) => builder.leaf(DType::Bool, &[queries, total], Mood::Tame).name,
        _ => String::new(),
    });
    let mut outputs = vec![(dtype, shape(heads, queries, v_size))];
    if let Some(past) = past {
        for size in [size, v_size] {
            names.push(builder.leaf(dtype, &[batch, fixed(kv_heads), past, fixed(size)], Mood::Tame).name);
            outputs.push((dtype, vec![batch, fixed(kv_heads), total, fixed(size)]));
        }
    }
    builder.nodes_outputs(op, &names.iter().map(String::as_str).collect::<Vec<_>>(), attributes, outputs);
    Some(())
}

pub(crate) fn rotary(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, length) = (builder.size(), builder.size());
    if batch.contains(&0) || length.contains(&0) {
        return None;
    }
    let (heads, size) = (1 + builder.random.below(3), builder.random.of(&[4, 8]));
    let flat = builder.random.chance(40);
    let dims = match flat {
        true => vec![batch, length, fixed(heads * size)],
        false => vec![batch, fixed(heads), length, fixed(size)],
    };
    let x = builder.leaf(dtype, &dims, Mood::Tame);
    let mut attributes = vec![];
    if flat {
        attributes.push(("num_heads", Attribute::Int(heads as i64)));
    }
    if builder.random.chance(40) {
        attributes.push(("interleaved", Attribute::Int(1)));
    }
    let placed = builder.random.chance(50);
    const POSITIONS: usize = 6;
    let front = if placed { vec![fixed(POSITIONS)] } else { vec![batch, length] };
    let cache: Vec<Size> = front.into_iter().chain([fixed(size / 2)]).collect();
    let mut names = vec![x.name];
    for _ in 0..2 {
        names.push(builder.leaf(dtype, &cache, Mood::Tame).name);
    }
    if placed {
        // Negative positions are an error for onnxruntime.
        names.push(builder.leaf(DType::I64, &[batch, length], Mood::Exponent).name);
    }
    builder.node(op, &names.iter().map(String::as_str).collect::<Vec<_>>(), attributes, dtype, dims);
    Some(())
}
