//! Calls as golden numbers.

use super::*;

const ROWS: fn(i64) -> View = |columns| View { row: columns, column: 1 };
const COLUMNS: fn(i64) -> View = |rows| View { row: 1, column: rows };

/// A product of packed matrices: X is 2 x 3, W 3 x 5.
fn product() -> Problem {
    let (m, n, k) = (2, 5, 3);
    Problem { m, n, k, batch: vec![], x: ROWS(k), w: ROWS(n), y: ROWS(n), bias: false, activation: Activation::None }
}

/// The plan in one line.
fn text(problem: &Problem) -> String {
    match plan(problem) {
        Err(refusal) => refusal.to_string(),
        Ok(MatmulPlan { call, offsets }) => {
            let letter = |transposed| if transposed { 'T' } else { 'N' };
            let at: Vec<_> = offsets.iter().map(|at| format!("{} {} {}", at.a, at.b, at.c)).collect();
            format!(
                "{}{} m {} n {} k {} ld {} {} {} batch {} by {} {} {} epilogue {} at {}",
                letter(call.transa),
                letter(call.transb),
                call.m,
                call.n,
                call.k,
                call.lda,
                call.ldb,
                call.ldc,
                call.batch,
                call.stride_a,
                call.stride_b,
                call.stride_c,
                call.epilogue,
                at.join(", ")
            )
        }
    }
}

#[test]
fn operands_as_they_lie() {
    let cases = [
        (product(), "NN m 5 n 2 k 3 ld 5 3 5 batch 1 by 0 0 0 epilogue 1 at 0 0 0"),
        // Gemm with transB, the layout of a fully connected layer.
        (Problem { w: COLUMNS(3), ..product() }, "TN m 5 n 2 k 3 ld 3 3 5 batch 1 by 0 0 0 epilogue 1 at 0 0 0"),
        (Problem { x: COLUMNS(2), ..product() }, "NT m 5 n 2 k 3 ld 5 2 5 batch 1 by 0 0 0 epilogue 1 at 0 0 0"),
        (
            Problem { x: COLUMNS(4), w: COLUMNS(7), ..product() },
            "TT m 5 n 2 k 3 ld 7 4 5 batch 1 by 0 0 0 epilogue 1 at 0 0 0",
        ),
        // Parts of wider matrices.
        (
            Problem { x: ROWS(8), w: ROWS(9), y: ROWS(6), ..product() },
            "NN m 5 n 2 k 3 ld 9 8 6 batch 1 by 0 0 0 epilogue 1 at 0 0 0",
        ),
        // A vector has no distance between its rows worth the name.
        (
            Problem { m: 1, x: ROWS(0), y: ROWS(0), ..product() },
            "NN m 5 n 1 k 3 ld 5 3 5 batch 1 by 0 0 0 epilogue 1 at 0 0 0",
        ),
        (Problem { k: 1, x: ROWS(1), ..product() }, "NN m 5 n 2 k 1 ld 5 1 5 batch 1 by 0 0 0 epilogue 1 at 0 0 0"),
    ];
    for (problem, expected) in cases {
        assert_eq!(text(&problem), expected);
    }
}

#[test]
fn epilogues() {
    use Activation::{GeluTanh, None, Relu};
    let numbers = [
        (false, None, 1),
        (false, Relu, 2),
        (true, None, 4),
        (true, Relu, 6),
        (false, GeluTanh, 32),
        (true, GeluTanh, 36),
    ];
    for (bias, activation, number) in numbers {
        let plan = plan(&Problem { bias, activation, ..product() }).expect("it is a plain product");
        assert_eq!(plan.call.epilogue, number);
    }
}

#[test]
fn batches() {
    let with = |batch: &[(i64, i64, i64, i64)]| {
        let batch = batch.iter().map(|&(count, x, w, y)| Batch { count, x, w, y }).collect();
        text(&Problem { batch, ..product() })
    };
    let one = |m: i64, rest: &str| format!("NN m 5 n {m} k 3 ld 5 3 5 batch {rest}");
    // A weight that all share: one product of more rows.
    assert_eq!(with(&[(4, 6, 0, 10)]), one(8, "1 by 0 0 0 epilogue 1 at 0 0 0"));
    assert_eq!(with(&[(3, 24, 0, 40), (4, 6, 0, 10)]), one(24, "1 by 0 0 0 epilogue 1 at 0 0 0"));
    assert_eq!(with(&[(4, 6, 15, 10)]), one(2, "4 by 15 6 10 epilogue 1 at 0 0 0"));
    // Two dimensions that are one.
    assert_eq!(with(&[(3, 24, 60, 40), (4, 6, 15, 10)]), one(2, "12 by 15 6 10 epilogue 1 at 0 0 0"));
    assert_eq!(with(&[(1, 9, 9, 9), (4, 6, 15, 10), (1, 0, 0, 0)]), one(2, "4 by 15 6 10 epilogue 1 at 0 0 0"));
    // Each broadcasts in another dimension: [2, 1] with [1, 3].
    assert_eq!(with(&[(2, 6, 0, 30), (3, 0, 15, 10)]), one(2, "3 by 15 0 10 epilogue 1 at 0 0 0, 0 6 30"));
    // Matrices of one row each, which merge to one matrix.
    let vectors = |x: View, step: i64| {
        let batch = vec![Batch { count: 4, x: step, w: 0, y: 5 }];
        text(&Problem { m: 1, x, batch, ..product() })
    };
    let (rows, spread) = (ROWS(3), View { row: 9, column: 2 });
    assert_eq!(vectors(rows, 3), "NN m 5 n 4 k 3 ld 5 3 5 batch 1 by 0 0 0 epilogue 1 at 0 0 0");
    assert_eq!(vectors(rows, 0), "NN m 5 n 1 k 3 ld 5 3 5 batch 4 by 0 0 5 epilogue 1 at 0 0 0");
    assert_eq!(vectors(spread, 7), "NT m 5 n 1 k 3 ld 5 2 5 batch 4 by 0 7 5 epilogue 1 at 0 0 0");
    // Rows that do not go on stay a batch.
    assert_eq!(with(&[(4, 7, 0, 10)]), one(2, "4 by 0 7 10 epilogue 1 at 0 0 0"));
}

#[test]
fn refusals() {
    let batch = |count, x, y| vec![Batch { count, x, w: 15, y }];
    let cases = [
        (Problem { k: 0, ..product() }, "shape: a product without elements"),
        (Problem { batch: batch(0, 6, 10), ..product() }, "shape: a product without elements"),
        (
            Problem { x: View { row: 6, column: 2 }, ..product() },
            "shape: neither the rows nor the columns of X are contiguous",
        ),
        (
            Problem { w: View { row: 0, column: 1 }, ..product() },
            "shape: neither the rows nor the columns of W are contiguous",
        ),
        (
            Problem { w: View { row: -5, column: 1 }, ..product() },
            "shape: neither the rows nor the columns of W are contiguous",
        ),
        // Rows that overlap.
        (Problem { x: ROWS(2), ..product() }, "shape: neither the rows nor the columns of X are contiguous"),
        (Problem { y: COLUMNS(2), ..product() }, "shape: the rows of Y are not contiguous"),
        (
            Problem { batch: batch(2, 6, 0), ..product() },
            "shape: a batch with negative strides, or with results that overlap",
        ),
        (
            Problem { batch: batch(2, -6, 10), ..product() },
            "shape: a batch with negative strides, or with results that overlap",
        ),
        (
            Problem { batch: batch(3_000_000_000, 6, 10), ..product() },
            "limit: the batch has too many products (3000000000 against a limit of 2147483647)",
        ),
        (
            Problem { batch: vec![Batch { count: 5000, x: 1, w: 0, y: 10 }, batch(3, 6, 10)[0]], ..product() },
            "limit: the batch needs too many calls (5000 against a limit of 4096)",
        ),
        (
            Problem { batch: vec![Batch { count: 3, x: i64::MAX, w: 0, y: 10 }, batch(3, 6, 10)[0]], ..product() },
            "shape: a batch larger than any memory",
        ),
    ];
    for (problem, expected) in cases {
        assert_eq!(text(&problem), expected);
    }
}
