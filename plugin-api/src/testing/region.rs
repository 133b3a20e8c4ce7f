//! Regions as core would make them, with the elements of their constants.

use std::collections::HashMap;

use fastrand::Rng;

use super::{Attributes, Tensor, Type};
use crate::dtype::DType;
use crate::region::{Attribute, Constant, ConstantId, INLINE_BYTES, Node, Region, SCHEMA, Value, to_hex};

/// A region under construction. Values are indices, as in [`Region`]; inputs are named `x0`, constants `w1`, results `y2` and
/// nodes `Add_0`, each with its number. Nothing is inferred: every result is given its type.
#[derive(Clone, Debug)]
pub struct RegionBuilder {
    /// What was built so far.
    pub region: Region,
    /// The constants, in the order of [`Region::constants`].
    pub constants: Vec<Tensor>,
    /// What random constants are made of.
    pub random: Rng,
    pub(super) dtype: DType,
}

impl RegionBuilder {
    /// An empty region for a backend of that name. Types without elements are of `f32`.
    pub fn new(backend: &str) -> RegionBuilder {
        RegionBuilder::of(backend, DType::F32)
    }

    /// An empty region, in which types that name no elements have these.
    pub fn of(backend: &str, dtype: DType) -> RegionBuilder {
        let region = Region { schema: SCHEMA.into(), symbol: format!("byoc_test_{backend}_0"), ..Region::default() };
        RegionBuilder { region, constants: Vec::new(), random: Rng::with_seed(1), dtype }
    }

    /// A value that nothing gives yet.
    fn value(&mut self, name: &str, ty: impl Into<Type>) -> usize {
        let Type { dtype, shape } = ty.into();
        let name = format!("{name}{}", self.region.values.len());
        self.region.values.push(Value { name, dtype: dtype.unwrap_or(self.dtype), shape });
        self.region.values.len() - 1
    }

    /// An input.
    #[track_caller]
    pub fn input(&mut self, ty: impl Into<Type>) -> usize {
        let value = self.value("x", ty);
        self.region.inputs.push(value);
        value
    }

    /// A constant of these elements.
    pub fn constant(&mut self, tensor: Tensor) -> usize {
        let value = self.value("w", (tensor.dtype(), tensor.sizes()));
        // Ids that are not indices: nothing may take them for any.
        let id = ConstantId(10 + 3 * self.constants.len() as u64);
        self.region.constants.push(Constant { id, value, inline: inline(&tensor), shared: false });
        self.constants.push(tensor);
        value
    }

    /// Gives the constant of that position other elements.
    pub fn refill(&mut self, constant: usize, tensor: Tensor) {
        self.region.constants[constant].inline = inline(&tensor);
        self.constants[constant] = tensor;
    }

    /// A constant of these numbers.
    #[track_caller]
    pub fn numbers(&mut self, ty: impl Into<Type>, numbers: &[f64]) -> usize {
        let ty = ty.into();
        self.constant(Tensor::new((ty.dtype.unwrap_or(self.dtype), ty.shape), numbers))
    }

    /// A constant that is one number.
    pub fn number(&mut self, number: f64) -> usize {
        self.numbers("[]", &[number])
    }

    /// A constant that is a list of integers: a shape, axes.
    pub fn ints(&mut self, values: &[i64]) -> usize {
        self.constant(Tensor::of([values.len()], values))
    }

    /// A constant of random numbers from -1 to 1.
    #[track_caller]
    pub fn weight(&mut self, ty: impl Into<Type>) -> usize {
        self.drawn(ty, -1.0..1.0)
    }

    /// A node with one result.
    #[track_caller]
    pub fn node(&mut self, op: &str, inputs: &[usize], result: impl Into<Type>, attributes: impl Attributes) -> usize {
        let inputs: Vec<_> = inputs.iter().copied().map(Some).collect();
        self.nodes(op, &inputs, &[result.into()], attributes)[0]
    }

    /// A node with several results, or with inputs that are left out.
    #[track_caller]
    pub fn nodes(
        &mut self,
        op: &str,
        inputs: &[Option<usize>],
        results: &[Type],
        attributes: impl Attributes,
    ) -> Vec<usize> {
        let outputs: Vec<_> = results.iter().map(|result| self.value("y", result.clone())).collect();
        self.region.nodes.push(Node {
            name: format!("{op}_{}", self.region.nodes.len()),
            op: op.into(),
            inputs: inputs.to_vec(),
            outputs: outputs.iter().copied().map(Some).collect(),
            attributes: attributes.named(),
            ..Node::default()
        });
        outputs
    }

    /// A node of one input, or of more, whose result has the type of the first one.
    pub fn like(&mut self, op: &str, inputs: &[usize], attributes: impl Attributes) -> usize {
        let ty = self.ty(inputs[0]);
        self.node(op, inputs, ty, attributes)
    }

    /// Makes a value an output.
    pub fn output(&mut self, value: usize) {
        self.region.outputs.push(value);
    }

    /// The region with these outputs, whose indices are checked.
    #[track_caller]
    pub fn with(mut self, outputs: &[usize]) -> RegionBuilder {
        self.region.outputs = outputs.to_vec();
        self.region.validate().unwrap_or_else(|error| panic!("{}", error.message));
        self
    }

    /// The type of a value.
    pub fn ty(&self, value: usize) -> Type {
        let Value { dtype, shape, .. } = &self.region.values[value];
        Type { dtype: Some(*dtype), shape: shape.clone() }
    }

    /// The sizes of a value, which must be known.
    #[track_caller]
    pub fn sizes(&self, value: usize) -> Vec<usize> {
        self.ty(value).sizes()
    }

    /// The sizes of a value, with these for symbols.
    #[track_caller]
    pub fn sizes_for(&self, value: usize, symbols: &[(&str, usize)]) -> Vec<usize> {
        let symbols: HashMap<_, _> = symbols.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        let value = &self.region.values[value];
        byoc_dim::eval_shape(&value.shape, &symbols).unwrap_or_else(|error| panic!("'{}': {error}", value.name))
    }

    /// Random inputs from -1 to 1, the same for the same seed.
    pub fn inputs(&self, seed: u64, symbols: &[(&str, usize)]) -> Vec<Tensor> {
        let mut random = Rng::with_seed(seed);
        let inputs = self.region.inputs.iter();
        let ty = |value: usize| (self.region.values[value].dtype, self.sizes_for(value, symbols));
        inputs.map(|&value| Tensor::random(ty(value), -1.0..1.0, &mut random)).collect()
    }

    /// The same region with `f64` in place of every type of floats: what a reference computes exactly.
    pub fn in_f64(&self) -> RegionBuilder {
        let mut wide = self.clone();
        for value in wide.region.values.iter_mut().filter(|value| value.dtype.is_float()) {
            value.dtype = DType::F64;
        }
        for constant in 0..wide.constants.len() {
            let dtype = wide.region.values[wide.region.constants[constant].value].dtype;
            wide.refill(constant, wide.constants[constant].cast(dtype));
        }
        // A cast to another type of floats is one to this.
        for node in wide.region.nodes.iter_mut().filter(|node| node.op == "Cast") {
            let to = node.output(0).map(|output| wide.region.values[output].dtype);
            if to == Some(DType::F64) {
                node.attributes.insert("to".into(), Attribute::Int(11));
            }
        }
        wide
    }
}

/// The bytes of a small constant as they stand in the region.
fn inline(tensor: &Tensor) -> Option<String> {
    Some(tensor.bytes()).filter(|bytes| bytes.len() <= INLINE_BYTES).map(|bytes| to_hex(&bytes))
}
