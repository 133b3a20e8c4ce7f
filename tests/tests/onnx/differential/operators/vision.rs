//! Products, convolutions, pools and Resize.

use byoc_plugin_api::{Attribute, DType};
use byoc_tests::tensor::Tensor;

use super::super::builder::{Builder, Size, Value, broadcast, elements, fixed, is_fixed};
use super::super::values::Mood;

pub(crate) fn matmul(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |_| true);
    let inner = *x.dims.last().expect("a rank of at least 1");
    let fits = |y: &&Value| {
        let place = y.rank().saturating_sub(2);
        y.dtype == x.dtype && y.rank() > 0 && y.dims[place] == inner && y.rank() <= 4
    };
    let there: Vec<_> = builder.values.iter().filter(fits).cloned().collect();
    let y = if !there.is_empty() && builder.random.chance(50) {
        builder.random.of(&there)
    } else {
        if !builder.declarable(&inner) {
            return None;
        }
        let dims = match builder.random.below(10) {
            0 => vec![inner],
            1 | 2 if x.rank() > 2 => vec![fixed(1), inner, builder.size()],
            _ => vec![inner, fixed(builder.random.of(&[1, 2, 3, 5, 8, 16, 17]))],
        };
        let mood = builder.mood();
        builder.leaf(x.dtype, &dims, mood)
    };
    let (mut left, mut right) = (x.dims.clone(), y.dims.clone());
    if x.rank() == 1 {
        left.insert(0, fixed(1));
    }
    if y.rank() == 1 {
        right.push(fixed(1));
    }
    let mut dims = broadcast(&left[..left.len() - 2], &right[..right.len() - 2])?;
    if x.rank() > 1 {
        dims.push(left[left.len() - 2]);
    }
    if y.rank() > 1 {
        dims.push(right[right.len() - 1]);
    }
    let z = builder.node(op, &[&x.name, &y.name], vec![], x.dtype, dims);
    builder.exact(&z, !x.dtype.is_float());
    Some(())
}

pub(crate) fn gemm(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let a = builder.pick(types, (2, 2), |_| true);
    let (flip_a, flip_b) = (builder.random.chance(40), builder.random.chance(40));
    let (rows, inner) = if flip_a { (a.dims[1], a.dims[0]) } else { (a.dims[0], a.dims[1]) };
    let columns = fixed(builder.random.of(&[1, 2, 3, 4, 8, 17]));
    if !builder.declarable(&inner) {
        return None;
    }
    let b = builder.leaf(a.dtype, &if flip_b { [columns, inner] } else { [inner, columns] }, Mood::Tame);
    let c = match builder.random.below(5) {
        0 => String::new(),
        1 => builder.leaf(a.dtype, &[], Mood::Tame).name,
        2 if builder.declarable(&rows) => builder.leaf(a.dtype, &[rows, fixed(1)], Mood::Tame).name,
        3 if builder.declarable(&rows) => builder.leaf(a.dtype, &[rows, columns], Mood::Tame).name,
        _ => builder.leaf(a.dtype, &[columns], Mood::Tame).name,
    };
    let mut attributes = vec![];
    for (name, flip) in [("transA", flip_a), ("transB", flip_b)] {
        if flip {
            attributes.push((name, Attribute::Int(1)));
        }
    }
    for name in ["alpha", "beta"] {
        if builder.random.chance(30) {
            attributes.push((name, Attribute::Float(builder.random.of(&[0.5, 2.0, 0.0, -1.0]))));
        }
    }
    builder.node(op, &[&a.name, &b.name, &c], attributes, a.dtype, vec![rows, columns]);
    Some(())
}

/// A window over the spatial axes.
struct Window {
    kernel: Vec<usize>,
    attributes: Vec<(&'static str, Attribute)>,
    output: Vec<Size>,
}

/// Draws a window that fits into `spatial` in every run.
fn window(builder: &mut Builder, spatial: &[Size], pool: bool) -> Option<Window> {
    let axes = spatial.len();
    let pick = |builder: &mut Builder, from: &[usize]| (0..axes).map(|_| builder.random.of(from)).collect::<Vec<_>>();
    let kernel = pick(builder, &[1, 2, 3, 3, 5]);
    let strides = if builder.random.chance(50) { vec![1; axes] } else { pick(builder, &[1, 2, 3]) };
    let dilations = if builder.random.chance(80) { vec![1; axes] } else { pick(builder, &[1, 2]) };
    let ceil = pool && builder.random.chance(20);
    let auto = if ceil { "NOTSET" } else { builder.random.of(&["NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "VALID"]) };
    let reach: Vec<_> = (0..axes).map(|axis| (kernel[axis] - 1) * dilations[axis] + 1).collect();
    let pads: Vec<_> = match auto {
        "NOTSET" if builder.random.chance(60) => {
            // A pool's window that lies in the padding alone has no element.
            let most = |axis: usize| if pool { (kernel[axis] - 1) / 2 } else { reach[axis] - 1 };
            (0..2 * axes).map(|place| builder.random.below(most(place % axes) + 1)).collect()
        }
        _ => vec![0; 2 * axes],
    };
    let mut output = Vec::new();
    for (axis, size) in spatial.iter().enumerate() {
        let padded = size.map(|size| size + pads[axis] + pads[axis + axes]);
        if padded.iter().any(|&padded| padded < reach[axis]) || size.contains(&0) {
            return None;
        }
        // The text and onnxruntime part where a window that is padded is dilated or leaves gaps.
        if auto == "SAME_UPPER" && (dilations[axis] > 1 || strides[axis] > kernel[axis]) {
            return None;
        }
        output.push(match (auto, ceil) {
            ("SAME_UPPER", _) => size.map(|size| size.div_ceil(strides[axis])),
            (_, true) => std::array::from_fn(|run| {
                let count = (padded[run] - reach[axis]).div_ceil(strides[axis]) + 1;
                count.min((size[run] + pads[axis]).div_ceil(strides[axis]))
            }),
            _ => padded.map(|padded| (padded - reach[axis]) / strides[axis] + 1),
        });
    }
    let list = |values: &[usize]| Attribute::Ints(values.iter().map(|&value| value as i64).collect());
    let mut attributes = vec![("kernel_shape", list(&kernel))];
    for (name, values) in [("strides", &strides), ("dilations", &dilations)] {
        if values.iter().any(|&value| value > 1) {
            attributes.push((name, list(values)));
        }
    }
    if auto != "NOTSET" {
        attributes.push(("auto_pad", Attribute::String(auto.into())));
    } else if pads.iter().any(|&pad| pad > 0) {
        attributes.push(("pads", list(&pads)));
    }
    if ceil {
        attributes.push(("ceil_mode", Attribute::Int(1)));
    }
    Some(Window { kernel, attributes, output })
}

pub(crate) fn conv(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (3, 5), |x| is_fixed(&x.dims[1]) && x.dims[1][0] > 0 && x.tame);
    let x = if x.rank() < 3 || !is_fixed(&x.dims[1]) || x.dims[1][0] == 0 || builder.random.chance(30) {
        let channels = builder.random.of(&[1, 2, 3, 4, 8, 16]);
        let (dtype, batch) = (builder.dtype(types), builder.size());
        let mut dims = vec![batch, fixed(channels)];
        for _ in 0..builder.random.of(&[1, 2, 2, 2, 3]) {
            dims.push(fixed(builder.random.of(&[3, 5, 6, 8])));
        }
        builder.leaf(dtype, &dims, Mood::Tame)
    } else {
        x
    };
    let channels = x.dims[1][0];
    let groups: Vec<_> = [1, 1, 2, channels].into_iter().filter(|group| channels % group == 0).collect();
    let group = builder.random.of(&groups);
    let made = group * builder.random.of(&[1, 1, 2, 3, 8]);
    let Window { kernel, mut attributes, output } = window(builder, &x.dims[2..], false)?;
    if group > 1 {
        attributes.push(("group", Attribute::Int(group as i64)));
    }
    let weights: Vec<_> = [made, channels / group].into_iter().chain(kernel).map(fixed).collect();
    if elements(&weights) > 20_000 {
        return None;
    }
    let w = builder.leaf(x.dtype, &weights, Mood::Tame);
    let b =
        if builder.random.chance(60) { builder.leaf(x.dtype, &[fixed(made)], Mood::Tame).name } else { String::new() };
    let dims = [x.dims[0], fixed(made)].into_iter().chain(output).collect();
    builder.node(op, &[&x.name, &w.name, &b], attributes, x.dtype, dims);
    Some(())
}

pub(crate) fn pool(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (3, 5), |x| x.tame);
    if x.rank() < 3 {
        return None;
    }
    let Window { mut attributes, output, .. } = window(builder, &x.dims[2..], true)?;
    let dims: Vec<Size> = x.dims[..2].iter().copied().chain(output).collect();
    if op == "AveragePool" {
        if builder.random.chance(40) {
            attributes.push(("count_include_pad", Attribute::Int(1)));
        }
        builder.node(op, &[&x.name], attributes, x.dtype, dims);
        return Some(());
    }
    let mut types = vec![(x.dtype, dims.clone())];
    if x.exact && builder.random.chance(30) {
        types.push((DType::I64, dims));
        if builder.random.chance(30) {
            attributes.push(("storage_order", Attribute::Int(1)));
        }
    }
    for y in builder.nodes_outputs(op, &[&x.name], attributes, types) {
        builder.keeps(&y, &[&x]);
    }
    Some(())
}

pub(crate) fn global(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (3, 5), |x| !x.empty());
    if x.rank() < 3 || x.empty() {
        return None;
    }
    let dims = x.dims.iter().enumerate().map(|(axis, size)| if axis < 2 { *size } else { fixed(1) }).collect();
    let y = builder.node(op, &[&x.name], vec![], x.dtype, dims);
    if op == "GlobalMaxPool" {
        builder.keeps(&y, &[&x]);
    }
    Some(())
}

/// Resize of images by factors that are exact.
pub(crate) fn resize(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (4, 4), |x| x.tame && !x.empty());
    if x.empty() || x.rank() != 4 {
        return None;
    }
    let mode = builder.random.of(&["nearest", "nearest", "linear", "cubic"]);
    if mode != "nearest" && !x.dtype.is_float() {
        return None;
    }
    let mut scales = [1f32; 4];
    let mut dims = x.dims.clone();
    for axis in 2..4 {
        scales[axis] = builder.random.of(&[1.0, 2.0, 3.0, 0.5, 1.5]);
        dims[axis] = x.dims[axis].map(|size| (size as f32 * scales[axis]).floor() as usize);
        if dims[axis].contains(&0) {
            return None;
        }
    }
    let coordinates = builder.random.of(&["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]);
    let mut attributes = vec![("mode", Attribute::String(mode.into()))];
    attributes.push(("coordinate_transformation_mode", Attribute::String(coordinates.into())));
    if mode == "nearest" {
        let rounding = builder.random.of(&["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]);
        attributes.push(("nearest_mode", Attribute::String(rounding.into())));
    }
    let bytes = scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let scales = builder.structural(Tensor::new(DType::F32, vec![4], bytes));
    let y = builder.node(op, &[&x.name, "", &scales], attributes, x.dtype, dims);
    if mode == "nearest" {
        builder.keeps(&y, &[&x]);
    }
    Some(())
}
