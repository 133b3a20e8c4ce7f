//! Padding of all modes but `wrap`.

use byoc_plugin_api::Error;

use crate::call::Call;
use crate::tensor::{Tensor, axis};

/// The pads in front and behind of each dimension, as they should be and as they are read.
fn pads(call: &Call<'_>, rank: usize) -> Result<[Vec<[i64; 2]>; 2], Error> {
    let given = call.ints(1)?;
    let in_order: Vec<i64> = (0..rank as i64).collect();
    let axes = call.maybe_ints(3)?.unwrap_or(&in_order);
    if given.len() != 2 * axes.len() || axes.len() > rank {
        return Err(Error::new(format!("{} pads for {} axes", given.len(), axes.len())));
    }
    let mut right = vec![[0, 0]; rank];
    let mut read = right.clone();
    for (number, &at) in axes.iter().enumerate() {
        let at = axis(at, rank)?;
        right[at] = [given[number], given[number + axes.len()]];
        let mut planted = right[at];
        if call.has("pad-swapped") {
            planted.swap(0, 1);
        }
        if call.has("pad-interleaved") {
            planted = [given[2 * number], given[2 * number + 1]];
        }
        if call.has("pad-negative") {
            planted[0] = planted[0].max(0);
        }
        read[if call.has("pad-axes-ignored") { number } else { at }] = planted;
    }
    Ok([right, read])
}

pub(super) fn pad(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let mut value = call.maybe(2)?.map_or(0.0, |value| value.nth(0));
    if call.has("pad-value-ignored") {
        value = 0.0;
    }
    let mode = call.node.string("mode", "constant");
    let [right, read] = pads(call, x.shape.len())?;
    let padded = x.shape.iter().zip(&right).map(|(&size, [begin, end])| size as i64 + begin + end);
    let shape: Vec<usize> = padded.map(|size| usize::try_from(size).unwrap_or(0)).collect();
    Ok(Tensor::of(&shape, |index| {
        let mut source = vec![0; index.len()];
        for (at, place) in source.iter_mut().enumerate() {
            match inside(call, index[at] as i64 - read[at][0], x.shape[at] as i64, mode) {
                Some(found) => *place = found,
                None => return value,
            }
        }
        x.at(&source)
    }))
}

/// The element that stands at a place along an axis of `size` elements; `None` where it is filled up.
fn inside(call: &Call<'_>, at: i64, size: i64, mode: &str) -> Option<usize> {
    if (0..size).contains(&at) {
        return usize::try_from(at).ok();
    }
    let edge =
        mode == "edge" && !call.has("pad-edge-as-constant") || mode == "reflect" && call.has("pad-reflect-as-edge");
    if edge {
        return usize::try_from(at.clamp(0, size - 1)).ok();
    }
    if mode != "reflect" {
        return None;
    }
    let (period, repeats) = match call.has("pad-reflect-symmetric") {
        true => (2 * size, 1),
        false => ((2 * size - 2).max(1), 0),
    };
    let at = at.rem_euclid(period);
    usize::try_from(if at < size { at } else { period - at - repeats }).ok()
}
