//! The matrix products against plain f64 loops.

use byoc_plugin_api::{bf16, f16};

use super::*;
use crate::tests::harness::noise;

fn reference(p: &GemmParams, a: &[f32], b: &[f32], c: &mut [f64], e: &Epilogue<'_>) {
    for at in 0..p.batch[0] * p.batch[1] * p.m * p.n {
        let (j, i, matrix) = (at % p.n, at / p.n % p.m, at / p.n / p.m);
        let index = [matrix / p.batch[1], matrix % p.batch[1]];
        let offset = |s: [usize; 2]| index[0] * s[0] + index[1] * s[1];
        let (oa, ob, oc) = (offset(p.a_batch), offset(p.b_batch), offset(p.c_batch) + i * p.c_row + j);
        let mut sum = 0.0;
        for k in 0..p.k {
            sum += f64::from(a[oa + i * p.a[0] + k * p.a[1]]) * f64::from(b[ob + k * p.b[0] + j * p.b[1]]);
        }
        sum *= f64::from(p.alpha);
        if p.beta != 0.0 {
            sum += f64::from(p.beta) * c[oc];
        }
        sum += match e.bias {
            Bias::None => 0.0,
            Bias::PerRow(v) => f64::from(v[i]),
            Bias::PerCol(v) => f64::from(v[j]),
        };
        sum += e.residual.map_or(0.0, |r| f64::from(r[oc]));
        c[oc] = match e.act {
            Activation::Relu => sum.max(0.0),
            Activation::Tanh => sum.tanh(),
            _ => sum,
        };
    }
}

/// How B is given.
#[derive(Clone, Copy, Debug)]
enum Given {
    Plain,
    Packed,
    PackedF16,
    PackedBF16,
}

/// `error` is what a product may be off by, of the square root of k and of itself.
fn compare(p: &GemmParams, e: &Epilogue<'_>, threads: &Threads, given: Given, error: f64) {
    let a = noise(p.extent([p.m, p.k], p.a, p.a_batch).expect("countable"), 1);
    let mut b = noise(p.extent([p.k, p.n], p.b, p.b_batch).expect("countable"), 2);
    // Of numbers that the type has the product is as exact as of any other.
    match given {
        Given::PackedF16 => b.iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32()),
        Given::PackedBF16 => b.iter_mut().for_each(|value| *value = bf16::from_f32(*value).to_f32()),
        Given::Plain | Given::Packed => {}
    }
    let mut c = noise(p.extent([p.m, p.n], [p.c_row, 1], p.c_batch).expect("countable"), 3);
    if p.beta == 0.0 {
        c.fill(f32::NAN);
    }
    let mut want: Vec<f64> = c.iter().map(|v| f64::from(*v)).collect();
    reference(p, &a, &b, &mut want, e);
    let mut scratch = vec![f32::NAN; gemm_scratch_len(p, threads.count()).expect("countable")];
    let mut pb = vec![f32::NAN; packed_b_len(p.k, p.n).expect("countable")];
    if p.b_batch == [0, 0] {
        pack_b(p.k, p.n, &b, p.b, &mut pb);
    }
    let (halves, brains): (Vec<f16>, Vec<bf16>) =
        pb.iter().map(|&value| (f16::from_f32(value), bf16::from_f32(value))).unzip();
    let packed = match given {
        Given::Plain => None,
        Given::Packed => Some(PackedWeights::F32(&pb)),
        Given::PackedF16 => Some(PackedWeights::F16(&halves)),
        Given::PackedBF16 => Some(PackedWeights::BF16(&brains)),
    };
    match packed {
        Some(packed) => gemm_packed(threads, p, &a, packed, &mut c, e, &mut scratch),
        None => gemm(threads, p, &a, &b, &mut c, e, &mut scratch),
    }
    for (i, (g, w)) in c.iter().zip(&want).enumerate() {
        let close = (f64::from(*g) - w).abs() <= error * ((p.k as f64).sqrt() + w.abs()) || g.is_nan() && w.is_nan();
        assert!(close, "{:?} {} threads {given:?} {p:?}: [{i}] {g} for {w}", threads.isa(), threads.count());
    }
}

/// Every instruction set, thread count and epilogue, B plain and (unless batched) packed.
fn check(p: &GemmParams) {
    let (rows, columns) = (noise(p.m, 5), noise(p.n, 6));
    let residual = noise(p.extent([p.m, p.n], [p.c_row, 1], p.c_batch).expect("countable"), 7);
    let epilogues = [
        Epilogue::default(),
        Epilogue { bias: Bias::PerRow(&rows), residual: None, act: Activation::Tanh },
        Epilogue { bias: Bias::PerCol(&columns), residual: Some(&residual), act: Activation::Relu },
    ];
    for e in &epilogues {
        for &isa in Isa::available() {
            for threads in [1, 2, 3].map(|count| Threads::with_isa(count, isa)) {
                compare(p, e, &threads, Given::Plain, 2e-6);
                if p.b_batch == [0, 0] {
                    for given in [Given::Packed, Given::PackedF16, Given::PackedBF16] {
                        compare(p, e, &threads, given, 2e-6);
                    }
                }
            }
        }
    }
}

#[test]
fn shapes_strides_and_epilogues() {
    for (m, n, k) in [
        (1, 1, 1),
        (1, 40, 33),
        (1, 3000, 50),
        (2, 17, 100),
        (3, 64, 16),
        (4, 300, 130),
        (5, 33, 20),
        (7, 16, 9),
        (13, 47, 401),
        (50, 64, 64),
        (64, 300, 70),
        (130, 130, 130),
        (400, 20, 40),
        // A block of rows that takes those that would be few, the most that it takes, and one more.
        (197, 17, 20),
        (293, 20, 18),
        (294, 20, 18),
        // Several depths of a packed B.
        (9, 47, 801),
        (7, 63, 801),
        // Few rows of several panels at a time, and what is left of both.
        (1, 100, 51),
        (2, 100, 51),
        (3, 100, 51),
        (17, 33, 1601),
        (20, 15, 0),
        (3, 5, 0),
        (2, 0, 7),
        (0, 5, 7),
    ] {
        let p = GemmParams::dense(m, n, k);
        check(&p);
        check(&p.clone().trans_a());
        check(&p.clone().trans_b());
        check(&GemmParams { alpha: 0.5, beta: 2.0, c_row: n + 3, ..p.trans_a().trans_b() });
    }
}

#[test]
fn batches() {
    for (m, n, k) in [(1, 20, 40), (9, 33, 40), (40, 64, 16), (2, 5, 0)] {
        let p = GemmParams::dense(m, n, k);
        // Heads side by side in a row, as attention has them, and a broadcast B.
        check(&GemmParams {
            a: [3 * k, 1],
            c_row: 3 * n,
            batch: [2, 3],
            a_batch: [m * 3 * k, k],
            b_batch: [0, k * n],
            c_batch: [m * 3 * n, n],
            ..p.clone()
        });
        check(&GemmParams { batch: [3, 1], a_batch: [m * k, 0], c_batch: [m * n, 0], ..p });
    }
}

/// Every way of computing f32 on matrix units, which are emulated where there are none.
#[cfg(target_arch = "x86_64")]
mod matrix_units {
    use super::*;
    use crate::tests::harness::{as_in_f32, error_of_largest, with_units};

    const WAYS: [(Math, f64); 3] = [(Math::Bf16x6, 1e-6), (Math::Bf16x3, 1e-5), (Math::Bf16, 4e-3)];

    fn check(p: &GemmParams) {
        let (rows, columns) = (noise(p.m, 5), noise(p.n, 6));
        let residual = noise(p.extent([p.m, p.n], [p.c_row, 1], p.c_batch).expect("countable"), 7);
        let epilogues = [
            Epilogue { bias: Bias::PerRow(&rows), residual: None, act: Activation::Tanh },
            Epilogue { bias: Bias::PerCol(&columns), residual: Some(&residual), act: Activation::Relu },
        ];
        for threads in with_units([1, 2]) {
            for (index, (math, error)) in
                WAYS.into_iter().enumerate().filter(|(_, (math, _))| threads.unit(*math).is_some())
            {
                for given in [Given::Packed, Given::PackedF16, Given::PackedBF16] {
                    let p = GemmParams { math, ..p.clone() };
                    compare(&p, &epilogues[index % 2], &threads, given, error);
                }
            }
        }
    }

    #[test]
    fn shapes_strides_and_epilogues() {
        for (m, n, k) in [
            (16, 16, 32),
            (17, 1, 1),
            (31, 47, 33),
            (32, 32, 64),
            (40, 33, 257),
            (49, 65, 130),
            // Several blocks of rows; several parts of k, of one slab and of two.
            (300, 20, 40),
            (33, 40, 513),
            (16, 17, 1601),
            (20, 70, 801),
        ] {
            let p = GemmParams::dense(m, n, k);
            check(&p);
            check(&p.clone().trans_a());
            check(&GemmParams { alpha: 0.5, beta: 2.0, c_row: n + 3, ..p });
        }
    }

    #[test]
    fn batches() {
        let (m, n, k) = (20, 33, 40);
        let p = GemmParams::dense(m, n, k);
        check(&GemmParams { batch: [2, 3], a_batch: [3 * m * k, m * k], c_batch: [3 * m * n, m * n], ..p });
    }

    /// The error of each way is what its pieces leave out, which no other kernel's is: so it ran. Weights of bf16 leave out nothing.
    #[test]
    fn errors_are_those_of_the_pieces() {
        let p = GemmParams::dense(64, 64, 768);
        let (a, exact) = (noise(p.m * p.k, 1), noise(p.k * p.n, 2));
        let rounded: Vec<f32> = exact.iter().map(|value| bf16::from_f32(*value).to_f32()).collect();
        let ways = [
            (Math::Bf16x6, 1e-8..5e-7, 1e-8..5e-7),
            (Math::Bf16x3, 1e-6..1e-5, 1e-6..1e-5),
            (Math::Bf16, 5e-4..5e-3, 5e-4..5e-3),
        ];
        for (threads, (math, of_f32, of_bf16)) in
            with_units([1]).iter().flat_map(|it| ways.clone().map(|way| (it, way)))
        {
            if threads.unit(math).is_none() {
                continue;
            }
            for (b, range) in [(&exact, of_f32), (&rounded, of_bf16)] {
                let p = GemmParams { math, ..p.clone() };
                let mut want = vec![0.0; p.m * p.n];
                reference(&p, &a, b, &mut want, &Epilogue::default());
                let mut panels = vec![0.0; packed_b_len(p.k, p.n).expect("countable")];
                pack_b(p.k, p.n, b, p.b, &mut panels);
                let brains: Vec<bf16> = panels.iter().map(|value| bf16::from_f32(*value)).collect();
                let packed =
                    if std::ptr::eq(b, &rounded) { PackedWeights::BF16(&brains) } else { PackedWeights::F32(&panels) };
                let mut scratch = vec![f32::NAN; gemm_scratch_len(&p, 1).expect("countable")];
                let mut c = vec![f32::NAN; p.m * p.n];
                gemm_packed(threads, &p, &a, packed, &mut c, &Epilogue::default(), &mut scratch);
                let error = error_of_largest(&c, &want);
                assert!(range.contains(&error), "{math:?}: {error:e}");
            }
        }
    }

    /// What is not finite, or overflows where it is rounded to bf16, comes out as of products of f32.
    #[test]
    fn numbers_that_are_not_finite() {
        let p = GemmParams::dense(40, 40, 300);
        let [threads] = &with_units([1])[..] else { return };
        let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::from_bits(0x7fff_ffff)];
        for (in_a, special) in special.into_iter().flat_map(|special| [(true, special), (false, special)]) {
            let (mut a, mut b) = (noise(p.m * p.k, 1), noise(p.k * p.n, 2));
            if in_a {
                a[17 * p.k + 280] = special
            } else {
                b[280 * p.n + 35] = special
            }
            let mut packed = vec![0.0; packed_b_len(p.k, p.n).expect("countable")];
            pack_b(p.k, p.n, &b, p.b, &mut packed);
            let product = |threads: &Threads, math: Math| {
                let p = GemmParams { math, ..p.clone() };
                let mut c = vec![0.0; p.m * p.n];
                let mut scratch = vec![0.0; gemm_scratch_len(&p, 1).expect("countable")];
                let packed = PackedWeights::F32(&packed);
                gemm_packed(threads, &p, &a, packed, &mut c, &Epilogue::default(), &mut scratch);
                c
            };
            let want = product(threads, Math::F32);
            assert!(special == f32::MAX || want.iter().any(|value| !value.is_finite()));
            for (math, error) in WAYS {
                for (got, want) in product(threads, math).iter().zip(&want) {
                    assert!(as_in_f32(*got, *want, 20.0 * error), "{math:?} {special} {in_a}: {got} for {want}");
                }
            }
        }
    }
}
