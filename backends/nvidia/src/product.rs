//! One product of matrices, with all that is done to it in the same call: a bias, a residual, an activation.

use byoc_plugin_api::{DType, Dim};
use serde::{Deserialize, Serialize};

/// `y = activation(alpha * x w + beta * c + bias)`, for each matrix of a batch. `S` is where operands come from: values of
/// a region while it is read, inputs and constants in the code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Product<S> {
    /// The node that multiplies; for messages.
    pub node: String,
    /// Of all operands and of the result; only a bias may have another one.
    pub dtype: DType,
    /// M x K.
    pub x: Factor<S>,
    /// K x N.
    pub w: Factor<S>,
    /// What the product is multiplied with.
    pub alpha: f32,
    /// What is added, of as many elements as the result and in the same order.
    pub c: Option<Scaled<S>>,
    /// N elements, added to each row.
    pub bias: Option<S>,
    /// What is done at last.
    pub activation: Activation,
    /// The shape of the result.
    pub y: Vec<Dim>,
}

/// An operand that is multiplied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Factor<S> {
    /// The tensor.
    pub from: S,
    /// Of the tensor, before it is read as matrices.
    pub shape: Vec<Dim>,
    /// How it is matrices.
    pub read: MatrixView,
}

/// A tensor that is added, and the number that it is multiplied with before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaled<S> {
    /// The tensor.
    pub from: S,
    /// The number.
    pub beta: f32,
}

/// How a tensor is a batch of matrices.
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
    /// The second dimension is rows, all behind it together are columns.
    Pixels,
}

/// What is done to each element at last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Nothing.
    None,
    /// The greater of it and 0.
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

    /// The same product of operands from elsewhere.
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
    /// The dimensions that are the columns as they are multiplied: several where they are one longer one, and none where
    /// the tensor has too few.
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
    /// The least number of dimensions.
    pub fn least_rank(self) -> usize {
        match self {
            MatrixView::Row | MatrixView::Column => 1,
            _ => 2,
        }
    }
}
