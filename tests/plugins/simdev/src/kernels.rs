//! What the device computes, on dense row-major values of f32.

use byoc_plugin_api::Error;

/// Values with their shape.
pub(crate) type Operand<'a> = (&'a [f32], &'a [i64]);

/// How many operands an operator has, if there is a kernel for it.
pub(crate) fn operands(op: &str) -> Option<usize> {
    match op {
        "Add" | "Mul" | "MatMul" => Some(2),
        "Relu" | "Neg" => Some(1),
        _ => None,
    }
}

/// The shape of a result, by ONNX's rules for broadcasting and for matrices.
pub(crate) fn shape(op: &str, operands: &[&[i64]]) -> Result<Vec<i64>, Error> {
    let bad = || Error::new(format!("{op} cannot be made of shapes {operands:?}"));
    match (op, operands) {
        ("Relu" | "Neg", [x]) => Ok(x.to_vec()),
        ("MatMul", &[&[rows, depth], &[inner, columns]]) if depth == inner => Ok(vec![rows, columns]),
        ("Add" | "Mul", [x, y]) => {
            let rank = x.len().max(y.len());
            let size =
                |shape: &[i64], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
            let common = |axis| match (size(x, axis), size(y, axis)) {
                (x, y) if x == y || y == 1 => Ok(x),
                (1, y) => Ok(y),
                _ => Err(bad()),
            };
            (0..rank).map(common).collect()
        }
        _ => Err(bad()),
    }
}

/// Computes a result of shape `shape`.
pub(crate) fn compute(op: &str, shape: &[i64], operands: &[Operand<'_>]) -> Result<Vec<f32>, Error> {
    match (op, operands) {
        ("Add", [x, y]) => Ok(elementwise(shape, x, y, |x, y| x + y)),
        ("Mul", [x, y]) => Ok(elementwise(shape, x, y, |x, y| x * y)),
        // Not `max`: NaN stays NaN.
        ("Relu", [x]) => Ok(x.0.iter().map(|&x| if x < 0.0 { 0.0 } else { x }).collect()),
        ("Neg", [x]) => Ok(x.0.iter().map(|x| -x).collect()),
        ("MatMul", [x, y]) => Ok(matmul(x, y)),
        _ => Err(Error::new(format!("the device has no kernel for {op} of {} operands", operands.len()))),
    }
}

/// The number of elements of a shape.
pub(crate) fn count(shape: &[i64]) -> usize {
    shape.iter().map(|&size| size as usize).product()
}

fn matmul(x: &Operand<'_>, y: &Operand<'_>) -> Vec<f32> {
    let (rows, depth, columns) = (x.1[0] as usize, y.1[0] as usize, y.1[1] as usize);
    let mut result = vec![0.0; rows * columns];
    for (place, result) in result.iter_mut().enumerate() {
        let (row, column) = (place / columns, place % columns);
        *result = (0..depth).map(|k| x.0[row * depth + k] * y.0[k * columns + column]).sum();
    }
    result
}

fn elementwise(shape: &[i64], x: &Operand<'_>, y: &Operand<'_>, combine: fn(f32, f32) -> f32) -> Vec<f32> {
    (0..count(shape))
        .map(|place| combine(x.0[broadcast(place, shape, x.1)], y.0[broadcast(place, shape, y.1)]))
        .collect()
}

/// The row-major place in an operand of shape `operand` that stands for `place` in a result of shape `shape`.
fn broadcast(mut place: usize, shape: &[i64], operand: &[i64]) -> usize {
    let (mut found, mut stride) = (0, 1);
    for (axis, &size) in shape.iter().enumerate().rev() {
        let own = (axis + operand.len()).checked_sub(shape.len()).map_or(1, |axis| operand[axis] as usize);
        found += if own == 1 { 0 } else { place % size as usize * stride };
        stride *= own;
        place /= size as usize;
    }
    found
}
