//! Attention against a plain computation in f64, on every instruction set and unit.

use super::*;
use crate::kernels::isa::Isa;

fn values(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|i| (((i + seed) * 7919) % 211) as f32 / 100.0 - 1.0).collect()
}

fn reference(p: &AttentionParams, q: &[f32], k: &[f32], v: &[f32], mask: Option<&[f32]>, out: &mut [f64]) {
    for at in 0..p.batch * p.heads * p.q_len {
        let (i, head, batch) = (at % p.q_len, at / p.q_len % p.heads, at / p.q_len / p.heads);
        let kv = head / (p.heads / p.kv_heads);
        let seen = if p.causal { (i + 1 + p.kv_len).saturating_sub(p.q_len) } else { p.kv_len };
        let scores: Vec<f64> = (0..seen)
            .map(|j| {
                let dot: f64 = (0..p.head_dim)
                    .map(|d| {
                        f64::from(q[batch * p.q[0] + head * p.q[1] + i * p.q[2] + d])
                            * f64::from(k[batch * p.k[0] + kv * p.k[1] + j * p.k[2] + d])
                    })
                    .sum();
                let m = p.mask;
                let add = mask.map_or(0.0, |x| f64::from(x[batch * m[0] + head * m[1] + i * m[2] + j * m[3]]));
                dot * f64::from(p.scale) + add
            })
            .collect();
        let largest = scores.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
        let sum: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
        for d in 0..p.v_dim {
            let dot: f64 = (0..seen)
                .map(|j| {
                    (scores[j] - largest).exp() / sum * f64::from(v[batch * p.v[0] + kv * p.v[1] + j * p.v[2] + d])
                })
                .sum();
            out[batch * p.out[0] + head * p.out[1] + i * p.out[2] + d] = dot;
        }
    }
}

/// Batch, heads, heads of keys and values, queries, keys, size of a head, whether it is causal.
type Case = (usize, usize, usize, usize, usize, usize, bool);

const CASES: [Case; 14] = [
    (1, 1, 1, 1, 1, 4, false),
    (2, 3, 3, 20, 20, 16, true),
    (1, 4, 2, 7, 33, 24, true),
    (1, 4, 2, 1, 300, 24, false),
    (2, 8, 1, 1, 3000, 24, true),
    (1, 6, 2, 1, 70, 8, false),
    (2, 2, 1, 3, 40, 20, true),
    (1, 2, 1, 130, 150, 64, false),
    (1, 1, 1, 40, 5000, 8, true),
    (2, 4, 2, 130, 150, 24, true),
    (2, 4, 2, 130, 150, 24, false),
    // More queries than are computed together, so that keys and values are packed.
    (1, 2, 1, 270, 150, 64, false),
    (2, 4, 2, 270, 150, 24, true),
    (2, 4, 2, 270, 150, 24, false),
];

/// Heads side by side in a row, as a projection leaves them.
fn params((batch, heads, kv_heads, q_len, kv_len, dim, causal): Case) -> AttentionParams {
    let side = |len: usize, heads: usize| [len * heads * dim, dim, heads * dim];
    AttentionParams {
        batch,
        heads,
        kv_heads,
        q_len,
        kv_len,
        head_dim: dim,
        v_dim: dim,
        scale: 0.25,
        causal,
        hidden_gives_zeros: false,
        q: side(q_len, heads),
        k: side(kv_len, kv_heads),
        v: side(kv_len, kv_heads),
        out: side(q_len, heads),
        mask: [0, 0, kv_len, 1],
        math: Math::F32,
    }
}

/// Queries, keys and values.
fn operands(p: &AttentionParams) -> [Vec<f32>; 3] {
    let len = |rows: usize, heads: usize| p.batch * rows * heads * p.head_dim;
    [values(len(p.q_len, p.heads), 1), values(len(p.kv_len, p.kv_heads), 2), values(len(p.kv_len, p.kv_heads), 3)]
}

fn run(threads: &Threads, p: &AttentionParams, [q, k, v]: &[Vec<f32>; 3], mask: Option<&[f32]>) -> Vec<f32> {
    let mut out = vec![9.0; q.len()];
    let mut scratch = vec![f32::NAN; attention_scratch_len(p, threads.count()).expect("countable")];
    attention(threads, p, q, k, v, mask, &mut out, &mut scratch);
    out
}

/// Without a mask, and with one that hides all keys of the last query.
fn check(p: &AttentionParams, threads: &Threads, error: f64) {
    let operands = operands(p);
    let mut mask = values(p.q_len * p.kv_len, 4);
    mask[(p.q_len - 1) * p.kv_len..].fill(f32::NEG_INFINITY);
    for mask in [None, Some(&mask[..])] {
        let mut want = vec![0.0; operands[0].len()];
        reference(p, &operands[0], &operands[1], &operands[2], mask, &mut want);
        for (got, want) in run(threads, p, &operands, mask).iter().zip(&want) {
            let close = (f64::from(*got) - want).abs() < error || got.is_nan() && want.is_nan();
            assert!(close, "{:?} {p:?} {got} {want}", threads.isa());
        }
    }
}

#[test]
fn against_f64() {
    for (case, &isa) in CASES.iter().flat_map(|case| Isa::available().iter().map(move |isa| (case, isa))) {
        [1, 2].into_iter().for_each(|count| check(&params(*case), &Threads::with_isa(count, isa), 1e-5));
    }
}

/// Keys that the mask hides at the end are left out only where nothing but zeros would come of them.
#[test]
fn hidden_keys_at_the_end_change_nothing() {
    for (heads, kv_heads, q_len) in [(4, 2, 1), (2, 2, 3), (8, 1, 1), (1, 1, 20)] {
        let (kv_len, dim) = (150, 8);
        let p = params((1, heads, kv_heads, q_len, kv_len, dim, false));
        let p = AttentionParams { scale: 0.5, hidden_gives_zeros: true, ..p };
        let mut operands = operands(&p);
        let mut mask = values(q_len * kv_len, 4);
        for (query, row) in mask.chunks_exact_mut(kv_len).enumerate() {
            row[(60 + query).min(kv_len)..].fill(f32::NEG_INFINITY);
        }
        for &isa in Isa::available() {
            let threads = Threads::with_isa(2, isa);
            let mut want = vec![0.0; operands[0].len()];
            reference(&p, &operands[0], &operands[1], &operands[2], Some(&mask), &mut want);
            let found = run(&threads, &p, &operands, Some(&mask));
            assert!(found.iter().zip(&want).all(|(got, want)| (f64::from(*got) - want).abs() < 1e-5), "{isa:?}");
            let nothing = vec![f32::NEG_INFINITY; mask.len()];
            assert_eq!(run(&threads, &p, &operands, Some(&nothing)), vec![0.0; operands[0].len()]);
        }
        // Zero times infinity.
        operands[2][140 * kv_heads * dim] = f32::INFINITY;
        for &isa in Isa::available() {
            assert!(run(&Threads::with_isa(2, isa), &p, &operands, Some(&mask))[0].is_nan());
        }
    }
}

/// Every way of computing f32 by products of bf16; matrix units are emulated where there are none.
#[cfg(target_arch = "x86_64")]
mod units {
    use super::*;
    use crate::tests::harness::{error_of_largest, with_units};

    const WAYS: [(Math, f64); 3] = [(Math::Bf16x6, 2e-6), (Math::Bf16x3, 2e-5), (Math::Bf16, 2e-2)];

    fn on_units<'t>(
        threads: &'t [Threads],
        p: &'t AttentionParams,
    ) -> impl Iterator<Item = (&'t Threads, AttentionParams, f64)> {
        let ways = threads.iter().flat_map(|threads| WAYS.map(|(math, error)| (threads, math, error)));
        ways.map(|(threads, math, error)| (threads, AttentionParams { math, ..p.clone() }, error))
            .filter(|(threads, p, _)| p.is_on_units(threads))
    }

    #[test]
    fn shapes_and_masks() {
        let more = [
            // One key more than whole tiles, and one element; windows; a batch that shares a thread's tiles.
            (1, 1, 1, 32, 33, 33, false),
            (3, 2, 2, 49, 49, 32, false),
            (2, 2, 1, 24, 64, 40, false),
            (1, 1, 1, 100, 3100, 16, false),
            (1, 2, 2, 61, 61, 70, true),
        ];
        let threads = with_units([1, 2]);
        for case in CASES.into_iter().chain(more) {
            on_units(&threads, &params(case)).for_each(|(threads, p, error)| check(&p, threads, error));
        }
    }

    /// The error of each way is what its pieces leave out, which no other kernel's is: so it ran.
    #[test]
    fn errors_are_those_of_the_pieces() {
        let p = params((1, 2, 2, 64, 96, 64, false));
        let operands = operands(&p);
        let mut want = vec![0.0; operands[0].len()];
        reference(&p, &operands[0], &operands[1], &operands[2], None, &mut want);
        let threads = with_units([1]);
        let mut count = 0;
        for (threads, p, error) in on_units(&threads, &p) {
            let off = error_of_largest(&run(threads, &p, &operands, None), &want);
            assert!((error / 400.0..error).contains(&off), "{:?}: {off:e}", p.math);
            count += 1;
        }
        assert!(count >= 3 || threads.is_empty());
    }

    /// What is not finite, or overflows where it is rounded to bf16, comes out as of products of f32.
    #[test]
    fn numbers_that_are_not_finite() {
        let p = params((1, 2, 2, 40, 50, 24, false));
        let threads = with_units([1]);
        for (operand, special) in
            [f32::INFINITY, f32::NAN, f32::MAX].into_iter().flat_map(|it| (0..3).map(move |of| (of, it)))
        {
            let mut operands = operands(&p);
            operands[operand][33 * 48 + 5] = special;
            for (threads, p, error) in on_units(&threads, &p) {
                let plain = AttentionParams { math: Math::F32, ..p.clone() };
                let want = run(threads, &plain, &operands, None);
                for (got, want) in run(threads, &p, &operands, None).iter().zip(&want) {
                    let close = f64::from((got - want).abs()) <= error * (1.0 + f64::from(want.abs()));
                    assert!(
                        close || got == want || got.is_nan() && want.is_nan(),
                        "{:?} {special} {operand}: {got} {want}",
                        p.math
                    );
                }
            }
        }
    }
}
