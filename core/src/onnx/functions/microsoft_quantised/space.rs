//! Convolutions and pools, whose channels may come last.

use byoc_plugin_api::Attribute;

use super::super::body::{Body, Value};
use super::super::call::{Call, bad};
use super::super::microsoft::conv::ATTRIBUTES as CONV;
use super::{dequantised, quantised};
use crate::diagnostic::Result;

/// [N, spatial, C] as [N, C, spatial], with that many axes of space.
fn channels_first(body: &mut Body, x: &Value, space: usize) -> Value {
    let space = space as i64;
    let perm: Vec<_> = [0, space + 1].into_iter().chain(1..=space).collect();
    body.transpose(x, &perm)
}

/// The way back.
fn channels_last(body: &mut Body, y: &Value, space: usize) -> Value {
    let perm: Vec<_> = std::iter::once(0).chain(2..space as i64 + 2).chain([1]).collect();
    body.transpose(y, &perm)
}

/// The same where the number of axes is not known while this is written, by way of [N, all of space, C].
fn moved(body: &mut Body, x: &Value, first: bool) -> Value {
    let (samples, rest) = (body.sizes(x, 0, Some(1)), body.ints(&[-1]));
    let (flat, space, channels) = if first {
        let (space, channels) = (body.sizes(x, 1, Some(-1)), body.sizes(x, -1, None));
        (body.concat(&[&samples, &rest, &channels], 0), space, channels)
    } else {
        let (channels, space) = (body.sizes(x, 1, Some(2)), body.sizes(x, 2, None));
        (body.concat(&[&samples, &channels, &rest], 0), space, channels)
    };
    let flat = body.op("Reshape", [x, &flat]);
    let turned = body.transpose(&flat, &[0, 2, 1]);
    let shape = match first {
        true => body.concat(&[&samples, &channels, &space], 0),
        false => body.concat(&[&samples, &space, &channels], 0),
    };
    body.op("Reshape", [&turned, &shape])
}

/// ONNX's `QLinearConv`, of images whose channels are last where `channels_last` says so. The weights lie as in ONNX.
pub(in super::super) fn conv(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let mut inputs = (0..8).map(|index| call.input(index)).collect::<Result<Vec<_>>>()?;
    inputs.extend(call.optional(8));
    let last = call.int("channels_last") != 0;
    let space = call.ints("kernel_shape").map(<[i64]>::len);
    if last {
        inputs[0] = match space {
            Some(space) => channels_first(body, &inputs[0], space),
            None => moved(body, &inputs[0], true),
        };
    }
    let y = body.many("QLinearConv", &inputs, &call.given(&CONV), 1).swap_remove(0);
    Ok(vec![match space {
        _ if !last => y,
        Some(space) => channels_last(body, &y, space),
        None => moved(body, &y, false),
    }])
}

/// `AveragePool`.
pub(in super::super) fn average_pool(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    if call.int("ceil_mode") != 0 && call.int("count_include_pad") != 0 {
        // ONNX counts the padding that a window covers, onnxruntime what is beyond it, too.
        let cause = "attributes 'ceil_mode' and 'count_include_pad' are both set, which is not supported: what counts beyond the padding \
                     differs between onnxruntime and ONNX";
        return Err(bad(cause));
    }
    let names = ["auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"];
    let pool = call.given(&names);
    let x = dequantised(body, call, 0)?;
    let y = pooled(body, call, &x, "AveragePool", &pool, call.int("channels_last") != 0);
    Ok(vec![quantised(body, call, &y, 3, &call.input(0)?)?])
}

/// `MaxPool` of images whose channels are last.
pub(in super::super) fn max_pool(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let names = ["auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"];
    let pool = call.given(&names);
    Ok(vec![pooled(body, call, &call.input(0)?, "MaxPool", &pool, true)])
}

fn pooled(body: &mut Body, call: &Call, x: &Value, op: &str, pool: &[(&str, Attribute)], last: bool) -> Value {
    if !last {
        return body.with(op, [x], pool);
    }
    let space = call.ints("kernel_shape").map_or(0, <[i64]>::len);
    let x = channels_first(body, x, space);
    let y = body.with(op, [&x], pool);
    channels_last(body, &y, space)
}

/// The mean over space.
pub(in super::super) fn global_average_pool(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let x = dequantised(body, call, 0)?;
    let y = if call.int("channels_last") == 0 {
        body.op("GlobalAveragePool", [&x])
    } else {
        let shape = body.sizes(&x, 0, None);
        let rank = body.op("Size", [&shape]);
        let [one, last] = [1, -1].map(|value| body.int(value));
        let end = body.op("Add", [&rank, &last]);
        let axes = body.op("Range", [&one, &end, &one]);
        body.mean(&x, &axes)
    };
    Ok(vec![quantised(body, call, &y, 3, &call.input(0)?)?])
}

/// `ConvTranspose` whose padding, what is cut off its output, is an input.
pub(in super::super) fn conv_transpose(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let mut inputs = vec![call.input(0)?, call.input(1)?];
    inputs.extend(call.optional(3));
    let names = ["auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"];
    let y = body.many("ConvTranspose", &inputs, &call.given(&names), 1).swap_remove(0);
    let Some(pads) = call.optional(2) else { return Ok(vec![y]) };
    let automatic = call.word("auto_pad", &["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])?;
    if automatic != "NOTSET" {
        return Err(bad(format!(
            "attribute 'auto_pad' is '{automatic}', and input 2 has the padding: expected one of them"
        )));
    }
    let pads = body.reshape(&pads, &[2, -1]);
    let [start, end] = [0, 1].map(|row| {
        let row = body.int(row);
        body.op("Gather", [&pads, &row])
    });
    let sizes = body.sizes(&y, 2, None);
    let end = body.op("Sub", [&sizes, &end]);
    let count = body.op("Size", [&sizes]);
    let axes = body.range(&count);
    let two = body.int(2);
    let axes = body.op("Add", [&axes, &two]);
    Ok(vec![body.op("Slice", [&y, &start, &end, &axes])])
}
