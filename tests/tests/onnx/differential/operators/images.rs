//! Parts of images, what is put together of parts, and what moves pixels.

use byoc_plugin_api::{Attribute, DType};
use byoc_tests::tensor::Tensor;

use super::super::builder::{Builder, Size, each, fixed, is_fixed};
use super::super::values::{self, Mood};
use super::short::{flag, fresh, image, int, ints, node, nodes, perhaps, sizes, text};

/// The operator set whose RoiAlign, MaxRoiPool and GlobalLpPool onnxruntime has no kernels for.
const WITHOUT_KERNELS: i64 = 22;

/// RoiAlign and MaxRoiPool, of regions within the image and beyond it.
pub(crate) fn regions(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    if builder.opset >= WITHOUT_KERNELS {
        return None;
    }
    let (dtype, channels) = (builder.dtype(types), builder.random.of(&[1, 2, 3]));
    let x = image(builder, dtype, channels, 2);
    let samples = *x.dims[0].iter().min().expect("runs");
    let count = 1 + builder.random.below(3);
    let corner = |builder: &mut Builder, batch: bool| {
        let (left, top) = (builder.random.between(-1, 3) as f32, builder.random.between(-1, 3) as f32);
        let (width, height) = (builder.random.of(&[0.0, 1.0, 2.5, 4.0]), builder.random.of(&[0.0, 1.5, 3.0]));
        let batch = batch.then(|| builder.random.below(samples) as f32);
        batch.into_iter().chain([left, top, left + width, top + height]).collect::<Vec<_>>()
    };
    let pool = op == "MaxRoiPool";
    let entries: Vec<f32> = (0..count).flat_map(|_| corner(builder, pool)).collect();
    let shape = vec![count as i64, (entries.len() / count) as i64];
    let bytes = entries.iter().flat_map(|&value| match dtype {
        DType::F64 => f64::from(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes().to_vec(),
    });
    let rois = builder.structural(Tensor::new(dtype, shape, bytes.collect()));
    let (height, width) = (1 + builder.random.below(3), 1 + builder.random.below(3));
    let scale = Attribute::Float(builder.random.of(&[1.0, 0.5, 2.0]));
    let dims = vec![fixed(count), x.dims[1], fixed(height), fixed(width)];
    if pool {
        let attributes = vec![("pooled_shape", ints(&[height, width])), ("spatial_scale", scale)];
        node(builder, op, &[x.name, rois], attributes, (dtype, dims));
        return Some(());
    }
    let batch: Vec<_> = (0..count).map(|_| builder.random.below(samples) as i64).collect();
    let batch = builder.structural(values::ints(&batch));
    let mut attributes = vec![
        ("mode", text(builder.random.of(&["avg", "max"]))),
        ("output_height", int(height)),
        ("output_width", int(width)),
        ("sampling_ratio", int(builder.random.below(3))),
        ("spatial_scale", scale),
    ];
    if builder.opset >= 16 {
        let mode = builder.random.of(&["half_pixel", "output_half_pixel"]);
        attributes.push(("coordinate_transformation_mode", text(mode)));
    }
    node(builder, op, &[x.name, rois, batch], attributes, (dtype, dims));
    Some(())
}

pub(crate) fn deform_conv(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, group, offsets) = (builder.dtype(types), builder.random.of(&[1, 2]), builder.random.of(&[1, 2]));
    let (channels, made) = (2 * group * offsets, 2 * group);
    let x = image(builder, dtype, channels, 2);
    let kernel = [builder.random.of(&[1, 2, 3]), builder.random.of(&[1, 2])];
    let (stride, pads, dilation) = (builder.random.of(&[1, 2]), builder.random.below(2), builder.random.of(&[1, 1, 2]));
    let mut output = Vec::new();
    for (axis, kernel) in kernel.into_iter().enumerate() {
        let reach = (kernel - 1) * dilation + 1;
        if x.dims[axis + 2][0] + 2 * pads < reach {
            return None;
        }
        output.push(fixed((x.dims[axis + 2][0] + 2 * pads - reach) / stride + 1));
    }
    let taps = kernel[0] * kernel[1];
    let weights = sizes(&[made, channels / group, kernel[0], kernel[1]]);
    let shape = |planes: usize| vec![x.dims[0], fixed(planes), output[0], output[1]];
    let inputs = [
        x.name.clone(),
        fresh(builder, dtype, &weights),
        fresh(builder, dtype, &shape(2 * offsets * taps)),
        perhaps(builder, dtype, &sizes(&[made])),
        perhaps(builder, dtype, &shape(offsets * taps)),
    ];
    let attributes = vec![
        ("dilations", ints(&[dilation; 2])),
        ("group", int(group)),
        ("kernel_shape", ints(&kernel)),
        ("offset_group", int(offsets)),
        ("pads", ints(&[pads; 4])),
        ("strides", ints(&[stride; 2])),
    ];
    node(builder, op, &inputs, attributes, (dtype, shape(made)));
    Some(())
}

/// Col2Im of the columns that windows of an image would give.
pub(crate) fn col_2_im(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, axes) = (builder.dtype(types), 1 + builder.random.below(3));
    let pick = |builder: &mut Builder, from: &[usize]| (0..axes).map(|_| builder.random.of(from)).collect::<Vec<_>>();
    let (size, block) = (pick(builder, &[3, 4, 5]), pick(builder, &[1, 2, 3]));
    let (strides, dilations, pads) = (pick(builder, &[1, 2]), pick(builder, &[1, 1, 2]), pick(builder, &[0, 1]));
    let mut count = 1;
    for axis in 0..axes {
        let reach = (block[axis] - 1) * dilations[axis] + 1;
        count *= ((size[axis] + 2 * pads[axis]).checked_sub(reach)?) / strides[axis] + 1;
    }
    let (batch, channels) = (super::short::some(builder), builder.random.of(&[1, 2]));
    let rows = channels * block.iter().product::<usize>();
    let x = fresh(builder, dtype, &[batch, fixed(rows), fixed(count)]);
    let list = |values: &[usize]| values::ints(&values.iter().map(|&value| value as i64).collect::<Vec<_>>());
    let (image, window) = (builder.structural(list(&size)), builder.structural(list(&block)));
    let attributes = vec![
        ("dilations", ints(&dilations)),
        ("pads", ints(&[pads.clone(), pads].concat())),
        ("strides", ints(&strides)),
    ];
    let dims = [batch, fixed(channels)].into_iter().chain(sizes(&size)).collect();
    node(builder, op, &[x, image, window], attributes, (dtype, dims));
    Some(())
}

/// MaxUnpool of what MaxPool finds, without overlapping windows.
pub(crate) fn max_unpool(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, axes) = (builder.dtype(types), 1 + builder.random.below(3));
    let mut dims = vec![super::short::some(builder), fixed(builder.random.of(&[1, 2]))];
    dims.extend((0..axes).map(|_| fixed(builder.random.of(&[2, 4]))));
    let x = builder.leaf(dtype, &dims, Mood::Tame);
    let mut pooled = dims.clone();
    pooled[2..].iter_mut().for_each(|size| *size = size.map(|size| size / 2));
    let window = vec![("kernel_shape", ints(&vec![2; axes])), ("strides", ints(&vec![2; axes]))];
    let outputs = vec![(dtype, pooled.clone()), (DType::I64, pooled)];
    let found = nodes(builder, "MaxPool", &[x.name], window.clone(), outputs);
    let y = node(builder, op, &[found[0].name.clone(), found[1].name.clone()], window, (dtype, dims));
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn affine_grid(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, axes, batch) = (builder.dtype(types), builder.random.of(&[2, 3]), 1 + builder.random.below(2));
    let theta = fresh(builder, dtype, &sizes(&[batch, axes, axes + 1]));
    let space: Vec<_> = (0..axes).map(|_| builder.random.of(&[2, 3, 4])).collect();
    let size: Vec<_> = [batch, 2].into_iter().chain(space.iter().copied()).map(|size| size as i64).collect();
    let size = builder.structural(values::ints(&size));
    let dims: Vec<_> = [batch].into_iter().chain(space).chain([axes]).collect();
    let attributes = vec![("align_corners", flag(builder))];
    node(builder, op, &[theta, size], attributes, (dtype, sizes(&dims)));
    Some(())
}

pub(crate) fn center_crop_pad(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| !x.empty());
    if x.empty() {
        return None;
    }
    let all: Vec<usize> = (0..x.rank()).collect();
    let some = builder.random.chance(50);
    let axes = if some { builder.random.shuffled(&all)[..1 + builder.random.below(x.rank())].to_vec() } else { all };
    let target: Vec<_> = axes.iter().map(|_| builder.random.of(&[1i64, 2, 3, 4, 6])).collect();
    let mut dims = x.dims.clone();
    axes.iter().zip(&target).for_each(|(&axis, &size)| dims[axis] = fixed(size as usize));
    let shown = axes.iter().map(|&axis| builder.signed_axis(axis, x.rank())).collect();
    let attributes = if some { vec![("axes", Attribute::Ints(shown))] } else { vec![] };
    let target = builder.structural(values::ints(&target));
    let y = node(builder, op, &[x.name.clone(), target], attributes, (x.dtype, dims));
    builder.keeps(&y, &[&x]);
    Some(())
}

/// DepthToSpace and SpaceToDepth.
pub(crate) fn blocks(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, side) = (builder.dtype(types), builder.random.of(&[1, 2, 3]));
    let (batch, channels) = (super::short::some(builder), builder.random.of(&[1, 2]));
    let (height, width) = (1 + builder.random.below(3), 1 + builder.random.below(3));
    let wide = [batch, fixed(channels), fixed(height * side), fixed(width * side)];
    let deep = [batch, fixed(channels * side * side), fixed(height), fixed(width)];
    let mut attributes = vec![("blocksize", int(side))];
    let (from, to) = if op == "DepthToSpace" { (deep, wide) } else { (wide, deep) };
    if op == "DepthToSpace" {
        attributes.push(("mode", text(builder.random.of(&["DCR", "CRD"]))));
    }
    let x = fresh(builder, dtype, &from);
    let y = node(builder, op, &[x], attributes, (dtype, to.to_vec()));
    builder.exact(&y, true);
    Some(())
}

pub(crate) fn global_lp(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    if builder.opset >= WITHOUT_KERNELS {
        return None;
    }
    let (dtype, axes) = (builder.dtype(types), 1 + builder.random.below(3));
    let x = image(builder, dtype, 2, axes);
    let dims = [&x.dims[..2], &vec![fixed(1); axes]].concat();
    let attributes = vec![("p", int(1 + builder.random.below(3)))];
    node(builder, op, &[x.name], attributes, (dtype, dims));
    Some(())
}

/// Resize in its other forms: to sizes, along some axes, of regions, with filters that blur.
pub(crate) fn resize(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, axes) = (builder.dtype(types), builder.random.of(&[1, 2, 2]));
    let x = image(builder, dtype, 2, axes);
    let mode = builder.random.of(if axes == 2 { &["nearest", "linear", "cubic"][..] } else { &["nearest", "linear"] });
    let blurs = mode != "nearest" && axes == 2 && builder.random.chance(40);
    let crop = !blurs && builder.random.chance(15);
    let coordinates = match crop {
        true => "tf_crop_and_resize",
        false => builder.random.of(&["half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric"]),
    };
    let mut attributes = vec![("mode", text(mode)), ("coordinate_transformation_mode", text(coordinates))];
    if blurs {
        attributes.push(("antialias", int(1)));
    }
    if mode == "cubic" && builder.random.chance(50) {
        attributes.push(("cubic_coeff_a", Attribute::Float(builder.random.of(&[-0.5, -0.75]))));
        attributes.push(("exclude_outside", flag(builder)));
    }
    if crop {
        attributes.push(("extrapolation_value", Attribute::Float(1.5)));
    }
    let mut target: Vec<i64> = vec![0; axes];
    target.iter_mut().for_each(|size| *size = builder.random.between(1, 9));
    let partial = !crop && builder.random.chance(50);
    let mut dims = x.dims.clone();
    (0..axes).for_each(|axis| dims[axis + 2] = fixed(target[axis] as usize));
    if partial {
        attributes.push(("axes", Attribute::Ints((2..2 + axes as i64).collect())));
    } else if is_fixed(&x.dims[0]) {
        target.splice(0..0, [x.dims[0][0] as i64, 2]);
    } else {
        return None;
    }
    let region = match crop {
        true => {
            let rank = axes + 2;
            let bounds = (0..2 * rank).map(|at| match (at % rank < 2, at < rank) {
                (true, start) => {
                    if start {
                        0.0f32
                    } else {
                        1.0
                    }
                }
                (false, true) => builder.random.of(&[0.0, 0.25, -0.25]),
                (false, false) => builder.random.of(&[1.0, 0.75, 1.5]),
            });
            let bytes = bounds.collect::<Vec<_>>().into_iter().flat_map(f32::to_le_bytes).collect();
            builder.structural(Tensor::new(DType::F32, vec![2 * rank as i64], bytes))
        }
        false => String::new(),
    };
    let target = builder.structural(values::ints(&target));
    node(builder, op, &[x.name, region, String::new(), target], attributes, (dtype, dims));
    Some(())
}

/// TensorScatter: new rows in a cache, from given places on.
pub(crate) fn tensor_scatter(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.dtype(types);
    let (batch, heads, length, width) = (1 + builder.random.below(2), 1 + builder.random.below(2), 6, 2);
    let rows = 1 + builder.random.below(3);
    let mode = builder.random.of(&["linear", "circular"]);
    let past = fresh(builder, dtype, &sizes(&[batch, heads, length, width]));
    let update = fresh(builder, dtype, &sizes(&[batch, heads, rows, width]));
    let last = if mode == "linear" { length - rows } else { length - 1 };
    let places: Vec<_> = (0..batch).map(|_| builder.random.below(last + 1) as i64).collect();
    let places = if builder.random.chance(80) { builder.structural(values::ints(&places)) } else { String::new() };
    let attributes = vec![("mode", text(mode))];
    let y = node(builder, op, &[past, update, places], attributes, (dtype, sizes(&[batch, heads, length, width])));
    builder.exact(&y, true);
    Some(())
}

/// The boxes that NonMaxSuppression keeps: how many is for a run to say.
pub(crate) fn suppression(builder: &mut Builder, op: &'static str, _: &'static [DType]) -> Option<()> {
    let (batch, classes, boxes) =
        (1 + builder.random.below(2), 1 + builder.random.below(2), 1 + builder.random.below(6));
    let corners = builder.leaf(DType::F32, &sizes(&[batch, boxes, 4]), Mood::Positive);
    let scores = builder.leaf(DType::F32, &sizes(&[batch, classes, boxes]), Mood::Positive);
    let most = match builder.random.below(4) {
        0 => String::new(),
        _ => {
            let most = builder.random.of(&[0i64, 1, 2, 100]);
            builder.structural(values::ints(&[most]))
        }
    };
    let bound = |builder: &mut Builder, values: &[f64]| {
        let value = builder.random.of(values);
        if builder.random.chance(60) { builder.structural(values::vector(DType::F32, &[value])) } else { String::new() }
    };
    let (overlap, least) = (bound(builder, &[0.0, 0.3, 0.5, 1.0]), bound(builder, &[0.0, 0.5, 1.2]));
    let attributes = vec![("center_point_box", flag(builder))];
    let inputs = [corners.name, scores.name, most, overlap, least];
    let dims: Vec<Size> = vec![each(&fixed(batch), &fixed(boxes), |a, b| a * b), fixed(3)];
    let kept = node(builder, op, &inputs, attributes, (DType::I64, dims));
    super::choice::read_through(builder, &kept);
    Some(())
}
