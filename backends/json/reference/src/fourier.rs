//! Fourier transforms, `DFT` and `STFT`, and `MelWeightMatrix`, all in `f64`.

mod fft;

use byoc_plugin_api::Error;

use super::array::{Array, elements, shaped};
use super::call::{Call, Outputs, around, axis};
use super::{FLOAT, I64, INDEX, Kernel, SAME, kernel};
use fft::{Complex, transform};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[
    kernel("DFT", dft, &[FLOAT, INDEX, I64]),
    kernel("MelWeightMatrix", mel_weight_matrix, &[INDEX, INDEX, INDEX, FLOAT]),
    kernel("STFT", stft, &[FLOAT, INDEX, SAME, INDEX]),
];

/// The number that an optional input holds.
fn number(call: &Call<'_, '_>, index: usize) -> Result<Option<i64>, Error> {
    match call.ints(index).as_deref() {
        None => Ok(None),
        Some([number]) => Ok(Some(*number)),
        Some(other) => Err(Error::new(format!("input {index} of {} has {} elements", call.node.op, other.len()))),
    }
}

/// The length that an optional input holds.
fn length(call: &Call<'_, '_>, index: usize) -> Result<Option<usize>, Error> {
    let Some(number) = number(call, index)? else { return Ok(None) };
    let length = usize::try_from(number).ok().filter(|&length| length > 0);
    length.map(Some).ok_or_else(|| Error::new(format!("input {index} of {} is {number}", call.node.op)))
}

/// A tensor of numbers whose last dimension has their parts: one of real numbers, two of complex ones.
struct Numbers {
    parts: usize,
    values: Vec<f64>,
}

impl Numbers {
    fn of(x: &Array<'_>) -> Result<Numbers, Error> {
        match x.shape().last() {
            Some(&parts @ (1 | 2)) => Ok(Numbers { parts, values: x.to_f64().into_iter().collect() }),
            _ => Err(Error::new(format!("a tensor of {:?} has no complex numbers", x.shape()))),
        }
    }

    fn get(&self, index: usize) -> Complex {
        Complex {
            re: self.values[index * self.parts],
            im: if self.parts == 2 { self.values[index * 2 + 1] } else { 0.0 },
        }
    }
}

/// `DFT`: forwards, backwards, and with only those frequencies that are different for real signals.
pub(crate) fn dft(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let numbers = Numbers::of(x)?;
    let dims = &x.shape()[..x.shape().len() - 1];
    let along = match number(call, 2)? {
        Some(given) => axis(given, x.shape().len())?,
        None => dims.len().wrapping_sub(1),
    };
    if along >= dims.len() {
        return Err(Error::new(format!("DFT of {:?} along axis {along}", x.shape())));
    }
    let (inverse, onesided) = (call.node.int("inverse", 0) != 0, call.node.int("onesided", 0) != 0);
    let (outer, size, inner) = around(dims, along);
    let usual = if inverse && onesided { size.saturating_sub(1) * 2 } else { size };
    let length = length(call, 1)?.unwrap_or(usual);
    if length == 0 {
        return Err(Error::new("DFT of no elements"));
    }
    let (kept, parts) = match (inverse, onesided) {
        (true, true) => (length, 1),
        (false, true) => (length / 2 + 1, 2),
        (_, false) => (length, 2),
    };
    let mut shape = x.shape().to_vec();
    shape[along] = kept;
    shape[dims.len()] = parts;
    let mut y = vec![0.0; call.count(&shape)?];
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        let there = |place: usize| (place < size).then(|| numbers.get((o * size + place) * inner + i));
        let signal: Vec<Complex> = if inverse && onesided {
            mirrored(length, there)
        } else {
            (0..length).map(|place| there(place).unwrap_or_default()).collect()
        };
        let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
        for (place, value) in transform(signal, inverse).into_iter().take(kept).enumerate() {
            let at = ((o * kept + place) * inner + i) * parts;
            y[at] = value.re * scale;
            if parts == 2 {
                y[at + 1] = value.im * scale;
            }
        }
    }
    call.rounded(shaped(&shape, y)?)
}

/// All frequencies of a real signal of that length, of which the first half is there. Those that mirror themselves are real.
fn mirrored(length: usize, there: impl Fn(usize) -> Option<Complex>) -> Vec<Complex> {
    let frequency = |place: usize| match (place, length - place) {
        (0, _) => Complex { im: 0.0, ..there(0).unwrap_or_default() },
        (a, b) if a == b => Complex { im: 0.0, ..there(a).unwrap_or_default() },
        (a, b) if a < b => there(a).unwrap_or_default(),
        (_, b) => there(b).unwrap_or_default().conjugate(),
    };
    (0..length).map(frequency).collect()
}

/// `STFT`: the transforms of the frames of each signal, multiplied by the window before.
pub(crate) fn stft(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let &[batch, size, _] = x.shape() else {
        return Err(Error::new(format!("STFT of {:?}, expected 3 dimensions", x.shape())));
    };
    let numbers = Numbers::of(x)?;
    let step = length(call, 1)?.ok_or_else(|| Error::new("STFT needs a frame_step"))?;
    let window = call.optional(2).map(Array::to_f64);
    let usual = window.as_ref().map_or(size, |window| window.len());
    let length = length(call, 3)?.unwrap_or(usual);
    if window.as_ref().is_some_and(|window| window.len() != length) || length == 0 || length > size {
        return Err(Error::new(format!("STFT of {:?} with frames of {length}", x.shape())));
    }
    let frames = (size - length) / step + 1;
    let kept = if call.node.int("onesided", 1) != 0 { length / 2 + 1 } else { length };
    let shape = [batch, frames, kept, 2];
    let mut y = Vec::with_capacity(call.count(&shape)?);
    let window = window.as_ref().map(|window| window.view());
    let window = window.as_ref().map(elements);
    for (b, frame) in (0..batch).flat_map(|b| (0..frames).map(move |frame| (b, frame))) {
        let sample = |place: usize| {
            let Complex { re, im } = numbers.get(b * size + frame * step + place);
            let weight = window.as_ref().map_or(1.0, |window| window[place]);
            Complex { re: re * weight, im: im * weight }
        };
        let frequencies = transform((0..length).map(sample).collect(), false);
        y.extend(frequencies.into_iter().take(kept).flat_map(|value| [value.re, value.im]));
    }
    call.rounded(shaped(&shape, y)?)
}

/// `MelWeightMatrix`: triangles whose corners are the same distance apart on the mel scale, `mel(f) = 2595 * log10(1 + f/700)`.
pub(crate) fn mel_weight_matrix(call: &Call<'_, '_>) -> Outputs {
    let size = |index: usize| length(call, index)?.ok_or_else(|| Error::new("MelWeightMatrix needs five inputs"));
    let (bins, length, rate) = (size(0)?, size(1)?, size(2)?);
    let edge = |index: usize| {
        let edge = call.input(index)?.to_f64();
        edge.first().copied().ok_or_else(|| Error::new(format!("input {index} of MelWeightMatrix has no element")))
    };
    let mel = |frequency: f64| 2595.0 * (frequency / 700.0).ln_1p() / std::f64::consts::LN_10;
    let (low, high) = (mel(edge(3)?), mel(edge(4)?));
    let rows = length / 2 + 1;
    let shape = [rows, bins];
    let mut y = vec![0.0; call.count(&shape)?];
    let step = (high - low) / (bins as f64 + 2.0);
    // The frequency of the transform at which a corner is.
    let corner = |index: usize| {
        let frequency = 700.0 * ((low + index as f64 * step) / 2595.0 * std::f64::consts::LN_10).exp_m1();
        let place = ((length as f64 + 1.0) * frequency / rate as f64).floor();
        let inside = (0.0..rows as f64).contains(&place).then_some(place as usize);
        inside
            .ok_or_else(|| Error::new(format!("{frequency} Hz is not among the {rows} frequencies of MelWeightMatrix")))
    };
    for bin in 0..bins {
        let (left, center, right) = (corner(bin)?, corner(bin + 1)?, corner(bin + 2)?);
        if left > center || center > right {
            return Err(Error::new("the upper edge of MelWeightMatrix is below the lower one"));
        }
        for row in left..center {
            y[row * bins + bin] = (row - left) as f64 / (center - left) as f64;
        }
        y[center * bins + bin] = 1.0;
        for row in center..right {
            y[row * bins + bin] = (right - row) as f64 / (right - center) as f64;
        }
    }
    let dtype = call.output_type(0).unwrap_or(byoc_plugin_api::DType::F32);
    Ok(vec![Array::from_f64(dtype, shaped(&shape, y)?)])
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, ints, tensor};

    fn near(found: &[f64], expected: &[f64]) {
        let close = found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(close, "{found:?}, expected {expected:?}");
    }

    #[test]
    fn transforms_go_forwards_and_backwards() {
        let flags = |inverse, onesided| [("inverse", Attribute::Int(inverse)), ("onesided", Attribute::Int(onesided))];
        let line = || tensor(&[1, 3, 1], &[1f64, 2.0, 4.0]);
        let (shape, forward) = first("DFT", &flags(0, 0), vec![line()]);
        let root = 3f64.sqrt();
        assert_eq!(shape, [1, 3, 2]);
        near(&forward, &[7.0, 0.0, -2.0, root, -2.0, -root]);
        let (shape, half) = first("DFT", &flags(0, 1), vec![line()]);
        assert_eq!(shape, [1, 2, 2]);
        near(&half, &forward[..4]);
        near(&first("DFT", &flags(1, 0), vec![tensor(&[1, 3, 2], &forward)]).1, &[1.0, 0.0, 2.0, 0.0, 4.0, 0.0]);
        let three = tensor(&[], &[3i64]);
        near(&first("DFT", &flags(1, 1), vec![tensor(&[1, 2, 2], &half), three]).1, &[1.0, 2.0, 4.0]);
        // Cut and filled up with zeros.
        near(&first("DFT", &flags(0, 0), vec![line(), tensor(&[], &[1i32])]).1, &[1.0, 0.0]);
        near(
            &first("DFT", &flags(0, 0), vec![line(), tensor(&[], &[4i64])]).1,
            &[7.0, 0.0, -3.0, -2.0, 3.0, 0.0, -3.0, 2.0],
        );
        let columns = first("DFT", &[], vec![counting(&[2, 2, 1]), None, tensor(&[], &[0i64])]).1;
        near(&columns, &[4.0, 0.0, 6.0, 0.0, -2.0, 0.0, -2.0, 0.0]);
        let error = all("DFT", &[], vec![line(), None, tensor(&[], &[2i64])]).expect_err("the parts' axis");
        assert_eq!(error.message, "DFT of [1, 3, 1] along axis 2");
        let error = all("DFT", &[], vec![line(), ints(&[-1])]).expect_err("a negative length");
        assert_eq!(error.message, "input 1 of DFT is -1");
    }

    #[test]
    fn frames_are_weighted_and_transformed() {
        let step = || tensor(&[], &[2i64]);
        let (shape, y) = first("STFT", &[], vec![counting(&[1, 5, 1]), step(), tensor(&[2], &[1f32, 0.5])]);
        assert_eq!(shape, [1, 2, 2, 2]);
        near(&y, &[2.0, 0.0, 0.0, 0.0, 5.0, 0.0, 1.0, 0.0]);
        let error = all("STFT", &[], vec![counting(&[1, 5, 1]), step(), None, ints(&[6])]).expect_err("too long");
        assert_eq!(error.message, "STFT of [1, 5, 1] with frames of 6");
    }

    #[test]
    fn triangles_have_a_peak_of_1() {
        let numbers = |upper: f32| {
            let sizes = [2, 16, 8000].map(|value| tensor(&[], &[value as i64]));
            [&sizes[..], &[tensor(&[], &[0f32]), tensor(&[], &[upper])]].concat()
        };
        let (shape, y) = first("MelWeightMatrix", &[], numbers(4000.0));
        assert_eq!(shape, [9, 2]);
        near(&y, &[1.0, 0.0, 0.5, 0.5, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let error = all("MelWeightMatrix", &[], numbers(1e9)).expect_err("too high").message;
        assert!(error.ends_with("Hz is not among the 9 frequencies of MelWeightMatrix"), "{error}");
        assert!(all("MelWeightMatrix", &[], numbers(-100.0)).is_err());
    }
}
