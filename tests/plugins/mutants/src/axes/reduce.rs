//! Reductions, and the places of the greatest and least elements.

use byoc_plugin_api::Error;

use crate::call::Call;
use crate::tensor::{Tensor, View, axis, count, flat};

/// The shape of a reduction along these axes.
fn reduced(shape: &[usize], axes: &[usize], keep: bool) -> Vec<usize> {
    let sizes = shape.iter().enumerate();
    let sizes = sizes.filter_map(|(at, &size)| match axes.contains(&at) {
        true => keep.then_some(1),
        false => Some(size),
    });
    sizes.collect()
}

/// The elements that are reduced to that of an index.
fn elements(x: View<'_>, axes: &[usize], index: &[usize], keep: bool) -> Vec<f32> {
    let mut full = vec![0; x.shape.len()];
    let mut given = index.iter();
    for (at, place) in full.iter_mut().enumerate() {
        match axes.contains(&at) {
            true if keep => {
                given.next();
            }
            true => {}
            false => *place = given.next().copied().unwrap_or(0),
        }
    }
    let sizes: Vec<usize> = axes.iter().map(|&axis| x.shape[axis]).collect();
    (0..count(&sizes))
        .map(|mut place| {
            for (&axis, &size) in axes.iter().zip(&sizes).rev() {
                full[axis] = place % size;
                place /= size;
            }
            x.nth(flat(&full, x.shape))
        })
        .collect()
}

/// The axes to be reduced, in order.
fn axes(call: &Call<'_>, rank: usize) -> Result<Vec<usize>, Error> {
    let given = call.maybe_ints(1)?.unwrap_or_default();
    if given.is_empty() {
        let noop = call.node.int("noop_with_empty_axes", 0) != 0 && !call.has("reduce-noop-ignored");
        if call.has("reduce-no-axes") && !noop {
            return Ok(rank.checked_sub(1).into_iter().collect());
        }
        return Ok(if noop { Vec::new() } else { (0..rank).collect() });
    }
    let one = |&given: &i64| match given < 0 && call.has("reduce-negative-axis") {
        true => Ok(0),
        false => axis(given, rank),
    };
    let mut found = given.iter().map(one).collect::<Result<Vec<_>, Error>>()?;
    found.sort_unstable();
    found.dedup();
    if call.has("reduce-last-axis") {
        found = (rank - found.len()..rank).collect();
    }
    Ok(found)
}

pub(super) fn reduce(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let axes = axes(call, x.shape.len())?;
    let keep = call.node.int("keepdims", 1) != 0;
    let shape = reduced(x.shape, &axes, keep);
    let read = if call.has("reduce-first-axis") { &axes[..axes.len().min(1)] } else { &axes[..] };
    let result = Tensor::of(&shape, |index| {
        let mut values = match read.len() < axes.len() {
            // The others are read at their first element.
            true => elements(x, &axes, index, keep).into_iter().step_by(count(&sizes(x, &axes[1..])).max(1)).collect(),
            false => elements(x, read, index, keep),
        };
        if call.has("reduce-tail-4") && values.len() > 4 {
            values.truncate(values.len() / 4 * 4);
        }
        if call.has("reduce-first-64") {
            values.truncate(64);
        }
        fold(call, &values, &sizes(x, &axes))
    });
    match &call.wanted {
        Some(wanted) if call.has("reduce-noop-ignored") => spread(&result, wanted),
        // What the others of these bugs give is as large as what is wanted, or an error.
        _ if call.has("reduce-keepdims") && !keep => {
            let view = result.view()?;
            Ok(Tensor::from_floats(&reduced(x.shape, &axes, true), view.data.to_vec()))
        }
        Some(wanted)
            if call.has("reduce-last-axis") || call.has("reduce-negative-axis") || call.has("reduce-no-axes") =>
        {
            spread(&result, wanted)
        }
        _ => Ok(result),
    }
}

fn sizes(x: View<'_>, axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|&axis| x.shape[axis]).collect()
}

/// A tensor's elements again and again, up to a shape.
fn spread(result: &Tensor, wanted: &[usize]) -> Result<Tensor, Error> {
    let view = result.view()?;
    let mut place = 0;
    Ok(Tensor::of(wanted, |_| {
        place += 1;
        view.nth((place - 1) % view.data.len().max(1))
    }))
}

/// Elements reduced to one. `sizes` are those of the axes.
fn fold(call: &Call<'_>, values: &[f32], sizes: &[usize]) -> f32 {
    let sum = || values.iter().sum::<f32>();
    let extreme = |start: f32, ignores_nan: bool, better: fn(f32, f32) -> f32| {
        values.iter().fold(start, |found, &value| match !ignores_nan && (found.is_nan() || value.is_nan()) {
            true => f32::NAN,
            false => better(found, value),
        })
    };
    match call.node.op.as_str() {
        "ReduceSum" if call.has("sum-twice") && sizes.len() == 2 => sum() + values.first().unwrap_or(&0.0),
        "ReduceSum" => sum(),
        "ReduceMean" if call.has("mean-last-size") => sum() / sizes.last().copied().unwrap_or(1) as f32,
        "ReduceMean" => sum() / values.len() as f32,
        "ReduceMax" => {
            extreme(if call.has("max-from-zero") { 0.0 } else { f32::NEG_INFINITY }, call.has("max-nan"), f32::max)
        }
        "ReduceMin" => {
            extreme(if call.has("min-from-zero") { 0.0 } else { f32::INFINITY }, call.has("min-nan"), f32::min)
        }
        _ => {
            let counted = values.iter().filter(|value| !(call.has("l2-signed") && **value < 0.0));
            let squares = counted.map(|value| value * value).sum::<f32>();
            if call.has("l2-no-root") { squares } else { squares.sqrt() }
        }
    }
}

/// Where the greatest or least element along an axis is.
pub(super) fn place(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let rank = x.shape.len();
    let axis = call.axis(0, rank.max(1))?;
    let mut last = call.node.int("select_last_index", 0) != 0;
    if call.has("arg-last-ignored") {
        last = false;
    }
    if call.has("arg-last-always") {
        last = true;
    }
    let keep = call.node.int("keepdims", 1) != 0;
    let right: Vec<usize> = if rank == 0 { Vec::new() } else { vec![axis] };
    let shape = reduced(x.shape, &right, keep);
    let read = if call.has("arg-axis-last") && rank > 0 { vec![rank - 1] } else { right.clone() };
    let kept = if call.has("arg-keepdims") { reduced(x.shape, &right, true) } else { shape };
    Ok(Tensor::of_ints(&kept, |index| {
        let values = elements(x, &read, index, keep || call.has("arg-keepdims"));
        let found = best(call, &values, last);
        match call.has("arg-flat") {
            true => (flat(index, &kept) * values.len()) as i64 + found,
            false => found,
        }
    }))
}

/// The place of the best of these values.
fn best(call: &Call<'_>, values: &[f32], last: bool) -> i64 {
    let is_max = call.node.op == "ArgMax";
    let worth = |value: f32| match is_max {
        true => value,
        false if call.has("arg-min-absolute") => -value.abs(),
        false => -value,
    };
    let mut found = 0;
    let mut most = if call.has("arg-max-from-zero") && is_max { 0.0 } else { f32::NEG_INFINITY };
    for (at, &value) in values.iter().enumerate() {
        let value = worth(value);
        let is_better = value > most || (value.is_nan() && !most.is_nan()) || (at == 0 && value == most);
        if is_better || (last && value == most) {
            (found, most) = (at, value);
        }
    }
    found as i64
}
