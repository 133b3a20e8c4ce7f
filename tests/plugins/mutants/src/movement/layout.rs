//! What puts elements into another order or shape, one beside the other.

use byoc_plugin_api::Error;

use crate::call::Call;
use crate::tensor::{Tensor, broadcast_shape, count, flat, sizes};

pub(super) fn transpose(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let rank = x.shape.len();
    let perm = call.sizes("perm").unwrap_or_else(|| (0..rank).rev().collect());
    if perm.len() != rank || (0..rank).any(|axis| !perm.contains(&axis)) {
        return Err(Error::new(format!("perm {perm:?} of {rank} dimensions")));
    }
    let shape: Vec<usize> = perm.iter().map(|&axis| x.shape[axis]).collect();
    Ok(Tensor::of(&shape, |index| {
        if call.has("transpose-tail-8") && shape[0] > 8 && index[0] >= shape[0] / 8 * 8 {
            return 0.0;
        }
        let mut source = vec![0; rank];
        for (at, &axis) in perm.iter().enumerate() {
            match call.has("transpose-inverse") {
                true => source[at] = index[axis],
                false => source[axis] = index[at],
            }
        }
        if call.has("transpose-last-two") && rank > 2 {
            source = index.to_vec();
            source.swap(rank - 1, rank - 2);
        }
        x.at(&source)
    }))
}

pub(super) fn concat(call: &Call<'_>) -> Result<Tensor, Error> {
    let parts = (0..call.inputs.len()).map(|input| call.x(input)).collect::<Result<Vec<_>, _>>()?;
    let first = parts.first().ok_or_else(|| Error::new("Concat has no input"))?;
    let axis = call.axis(0, first.shape.len())?;
    let mut shape = first.shape.to_vec();
    shape[axis] = parts.iter().map(|part| part.shape.get(axis).copied().unwrap_or(0)).sum();
    Ok(Tensor::of(&shape, |index| {
        let mut index = index.to_vec();
        if call.has("concat-front") {
            let mut place = flat(&index, &shape);
            for part in &parts {
                if place < part.data.len() {
                    return part.nth(place);
                }
                place -= part.data.len();
            }
        }
        if call.has("concat-first-size") && first.shape[axis] > 0 {
            let part = (index[axis] / first.shape[axis]).min(parts.len() - 1);
            index[axis] %= first.shape[axis];
            return parts[part].at(&index);
        }
        for (number, part) in parts.iter().enumerate() {
            if index[axis] < part.shape[axis] {
                let number = if call.has("concat-third-ignored") { number.min(1) } else { number };
                return parts[number].at(&index);
            }
            index[axis] -= part.shape[axis];
        }
        0.0
    }))
}

pub(super) fn split(call: &Call<'_>) -> Result<Vec<Tensor>, Error> {
    let x = call.x(0)?;
    let axis = call.axis(0, x.shape.len())?;
    let number = call.node.outputs.len().max(1);
    let even = x.shape[axis].div_ceil(number);
    let parts: Vec<usize> = match call.maybe_ints(1)? {
        Some(parts) => sizes(parts),
        // The last part has what is left.
        None => (0..number).map(|part| even.min(x.shape[axis].saturating_sub(part * even))).collect(),
    };
    let mut begin = 0;
    let mut results = Vec::new();
    for (part, &size) in parts.iter().enumerate() {
        let mut from = begin;
        if call.has("split-equal") {
            from = part * parts[0];
        }
        if call.has("split-first") {
            from = 0;
        }
        if call.has("split-uneven") && part > 0 && part + 1 == parts.len() && size != parts[0] {
            from = part * size;
        }
        let shape: Vec<usize> = (0..x.shape.len()).map(|at| if at == axis { size } else { x.shape[at] }).collect();
        results.push(Tensor::of(&shape, |index| {
            let mut index = index.to_vec();
            index[axis] += from;
            x.at(&index)
        }));
        begin += size;
    }
    Ok(results)
}

pub(super) fn expand(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let given = sizes(call.ints(1)?);
    let shape = broadcast_shape([x.shape, &given])?;
    Ok(Tensor::of(&shape, |index| {
        if call.has("expand-flat") {
            return x.nth(flat(index, &shape) % x.data.len().max(1));
        }
        if call.has("expand-front") {
            return x.broadcast(&index[..x.shape.len()]);
        }
        x.broadcast(index)
    }))
}

pub(super) fn tile(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let repeats = sizes(call.ints(1)?);
    if repeats.len() != x.shape.len() {
        return Err(Error::new(format!("repeats {repeats:?} of {:?}", x.shape)));
    }
    let shape: Vec<usize> = x.shape.iter().zip(&repeats).map(|(size, by)| size * by).collect();
    Ok(Tensor::of(&shape, |index| {
        let mut index = index.to_vec();
        let last = index.len().saturating_sub(1);
        for (axis, place) in index.iter_mut().enumerate() {
            *place = match call.has("tile-interleaved") {
                true => *place / repeats[axis],
                false => *place % x.shape[axis],
            };
            if call.has("tile-last") && axis < last && repeats[axis] > 1 {
                *place = 0;
            }
        }
        x.at(&index)
    }))
}

/// The sizes that a `Reshape` asks for.
fn asked(shape: &[usize], given: &[i64]) -> Vec<usize> {
    let kept = |(at, &size): (usize, &i64)| match size {
        0 => shape.get(at).copied().unwrap_or(1),
        size => usize::try_from(size).unwrap_or(1),
    };
    let mut sizes: Vec<usize> = given.iter().enumerate().map(kept).collect();
    if let Some(open) = given.iter().position(|&size| size == -1) {
        sizes[open] = count(shape) / count(&sizes).max(1);
    }
    sizes
}

/// The shape without some axes of size 1; all of them where none is given.
fn squeezed(shape: &[usize], axes: Option<&[i64]>) -> Result<Vec<usize>, Error> {
    let Some(axes) = axes else { return Ok(shape.iter().copied().filter(|&size| size != 1).collect()) };
    let gone = axes.iter().map(|&axis| crate::tensor::axis(axis, shape.len())).collect::<Result<Vec<_>, _>>()?;
    Ok((0..shape.len()).filter(|axis| !gone.contains(axis)).map(|axis| shape[axis]).collect())
}

fn unsqueezed(shape: &[usize], axes: &[i64]) -> Result<Vec<usize>, Error> {
    let rank = shape.len() + axes.len();
    let new = axes.iter().map(|&axis| crate::tensor::axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let mut old = shape.iter().copied();
    Ok((0..rank).map(|axis| if new.contains(&axis) { 1 } else { old.next().unwrap_or(1) }).collect())
}

/// The same elements in another shape.
pub(super) fn reshape(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let op = call.node.op.as_str();
    let shape = match op {
        "Reshape" => asked(x.shape, call.ints(1)?),
        "Flatten" => {
            let (rows, columns) = x.shape.split_at(flattened(call, x.shape.len()));
            vec![count(rows), count(columns)]
        }
        "Squeeze" => squeezed(x.shape, call.maybe_ints(1)?)?,
        _ => unsqueezed(x.shape, call.ints(1)?)?,
    };
    if count(&shape) != x.data.len() {
        return Err(Error::new(format!("{op} of {:?} to {shape:?}", x.shape)));
    }
    let mut data = x.data.to_vec();
    if let &[batch, channels, height, width] = x.shape
        && call.has("reshape-channels-last")
        && shape.len() != 4
        && matches!(op, "Flatten" | "Reshape")
    {
        let last = Tensor::of(&[batch, height, width, channels], |at| x.at(&[at[0], at[3], at[1], at[2]]));
        data = last.view()?.data.to_vec();
    }
    if call.has("copy-4096") && op != "Flatten" {
        data.truncate(4096);
    }
    if call.has("copy-tail-16") && op.ends_with("queeze") {
        data.truncate(data.len() / 16 * 16);
    }
    if call.has("unsqueeze-copies-first") && op == "Unsqueeze" {
        let row = shape.last().copied().unwrap_or(1).max(1);
        data = (0..data.len()).map(|place| x.nth(place % row)).collect();
    }
    Ok(Tensor::from_floats(&shape, data))
}

/// How many dimensions a `Flatten` makes the first one.
fn flattened(call: &Call<'_>, rank: usize) -> usize {
    let axis = call.node.int("axis", 1);
    usize::try_from(if axis < 0 { axis + rank as i64 } else { axis }).unwrap_or(0).min(rank)
}
