//! The discrete Fourier transform of any length in `n log n` steps: by halves where the length is a power of 2 (J. Cooley and J. Tukey, 1965),
//! as a convolution of such a length otherwise (L. Bluestein, 1970).

use std::f64::consts::PI;
use std::ops::{Add, Mul, Sub};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub(super) re: f64,
    pub(super) im: f64,
}

impl Complex {
    /// `e^(i * angle)`.
    fn turn(angle: f64) -> Complex {
        Complex { re: angle.cos(), im: angle.sin() }
    }

    pub(super) fn conjugate(self) -> Complex {
        Complex { re: self.re, im: -self.im }
    }
}

impl Add for Complex {
    type Output = Complex;
    fn add(self, other: Complex) -> Complex {
        Complex { re: self.re + other.re, im: self.im + other.im }
    }
}

impl Sub for Complex {
    type Output = Complex;
    fn sub(self, other: Complex) -> Complex {
        Complex { re: self.re - other.re, im: self.im - other.im }
    }
}

impl Mul for Complex {
    type Output = Complex;
    fn mul(self, other: Complex) -> Complex {
        Complex { re: self.re * other.re - self.im * other.im, im: self.re * other.im + self.im * other.re }
    }
}

/// The transform of a signal; the inverse one is not divided by the length.
pub(super) fn transform(signal: Vec<Complex>, inverse: bool) -> Vec<Complex> {
    // The inverse transform of the conjugate is the conjugate.
    if inverse {
        let turned = signal.into_iter().map(Complex::conjugate).collect();
        return transform(turned, false).into_iter().map(Complex::conjugate).collect();
    }
    match signal.len() {
        0 | 1 => signal,
        length if length.is_power_of_two() => by_halves(signal),
        _ => by_convolution(&signal),
    }
}

fn by_halves(mut signal: Vec<Complex>) -> Vec<Complex> {
    let length = signal.len();
    let bits = length.trailing_zeros();
    for place in 0..length {
        let other = place.reverse_bits() >> (usize::BITS - bits);
        if place < other {
            signal.swap(place, other);
        }
    }
    let turns: Vec<Complex> = (0..length / 2).map(|k| Complex::turn(-2.0 * PI * k as f64 / length as f64)).collect();
    let mut half = 1;
    while half < length {
        for block in signal.chunks_mut(2 * half) {
            let (even, odd) = block.split_at_mut(half);
            for (k, (even, odd)) in even.iter_mut().zip(odd).enumerate() {
                let turned = *odd * turns[k * (length / (2 * half))];
                (*even, *odd) = (*even + turned, *even - turned);
            }
        }
        half *= 2;
    }
    signal
}

/// `nk = (n^2 + k^2 - (k-n)^2) / 2` makes a convolution of the sum.
fn by_convolution(signal: &[Complex]) -> Vec<Complex> {
    let length = signal.len();
    // The angle of k^2 / 2 in parts of the length: a square modulo twice the length is the same angle, and exact.
    let chirp = |k: usize| {
        let square = (k as u128 * k as u128) % (2 * length as u128);
        Complex::turn(-PI * square as f64 / length as f64)
    };
    let size = (2 * length - 1).next_power_of_two();
    let (mut left, mut right) = (vec![Complex::default(); size], vec![Complex::default(); size]);
    for (k, &value) in signal.iter().enumerate() {
        left[k] = value * chirp(k);
        right[k] = chirp(k).conjugate();
        right[(size - k) % size] = right[k];
    }
    let (left, right) = (by_halves(left), by_halves(right));
    let product = left.into_iter().zip(right).map(|(a, b)| a * b).collect();
    let scale = Complex { re: 1.0 / size as f64, im: 0.0 };
    let sums = transform(product, true);
    (0..length).map(|k| sums[k] * scale * chirp(k)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_gives_the_sum_of_its_definition() {
        for length in [1, 2, 3, 4, 5, 7, 8, 12, 16, 30, 97, 128] {
            let signal: Vec<Complex> =
                (0..length).map(|k| Complex { re: (k * k % 7) as f64 - 3.0, im: (k % 5) as f64 }).collect();
            for inverse in [false, true] {
                let sign = if inverse { 2.0 } else { -2.0 };
                let found = transform(signal.clone(), inverse);
                for (k, &found) in found.iter().enumerate() {
                    let term =
                        |(n, &x): (usize, &Complex)| x * Complex::turn(sign * PI * (k * n) as f64 / length as f64);
                    let expected = signal.iter().enumerate().map(term).fold(Complex::default(), Add::add);
                    let off = found - expected;
                    assert!(off.re.abs() + off.im.abs() < 1e-9 * length as f64, "{length} {k}: {found:?} {expected:?}");
                }
            }
        }
        assert!(transform(Vec::new(), false).is_empty());
    }
}
