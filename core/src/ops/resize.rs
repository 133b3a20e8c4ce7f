//! Resize, after ONNX: Resize 19 (`scales` or `sizes`, `axes`, `keep_aspect_ratio_policy`).

use byoc_plugin_api::{DType, Dim};

use super::elements::Scalar;
use super::infer::{FLOAT, Infer, NUMERIC, axes_in, bad, mismatch, unknown};
use crate::diagnostic::Result;
use crate::dim::Expr;
use crate::ir::TensorType;

/// Denominators up to this are tried for a scale of a symbolic size: 0.5 becomes a division by 2.
const MAX_DENOMINATOR: i64 = 16;

/// How a place in the output becomes one in the input.
#[rustfmt::skip]
const COORDINATES: [&str; 6] = [
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
];

/// Resize.
pub(super) fn resize(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.typed(0, NUMERIC)?;
    infer.choice("mode", &["nearest", "linear", "cubic"])?;
    infer.choice("coordinate_transformation_mode", &COORDINATES)?;
    infer.choice("nearest_mode", &["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])?;
    let policy = infer.choice("keep_aspect_ratio_policy", &["stretch", "not_larger", "not_smaller"])?;
    let rank = x.shape.len();
    let axes = match infer.ints("axes")? {
        Some(axes) => axes_in(axes, rank)?,
        None => (0..rank).collect(),
    };
    if present(infer, 1) {
        infer.typed(1, FLOAT)?;
    }
    let mut shape = x.shape.clone();
    match (present(infer, 2), present(infer, 3)) {
        (true, false) => scaled(infer, &x, &axes, &mut shape)?,
        (false, true) => sized(infer, &x, &axes, policy, &mut shape)?,
        (true, true) => return Err(bad("inputs 2 (scales) and 3 (sizes) are both given, expected one")),
        (false, false) => return Err(bad("neither input 2 (scales) nor input 3 (sizes) is given")),
    }
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// Older exporters write an empty tensor for an input they do not use.
fn present(infer: &Infer<'_>, index: usize) -> bool {
    let ty = infer.inputs.get(index).and_then(Option::as_ref);
    ty.is_some_and(|ty| ty.shape != [Dim::Fixed(0)])
}

fn count_matches(what: &str, found: usize, axes: usize) -> Result<()> {
    if found == axes { Ok(()) } else { Err(mismatch(format!("{what} has {found} entries, expected {axes}"))) }
}

fn scaled(infer: &Infer<'_>, x: &TensorType, axes: &[usize], shape: &mut [Dim]) -> Result<()> {
    infer.typed(2, &[DType::F32])?;
    let scales = infer.known(2).ok_or_else(|| {
        unknown("the shape of the output depends on input 2 (scales), which is known only at run time")
    })?;
    count_matches("input 2 (scales)", scales.len(), axes.len())?;
    for (scale, &axis) in scales.iter().zip(axes) {
        shape[axis] = scaled_axis(&x.shape[axis], scale)?;
    }
    Ok(())
}

fn scaled_axis(size: &Dim, scale: &Scalar) -> Result<Dim> {
    let number = scale.as_f64().ok_or_else(|| unknown("input 2 (scales) holds a symbolic size, expected numbers"))?;
    if number <= 0.0 {
        return Err(bad(format!("input 2 (scales) holds {number}, expected numbers above 0")));
    }
    if let Some(size) = size.fixed() {
        // In single precision, as the operator's definition and the common runtimes do: 10 x 0.7 is 7 there.
        let scaled = (size as f32 * number as f32).floor();
        if scaled > 1e15 {
            return Err(mismatch(format!("a size of {size} scaled by {number} is too large")));
        }
        return Ok(Dim::Fixed(scaled as usize));
    }
    let fraction = (1..=MAX_DENOMINATOR).find(|&below| (number * below as f64).fract() == 0.0 && number < 1e9);
    let below = fraction.ok_or_else(|| unknown(format!("the symbolic size {size} is scaled by {}", number as f32)))?;
    Ok(Expr::of(size)?.scale((number * below as f64) as i64)?.floor_div(&Expr::from(below))?.to_dim()?)
}

fn sized(infer: &Infer<'_>, x: &TensorType, axes: &[usize], policy: &str, shape: &mut [Dim]) -> Result<()> {
    infer.typed(3, &[DType::I64])?;
    let sizes = infer.sizes(3, "sizes")?;
    count_matches("input 3 (sizes)", sizes.len(), axes.len())?;
    if let Some(size) = sizes.iter().filter_map(Expr::as_constant).find(|&size| size < 1) {
        return Err(bad(format!("input 3 (sizes) holds {size}, expected numbers above 0")));
    }
    if policy == "stretch" {
        for (size, &axis) in sizes.iter().zip(axes) {
            shape[axis] = size.to_dim()?;
        }
        return Ok(());
    }
    // One scale for all axes: the one by which all fit into the sizes, or by which all reach them.
    let mut scales = Vec::with_capacity(axes.len());
    for (size, &axis) in sizes.iter().zip(axes) {
        let numbers = size.as_constant().zip(x.shape[axis].fixed());
        let (size, old) =
            numbers.ok_or_else(|| unknown(format!("keep_aspect_ratio_policy = {policy} needs sizes in numbers")))?;
        if old == 0 {
            return Err(mismatch(format!("input 0 is {x}: axis {axis} has no element")));
        }
        scales.push(size as f32 / old as f32);
    }
    let pick = if policy == "not_larger" { f32::min } else { f32::max };
    let scale = scales.into_iter().reduce(pick).unwrap_or(1.0);
    for &axis in axes {
        // Halves go up, as the operator says.
        let size = (scale * x.shape[axis].fixed().unwrap_or(0) as f32 + 0.5).floor();
        if size > 1e15 {
            return Err(mismatch(format!("input 0 is {x}: a scale of {scale} is too large")));
        }
        shape[axis] = Dim::Fixed(size as usize);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const RESIZES: &[Case] = &[
        (
            "Resize",
            "coordinate_transformation_mode=corners",
            "f32[1] - - i64[1]=1",
            "[B106] attribute 'coordinate_transformation_mode' is 'corners', expected one of half_pixel, \
             half_pixel_symmetric, pytorch_half_pixel, align_corners, asymmetric, tf_crop_and_resize",
        ),
        (
            "Resize",
            "nearest_mode=round",
            "f32[1] - - i64[1]=1",
            "[B106] attribute 'nearest_mode' is 'round', expected one of round_prefer_floor, round_prefer_ceil, floor, ceil",
        ),
        ("Resize", "", "f32[1,1,2,4] - f32[4]=1,1,0.6,0.6", "f32[1,1,1,2]"),
        ("Resize", "", "f32[1,1,10] f32[0]= f32[3]=1,1,0.7", "f32[1,1,7]"),
        ("Resize", "", "f32[n,3,h,w] - f32[4]=1,1,2,0.5", "f32[n,3,h*2,floor(w/2)]"),
        ("Resize", "", "f32[n,3,h] - f32[3]=1,1,0.7", "f32[n_size0,n_size1,n_size2]"),
        ("Resize", "", "f32[1,1,2,4] - - i64[4]=1,1,7,8", "f32[1,1,7,8]"),
        ("Resize", "", "f32[1,1,2,4] - f32[0]= i64[4]=1,1,7,h", "f32[1,1,7,h]"),
        ("Resize", "axes=[-1,2]", "f32[1,1,2,4] - - i64[2]=8,7", "f32[1,1,7,8]"),
        ("Resize", "axes=[2,3] keep_aspect_ratio_policy=not_larger", "f32[1,1,2,4] - - i64[2]=7,8", "f32[1,1,4,8]"),
        ("Resize", "axes=[2,3] keep_aspect_ratio_policy=not_smaller", "f32[1,1,2,4] - - i64[2]=7,8", "f32[1,1,7,14]"),
        ("Resize", "", "f32[1,1,2] - f32[3]=1,1,-2", "[B106] input 2 (scales) holds -2, expected numbers above 0"),
        ("Resize", "", "f32[1,1,2] - f32[3]", "f32[n_size0,n_size1,n_size2]"),
        ("Resize", "", "f32[1,1,2] - f32[2]=1,1", "[B202] input 2 (scales) has 2 entries, expected 3"),
        ("Resize", "", "f32[1,1,2]", "[B106] neither input 2 (scales) nor input 3 (sizes) is given"),
        (
            "Resize",
            "",
            "f32[1] - f32[1]=2 i64[1]=2",
            "[B106] inputs 2 (scales) and 3 (sizes) are both given, expected one",
        ),
        ("Resize", "", "f32[1] - - i64[1]=0", "[B106] input 3 (sizes) holds 0, expected numbers above 0"),
        (
            "Resize",
            "mode=area",
            "f32[1] - - i64[1]=1",
            "[B106] attribute 'mode' is 'area', expected one of nearest, linear, cubic",
        ),
    ];

    #[test]
    fn resizes() {
        check(RESIZES);
    }
}
