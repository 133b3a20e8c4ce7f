//! From a form to a model: an operand is a node, a constant or an input of the model, of a shape that follows from what the
//! last node is to give.

use std::collections::{HashMap, HashSet};

use byoc_plugin_api::{DType, Description};

use super::forms::{Form, shared_with_others};
use super::{Constants, Kind, Variant};
use crate::data;
use crate::front;
use crate::onnx::{Fill, Model};
use crate::recipes::{self, Operand, Recipe, Wish};

/// A model with the nodes that it was made of.
pub(super) struct Built {
    pub(super) model: Model,
    /// Operators in the order in which they were asked for, the last one of the model first, with what each is to give.
    pub(super) nodes: Vec<(String, Wish)>,
}

/// Where an operand comes from that is not a node of the pattern.
#[derive(Clone, Copy, PartialEq)]
enum Origin {
    Constant,
    Input,
    /// Nodes that read an input, where there are some for the operand.
    Front,
}

/// The model; `None` where an operator cannot give what it has to.
pub(super) fn build(form: &Form, variant: &Variant, backend: &Description) -> Option<Built> {
    let (model, bound) = (Model::default(), HashMap::new());
    let mut behind = HashSet::new();
    shared_with_others(form, &backend.regions.starts_with, &mut behind);
    let (nodes, shared, more_outputs) = (Vec::new(), Vec::new(), Vec::new());
    let front_inputs = Vec::new();
    let mut builder =
        Builder { model, bound, behind, front_inputs, values: 0, variant, backend, nodes, shared, more_outputs };
    let output = builder.node(form, &variant.wish)?;
    builder.model.output(&output, variant.wish.dtype);
    if variant.kind == Kind::Swept {
        for (name, dtype) in std::mem::take(&mut builder.more_outputs) {
            builder.model.output(&name, dtype);
        }
    }
    if variant.shared_are_outputs {
        for (name, dtype) in std::mem::take(&mut builder.shared) {
            builder.model.output(&name, dtype);
        }
    }
    // A model that reads nothing would be computed ahead of time.
    (!builder.model.inputs.is_empty()).then_some(Built { model: builder.model, nodes: builder.nodes })
}

struct Builder<'a> {
    model: Model,
    /// Named operands: the same name is the same value.
    bound: HashMap<String, (String, Operand)>,
    /// Names of operands that something has to be in front of.
    behind: HashSet<String>,
    /// Inputs of nodes in front: all that want the same read the same one.
    front_inputs: Vec<(Wish, String)>,
    values: usize,
    variant: &'a Variant,
    backend: &'a Description,
    /// The nodes so far, without those in front: operator, and what is wished for.
    nodes: Vec<(String, Wish)>,
    /// Values that several nodes read.
    shared: Vec<(String, DType)>,
    /// Outputs of the node that was added last beside its first one.
    more_outputs: Vec<(String, DType)>,
}

impl<'a> Builder<'a> {
    /// Operators that a region may start with; any where there is none.
    fn starts(&self) -> &'a [String] {
        &self.backend.regions.starts_with
    }

    fn fresh(&mut self, kind: &str) -> String {
        self.values += 1;
        format!("{kind}{}", self.values)
    }

    /// Adds the node that gives what is wished for, and what it reads.
    fn node(&mut self, form: &Form, wish: &Wish) -> Option<String> {
        let Form::Node { op: (domain, op), operands, rest } = form else { return None };
        let recipe = self.recipe(domain, op, operands, wish);
        let own = || self.backend.operators.iter().find(|own| own.domain == *domain && own.name == *op);
        let recipe = recipe.or_else(|| Some(recipes::custom(own()?, wish)))?;
        if let Some(own) = own() {
            self.model.import(domain, own.since);
        }
        let count = match rest {
            true if self.variant.constants == Constants::AllButTheFirst => recipe.operands.len().max(operands.len()),
            true => recipe.needed.max(operands.len()),
            false => operands.len(),
        };
        if count > recipe.operands.len() || count < recipe.needed {
            return None;
        }
        let open = Form::Leaf { name: None, constant: false, quantized: false };
        let form = |index: usize| operands.get(index).unwrap_or(&open);
        let is_constant = |index: usize| matches!(form(index), Form::Leaf { constant: true, .. });
        let starts = self.starts().is_empty() || (domain.is_empty() && self.starts().contains(op));
        let data = (0..count).find(|&index| !is_constant(index));
        let may_be = |index: usize| match self.variant.constants {
            Constants::None => false,
            Constants::AllButTheFirst => data != Some(index),
            Constants::Only(only) => only == index,
        };
        let mut inputs = Vec::with_capacity(count);
        for (index, operand) in recipe.operands[..count].iter().enumerate() {
            let constant = is_constant(index) || may_be(index);
            let behind = matches!(form(index), Form::Leaf { name: Some(name), .. } if self.behind.contains(name));
            let origin = match (constant, starts && !behind) {
                (true, _) => Origin::Constant,
                (false, true) => Origin::Input,
                (false, false) => Origin::Front,
            };
            inputs.push(self.operand(form(index), operand, origin)?);
        }
        Some(self.add((domain, op), &recipe, inputs))
    }

    /// How the node that is asked for next comes to give what is wished for.
    fn recipe(&mut self, domain: &str, op: &str, operands: &[Form], wish: &Wish) -> Option<Recipe> {
        if !domain.is_empty() {
            return recipes::of_domain(domain, op, wish);
        }
        let number = self.nodes.len();
        self.nodes.push((op.to_owned(), wish.clone()));
        if let Some((_, swept)) = self.variant.swept.as_ref().filter(|(node, _)| *node == number) {
            return Some(swept.recipe.clone());
        }
        let inner = operands.get(1).is_some_and(|operand| matches!(operand, Form::Node { .. } | Form::Shared(..)));
        let usual = recipes::find(op, wish, self.variant.broadcast && !inner);
        usual.or_else(|| recipes::sweep(op, wish).into_iter().next().map(|swept| swept.recipe))
    }

    /// Adds a node and returns the name of its first output.
    fn add(&mut self, op: (&str, &str), recipe: &Recipe, inputs: Vec<String>) -> String {
        let output = self.fresh("v");
        self.more_outputs = recipe.more_outputs.iter().map(|&dtype| (self.fresh("more"), dtype)).collect();
        let more = self.more_outputs.iter().map(|(name, _)| name.clone());
        let outputs = std::iter::once(output.clone()).chain(more).collect();
        self.model.node(op, inputs, outputs, &recipe.attributes);
        output
    }

    /// Adds an operand and returns its name.
    fn operand(&mut self, form: &Form, operand: &Operand, origin: Origin) -> Option<String> {
        match (form, operand) {
            (Form::Absent, _) | (Form::Leaf { .. }, Operand::Absent) => Some(String::new()),
            (Form::Node { .. }, Operand::Tensor(wish, fill)) if fill.is_free() => self.node(form, wish),
            (Form::Shared(name, form), Operand::Tensor(wish, fill)) if fill.is_free() => {
                self.shared(name, form, operand, wish)
            }
            (Form::Node { .. } | Form::Shared(..), _) => None,
            (Form::Leaf { quantized: true, name, constant }, Operand::Tensor(wish, fill)) if fill.is_free() => {
                self.dequantized(name.as_ref(), wish, *constant)
            }
            (Form::Leaf { quantized: true, .. }, _) => None,
            (Form::Leaf { name: None, .. }, _) => Some(self.leaf(operand, origin)),
            (Form::Leaf { name: Some(name), .. }, _) => match self.bound.get(name) {
                Some((value, known)) => (known == operand).then(|| value.clone()),
                None => {
                    let value = self.leaf(operand, origin);
                    self.bound.insert(name.clone(), (value.clone(), operand.clone()));
                    Some(value)
                }
            },
        }
    }

    /// What all operands of that name read.
    fn shared(&mut self, name: &str, form: &Form, operand: &Operand, wish: &Wish) -> Option<String> {
        if let Some((value, known)) = self.bound.get(name) {
            return (known == operand).then(|| value.clone());
        }
        let value = match form {
            Form::Node { .. } => self.node(form, wish)?,
            _ => self.operand(form, operand, Origin::Input)?,
        };
        self.bound.insert(name.to_owned(), (value.clone(), operand.clone()));
        if matches!(form, Form::Node { .. }) {
            self.shared.push((value.clone(), wish.dtype));
        }
        Some(value)
    }

    /// What a `DequantizeLinear` makes of an input or a constant of 8 bits.
    fn dequantized(&mut self, name: Option<&String>, wish: &Wish, constant: bool) -> Option<String> {
        if wish.dtype != DType::F32 {
            return None;
        }
        let (dtype, origin) = if constant { (DType::I8, Origin::Constant) } else { (DType::U8, Origin::Input) };
        let tensor = Form::Leaf { name: name.cloned(), constant, quantized: false };
        let x =
            self.operand(&tensor, &Operand::Tensor(Wish { dtype, shape: wish.shape.clone() }, Fill::Any), origin)?;
        let (scale, zero) = (self.fixed(DType::F32, &[], [0.0625]), self.fixed(dtype, &[], [3.0]));
        Some(self.add(("", "DequantizeLinear"), &Recipe::default(), vec![x, scale, zero]))
    }

    fn leaf(&mut self, operand: &Operand, origin: Origin) -> String {
        let (wish, fill) = match operand {
            Operand::Tensor(wish, fill) => (wish.clone(), *fill),
            Operand::Ints(values, shape) => {
                // Sizes, one of which is the open one.
                let open = self.variant.wish.shape.first().map(|&size| size as i64);
                self.model.is_for_one_size |= values.len() > 1 && values.first().copied() == open;
                return self.fixed(DType::I64, shape, values.iter().map(|&int| int as f64));
            }
            Operand::Number(value, dtype) => return self.fixed(*dtype, &[], [*value]),
            Operand::Absent => return String::new(),
        };
        self.model.is_coarse |= fill == Fill::Far;
        let front = (origin == Origin::Front && matches!(fill, Fill::Any | Fill::Finite))
            .then(|| front::nodes(self.starts(), &wish))
            .flatten();
        match (origin, front) {
            (Origin::Constant, _) => {
                let name = self.fresh("w");
                let whole = &self.variant.wish.shape;
                self.model.is_for_one_size |= wish.shape.len() == whole.len() && wish.shape.first() == whole.first();
                self.model.constant(&name, data::random(wish.dtype, &signed(&wish.shape), fill, &name));
                name
            }
            (_, Some(nodes)) => self.front(&nodes),
            (_, None) => self.input(&wish, fill),
        }
    }

    fn input(&mut self, wish: &Wish, fill: Fill) -> String {
        let name = self.fresh("x");
        let symbolic = self.variant.kind == Kind::Symbolic && wish.shape.first() == self.variant.wish.shape.first();
        self.model.input(&name, wish.dtype, &wish.shape, fill, symbolic);
        name
    }

    /// Adds nodes in front, given the last first, and returns what they give. All but their first operands are constants.
    fn front(&mut self, nodes: &[(&str, Recipe)]) -> String {
        let mut value = String::new();
        for (op, recipe) in nodes.iter().rev() {
            if let (true, Some(wish)) = (value.is_empty(), front::first(recipe)) {
                value = self.front_input(wish);
            }
            let others = recipe.operands[1..].iter().map(|operand| self.leaf(operand, Origin::Constant));
            let inputs = std::iter::once(value.clone()).chain(others.collect::<Vec<_>>()).collect();
            value = self.add(("", op), recipe, inputs);
            self.model.in_front(&value);
        }
        value
    }

    fn front_input(&mut self, wish: &Wish) -> String {
        if let Some((_, name)) = self.front_inputs.iter().find(|(known, _)| known == wish) {
            return name.clone();
        }
        let name = self.input(wish, Fill::Any);
        self.front_inputs.push((wish.clone(), name.clone()));
        name
    }

    fn fixed(&mut self, dtype: DType, shape: &[usize], values: impl IntoIterator<Item = f64>) -> String {
        let name = self.fresh("c");
        self.model.constant(&name, data::tensor(dtype, &signed(shape), values));
        name
    }
}

fn signed(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&size| size as i64).collect()
}
