//! A factor for each channel of an image in front of a 1x1 convolution, which a squeeze-and-excite layer computes, goes into the filters:
//! W (s x) = (W s) x, and the filters are fewer than the pixels of every channel. The two differ by rounding, and where only one of them overflows.

use byoc_plugin_api::{DType, Dim};

use super::graph::{Graph, Search};
use crate::kernels::{Activation, Binary, ConvKind, product};
use crate::program::{Op, Step};

/// What can be rewritten.
struct Found {
    /// The product of image and factors.
    scale: usize,
    conv: usize,
    image: usize,
    factors: usize,
    /// Output channels of the convolution.
    filters: usize,
}

pub(super) fn run(graph: &mut Graph<'_>) {
    let search = Search::new(graph);
    let all: Vec<Found> = (0..graph.steps.len()).filter_map(|index| find(&search, index)).collect();
    for Found { scale, conv, image, factors, filters: count } in all {
        let filters = graph.steps[conv].inputs[1];
        let shape = filters.map_or_else(Vec::new, |filters| graph.shape(filters).to_vec());
        let scaled = graph.add_value(DType::F32, shape, false);
        let name = graph.steps[scale].name.clone();
        // In the place of the product, where the factors are there already.
        let (inputs, outputs) = (vec![filters, Some(factors)], vec![Some(scaled)]);
        graph.steps[scale] = Step { name, op: Op::ScaleFilters { filters: count }, inputs, outputs };
        let inputs = &mut graph.steps[conv].inputs;
        (inputs[0], inputs[1]) = (Some(image), Some(scaled));
    }
}

/// The product at `index`, if a convolution alone reads it whose filters are fewer.
fn find(search: &Search<'_, '_>, index: usize) -> Option<Found> {
    let (graph, step) = (search.graph, &search.graph.steps[index]);
    if !matches!(step.op, Op::Binary { function: Binary::Mul, act: Activation::None }) {
        return None;
    }
    let (a, b, y) = (step.input(0)?, step.input(1)?, step.output(0)?);
    let (conv, reader) = search.reader(y)?;
    let Op::Conv(params) = &reader.op else { return None };
    let is_pointwise = params.kind == ConvKind::Blocked && params.kernel == [1, 1] && params.group == 1;
    if !is_pointwise || reader.input(0) != Some(y) || !graph.is_constant(reader.input(1)?) {
        return None;
    }
    let (image, factors) = if graph.shape(a) == graph.shape(y) { (a, b) } else { (b, a) };
    let (&[1, channels, height, width], &[_, out, ..]) =
        (&graph.fixed_shape(image)?[..], &graph.fixed_shape(reader.output(0)?)?[..])
    else {
        return None;
    };
    let one = Dim::Fixed(1);
    let each = graph.shape(factors) == [one.clone(), Dim::Fixed(channels), one.clone(), one];
    let fewer = product(&[height, width])? >= out && [height, width] != [1, 1];
    (each && fewer && !graph.is_constant(factors)).then_some(Found { scale: index, conv, image, factors, filters: out })
}
