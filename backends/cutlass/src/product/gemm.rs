//! The sizes and strides of a product, on which alone its kernel depends.

use byoc_dim as dim;
use byoc_nvidia::match_product;
use byoc_nvidia::product::{Activation, Factor, MatrixView, Product};
use byoc_plugin_api::{DType, Dim, Refusal, RefusalCode, Region};
use serde::{Deserialize, Serialize};

use crate::buffers::Strides;

/// `y = activation(alpha x w + beta c + bias)`, for every matrix of a batch. Strides are in elements. M x N
/// matrices are row-major and contiguous.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gemm {
    /// The type of x, w, c and y.
    pub(crate) dtype: DType,
    /// Rows of x and y.
    pub(crate) m: Dim,
    /// Columns of w and y.
    pub(crate) n: usize,
    /// Columns of x and rows of w.
    pub(crate) k: usize,
    /// The dimensions of the batch, the outermost first.
    pub(crate) batch: Vec<Batch>,
    pub(crate) x: Matrix,
    pub(crate) w: Matrix,
    pub(crate) alpha: f32,
    /// The factor of c, if there is a c.
    pub(crate) beta: Option<f32>,
    /// The type of the bias, if there is one.
    pub(crate) bias: Option<DType>,
    pub(crate) activation: Activation,
}

/// One dimension of a batch: its size and strides. A stride of 0 broadcasts the matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) count: Dim,
    pub(crate) x: Dim,
    pub(crate) w: Dim,
    /// The stride of c as well.
    pub(crate) y: Dim,
}

/// The layout of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Matrix {
    pub(crate) order: Order,
    /// The leading dimension: the stride of rows, or of columns.
    pub(crate) distance: usize,
}

/// Row-major or column-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    Rows,
    Columns,
}

/// A size and its stride.
type Axis = (Dim, Dim);

/// A tensor as matrices.
struct Matrices {
    batch: Vec<Axis>,
    rows: Axis,
    columns: Axis,
}

impl Gemm {
    /// The sizes and strides of a product. Constants of unknown strides are assumed to be contiguous.
    pub(crate) fn of(product: &Product<usize>, region: &Region, strides: &Strides<'_>) -> Result<Gemm, Refusal> {
        let x = matrices(&product.x, strides(product.x.from))?;
        let w = matrices(&product.w, strides(product.w.from))?;
        let (n, k) = (known(&w.columns.0, "N")?, known(&w.rows.0, "K")?);
        if x.columns.0 != Dim::Fixed(k) {
            return Err(shape(format!("X has {} columns and W has {k} rows", x.columns.0)));
        }
        if let Some(bias) =
            product.bias.map(|bias| &region.values[bias]).filter(|bias| bias.shape.last() != Some(&Dim::Fixed(n)))
        {
            return Err(shape(format!("'{}' is one number, but kernels add a vector of {n}", bias.name)));
        }
        let mut gemm = Gemm {
            dtype: product.dtype,
            m: x.rows.0.clone(),
            n,
            k,
            batch: batch(&x, &w, n)?,
            x: matrix("X", &x.rows, &x.columns)?,
            w: matrix("W", &w.rows, &w.columns)?,
            alpha: product.alpha,
            beta: product.c.as_ref().map(|c| c.beta),
            bias: product.bias.map(|bias| region.values[bias].dtype),
            activation: product.activation,
        };
        gemm.join()?;
        gemm.rows_together()?;
        gemm.limits()?;
        Ok(gemm)
    }

    /// The alignment of x, w and y: elements of one access, a power of two.
    pub(crate) fn alignment(&self) -> [u32; 3] {
        let most = 16 / self.dtype.unpacked_bytes();
        let of = |sizes: &[usize], steps: &dyn Fn(&Batch) -> &Dim| {
            // An unknown stride is that of contiguous tensors: a multiple of the row.
            let steps = self.batch.iter().filter_map(|batch| steps(batch).fixed());
            let all = sizes.iter().copied().chain(steps);
            all.fold(most, |width, size| width.min(1 << size.trailing_zeros().min(4))) as u32
        };
        let along = |matrix: &Matrix, rows: usize, columns: usize| match matrix.order {
            Order::Rows => [columns, matrix.distance],
            Order::Columns => [rows, matrix.distance],
        };
        // A column-major x needs a known M.
        let m = self.m.fixed().unwrap_or_default();
        [
            of(&along(&self.x, m, self.k), &|batch| &batch.x),
            of(&along(&self.w, self.k, self.n), &|batch| &batch.w),
            of(&[self.n], &|batch| &batch.y),
        ]
    }

    /// Drops dimensions of size 1, and merges those that are contiguous in all operands.
    fn join(&mut self) -> Result<(), Refusal> {
        let mut joined: Vec<Batch> = Vec::with_capacity(self.batch.len());
        for inner in self.batch.drain(..).filter(|batch| batch.count != Dim::Fixed(1)) {
            let continues = |outer: &Dim, step: &Dim| dim::mul(step, &inner.count).is_ok_and(|all| all == *outer);
            let last = joined.last_mut().filter(|outer| {
                continues(&outer.x, &inner.x) && continues(&outer.w, &inner.w) && continues(&outer.y, &inner.y)
            });
            match last {
                Some(outer) => *outer = Batch { count: size(dim::mul(&outer.count, &inner.count))?, ..inner },
                None => joined.push(inner),
            }
        }
        self.batch = joined;
        Ok(())
    }

    /// Merges the innermost batch dimension into the rows, if it broadcasts w and the rows of x and y continue from one matrix
    /// to the next.
    fn rows_together(&mut self) -> Result<(), Refusal> {
        let Some(inner) = self.batch.last() else { return Ok(()) };
        let continues = |row: usize, step: &Dim| dim::mul(&Dim::Fixed(row), &self.m).is_ok_and(|all| all == *step);
        let same = inner.w == Dim::Fixed(0) && self.x.order == Order::Rows;
        if same && continues(self.x.distance, &inner.x) && continues(self.n, &inner.y) {
            self.m = size(dim::mul(&self.m, &inner.count))?;
            self.batch.pop();
        }
        Ok(())
    }

    /// CUTLASS has 32-bit rows and columns.
    pub(super) fn limits(&self) -> Result<(), Refusal> {
        let most = super::MOST_ROWS;
        let sizes = [self.m.fixed().unwrap_or(1), self.n, self.k, self.x.distance, self.w.distance];
        match sizes.into_iter().find(|&size| size > most) {
            Some(size) => Err(Refusal::limit("a matrix is too large", size as f64, most as f64)),
            None => Ok(()),
        }
    }
}

fn shape(message: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Shape, message)
}

fn size<T>(result: Result<T, dim::DimError>) -> Result<T, Refusal> {
    result.map_err(|error| shape(error.to_string()))
}

/// A size that must be known at compile time.
fn known(size: &Dim, name: &str) -> Result<usize, Refusal> {
    let unknown =
        || shape(format!("{name} is '{size}', but kernels are generated for a known {name}; fix it with --dim"));
    size.fixed().ok_or_else(unknown)
}

/// A factor viewed as matrices, with these strides or contiguous.
fn matrices(factor: &Factor<usize>, strides: Option<Vec<i64>>) -> Result<Matrices, Refusal> {
    let strides = match strides {
        Some(strides) => strides.into_iter().map(|stride| Dim::Fixed(stride.unsigned_abs() as usize)).collect(),
        None => contiguous(&factor.shape)?,
    };
    let axes: Vec<Axis> = factor.shape.iter().cloned().zip(strides).collect();
    let one = || (Dim::Fixed(1), Dim::Fixed(0));
    let (batch, rows, columns) = match (factor.read, axes.as_slice()) {
        (MatrixView::Matrix, [batch @ .., row, column]) => (batch, row.clone(), column.clone()),
        (MatrixView::Transposed, [batch @ .., column, row]) => (batch, row.clone(), column.clone()),
        (MatrixView::Row, [column]) => (&[][..], one(), column.clone()),
        (MatrixView::Column, [row]) => (&[][..], row.clone(), one()),
        _ => return Err(shape(format!("{} is not a matrix", match_product::shape_text(&factor.shape)))),
    };
    Ok(Matrices { batch: batch.to_vec(), rows, columns })
}

fn contiguous(shape: &[Dim]) -> Result<Vec<Dim>, Refusal> {
    let mut strides = vec![Dim::Fixed(1); shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = size(dim::mul(&strides[at], &shape[at]))?;
    }
    Ok(strides)
}

/// The layout of a matrix. The stride of a dimension of size 1 does not matter.
fn matrix(name: &str, rows: &Axis, columns: &Axis) -> Result<Matrix, Refusal> {
    let one = Dim::Fixed(1);
    let lies = |along: &Axis, across: &Axis| {
        let dense = along.0 == one || along.1 == one;
        let distance = if across.0 == one { along.0.fixed() } else { across.1.fixed() };
        distance.filter(|_| dense)
    };
    // A matrix of one column is better read as one row of its transpose.
    let is_column = columns.0 == one && rows.1 == one;
    let by_rows = lies(columns, rows).filter(|_| !is_column).map(|distance| Matrix { order: Order::Rows, distance });
    let found = by_rows.or_else(|| lies(rows, columns).map(|distance| Matrix { order: Order::Columns, distance }));
    let unknown = || shape(format!("the stride of the columns of {name} is not known; fix sizes with --dim"));
    found.ok_or_else(unknown)
}

/// The dimensions of a batch, broadcast as in numpy.
fn batch(x: &Matrices, w: &Matrices, n: usize) -> Result<Vec<Batch>, Refusal> {
    let rank = x.batch.len().max(w.batch.len());
    let mut step = size(dim::mul(&x.rows.0, &Dim::Fixed(n)))?;
    let mut all = Vec::with_capacity(rank);
    for from_last in 1..=rank {
        let of = |batch: &[Axis]| {
            let at = batch.len().checked_sub(from_last);
            at.map_or((Dim::Fixed(1), Dim::Fixed(0)), |at| batch[at].clone())
        };
        let (left, right) = (of(&x.batch), of(&w.batch));
        let different = || shape(format!("batches of {} and {} do not broadcast", left.0, right.0));
        let count = dim::unify(&left.0, &right.0).ok_or_else(different)?;
        let distance = |(size, stride): &Axis| if *size == Dim::Fixed(1) { Dim::Fixed(0) } else { stride.clone() };
        all.push(Batch { x: distance(&left), w: distance(&right), y: step.clone(), count: count.clone() });
        step = size(dim::mul(&step, &count))?;
    }
    all.reverse();
    Ok(all)
}
