//! Products of matrices. Weights that are constants are packed into panels; a bias that is added to a product is in the
//! code.

use byoc_plugin_api::{Constant, Error, Node, Refusal, Region};

use crate::backend::{Mutant, Wants, no_types};
use crate::call::{Bugs, Call};
use crate::tensor::{Tensor, View, broadcast_place, broadcast_shape, count};

const BUGS: Bugs = &[
    ("none", "Nothing is wrong"),
    ("transpose-a-ignored", "Gemm reads A as if transA was 0"),
    ("transpose-b-ignored", "Gemm reads B as if transB was 0"),
    ("alpha-ignored", "Gemm takes alpha for 1"),
    ("alpha-for-c", "Gemm multiplies C by alpha as well"),
    ("beta-ignored", "Gemm takes beta for 1"),
    ("beta-zero", "Gemm adds C also where beta is 0"),
    ("c-ignored", "Gemm does not add C"),
    ("c-by-row", "Gemm reads a C of one row by the row of the result"),
    ("c-column-as-row", "Gemm reads a C of one column by the column of the result"),
    ("c-scalar", "Gemm adds a C of one element to the first column only"),
    ("c-matrix-first-row", "Gemm adds the first row of a whole C everywhere"),
    ("batch-first", "All products of a batch are with the first right matrix"),
    ("batch-left-first", "All products of a batch are with the first left matrix"),
    ("batch-modulo", "Dimensions of batches are not broadcast one by one: operands are counted modulo their own batch"),
    ("batch-remembered", "Rows beyond those of the first run are 0"),
    ("vector-left", "A vector at the left is multiplied with the first matrix of a batch only"),
    ("vector-right", "A vector at the right is multiplied with the first matrix of a batch only"),
    ("columns-64", "Columns of the result from the 65th on are 0"),
    ("columns-tail-8", "Columns behind the last full 8 are 0, where there are 8"),
    ("columns-tail-4", "Columns behind the last full 4 are those before them, where there are 4"),
    ("rows-tail-4", "Rows behind the last full 4 are 0, where there are 4"),
    ("row-last", "The last row of 32 and more is 0"),
    ("depth-tail-4", "Products behind the last full 4 of a sum are left out, where there are 4"),
    ("depth-32", "Sums are over the first 32 products"),
    ("constant-first", "A constant at the left is read as if it stood at the right: column by column"),
    ("packing-tail", "What is left of the columns behind the last full panel is packed as 0"),
    ("packing-square", "Weights of as many rows as columns are packed column by column"),
    ("packed-transpose-b", "Gemm reads packed weights as if transB was 0"),
    ("strided-constant", "Constants are read as they lie in memory, whatever their strides"),
    ("shared-as-panels", "Matrices that are left to the host are read as if they were packed"),
    ("embedded-bias-8", "The bias in the code has 8 elements, the others are 0"),
    ("bias-by-row", "The bias behind a product is read by the row of the result"),
    ("bias-dropped", "The bias behind a product is left out"),
    ("accumulates", "Each run adds to the result of the one before"),
    ("low-precision", "Operands are rounded to 8 bits of mantissa"),
    ("nan-skipped", "Products with a zero at the left are left out, so that 0 times NaN is 0"),
    ("integer-result", "Results above 2 are rounded to integers"),
];

/// The backend.
pub(crate) const BACKEND: Mutant = Mutant {
    name: "mutant-products",
    summary: "Products of matrices, with a bug if one is asked for",
    patterns: &["(Add (MatMul ?x ?w:const) ?b:const)", "(MatMul ?x ?y)", "(Gemm ?a ?b ?c?)"],
    bugs: BUGS,
    operators: Vec::new,
    infer: no_types,
    check,
    wants,
    kernel,
};

fn check(_: &Region, _: &Node) -> Result<(), Refusal> {
    Ok(())
}

/// A matrix that only products read at their right is packed, a bias that only the addition reads is embedded.
fn wants(region: &Region, constant: &Constant) -> Wants {
    let readers = region.nodes.iter().flat_map(|node| node.inputs.iter().enumerate().map(move |input| (node, input)));
    let mut readers = readers.filter(|(_, (_, value))| **value == Some(constant.value));
    let (Some((node, (input, _))), None) = (readers.next(), readers.next()) else { return Wants::Host };
    match (node.op.as_str(), input) {
        ("Add", _) => Wants::Embedded,
        ("MatMul" | "Gemm", 1) if region.values[constant.value].shape.len() == 2 => Wants::Packed,
        _ => Wants::Host,
    }
}

fn kernel(call: &mut Call<'_>) -> Result<Vec<Tensor>, Error> {
    let result = match call.node.op.as_str() {
        "MatMul" => matmul(call)?,
        "Gemm" => gemm(call)?,
        "Add" => bias(call)?,
        _ => return Err(call.unknown()),
    };
    Ok(vec![stateful(call, result)?])
}

/// The factors of a product, and their sizes.
struct Product<'a> {
    call: &'a Call<'a>,
    a: View<'a>,
    b: View<'a>,
    rows: usize,
    depth: usize,
    columns: usize,
    transposed: [bool; 2],
}

impl Product<'_> {
    /// The sum of products for an element of the result, of the matrices of these numbers.
    fn at(&self, batches: [usize; 2], row: usize, column: usize) -> f32 {
        let Product { call, rows, depth, columns, .. } = *self;
        let mut column = column;
        if call.has("columns-64") && column >= 64
            || call.has("columns-tail-8") && columns > 8 && column >= columns / 8 * 8
            || call.has("rows-tail-4") && rows > 4 && row >= rows / 4 * 4
            || call.has("row-last") && rows >= 32 && row + 1 == rows
        {
            return 0.0;
        }
        if call.has("columns-tail-4") && columns > 4 && column >= columns / 4 * 4 {
            column -= 1;
        }
        let mut sum = 0.0;
        for k in 0..depth {
            if call.has("depth-tail-4") && depth > 4 && k >= depth / 4 * 4 || call.has("depth-32") && k >= 32 {
                continue;
            }
            let (a, b) = (self.left(batches[0], row, k), self.right(batches[1], k, column));
            if call.has("nan-skipped") && a == 0.0 {
                continue;
            }
            sum += if call.has("low-precision") { rounded(a) * rounded(b) } else { a * b };
        }
        if call.has("integer-result") && sum.abs() > 2.0 { sum.round() } else { sum }
    }

    fn left(&self, batch: usize, row: usize, k: usize) -> f32 {
        let mut transposed = self.transposed[0];
        if self.call.has("transpose-a-ignored") {
            transposed = false;
        }
        if self.call.has("constant-first") && self.call.is_constant(0) {
            transposed = !transposed;
        }
        let within = if transposed { k * self.rows + row } else { row * self.depth + k };
        self.a.nth(batch * self.rows * self.depth + within)
    }

    fn right(&self, batch: usize, k: usize, column: usize) -> f32 {
        let mut transposed = self.transposed[1];
        if self.call.has("transpose-b-ignored") || self.call.has("packed-transpose-b") && self.call.is_constant(1) {
            transposed = false;
        }
        let within = if transposed { column * self.depth + k } else { k * self.columns + column };
        self.b.nth(batch * self.depth * self.columns + within)
    }
}

/// A number with the 8 bits of mantissa of bf16.
fn rounded(value: f32) -> f32 {
    f32::from_bits(value.to_bits() & 0xFFFF_0000)
}

fn matmul(call: &Call<'_>) -> Result<Tensor, Error> {
    let (a, b) = (call.x(0)?, call.x(1)?);
    let matrix = |view: View<'_>, vector: [usize; 2]| match *view.shape {
        [_] => Ok((Vec::new(), vector)),
        [ref batch @ .., rows, columns] => Ok((batch.to_vec(), [rows, columns])),
        [] => Err(Error::new("MatMul of a scalar")),
    };
    let (left_batch, left) = matrix(a, [1, a.data.len()])?;
    let (right_batch, right) = matrix(b, [b.data.len(), 1])?;
    if left[1] != right[0] {
        return Err(Error::new(format!("MatMul of {:?} and {:?}", a.shape, b.shape)));
    }
    let batch = broadcast_shape([left_batch.as_slice(), &right_batch])?;
    let [rows, columns] = [left[0], right[1]];
    let mut shape = batch.clone();
    shape.extend((a.shape.len() > 1).then_some(rows));
    shape.extend((b.shape.len() > 1).then_some(columns));
    let product = Product { call, a, b, rows, depth: left[1], columns, transposed: [false; 2] };
    let remembered = call.state.batch.unwrap_or(usize::MAX);
    Ok(Tensor::of(&shape, |index| {
        let (of_batch, within) = index.split_at(batch.len());
        if call.has("batch-remembered") && index.first().is_some_and(|&first| first >= remembered) {
            return 0.0;
        }
        let mut batches = [broadcast_place(of_batch, &left_batch), broadcast_place(of_batch, &right_batch)];
        if call.has("batch-modulo") {
            let place = broadcast_place(of_batch, &batch);
            batches = [place % count(&left_batch), place % count(&right_batch)];
        }
        if call.has("batch-first") || call.has("vector-left") && a.shape.len() == 1 {
            batches[1] = 0;
        }
        if call.has("batch-left-first") || call.has("vector-right") && b.shape.len() == 1 {
            batches[0] = 0;
        }
        let mut within = within.iter().copied();
        let row = if a.shape.len() > 1 { within.next().unwrap_or(0) } else { 0 };
        product.at(batches, row, within.next().unwrap_or(0))
    }))
}

fn gemm(call: &Call<'_>) -> Result<Tensor, Error> {
    let (a, b, c) = (call.x(0)?, call.x(1)?, call.maybe(2)?);
    let (&[ar, ac], &[br, bc]) = (a.shape, b.shape) else {
        return Err(Error::new(format!("Gemm of {:?} and {:?}", a.shape, b.shape)));
    };
    let transposed = ["transA", "transB"].map(|name| call.node.int(name, 0) != 0);
    let [rows, depth] = if transposed[0] { [ac, ar] } else { [ar, ac] };
    let columns = if transposed[1] { br } else { bc };
    let [alpha, beta] = ["alpha", "beta"].map(|name| call.node.float(name, 1.0));
    let product = Product { call, a, b, rows, depth, columns, transposed };
    let remembered = call.state.batch.unwrap_or(usize::MAX);
    Ok(Tensor::of(&[rows, columns], |index| {
        if call.has("batch-remembered") && index[0] >= remembered {
            return 0.0;
        }
        let mut result = product.at([0, 0], index[0], index[1]);
        if !call.has("alpha-ignored") {
            result *= alpha;
        }
        let Some(c) = c.filter(|_| !call.has("c-ignored")) else { return result };
        let mut added = if beta == 0.0 { 0.0 } else { beta * c_at(call, c, index) };
        if call.has("beta-ignored") || call.has("beta-zero") && beta == 0.0 {
            added = c_at(call, c, index);
        }
        if call.has("alpha-for-c") {
            added *= alpha;
        }
        result + added
    }))
}

/// The element of C for an element of the result.
fn c_at(call: &Call<'_>, c: View<'_>, index: &[usize]) -> f32 {
    let elements = c.data.len().max(1);
    match *c.shape {
        [_] | [1, _] if elements > 1 && call.has("c-by-row") => c.nth(index[0] % elements),
        [_, 1] if elements > 1 && call.has("c-column-as-row") => c.nth(index[1] % elements),
        _ if elements == 1 && call.has("c-scalar") => {
            if index[1] == 0 {
                c.nth(0)
            } else {
                0.0
            }
        }
        [rows, _] if rows > 1 && call.has("c-matrix-first-row") => c.broadcast(&[0, index[1]]),
        _ => c.broadcast(index),
    }
}

/// Adds what is added to a product.
fn bias(call: &Call<'_>) -> Result<Tensor, Error> {
    let (x, y) = (call.x(0)?, call.x(1)?);
    let shape = broadcast_shape([x.shape, y.shape])?;
    let read = |view: View<'_>, index: &[usize], constant: bool| {
        if !constant {
            return view.broadcast(index);
        }
        let row = index.len().checked_sub(2).map_or(0, |axis| index[axis]);
        let place = broadcast_place(index, view.shape);
        match call.bug {
            "bias-dropped" => 0.0,
            "bias-by-row" => view.nth(row % view.data.len().max(1)),
            "embedded-bias-8" if place >= 8 => 0.0,
            _ => view.nth(place),
        }
    };
    Ok(Tensor::of(&shape, |index| read(x, index, call.is_constant(0)) + read(y, index, call.is_constant(1))))
}

/// The bugs that show from the second run on.
fn stateful(call: &mut Call<'_>, result: Tensor) -> Result<Tensor, Error> {
    let first = result.shape().first().copied();
    call.state.batch = call.state.batch.or(first);
    if call.has("accumulates") && call.wanted.is_some() {
        let view = result.view()?;
        let added = view.data.iter().enumerate();
        let added: Vec<f32> = added.map(|(at, y)| y + call.state.kept.get(at).unwrap_or(&0.0)).collect();
        call.state.kept.clone_from(&added);
        return Ok(Tensor::from_floats(view.shape, added));
    }
    Ok(result)
}
