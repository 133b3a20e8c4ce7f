//! Regions to steps, and what is refused.

use byoc_plugin_api::{Attribute, DType, Dim, Region};

use super::build::{build, ints, mobile, residual};
use crate::conv::lower::lower;

fn steps(region: &Region) -> String {
    lower(region, false).map_or_else(|refusal| refusal.to_string(), |net| net.to_string())
}

#[test]
fn a_residual_network() {
    let expected = "\
v9 [batch,16,16,16] = v0 by c10, 7x7 stride 2x2 pad 3x3, bias c13, normalised by c16, Relu
v10 [batch,8,8,16] = most of v9, 3x3 stride 2x2 pad 1x1
v14 [batch,8,8,8] = v10 by c28, 1x1, bias c31, Relu
v18 [batch,8,8,8] = v14 by c34, 3x3 pad 1x1, bias c37, Relu
v29 [batch,8,8,32] = v10 by c58, 1x1, bias c61
v31 [batch,8,8,32] = v18 by c40, 1x1, bias c43, normalised by c46, plus v29, Relu
v35 [batch,8,8,8] = v31 by c64, 1x1, bias c67, Relu
v39 [batch,8,8,8] = v35 by c70, 3x3 pad 1x1, bias c73, Relu
v49 [batch,8,8,32] = v39 by c76, 1x1, bias c79, normalised by c82, plus v31, Relu
v50 [batch,1,1,32] = mean of all of v49
";
    assert_eq!(steps(&residual(DType::F16, Dim::Symbolic("batch".into()), 32).region), expected);
}

#[test]
fn a_mobile_network() {
    let expected = "\
v5 [2,14,14,40] = v0 by c10, 1x1, bias c13, Silu
v13 [2,7,7,40] = each channel of v5 by c16, 3x3 stride 2x2 pad 1x1, normalised by c19, HardSwish
v14 [2,1,1,40] = mean of all of v13
v18 [2,1,1,12 of 16] = v14 by c31, 1x1, bias c34, Relu
v22 [2,1,1,40] = v18 by c37, 1x1, bias c40, HardSigmoid(0.2, 0.5)
v23 [2,7,7,40] = Mul of v13 and v22
v24 [2,7,7,40] = mean of v23, 3x3 pad 1x1
v25 [2,7,7,40] = Tanh of v23
v28 [2,7,7,10 of 16] = v25 by c43, 3x3 pad 1x1, bias c46
v29 [2,7,7,90 of 96] = channels of [24, 23, 28]
";
    assert_eq!(steps(&mobile(DType::BF16, 2.into(), 14).region), expected);
}

/// The steps of one convolution of 8 channels to 8, changed by `change`.
fn changed(change: impl FnOnce(&mut Region)) -> String {
    let (mut build, x) = build(DType::F16, [1, 8, 5, 5]);
    let y = build.conv(x, 8, 3, 1, 1);
    let mut region = build.with(&[y]).region;
    change(&mut region);
    steps(&region)
}

#[test]
fn what_is_refused() {
    let attribute = |name: &'static str, value: Attribute| {
        changed(|region| drop(region.nodes[0].attributes.insert(name.into(), value)))
    };
    let symbolic = |axis: usize| {
        changed(|region| {
            region.values.iter_mut().for_each(|v| {
                if v.shape.len() == 4 && v.name.starts_with('x') {
                    v.shape[axis] = Dim::Symbolic("size".into())
                }
            })
        })
    };
    let of = |dtype: DType| changed(|region| region.values.iter_mut().for_each(|value| value.dtype = dtype));
    let cases = [
        (
            attribute("group", Attribute::Int(2)),
            "attribute: 'Conv_0' has 2 groups; supported are 1 and one per channel",
        ),
        (
            attribute("strides", ints(&[1])),
            "attribute: 'Conv_0' has strides [1], which is not a list of length 2 of numbers from 1 on",
        ),
        (
            attribute("pads", ints(&[-1, 0, 0, 0])),
            "attribute: 'Conv_0' has pads [-1, 0, 0, 0], which is not a list of length 4 of numbers from 0 on",
        ),
        (symbolic(2), "shape: 'x0' has the size 'size', which is not known: fix its symbols with --dim NAME=SIZE"),
        (of(DType::F32), "type: 'x0' is f32, which is multiplied here as TF32 only: math=tf32 allows it"),
        (of(DType::F64), "type: 'x0' is f64; supported are f16, bf16 and, with math=tf32, f32"),
        (changed(|region| region.constants.clear()), "constant_needed: 'w1', which 'Conv_0' reads, is not a constant"),
        (changed(|region| region.values[3].dtype = DType::F32), "type: 'y3' is f32, but another tensor is f16"),
        (
            changed(|region| region.values[0].shape.truncate(3)),
            "shape: 'x0' is [1,8,5], expected an image of four dimensions",
        ),
        (changed(|region| region.values[0].shape[0] = 0.into()), "shape: 'x0' has no elements"),
        (changed(|region| region.nodes[0].op = "LRN".into()), "other: there is no convolution"),
        (
            changed(|region| region.values[0].shape[2] = (1 << 30).into()),
            "shape: 'x0' has more elements than CUTLASS can count",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

/// As many images as CUTLASS counts, and one more: of 4 channels and of 64.
#[test]
fn as_many_images_as_are_counted() {
    let taken = |dtype: DType, channels: usize, batch: usize| {
        let (mut build, x) = build(dtype, [batch, channels, 1024, 1024]);
        let y = build.conv(x, 8, 1, 64, 1);
        lower(&build.with(&[y]).region, true).map(drop).map_err(|refusal| refusal.to_string())
    };
    let more = || Err("shape: 'x0' has more elements than CUTLASS can count".to_owned());
    for (dtype, channels, most) in
        [(DType::F16, 3, 31), (DType::F16, 64, 31), (DType::F32, 3, 15), (DType::F32, 8, 255)]
    {
        assert_eq!((taken(dtype, channels, most), taken(dtype, channels, most + 1)), (Ok(()), more()));
    }
}

#[test]
fn patterns_are_patterns() {
    for pattern in crate::conv::patterns() {
        pattern.parse().unwrap_or_else(|error| panic!("{error:?}"));
    }
}
