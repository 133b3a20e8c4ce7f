//! Regions of images, after ONNX: MaxRoiPool 22, RoiAlign 22.

use byoc_plugin_api::{DType, Dim};

use super::attributes::{List, float_or, int_or, ints, string_or};
use super::conv::checked;
use super::infer::{FLOAT, Infer, bad, mismatch};
use crate::diagnostic::Result;
use crate::dim;
use crate::ir::TensorType;

pub(super) const MAX_ROI_POOL: List = &[ints("pooled_shape").required(), float_or("spatial_scale", 1.0)];
pub(super) const ROI_ALIGN: List = &[
    string_or("coordinate_transformation_mode", "half_pixel").since(16),
    string_or("mode", "avg"),
    int_or("output_height", 1),
    int_or("output_width", 1),
    int_or("sampling_ratio", 0),
    float_or("spatial_scale", 1.0),
];

/// MaxRoiPool: of each region of an image a grid of maxima.
pub(super) fn max_roi(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.ranked(0, FLOAT, 4)?;
    let regions = infer.ranked(1, FLOAT, 2)?;
    infer.like_first(1)?;
    let pooled = infer.ints("pooled_shape")?.ok_or_else(|| bad("attribute 'pooled_shape' is missing"))?;
    let pooled = checked("pooled_shape", pooled.to_vec(), 2)?;
    let sizes = pooled.into_iter().map(|size| Dim::Fixed(size as usize)).collect();
    columns(&regions, 5)?;
    infer.set(0, x.dtype, [vec![regions.shape[0].clone(), x.shape[1].clone()], sizes].concat());
    Ok(())
}

/// RoiAlign: of each region of an image a grid of means or maxima.
pub(super) fn roi_align(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.ranked(0, FLOAT, 4)?;
    let regions = infer.ranked(1, FLOAT, 2)?;
    infer.like_first(1)?;
    let images = infer.ranked(2, &[DType::I64], 1)?;
    infer.choice("coordinate_transformation_mode", &["half_pixel", "output_half_pixel"])?;
    infer.choice("mode", &["avg", "max"])?;
    columns(&regions, 4)?;
    let Some(count) = dim::same(&regions.shape[0], &images.shape[0]) else {
        return Err(mismatch(format!("the regions are {regions} and their images {images}, expected one for each")));
    };
    let ratio = infer.int("sampling_ratio", 0)?;
    if !(0..=MOST_SAMPLES).contains(&ratio) {
        return Err(bad(format!("attribute 'sampling_ratio' is {ratio}, expected 0 to {MOST_SAMPLES}")));
    }
    let size = |name: &str| match infer.int(name, 1)? {
        size @ 1.. => Ok(Dim::Fixed(size as usize)),
        other => Err(bad(format!("attribute '{name}' is {other}, expected at least 1"))),
    };
    let shape = vec![count, x.shape[1].clone(), size("output_height")?, size("output_width")?];
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// Samples along an axis of each element; more make no difference, and take for ever.
const MOST_SAMPLES: i64 = 256;

fn columns(regions: &TensorType, count: usize) -> Result<()> {
    match dim::same(&regions.shape[1], &Dim::Fixed(count)) {
        Some(_) => Ok(()),
        None => Err(mismatch(format!("the regions are {regions}, expected {count} numbers for each"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::testing::{Case, check};

    const REGIONS: &[Case] = &[
        ("MaxRoiPool", "pooled_shape=[2,3]", "f32[1,c,h,w] f32[r,5]", "f32[r,c,2,3]"),
        ("MaxRoiPool", "", "f32[1,c,h,w] f32[r,5]", "[B106] attribute 'pooled_shape' is missing"),
        (
            "MaxRoiPool",
            "pooled_shape=[2,0]",
            "f32[1,c,h,w] f32[r,5]",
            "[B106] attribute 'pooled_shape' is [2, 0], expected numbers of at least 1",
        ),
        (
            "MaxRoiPool",
            "pooled_shape=[2,3]",
            "f32[1,c,h,w] f32[r,4]",
            "[B202] the regions are f32[r,4], expected 5 numbers for each",
        ),
        ("RoiAlign", "output_height=2 output_width=3", "f32[1,c,h,w] f32[r,4] i64[r]", "f32[r,c,2,3]"),
        (
            "RoiAlign",
            "",
            "f32[1,c,h,w] f32[3,4] i64[4]",
            "[B202] the regions are f32[3,4] and their images i64[4], expected one for each",
        ),
        (
            "RoiAlign",
            "sampling_ratio=-1",
            "f32[1,c,h,w] f32[3,4] i64[3]",
            "[B106] attribute 'sampling_ratio' is -1, expected 0 to 256",
        ),
        (
            "RoiAlign",
            "output_height=0",
            "f32[1,c,h,w] f32[3,4] i64[3]",
            "[B106] attribute 'output_height' is 0, expected at least 1",
        ),
        (
            "RoiAlign",
            "mode=sum",
            "f32[1,c,h,w] f32[3,4] i64[3]",
            "[B106] attribute 'mode' is 'sum', expected one of avg, max",
        ),
    ];

    #[test]
    fn regions() {
        check(REGIONS);
    }
}
