//! Functions of two values against scalar loops.

use super::*;

fn want(op: Binary, a: f32, b: f32) -> f32 {
    match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => a / b,
        Binary::Max if a.is_nan() || b.is_nan() => f32::NAN,
        Binary::Min if a.is_nan() || b.is_nan() => f32::NAN,
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::Pow => a.powf(b),
    }
}

/// The value of an operand of shape `s` under flat output index `at`.
fn pick(out: &[usize], s: &[usize], values: &[f32], mut at: usize) -> f32 {
    let (mut index, mut step) = (0, 1);
    for i in (0..out.len()).rev() {
        let position = at % out[i];
        at /= out[i];
        if let Some(j) = (i + s.len()).checked_sub(out.len()) {
            index += if s[j] == 1 { 0 } else { position * step };
            step *= s[j];
        }
    }
    values[index]
}

#[test]
fn every_operator_and_broadcast() {
    let shapes: &[(&[usize], &[usize], &[usize])] = &[
        (&[5], &[5], &[5]),
        (&[], &[], &[]),
        (&[2, 3, 40], &[2, 3, 40], &[]),
        (&[2, 3, 40], &[1], &[2, 3, 40]),
        (&[2, 3, 40], &[2, 3, 40], &[40]),
        (&[2, 3, 40], &[2, 3, 40], &[3, 1]),
        (&[2, 3, 4, 35], &[2, 1, 4, 1], &[3, 1, 35]),
        (&[4, 5], &[4, 1], &[1, 5]),
        (&[3, 10000], &[3, 10000], &[3, 1]),
        (&[1, 7, 1, 33], &[1, 7, 1, 33], &[7, 1, 1]),
        // Rows that are cut between threads.
        (&[301, 100], &[301, 100], &[100]),
        (&[2, 150, 101], &[2, 150, 101], &[2, 1, 101]),
    ];
    let ops = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Max, Binary::Min, Binary::Pow];
    for (out, sa, sb) in shapes {
        let size = |s: &[usize]| s.iter().product::<usize>();
        let mut a: Vec<f32> = (0..size(sa)).map(|i| (i * 37 % 23) as f32 / 7.0 + 0.1).collect();
        let b: Vec<f32> = (0..size(sb)).map(|i| (i * 31 % 19) as f32 / 5.0 + 0.2).collect();
        a[size(sa) / 2] = f32::NAN;
        let bc = Broadcast::new(out, sa, sb).unwrap();
        assert_eq!(bc.len(), size(out));
        for op in ops {
            for &isa in Isa::available() {
                let threads = Threads::with_isa(2, isa);
                let mut y = vec![0.0; size(out)];
                binary(&threads, op, &bc, &a, &b, &mut y, Activation::None);
                let close = |g: f32, w: f32| (g - w).abs() <= 1e-6 * w.abs() || g.is_nan() && w.is_nan();
                for (i, g) in y.iter().enumerate() {
                    let w = want(op, pick(out, sa, &a, i), pick(out, sb, &b, i));
                    assert!(close(*g, w), "{op:?} {out:?} {sa:?} {sb:?} [{i}] {g} {w}");
                }
                if size(sa) == size(out) {
                    for swap in [false, true] {
                        let mut y = a.clone();
                        binary_inplace(&threads, op, &bc, &mut y, &b, swap, Activation::Relu);
                        for (i, g) in y.iter().enumerate() {
                            let (p, q) = (a[i], pick(out, sb, &b, i));
                            let w = if swap { want(op, q, p) } else { want(op, p, q) };
                            let w = if w < 0.0 { 0.0 } else { w };
                            assert!(close(*g, w), "{op:?} {swap} {out:?} [{i}] {g} {w}");
                        }
                    }
                }
            }
        }
    }
    assert!(Broadcast::new(&[4], &[3], &[4]).is_none());
    let large = [1 << 40; 2];
    assert!(Broadcast::new(&large, &large, &[1]).is_none());
    assert!(Broadcast::new(&[large[0], 1, large[1]], &[large[0], 1, 1], &[large[1]]).is_some());
    assert!(Broadcast::new(&[2; 10], &[2, 1, 2, 1, 2, 1, 2, 1, 2, 1], &[2; 10]).is_none());
}
