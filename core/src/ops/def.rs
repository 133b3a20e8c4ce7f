//! What core knows of an operator.

use byoc_plugin_api::DType;

use super::attributes;
use super::infer::{self, Infer};
use super::run_time::{self, RunTimeRule};
use crate::constants::View;
use crate::diagnostic::Result;
use crate::ir::{Node, TensorType};

/// Sets type and shape of each output, or reports an invalid node.
pub type InferRule = fn(&mut Infer<'_>) -> Result<()>;

/// The view that stands for output 0 when input 0 is a constant seen through the given view, or `None` where bytes
/// would have to move. Arguments: the node, the view of input 0, the inferred shape of output 0, and for each input
/// its elements where it is a known integer tensor.
pub type ViewRule = fn(&Node, &View, &[usize], &[Option<Vec<i64>>]) -> Option<View>;

/// When an operator hands its first input on without arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoOp {
    /// It always computes or moves something.
    Never,
    /// Always: output 0 has the bytes of input 0, at most under another shape.
    Always,
    /// When it has no other input: those of `Dropout` are about training.
    Alone,
    /// When input 0 and output 0 have the same type and shape.
    SameType,
}

/// What output 0 has of the inputs, whatever their sizes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Like {
    /// Neither.
    Nothing,
    /// Rank and element type of input 0.
    Rank,
    /// Shape and element type of input 0.
    First,
    /// The element type of input 0, and the rank that all inputs are broadcast to.
    Broadcast,
    /// The rank that all inputs are broadcast to, of `bool`.
    Compared,
}

/// The definition of one operator in its canonical (newest) form.
#[derive(Clone, Debug)]
pub struct OpDef {
    /// Its domain; empty for ONNX's own.
    pub domain: &'static str,
    /// The ONNX name.
    pub name: &'static str,
    /// The operator-set version since which ONNX has had the form that core uses. Later versions of the operator, if
    /// there are any, only allow more types.
    pub since: u32,
    /// Fewest and most inputs; `usize::MAX` for variadic. Inputs below the fewest are required. In canonical form, what
    /// [`OpDef::lifted`] gives comes behind them.
    pub inputs: (usize, usize),
    /// Most outputs; output 0 is required, the others are optional.
    pub outputs: usize,
    /// Where a model of an older operator set may have another number of them: before that version, the most inputs and
    /// the most outputs. Rows are in the order of versions.
    pub older: &'static [(i64, usize, usize)],
    /// What output 0 has of the inputs.
    pub like: Like,
    /// Its attributes, in all versions.
    pub attributes: attributes::List,
    /// Sets type and shape of each output.
    pub infer: InferRule,
    /// What is known of the outputs where their sizes depend on elements that are not known.
    pub run_time: Option<RunTimeRule>,
    /// How a constant input becomes the output without a byte being moved.
    pub view: Option<ViewRule>,
    /// When the operator does nothing.
    pub no_op: NoOp,
    /// The numbers among the element types that not every backend knows that it takes.
    pub small: &'static [DType],
    /// Whether its results may be random numbers, which are drawn when a model runs and never before.
    pub random: bool,
    /// The complex and text types that it takes.
    pub opaque: &'static [DType],
    /// Whether it gives what a quantised constant stands for: computed ahead, it would be stored in a wider form.
    pub widens: bool,
}

impl OpDef {
    pub(super) const fn new(name: &'static str, since: u32, inputs: (usize, usize), infer: InferRule) -> OpDef {
        OpDef {
            domain: "",
            name,
            since,
            inputs,
            outputs: 1,
            older: &[],
            like: Like::Nothing,
            attributes: &[],
            infer,
            run_time: None,
            view: None,
            no_op: NoOp::Never,
            small: &[],
            random: false,
            opaque: &[],
            widens: false,
        }
    }

    /// An operator that works on each element of its only input by itself.
    pub(super) const fn unary(name: &'static str, since: u32, infer: InferRule) -> OpDef {
        OpDef::new(name, since, (1, 1), infer).like(Like::First)
    }

    /// A reduction, whose axes became an input in 18.
    pub(super) const fn reduction(name: &'static str, since: u32, infer: InferRule) -> OpDef {
        OpDef::new(name, since, (1, 2), infer)
            .run_time(run_time::reduce)
            .older(&[(18, 1, 1)])
            .attributes(attributes::REDUCE)
    }

    pub(super) const fn like(mut self, like: Like) -> OpDef {
        self.like = like;
        self
    }

    pub(super) const fn outputs(mut self, most: usize) -> OpDef {
        self.outputs = most;
        self
    }

    pub(super) const fn older(mut self, rows: &'static [(i64, usize, usize)]) -> OpDef {
        self.older = rows;
        self
    }

    pub(super) const fn attributes(mut self, list: attributes::List) -> OpDef {
        self.attributes = list;
        self
    }

    pub(super) const fn run_time(mut self, rule: RunTimeRule) -> OpDef {
        self.run_time = Some(rule);
        self
    }

    pub(super) const fn view(mut self, rule: ViewRule) -> OpDef {
        self.view = Some(rule);
        self
    }

    pub(super) const fn no_op(mut self, when: NoOp) -> OpDef {
        self.no_op = when;
        self
    }

    pub(super) const fn small(mut self, types: &'static [DType]) -> OpDef {
        self.small = types;
        self
    }

    pub(super) const fn random(mut self) -> OpDef {
        self.random = true;
        self
    }

    pub(super) const fn opaque(mut self, types: &'static [DType]) -> OpDef {
        self.opaque = types;
        self
    }

    pub(super) const fn widens(mut self) -> OpDef {
        self.widens = true;
        self
    }

    /// Fails where a node of that version of the operator set has more inputs or outputs than the operator has there.
    pub(crate) fn check_counts(&self, version: i64, inputs: usize, outputs: usize) -> Result<()> {
        let older = self.older.iter().find(|(before, ..)| version < *before);
        let (most_inputs, most_outputs) = older.map_or((self.inputs.1, self.outputs), |row| (row.1, row.2));
        for (what, count, most, newest) in
            [("inputs", inputs, most_inputs, self.inputs.1), ("outputs", outputs, most_outputs, self.outputs)]
        {
            if count > most {
                let error = infer::bad(format!("has {count} {what}, expected at most {most} in version {version}"));
                let newer = older.filter(|_| count <= newest);
                return Err(newer.map_or(error.clone(), |_| error.hint("Export the model with a newer operator set")));
            }
        }
        Ok(())
    }

    /// Whether some input may have that element type; which of those that every backend knows, its rule says.
    pub fn takes(&self, dtype: DType) -> bool {
        !dtype.is_asked_for() || self.small.contains(&dtype) || self.opaque.contains(&dtype)
    }

    /// The operator with its domain, as in messages: `Conv` or `ai.onnx.ml.Scaler`.
    pub fn qualified(&self) -> String {
        if self.domain.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.domain, self.name) }
    }

    /// The attribute of that name, if the operator has it in its canonical form.
    pub fn attribute(&self, name: &str) -> Option<&attributes::AttributeDef> {
        self.attributes.iter().find(|attribute| attribute.stays() && attribute.name == name)
    }

    /// The attributes that are constants in canonical form: an input each, behind the operator's own.
    pub fn lifted(&self) -> impl Iterator<Item = &'static attributes::AttributeDef> + use<> {
        self.attributes.iter().filter(|attribute| attribute.lifted)
    }

    /// Most inputs in canonical form.
    pub fn most_inputs(&self) -> usize {
        self.inputs.1.saturating_add(self.lifted().count())
    }

    /// Whether the results of `node` are random numbers.
    pub fn is_random(&self, node: &Node) -> bool {
        self.random && !(self.no_op == NoOp::Alone && node.inputs.len() == 1)
    }

    /// Whether `node` only hands input 0 on, given the types of its input 0 and output 0. A node with a second output
    /// that is used does more.
    pub fn is_no_op(&self, node: &Node, input: &TensorType, output: &TensorType) -> bool {
        let alone = node.outputs.iter().skip(1).all(Option::is_none);
        alone
            && match self.no_op {
                NoOp::Never => false,
                NoOp::Always => true,
                NoOp::Alone => node.inputs.len() == 1,
                NoOp::SameType => input == output,
            }
    }
}
