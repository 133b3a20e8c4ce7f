//! Sequences and optionals whose contents the model fixes: the graph has their elements, and no value for themselves. What a
//! position, a length or an element is, is known here, but for a tensor that is cut into slices of one, which may be as many
//! as there are.

use byoc_plugin_api::{Attribute, DType};

use super::builder::{Builder, List};
use super::flatten::FlatNode;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{Node, ValueId};
use crate::ops::attributes;
use crate::ops::lists::{self, ListDef};

/// What an operator makes.
enum Made {
    Tensor(ValueId),
    List(List),
}

/// Whether the node is one of a list, or gives one a second name.
pub(super) fn takes(builder: &Builder<'_>, node: &FlatNode) -> bool {
    let list = || node.inputs.first().is_some_and(|name| builder.list(name).is_some());
    lists::find(&node.domain, &node.op).is_some() || node.domain.is_empty() && node.op == "Identity" && list()
}

/// Adds what a node on sequences or optionals computes. `read` gives its attributes.
pub(super) fn add(
    builder: &mut Builder<'_>,
    mut node: FlatNode,
    read: impl FnOnce(&mut FlatNode) -> Result<Node>,
) -> Result<()> {
    // What an optional may hold is told by what it does.
    if node.op == "Optional" {
        node.attributes.retain(|attribute| attribute.name.as_deref() != Some("type"));
    }
    let like = read(&mut node)?;
    if let Some(def) = lists::find(&node.domain, &node.op) {
        check(def, &node, &like)?;
    }
    let inputs: Vec<&str> = node.inputs.iter().map(String::as_str).collect();
    let made = Maker { builder, node: &like, inputs }.make()?;
    let [output] = node.outputs.as_slice() else {
        return Err(bad(&like, format!("has {} outputs, expected 1", node.outputs.len())));
    };
    match made {
        Made::List(list) => builder.add_list(output, list),
        Made::Tensor(id) => {
            // A second name of the value.
            let output = Some(builder.add_value(output, None));
            builder.push(Node { op: "Identity".into(), inputs: vec![Some(id)], outputs: vec![output], ..named(&like) });
        }
    }
    Ok(())
}

fn named(node: &Node) -> Node {
    Node { name: node.name.clone(), ..Node::default() }
}

fn check(def: &ListDef, node: &FlatNode, like: &Node) -> Result<()> {
    if node.version < def.since {
        let (name, op, version) = (&node.name, &node.op, node.version);
        let cause = format!("node '{name}': operator {op} version {version} is not supported");
        return Err(Diagnostic::new(Code::UnknownOperator, cause).hint("Export the model with a newer operator set"));
    }
    let names = like.attributes.keys().map(String::as_str);
    attributes::check_names_of(&node.op, def.attributes, node.version, names)
        .map_err(|error| error.within(format!("node '{}'", node.name)))?;
    let (least, most) = def.inputs;
    let count = node.inputs.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    if count < least || count > most {
        let range = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        return Err(bad(like, format!("has {count} inputs, expected {range}")));
    }
    Ok(())
}

fn bad(node: &Node, cause: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::BadNode, format!("node '{}' ({}): {cause}", node.name, node.op))
}

/// The error for a sequence or an optional where a tensor is needed: `what` begins the sentence.
pub(super) fn not_a_tensor(what: &str) -> Diagnostic {
    Diagnostic::new(
        Code::UnknownOperator,
        format!("{what} is a sequence or an optional, which is supported within a graph only"),
    )
    .hint(REMEDY)
}

const REMEDY: &str =
    "Sequences are supported where the model fixes how many elements they have and which of them it reads";

/// The error for what only a run would know.
fn open(node: &Node, cause: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::new(Code::UnknownOperator, format!("node '{}' ({}): {cause}", node.name, node.op)).hint(REMEDY)
}

/// Makes the value of one node.
struct Maker<'a, 'b> {
    builder: &'a mut Builder<'b>,
    node: &'a Node,
    inputs: Vec<&'a str>,
}

impl Maker<'_, '_> {
    fn make(mut self) -> Result<Made> {
        Ok(match self.node.op.as_str() {
            "SequenceEmpty" => Made::List(List::Of(Vec::new())),
            "SequenceConstruct" => {
                Made::List(List::Of((0..self.inputs.len()).map(|index| self.tensor(index)).collect::<Result<_>>()?))
            }
            "SequenceInsert" => Made::List(self.insert()?),
            "SequenceErase" => Made::List(self.erase()?),
            "SequenceAt" => Made::Tensor(self.at()?),
            "SequenceLength" => Made::Tensor(self.length()?),
            "ConcatFromSequence" => Made::Tensor(self.concat()?),
            "SplitToSequence" => Made::List(self.split()?),
            "OptionalHasElement" => {
                let there = self.name(0).is_some_and(|name| self.builder.list(name) != Some(&List::Nothing));
                Made::Tensor(self.builder.scalar(&self.node.name, "there", DType::Bool, &[u8::from(there)]))
            }
            // An optional is what it holds.
            _ => self.element()?,
        })
    }

    /// The name of an input, if it is there.
    fn name(&self, index: usize) -> Option<&str> {
        self.inputs.get(index).copied().filter(|name| !name.is_empty())
    }

    fn tensor(&self, index: usize) -> Result<ValueId> {
        let absent = || bad(self.node, format!("input {index} is absent, but the operator needs it"));
        let name = self.name(index).ok_or_else(absent)?;
        let other = || bad(self.node, format!("its input '{name}' is a sequence or an optional, expected a tensor"));
        self.builder.named(name).ok_or_else(other)
    }

    fn list(&self) -> Result<List> {
        let name = self.name(0).unwrap_or_default();
        let other = || bad(self.node, format!("its input '{name}' is not a sequence"));
        self.builder.list(name).cloned().filter(|list| *list != List::Nothing).ok_or_else(other)
    }

    fn elements(&self) -> Result<Vec<ValueId>> {
        match self.list()? {
            List::Of(elements) => Ok(elements),
            _ => Err(open(self.node, "how many elements the sequence has is known only at run time")),
        }
    }

    /// A position in a list of that many: input 1 or 2, which may count from the end.
    fn position(&self, index: usize, count: usize) -> Result<usize> {
        let id = self.tensor(index)?;
        let known = self.builder.known_ints(Some(id)).and_then(|values| values.first().copied());
        let position = known.ok_or_else(|| open(self.node, "its position is known only at run time"))?;
        let from_front = if position < 0 { position.saturating_add_unsigned(count as u64) } else { position };
        usize::try_from(from_front)
            .ok()
            .filter(|&found| found < count)
            .ok_or_else(|| bad(self.node, format!("position {position} is out of range for a sequence of {count}")))
    }

    fn insert(&self) -> Result<List> {
        let (mut elements, tensor) = (self.elements()?, self.tensor(1)?);
        // Behind the last one is a place as well.
        let at = match self.name(2) {
            Some(_) => self.place(elements.len())?,
            None => elements.len(),
        };
        elements.insert(at, tensor);
        Ok(List::Of(elements))
    }

    /// A place between the elements: from `-count` to `count`.
    fn place(&self, count: usize) -> Result<usize> {
        let known = self.builder.known_ints(Some(self.tensor(2)?)).and_then(|values| values.first().copied());
        if known == i64::try_from(count).ok() { Ok(count) } else { self.position(2, count) }
    }

    fn erase(&self) -> Result<List> {
        let mut elements = self.elements()?;
        if elements.is_empty() {
            return Err(bad(self.node, "the sequence is empty"));
        }
        let at = if self.name(1).is_some() { self.position(1, elements.len())? } else { elements.len() - 1 };
        elements.remove(at);
        Ok(List::Of(elements))
    }

    fn at(&mut self) -> Result<ValueId> {
        let (of, axis, keeps_axis) = match self.list()? {
            List::Slices { of, axis, keeps_axis } => (of, axis, keeps_axis),
            _ => {
                let elements = self.elements()?;
                if elements.is_empty() {
                    return Err(bad(self.node, "the sequence is empty"));
                }
                return Ok(elements[self.position(1, elements.len())?]);
            }
        };
        let mut position = self.tensor(1)?;
        if keeps_axis {
            let one = self.builder.ints(self.node, "one", &[1]);
            position = self.builder.emit(self.node, "Reshape", vec![Some(position), Some(one)], &[]);
        }
        let axis = [("axis", Attribute::Int(axis))];
        Ok(self.builder.emit(self.node, "Gather", vec![Some(of), Some(position)], &axis))
    }

    fn length(&mut self) -> Result<ValueId> {
        let (of, axis) = match self.list()? {
            List::Slices { of, axis, .. } => (of, axis),
            _ => {
                let count = self.elements()?.len() as i64;
                return Ok(self.builder.scalar(&self.node.name, "length", DType::I64, &count.to_le_bytes()));
            }
        };
        let shape = self.builder.emit(self.node, "Shape", vec![Some(of)], &[]);
        let axis = self.builder.scalar(&self.node.name, "axis", DType::I64, &axis.to_le_bytes());
        Ok(self.builder.emit(self.node, "Gather", vec![Some(shape), Some(axis)], &[]))
    }

    fn concat(&mut self) -> Result<ValueId> {
        let Some(&Attribute::Int(along)) = self.node.attributes.get("axis") else {
            return Err(bad(self.node, "attribute 'axis' is missing"));
        };
        let new_axis = self.node.int("new_axis", 0);
        if let List::Slices { of, axis, keeps_axis } = self.list()? {
            // What was cut is put together as it was.
            return match axis == along && keeps_axis == (new_axis == 0) {
                true => Ok(of),
                false => Err(open(self.node, "slices of a tensor are put together along another axis")),
            };
        }
        let mut elements = self.elements()?;
        if elements.is_empty() {
            return Err(bad(self.node, "the sequence is empty"));
        }
        if new_axis != 0 {
            let axes = self.builder.ints(self.node, "axes", &[along]);
            for element in &mut elements {
                *element = self.builder.emit(self.node, "Unsqueeze", vec![Some(*element), Some(axes)], &[]);
            }
        }
        let axis = [("axis", Attribute::Int(along))];
        Ok(self.builder.emit(self.node, "Concat", elements.into_iter().map(Some).collect(), &axis))
    }

    fn split(&mut self) -> Result<List> {
        let (of, axis) = (self.tensor(0)?, self.node.int("axis", 0));
        if self.name(1).is_none() {
            return Ok(List::Slices { of, axis, keeps_axis: self.node.int("keepdims", 1) != 0 });
        }
        let sizes = self.tensor(1)?;
        let unknown = || open(self.node, "the sizes of its parts are known only at run time");
        let known = self.builder.known_ints(Some(sizes)).ok_or_else(unknown)?;
        if self.builder.rank(Some(sizes)) == Some(0) {
            return match known[..] {
                [1] => Ok(List::Slices { of, axis, keeps_axis: true }),
                _ => Err(open(
                    self.node,
                    "how many parts of that size there are is known only with the shape of its input",
                )),
            };
        }
        let axis = [("axis", Attribute::Int(axis))];
        let sizes = self.builder.ints(self.node, "sizes", &known);
        Ok(List::Of(self.builder.emit_many(self.node, "Split", vec![Some(of), Some(sizes)], &axis, known.len())))
    }

    fn element(&self) -> Result<Made> {
        let Some(name) = self.name(0) else { return Ok(Made::List(List::Nothing)) };
        match self.builder.list(name) {
            Some(List::Nothing) if self.node.op == "OptionalGetElement" => {
                Err(bad(self.node, format!("the optional '{name}' has no element")))
            }
            Some(list) => Ok(Made::List(list.clone())),
            None => self.tensor(0).map(Made::Tensor),
        }
    }
}
