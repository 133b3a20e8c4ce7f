//! Signals: Fourier transforms, windows, and the matrix of the Mel scale.

use byoc_core::ops::cast::to_onnx;
use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, fixed};
use super::super::values;
use super::short::{flag, fresh, int, node, some};

/// DFT, with its axis as an attribute or as an input.
pub(crate) fn dft(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, length) = (builder.dtype(types), builder.random.of(&[1, 2, 3, 4, 5, 8]));
    let (real, inverse) = (builder.random.chance(50), builder.random.chance(30));
    let batch = some(builder);
    let middle = builder.random.chance(50);
    let parts = if real && !inverse { 1 } else { 2 };
    let mut dims = vec![batch, fixed(length), fixed(3), fixed(parts)];
    let axis = if middle { 1 } else { 2 };
    let x = fresh(builder, dtype, &dims);
    let wanted = if builder.random.chance(40) { Some(builder.random.of(&[1i64, 2, 4, 6])) } else { None };
    let length = wanted.map_or(dims[axis][0], |wanted| wanted as usize);
    let onesided = parts == 1 && builder.random.chance(50);
    dims[axis] = fixed(if onesided { length / 2 + 1 } else { length });
    dims[3] = fixed(2);
    let mut attributes = vec![("inverse", int(usize::from(inverse))), ("onesided", int(usize::from(onesided)))];
    let mut inputs = vec![x];
    inputs.push(match wanted {
        Some(wanted) => builder.structural(values::scalar(DType::I64, wanted as f64)),
        None => String::new(),
    });
    if builder.opset >= 20 {
        inputs.push(builder.structural(values::scalar(DType::I64, axis as f64)));
    } else {
        attributes.push(("axis", int(axis)));
    }
    // What rounding leaves where there is nothing would decide what is made of it.
    let y = node(builder, op, &inputs, attributes, (dtype, dims));
    builder.unread(&[y]);
    Some(())
}

pub(crate) fn stft(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, length, frame) = (builder.dtype(types), builder.random.of(&[8, 11, 16]), builder.random.of(&[2, 4, 7]));
    let (batch, step, onesided) = (some(builder), 1 + builder.random.below(4), builder.random.chance(70));
    let x = fresh(builder, dtype, &[batch, fixed(length), fixed(1)]);
    let step_input = builder.structural(values::scalar(DType::I64, step as f64));
    let windowed = builder.random.chance(60);
    let window = if windowed { fresh(builder, dtype, &[fixed(frame)]) } else { String::new() };
    let size = match windowed && builder.random.chance(50) {
        true => String::new(),
        false => builder.structural(values::scalar(DType::I64, frame as f64)),
    };
    let bins = if onesided { frame / 2 + 1 } else { frame };
    let dims = vec![batch, fixed((length - frame) / step + 1), fixed(bins), fixed(2)];
    let attributes = vec![("onesided", int(usize::from(onesided)))];
    let y = node(builder, op, &[x, step_input, window, size], attributes, (dtype, dims));
    builder.unread(&[y]);
    Some(())
}

/// The windows.
pub(crate) fn window(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let (dtype, size) = (builder.random.of(types), builder.random.of(&[1, 2, 5, 10]));
    let given = builder.structural(values::scalar(builder.random.clone().of(&[DType::I32, DType::I64]), size as f64));
    // A symmetric window of one point divides by 0.
    let periodic = if size == 1 { int(1) } else { flag(builder) };
    let attributes = vec![("output_datatype", Attribute::Int(to_onnx(dtype))), ("periodic", periodic)];
    node(builder, op, &[given], attributes, (dtype, vec![fixed(size)]));
    Some(())
}

pub(crate) fn mel(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let dtype = builder.random.of(types);
    let (bands, length) = (builder.random.of(&[1, 4, 8]), builder.random.of(&[16, 32]));
    let wholes = [bands, length, 8192].map(|value| builder.structural(values::scalar(DType::I64, value as f64)));
    let edges = [builder.random.of(&[0.0, 100.0]), builder.random.of(&[2000.0, 4000.0])];
    let edges = edges.map(|value| builder.structural(values::scalar(DType::F32, value)));
    let attributes = vec![("output_datatype", Attribute::Int(to_onnx(dtype)))];
    let inputs = [&wholes[..], &edges[..]].concat();
    node(builder, op, &inputs, attributes, (dtype, vec![fixed(length / 2 + 1), fixed(bands)]));
    Some(())
}
