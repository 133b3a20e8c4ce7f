//! Matches a region to one fused GEMM: a product of matrices with what is added to it and an activation. `check` needs the
//! reason of a refusal; `codegen` and the constant_updater match what was accepted.

mod activation;
mod factors;
mod patterns;

use byoc_plugin_api::{DType, Dim, Node, Refusal, RefusalCode, Region};

pub use self::patterns::patterns;
use crate::product::{MatrixView, Product, Scaled};
use crate::region_matcher::RegionMatcher;

/// A region as one fused GEMM.
#[derive(Debug)]
pub struct MatchedProduct {
    /// The product, of values of the region.
    pub product: Product<usize>,
    /// Constants whose numbers are in the code, which does not read them otherwise.
    pub numbers: Vec<usize>,
}

/// The parts of a fused GEMM that a backend supports.
#[derive(Clone, Copy, Debug)]
pub struct Supported {
    /// Element types.
    pub types: &'static [DType],
    /// Support of GELU with erf.
    pub erf: Erf,
    /// Whether SiLU, `x` times the sigmoid of `x`, is supported.
    pub silu: bool,
    /// Whether a 16-bit product may be cast to f32 for an f32 bias and an activation, and back at the end.
    pub wide_bias: bool,
}

/// How a backend supports GELU with erf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erf {
    /// It is refused.
    Refused,
    /// It is approximated by GELU with tanh.
    AsTanh,
    /// It is computed exactly.
    Exact,
}

type Matcher<'a> = RegionMatcher<'a, Supported>;

/// Matches a region.
///
/// # Errors
///
/// When it is not one product, or not a supported one, with the reason.
pub fn read(region: &Region, supported: &Supported) -> Result<MatchedProduct, Refusal> {
    let mut matcher = Matcher::new(region, *supported);
    let &[output] = region.outputs.as_slice() else { return Err(other("there is more than one result")) };
    let wide = matcher.narrowed(output);
    let (activation, mut value) = matcher.activation(wide.unwrap_or(output))?;
    let mut added = Vec::new();
    while let Some(node) = matcher.step(value, "Add") {
        let (inner, term) = chain(&matcher, node)?;
        added.push((term, 1.0));
        value = inner;
    }
    if wide.is_some() {
        value = matcher.widened(value)?;
    }
    let Some(node) = matcher.producer(value) else { return Err(other("there is no product")) };
    let (x, w, alpha) = factors::read(region, node)?;
    added.extend(factors::own_term(node));
    let y = region.values[value].shape.clone();
    let dtype = same_type(region, supported.types, &[x.from, w.from, value, output])?;
    let node_name = node.name.clone();
    let mut product = Product { node: node_name, dtype, x, w, alpha, c: None, bias: None, activation, y };
    matcher.mark(value);
    for (term, beta) in added.into_iter().rev().filter(|(_, beta)| *beta != 0.0) {
        if wide.is_none() {
            same_type(region, supported.types, &[value, term])?;
        }
        add(region, &mut product, term, beta)?;
    }
    if let Some(c) = product.c.as_ref().filter(|_| wide.is_some()) {
        let name = &region.values[c.from].name;
        return Err(Refusal::new(
            RefusalCode::Type,
            format!("'{name}' is f32, and is not a vector that is added to each row"),
        ));
    }
    require_consumed(&matcher, &product, output)?;
    Ok(MatchedProduct { product, numbers: matcher.numbers() })
}

impl Matcher<'_> {
    /// The f32 value that `output` is cast from, if the backend supports f32 sums.
    pub(super) fn narrowed(&mut self, output: usize) -> Option<usize> {
        let from = self.producer(output).filter(|_| self.state.wide_bias)?.input(0)?;
        let is_wide = |value: usize| self.region.values[value].dtype == DType::F32;
        (is_wide(from) && !is_wide(output)).then(|| self.step(output, "Cast")).flatten().map(|_| from)
    }

    /// The 16-bit product before the cast to f32 that makes `value`.
    pub(super) fn widened(&mut self, value: usize) -> Result<usize, Refusal> {
        let cast = self.step(value, "Cast").and_then(|node| node.input(0));
        cast.ok_or_else(|| other("a sum in f32 is cast, but its product is not"))
    }
}

/// The operands of a sum: the one that the region computes first.
fn chain(matcher: &Matcher<'_>, node: &Node) -> Result<(usize, usize), Refusal> {
    let (Some(a), Some(b)) = (node.input(0), node.input(1)) else { return Err(other("a sum needs two operands")) };
    match (matcher.producer(a).is_some(), matcher.producer(b).is_some()) {
        (true, false) => Ok((a, b)),
        (false, true) => Ok((b, a)),
        _ => Err(other(&format!("'{}' does not add one tensor to one product", node.name))),
    }
}

/// Adds a tensor: as the bias if it is a vector of N elements, or as C if it has the shape of the product.
fn add(region: &Region, product: &mut Product<usize>, term: usize, beta: f32) -> Result<(), Refusal> {
    let tensor = &region.values[term];
    let is_constant = region.constant(term).is_some();
    let (own, y) = (without_ones(&tensor.shape), without_ones(&product.y));
    let along_the_row = matches!(product.w.read, MatrixView::Matrix | MatrixView::Transposed)
        && product.y.last().is_some_and(|n| own == without_ones(std::slice::from_ref(n)));
    // A scalar is broadcast to a vector when the constant is bound.
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
        let message = format!("beta is {beta}, but the vector '{name}' cannot be scaled");
        Refusal::new(RefusalCode::Attribute, message)
    } else if is_vector || own == y {
        other(&format!("'{name}' is one more tensor to add than a call supports"))
    } else {
        let (own, y) = (shape_text(&tensor.shape), shape_text(&product.y));
        let message = format!("'{name}' is {own}, neither a row of the product nor of its shape {y}");
        Refusal::new(RefusalCode::Shape, message)
    })
}

/// An error unless the product consumes all nodes of the region.
fn require_consumed(matcher: &Matcher<'_>, product: &Product<usize>, output: usize) -> Result<(), Refusal> {
    if let Some(node) = matcher.unmatched() {
        return Err(other(&format!("'{}' is not part of a product that one call computes", node.name)));
    }
    let found = &matcher.region.values[output].shape;
    if *found != product.y {
        let message = format!("the product is {}, but the result is {}", shape_text(&product.y), shape_text(found));
        return Err(Refusal::new(RefusalCode::Shape, message));
    }
    let is_number = |value: &Option<usize>| value.is_some_and(|value| matcher.numbers().contains(&value));
    let (c, bias) = (product.c.as_ref().map(|c| c.from), product.bias);
    if [Some(product.x.from), Some(product.w.from), c, bias].iter().any(is_number) {
        return Err(other("a constant of GELU is an operand, too"));
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
            let message = format!("'{name}' is {}; supported are {taken}", value.dtype);
            return Err(Refusal::new(RefusalCode::Type, message));
        }
        if value.dtype != dtype {
            let message = format!("'{name}' is {}, but another operand is {dtype}", value.dtype);
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
pub fn shape_text(shape: &[Dim]) -> String {
    format!("[{}]", shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
}

fn other(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Other, message)
}
