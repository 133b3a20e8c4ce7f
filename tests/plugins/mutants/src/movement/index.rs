//! What finds the place of each element by its index.

use byoc_plugin_api::Error;

use crate::call::Call;
use crate::tensor::{Tensor, axis, flat};

/// How a `Slice` goes along an axis.
#[derive(Clone, Copy)]
struct Range {
    start: i64,
    step: i64,
    count: usize,
}

/// The elements that ONNX takes of `size` ones.
fn range(start: i64, end: i64, step: i64, size: usize) -> Range {
    let size = size as i64;
    let counted = |at: i64| if at < 0 { at.saturating_add(size) } else { at };
    let (start, end) = match step > 0 {
        true => (counted(start).clamp(0, size), counted(end).clamp(0, size)),
        false => (counted(start).clamp(0, size - 1), counted(end).clamp(-1, size - 1)),
    };
    let room = if step > 0 { end - start } else { start - end };
    let count = if room > 0 { (room as u64).div_ceil(step.unsigned_abs()) as usize } else { 0 };
    Range { start, step, count }
}

pub(super) fn slice(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let (starts, ends) = (call.ints(1)?, call.ints(2)?);
    let in_order: Vec<i64> = (0..starts.len() as i64).collect();
    let axes = call.maybe_ints(3)?.unwrap_or(&in_order);
    let steps = call.maybe_ints(4)?;
    let mut right: Vec<Range> = x.shape.iter().map(|&count| Range { start: 0, step: 1, count }).collect();
    let mut read = right.clone();
    for (number, (&start, &end)) in starts.iter().zip(ends).enumerate() {
        let given = axes.get(number).ok_or_else(|| Error::new("Slice has fewer axes than starts"))?;
        let at = axis(*given, x.shape.len())?;
        let step = steps.and_then(|steps| steps.get(number)).copied().unwrap_or(1);
        if step == 0 {
            return Err(Error::new("a step of Slice is 0"));
        }
        right[at] = range(start, end, step, x.shape[at]);
        let mut planted = right[at];
        if call.has("slice-start-negative") && start < 0 {
            planted.start = 0;
        }
        if call.has("slice-start-clamped") && step < 0 && start >= x.shape[at] as i64 {
            planted.start -= 1;
        }
        if call.has("slice-step-ignored") {
            planted.step = step.signum();
        }
        if call.has("slice-backwards-ignored") && step < 0 {
            planted = Range { start: planted.start + step * (planted.count as i64 - 1), step: -step, ..planted };
        }
        read[if call.has("slice-axes-ignored") { number } else { at }] = planted;
    }
    let shape: Vec<usize> = right.iter().map(|range| range.count).collect();
    Ok(Tensor::of(&shape, |index| {
        let places = index.iter().zip(&read).map(|(&at, range)| range.start + at as i64 * range.step);
        x.at(&places.map(|place| usize::try_from(place).unwrap_or(0)).collect::<Vec<_>>())
    }))
}

/// An index that may count from the end.
fn counted(given: i64, size: usize, negative_is_0: bool) -> usize {
    let counted = if given < 0 { given.saturating_add(size as i64) } else { given };
    if given < 0 && negative_is_0 { 0 } else { usize::try_from(counted).unwrap_or(0) }
}

pub(super) fn gather(call: &Call<'_>) -> Result<Tensor, Error> {
    let (x, indices) = (call.x(0)?, call.ints(1)?);
    let index_shape = call.tensor(1).map(Tensor::shape).unwrap_or_default();
    let along = call.axis(0, x.shape.len())?;
    let shape = [&x.shape[..along], index_shape, &x.shape[along + 1..]].concat();
    let behind = along + index_shape.len();
    Ok(Tensor::of(&shape, |index| {
        let mut place = flat(&index[along..behind], index_shape);
        if call.has("gather-first-row") && index_shape.len() > 1 {
            place %= index_shape[index_shape.len() - 1];
        }
        let mut found = counted(indices[place], x.shape[along], call.has("gather-negative"));
        if call.has("gather-scalar") && index_shape.is_empty() {
            found = 0;
        }
        let mut source = [&index[..along], &[found], &index[behind..]].concat();
        if call.has("gather-axis-first") && along > 0 {
            let last = source[along].min(x.shape[0] - 1);
            source[along] = source[0].min(x.shape[along] - 1);
            source[0] = last;
        }
        x.at(&source)
    }))
}

pub(super) fn gather_elements(call: &Call<'_>) -> Result<Tensor, Error> {
    let (x, indices) = (call.x(0)?, call.ints(1)?);
    let shape = call.tensor(1).map(Tensor::shape).unwrap_or_default();
    let along = call.axis(0, x.shape.len())?;
    Ok(Tensor::of(shape, |index| {
        let mut place = flat(index, shape);
        if call.has("elements-data-index") {
            place = flat(index, x.shape).min(indices.len() - 1);
        }
        let mut source = index.to_vec();
        let at = if call.has("elements-axis-first") { 0 } else { along };
        source[at] = counted(indices[place], x.shape[along], call.has("elements-negative"));
        x.at(&source)
    }))
}

/// The size of a block, and the four sizes of an image.
fn blocks(call: &Call<'_>) -> Result<(usize, [usize; 4]), Error> {
    let block = usize::try_from(call.node.int("blocksize", 1)).ok().filter(|&block| block > 0);
    let block = block.ok_or_else(|| Error::new("a block has at least 1 element"))?;
    let shape = call.x(0)?.shape.try_into().map_err(|_| Error::new("an image has 4 dimensions"))?;
    Ok((block, shape))
}

pub(super) fn depth_to_space(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let (block, [batch, channels, height, width]) = blocks(call)?;
    let outer = channels / (block * block);
    let mut crd = call.node.string("mode", "DCR") == "CRD";
    if call.has("depth-crd-as-dcr") {
        crd = false;
    }
    if call.has("depth-dcr-as-crd") {
        crd = true;
    }
    Ok(Tensor::of(&[batch, outer, height * block, width * block], |at| {
        let mut within = at[2] % block * block + at[3] % block;
        if call.has("depth-block-transposed") {
            within = at[3] % block * block + at[2] % block;
        }
        let channel = if crd { at[1] * block * block + within } else { within * outer + at[1] };
        x.at(&[at[0], channel, at[2] / block, at[3] / block])
    }))
}

pub(super) fn space_to_depth(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let (block, [batch, channels, height, width]) = blocks(call)?;
    let square = block * block;
    Ok(Tensor::of(&[batch, channels * square, height / block, width / block], |at| {
        let (mut within, mut channel) = (at[1] / channels, at[1] % channels);
        if call.has("space-order") {
            (within, channel) = (at[1] % square, at[1] / square);
        }
        x.at(&[at[0], channel, at[2] * block + within / block, at[3] * block + within % block])
    }))
}

pub(super) fn trilu(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let rank = x.shape.len();
    if rank < 2 {
        return Err(Error::new("Trilu wants matrices"));
    }
    let mut k = call.maybe_ints(1)?.and_then(|k| k.first().copied()).unwrap_or(0);
    if call.has("trilu-k-ignored") {
        k = 0;
    }
    if call.has("trilu-k-sign") {
        k = -k;
    }
    let upper = call.node.int("upper", 1) != 0 || call.has("trilu-always-upper");
    Ok(Tensor::of(x.shape, |index| {
        let distance = index[rank - 1] as i64 - index[rank - 2] as i64;
        let is_first = index[..rank - 2].iter().all(|&at| at == 0);
        let keeps = if upper { distance >= k } else { distance <= k };
        if keeps || call.has("trilu-batch") && !is_first { x.at(index) } else { 0.0 }
    }))
}
