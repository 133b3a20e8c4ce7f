//! Weights as they are packed, element by element.

use byoc_plugin_api::{
    Claim, ClaimSink, Claims, ConstantId, Constants, DType, Dim, Error, TensorView, contiguous_strides,
};
use half::f16;

use super::build::Build;
use crate::conv;

/// Claims, with the bytes of those that are packed.
#[derive(Default)]
struct Sink(Vec<(ConstantId, Claim, Vec<u8>)>);

impl ClaimSink for Sink {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        self.0.push((id, claim.clone(), Vec::new()));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0.last_mut().expect("a claim comes first").2.extend_from_slice(bytes);
        Ok(())
    }
}

fn claims(build: &Build) -> Sink {
    let strides: Vec<_> = build.constants.iter().map(|(_, shape, _)| contiguous_strides(shape)).collect();
    let entries = build.constants.iter().zip(&strides).map(|((id, shape, data), strides)| {
        (*id, TensorView::from_slice(data, shape, strides).expect("the shape fits"))
    });
    let constants = Constants::new(entries.collect());
    let mut sink = Sink::default();
    conv::constant_updater(&build.region, &constants, true, &mut Claims::new(&mut sink)).expect("it is taken");
    sink
}

fn halves(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|pair| f16::from_le_bytes([pair[0], pair[1]]).to_f32()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().expect("four"))).collect()
}

/// Three channels to five, as eight and four lie, normalised.
#[test]
fn filters_are_padded_and_normalised() {
    let mut build = Build::new(DType::F16);
    let x = build.input(&[1, 3, 6, 6].map(Dim::from));
    let y = build.conv(x, 5, 3, 1);
    let y = build.norm(y);
    let build = build.with(&[y]);
    let Sink(claims) = claims(&build);
    let [(_, Claim::Packed(packed), bytes), rest @ ..] = claims.as_slice() else { panic!("{claims:?}") };
    assert_eq!((packed.layout.as_str(), packed.dtype, packed.alignment), ("cutlass-krsc/1", DType::F16, 256));
    assert_eq!(packed.shape, [8 * 9 * 4 + 8 * 2]);
    assert!(rest.iter().all(|(_, claim, _)| *claim == Claim::Unused), "{rest:?}");
    let data = |at: usize| &build.constants[at].2;
    let [w, bias, scale, shift, mean, variance] = [0, 1, 2, 3, 4, 5].map(data);
    let factor = |k: usize| f64::from(scale[k]) / (f64::from(variance[k]) + f64::from(1e-5f32)).sqrt();
    let (filters, biases) = bytes.split_at(8 * 9 * 4 * 2);
    let filters = halves(filters);
    for (at, &found) in filters.iter().enumerate() {
        let (k, tap, c) = (at / 36, at / 4 % 9, at % 4);
        let expected = if k < 5 && c < 3 { f64::from(w[(k * 3 + c) * 9 + tap]) * factor(k) } else { 0.0 };
        assert_eq!(found, f16::from_f64(expected).to_f32(), "filter {k}, tap {tap}, channel {c}");
    }
    for (k, found) in floats(biases).into_iter().enumerate() {
        let added = |k: usize| (f64::from(bias[k]) - f64::from(mean[k])) * factor(k) + f64::from(shift[k]);
        let expected = if k < 5 { added(k) as f32 } else { 0.0 };
        assert_eq!(found, expected, "bias {k}");
    }
}

#[test]
fn a_filter_for_each_channel_and_a_number() {
    let mut build = Build::new(DType::F32);
    let x = build.input(&[1, 6, 4, 4].map(Dim::from));
    let y = build.depthwise(x, 3, 1);
    let six = build.constant(&[], vec![6.0]);
    let least = build.constant(&[], vec![0.0]);
    let y = build.same("Clip", &[y, least, six]);
    let build = build.with(&[y]);
    let Sink(claims) = claims(&build);
    let [(_, Claim::Packed(packed), bytes), rest @ ..] = claims.as_slice() else { panic!("{claims:?}") };
    assert_eq!((packed.layout.as_str(), packed.shape.as_slice()), ("cutlass-rsk/1", [9 * 8 + 8].as_slice()));
    assert!(rest.iter().all(|(_, claim, _)| *claim == Claim::Embedded), "{rest:?}");
    let (found, w) = (floats(bytes), &build.constants[0].2);
    for (at, found) in found.into_iter().enumerate() {
        let (tap, k) = (at / 8, at % 8);
        assert_eq!(found, if tap < 9 && k < 6 { w[k * 9 + tap] } else { 0.0 }, "tap {tap}, channel {k}");
    }
}
