//! Reads a region as one product of matrices. `check` asks whether it is one, and why not; `codegen` and the
//! constant_updater read what was accepted.

mod activation;
mod factors;
mod graph;
mod patterns;

use byoc_plugin_api::{DType, Dim, Node, Refusal, RefusalCode, Region};

use self::graph::Graph;
pub use self::patterns::patterns;
use crate::product::{Product, Reading, Scaled};

/// A region that is one product.
#[derive(Debug)]
pub struct Form {
    /// The product of the region's values.
    pub product: Product<usize>,
    /// Constants that decided what is computed, and are not needed for it.
    pub numbers: Vec<usize>,
}

/// What a backend takes of what is read here.
#[derive(Clone, Copy, Debug)]
pub struct Takes {
    /// The element types that it multiplies.
    pub types: &'static [DType],
    /// What becomes of GELU with erf.
    pub erf: Erf,
    /// Whether it computes `x` times the sigmoid of `x`.
    pub silu: bool,
    /// Whether a product of 16 bits may be cast to f32 for a bias of that type and what follows, and back at last.
    pub wide_bias: bool,
}

/// What becomes of GELU with erf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erf {
    /// It is not taken.
    Refused,
    /// It counts as the one with tanh.
    AsTanh,
    /// It is computed as it is.
    Taken,
}

/// Reads a region.
///
/// # Errors
///
/// When it is not one product, or one that is not taken: why.
pub fn read(region: &Region, takes: &Takes) -> Result<Form, Refusal> {
    let mut graph = Graph::new(region, *takes);
    let &[output] = region.outputs.as_slice() else { return Err(other("there is more than one result")) };
    let wide = graph.narrowed(output);
    let (activation, mut value) = graph.activation(wide.unwrap_or(output))?;
    let mut added = Vec::new();
    while let Some(node) = graph.step(value, "Add") {
        let (inner, term) = chain(&graph, node)?;
        added.push((term, 1.0));
        value = inner;
    }
    if wide.is_some() {
        value = graph.widened(value)?;
    }
    let Some(node) = graph.producer(value) else { return Err(other("there is no product")) };
    let (x, w, alpha) = factors::read(region, node)?;
    added.extend(factors::own_term(node));
    let y = region.values[value].shape.clone();
    let dtype = same_type(region, takes.types, &[x.from, w.from, value, output])?;
    let node_name = node.name.clone();
    let mut product = Product { node: node_name, dtype, x, w, alpha, c: None, bias: None, activation, y };
    graph.mark(value);
    for (term, beta) in added.into_iter().rev().filter(|(_, beta)| *beta != 0.0) {
        if wide.is_none() {
            same_type(region, takes.types, &[value, term])?;
        }
        add(region, &mut product, term, beta)?;
    }
    if let Some(c) = product.c.as_ref().filter(|_| wide.is_some()) {
        let name = &region.values[c.from].name;
        return Err(Refusal::new(
            RefusalCode::Type,
            format!("'{name}' is f32, and no vector that is added to each row"),
        ));
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
    let found = &graph.region.values[output].shape;
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
fn same_type(region: &Region, types: &[DType], values: &[usize]) -> Result<DType, Refusal> {
    let dtype = region.values[values[0]].dtype;
    for value in values.iter().map(|&value| &region.values[value]) {
        let name = &value.name;
        if !types.contains(&value.dtype) {
            let names: Vec<_> = types.iter().map(ToString::to_string).collect();
            let taken = names.split_last().map_or_else(String::new, |(last, others)| match others {
                [] => last.clone(),
                _ => format!("{} and {last}", others.join(", ")),
            });
            let message = format!("'{name}' is {}, taken are {taken}", value.dtype);
            return Err(Refusal::new(RefusalCode::Type, message));
        }
        if value.dtype != dtype {
            let message = format!("'{name}' is {}, and another operand {dtype}", value.dtype);
            return Err(Refusal::new(RefusalCode::Type, message));
        }
    }
    Ok(dtype)
}

fn without_ones(shape: &[Dim]) -> &[Dim] {
    let ones = shape.iter().take_while(|dim| **dim == Dim::Fixed(1)).count();
    &shape[ones..]
}

/// A shape, for messages.
pub fn text(shape: &[Dim]) -> String {
    format!("[{}]", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

fn other(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Other, message)
}
