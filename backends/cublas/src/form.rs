//! Reads a region as one product of matrices. `check` asks whether it is one, and why not; `codegen` and the
//! constant_updater read what was accepted.

mod activation;
mod factors;
mod graph;

use byoc_plugin_api::{DType, Dim, Node, Refusal, RefusalCode, Region};

use self::graph::Graph;
use crate::product::{Activation, Product, Reading, Scaled};

/// A region that is one product.
#[derive(Debug)]
pub(crate) struct Form {
    /// The product of the region's values.
    pub(crate) product: Product<usize>,
    /// Constants that decided what is computed, and are not needed for it.
    pub(crate) numbers: Vec<usize>,
}

/// The element types that cublasLt multiplies and core knows.
const TYPES: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];

/// Reads a region. With `gelu_tanh`, GELU with erf counts as the one with tanh.
pub(crate) fn read(region: &Region, gelu_tanh: bool) -> Result<Form, Refusal> {
    let mut graph = Graph::new(region);
    let &[output] = region.outputs.as_slice() else { return Err(other("there is more than one result")) };
    let (activation, mut value) = graph.activation(output, gelu_tanh)?;
    let mut added = Vec::new();
    while let Some(node) = graph.step(value, "Add") {
        let (inner, term) = chain(&graph, node)?;
        added.push((term, 1.0));
        value = inner;
    }
    let Some(node) = graph.producer(value) else { return Err(other("there is no product")) };
    let (x, w, alpha) = factors::read(region, node)?;
    added.extend(factors::own_term(node));
    let y = region.values[value].shape.clone();
    let dtype = same_type(region, &[x.from, w.from, value, output])?;
    let node_name = node.name.clone();
    let mut product = Product { node: node_name, dtype, x, w, alpha, c: None, bias: None, activation, y };
    graph.mark(value);
    for (term, beta) in added.into_iter().rev().filter(|(_, beta)| *beta != 0.0) {
        same_type(region, &[value, term])?;
        add(region, &mut product, term, beta)?;
    }
    whole(&graph, &product, output)?;
    Ok(Form { product, numbers: graph.numbers() })
}

/// The operand of a sum that the region computes, and the other one.
fn chain(graph: &Graph<'_>, node: &Node) -> Result<(usize, usize), Refusal> {
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Err(other("a sum without two operands")) };
    match (graph.producer(a).is_some(), graph.producer(b).is_some()) {
        (true, false) => Ok((a, b)),
        (false, true) => Ok((b, a)),
        _ => Err(other(&format!("'{}' does not add one tensor to one product", node.name))),
    }
}

/// Takes a tensor that is added: as the bias where it is a vector along the rows, or as C where it has the shape of the
/// product.
fn add(region: &Region, product: &mut Product<usize>, term: usize, beta: f32) -> Result<(), Refusal> {
    let tensor = &region.values[term];
    let is_constant = region.constant(term).is_some();
    let (own, y) = (without_ones(&tensor.shape), without_ones(&product.y));
    let along_the_row = matches!(product.w.read, Reading::Matrix | Reading::Transposed)
        && product.y.last().is_some_and(|n| own == without_ones(std::slice::from_ref(n)));
    // One number is that many equal ones, which are made when a constant is bound.
    let one_number = own.is_empty() && (product.n() == Some(1) || is_constant && product.n().is_some());
    let is_vector = along_the_row && (!own.is_empty() || product.n() == Some(1)) || one_number;
    if is_vector && beta == 1.0 && product.bias.is_none() {
        product.bias = Some(term);
        return Ok(());
    }
    if own == y && product.c.is_none() {
        product.c = Some(Scaled { from: term, beta });
        return Ok(());
    }
    let name = &tensor.name;
    Err(if is_vector && beta != 1.0 {
        let message = format!("beta is {beta}, and the vector '{name}' can only be added as it is");
        Refusal::new(RefusalCode::Attribute, message)
    } else if is_vector || own == y {
        other(&format!("'{name}' is one more tensor to add than a call takes"))
    } else {
        let (own, y) = (text(&tensor.shape), text(&product.y));
        let message = format!("'{name}' is {own}, neither a row of the product nor of its shape, {y}");
        Refusal::new(RefusalCode::Shape, message)
    })
}

/// Errors unless all of the region is in the product.
fn whole(graph: &Graph<'_>, product: &Product<usize>, output: usize) -> Result<(), Refusal> {
    if let Some(node) = graph.unread() {
        return Err(other(&format!("'{}' is no part of a product that one call computes", node.name)));
    }
    let found = &graph.region().values[output].shape;
    if *found != product.y {
        let message = format!("the product is {}, and the result {}", text(&product.y), text(found));
        return Err(Refusal::new(RefusalCode::Shape, message));
    }
    let is_number = |value: &Option<usize>| value.is_some_and(|value| graph.numbers().contains(&value));
    let (c, bias) = (product.c.as_ref().map(|c| c.from), product.bias);
    if [Some(product.x.from), Some(product.w.from), c, bias].iter().any(is_number) {
        return Err(other("a number of GELU is an operand, too"));
    }
    Ok(())
}

/// The one element type of these values.
fn same_type(region: &Region, values: &[usize]) -> Result<DType, Refusal> {
    let dtype = region.values[values[0]].dtype;
    for value in values.iter().map(|&value| &region.values[value]) {
        let name = &value.name;
        if !TYPES.contains(&value.dtype) {
            let message = format!("'{name}' is {}, taken are f32, f64, f16 and bf16", value.dtype);
            return Err(Refusal::new(RefusalCode::Type, message));
        }
        if value.dtype != dtype {
            let message = format!("'{name}' is {}, and another operand {dtype}", value.dtype);
            return Err(Refusal::new(RefusalCode::Type, message));
        }
    }
    Ok(dtype)
}

/// What an activation needs besides a product.
fn known_activation(dtype: DType, activation: Activation) -> Result<(), Refusal> {
    if dtype == DType::F64 && activation != Activation::None {
        return Err(Refusal::new(RefusalCode::Type, "the product is f64, to which cublasLt applies no activation"));
    }
    Ok(())
}

fn without_ones(shape: &[Dim]) -> &[Dim] {
    let ones = shape.iter().take_while(|dim| **dim == Dim::Fixed(1)).count();
    &shape[ones..]
}

pub(crate) fn text(shape: &[Dim]) -> String {
    format!("[{}]", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

fn other(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Other, message)
}
