//! Vectorised exp, erf, tanh and what is built on them; relative error about 1e-7 to 3e-7 against f64.

use super::simd::V16;

/// Evaluates a polynomial, highest coefficient first, by Horner's rule.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
unsafe fn horner<V: V16, const N: usize>(x: V, coefficients: [f32; N]) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let mut r = V::splat(coefficients[0]);
        for c in &coefficients[1..] {
            r = r.fma(x, V::splat(*c));
        }
        r
    }
}

/// Evaluates a polynomial, highest coefficient first, by pairs of coefficients in powers of x^2, and the last one by Horner's rule, which
/// keeps its accuracy: one multiplication more, but a third fewer operations that wait for each other. Where two hardware threads share
/// a core, few values are under way at a time.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
unsafe fn in_pairs<V: V16, const N: usize>(x: V, c: [f32; N]) -> V {
    const { assert!(N > 2) };
    // SAFETY: the caller vouches for the features.
    unsafe {
        let square = x.mul(x);
        let mut at = 1 + N % 2;
        let mut r = if N % 2 == 1 { x.fma(V::splat(c[0]), V::splat(c[1])) } else { V::splat(c[0]) };
        while at + 1 < N {
            r = r.fma(square, x.fma(V::splat(c[at]), V::splat(c[at + 1])));
            at += 2;
        }
        r.fma(x, V::splat(c[N - 1]))
    }
}

/// ln 2 as the difference of two f32, of which the first has so few digits that its products with exponents are exact.
const LN_2: f32 = 0.693_359_4;
const LN_2_EXCESS: f32 = 2.121_944_4e-4;

/// The integer nearest to `x * factor`, ties to even; only where that is below 2^22.
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
unsafe fn round_product<V: V16>(x: V, factor: f32) -> V {
    // In f32 a sum of this size has no fraction. That is two operations, where rounding alone is two on some processors.
    const SIZE: f32 = 12_582_912.0;
    // SAFETY: the caller vouches for the features.
    unsafe { x.fma(V::splat(factor), V::splat(SIZE)).sub(V::splat(SIZE)) }
}

/// 2^n * e^r for integral n and |r| <= ln 2 / 2, which is at least 2^-126 and below 2^128, with a polynomial of relative error 2e-8 (a
/// weighted least-squares fit, exact at 0, to the least greatest error).
///
/// # Safety
/// The CPU has the features of `V` (so for every function of this file).
#[inline(always)]
unsafe fn scaled_exp<V: V16>(n: V, r: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe { exp_of_rest(r).scale2_of_normal(n) }
}

/// e^r, as [`scaled_exp`] has it.
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
unsafe fn exp_of_rest<V: V16>(r: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe { in_pairs(r, [1.384_365_1e-3, 8.374_156e-3, 4.166_8e-2, 1.666_643_2e-1, 4.999_999_4e-1, 1.0, 1.0]) }
}

/// 2^r for |r| <= 1 / 2, by the polynomial of [`exp_of_rest`] with powers of ln 2 in its coefficients.
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
unsafe fn exp2_of_rest<V: V16>(r: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        in_pairs(r, [1.535_335_9e-4, 1.339_887_5e-3, 9.618_437e-3, 5.550_332_7e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0])
    }
}

/// Below it e^x is 0 here (rather than a denormal number, which costs a hundred cycles, and masked attention scores end there).
const LOWEST: f32 = -87.336_54;

/// n and r of x = n ln 2 + r (Cody-Waite), for x from [`LOWEST`] on; NaN stays.
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
unsafe fn exponent_and_rest<V: V16>(x: V) -> (V, V) {
    // SAFETY: the caller vouches for the features.
    unsafe {
        // NaN is the second operand.
        let x = V::splat(LOWEST).max(x);
        let n = round_product(x, std::f32::consts::LOG2_E);
        (n, n.fma(V::splat(LN_2_EXCESS), n.fma(V::splat(-LN_2), x)))
    }
}

/// e^x = 2^n * e^r with x = n ln 2 + r.
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn exp<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features. Beyond the upper end the result is infinity. NaN stays: it is the second operand.
    unsafe {
        let (n, r) = exponent_and_rest(V::splat(89.0).min(x));
        V::select_lt(x, V::splat(LOWEST), V::splat(0.0), exp_of_rest(r).scale2(n))
    }
}

/// [`exp`] where no x is above 88: fewer operations.
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn exp_up_to_88<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let (n, r) = exponent_and_rest(x);
        V::select_lt(x, V::splat(LOWEST), V::splat(0.0), scaled_exp(n, r))
    }
}

/// erf(x): odd polynomial near 0, else 1 - exp(q(|x|)) (minimax fits by N. Juffa).
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn erf<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let t = x.abs();
        let s = x.mul(x);
        let near = horner(
            s,
            [-5.967_617e-4, 4.991_194_2e-3, -2.676_813_5e-2, 1.128_199_25e-1, -3.761_253_4e-1, 1.283_791_7e-1],
        );
        let near = near.fma(x, x);
        let far = horner(
            t,
            [
                -1.728_534_7e-5,
                3.831_972e-4,
                -3.883_964_4e-3,
                2.425_462_2e-2,
                -1.067_778_8e-1,
                -6.348_467e-1,
                -1.287_175_1e-1,
            ],
        );
        let far = V::splat(1.0).sub(exp_up_to_88(far.fma(t, V::splat(0.0).sub(t))));
        V::select_lt(V::splat(0.927_734_4), t, far.copysign(x), near)
    }
}

/// tanh(x): odd polynomial near 0, else 1 - 2 / (e^2|x| + 1).
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn tanh<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let t = x.abs();
        let s = x.mul(x);
        let near = horner(s, [1.573_944e-2, -5.230_255_8e-2, 1.331_524_7e-1, -3.333_276_8e-1]);
        let near = near.mul(s).fma(x, x);
        // From 10 on it is 1 in f32.
        let t_or_10 = V::splat(10.0).min(t);
        let far = exp_up_to_88(t_or_10.add(t_or_10)).add(V::splat(1.0));
        let far = V::splat(1.0).sub(V::splat(2.0).mul(far.reciprocal()));
        V::select_lt(V::splat(0.55), t, far.copysign(x), near)
    }
}

/// 1 / (1 + e^-x).
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn sigmoid<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        // Below the lower end the result is 0, as 1 + e^-x has hardly a normal reciprocal there. NaN stays: it is the second operand.
        let lowest = V::splat(-87.0);
        let input = x;
        let x = lowest.max(V::splat(87.0).min(x));
        // -x = n ln 2 + r.
        let n = round_product(x, -std::f32::consts::LOG2_E);
        let r = n.fma(V::splat(LN_2_EXCESS), n.fma(V::splat(-LN_2), V::splat(0.0).sub(x)));
        let y = scaled_exp(n, r).add(V::splat(1.0)).reciprocal();
        V::select_lt(input, lowest, V::splat(0.0), y)
    }
}

/// x * (1 + erf(x / sqrt 2)) / 2, as max(x, 0) - |x| / 2 * erfc(|x| / sqrt 2): nothing cancels below zero. The complement is 2
/// to the power of a polynomial in |x|, fitted to its logarithm on 0..8 and falling ever after; relative error 3e-7 for
/// x > 0, 3e-6 down to -3, absolute error 3e-7 up to 9.
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn gelu_erf<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        // There what is fitted is 0. NaN stays: it is the second operand.
        let t = V::splat(11.5).min(x.abs());
        let fit = [
            -1.590_020_8e-6,
            2.409_318_2e-5,
            -1.113_710_24e-4,
            -3.243_514_5e-4,
            7.319_814_5e-3,
            -5.268_464_2e-2,
            -4.591_408e-1,
            -1.151_114,
        ];
        // The power of two is kept at 2^-100 or above, a normal number; that least one is then taken off, so that far from 0 the
        // complement is 0 and not nearly 0.
        const LEAST_LOG: f32 = -100.0;
        const LEAST: f32 = 7.888_609e-31;
        let log = V::splat(LEAST_LOG).max(in_pairs(t, fit).mul(t));
        let n = round_product(log, 1.0);
        let complement = exp2_of_rest(log.sub(n)).scale2_of_normal(n).sub(V::splat(LEAST));
        // max(x, 0), but NaN for negative infinity, as the formula has it.
        let half = x.mul(V::splat(0.5));
        t.mul(V::splat(-0.5)).fma(complement, half.add(half.abs()))
    }
}

/// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2, which is x times the sigmoid of twice that argument.
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn gelu_tanh<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        const TWICE: f32 = 1.595_769_2;
        let slope = x.mul(x).fma(V::splat(TWICE * 0.044_715), V::splat(TWICE));
        x.mul(sigmoid(x.mul(slope)))
    }
}

/// e^x - 1 for x <= 0, without cancellation: 2 t / (1 - t) with t = tanh(x / 2).
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn expm1_negative<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let t = tanh(x.mul(V::splat(0.5)));
        t.add(t).div(V::splat(1.0).sub(t))
    }
}

/// x * tanh(ln(1 + e^x)) = x * n / (n + 2) with n = e^x (e^x + 2).
///
/// # Safety
/// As [`scaled_exp`].
#[inline(always)]
pub(crate) unsafe fn mish<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        // Above 20 the factor is 1 in f32, and e^2x would overflow later; NaN stays.
        let e = exp_up_to_88(V::splat(20.0).min(x));
        let n = e.mul(e.add(V::splat(2.0)));
        x.mul(n.div(n.add(V::splat(2.0))))
    }
}
