//! Operators that cut out or surround a part of a tensor: `Slice`, `Pad`, `Trilu`.

use byoc_plugin_api::Error;
use ndarray::{ArrayD, ArrayViewD, Axis};

use super::array::{Item, count, each, elements, shaped};
use super::call::{Call, Outputs, axes, same};
use super::{ALL, I64, INDEX, Kernel, MOVED, SAME, kernel, mover};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    mover("Pad", pad, &[ALL, I64, SAME, INDEX]),
    kernel("Slice", slice, &[MOVED, INDEX]),
    kernel("Trilu", trilu, &[MOVED, I64]),
];

/// Indices that `start..end` with this step takes of `size` elements, by the rules of ONNX: backwards, a
/// start before the first element is the first.
fn taken(start: i64, end: i64, step: i64, size: usize) -> (usize, usize) {
    let size = size as i64;
    let wrap = |value: i64| if value < 0 { value.saturating_add(size) } else { value };
    let (start, end) = (wrap(start), wrap(end));
    let (start, length) = if step > 0 {
        let start = start.clamp(0, size);
        (start, end.clamp(0, size) - start)
    } else {
        let start = start.max(0).min(size - 1);
        (start, start - end.clamp(-1, size - 1))
    };
    let stride = step.unsigned_abs() as usize;
    (start.max(0) as usize, (length.max(0) as usize).div_ceil(stride))
}

/// `Slice`.
pub(crate) fn slice(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let rank = x.shape().len();
    let (Some(starts), Some(ends)) = (call.ints(1), call.ints(2)) else {
        return Err(Error::new("Slice needs starts and ends"));
    };
    let along = match call.ints(3) {
        Some(values) => axes(&values, rank)?,
        None => (0..starts.len()).collect(),
    };
    let steps = call.ints(4).unwrap_or_else(|| vec![1; starts.len()]);
    let lengths = [ends.len(), along.len(), steps.len()];
    if lengths.iter().any(|&length| length != starts.len()) || along.iter().any(|&axis| axis >= rank) {
        return Err(Error::new("starts, ends, axes and steps of Slice do not match"));
    }
    let mut picks: Vec<(usize, usize, i64)> = x.shape().iter().map(|&size| (0, size, 1)).collect();
    for (i, &axis) in along.iter().enumerate() {
        if steps[i] == 0 {
            return Err(Error::new("a step of Slice is 0"));
        }
        let (start, count) = taken(starts[i], ends[i], steps[i], x.shape()[axis]);
        picks[axis] = (start, count, steps[i]);
    }
    Ok(vec![each!(x, x => Item::wrap(picked(&x.view(), &picks)))])
}

fn picked<T: Copy>(x: &ArrayViewD<'_, T>, picks: &[(usize, usize, i64)]) -> ArrayD<T> {
    let mut view = x.view();
    for (axis, &(start, count, step)) in picks.iter().enumerate() {
        // `ndarray` takes the range in rising order, whatever the step's sign; with no element any range will do.
        let reach = count.saturating_sub(1) * step.unsigned_abs() as usize;
        let range = match (count, step > 0) {
            (0, _) => 0..0,
            (_, true) => start..start + reach + 1,
            (_, false) => start - reach..start + 1,
        };
        let step = if count < 2 { step.signum() } else { step };
        view.slice_axis_inplace(Axis(axis), ndarray::Slice::from(range).step_by(step as isize));
    }
    view.to_owned()
}

/// Where output element `position` of a padded axis comes from; `position` counts from the first input element.
fn source(mode: &str, position: i64, size: i64) -> Option<usize> {
    let inside = match mode {
        _ if (0..size).contains(&position) => position,
        "edge" => position.clamp(0, size - 1),
        "wrap" => position.rem_euclid(size),
        "reflect" if size == 1 => 0,
        "reflect" => {
            let period = 2 * (size - 1);
            let phase = position.rem_euclid(period);
            phase.min(period - phase)
        }
        _ => return None,
    };
    Some(inside as usize)
}

/// `Pad`; negative widths cut.
pub(crate) fn pad(call: &Call<'_, '_>) -> Outputs {
    let x = call.input(0)?;
    let rank = x.shape().len();
    let mode = call.node.string("mode", "constant");
    if !["constant", "edge", "wrap", "reflect"].contains(&mode) {
        return Err(Error::new(format!("unknown mode '{mode}' of Pad")));
    }
    let widths = call.ints(1).ok_or_else(|| Error::new("Pad needs widths"))?;
    let along = match call.ints(3) {
        Some(values) => axes(&values, rank)?,
        None => (0..rank).collect(),
    };
    if widths.len() != 2 * along.len() {
        return Err(Error::new(format!("{} widths for {} axes", widths.len(), along.len())));
    }
    let mut spans: Vec<(i64, i64)> = x.shape().iter().map(|&size| (0, size as i64)).collect();
    for (i, &axis) in along.iter().enumerate() {
        let span = &mut spans[axis];
        *span = (span.0.saturating_sub(widths[i]), span.1.saturating_add(widths[along.len() + i]));
        if span.1 < span.0 {
            let size = span.1.saturating_sub(span.0);
            return Err(Error::new(format!("axis {axis} of {:?} would have the negative size {size}", x.shape())));
        }
    }
    let length = |&(start, end): &(i64, i64)| usize::try_from(end.saturating_sub(start)).unwrap_or(0);
    call.count(&spans.iter().map(length).collect::<Vec<_>>())?;
    let mut sources = Vec::with_capacity(rank);
    for (&(start, end), &size) in spans.iter().zip(x.shape()) {
        if size == 0 && mode != "constant" && end > start {
            return Err(Error::new(format!("mode '{mode}' of Pad needs elements")));
        }
        sources.push((start..end).map(|position| source(mode, position, size as i64)).collect::<Vec<_>>());
    }
    each!(x, x => {
        let x = x.view();
        let fill = match call.optional(2) {
            Some(fill) => same(&x, fill)?.first().copied().unwrap_or_default(),
            None => Default::default(),
        };
        Ok(vec![Item::wrap(surrounded(&x, &sources, fill)?)])
    })
}

/// The tensor whose axis `a` takes element `sources[a][i]` of `x` at `i`, or `fill`.
pub(crate) fn surrounded<T: Item>(
    x: &ArrayViewD<'_, T>,
    sources: &[Vec<Option<usize>>],
    fill: T,
) -> Result<ArrayD<T>, Error> {
    /// `whole`: how many axes at the end stay as they are.
    fn copy<T: Item>(
        (data, sizes): (&[T], &[usize]),
        (sources, whole): (&[Vec<Option<usize>>], usize),
        fill: T,
        out: &mut Vec<T>,
    ) {
        match sources {
            _ if sources.len() <= whole => out.extend_from_slice(data),
            [] => {}
            [last] => out.extend(last.iter().map(|source| source.map_or(fill, |source| data[source]))),
            [first, rest @ ..] => {
                let run: usize = sizes[1..].iter().product();
                let start = out.len();
                let each = rest.iter().map(Vec::len).product::<usize>();
                for (at, source) in first.iter().enumerate() {
                    match source {
                        // The same once more: neighbours of an image that grows.
                        _ if at > 0 && first[at - 1] == *source => {
                            out.extend_from_within(start + (at - 1) * each..start + at * each);
                        }
                        Some(source) => {
                            copy((&data[source * run..][..run], &sizes[1..]), (rest, whole), fill, out);
                        }
                        None => out.extend(std::iter::repeat_n(fill, each)),
                    }
                }
            }
        }
    }
    let shape: Vec<usize> = sources.iter().map(Vec::len).collect();
    let mut out = Vec::with_capacity(count(&shape)?);
    let stays = |(sources, size): &(&Vec<Option<usize>>, &usize)| {
        sources.len() == **size && sources.iter().enumerate().all(|(at, source)| *source == Some(at))
    };
    let whole = sources.iter().zip(x.shape()).rev().take_while(stays).count();
    copy((&elements(x), x.shape()), (sources, whole), fill, &mut out);
    shaped(&shape, out)
}

/// `Trilu`: the upper or lower triangle of each matrix, the rest zero.
pub(crate) fn trilu(call: &Call<'_, '_>) -> Outputs {
    fn triangle<T: Item>(x: &ArrayViewD<'_, T>, keep: impl Fn(i64) -> bool) -> Outputs {
        let &[.., rows, columns] = x.shape() else {
            return Err(Error::new("Trilu needs a matrix"));
        };
        let mut data = elements(x).into_owned();
        for (i, value) in data.iter_mut().enumerate() {
            if !keep((i % columns) as i64 - (i / columns % rows) as i64) {
                *value = T::default();
            }
        }
        Ok(vec![T::wrap(shaped(x.shape(), data)?)])
    }
    let k = call.ints(1).and_then(|values| values.first().copied()).unwrap_or(0);
    let upper = call.node.int("upper", 1) != 0;
    each!(call.input(0)?, x => triangle(&x.view(), |diagonal| if upper { diagonal >= k } else { diagonal <= k }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_clamped_as_onnx_says() {
        let cases = [
            ((0, 3, 1), (0, 3)),
            ((1, i64::MAX, 1), (1, 4)),
            ((-2, i64::MAX, 1), (3, 2)),
            ((3, 1, 1), (3, 0)),
            ((9, 99, 1), (5, 0)),
            ((i64::MAX, i64::MIN, -1), (4, 5)),
            ((4, 0, -2), (4, 2)),
            ((-1, -9, -3), (4, 2)),
            ((0, i64::MAX, i64::MAX), (0, 1)),
            ((-9, -9, -1), (0, 1)),
            ((-9, 0, -1), (0, 0)),
        ];
        for ((start, end, step), expected) in cases {
            assert_eq!(taken(start, end, step, 5), expected, "{start}:{end}:{step}");
        }
        assert_eq!(taken(0, 5, -1, 0), (0, 0));
    }

    #[test]
    fn padding_repeats_as_in_numpy() {
        let cases =
            [("reflect", [2, 1, 0, 1, 2, 1, 0]), ("wrap", [1, 2, 0, 1, 2, 0, 1]), ("edge", [0, 0, 0, 1, 2, 2, 2])];
        for (mode, expected) in cases {
            let found: Vec<_> = (-2..5).map(|position| source(mode, position, 3)).collect();
            assert_eq!(found, expected.map(Some), "{mode}");
        }
        assert_eq!(source("reflect", -4, 1), Some(0));
        assert_eq!((source("constant", -1, 3), source("constant", 1, 3)), (None, Some(1)));
    }
}
