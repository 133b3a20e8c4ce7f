//! Weights as they are packed, element by element.

use byoc_plugin_api::testing::{Claimed, RegionBuilder, decode, rounded};
use byoc_plugin_api::{Claims, ConstantAccess, DType, Job, Options};

use super::build::{build, depthwise};
use crate::conv;

fn claims(build: &RegionBuilder) -> Claimed {
    let (mut claims, constants) = (Claimed::default(), build.views(ConstantAccess::Both));
    let (region, options) = (&build.region, Options::default());
    let learnt = conv::Learnt::of(&conv::lower(region, true).expect("it is taken"), region);
    let job = Job::new(region, &constants, &options);
    conv::constant_updater(&job, &learnt, &mut Claims::new(&mut claims)).expect("it is claimed");
    claims
}

/// Three channels to five, padded to eight and four, normalised.
#[test]
fn filters_are_padded_and_normalised() {
    let (mut build, x) = build(DType::F16, [1, 3, 6, 6]);
    let y = build.conv(x, 5, 3, 1, 1);
    let y = build.norm(y);
    let build = build.with(&[y]);
    let claims = claims(&build);
    let [(packed, bytes)] = claims.packed()[..] else { panic!("{claims:?}") };
    assert_eq!((packed.layout.as_str(), packed.dtype, packed.alignment), ("cutlass-krsc/1", DType::F16, 256));
    assert_eq!(packed.shape, [8 * 9 * 4 + 8 * 2]);
    assert_eq!(claims.words(), ["packed", "unused", "unused", "unused", "unused", "unused"]);
    let data = |at: usize| build.constants[at].numbers();
    let [w, bias, scale, shift, mean, variance] = [0, 1, 2, 3, 4, 5].map(data);
    let factor = |k: usize| scale[k] / (variance[k] + f64::from(1e-5f32)).sqrt();
    let (filters, biases) = bytes.split_at(8 * 9 * 4 * 2);
    let filters = decode(DType::F16, filters);
    for (at, &found) in filters.iter().enumerate() {
        let (k, tap, c) = (at / 36, at / 4 % 9, at % 4);
        let expected = if k < 5 && c < 3 { w[(k * 3 + c) * 9 + tap] * factor(k) } else { 0.0 };
        assert_eq!(found, rounded(DType::F16, expected), "filter {k}, tap {tap}, channel {c}");
    }
    for (k, found) in decode(DType::F32, biases).into_iter().enumerate() {
        let added = |k: usize| (bias[k] - mean[k]) * factor(k) + shift[k];
        let expected = if k < 5 { rounded(DType::F32, added(k)) } else { 0.0 };
        assert_eq!(found, expected, "bias {k}");
    }
}

#[test]
fn a_filter_for_each_channel_and_a_number() {
    let (mut build, x) = build(DType::F32, [1, 6, 4, 4]);
    let y = depthwise(&mut build, x, 3, 1);
    let (six, least) = (build.number(6.0), build.number(0.0));
    let y = build.like("Clip", &[y, least, six], "");
    let build = build.with(&[y]);
    let claims = claims(&build);
    let [(packed, bytes)] = claims.packed()[..] else { panic!("{claims:?}") };
    assert_eq!((packed.layout.as_str(), packed.shape.as_slice()), ("cutlass-rsk/1", [9 * 8 + 8].as_slice()));
    assert_eq!(claims.words(), ["packed", "embedded", "embedded"]);
    let (found, w) = (decode(DType::F32, bytes), build.constants[0].numbers());
    for (at, found) in found.into_iter().enumerate() {
        let (tap, k) = (at / 8, at % 8);
        assert_eq!(found, if tap < 9 && k < 6 { w[k * 9 + tap] } else { 0.0 }, "tap {tap}, channel {k}");
    }
}
