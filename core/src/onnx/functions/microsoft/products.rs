//! Products of matrices with transpositions, factors and activations.

use super::super::body::{Body, Value};
use super::super::call::Call;
use super::activations;
use crate::diagnostic::Result;

/// `alpha * A B`, each factor transposed first where an attribute says so.
pub(in super::super) fn fused_matmul(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let a = oriented(body, &a, call.flag("transA")?, call.flag("transBatchA")?);
    let b = oriented(body, &b, call.flag("transB")?, call.flag("transBatchB")?);
    let product = body.op("MatMul", [&a, &b]);
    Ok(vec![match call.float("alpha") {
        1.0 => product,
        alpha => {
            let alpha = body.number(alpha, &product);
            body.op("Mul", [&product, &alpha])
        }
    }])
}

/// A factor with the last two axes swapped (`swap`), or with the first axis behind those of the batch (`first`), or both. A vector
/// stays as it is.
fn oriented(body: &mut Body, x: &Value, swap: bool, first: bool) -> Value {
    if first {
        // [d0, batch, last] with the axes of the batch as one.
        let ends = if swap { [1, 2, 0] } else { [1, 0, 2] };
        let (shape, last) = (body.sizes(x, 0, Some(1)), body.sizes(x, -1, None));
        let (batch, rest) = (body.sizes(x, 1, Some(-1)), body.ints(&[-1]));
        let split = body.concat(&[&shape, &rest, &last], 0);
        let y = body.op("Reshape", [x, &split]);
        let y = body.transpose(&y, &ends);
        let matrix = if swap { [&batch, &last, &shape] } else { [&batch, &shape, &last] };
        let shape = body.concat(&matrix, 0);
        return body.op("Reshape", [&y, &shape]);
    }
    if !swap {
        return x.clone();
    }
    swapped(body, x, &[&[1, 0], &[0, 2, 1], &[0, 1, 3, 2]])
}

/// The last two axes swapped, by a `Transpose` for the ranks that have one here.
fn swapped(body: &mut Body, x: &Value, known: &[&[i64]]) -> Value {
    let Some((perm, others)) = known.split_first() else {
        let vector = body.has_rank(x, 1);
        return body.either(&vector, |_| x.clone(), |body| swapped_of_any_rank(body, x));
    };
    let found = body.has_rank(x, perm.len() as i64);
    body.either(&found, |body| body.transpose(x, perm), |body| swapped(body, x, others))
}

fn swapped_of_any_rank(body: &mut Body, x: &Value) -> Value {
    let (batch, rest) = (body.sizes(x, 0, Some(-2)), body.ints(&[-1]));
    let (rows, columns) = (body.sizes(x, -2, Some(-1)), body.sizes(x, -1, None));
    let flat = body.concat(&[&rest, &rows, &columns], 0);
    let y = body.op("Reshape", [x, &flat]);
    let y = body.transpose(&y, &[0, 2, 1]);
    let shape = body.concat(&[&batch, &columns, &rows], 0);
    body.op("Reshape", [&y, &shape])
}

/// `Gemm` and an activation.
pub(in super::super) fn fused_gemm(body: &mut Body, call: &Call) -> Result<Vec<Value>> {
    let inputs: Vec<_> = [call.input(0)?, call.input(1)?].into_iter().chain(call.optional(2)).collect();
    let attributes = call.given(&["alpha", "beta", "transA", "transB"]);
    let y = body.many("Gemm", &inputs, &attributes, 1).swap_remove(0);
    Ok(vec![activations::of_gemm(body, call, &y)?])
}
