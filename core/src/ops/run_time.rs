//! Outputs whose sizes depend on the elements of an input that is known only at run time: their element type, their rank, and
//! the sizes that are known all the same. The others get symbols of their own, which are bound when the node has run.

use byoc_plugin_api::{DType, Dim};

use super::infer::{Infer, axes_in, mismatch};
use crate::diagnostic::{Code, Result};
use crate::dim::{self, symbols};
use crate::ir::TensorType;

/// What is known of the outputs before the node runs; `None` where not even a rank is.
pub type RunTimeRule = fn(&Infer<'_>) -> Result<Option<Vec<PartialType>>>;

/// A type of which some sizes are not known.
#[derive(Clone, Debug)]
pub struct PartialType {
    /// Element type.
    pub dtype: DType,
    /// The sizes.
    pub shape: Vec<Size>,
}

/// One size of an output.
#[derive(Clone, Debug)]
pub enum Size {
    /// As before any run.
    Known(Dim),
    /// Known only when the node has run. Equal numbers are equal sizes.
    Open(usize),
}

impl Infer<'_> {
    /// The symbol of a size that is open: of node `n`, `n_size0` and so on, or another name where an input of the graph has a
    /// symbol of that name.
    fn symbol(&self, number: usize) -> Dim {
        let mut name = format!("{}_size{number}", self.node.name);
        while self.taken.is_some_and(|taken| taken.contains(&name)) {
            name.push('_');
        }
        Dim::Symbolic(dim::Expr::symbol(&name).to_string())
    }

    /// The type with symbols for what is open.
    pub(crate) fn closed(&self, ty: PartialType) -> TensorType {
        let size = |size: Size| match size {
            Size::Known(size) => size,
            Size::Open(number) => self.symbol(number),
        };
        TensorType { dtype: ty.dtype, shape: ty.shape.into_iter().map(size).collect() }
    }

    /// The shape of two tensors broadcast against each other. Where a size that a run tells meets another one, either may turn out
    /// to be 1, so the run of this node tells which it is; of sizes that inputs tell, two names are taken for one size.
    pub(super) fn meet(&self, a: &[Dim], b: &[Dim]) -> Option<Vec<Dim>> {
        let told = |size: &Dim| {
            self.taken.is_some_and(|taken| symbols(std::slice::from_ref(size)).any(|name| !taken.contains(&name)))
        };
        let mut shape = dim::broadcast(a, b)?;
        let rank = shape.len();
        for axis in 0..a.len().min(b.len()) {
            let [x, y] = [a, b].map(|shape| &shape[shape.len() - 1 - axis]);
            if x != y && x.fixed().is_none() && y.fixed().is_none() && (told(x) || told(y)) {
                shape[rank - 1 - axis] = self.symbol(rank - 1 - axis);
            }
        }
        Some(shape)
    }

    /// Sets the outputs by what the rule knows of them; `false` where that is nothing.
    pub(super) fn apply_run_time(&mut self, rule: RunTimeRule) -> Result<bool> {
        let Some(types) = rule(self)? else { return Ok(false) };
        let count = self.outputs.len();
        self.outputs =
            types.into_iter().map(|ty| Some(self.closed(ty))).chain(std::iter::repeat(None)).take(count).collect();
        self.output_elements.fill(None);
        Ok(true)
    }

    /// One type for the only output.
    fn open(&self, dtype: DType, shape: Vec<Size>) -> Result<Option<Vec<PartialType>>> {
        Ok(Some(vec![PartialType { dtype, shape }]))
    }

    /// The number of elements of a list, if it is fixed.
    fn length(&self, index: usize) -> Result<Option<usize>> {
        let ty = self.input(index)?;
        Ok(ty.shape.iter().try_fold(1usize, |length, size| length.checked_mul(size.fixed()?)).filter(|&n| n <= MOST))
    }
}

/// More dimensions than any tensor has.
const MOST: usize = 64;

pub(super) fn all_open(rank: usize) -> Vec<Size> {
    (0..rank).map(Size::Open).collect()
}

/// As many sizes as the list has that is input `index`.
fn listed(infer: &Infer<'_>, index: usize, dtype: DType) -> Result<Option<Vec<PartialType>>> {
    match infer.length(index)? {
        Some(rank) => infer.open(dtype, all_open(rank)),
        None => Ok(None),
    }
}

/// Reshape.
pub(super) fn reshape(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    listed(infer, 1, infer.input(0)?.dtype)
}

/// ConstantOfShape.
pub(super) fn constant_of_shape(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    listed(infer, 0, super::shape::fill(infer)?.0)
}

/// Expand: the rank of both, broadcast.
pub(super) fn expand(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.input(0)?;
    match infer.length(1)? {
        Some(length) => infer.open(x.dtype, all_open(length.max(x.shape.len()))),
        None => Ok(None),
    }
}

/// The input with other sizes along these axes, or along all.
fn open_along(infer: &Infer<'_>, axes: Option<Vec<i64>>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.input(0)?;
    let rank = x.shape.len();
    let axes = axes.map_or_else(|| Ok((0..rank).collect()), |axes| axes_in(&axes, rank))?;
    let size = |(axis, size): (usize, Dim)| if axes.contains(&axis) { Size::Open(axis) } else { Size::Known(size) };
    infer.open(x.dtype, x.shape.into_iter().enumerate().map(size).collect())
}

/// The axes that an input names, where they are known.
fn known_axes(infer: &Infer<'_>, index: usize) -> Result<Option<Vec<i64>>> {
    match infer.optional_numbers(index, "axes") {
        Err(error) if error.code == Code::ShapeUnknown => Ok(None),
        axes => axes,
    }
}

/// Slice: along the axes that input 3 names, or the first ones.
pub(super) fn slice(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let axes = match infer.has(3) {
        true => known_axes(infer, 3)?,
        false => infer.length(1)?.map(|count| (0..count as i64).collect()),
    };
    open_along(infer, axes)
}

/// Pad: along the axes that input 3 names.
pub(super) fn pad(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    open_along(infer, known_axes(infer, 3)?)
}

/// Tile.
pub(super) fn tile(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    open_along(infer, None)
}

/// Resize: along the axes that it names.
pub(super) fn resize(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    open_along(infer, infer.ints("axes")?.map(<[i64]>::to_vec))
}

/// Range.
pub(super) fn range(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    infer.open(infer.input(0)?.dtype, all_open(1))
}

/// Split: the parts along the axis.
pub(super) fn split(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.input(0)?;
    let axis = infer.axis("axis", 0, x.shape.len())?;
    let count = infer.outputs.len();
    if let Some(parts) = infer.length(1)?.filter(|&parts| parts != count) {
        return Err(mismatch(format!("input 1 (split) has {parts} entries, but there are {count} outputs")));
    }
    let part = |part: usize| {
        let mut shape: Vec<Size> = x.shape.iter().cloned().map(Size::Known).collect();
        shape[axis] = Size::Open(part);
        PartialType { dtype: x.dtype, shape }
    };
    Ok(Some((0..infer.outputs.len()).map(part).collect()))
}

/// Squeeze by a list of axes.
pub(super) fn squeeze(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.input(0)?;
    let dropped = if infer.has(1) { infer.length(1)? } else { None };
    match dropped.and_then(|dropped| x.shape.len().checked_sub(dropped)) {
        Some(rank) => infer.open(x.dtype, all_open(rank)),
        None => Ok(None),
    }
}

/// Unsqueeze.
pub(super) fn unsqueeze(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.input(0)?;
    match infer.length(1)? {
        Some(added) => infer.open(x.dtype, all_open(x.shape.len() + added)),
        None => Ok(None),
    }
}

/// The reductions. Without a dimension for what is reduced, the number of axes is the number of sizes that go; no axes may
/// mean all of them.
pub(super) fn reduce(infer: &Infer<'_>) -> Result<Option<Vec<PartialType>>> {
    let x = infer.input(0)?;
    let rank = x.shape.len();
    if infer.int("keepdims", 1)? != 0 {
        return infer.open(x.dtype, all_open(rank));
    }
    match infer.length(1)? {
        Some(0) if infer.int("noop_with_empty_axes", 0)? == 0 => infer.open(x.dtype, Vec::new()),
        Some(axes) if axes <= rank => infer.open(x.dtype, all_open(rank - axes)),
        _ => Ok(None),
    }
}
