//! Lowers a region to the fusion IR (`ir.rs`). Structural constants such as axes are read here; no element of another
//! constant is.

mod elements;
mod moves;
mod rows;
mod standalone;

use std::collections::{BTreeMap, BTreeSet};

use byoc_nvidia::program::{self, BufferRef, is_dense};
use byoc_plugin_api::{Constants, DType, Dim, Node, Refusal, RefusalCode, Region, contiguous_strides};

use crate::ir::{Def, Id, Move, Value};
use crate::kernels;
pub(crate) use standalone::Call;

/// The IR of a region.
#[derive(Debug, Default)]
pub(crate) struct IrGraph {
    /// The values, operands first.
    pub(crate) values: Vec<Value>,
    /// The outputs of the region.
    pub(crate) outputs: Vec<Id>,
    /// The constants that may be read, in the order of their indices.
    pub(crate) constants: Vec<program::Constant>,
    /// Constants of the region whose elements are in the code.
    pub(crate) decided: BTreeSet<usize>,
    /// The calls of standalone kernels.
    pub(crate) calls: Vec<Call>,
    /// The IR value of a value of the region.
    pub(crate) known: BTreeMap<usize, Id>,
}

/// The state of lowering.
pub(crate) struct Lowering<'a> {
    pub(crate) region: &'a Region,
    constants: Option<&'a Constants<'a>>,
    graph: IrGraph,
    /// The node that is lowered.
    current: usize,
}

/// Lowers a region; without constants for `check`, which only needs to know whether it is possible.
///
/// # Errors
///
/// When a node is not supported, with the reason.
pub(crate) fn lower(region: &Region, constants: Option<&Constants<'_>>) -> Result<IrGraph, Refusal> {
    let mut lowering = Lowering { region, constants, graph: IrGraph::default(), current: 0 };
    for (position, &input) in region.inputs.iter().enumerate() {
        let value = &region.values[input];
        let id = lowering.push(value.dtype, value.shape.clone(), Def::Input(position));
        lowering.graph.known.insert(input, id);
    }
    let standalones = kernels::find(region)?;
    for (index, node) in region.nodes.iter().enumerate() {
        lowering.current = index;
        let done = match standalones.iter().find(|kernel| kernel.nodes.contains(&index)) {
            None => lowering.node(node),
            Some(kernel) if kernel.nodes.last() == Some(&index) => lowering.standalone(kernel),
            Some(_) => Ok(()),
        };
        done.map_err(|refusal| at(&node.name, refusal))?;
    }
    for &output in &region.outputs {
        let id = lowering.value(output)?;
        lowering.graph.outputs.push(id);
    }
    Ok(lowering.graph)
}

pub(crate) fn at(node: &str, refusal: Refusal) -> Refusal {
    Refusal { message: format!("'{node}': {}", refusal.message), ..refusal }
}

pub(crate) fn refused(code: RefusalCode, message: impl Into<String>) -> Refusal {
    Refusal::new(code, message)
}

impl Lowering<'_> {
    fn node(&mut self, node: &Node) -> Result<(), Refusal> {
        if !node.domain.is_empty() {
            let message = format!("there is no kernel for {}.{}", node.domain, node.op);
            return Err(refused(RefusalCode::Other, message));
        }
        let taken = self.elements(node)? || self.moves(node)? || self.rows(node)?;
        if taken {
            return Ok(());
        }
        Err(refused(RefusalCode::Other, format!("there is no kernel for {}", node.op)))
    }

    /// A new value.
    fn push(&mut self, dtype: DType, shape: Vec<Dim>, def: Def) -> Id {
        self.graph.values.push(Value { dtype, shape, def, node: None });
        self.graph.values.len() - 1
    }

    /// Defines the IR value of an output of a node.
    fn give(&mut self, node: &Node, output: usize, def: Def) {
        let Some(value) = node.output(output) else { return };
        let tensor = &self.region.values[value];
        let id = self.push(tensor.dtype, tensor.shape.clone(), def);
        self.graph.values[id].node = Some(self.current);
        self.graph.known.insert(value, id);
    }

    /// The IR value of a value of the region.
    fn value(&mut self, value: usize) -> Result<Id, Refusal> {
        if let Some(&id) = self.graph.known.get(&value) {
            return Ok(id);
        }
        let Some(constant) = self.region.constant(value) else {
            return Err(refused(RefusalCode::Other, format!("nothing computes value {value}")));
        };
        let tensor = &self.region.values[value];
        let Some(shape) = tensor.fixed_shape() else {
            return Err(refused(RefusalCode::Shape, "a constant without a fixed shape"));
        };
        let view = self.constants.and_then(|constants| constants.get(constant.id));
        // A constant with other strides is repacked at load.
        let sizes: Vec<_> = shape.iter().map(|&size| size as i64).collect();
        let strides = view.map(|view| view.strides().to_vec()).filter(|strides| is_dense(&sizes, strides));
        let strides = strides.unwrap_or_else(|| contiguous_strides(&sizes));
        let place = BufferRef::Constant(self.graph.constants.len());
        let (id, dtype) = (constant.id, tensor.dtype);
        self.graph.constants.push(program::Constant { id, layout: None, dtype, shape, strides: strides.clone() });
        let id = self.push(dtype, tensor.shape.clone(), Def::Memory(place, strides));
        self.graph.known.insert(value, id);
        Ok(id)
    }

    /// The operand of that index.
    fn operand(&mut self, node: &Node, input: usize) -> Result<Id, Refusal> {
        match self.optional(node, input)? {
            Some(id) => Ok(id),
            None => Err(refused(RefusalCode::Other, format!("{} needs input {input}", node.op))),
        }
    }

    /// The operand of that index, if it is there.
    fn optional(&mut self, node: &Node, input: usize) -> Result<Option<Id>, Refusal> {
        node.input(input).map(|value| self.value(value)).transpose()
    }

    /// All operands.
    fn operands(&mut self, node: &Node) -> Result<Vec<Id>, Refusal> {
        node.inputs.iter().flatten().map(|&value| self.value(value)).collect()
    }

    fn dtype(&self, id: Id) -> DType {
        self.graph.values[id].dtype
    }

    fn shape(&self, id: Id) -> Vec<Dim> {
        self.graph.values[id].shape.clone()
    }

    /// The integers of a structural input; `None` if the input is absent.
    fn ints(&mut self, node: &Node, input: usize, what: &str) -> Result<Option<Vec<i64>>, Refusal> {
        let Some(value) = node.input(input) else { return Ok(None) };
        let Some(ints) = self.region.constant_ints(value) else {
            let message = format!("its {what} are not constant");
            return Err(refused(RefusalCode::Attribute, message));
        };
        self.graph.decided.insert(value);
        Ok(Some(ints))
    }

    /// Notes a structural input whose content the shape of the output has.
    fn in_shape(&mut self, node: &Node, input: usize) {
        if let Some(value) = node.input(input).filter(|&value| self.region.constant(value).is_some()) {
            self.graph.decided.insert(value);
        }
    }

    /// Reshapes one element to a scalar.
    fn scalar(&mut self, id: Id) -> Id {
        self.push(self.dtype(id), Vec::new(), Def::Move(Move::Reshape, vec![id]))
    }

    /// An axis, which counts from the end if negative.
    fn axis(&self, value: i64, rank: usize) -> Result<usize, Refusal> {
        let front = if value < 0 { value + rank as i64 } else { value };
        usize::try_from(front)
            .ok()
            .filter(|&axis| axis < rank)
            .ok_or_else(|| refused(RefusalCode::Attribute, format!("there is no axis {value} of {rank}")))
    }
}
