//! Tests of what vectors do by instructions of their own.

use super::V16;
use crate::kernels::isa::{Isa, Kernel, dispatch};

/// The lanes of the first values of a slice, the rest a number of its own.
struct Part<'a>(&'a [f32]);

impl Kernel for Part<'_> {
    type Out = [f32; 16];

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> [f32; 16] {
        // SAFETY: `dispatch` checked the features; the slice has as many values.
        unsafe { V::load_part(self.0.as_ptr(), self.0.len(), -7.0) }.lanes()
    }
}

#[test]
fn parts_end_where_they_are_said_to() {
    for &isa in Isa::available() {
        for len in 0..=16 {
            // As long as the part, so that a read behind it would be one behind the allocation.
            let values: Vec<f32> = (0..len).map(|at| at as f32 + 0.5).collect();
            let want: [f32; 16] = std::array::from_fn(|at| values.get(at).copied().unwrap_or(-7.0));
            assert_eq!(dispatch(isa, Part(&values)), want, "{isa:?}, {len}");
        }
    }
}

/// x * 2^n, by both ways.
struct Scale(f32, f32);

impl Kernel for Scale {
    type Out = [f32; 2];

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> [f32; 2] {
        // SAFETY: `dispatch` checked the features.
        let (x, n) = unsafe { (V::splat(self.0), V::splat(self.1)) };
        [x.scale2(n).lanes()[15], x.scale2_of_normal(n).lanes()[15]]
    }
}

#[test]
fn powers_of_two_scale_exactly() {
    let below_two = f32::from_bits(2.0f32.to_bits() - 1);
    for &isa in Isa::available() {
        for x in [0.5, 0.707, 1.0, 1.234_567_9, below_two] {
            for n in -126..=127 {
                let want = (f64::from(x) * 2f64.powi(n)) as f32;
                let [any, normal] = dispatch(isa, Scale(x, n as f32));
                assert_eq!(any, want, "{isa:?}: {x} * 2^{n}");
                assert!(normal == want || want < f32::MIN_POSITIVE, "{isa:?}: {x} * 2^{n} is not {normal}");
            }
            assert!(dispatch(isa, Scale(f32::NAN, f32::NAN))[1].is_nan(), "{isa:?}");
        }
    }
}
