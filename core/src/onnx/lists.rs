//! Sequences and optionals whose contents the model fixes: the graph has their elements, and no value for themselves. What a
//! position, a length or an element is, is known here, but for a tensor that is cut into slices of one, which may be as many
//! as there are. What only a run knows is a value of the graph, and its nodes stay.

use byoc_plugin_api::{Attribute, DType};

use super::builder::{Builder, List};
use super::flatten::FlatNode;
use super::list_type;
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::ir::{ListType, Node, ValueId};
use crate::ops::attributes;
use crate::ops::lists::{self, ListDef};

/// What an operator makes.
enum Made {
    Tensor(ValueId),
    List(List),
    /// What only a run knows: the node stays.
    Open,
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
    let declared = declared_type(&mut node)?;
    let mut like = read(&mut node)?;
    if let Some(def) = lists::find(&node.domain, &node.op) {
        check(def, &node, &like)?;
    }
    like.attributes.extend(declared.map(|declared| ("type".into(), Attribute::String(declared))));
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
        Made::Open => {
            let mut values = node.inputs.iter().map(|name| input(builder, &like, name)).collect::<Result<Vec<_>>>()?;
            while let Some(None) = values.last() {
                values.pop();
            }
            let output = Some(builder.add_value(output, None));
            builder.push(Node { inputs: values, outputs: vec![output], ..like });
        }
    }
    Ok(())
}

/// The type of an `Optional` that may hold nothing, as text; its attribute is taken from the node.
fn declared_type(node: &mut FlatNode) -> Result<Option<String>> {
    let place = node.attributes.iter().position(|attribute| attribute.name.as_deref() == Some("type"));
    let Some(place) = place.filter(|_| node.op == "Optional") else { return Ok(None) };
    let ty = node.attributes.remove(place).tp;
    // What it holds has a type of its own.
    if node.inputs.first().is_some_and(|name| !name.is_empty()) {
        return Ok(None);
    }
    let what = format!("node '{}': attribute 'type'", node.name);
    Ok(match list_type::read(&what, ty.as_ref())? {
        Some(list) => Some(ListType { optional: true, ..list }),
        None => list_type::tensor(&what, ty.as_ref())?,
    }
    .map(|list| list.to_string()))
}

/// The value of an input of a node that stays; a list whose contents are fixed becomes one.
fn input(builder: &mut Builder<'_>, node: &Node, name: &str) -> Result<Option<ValueId>> {
    if name.is_empty() {
        return Ok(None);
    }
    let value = builder.named(name).or_else(|| builder.list_value(name));
    value.map(Some).ok_or_else(|| bad(node, format!("nothing defines its input '{name}'")))
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
    Diagnostic::new(Code::TypeMismatch, format!("{what} is a sequence or an optional, expected a tensor"))
}

/// Makes the value of one node.
struct Maker<'a, 'b> {
    builder: &'a mut Builder<'b>,
    node: &'a Node,
    inputs: Vec<&'a str>,
}

impl Maker<'_, '_> {
    fn make(mut self) -> Result<Made> {
        let fixed = match self.node.op.as_str() {
            "SequenceEmpty" => Some(Made::List(List::Of(Vec::new(), Some(self.node.int("dtype", 1))))),
            "SequenceConstruct" => {
                let elements = (0..self.inputs.len()).map(|index| self.tensor(index)).collect::<Result<_>>()?;
                Some(Made::List(List::Of(elements, None)))
            }
            "SequenceInsert" => self.insert()?.map(Made::List),
            "SequenceErase" => self.erase()?.map(Made::List),
            "SequenceAt" => self.at()?.map(Made::Tensor),
            "SequenceLength" => self.length()?.map(Made::Tensor),
            "ConcatFromSequence" => self.concat()?.map(Made::Tensor),
            "SplitToSequence" => self.split()?.map(Made::List),
            "OptionalHasElement" => self.has_element().map(Made::Tensor),
            "OptionalGetElement" => self.get_element()?,
            "Optional" => self.optional(),
            // A second name.
            _ => self.list().map(Made::List),
        };
        Ok(fixed.unwrap_or(Made::Open))
    }

    /// The name of an input, if it is there.
    fn name(&self, index: usize) -> Option<&str> {
        self.inputs.get(index).copied().filter(|name| !name.is_empty())
    }

    fn tensor(&self, index: usize) -> Result<ValueId> {
        let absent = || bad(self.node, format!("input {index} is absent, but the operator needs it"));
        let name = self.name(index).ok_or_else(absent)?;
        let other = || bad(self.node, format!("its input '{name}' is a sequence or an optional, expected a tensor"));
        self.builder.named(name).filter(|&id| self.builder.holds(id).is_none()).ok_or_else(other)
    }

    /// The list at input 0, where the model fixes what is in it.
    fn list(&self) -> Option<List> {
        self.builder.list(self.name(0)?).cloned()
    }

    /// The sequence at input 0, where the model fixes what is in it.
    fn sequence(&self) -> Result<Option<List>> {
        let name = self.name(0).unwrap_or_default();
        let other = || bad(self.node, format!("its input '{name}' is not a sequence"));
        match self.list() {
            Some(List::Nothing(_) | List::Held(_)) => Err(other()),
            Some(list) => Ok(Some(list)),
            // A value: it has a type later.
            None if self.builder.named(name).is_some_and(|id| self.builder.holds(id).is_some()) => Ok(None),
            None => Err(other()),
        }
    }

    /// The elements of the sequence at input 0, with its element type where it says that.
    fn elements(&self) -> Result<Option<(Vec<ValueId>, Option<i64>)>> {
        Ok(match self.sequence()? {
            Some(List::Of(elements, dtype)) => Some((elements, dtype)),
            _ => None,
        })
    }

    fn known_position(&self, index: usize) -> Result<Option<i64>> {
        let id = self.tensor(index)?;
        Ok(self.builder.known_ints(Some(id)).and_then(|values| values.first().copied()))
    }

    /// A position in a list of that many: input 1 or 2, which may count from the end.
    fn position(&self, index: usize, count: usize) -> Result<Option<usize>> {
        let Some(position) = self.known_position(index)? else { return Ok(None) };
        let from_front = if position < 0 { position.saturating_add_unsigned(count as u64) } else { position };
        let found = usize::try_from(from_front).ok().filter(|&found| found < count);
        let beyond = || bad(self.node, format!("position {position} is out of range for a sequence of {count}"));
        found.map(Some).ok_or_else(beyond)
    }

    fn insert(&self) -> Result<Option<List>> {
        let tensor = self.tensor(1)?;
        let Some((mut elements, dtype)) = self.elements()? else { return Ok(None) };
        // Behind the last one is a place as well.
        let at = match self.name(2) {
            Some(_) => self.place(elements.len())?,
            None => Some(elements.len()),
        };
        let Some(at) = at else { return Ok(None) };
        elements.insert(at, tensor);
        Ok(Some(List::Of(elements, dtype)))
    }

    /// A place between the elements: from `-count` to `count`.
    fn place(&self, count: usize) -> Result<Option<usize>> {
        match self.known_position(2)? {
            Some(known) if i64::try_from(count) == Ok(known) => Ok(Some(count)),
            _ => self.position(2, count),
        }
    }

    fn erase(&self) -> Result<Option<List>> {
        let Some((mut elements, dtype)) = self.elements()? else { return Ok(None) };
        if elements.is_empty() {
            return Err(bad(self.node, "the sequence is empty"));
        }
        // The type of what is empty is that of what it held.
        if elements.len() == 1 && dtype.is_none() {
            return Ok(None);
        }
        let at = if self.name(1).is_some() { self.position(1, elements.len())? } else { Some(elements.len() - 1) };
        let Some(at) = at else { return Ok(None) };
        elements.remove(at);
        Ok(Some(List::Of(elements, dtype)))
    }

    fn at(&mut self) -> Result<Option<ValueId>> {
        let (of, axis, keeps_axis) = match self.sequence()? {
            Some(List::Slices { of, axis, keeps_axis }) => (of, axis, keeps_axis),
            _ => {
                let Some((elements, _)) = self.elements()? else { return Ok(None) };
                if elements.is_empty() {
                    return Err(bad(self.node, "the sequence is empty"));
                }
                return Ok(self.position(1, elements.len())?.map(|at| elements[at]));
            }
        };
        let mut position = self.tensor(1)?;
        if keeps_axis {
            let one = self.builder.ints(self.node, "one", &[1]);
            position = self.builder.emit(self.node, "Reshape", vec![Some(position), Some(one)], &[]);
        }
        let axis = [("axis", Attribute::Int(axis))];
        Ok(Some(self.builder.emit(self.node, "Gather", vec![Some(of), Some(position)], &axis)))
    }

    fn length(&mut self) -> Result<Option<ValueId>> {
        let (of, axis) = match self.sequence()? {
            Some(List::Slices { of, axis, .. }) => (of, axis),
            _ => {
                let Some((elements, _)) = self.elements()? else { return Ok(None) };
                let count = (elements.len() as i64).to_le_bytes();
                return Ok(Some(self.builder.scalar(&self.node.name, "length", DType::I64, &count)));
            }
        };
        let shape = self.builder.emit(self.node, "Shape", vec![Some(of)], &[]);
        let axis = self.builder.scalar(&self.node.name, "axis", DType::I64, &axis.to_le_bytes());
        Ok(Some(self.builder.emit(self.node, "Gather", vec![Some(shape), Some(axis)], &[])))
    }

    fn concat(&mut self) -> Result<Option<ValueId>> {
        let Some(&Attribute::Int(along)) = self.node.attributes.get("axis") else {
            return Err(bad(self.node, "attribute 'axis' is missing"));
        };
        let new_axis = self.node.int("new_axis", 0);
        if let Some(List::Slices { of, axis, keeps_axis }) = self.sequence()? {
            // What was cut is put together as it was.
            return Ok((axis == along && keeps_axis == (new_axis == 0)).then_some(of));
        }
        let Some((mut elements, _)) = self.elements()? else { return Ok(None) };
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
        Ok(Some(self.builder.emit(self.node, "Concat", elements.into_iter().map(Some).collect(), &axis)))
    }

    fn split(&mut self) -> Result<Option<List>> {
        let (of, axis) = (self.tensor(0)?, self.node.int("axis", 0));
        if self.name(1).is_none() {
            return Ok(Some(List::Slices { of, axis, keeps_axis: self.node.int("keepdims", 1) != 0 }));
        }
        let sizes = self.tensor(1)?;
        let known = self.builder.known_ints(Some(sizes)).filter(|known| !known.is_empty());
        let Some(known) = known else { return Ok(None) };
        if self.builder.rank(Some(sizes)) == Some(0) {
            return Ok((known[..] == [1]).then_some(List::Slices { of, axis, keeps_axis: true }));
        }
        let axis = [("axis", Attribute::Int(axis))];
        let sizes = self.builder.ints(self.node, "sizes", &known);
        let parts = self.builder.emit_many(self.node, "Split", vec![Some(of), Some(sizes)], &axis, known.len());
        Ok(Some(List::Of(parts, None)))
    }

    /// The value at input 0, if it is a tensor.
    fn plain(&self) -> Option<ValueId> {
        self.builder.named(self.name(0)?).filter(|&id| self.builder.holds(id).is_none())
    }

    fn has_element(&mut self) -> Option<ValueId> {
        let there = match self.list() {
            Some(list) => !matches!(list, List::Nothing(_)),
            None if self.name(0).is_none() => false,
            None => self.plain().map(|_| true)?,
        };
        Some(self.builder.scalar(&self.node.name, "there", DType::Bool, &[u8::from(there)]))
    }

    fn get_element(&self) -> Result<Option<Made>> {
        Ok(match self.list() {
            Some(List::Nothing(_)) => {
                let name = self.name(0).unwrap_or_default();
                return Err(bad(self.node, format!("the optional '{name}' has no element")));
            }
            Some(List::Held(id)) => Some(Made::Tensor(id)),
            Some(list) => Some(Made::List(list)),
            None => self.plain().map(Made::Tensor),
        })
    }

    fn optional(&self) -> Option<Made> {
        let made = match self.list() {
            Some(list) => list,
            None if self.name(0).is_none() => List::Nothing(self.node.string("type", "").to_owned()),
            None => List::Held(self.plain()?),
        };
        Some(Made::List(made))
    }
}
