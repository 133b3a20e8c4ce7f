//! Matrix products: `MatMul`, `Gemm`, and the `f64` product that other kernels use.

use byoc_plugin_api::Error;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayD, ArrayView2, ArrayViewD, Ix2, Zip, s};

use super::array::{Array, Item, count, each, each_number, elements, shaped};
use super::binary::{broadcast_shape, zip};
use super::call::{Call, Outputs, same};
use super::number::Number;
use super::{Kernel, SAME, WIDE, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("Gemm", gemm, &[WIDE, SAME]),
    kernel("MatMul", matmul, &[WIDE, SAME]),
];

/// Rows of `b` that are widened to `f64` at a time, so that a large weight is never there twice.
const DEPTH: usize = 512;

/// The product of two float matrices, accumulated in `f64`.
pub(crate) fn dot<T: Item>(a: &ArrayView2<'_, T>, b: &ArrayView2<'_, T>) -> Array2<f64> {
    let mut product = Array2::zeros((a.nrows(), b.ncols()));
    for start in (0..a.ncols()).step_by(DEPTH) {
        let end = (start + DEPTH).min(a.ncols());
        // `Zip` goes through memory in its own order, which for a transposed weight is many times faster.
        let part = |x: ArrayView2<'_, T>| Zip::from(x).map_collect(|value| value.to_f64());
        general_mat_mul(1.0, &part(a.slice(s![.., start..end])), &part(b.slice(s![start..end, ..])), 1.0, &mut product);
    }
    product
}

/// The product of two integer matrices; sums wrap.
pub(super) fn dot_wrapping<T: Number>(a: &ArrayView2<'_, T>, b: &ArrayView2<'_, T>) -> Array2<T> {
    let mut product = Array2::from_elem((a.nrows(), b.ncols()), T::default());
    for (a, mut row) in a.rows().into_iter().zip(product.rows_mut()) {
        for (&a, b) in a.iter().zip(b.rows()) {
            row.iter_mut().zip(b).for_each(|(sum, &b)| *sum = sum.add(a.mul(b)));
        }
    }
    product
}

fn matrix<'b, T>(x: ArrayViewD<'b, T>) -> Result<ArrayView2<'b, T>, Error> {
    x.into_dimensionality::<Ix2>().map_err(|_| Error::new("expected a matrix"))
}

/// Shapes of a product by numpy's rules: rows, depth, columns and the batch's shape.
struct Plan {
    rows: usize,
    depth: usize,
    columns: usize,
    batch: Vec<usize>,
    output: Vec<usize>,
}

fn plan(a: &[usize], b: &[usize]) -> Result<Plan, Error> {
    let wrong = || Error::new(format!("cannot multiply {a:?} by {b:?}"));
    // A vector on the left is one row, on the right one column, and that axis is dropped again.
    let (a_batch, rows, depth) = match a {
        [] => return Err(wrong()),
        [depth] => (&[][..], 1, *depth),
        [batch @ .., rows, depth] => (batch, *rows, *depth),
    };
    let (b_batch, b_depth, columns) = match b {
        [] => return Err(wrong()),
        [depth] => (&[][..], *depth, 1),
        [batch @ .., depth, columns] => (batch, *depth, *columns),
    };
    if depth != b_depth {
        return Err(wrong());
    }
    let batch = broadcast_shape(a_batch, b_batch)?;
    let mut output = batch.clone();
    output.extend((a.len() > 1).then_some(rows));
    output.extend((b.len() > 1).then_some(columns));
    count(&output)?;
    Ok(Plan { rows, depth, columns, batch, output })
}

/// The matrices of a batched operand as `(batch, rows, columns)`, repeated to the batch's shape by index.
fn batched<'b, T: Copy>(
    data: &'b [T],
    shape: &[usize],
    matrix: [usize; 2],
    batch: &[usize],
) -> Result<Vec<ArrayView2<'b, T>>, Error> {
    let own = &shape[..shape.len().saturating_sub(2)];
    let numbers = shaped(own, (0..own.iter().product::<usize>()).collect())?;
    let view = numbers.view();
    let repeated = super::binary::broadcast(&view, batch)?;
    let run = matrix[0] * matrix[1];
    let at = |&number: &usize| ArrayView2::from_shape(matrix, &data[number * run..(number + 1) * run]);
    repeated.iter().map(at).collect::<Result<_, _>>().map_err(|error| Error::new(error.to_string()))
}

/// The product of two tensors by numpy's rules.
pub(super) fn product<T: Item, R: Item>(
    a: &ArrayViewD<'_, T>,
    b: &ArrayViewD<'_, T>,
    dot: impl Fn(&ArrayView2<'_, T>, &ArrayView2<'_, T>) -> Array2<R>,
) -> Result<ArrayD<R>, Error> {
    let mut plan = plan(a.shape(), b.shape())?;
    let mut a_shape = a.shape().to_vec();
    if b.ndim() <= 2 {
        // One matrix on the right: the batch on the left is just more rows.
        plan.rows *= plan.batch.iter().product::<usize>();
        plan.batch.clear();
        a_shape = vec![plan.rows, plan.depth];
    }
    let (a_data, b_data) = (elements(a), elements(b));
    let left = batched(&a_data, &a_shape, [plan.rows, plan.depth], &plan.batch)?;
    let right = batched(&b_data, b.shape(), [plan.depth, plan.columns], &plan.batch)?;
    let mut data = Vec::with_capacity(count(&plan.output)?);
    for (a, b) in left.iter().zip(&right) {
        data.extend(dot(a, b));
    }
    shaped(&plan.output, data)
}

/// `MatMul`.
pub(crate) fn matmul(call: &Call<'_, '_>) -> Outputs {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.dtype().is_float() {
        return call.rounded(each!(a, a => product(&a.view(), &same(&a.view(), b)?, dot))?);
    }
    each_number!(a, a => Ok(vec![Item::wrap(product(&a.view(), &same(&a.view(), b)?, dot_wrapping)?)]))
}

/// `Gemm`: `alpha * A * B + beta * C`.
pub(crate) fn gemm(call: &Call<'_, '_>) -> Outputs {
    let (a, b, c) = (call.input(0)?, call.input(1)?, call.optional(2));
    let (alpha, beta) = (f64::from(call.node.float("alpha", 1.0)), f64::from(call.node.float("beta", 1.0)));
    let turned = |name: &str| call.node.int(name, 0) != 0;
    fn operands<'b, T: Item>(
        a: ArrayViewD<'b, T>,
        b: &'b Array<'_>,
        turned: impl Fn(&str) -> bool,
    ) -> Result<(ArrayView2<'b, T>, ArrayView2<'b, T>), Error> {
        let (mut a, mut b) = (matrix(a.clone())?, matrix(same(&a, b)?)?);
        if turned("transA") {
            a.swap_axes(0, 1);
        }
        if turned("transB") {
            b.swap_axes(0, 1);
        }
        if a.ncols() != b.nrows() {
            return Err(Error::new(format!("cannot multiply {:?} by {:?}", a.shape(), b.shape())));
        }
        Ok((a, b))
    }
    let exact = !a.dtype().is_float();
    if exact && alpha == 1.0 && beta == 1.0 {
        return each_number!(a, a => {
            let (a, b) = operands(a.view(), b, turned)?;
            let product = dot_wrapping(&a, &b).into_dyn();
            let Some(c) = c else { return Ok(vec![Item::wrap(product)]) };
            let sum = zip(&product.view(), &same(&product.view(), c)?, Number::add)?;
            Ok(vec![Item::wrap(sum)])
        });
    }
    let product = each_number!(a, a => {
        let (a, b) = operands(a.view(), b, turned)?;
        Ok(if exact { dot_wrapping(&a, &b).mapv(Item::to_f64) } else { dot(&a, &b) })
    })?;
    let mut y = (product * alpha).into_dyn();
    if let Some(c) = c.filter(|_| beta != 0.0) {
        y = zip(&y.view(), &c.to_f64().view(), |y, c| y + beta * c)?;
    }
    call.rounded(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_follow_numpy_shapes() {
        type Case<'a> = (&'a [usize], &'a [usize], Option<&'a [usize]>);
        let cases: [Case<'_>; 9] = [
            (&[3], &[3], Some(&[])),
            (&[3], &[3, 4], Some(&[4])),
            (&[2, 3], &[3], Some(&[2])),
            (&[5, 2, 3], &[3, 4], Some(&[5, 2, 4])),
            (&[5, 1, 2, 3], &[7, 3, 4], Some(&[5, 7, 2, 4])),
            (&[0, 3], &[3, 4], Some(&[0, 4])),
            (&[0, 2, 3], &[0, 3, 1], Some(&[0, 2, 1])),
            (&[2, 3], &[2, 3], None),
            (&[], &[3], None),
        ];
        for (a, b, expected) in cases {
            let (x, y) = (ArrayD::from_elem(a, 1.0), ArrayD::from_elem(b, 2.0));
            let found = product(&x.view(), &y.view(), dot).ok();
            assert_eq!(found.as_ref().map(ArrayD::shape), expected, "{a:?} by {b:?}");
            assert!(found.iter().flatten().all(|&value| value == 6.0));
        }
        let none = product(
            &ArrayD::from_elem(vec![2, 0], 1i32).view(),
            &ArrayD::from_elem(vec![0, 1], 1).view(),
            dot_wrapping,
        );
        assert_eq!(none.expect("empty depth").as_slice(), Some(&[0, 0][..]));
    }

    #[test]
    fn deep_products_are_summed_over_all_parts() {
        let (a, b) = (Array2::from_elem((1, 3 * DEPTH + 5), 1f32), Array2::from_elem((3 * DEPTH + 5, 2), 0.5f32));
        let expected = (3 * DEPTH + 5) as f64 / 2.0;
        assert_eq!(dot(&a.view(), &b.view()).iter().copied().collect::<Vec<_>>(), [expected, expected]);
    }
}
