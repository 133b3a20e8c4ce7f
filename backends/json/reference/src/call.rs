//! The input of a kernel: one node, its inputs as arrays, and helpers to read attributes, axes and integer inputs.

use byoc_plugin_api::{DType, Error, Node, Texts};
use ndarray::{ArrayD, ArrayViewD};

use super::array::{Array, Item, count};

/// One call of a kernel.
pub(crate) struct Call<'n, 'a> {
    /// The node.
    pub(crate) node: &'n Node,
    inputs: Vec<Option<Array<'a>>>,
    outputs: &'n [Option<DType>],
    shape: Option<&'n [usize]>,
    /// What handles stand for.
    pub(super) table: Option<&'n dyn Texts>,
}

/// What a kernel returns: the outputs by position.
pub(crate) type Outputs = Result<Vec<Array<'static>>, Error>;

impl<'n, 'a> Call<'n, 'a> {
    /// A call with these inputs; `outputs` are the wanted types where they are known, `shape` is that of output 0, and `table` what
    /// handles of texts stand for.
    pub(crate) fn new(
        node: &'n Node,
        inputs: Vec<Option<Array<'a>>>,
        (outputs, shape): (&'n [Option<DType>], Option<&'n [usize]>),
        table: Option<&'n dyn Texts>,
    ) -> Self {
        Call { node, inputs, outputs, shape, table }
    }

    /// The input at this position.
    pub(crate) fn input(&self, index: usize) -> Result<&Array<'a>, Error> {
        self.optional(index).ok_or_else(|| Error::new(format!("{} needs input {index}", self.node.op)))
    }

    /// The input at this position, if it is there.
    pub(crate) fn optional(&self, index: usize) -> Option<&Array<'a>> {
        self.inputs.get(index)?.as_ref()
    }

    /// The inputs that are there.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Array<'a>> {
        self.inputs.iter().flatten()
    }

    /// The elements of an integer input, if it is there.
    pub(crate) fn ints(&self, index: usize) -> Option<Vec<i64>> {
        self.optional(index).map(Array::to_ints)
    }

    /// The expected type of output `index`.
    pub(crate) fn output_type(&self, index: usize) -> Option<DType> {
        self.outputs.get(index).copied().flatten()
    }

    /// Elements of an output 0 of that shape. An error where another one is wanted: attributes and constants of damaged code
    /// may ask for far more than there is room for, and it would be computed before it is compared.
    pub(crate) fn count(&self, shape: &[usize]) -> Result<usize, Error> {
        match self.shape {
            Some(wanted) if wanted != shape => {
                Err(Error::new(format!("{} computes {shape:?} for an output of {wanted:?}", self.node.op)))
            }
            Some(_) => count(shape),
            // What the run says may be more than there is room for, too.
            None => {
                let count = count(shape)?;
                let room = Vec::<u64>::new().try_reserve_exact(count);
                room.map_err(|_| Error::new(format!("a tensor of shape {shape:?} does not fit in memory")))?;
                Ok(count)
            }
        }
    }

    /// The attribute `name` as an axis of a tensor with `rank` dimensions.
    pub(crate) fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize, Error> {
        axis(self.node.int(name, default), rank)
    }

    /// One output: `values` rounded to the type of input 0.
    pub(crate) fn rounded(&self, values: ArrayD<f64>) -> Outputs {
        Ok(vec![Array::from_f64(self.input(0)?.dtype(), values)])
    }
}

/// `value` as an axis: negative ones count from the back.
pub(crate) fn axis(value: i64, rank: usize) -> Result<usize, Error> {
    let from_front = if value < 0 { value.saturating_add(rank as i64) } else { value };
    usize::try_from(from_front)
        .ok()
        .filter(|&axis| axis < rank)
        .ok_or_else(|| Error::new(format!("axis {value} of a tensor of rank {rank}")))
}

/// `values` as axes, in the given order.
pub(crate) fn axes(values: &[i64], rank: usize) -> Result<Vec<usize>, Error> {
    values.iter().map(|&value| axis(value, rank)).collect()
}

/// `value` as an index into `size` elements: negative ones count from the back.
pub(crate) fn index(value: i64, size: usize) -> Result<usize, Error> {
    let from_front = if value < 0 { value.saturating_add(size as i64) } else { value };
    usize::try_from(from_front)
        .ok()
        .filter(|&index| index < size)
        .ok_or_else(|| Error::new(format!("index {value} is out of range for {size} elements")))
}

/// `other` as an array of the same element type as `first`.
pub(crate) fn same<'b, T: Item>(_first: &ArrayViewD<'_, T>, other: &'b Array<'_>) -> Result<ArrayViewD<'b, T>, Error> {
    T::of(other).ok_or_else(|| Error::new(format!("inputs of types {} and {}", T::DTYPE, other.dtype())))
}

/// Sizes before, at and after `axis`, so that element `(o, i, n)` is at `(o * size + i) * inner + n`.
pub(crate) fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
}
