//! Views around a product of rows with one matrix change only how its rows are counted: they are dropped, so that what
//! follows meets the product itself.

use super::graph::{Graph, Rewrite, Search};
use crate::program::{Op, Step};

pub(super) fn run(graph: &mut Graph<'_>) {
    graph.rewrite(|search, index| product_of_view(search, index).or_else(|| view_of_product(search, index)));
}

/// Whether each row of A is multiplied alone with one matrix B, so that any leading dimensions will do.
fn is_by_row(graph: &Graph<'_>, step: &Step) -> bool {
    let Op::Gemm(gemm) = &step.op else { return false };
    let plain = step.inputs.get(2..).is_none_or(|rest| rest.iter().flatten().all(|&v| graph.shape(v).len() == 1));
    !gemm.trans_a && plain && step.input(1).is_some_and(|b| graph.shape(b).len() == 2)
}

/// A product that reads a view with the same rows reads what is viewed.
fn product_of_view(search: &Search<'_, '_>, index: usize) -> Option<Rewrite> {
    let graph = search.graph;
    let mut step = graph.steps[index].clone();
    let a = step.input(0)?;
    let (_, view) = search.producer(a)?;
    let source = view.input(0)?;
    let same = graph.shape(source).last() == graph.shape(a).last() && graph.shape(source).len() >= 2;
    step.inputs[0] = Some(source);
    (view.op == Op::View && same && is_by_row(graph, &step)).then_some(Rewrite { at: index, step, gone: vec![] })
}

/// A view with the same rows of a product is written by the product.
fn view_of_product(search: &Search<'_, '_>, index: usize) -> Option<Rewrite> {
    let graph = search.graph;
    let view = &graph.steps[index];
    let (source, output) = (view.input(0)?, view.output(0)?);
    search.reader(source)?;
    let (at, product) = search.producer(source)?;
    let same = graph.shape(source).last() == graph.shape(output).last() && graph.shape(output).len() >= 2;
    if view.op != Op::View || !same || !is_by_row(graph, product) {
        return None;
    }
    let mut step = product.clone();
    step.outputs = vec![Some(output)];
    Some(Rewrite { at: index, step, gone: vec![at] })
}
