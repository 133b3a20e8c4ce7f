//! Constant right sides of matrix products go into the panels that the kernel reads, once, at compile time; at run time it
//! would pack them for every product.

use super::graph::Graph;
use super::settle::is_as_large;
use crate::constants::Recipe;
use crate::program::{Op, Step};

/// Products of so few rows read the matrix as it is, each element once: there is nothing to gain.
const FEW_ROWS: usize = 4;

pub(super) fn run(graph: &mut Graph<'_>) {
    let edges = graph.edges();
    for index in 0..graph.steps.len() {
        let Some(recipe) = recipe(graph, &graph.steps[index]) else { continue };
        let Recipe::Matrix { k, n, .. } = recipe else { continue };
        let original = graph.steps[index].inputs[1];
        // Every reader of the matrix reads it so, or it would be stored twice.
        let readers = original.map_or_else(Vec::new, |value| edges.readers(value));
        let agree = readers.iter().all(|&other| self::recipe(graph, &graph.steps[other]).as_ref() == Some(&recipe));
        if !agree || original.is_some_and(|value| graph.outputs.contains(&value)) {
            continue;
        }
        let Some(packed) = graph.derive(recipe) else { continue };
        for reader in readers {
            let step = &mut graph.steps[reader];
            step.inputs[1] = Some(packed);
            if let Op::Gemm(gemm) = &mut step.op {
                (gemm.packed, gemm.trans_b) = (Some([k, n]), false);
            }
        }
    }
}

/// How the right side of a product is packed, if it is a constant that is to be.
fn recipe(graph: &Graph<'_>, step: &Step) -> Option<Recipe> {
    let Op::Gemm(gemm) = &step.op else { return None };
    let b = step.input(1)?;
    let constant = graph.constant(b).filter(|constant| !constant.shared && constant.inline.is_none())?;
    let read_elsewhere = step.inputs.iter().filter(|input| **input == Some(b)).count() > 1;
    let (shape, out) = (graph.fixed_shape(b)?, graph.fixed_shape(step.output(0)?)?);
    let (&[rows, columns], [lead @ .., n]) = (shape.as_slice(), out.as_slice()) else { return None };
    let (k, columns) = if gemm.trans_b { (columns, rows) } else { (rows, columns) };
    let has_data = graph.view_by_id(constant.id).is_some_and(|view| view.has_data());
    let worth_it = has_data && lead.iter().product::<usize>() > FEW_ROWS && columns == *n && !read_elsewhere;
    let recipe = Recipe::Matrix { matrix: constant.id, transposed: gemm.trans_b, k, n: *n };
    (worth_it && is_as_large(graph, constant.id, &recipe)).then_some(recipe)
}
