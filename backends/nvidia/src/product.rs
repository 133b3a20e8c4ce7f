//! A fused GEMM: a product of matrices with its epilogue, which is a bias, a residual and an activation.

use byoc_plugin_api::{DType, Dim};
use serde::{Deserialize, Serialize};

/// `y = activation(alpha * x w + beta * c + bias)`, for each matrix of a batch. `S` is the source of operands: values of
/// a region while it is matched, inputs and constants in the code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Product<S> {
    /// The node that multiplies; for messages.
    pub node: String,
    /// The type of operands and result. A bias may have another one.
    pub dtype: DType,
    /// M x K.
    pub x: Factor<S>,
    /// K x N.
    pub w: Factor<S>,
    /// Factor of the product.
    pub alpha: f32,
    /// The residual, with as many elements as the result, in the same order.
    pub c: Option<Scaled<S>>,
    /// N elements, added to each row.
    pub bias: Option<S>,
    /// The activation.
    pub activation: Activation,
    /// The shape of the result.
    pub y: Vec<Dim>,
}

/// An operand that is multiplied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor<S> {
    /// The tensor.
    pub from: S,
    /// The shape of the tensor.
    pub shape: Vec<Dim>,
    /// How it is viewed as matrices.
    pub read: MatrixView,
}

/// A tensor that is scaled and added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled<S> {
    /// The tensor.
    pub from: S,
    /// Its factor.
    pub beta: f32,
}

/// How a tensor is viewed as a batch of matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatrixView {
    /// The last two dimensions are rows and columns.
    Matrix,
    /// The last two dimensions are columns and rows.
    Transposed,
    /// One dimension: a matrix of one row.
    Row,
    /// One dimension: a matrix of one column.
    Column,
    /// The first two dimensions are rows and columns, all others are 1.
    Filter,
    /// The second dimension is rows, all later ones together are columns.
    Pixels,
}

/// The activation of each element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Nothing.
    None,
    /// `max(x, 0)`.
    Relu,
    /// GELU in the form with erf.
    Gelu,
    /// GELU in the form with tanh.
    GeluTanh,
    /// `x` times its sigmoid.
    Silu,
}

impl<S> Product<S> {
    /// The number of columns of W, if it is known and can be counted.
    pub fn n(&self) -> Option<usize> {
        self.w.columns().iter().try_fold(1usize, |n, dim| n.checked_mul(dim.fixed()?))
    }

    /// The same product with other sources of operands.
    pub fn with<T, E>(&self, mut source: impl FnMut(&S) -> Result<T, E>) -> Result<Product<T>, E> {
        let mut factor = |factor: &Factor<S>| -> Result<Factor<T>, E> {
            Ok(Factor { from: source(&factor.from)?, shape: factor.shape.clone(), read: factor.read })
        };
        let (x, w) = (factor(&self.x)?, factor(&self.w)?);
        let c = self.c.as_ref().map(|c| Ok(Scaled { from: source(&c.from)?, beta: c.beta })).transpose()?;
        let bias = self.bias.as_ref().map(source).transpose()?;
        let (node, y) = (self.node.clone(), self.y.clone());
        let Product { dtype, alpha, activation, .. } = *self;
        Ok(Product { node, dtype, x, w, alpha, c, bias, activation, y })
    }
}

impl<S> Factor<S> {
    /// The dimensions of the columns: several if they are merged, and none if the rank is too low.
    fn columns(&self) -> &[Dim] {
        let rank = self.shape.len();
        let range = match self.read {
            MatrixView::Matrix => rank.saturating_sub(1)..rank,
            MatrixView::Transposed => rank.saturating_sub(2)..rank.saturating_sub(1),
            MatrixView::Row => 0..1,
            MatrixView::Column => 0..0,
            MatrixView::Filter => 1..2,
            MatrixView::Pixels => 2..rank,
        };
        self.shape.get(range).unwrap_or_default()
    }
}

impl MatrixView {
    /// The lowest rank.
    pub fn least_rank(self) -> usize {
        match self {
            MatrixView::Row | MatrixView::Column => 1,
            _ => 2,
        }
    }
}
