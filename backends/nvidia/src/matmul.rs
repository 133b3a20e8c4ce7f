//! Lowers a product of row-major matrices to calls of cublasLt, which is column-major.
//!
//! A row-major matrix is, byte for byte, the transposed matrix in column-major order. So `Y = X W`, with X of M x K, W of
//! K x N and Y of M x N, is asked for as `Y' = W' X'`: W is the call's A, X its B, N its m and M its n. Nothing is moved.
//! A bias of length N is then along the rows of `Y'`, where cublasLt's epilogue adds it.

use byoc_plugin_api::{Refusal, RefusalCode};

/// The strides of a matrix, in elements. Transposing it swaps the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// From row to row.
    pub row: i64,
    /// From column to column.
    pub column: i64,
}

/// One dimension of a batch: its size and strides. A stride of 0 broadcasts the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// How many.
    pub count: i64,
    /// Elements between the matrices of X.
    pub x: i64,
    /// Elements between the matrices of W.
    pub w: i64,
    /// Elements between the matrices of Y.
    pub y: i64,
}

/// The activation, applied after the bias.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// `max(x, 0)`; NaN becomes 0.
    Relu,
    /// GELU in the form with tanh, which differs from the one with erf by up to 4e-4.
    GeluTanh,
}

/// `Y = activation(X W + bias)`, for every matrix of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Rows of X and of Y.
    pub m: i64,
    /// Columns of W and of Y.
    pub n: i64,
    /// Columns of X, rows of W.
    pub k: i64,
    /// The dimensions of the batch, the outermost first. None is one product.
    pub batch: Vec<Batch>,
    /// X.
    pub x: View,
    /// W.
    pub w: View,
    /// Y, whose rows have to be contiguous.
    pub y: View,
    /// Whether a vector of N elements is added to each row of the product.
    pub bias: bool,
    /// The activation.
    pub activation: Activation,
}

/// The parameters of a call of cublasLt, by its own names. Strides are in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Rows of D, and of A as it is multiplied.
    pub m: u64,
    /// Columns of D, and of B as it is multiplied.
    pub n: u64,
    /// Columns of A, and rows of B, as they are multiplied.
    pub k: u64,
    /// Whether A is stored transposed.
    pub transa: bool,
    /// Whether B is stored transposed.
    pub transb: bool,
    /// The leading dimension of A.
    pub lda: i64,
    /// The leading dimension of B.
    pub ldb: i64,
    /// The leading dimension of C and D.
    pub ldc: i64,
    /// How many products.
    pub batch: i32,
    /// From one A to the next.
    pub stride_a: i64,
    /// From one B to the next.
    pub stride_b: i64,
    /// From one C and D to the next.
    pub stride_c: i64,
    /// A number of `cublasLtEpilogue_t`.
    pub epilogue: u32,
}

/// Offsets of the matrices of one call, in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    /// Of A, which is W.
    pub a: i64,
    /// Of B, which is X.
    pub b: i64,
    /// Of C and D, which are Y.
    pub c: i64,
}

/// A call, made once for each of its offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatmulPlan {
    /// The call.
    pub call: Call,
    /// The offsets.
    pub offsets: Vec<Offsets>,
}

impl Call {
    /// Rows and columns of A as it is stored.
    pub fn a(&self) -> (u64, u64) {
        if self.transa { (self.k, self.m) } else { (self.m, self.k) }
    }

    /// Rows and columns of B as it is stored.
    pub fn b(&self) -> (u64, u64) {
        if self.transb { (self.n, self.k) } else { (self.k, self.n) }
    }
}

/// The calls that compute a problem: one, if its batch merges to at most one dimension.
///
/// # Errors
///
/// When cublasLt does not support the strides of a matrix, or a number is too large for it.
pub fn plan(problem: &Problem) -> Result<MatmulPlan, Refusal> {
    let mut problem = problem.clone();
    let counts = problem.batch.iter().map(|batch| batch.count);
    if [problem.m, problem.n, problem.k].into_iter().chain(counts).any(|extent| extent < 1) {
        return Err(refusal("a product without elements"));
    }
    join(&mut problem.batch);
    if problem.batch.iter().any(|batch| batch.x < 0 || batch.w < 0 || batch.y < 1) {
        return Err(refusal("a batch with negative strides, or with results that overlap"));
    }
    match rows_together(&problem).map(|longer| calls(&longer)) {
        Some(Ok(plan)) => Ok(plan),
        _ => calls(&problem),
    }
}

/// The calls for a problem whose batch dimensions are merged.
fn calls(problem: &Problem) -> Result<MatmulPlan, Refusal> {
    let (inner, outer) = match problem.batch.split_last() {
        Some((inner, outer)) => (*inner, outer),
        None => (Batch { count: 1, x: 0, w: 0, y: 0 }, &[][..]),
    };
    let (transa, lda) = column_major("W", problem.n, problem.k, problem.w.column, problem.w.row)?;
    let (transb, ldb) = column_major("X", problem.k, problem.m, problem.x.column, problem.x.row)?;
    let (turned, ldc) = column_major("Y", problem.n, problem.m, problem.y.column, problem.y.row)?;
    if turned {
        return Err(refusal("the rows of Y are not contiguous"));
    }
    let too_many = |_| Refusal::limit("the batch has too many products", inner.count as f64, f64::from(i32::MAX));
    let call = Call {
        m: problem.n.unsigned_abs(),
        n: problem.m.unsigned_abs(),
        k: problem.k.unsigned_abs(),
        transa,
        transb,
        lda,
        ldb,
        ldc,
        batch: i32::try_from(inner.count).map_err(too_many)?,
        stride_a: inner.w,
        stride_b: inner.x,
        stride_c: inner.y,
        epilogue: epilogue(problem.bias, problem.activation),
    };
    Ok(MatmulPlan { call, offsets: offsets(outer)? })
}

/// A number of `cublasLtEpilogue_t`: 1 is none, and the bits 4 a bias, 2 ReLU, 32 GELU.
fn epilogue(bias: bool, activation: Activation) -> u32 {
    let activation = match activation {
        Activation::None => 0,
        Activation::Relu => 2,
        Activation::GeluTanh => 32,
    };
    match activation + if bias { 4 } else { 0 } {
        0 => 1,
        some => some,
    }
}

/// A matrix in column-major order, as cublasLt has it: whether it is stored transposed, and its leading dimension. The stride
/// of a dimension of size 1 does not matter.
fn column_major(name: &str, rows: i64, columns: i64, row: i64, column: i64) -> Result<(bool, i64), Refusal> {
    let lies = |rows: i64, columns: i64, row: i64, column: i64| {
        let leading = if columns == 1 { rows } else { column };
        ((rows == 1 || row == 1) && leading >= rows).then_some(leading)
    };
    let as_it_is = lies(rows, columns, row, column).map(|leading| (false, leading));
    let found = as_it_is.or_else(|| lies(columns, rows, column, row).map(|leading| (true, leading)));
    found.ok_or_else(|| refusal(&format!("neither the rows nor the columns of {name} are contiguous")))
}

/// Drops dimensions of size 1, and merges those that are contiguous in all three operands.
fn join(batch: &mut Vec<Batch>) {
    batch.retain(|dimension| dimension.count != 1);
    let mut joined: Vec<Batch> = Vec::with_capacity(batch.len());
    for inner in batch.drain(..) {
        let together = joined.last().and_then(|outer| {
            let continues = |outer: i64, step: i64| step.checked_mul(inner.count) == Some(outer);
            let same = continues(outer.x, inner.x) && continues(outer.w, inner.w) && continues(outer.y, inner.y);
            outer.count.checked_mul(inner.count).filter(|_| same)
        });
        match (together, joined.last_mut()) {
            (Some(count), Some(outer)) => *outer = Batch { count, ..inner },
            _ => joined.push(inner),
        }
    }
    *batch = joined;
}

/// Merges the innermost batch dimension into the rows, if it broadcasts W and the rows of X and Y continue from one matrix
/// to the next.
fn rows_together(problem: &Problem) -> Option<Problem> {
    let (inner, outer) = problem.batch.split_last()?;
    let m = problem.m.checked_mul(inner.count)?;
    let continues = |row: i64, step: i64| row.checked_mul(problem.m) == Some(step);
    let (x, y) = match problem.m {
        1 => (View { row: inner.x, ..problem.x }, View { row: inner.y, ..problem.y }),
        _ => (problem.x, problem.y),
    };
    let longer = inner.w == 0 && continues(x.row, inner.x) && continues(y.row, inner.y);
    longer.then(|| Problem { m, x, y, batch: outer.to_vec(), ..problem.clone() })
}

/// The most calls for one problem: with more, the calls cost more than the products.
const MOST_CALLS: i64 = 4096;

/// The offsets of the calls, over all dimensions of a batch but the one within the call.
fn offsets(outer: &[Batch]) -> Result<Vec<Offsets>, Refusal> {
    let count = outer.iter().fold(1i64, |count, batch| count.saturating_mul(batch.count));
    if count > MOST_CALLS {
        return Err(Refusal::limit("the batch needs too many calls", count as f64, MOST_CALLS as f64));
    }
    let mut all = vec![Offsets::default()];
    for batch in outer {
        let step = |from: i64, by: i64, i: i64| by.checked_mul(i).and_then(|by| from.checked_add(by));
        let steps = all.iter().flat_map(|from| (0..batch.count).map(move |i| (from, i)));
        let moved = steps.map(|(from, i)| {
            Some(Offsets { a: step(from.a, batch.w, i)?, b: step(from.b, batch.x, i)?, c: step(from.c, batch.y, i)? })
        });
        let moved: Option<_> = moved.collect();
        all = moved.ok_or_else(|| refusal("a batch larger than any memory"))?;
    }
    Ok(all)
}

fn refusal(message: &str) -> Refusal {
    Refusal::new(RefusalCode::Shape, message)
}

#[cfg(test)]
mod tests;
