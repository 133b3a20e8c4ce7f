//! What gives as many elements along its axis as it reads.

use byoc_plugin_api::Error;

use crate::call::Call;
use crate::tensor::{Tensor, View, axis};

/// The elements of the line along an axis that an index is in.
fn line<'a>(x: View<'a>, index: &[usize], axis: usize) -> impl Iterator<Item = f32> + use<'a> {
    let mut index = index.to_vec();
    (0..x.shape.get(axis).copied().unwrap_or(1)).map(move |at| {
        if let Some(place) = index.get_mut(axis) {
            *place = at;
        }
        x.at(&index)
    })
}

pub(super) fn softmax(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let is_log = call.node.op == "LogSoftmax";
    let mut axis = call.axis(-1, x.shape.len().max(1))?;
    if call.has("softmax-axis-last") && !is_log || call.has("log-softmax-axis-last") && is_log {
        axis = x.shape.len().saturating_sub(1);
    }
    Ok(Tensor::of(x.shape, |index| {
        let mut elements: Vec<f32> = line(x, index, axis).collect();
        if call.has("softmax-flat") {
            let within = x.shape[axis..].iter().product::<usize>();
            let start = crate::tensor::flat(index, x.shape) / within.max(1) * within;
            elements = (start..start + within).map(|place| x.nth(place)).collect();
        }
        let own = index.get(axis).copied().unwrap_or(0);
        if call.has("softmax-tail-4") && elements.len() > 4 && own >= elements.len() / 4 * 4 {
            return 0.0;
        }
        let mut most = elements.iter().fold(f32::NEG_INFINITY, |most, &value| most.max(value));
        if call.has("softmax-overflow") {
            most = 0.0;
        }
        let counted = if call.has("softmax-sum-32") { elements.len().min(32) } else { elements.len() };
        let sum: f32 = elements[..counted].iter().map(|value| (value - most).exp()).sum();
        let value = x.at(index) - most;
        match is_log {
            false => value.exp() / sum,
            true if call.has("softmax-log") => (value.exp() / sum).ln(),
            true => value - sum.ln(),
        }
    }))
}

pub(super) fn cumulative(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let &[mut given] = call.ints(1)? else { return Err(Error::new("CumSum has one axis")) };
    if call.has("cumsum-negative-axis") && given < 0 {
        given = 0;
    }
    if call.has("cumsum-axis-last") {
        given = -1;
    }
    let axis = axis(given, x.shape.len())?;
    let (mut exclusive, mut reverse) = (call.node.int("exclusive", 0) != 0, call.node.int("reverse", 0) != 0);
    if call.has("cumsum-exclusive-ignored") || call.has("cumsum-both") && reverse {
        exclusive = false;
    }
    if call.has("cumsum-reverse-ignored") {
        reverse = false;
    }
    Ok(Tensor::of(x.shape, |index| {
        let own = index[axis];
        let mut elements: Vec<f32> = line(x, index, axis).collect();
        let mut last = own;
        if reverse {
            elements.reverse();
            last = elements.len() - 1 - own;
        }
        let counted = if exclusive { last } else { last + 1 };
        elements[..counted].iter().sum()
    }))
}
