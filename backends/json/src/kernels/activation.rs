//! Unary functions: the activations every kernel can fuse, and the others, over slices.

use byoc_plugin_api::float_json as float;
use serde::{Deserialize, Serialize};

use super::isa::{Isa, Kernel, dispatch};
use super::math;
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;

/// A function applied to each output of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// x
    #[default]
    None,
    /// max(x, 0)
    Relu,
    /// min(max(x, min), max)
    Clip {
        /// Lower end.
        #[serde(with = "float")]
        min: f32,
        /// Upper end.
        #[serde(with = "float")]
        max: f32,
    },
    /// x < 0 ? alpha x : x
    LeakyRelu {
        /// Slope below zero.
        #[serde(with = "float")]
        alpha: f32,
    },
    /// x < 0 ? alpha (e^x - 1) : x
    Elu {
        /// Scale below zero.
        #[serde(with = "float")]
        alpha: f32,
    },
    /// 1 / (1 + e^-x)
    Sigmoid,
    /// clip(alpha x + beta, 0, 1)
    HardSigmoid {
        /// Slope.
        #[serde(with = "float")]
        alpha: f32,
        /// Offset.
        #[serde(with = "float")]
        beta: f32,
    },
    /// x clip(alpha x + beta, 0, 1)
    HardSwish {
        /// Slope.
        #[serde(with = "float")]
        alpha: f32,
        /// Offset.
        #[serde(with = "float")]
        beta: f32,
    },
    /// x / (1 + e^-x)
    Silu,
    /// tanh(x)
    Tanh,
    /// x (1 + erf(x / sqrt 2)) / 2
    GeluErf,
    /// The tanh approximation of gelu.
    GeluTanh,
    /// ln(1 + e^x)
    Softplus,
    /// x tanh(ln(1 + e^x))
    Mish,
}

impl Activation {
    /// The range that alone is the whole function (so it can be applied in registers), if it is a clamp.
    pub(crate) fn as_clamp(self) -> Option<(f32, f32)> {
        match self {
            Activation::None => Some((f32::NEG_INFINITY, f32::INFINITY)),
            Activation::Relu => Some((0.0, f32::INFINITY)),
            Activation::Clip { min, max } => Some((min, max)),
            _ => None,
        }
    }

    /// Applies it to a slice that is still in cache, on this thread.
    pub(crate) fn apply(self, isa: Isa, x: &mut [f32]) {
        // SAFETY: one row, valid as a slice.
        unsafe { self.apply_rows(isa, x.as_mut_ptr(), x.len(), 1, x.len()) }
    }

    /// Applies it to `rows` rows of `columns` values, `stride` apart, that are still in cache, on this thread.
    ///
    /// # Safety
    /// The rows are valid for reading and writing.
    pub(crate) unsafe fn apply_rows(self, isa: Isa, x: *mut f32, stride: usize, rows: usize, columns: usize) {
        if self != Activation::None {
            dispatch(isa, Map { op: Unary::Act(self), src: x, dst: x, stride, rows, columns });
        }
    }
}

/// A function of one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unary {
    /// An activation.
    Act(Activation),
    /// e^x
    Exp,
    /// Natural logarithm.
    Log,
    /// Square root.
    Sqrt,
    /// 1 / sqrt(x)
    Rsqrt,
    /// 1 / x
    Reciprocal,
    /// Error function.
    Erf,
    /// |x|
    Abs,
    /// -x
    Neg,
    /// x^2
    Square,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
    /// Tangent.
    Tan,
    /// Largest integer not above x.
    Floor,
    /// Smallest integer not below x.
    Ceil,
    /// Nearest integer, ties to even.
    Round,
    /// -1, 0 or 1; NaN stays.
    Sign,
}

/// dst[i] = op(src[i]).
///
/// # Panics
/// If the lengths differ.
pub fn unary(threads: &Threads, op: Unary, src: &[f32], dst: &mut [f32]) {
    assert_eq!(src.len(), dst.len());
    run(threads, op, src.as_ptr() as usize, dst);
}

/// x[i] = op(x[i]).
pub fn unary_inplace(threads: &Threads, op: Unary, x: &mut [f32]) {
    run(threads, op, x.as_ptr() as usize, x);
}

/// Elements below which a second thread costs more than it saves.
const MIN_CHUNK: usize = 8192;

/// How many contiguous parts to cut `len` cheap elements into.
pub(crate) fn parts_of(threads: &Threads, len: usize) -> usize {
    threads.count().min(len / MIN_CHUNK).max(1)
}

/// `src` is the address of `dst.len()` values: `dst` itself or a separate slice.
fn run(threads: &Threads, op: Unary, src: usize, dst: &mut [f32]) {
    let (len, isa) = (dst.len(), threads.isa());
    let parts = parts_of(threads, len);
    let out = SharedMut::new(dst);
    threads.parallel_for(parts, |i| {
        let range = part(len, parts, i);
        // SAFETY: the parts are disjoint.
        let dst = unsafe { out.slice(range.start, range.len()) };
        let src = (src as *const f32).wrapping_add(range.start);
        dispatch(isa, Map { op, src, dst: dst.as_mut_ptr(), stride: 0, rows: 1, columns: dst.len() });
    });
}

/// dst[i] = op(src[i]) for rows of values; the two are the same or do not overlap.
struct Map {
    op: Unary,
    src: *const f32,
    dst: *mut f32,
    /// From row to row of both.
    stride: usize,
    rows: usize,
    columns: usize,
}

/// The expression with the function that is chosen as a constant, where it is one of those that are named.
macro_rules! by_function {
    ($op:ident, $function:ident => $body:expr, [$({ $($case:tt)* })*]) => {
        match $op {
            $($($case)* => {
                let $function = $($case)*;
                $body
            })*
            $function => $body,
        }
    };
}

impl Map {
    /// # Safety
    /// The CPU has the features of `V`; the rows of `src` and `dst` are valid.
    #[inline(always)]
    unsafe fn vectors<V: V16>(&self, op: Unary) {
        let (mut src, mut dst) = (self.src, self.dst);
        let whole = self.columns / 16 * 16;
        for _ in 0..self.rows {
            // SAFETY: the caller vouches for features and values.
            unsafe {
                for i in (0..whole).step_by(16) {
                    value::<V>(op, V::load(src.add(i))).store(dst.add(i));
                }
                if whole < self.columns {
                    let left = self.columns - whole;
                    value::<V>(op, V::load_part(src.add(whole), left, 0.0)).store_part(dst.add(whole), left);
                }
            }
            (src, dst) = (src.wrapping_add(self.stride), dst.wrapping_add(self.stride));
        }
    }

    /// For functions without a vector form.
    ///
    /// # Safety
    /// The rows of `src` and `dst` are valid.
    unsafe fn scalar(&self, f: impl Fn(f32) -> f32) {
        for at in (0..self.rows).flat_map(|row| (0..self.columns).map(move |i| row * self.stride + i)) {
            // SAFETY: in a row.
            unsafe { *self.dst.add(at) = f(*self.src.add(at)) }
        }
    }
}

impl Kernel for Map {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        // SAFETY: `dispatch` checked the features, and `Map` holds valid rows.
        unsafe {
            match self.op {
                Unary::Act(Activation::Softplus) => self.scalar(|x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
                Unary::Log => self.scalar(f32::ln),
                Unary::Sin => self.scalar(f32::sin),
                Unary::Cos => self.scalar(f32::cos),
                Unary::Tan => self.scalar(f32::tan),
                Unary::Floor => self.scalar(f32::floor),
                Unary::Ceil => self.scalar(f32::ceil),
                Unary::Round => self.scalar(f32::round_ties_even),
                // Each of these has a loop of its own, which keeps its constants in registers.
                op => by_function!(op, function => self.vectors::<V>(function), [
                    { Unary::Act(Activation::Sigmoid) }
                    { Unary::Act(Activation::Silu) }
                    { Unary::Act(Activation::HardSigmoid { alpha, beta }) }
                    { Unary::Act(Activation::HardSwish { alpha, beta }) }
                    { Unary::Act(Activation::Tanh) }
                    { Unary::Act(Activation::GeluErf) }
                    { Unary::Act(Activation::GeluTanh) }
                    { Unary::Exp }
                    { Unary::Erf }
                ]),
            }
        }
    }
}

/// One of the functions that have a vector form; the others are the identity here.
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
unsafe fn value<V: V16>(op: Unary, x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        match op {
            Unary::Act(act) => activate::<V>(act, x),
            Unary::Exp => math::exp(x),
            Unary::Sqrt => x.sqrt(),
            Unary::Rsqrt => one.div(x.sqrt()),
            Unary::Reciprocal => one.div(x),
            Unary::Erf => math::erf(x),
            Unary::Abs => x.abs(),
            Unary::Neg => V::splat(-0.0).sub(x),
            Unary::Square => x.mul(x),
            Unary::Sign => V::select_lt(zero, x, one, V::select_lt(x, zero, V::splat(-1.0), x)),
            _ => x,
        }
    }
}

/// As [`value`].
///
/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
pub(super) unsafe fn activate<V: V16>(act: Activation, x: V) -> V {
    // SAFETY: the caller vouches for the features.
    unsafe {
        let (zero, one) = (V::splat(0.0), V::splat(1.0));
        // NaN is kept: `max` and `min` return their second operand for it.
        match act {
            Activation::None | Activation::Softplus => x,
            Activation::Relu => zero.max(x),
            Activation::Clip { min, max } => V::splat(max).min(V::splat(min).max(x)),
            Activation::LeakyRelu { alpha } => V::select_lt(x, zero, x.mul(V::splat(alpha)), x),
            Activation::Elu { alpha } => {
                V::select_lt(x, zero, math::expm1_negative(zero.min(x)).mul(V::splat(alpha)), x)
            }
            Activation::Sigmoid => math::sigmoid(x),
            Activation::HardSigmoid { alpha, beta } => one.min(zero.max(x.fma(V::splat(alpha), V::splat(beta)))),
            Activation::HardSwish { alpha, beta } => x.mul(one.min(zero.max(x.fma(V::splat(alpha), V::splat(beta))))),
            Activation::Silu => x.mul(math::sigmoid(x)),
            Activation::Tanh => math::tanh(x),
            Activation::GeluErf => math::gelu_erf(x),
            Activation::GeluTanh => math::gelu_tanh(x),
            Activation::Mish => math::mish(x),
        }
    }
}

#[cfg(test)]
mod tests;
