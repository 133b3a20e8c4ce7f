//! Arithmetic that is the same for every element type: integers wrap and never trap, floats round once.

use half::{bf16, f16};

use super::array::Item;

/// An element type that one can calculate with.
pub(crate) trait Number: Item {
    /// Sum.
    fn add(self, other: Self) -> Self;
    /// Difference.
    fn sub(self, other: Self) -> Self;
    /// Product.
    fn mul(self, other: Self) -> Self;
    /// Quotient; of integers truncated toward zero, and 0 where the divisor is 0.
    fn div(self, other: Self) -> Self;
    /// Remainder with the sign of the dividend (C's `fmod`); of integers 0 where the divisor is 0.
    fn fmod(self, other: Self) -> Self;
    /// Remainder with the sign of the divisor (Python's `%`), which a zero has too; of integers 0 where the divisor is 0.
    fn modulo(self, other: Self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Number for $t {
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn div(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_div(other) }
            }
            fn fmod(self, other: Self) -> Self {
                if other == 0 { 0 } else { self.wrapping_rem(other) }
            }
            fn modulo(self, other: Self) -> Self {
                let (a, b) = (self as i128, other as i128);
                if b == 0 { 0 } else { ((a % b + b) % b) as Self }
            }
            fn abs(self) -> Self {
                (self as i128).unsigned_abs() as Self
            }
        }
    )*};
}
integers!(i8 i16 i32 i64 u8 u16 u32 u64);

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Number for $t {
            fn add(self, other: Self) -> Self {
                self + other
            }
            fn sub(self, other: Self) -> Self {
                self - other
            }
            fn mul(self, other: Self) -> Self {
                self * other
            }
            fn div(self, other: Self) -> Self {
                self / other
            }
            fn fmod(self, other: Self) -> Self {
                self % other
            }
            fn modulo(self, other: Self) -> Self {
                let zero = Self::default();
                let rest = self % other;
                if rest == zero {
                    return if other.is_sign_negative() { -zero } else { zero };
                }
                // Nothing is left of an infinite divisor: the sum is it.
                if (rest < zero) != (other < zero) && !rest.is_nan() { rest + other } else { rest }
            }
            fn abs(self) -> Self {
                Self::from_f64(self.to_f64().abs())
            }
        }
    )*};
}
floats!(f32 f64 f16 bf16);

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn remainders_follow_c_and_python() {
        let cases = [(7i8, 3, 1, 1), (-7, 3, -1, 2), (7, -3, 1, -2), (-7, -3, -1, -1), (5, 0, 0, 0), (-128, -1, 0, 0)];
        for (a, b, fmod, modulo) in cases {
            assert_eq!((a.fmod(b), a.modulo(b)), (fmod, modulo), "{a} by {b}");
        }
        let infinity = f32::INFINITY;
        assert_eq!([(-1f32).modulo(infinity), 1f32.modulo(infinity)], [infinity, 1.0]);
        assert!((-4f32).modulo(2.0).is_sign_positive() && 4f32.modulo(-2.0).is_sign_negative());
        assert!(infinity.modulo(2.0).is_nan() && 1f32.modulo(0.0).is_nan());
        assert_eq!(((-4.3f32).fmod(2.0), (-4.5f32).modulo(2.0)), (-4.3 % 2.0, 1.5));
    }

    #[test]
    fn integers_wrap_and_never_trap() {
        assert_eq!((i8::MIN.div(-1), 1u8.div(0), (-7i32).div(2), Number::abs(i8::MIN)), (i8::MIN, 0, -3, i8::MIN));
        assert_eq!((200u8.add(100), 1u8.sub(2), i32::MAX.mul(2)), (44, 255, -2));
    }
}
