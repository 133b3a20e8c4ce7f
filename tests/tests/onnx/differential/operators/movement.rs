//! Operators that move elements about.

use byoc_plugin_api::{Attribute, DType};

use super::super::builder::{Builder, RUNS, Size, Value, broadcast, each, elements, fixed, is_fixed};
use super::super::values;

fn int(name: &'static str, value: usize, rank: usize, builder: &mut Builder) -> (&'static str, Attribute) {
    (name, Attribute::Int(builder.signed_axis(value, rank)))
}

/// Adds a node that only moves elements of `x`.
fn moved(
    builder: &mut Builder,
    op: &'static str,
    x: &Value,
    others: &[&str],
    attributes: Vec<(&'static str, Attribute)>,
    dims: Vec<Size>,
) -> Option<()> {
    let inputs: Vec<_> = [x.name.as_str()].into_iter().chain(others.iter().copied()).collect();
    let y = builder.node(op, &inputs, attributes, x.dtype, dims);
    builder.keeps(&y, &[x]);
    Some(())
}

pub(crate) fn transpose(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 5), |_| true);
    let axes: Vec<usize> = (0..x.rank()).collect();
    let (perm, attributes) = if builder.random.chance(25) {
        (axes.into_iter().rev().collect::<Vec<_>>(), vec![])
    } else {
        let perm = builder.random.shuffled(&axes);
        let numbers = perm.iter().map(|&axis| axis as i64).collect();
        (perm, vec![("perm", Attribute::Ints(numbers))])
    };
    let dims = perm.iter().map(|&axis| x.dims[axis]).collect();
    moved(builder, op, &x, &[], attributes, dims)
}

/// Reshape by merging, splitting, adding and dropping dimensions.
pub(crate) fn reshape(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 4), |x| !x.empty());
    let mut dims = x.dims.clone();
    for _ in 0..1 + builder.random.below(3) {
        let place = builder.random.below(dims.len() + 1);
        match builder.random.below(4) {
            0 => dims.insert(place, fixed(1)),
            1 if place + 1 < dims.len() => {
                let next = dims.remove(place + 1);
                dims[place] = each(&dims[place], &next, |a, b| a * b);
            }
            2 if place < dims.len() && dims[place] == fixed(1) => {
                dims.remove(place);
            }
            _ if place < dims.len() && is_fixed(&dims[place]) => {
                let size = dims[place][0];
                let parts: Vec<_> = (1..=size).filter(|part| size.is_multiple_of(*part)).collect();
                let part = builder.random.of(&parts);
                dims[place] = fixed(part);
                dims.insert(place + 1, fixed(size / part));
            }
            _ => {}
        }
    }
    let mut rest = builder.random.chance(40);
    let mut entries = Vec::new();
    for (index, size) in dims.iter().enumerate() {
        let kept = x.dims.get(index) == Some(size);
        entries.push(match is_fixed(size) {
            _ if kept && (!is_fixed(size) || builder.random.chance(30)) => 0,
            true if rest && builder.random.chance(30) && !entries.contains(&-1) => -1,
            true => size[0] as i64,
            false if !entries.contains(&-1) => {
                rest = false;
                -1
            }
            false => return None,
        });
    }
    let shape = builder.structural(values::ints(&entries));
    moved(builder, op, &x, &[&shape], vec![], dims)
}

pub(crate) fn flatten(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 4), |_| true);
    let axis = builder.random.below(x.rank() + 1);
    let all = |dims: &[Size]| dims.iter().fold(fixed(1), |all, size| each(&all, size, |a, b| a * b));
    let dims = vec![all(&x.dims[..axis]), all(&x.dims[axis..])];
    let shown = if axis < x.rank() { builder.signed_axis(axis, x.rank()) } else { axis as i64 };
    moved(builder, op, &x, &[], vec![("axis", Attribute::Int(shown))], dims)
}

pub(crate) fn squeeze(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 5), |x| x.dims.contains(&fixed(1)));
    let ones: Vec<_> = (0..x.rank()).filter(|&axis| x.dims[axis] == fixed(1)).collect();
    if ones.is_empty() {
        return None;
    }
    let all = x.dims.iter().all(is_fixed) && builder.random.chance(30);
    let dropped: Vec<_> = ones.iter().copied().filter(|_| all || builder.random.chance(70)).collect();
    let dims = (0..x.rank()).filter(|axis| !dropped.contains(axis)).map(|axis| x.dims[axis]).collect();
    if all {
        return moved(builder, op, &x, &[], vec![], dims);
    }
    if dropped.is_empty() {
        return None;
    }
    let axes: Vec<_> = dropped.iter().map(|&axis| builder.signed_axis(axis, x.rank())).collect();
    let axes = builder.structural(values::ints(&axes));
    moved(builder, op, &x, &[&axes], vec![], dims)
}

pub(crate) fn unsqueeze(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 4), |_| true);
    let rank = x.rank() + 1 + builder.random.below(2);
    let places: Vec<usize> = (0..rank).collect();
    let added = builder.random.shuffled(&places)[..rank - x.rank()].to_vec();
    let mut old = x.dims.iter().copied();
    let dims = (0..rank).filter_map(|axis| if added.contains(&axis) { Some(fixed(1)) } else { old.next() }).collect();
    let axes: Vec<_> = added.iter().map(|&axis| builder.signed_axis(axis, rank)).collect();
    let axes = builder.structural(values::ints(&axes));
    moved(builder, op, &x, &[&axes], vec![], dims)
}

pub(crate) fn expand(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (0, 3), |_| true);
    let mut target: Vec<Size> = x.dims.clone();
    for size in &mut target {
        if !is_fixed(size) || builder.random.chance(30) {
            *size = fixed(1);
        } else if *size == fixed(1) {
            *size = fixed(builder.random.of(&[1, 2, 3, 0]));
        }
    }
    for _ in 0..builder.random.below(3) {
        target.insert(0, fixed(1 + builder.random.below(3)));
    }
    let dims = broadcast(&x.dims, &target)?;
    let entries: Vec<_> = target.iter().map(|size| size[0] as i64).collect();
    let shape = builder.structural(values::ints(&entries));
    moved(builder, op, &x, &[&shape], vec![], dims)
}

pub(crate) fn tile(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| elements(&x.dims) < 200);
    let repeats: Vec<usize> = (0..x.rank()).map(|_| builder.random.of(&[1, 1, 2, 3, 0])).collect();
    let dims = x.dims.iter().zip(&repeats).map(|(size, &times)| size.map(|size| size * times)).collect();
    let repeats: Vec<_> = repeats.iter().map(|&times| times as i64).collect();
    let repeats = builder.structural(values::ints(&repeats));
    moved(builder, op, &x, &[&repeats], vec![], dims)
}

pub(crate) fn concat(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |_| true);
    let axis = builder.random.below(x.rank());
    let mut all = vec![x.clone()];
    for _ in 0..builder.random.below(3) {
        let fits = |y: &&Value| {
            y.dtype == x.dtype && y.rank() == x.rank() && (0..x.rank()).all(|at| at == axis || y.dims[at] == x.dims[at])
        };
        let there: Vec<_> = builder.values.iter().filter(fits).cloned().collect();
        let mut dims = x.dims.clone();
        dims[axis] = builder.size();
        if !there.is_empty() && builder.random.chance(60) {
            all.push(builder.random.of(&there));
        } else if x.dtype != DType::BF16 && dims.iter().all(|size| builder.declarable(size)) {
            let mood = builder.mood();
            all.push(builder.leaf(x.dtype, &dims, mood));
        }
    }
    let mut dims = x.dims.clone();
    dims[axis] = all.iter().fold(fixed(0), |sum, value| each(&sum, &value.dims[axis], |a, b| a + b));
    let names: Vec<_> = all.iter().map(|value| value.name.as_str()).collect();
    let attributes = vec![int("axis", axis, x.rank(), builder)];
    let y = builder.node(op, &names, attributes, x.dtype, dims);
    builder.keeps(&y, &all.iter().collect::<Vec<_>>());
    Some(())
}

pub(crate) fn split(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |_| true);
    let axis = builder.random.below(x.rank());
    let size = x.dims[axis];
    let count = 1 + builder.random.below(3);
    let mut attributes = vec![int("axis", axis, x.rank(), builder)];
    let (parts, sizes): (Vec<Size>, String) = if is_fixed(&size) && builder.random.chance(60) {
        let mut left = size[0];
        let mut parts = Vec::new();
        for _ in 1..count {
            let part = builder.random.below(left + 1);
            parts.push(part);
            left -= part;
        }
        parts.push(left);
        let sizes: Vec<_> = parts.iter().map(|&part| part as i64).collect();
        (parts.into_iter().map(fixed).collect(), builder.structural(values::ints(&sizes)))
    } else {
        let part = size.map(|size| size.div_ceil(count));
        if (0..RUNS).any(|run| part[run] * (count - 1) > size[run] || part[run] == 0) {
            return None;
        }
        if builder.opset >= 18 {
            attributes.push(("num_outputs", Attribute::Int(count as i64)));
        } else if (0..RUNS).any(|run| !size[run].is_multiple_of(count)) {
            return None;
        }
        let mut parts = vec![part; count];
        parts[count - 1] = each(&size, &part, |size, part| size - part * (count - 1));
        (parts, String::new())
    };
    let types = parts.into_iter().map(|part| {
        let mut dims = x.dims.clone();
        dims[axis] = part;
        (x.dtype, dims)
    });
    let types = types.collect();
    for y in builder.nodes_outputs(op, &[&x.name, &sizes], attributes, types) {
        builder.keeps(&y, &[&x]);
    }
    Some(())
}

/// Slice, with bounds beyond the ends and steps both ways.
pub(crate) fn slice(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |_| true);
    let all: Vec<usize> = (0..x.rank()).collect();
    let axes = builder.random.shuffled(&all)[..1 + builder.random.below(x.rank())].to_vec();
    let (mut starts, mut ends, mut steps, mut dims) = (vec![], vec![], vec![], x.dims.clone());
    for &axis in &axes {
        let step = builder.random.of(&[1, 1, 1, 2, -1, -2, 3, i64::MAX, -i64::MAX]);
        let bound = |builder: &mut Builder| match builder.random.below(12) {
            0 => i64::MAX,
            1 => -i64::MAX,
            2 => 0,
            _ => builder.random.between(-6, 6),
        };
        let (start, end) = (bound(builder), bound(builder));
        dims[axis] = x.dims[axis].map(|size| sliced(size as i64, start, end, step));
        starts.push(start);
        ends.push(end);
        steps.push(step);
    }
    let axes: Vec<_> = axes.iter().map(|&axis| builder.signed_axis(axis, x.rank())).collect();
    let plain = steps.iter().all(|&step| step == 1) && builder.random.chance(50);
    let mut inputs = vec![starts, ends, axes];
    if !plain {
        inputs.push(steps);
    }
    let names: Vec<_> = inputs.iter().map(|values| builder.structural(values::ints(values))).collect();
    moved(builder, op, &x, &names.iter().map(String::as_str).collect::<Vec<_>>(), vec![], dims)
}

/// The elements between two bounds, counted one by one.
fn sliced(size: i64, start: i64, end: i64, step: i64) -> usize {
    let from_front = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let (mut at, end) = (from_front(start).clamp(low.max(0).min(high.max(0)), high.max(0)), from_front(end));
    let end = end.clamp(low, high.max(low));
    if size == 0 {
        return 0;
    }
    let mut count = 0;
    while if step > 0 { at < end } else { at > end } {
        count += 1;
        at = at.saturating_add(step);
    }
    count
}

pub(crate) fn pad(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (1, 4), |x| !x.empty() && elements(&x.dims) < 500);
    let mode = builder.random.of(&["constant", "constant", "reflect", "edge", "wrap"]);
    let least = |axis: usize| *x.dims[axis].iter().min().expect("runs") as i64;
    let all: Vec<usize> = (0..x.rank()).collect();
    let some = builder.random.chance(40);
    let axes = if some { builder.random.shuffled(&all)[..1 + builder.random.below(x.rank())].to_vec() } else { all };
    let mut pads = vec![0; 2 * axes.len()];
    let mut dims = x.dims.clone();
    for (index, &axis) in axes.iter().enumerate() {
        for side in [index, index + axes.len()] {
            let most = match mode {
                "reflect" => (least(axis) - 1).min(3),
                "wrap" => least(axis).min(3),
                _ => 3,
            };
            let cut = mode == "constant" && builder.random.chance(20);
            pads[side] =
                if cut { -builder.random.between(0, least(axis) / 2) } else { builder.random.between(0, most) };
        }
        let by = pads[index] + pads[index + axes.len()];
        dims[axis] = x.dims[axis].map(|size| (size as i64 + by) as usize);
    }
    let pads = builder.structural(values::ints(&pads));
    let value = match builder.random.chance(50) && mode == "constant" {
        true => builder.structural(values::scalar(x.dtype, 1.0)),
        false => String::new(),
    };
    let axes: Vec<_> = axes.iter().map(|&axis| builder.signed_axis(axis, x.rank())).collect();
    let axes = if some { builder.structural(values::ints(&axes)) } else { String::new() };
    moved(builder, op, &x, &[&pads, &value, &axes], vec![("mode", Attribute::String(mode.into()))], dims)
}

pub(crate) fn trilu(builder: &mut Builder, op: &'static str, types: &'static [DType]) -> Option<()> {
    let x = builder.pick(types, (2, 4), |_| true);
    let mut attributes = vec![];
    if builder.random.chance(60) {
        attributes.push(("upper", Attribute::Int(builder.random.between(0, 1))));
    }
    let k = match builder.random.chance(60) {
        true => {
            let k = builder.random.between(-4, 4) as f64;
            builder.structural(values::scalar(DType::I64, k))
        }
        false => String::new(),
    };
    let dims = x.dims.clone();
    moved(builder, op, &x, &[&k], attributes, dims)
}
