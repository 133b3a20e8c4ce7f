//! What is tried of each operator beside its usual recipe: every attribute at values that tell right from wrong, every
//! form of an operand, and sizes beside the usual ones. A list of these is a *sweep*; none repeats what another one tells.

mod axes;
mod elements;
mod movement;
mod products;
mod selection;
mod windows;

use byoc_plugin_api::{Attribute, DType};

use super::{Operand, Recipe, Wish};

/// A recipe with what is special of it, in a few words: `strides=2,1`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Swept {
    pub(crate) name: String,
    pub(crate) recipe: Recipe,
}

/// All that is tried of an operator to get what is wished for. Empty where the operator has nothing but its usual recipe, or
/// cannot give it.
pub(crate) fn sweep(op: &str, wish: &Wish) -> Vec<Swept> {
    let mut list = List::default();
    for family in [windows::sweep, products::sweep, elements::sweep, axes::sweep, movement::sweep, selection::sweep] {
        family(op, wish, &mut list);
    }
    list.0
}

/// A sweep that is being written.
#[derive(Default)]
struct List(Vec<Swept>);

impl List {
    /// Adds a recipe all of whose operands are needed.
    fn add(&mut self, name: &str, operands: Vec<Operand>, attributes: &[(&str, Attribute)]) {
        let needed = operands.len();
        self.optional(name, operands, needed, attributes);
    }

    /// Adds a recipe of whose operands the first `needed` must be there.
    fn optional(&mut self, name: &str, operands: Vec<Operand>, needed: usize, attributes: &[(&str, Attribute)]) {
        let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.0.push(Swept {
            name: name.to_owned(),
            recipe: Recipe { operands, needed, attributes, more_outputs: vec![] },
        });
    }

    /// Says which outputs more there are of what was added last.
    fn more_outputs(&mut self, dtypes: &[DType]) {
        if let Some(last) = self.0.last_mut() {
            last.recipe.more_outputs = dtypes.to_vec();
        }
    }
}

fn int(value: i64) -> Attribute {
    Attribute::Int(value)
}

fn list(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

fn word(text: &str) -> Attribute {
    Attribute::String(text.to_owned())
}

/// The shape with another size at `axis`.
fn resized(shape: &[usize], axis: usize, size: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape[axis] = size;
    shape
}

/// The shape with a further dimension before that at `axis`.
fn inserted(shape: &[usize], axis: usize, size: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape.insert(axis, size);
    shape
}
