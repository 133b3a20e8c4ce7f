//! Operators of `com.microsoft` on floats.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, fixed};
use super::super::values::{self, Mood};
use super::short::{Attributes, flag, fresh, image, int, ints, node, nodes, perhaps, sizes, some, text};

/// What tokens have.
const WIDTH: usize = 4;

/// Activations, alone and of a sum.
pub(crate) fn activation(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (2, 4), |x| x.tame && !x.empty());
    let last = *x.dims.last()?;
    if !builder.declarable(&last) || x.empty() {
        return None;
    }
    let mut inputs = vec![x.name];
    match op {
        "com.microsoft.BiasGelu" => inputs.push(fresh(builder, x.dtype, &[last])),
        "com.microsoft.FastGelu" => inputs.push(perhaps(builder, x.dtype, &[last])),
        _ => {}
    }
    let quick = op == "com.microsoft.QuickGelu" && builder.random.chance(60);
    let alpha = Attribute::Float(builder.random.of(&[1.0, 1.702, -0.5]));
    node(builder, op, &inputs, if quick { vec![("alpha", alpha)] } else { vec![] }, (x.dtype, x.dims));
    Some(())
}

/// SkipLayerNormalization, SkipSimplifiedLayerNormalization and SimplifiedLayerNormalization.
pub(crate) fn normalization(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, length, width) = (some(builder), some(builder), fixed(builder.random.of(&[1, WIDTH, 8])));
    let dims = vec![batch, length, width];
    let epsilon = ("epsilon", Attribute::Float(builder.random.of(&[1e-5, 1e-3, 0.5])));
    let mut inputs = vec![fresh(builder, dtype, &dims)];
    if op == "SimplifiedLayerNormalization" {
        inputs.push(fresh(builder, dtype, &[width]));
        node(builder, op, &inputs, vec![epsilon, ("axis", Attribute::Int(-1))], (dtype, dims));
        return Some(());
    }
    inputs.extend([fresh(builder, dtype, &dims), fresh(builder, dtype, &[width])]);
    if op == "com.microsoft.SkipLayerNormalization" {
        inputs.push(perhaps(builder, dtype, &[width]));
    }
    inputs.push(perhaps(builder, dtype, &[width]));
    node(builder, op, &inputs, vec![epsilon], (dtype, dims));
    Some(())
}

/// FusedMatMul and TransposeMatMul.
pub(crate) fn matmul(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, rows, inner, columns) =
        (some(builder), some(builder), fixed(builder.random.of(&[1, 3, 8])), fixed(builder.random.of(&[1, 5, 16])));
    let (flip_a, flip_b) = (builder.random.chance(50), builder.random.chance(50));
    let a = if flip_a { [batch, inner, rows] } else { [batch, rows, inner] };
    let b = if flip_b { [batch, columns, inner] } else { [batch, inner, columns] };
    let b = if builder.random.chance(50) { b.to_vec() } else { b[1..].to_vec() };
    let attributes = vec![
        ("alpha", Attribute::Float(builder.random.of(&[1.0, 0.125, -2.0]))),
        ("transA", int(flip_a.into())),
        ("transB", int(flip_b.into())),
    ];
    let inputs = [fresh(builder, dtype, &a), fresh(builder, dtype, &b)];
    node(builder, op, &inputs, attributes, (dtype, vec![batch, rows, columns]));
    Some(())
}

pub(crate) fn gemm(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (rows, inner, columns) =
        (some(builder), fixed(builder.random.of(&[1, 3, 8])), fixed(builder.random.of(&[1, 5])));
    let flip = builder.random.chance(50);
    let b = if flip { [columns, inner] } else { [inner, columns] };
    let inputs =
        [fresh(builder, dtype, &[rows, inner]), fresh(builder, dtype, &b), perhaps(builder, dtype, &[columns])];
    let (name, parameters) = builder.random.of(&[
        ("Relu", &[][..]),
        ("Sigmoid", &[]),
        ("Tanh", &[]),
        ("LeakyRelu", &[("activation_alpha", 0.1f32)]),
        ("Elu", &[("activation_alpha", 1.5)]),
        ("HardSigmoid", &[("activation_alpha", 0.3), ("activation_beta", 0.4)]),
    ]);
    let mut attributes: Attributes = vec![
        ("activation", text(name)),
        ("alpha", Attribute::Float(builder.random.of(&[1.0, 0.5]))),
        ("transB", int(flip.into())),
    ];
    attributes.extend(parameters.iter().map(|&(name, value)| (name, Attribute::Float(value))));
    node(builder, op, &inputs, attributes, (dtype, vec![rows, columns]));
    Some(())
}

pub(crate) fn conv(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let super::integers::Shape { image, filters, output, mut attributes } = super::integers::convolution(builder)?;
    let dtype = builder.dtype(types);
    let mut inputs = vec![
        fresh(builder, dtype, &image),
        fresh(builder, dtype, &sizes(&filters)),
        perhaps(builder, dtype, &[fixed(filters[0])]),
    ];
    if builder.random.chance(40) {
        inputs.push(fresh(builder, dtype, &output));
    }
    let (name, parameters) = builder.random.of(&[
        ("Relu", &[][..]),
        ("Sigmoid", &[]),
        ("Tanh", &[]),
        ("LeakyRelu", &[0.1f32]),
        ("Clip", &[0.0, 1.0]),
        ("HardSigmoid", &[0.3, 0.4]),
    ]);
    attributes.push(("activation", text(name)));
    if !parameters.is_empty() {
        attributes.push(("activation_params", Attribute::Floats(parameters.to_vec())));
    }
    node(builder, op, &inputs, attributes, (dtype, output));
    Some(())
}

/// A transposed convolution whose padding is an input.
pub(crate) fn conv_transpose(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (channels, made) = (builder.random.of(&[1, 2]), builder.random.of(&[1, 3]));
    let x = image(builder, DType::F32, channels, 2);
    let (kernel, stride) = (builder.random.of(&[2, 3]), builder.random.of(&[1, 2]));
    let pads: Vec<_> = (0..4).map(|_| builder.random.below(2)).collect();
    let mut dims = vec![x.dims[0], fixed(made)];
    for axis in 0..2 {
        let full = stride * (x.dims[axis + 2][0] - 1) + kernel;
        let left = full.checked_sub(pads[axis] + pads[axis + 2]).filter(|&left| left > 0)?;
        dims.push(fixed(left));
    }
    let pads = builder.structural(values::ints(&pads.iter().map(|&pad| pad as i64).collect::<Vec<_>>()));
    let w = fresh(builder, DType::F32, &sizes(&[channels, made, kernel, kernel]));
    let b = perhaps(builder, DType::F32, &[fixed(made)]);
    let attributes = vec![("strides", ints(&[stride; 2])), ("kernel_shape", ints(&[kernel; 2]))];
    node(builder, op, &[x.name, w, pads, b], attributes, (DType::F32, dims));
    Some(())
}

/// What ONNX has under the same name, or another.
pub(crate) fn renamed(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let dims = vec![some(builder), fixed(3), fixed(4)];
    let x = fresh(builder, dtype, &dims);
    let (inputs, attributes, made) = match op {
        "com.microsoft.ExpandDims" => {
            let axis = builder.random.between(-4, 3);
            let mut made = dims.clone();
            made.insert(axis.rem_euclid(4) as usize, fixed(1));
            (vec![x, builder.structural(values::scalar(DType::I32, axis as f64))], vec![], made)
        }
        "com.microsoft.Pad" => {
            let pads: Vec<_> = (0..6).map(|_| builder.random.between(0, 2)).collect();
            let made =
                (0..3).map(|axis| dims[axis].map(|size| size + (pads[axis] + pads[axis + 3]) as usize)).collect();
            let mode = builder.random.of(&["constant", "edge"]);
            (vec![x, builder.structural(values::ints(&pads))], vec![("mode", text(mode))], made)
        }
        "com.microsoft.Trilu" => {
            let k = builder.random.between(-3, 3) as f64;
            (vec![x, builder.structural(values::scalar(DType::I64, k))], vec![("upper", flag(builder))], dims)
        }
        _ => {
            let least = *dims[0].iter().min().expect("runs") as i64;
            let rows = (0..3).flat_map(|_| [builder.random.between(0, least - 1), builder.random.between(0, 2)]);
            let rows = rows.collect::<Vec<_>>();
            let mut rows = values::ints(&rows);
            rows.shape = vec![3, 2];
            (vec![x, builder.structural(rows)], vec![], vec![fixed(3), fixed(4)])
        }
    };
    let y = node(builder, op, &inputs, attributes, (dtype, made));
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn range(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let (start, count, step) =
        (builder.random.between(-3, 3), builder.random.between(0, 7), builder.random.of(&[1, 2, -1]));
    let mut bounds = vec![start, start + step * count];
    if step != 1 || builder.random.chance(50) {
        bounds.push(step);
    }
    let bounds: Vec<_> =
        bounds.into_iter().map(|bound| builder.structural(values::scalar(dtype, bound as f64))).collect();
    let y = node(builder, op, &bounds, vec![], (dtype, vec![fixed(count as usize)]));
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn rotary(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, length, heads, size, positions) = (some(builder), some(builder), 2, 4, 8);
    let flat = builder.random.chance(50);
    let dims = match flat {
        true => vec![batch, length, fixed(heads * size)],
        false => vec![batch, fixed(heads), length, fixed(size)],
    };
    let ids = builder.leaf(DType::I64, &[batch, length], Mood::Place(positions)).name;
    let cache = sizes(&[positions, size / 2]);
    let inputs = [fresh(builder, dtype, &dims), ids, fresh(builder, dtype, &cache), fresh(builder, dtype, &cache)];
    let mut attributes = vec![("interleaved", flag(builder))];
    if flat {
        attributes.push(("num_heads", int(heads)));
    }
    node(builder, op, &inputs, attributes, (dtype, dims));
    Some(())
}

/// Attention and MultiHeadAttention, with padding and a past.
pub(crate) fn attention(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, length) = (fixed(1 + builder.random.below(2)), fixed(builder.random.of(&[1, 2, 5])));
    let (heads, size) = (builder.random.of(&[1, 2]), builder.random.of(&[2, 4]));
    let hidden = fixed(heads * size);
    let dims = vec![batch, length, hidden];
    let mut attributes = vec![("num_heads", int(heads))];
    if builder.random.chance(30) {
        attributes.push(("scale", Attribute::Float(0.5)));
    }
    if builder.random.chance(30) {
        attributes.push(("unidirectional", int(1)));
    }
    let padded = builder.random.chance(40).then(|| {
        let keys = batch[0] * length[0];
        let kept: Vec<_> =
            (0..keys).map(|at| f64::from(u8::from(at % length[0] == 0 || builder.random.chance(70)))).collect();
        let mut mask = values::vector(DType::I32, &kept);
        mask.shape = vec![batch[0] as i64, length[0] as i64];
        builder.structural(mask)
    });
    let padded = padded.unwrap_or_default();
    let inputs = if op == "com.microsoft.Attention" {
        let three = fixed(3 * heads * size);
        let x = fresh(builder, dtype, &dims);
        vec![x, fresh(builder, dtype, &[hidden, three]), fresh(builder, dtype, &[three]), padded]
    } else {
        let three = [fresh(builder, dtype, &dims), fresh(builder, dtype, &dims), fresh(builder, dtype, &dims)];
        let bias = perhaps(builder, dtype, &[fixed(3 * heads * size)]);
        [&three[..], &[bias, padded]].concat()
    };
    node(builder, op, &inputs, attributes, (dtype, dims));
    Some(())
}

pub(crate) fn grouped_attention(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, length) = (1 + builder.random.below(2), builder.random.of(&[1, 2, 5]));
    let (kv, groups, size) = (builder.random.of(&[1, 2]), builder.random.of(&[1, 2]), 16);
    let past = if builder.random.chance(50) { builder.random.of(&[1, 3]) } else { 0 };
    // Several new tokens behind a past are those of one sample.
    let batch = if past > 0 && length > 1 { 1 } else { batch };
    let total = past + length;
    let shape = |heads: usize| sizes(&[batch, length, heads * size]);
    let mut inputs = vec![
        fresh(builder, dtype, &shape(kv * groups)),
        fresh(builder, dtype, &shape(kv)),
        fresh(builder, dtype, &shape(kv)),
    ];
    for _ in 0..2 {
        let there = past > 0;
        inputs.push(if there { fresh(builder, dtype, &sizes(&[batch, kv, past, size])) } else { String::new() });
    }
    inputs.push(builder.structural(values::vector(DType::I32, &vec![(total - 1) as f64; batch])));
    inputs.push(builder.structural(values::scalar(DType::I32, total as f64)));
    let rotary = builder.random.chance(50);
    if rotary {
        inputs.extend([fresh(builder, dtype, &sizes(&[16, size / 2])), fresh(builder, dtype, &sizes(&[16, size / 2]))]);
    }
    let mut attributes =
        vec![("num_heads", int(kv * groups)), ("kv_num_heads", int(kv)), ("do_rotary", int(rotary.into()))];
    if builder.random.chance(30) {
        attributes.push(("softcap", Attribute::Float(2.0)));
    }
    if builder.random.chance(30) {
        attributes.push(("local_window_size", int(2)));
    }
    let present = sizes(&[batch, kv, total, size]);
    let outputs = vec![(dtype, shape(kv * groups)), (dtype, present.clone()), (dtype, present)];
    nodes(builder, op, &inputs, attributes, outputs);
    Some(())
}

/// The embeddings of tokens: words, places, and segments where there are.
pub(crate) fn embedding(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, length, words) = (some(builder), fixed(builder.random.of(&[1, 3, 5])), 7);
    let ids = builder.leaf(DType::I32, &[batch, length], Mood::Place(words)).name;
    let segmented = builder.random.chance(50);
    let segments =
        if segmented { builder.leaf(DType::I32, &[batch, length], Mood::Place(2)).name } else { String::new() };
    let mut inputs = vec![ids, segments];
    for rows in [words, 6] {
        inputs.push(fresh(builder, dtype, &sizes(&[rows, WIDTH])));
    }
    inputs.push(if segmented { fresh(builder, dtype, &sizes(&[2, WIDTH])) } else { String::new() });
    inputs.extend([fresh(builder, dtype, &[fixed(WIDTH)]), fresh(builder, dtype, &[fixed(WIDTH)])]);
    let attributes = vec![("epsilon", Attribute::Float(1e-3))];
    let outputs = vec![(dtype, vec![batch, length, fixed(WIDTH)]), (DType::I32, vec![batch])];
    nodes(builder, op, &inputs, attributes, outputs);
    Some(())
}
