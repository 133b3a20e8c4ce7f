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

/// e^x: 2^n * p(r) with x = n ln 2 + r (Cody-Waite) and the Cephes polynomial for e^r.
///
/// # Safety
/// The CPU has the features of `V` (so for every function of this file).
#[inline(always)]
pub(crate) unsafe fn exp<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        // Beyond the upper end the result is infinity, below the lower one 0 (rather than a denormal number, which costs
        // a hundred cycles, and masked attention scores end there). NaN stays: it is the second operand.
        let lowest = V::splat(-87.336_54);
        let input = x;
        let x = lowest.max(V::splat(89.0).min(x));
        let n = x.mul(V::splat(std::f32::consts::LOG2_E)).round();
        let r = n.fma(V::splat(-0.693_359_4), x);
        let r = n.fma(V::splat(2.121_944_4e-4), r);
        let p = horner(r, [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5]);
        let p = p.fma(r.mul(r), r).add(V::splat(1.0));
        V::select_lt(input, lowest, V::splat(0.0), p.scale2(n))
    }
}

/// erf(x): odd polynomial near 0, else 1 - exp(q(|x|)) (minimax fits by N. Juffa).
///
/// # Safety
/// As [`exp`].
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
        let far = V::splat(1.0).sub(exp(far.fma(t, V::splat(0.0).sub(t))));
        V::select_lt(V::splat(0.927_734_4), t, far.copysign(x), near)
    }
}

/// tanh(x): odd polynomial near 0, else 1 - 2 / (e^2|x| + 1).
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(crate) unsafe fn tanh<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let t = x.abs();
        let s = x.mul(x);
        let near = horner(s, [1.573_944e-2, -5.230_255_8e-2, 1.331_524_7e-1, -3.333_276_8e-1]);
        let near = near.mul(s).fma(x, x);
        let far = exp(t.add(t)).add(V::splat(1.0));
        let far = V::splat(1.0).sub(V::splat(2.0).div(far));
        V::select_lt(V::splat(0.55), t, far.copysign(x), near)
    }
}

/// 1 / (1 + e^-x).
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(crate) unsafe fn sigmoid<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe { V::splat(1.0).div(exp(V::splat(0.0).sub(x)).add(V::splat(1.0))) }
}

/// x * (1 + erf(x / sqrt 2)) / 2.
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(crate) unsafe fn gelu_erf<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let half = x.mul(V::splat(0.5));
        half.fma(erf(x.mul(V::splat(std::f32::consts::FRAC_1_SQRT_2))), half)
    }
}

/// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2.
///
/// # Safety
/// As [`exp`].
#[inline(always)]
pub(crate) unsafe fn gelu_tanh<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let inner = x.mul(x).mul(V::splat(0.044_715)).fma(x, x).mul(V::splat(0.797_884_6));
        let half = x.mul(V::splat(0.5));
        half.fma(tanh(inner), half)
    }
}

/// e^x - 1 for x <= 0, without cancellation: 2 t / (1 - t) with t = tanh(x / 2).
///
/// # Safety
/// As [`exp`].
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
/// As [`exp`].
#[inline(always)]
pub(crate) unsafe fn mish<V: V16>(x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        // Above 20 the factor is 1 in f32, and e^2x would overflow later; NaN stays.
        let e = exp(V::splat(20.0).min(x));
        let n = e.mul(e.add(V::splat(2.0)));
        x.mul(n.div(n.add(V::splat(2.0))))
    }
}
