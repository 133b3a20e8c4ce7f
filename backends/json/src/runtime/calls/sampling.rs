//! Calls that choose elements by place or by value: resizing, sampling, the best of rows.

use std::collections::BTreeMap;

use byoc_plugin_api::{Attribute, Error, Node};

use super::super::buffer::as_longs;
use super::super::memory::Io;
use super::{Call, Nothing, Ready, Signature, bad_shapes};
use crate::kernels::{
    self, GridSampleParams, InterpolateParams, NearestAxis, NearestParams, OUTSIDE, TopKParams, WeighedAxis, product,
};
use crate::program::GridSample;
use crate::reference::{Given, Resized, Taps};

pub(super) fn resize(signature: &Signature<'_>, attributes: &BTreeMap<String, Attribute>) -> Result<Ready, Error> {
    let (input, output) = (signature.input(0)?, signature.output(0)?);
    let node = Node { op: "Resize".into(), attributes: attributes.clone(), ..Node::default() };
    let list = |name: &str| match attributes.get(name) {
        Some(Attribute::Floats(values)) => Some(values.iter().map(|&value| f64::from(value)).collect()),
        Some(Attribute::Ints(values)) => Some(values.iter().map(|&value| value as f64).collect()),
        _ => None,
    };
    let given = Given { roi: list("roi"), scales: list("scales"), sizes: list("sizes") };
    // Positions of an axis may be many where another one has none.
    if output.contains(&0) {
        return Ok(Ready::new(Nothing));
    }
    let resized = Resized::new(&node, input, &given, output)?;
    let fill = resized.fill as f32;
    if resized.nearest {
        let axes = resized.axes.into_iter().zip(input).map(|(taps, &size)| nearest_axis(taps, size)).collect();
        let params = NearestParams::new(axes).ok_or_else(|| bad_shapes(signature))?;
        return Ok(Ready::new(Nearest { params, fill }));
    }
    let params = weighed(resized, input).ok_or_else(|| bad_shapes(signature))?;
    let scratch = kernels::interpolate_scratch_len(&params, signature.threads.count());
    let scratch = scratch.ok_or_else(|| bad_shapes(signature))?;
    Ok(Ready { scratch, ..Ready::new(Interpolate { params }) })
}

fn nearest_axis(taps: Option<Vec<Taps>>, size: usize) -> NearestAxis {
    let only = |taps: Taps| taps.and_then(|taps| taps.first().copied()).map_or(OUTSIDE, |(index, _)| index);
    let sources = match taps {
        Some(taps) => taps.into_iter().map(only).collect(),
        None => (0..size).collect(),
    };
    NearestAxis { input: size, sources }
}

/// The last axis that changes has the columns, the one in front of it the rows. `None` where more axes change, or others.
fn weighed(resized: Resized, input: &[usize]) -> Option<InterpolateParams> {
    let changed = |axis: &usize| resized.axes[*axis].is_some();
    let last = (0..input.len()).rev().find(changed).unwrap_or(input.len().saturating_sub(1));
    let first = (0..last).rev().find(changed);
    let apart = |first: usize| input[first + 1..last].iter().any(|&size| size != 1);
    let front = first.unwrap_or(last);
    if first.is_some_and(apart) || (0..front).any(|axis| changed(&axis)) {
        return None;
    }
    let axis = |at: usize| match &resized.axes[at] {
        Some(taps) => weighed_axis(taps, input[at]),
        None => same_axis(input[at]),
    };
    Some(InterpolateParams {
        outer: product(input.get(..front)?)?,
        rows: match first {
            Some(first) => Some(axis(first)?),
            None => None,
        },
        columns: if input.is_empty() { same_axis(1)? } else { axis(last)? },
        inner: product(input.get(last + 1..).unwrap_or_default())?,
        fill: resized.fill as f32,
    })
}

fn weighed_axis(taps: &[Taps], size: usize) -> Option<WeighedAxis> {
    let mut axis = WeighedAxis::new(size);
    let mut list = Vec::new();
    for taps in taps {
        list.clear();
        list.extend(taps.iter().flatten().map(|&(index, weight)| (index, weight as f32)));
        if !axis.push(taps.as_ref().map(|_| &list[..])) {
            return None;
        }
    }
    Some(axis)
}

fn same_axis(size: usize) -> Option<WeighedAxis> {
    let taps: Vec<Taps> = (0..size).map(|index| Some(vec![(index, 1.0)])).collect();
    weighed_axis(&taps, size)
}

struct Nearest {
    params: NearestParams,
    fill: f32,
}

impl Call for Nearest {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        kernels::nearest(io.threads, &self.params, self.fill, io.inputs.slice(0)?, io.outputs.take(0)?);
        Ok(())
    }
}

struct Interpolate {
    params: InterpolateParams,
}

impl Call for Interpolate {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        kernels::interpolate(io.threads, &self.params, io.inputs.slice(0)?, io.outputs.take(0)?, io.scratch);
        Ok(())
    }
}

struct Sample {
    params: GridSampleParams,
}

pub(super) fn grid_sample(signature: &Signature<'_>, sample: &GridSample) -> Result<Ready, Error> {
    let (x, grid, y) = (signature.input(0)?, signature.input(1)?, signature.output(0)?);
    let (&[n, channels, height, width], &[of_grid, rows, columns, 2]) = (x, grid) else {
        return Err(bad_shapes(signature));
    };
    let GridSample { sampling, beyond, align_corners } = *sample;
    let places = product(&[rows, columns]).ok_or_else(|| bad_shapes(signature))?;
    let params = GridSampleParams { n, channels, size: [height, width], places, sampling, beyond, align_corners };
    if of_grid != n || *y != [n, channels, rows, columns] || params.lens().is_none() {
        return Err(bad_shapes(signature));
    }
    Ok(Ready::new(Sample { params }))
}

impl Call for Sample {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, grid) = (io.inputs.slice(0)?, io.inputs.slice(1)?);
        kernels::grid_sample(io.threads, &self.params, x, grid, io.outputs.take(0)?);
        Ok(())
    }
}

struct Best {
    params: TopKParams,
}

pub(super) fn top_k(signature: &Signature<'_>, smallest: bool) -> Result<Ready, Error> {
    let wanted = [0, 1].map(|output| signature.output(output).ok());
    let out = wanted.iter().flatten().next().ok_or_else(|| bad_shapes(signature))?;
    let (Some((&len, rows)), Some((&k, of_out))) = (signature.input(0)?.split_last(), out.split_last()) else {
        return Err(bad_shapes(signature));
    };
    if k > len {
        return Err(Error::new(format!("K of TopK is {k}, but the axis has {len} elements")));
    }
    let alike = rows == of_out && wanted.iter().flatten().all(|shape| shape == out);
    let params = TopKParams { rows: product(rows).ok_or_else(|| bad_shapes(signature))?, len, k, smallest };
    let longs = kernels::top_k_scratch_len(&params, signature.threads.count()).filter(|_| alike && params.is_valid());
    // Two values of scratch are one integer.
    let scratch = longs.and_then(|longs| longs.checked_mul(2)).ok_or_else(|| bad_shapes(signature))?;
    Ok(Ready { scratch, ..Ready::new(Best { params }) })
}

impl Call for Best {
    fn run(&self, io: &mut Io<'_, '_>) -> Result<(), Error> {
        let (x, values) = (io.inputs.slice(0)?, io.outputs.take_optional(0)?);
        let indices = if io.outputs.wanted(1) { Some(io.outputs.take::<i64>(1)?) } else { None };
        kernels::top_k(io.threads, &self.params, x, values, indices, as_longs(io.scratch));
        Ok(())
    }
}
