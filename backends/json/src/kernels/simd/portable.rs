//! The vector for every CPU: plain loops that the compiler makes of what there is.

use super::V16;

/// The vector of [`Isa::Portable`](crate::kernels::isa::Isa::Portable): an array that LLVM splits into the registers the target has.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Portable16([f32; 16]);

impl Portable16 {
    #[inline(always)]
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        let mut out = self;
        for i in 0..16 {
            out.0[i] = f(self.0[i], b.0[i]);
        }
        out
    }
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> Self {
        self.zip(self, |x, _| f(x))
    }
}

/// 1.5 * 2^23: adding it leaves an integer in the low mantissa bits.
const MAGIC: f32 = 12_582_912.0;

#[inline(always)]
fn pow2(n: f32) -> f32 {
    f32::from_bits(((n + MAGIC).to_bits() << 23).wrapping_add(127 << 23))
}

impl V16 for Portable16 {
    const REGISTERS: usize = 4;
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the caller vouches for 16 readable f32; alignment is not assumed.
        Portable16(unsafe { p.cast::<[f32; 16]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Portable16([x; 16])
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the caller vouches for 16 writable f32; alignment is not assumed.
        unsafe { p.cast::<[f32; 16]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    fn fma(self, b: Self, c: Self) -> Self {
        let mut out = c;
        for i in 0..16 {
            // Without hardware FMA `mul_add` is a library call.
            out.0[i] = if cfg!(any(target_arch = "aarch64", target_feature = "fma")) {
                self.0[i].mul_add(b.0[i], c.0[i])
            } else {
                self.0[i] * b.0[i] + c.0[i]
            };
        }
        out
    }
    #[inline(always)]
    fn add(self, b: Self) -> Self {
        self.zip(b, |x, y| x + y)
    }
    #[inline(always)]
    fn sub(self, b: Self) -> Self {
        self.zip(b, |x, y| x - y)
    }
    #[inline(always)]
    fn mul(self, b: Self) -> Self {
        self.zip(b, |x, y| x * y)
    }
    #[inline(always)]
    fn div(self, b: Self) -> Self {
        self.zip(b, |x, y| x / y)
    }
    #[inline(always)]
    fn max(self, b: Self) -> Self {
        self.zip(b, |x, y| if x > y { x } else { y })
    }
    #[inline(always)]
    fn min(self, b: Self) -> Self {
        self.zip(b, |x, y| if x < y { x } else { y })
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        self.map(f32::sqrt)
    }
    #[inline(always)]
    fn abs(self) -> Self {
        self.map(f32::abs)
    }
    #[inline(always)]
    fn copysign(self, sign: Self) -> Self {
        self.zip(sign, f32::copysign)
    }
    #[inline(always)]
    fn scale2(self, n: Self) -> Self {
        self.zip(n, |x, n| {
            let half = (n * 0.5 + MAGIC) - MAGIC;
            x * pow2(half) * pow2(n - half)
        })
    }
    #[inline(always)]
    fn select_lt(a: Self, b: Self, yes: Self, no: Self) -> Self {
        let mut out = no;
        for i in 0..16 {
            out.0[i] = if a.0[i] < b.0[i] { yes.0[i] } else { no.0[i] };
        }
        out
    }
    #[inline(always)]
    fn nan_or(self, other: Self) -> Self {
        let mut out = other;
        for i in 0..16 {
            out.0[i] = if self.0[i].is_nan() { self.0[i] } else { other.0[i] };
        }
        out
    }
}
