//! Blocks of images as columns, after ONNX: Col2Im 18; and convolution at positions that a tensor moves: DeformConv 22.

use byoc_plugin_api::Dim;

use super::attributes::{List, int_or, ints};
use super::conv::{self, Window, checked, kernel_sizes};
use super::infer::{FLOAT, Infer, bad, mismatch};
use super::run_time::{PartialType, Size, all_open};
use crate::diagnostic::Result;
use crate::dim::{self, Expr};
use crate::ir::TensorType;

pub(super) const COL_2_IM: List =
    &[ints("dilations").by_shapes(), ints("pads").by_shapes(), ints("strides").by_shapes()];
pub(super) const DEFORM_CONV: List = &[
    ints("dilations").by_shapes(),
    int_or("group", 1),
    ints("kernel_shape").by_shapes(),
    int_or("offset_group", 1),
    ints("pads").by_shapes(),
    ints("strides").by_shapes(),
];

/// Col2Im.
pub(super) fn col_2_im(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    if x.shape.len() != 3 {
        return Err(mismatch(format!("input 0 is {x}, expected 3 dimensions")));
    }
    infer.typed(1, &[byoc_plugin_api::DType::I64])?;
    infer.typed(2, &[byoc_plugin_api::DType::I64])?;
    let image = infer.sizes(1, "image_shape")?;
    let block = checked("block_shape", infer.numbers(2, "block_shape")?, image.len())?;
    let window = Window::read(infer, block.clone())?;
    let spatial = image.iter().map(Expr::to_dim).collect::<std::result::Result<Vec<_>, _>>()?;
    let blocks = dim::product(&window.output(&spatial)?)?.to_dim()?;
    if dim::same(&x.shape[2], &blocks).is_none() {
        return Err(mismatch(format!("input 0 is {x}, but an image of that shape has {blocks} blocks")));
    }
    let each = block.iter().try_fold(1i64, |product, &size| product.checked_mul(size));
    let each = each.ok_or_else(|| bad("input 2 (block_shape) holds sizes that are too large"))?;
    let channels = Expr::of(&x.shape[1])?.exact_div(&Expr::from(each))?.ok_or_else(|| {
        mismatch(format!("input 0 is {x}: {} rows do not divide into blocks of {each} elements", x.shape[1]))
    })?;
    infer.set(0, x.dtype, [vec![x.shape[0].clone(), channels.to_dim()?], spatial].concat());
    Ok(())
}

/// Col2Im of images or blocks whose sizes are known at run time only.
pub(super) fn some_image(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.input(0)?;
    let axes = infer.input(1)?.shape.first().and_then(Dim::fixed).filter(|&axes| axes <= 64);
    let Some(axes) = axes.filter(|_| x.shape.len() == 3) else { return Ok(None) };
    let shape = [vec![Size::Known(x.shape[0].clone())], all_open(axes + 1)].concat();
    Ok(Some(vec![PartialType { dtype: x.dtype, shape }]))
}

/// DeformConv.
pub(super) fn deform_conv(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, FLOAT)?;
    let w = infer.like_first(1)?;
    let shape = conv::output(infer, &x, &w)?;
    let groups = conv::groups(infer, "offset_group")?;
    if x.shape[1].fixed().is_some_and(|channels| channels % groups != 0) {
        return Err(mismatch(format!(
            "X is {x}: {} channels do not divide into {groups} groups of offsets",
            x.shape[1]
        )));
    }
    let kernel = kernel_sizes(infer, &w.shape[2..])?;
    let taps = kernel.iter().try_fold(groups, |product, &size| product.checked_mul(size as usize));
    let moved = taps.and_then(|taps| Some((taps, taps.checked_mul(kernel.len())?)));
    let (taps, offsets) = moved.ok_or_else(|| bad("kernel_shape or offset_group are too large"))?;
    moves(infer, 2, offsets, &shape)?;
    if infer.has(3) {
        infer.ranked(3, FLOAT, 1)?;
        infer.like_first(3)?;
        conv::bias(infer, 3, &w.shape[0])?;
    }
    if infer.has(4) {
        moves(infer, 4, taps, &shape)?;
    }
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// Fails where an input does not have so many numbers for each position of the output.
fn moves(infer: &Infer<'_>, index: usize, count: usize, output: &[Dim]) -> Result<()> {
    let TensorType { shape, .. } = infer.like_first(index)?;
    let wanted = [&output[..1], &[Dim::Fixed(count)], &output[2..]].concat();
    if shape.len() == wanted.len() && shape.iter().zip(&wanted).all(|(a, b)| dim::same(a, b).is_some()) {
        return Ok(());
    }
    let sizes = wanted.iter().map(Dim::to_string).collect::<Vec<_>>().join(",");
    Err(mismatch(format!("input {index} is {}, expected the shape [{sizes}]", infer.input(index)?)))
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const COLUMNS: &[Case] = &[
        ("Col2Im", "", "f32[n,5,5] i64[2]=5,5 i64[2]=1,5", "f32[n,1,5,5]"),
        ("Col2Im", "dilations=[1,5] strides=[2,2]", "u8[1,8,4] i64[2]=4,9 i64[2]=2,2", "u8[1,2,4,9]"),
        ("Col2Im", "pads=[0,1,0,1]", "f32[1,9,l] i64[2]=3,w i64[2]=3,3", "f32[1,1,3,w]"),
        ("Col2Im", "", "f32[n,5,5] i64[2] i64[2]=1,5", "f32[n,n_size0,n_size1,n_size2]"),
        (
            "Col2Im",
            "",
            "f32[1,5,4] i64[2]=5,5 i64[2]=1,5",
            "[B202] input 0 is f32[1,5,4], but an image of that shape has 5 blocks",
        ),
        (
            "Col2Im",
            "",
            "f32[1,6,5] i64[2]=5,5 i64[2]=1,5",
            "[B202] input 0 is f32[1,6,5]: 6 rows do not divide into blocks of 5 elements",
        ),
        (
            "Col2Im",
            "",
            "f32[1,6,5] i64[2]=5,5 i64[2]=0,5",
            "[B106] attribute 'block_shape' is [0, 5], expected numbers of at least 1",
        ),
        ("Col2Im", "", "f32[5,4] i64[2]=5,5 i64[2]=1,5", "[B202] input 0 is f32[5,4], expected 3 dimensions"),
    ];

    #[test]
    fn columns() {
        check(COLUMNS);
    }

    const MOVED: &[Case] = &[
        ("DeformConv", "", "f32[n,1,3,3] f32[4,1,2,2] f32[n,8,2,2] f32[4] f32[n,4,2,2]", "f32[n,4,2,2]"),
        ("DeformConv", "offset_group=2 pads=[1,1]", "f32[1,4,l] f32[4,4,3] f32[1,6,l]", "f32[1,4,l]"),
        (
            "DeformConv",
            "",
            "f32[1,1,3,3] f32[4,1,2,2] f32[1,8,3,3]",
            "[B202] input 2 is f32[1,8,3,3], expected the shape [1,8,2,2]",
        ),
        (
            "DeformConv",
            "offset_group=2",
            "f32[1,1,3,3] f32[4,1,2,2] f32[1,16,2,2]",
            "[B202] X is f32[1,1,3,3]: 1 channels do not divide into 2 groups of offsets",
        ),
        (
            "DeformConv",
            "offset_group=0",
            "f32[1,1,3,3] f32[4,1,2,2] f32[1,16,2,2]",
            "[B106] attribute 'offset_group' is 0, expected at least 1",
        ),
    ];

    #[test]
    fn moved_positions() {
        check(MOVED);
    }
}
