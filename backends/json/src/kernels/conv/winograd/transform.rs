//! The transforms of F(4x4, 3x3) at the points 0, sqrt(1/2), -sqrt(1/2), sqrt(2), -sqrt(2) and infinity, along one axis and then along the
//! other.
//!
//! Polynomials are multiplied by their values at points (Toom and Cook). With points p and the products N(p) of their distances to the
//! others, filters are evaluated at the points and divided by N, the coefficients of the products of (x - q) over the other points q make the
//! numbers of a tile, and outputs are the sums at p^i. These points leave the error of sums in f32 where it is: 1.0 to 1.8 times that of
//! direct ones by the root of the mean square, where the usual 0, 1, -1, 2, -2 have 2 to 4 times it.

use super::SIDE;
use crate::kernels::isa::Kernel;
use crate::kernels::layout::BLOCK;
use crate::kernels::simd::V16;
use crate::kernels::unrolled::unrolled;

/// Taps along a side of a filter.
const TAPS: usize = 3;
/// Numbers along a side of a transformed tile.
const ALONG: usize = 6;

const A: f32 = std::f32::consts::FRAC_1_SQRT_2;
const B: f32 = std::f32::consts::SQRT_2;

/// Transforms one tile of one block of channels.
pub(super) struct Input<'a> {
    /// An image: [height][width][16].
    pub(super) x: &'a [f32],
    pub(super) size: [usize; 2],
    /// The first pixel, which may lie outside; what does is 0.
    pub(super) corner: [isize; 2],
    /// The first number, with `point` values to the next.
    pub(super) to: *mut f32,
    pub(super) point: usize,
}

impl Kernel for Input<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        // What is outside of the image.
        const NOTHING: &[f32; BLOCK] = &[0.0; BLOCK];
        let [height, width] = self.size;
        let [top, left] = self.corner;
        let inside = top >= 0 && left >= 0 && top as usize + 6 <= height && left as usize + 6 <= width;
        // SAFETY: `dispatch` checked the features; pixels are read where they are on the image, and the caller vouches for `to`.
        unsafe {
            let mut middle = [[V::splat(0.0); ALONG]; ALONG];
            unrolled!(column in [0 1 2 3 4 5] {
                let mut d = [V::splat(0.0); ALONG];
                unrolled!(row in [0 1 2 3 4 5] {
                    let (y, x) = (top + row as isize, left + column as isize);
                    let on_image = inside || (y >= 0 && x >= 0 && (y as usize) < height && (x as usize) < width);
                    let pixel = self.x.as_ptr().wrapping_offset((y * width as isize + x) * BLOCK as isize);
                    d[row] = V::load(if on_image { pixel } else { NOTHING.as_ptr() });
                });
                let t = input(d);
                unrolled!(row in [0 1 2 3 4 5] {
                    middle[row][column] = t[row];
                });
            });
            unrolled!(row in [0 1 2 3 4 5] {
                let t = input(middle[row]);
                unrolled!(column in [0 1 2 3 4 5] {
                    t[column].store(self.to.add((row * ALONG + column) * self.point));
                });
            });
        }
    }
}

#[inline(always)]
unsafe fn input<V: V16>(d: [V; 6]) -> [V; 6] {
    // SAFETY: the caller has the features of `V`.
    let (a, b, half, two, both) = unsafe { (V::splat(A), V::splat(B), V::splat(-0.5), V::splat(-2.0), V::splat(-2.5)) };
    let (e, f) = (two.fma(d[2], d[4]), two.fma(d[1], d[3]).mul(a));
    let (g, h) = (half.fma(d[2], d[4]), half.fma(d[1], d[3]).mul(b));
    [both.fma(d[2], d[0].add(d[4])), e.add(f), e.sub(f), g.add(h), g.sub(h), both.fma(d[3], d[1].add(d[5]))]
}

/// Transforms the filters from one input block to one output block.
pub(super) struct Filters<'a> {
    /// [3][3][input channels][16 output channels], with `row` values from one input channel to the next.
    pub(super) w: &'a [f32],
    pub(super) row: usize,
    /// Input channels: 16 at most.
    pub(super) channels: usize,
    /// The first number of the first input channel, 16 values from one channel to the next and `point` from one number to the next.
    pub(super) to: &'a mut [f32],
    pub(super) point: usize,
}

impl Kernel for Filters<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let (row_values, channels) = (self.row, self.channels);
        assert!(channels <= BLOCK && self.to.len() >= 35 * self.point + BLOCK * BLOCK);
        assert!(channels > 0 && self.w.len() >= (9 * channels - 1) * row_values + BLOCK);
        for channel in 0..channels {
            // SAFETY: `dispatch` checked the features; the assertions cover 9 taps and 36 numbers of those channels.
            unsafe {
                let mut middle = [[V::splat(0.0); TAPS]; ALONG];
                unrolled!(column in [0 1 2] {
                    let mut g = [V::splat(0.0); TAPS];
                    unrolled!(row in [0 1 2] {
                        let at = (row * TAPS + column) * channels + channel;
                        g[row] = V::load(self.w.as_ptr().add(at * row_values));
                    });
                    let t = filter(g);
                    unrolled!(row in [0 1 2 3 4 5] {
                        middle[row][column] = t[row];
                    });
                });
                unrolled!(row in [0 1 2 3 4 5] {
                    let t = filter(middle[row]);
                    unrolled!(column in [0 1 2 3 4 5] {
                        let at = (row * ALONG + column) * self.point + channel * BLOCK;
                        t[column].store(self.to.as_mut_ptr().add(at));
                    });
                });
            }
        }
    }
}

#[inline(always)]
unsafe fn filter<V: V16>(g: [V; 3]) -> [V; 6] {
    // SAFETY: the caller has the features of `V`.
    let (half, two, third, sixth, odd_a, odd_b) = unsafe {
        (V::splat(0.5), V::splat(2.0), V::splat(-2.0 / 3.0), V::splat(1.0 / 6.0), V::splat(-A / 1.5), V::splat(B / 6.0))
    };
    let (even, odd) = (half.fma(g[2], g[0]).mul(third), g[1].mul(odd_a));
    let (far_even, far_odd) = (two.fma(g[2], g[0]).mul(sixth), g[1].mul(odd_b));
    [g[0], even.add(odd), even.sub(odd), far_even.add(far_odd), far_even.sub(far_odd), g[2]]
}

/// Transforms the sums of one tile and one block of output channels into output pixels.
pub(super) struct Output<'a> {
    /// The first sum, with `point` values to the next.
    pub(super) sums: &'a [f32],
    pub(super) point: usize,
    /// From the block's first channel on.
    pub(super) bias: Option<&'a [f32]>,
    /// The pixels that are added, laid out as the output.
    pub(super) residual: Option<&'a [f32]>,
    pub(super) clamp: (f32, f32),
    /// The output image: [height][width][16].
    pub(super) y: *mut f32,
    pub(super) width: usize,
    /// Row and column of the first pixel, and the pixels that there are.
    pub(super) corner: [usize; 2],
    pub(super) size: [usize; 2],
}

impl Kernel for Output<'_> {
    /// Whether all sums are finite.
    type Out = bool;

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> bool {
        assert!(self.sums.len() >= 35 * self.point + BLOCK);
        let [top, left] = self.corner;
        let end = ((top + self.size[0] - 1) * self.width + left + self.size[1]) * BLOCK;
        assert!(self.residual.is_none_or(|residual| residual.len() >= end));
        // SAFETY: `dispatch` checked the features; the assertions cover 36 sums and the pixels of the residual, and the caller vouches for
        // those of `y`.
        unsafe {
            let (lo, hi, zero) = (V::splat(self.clamp.0), V::splat(self.clamp.1), V::splat(0.0));
            let bias = self.bias.map_or(zero, |b| V::load_up_to(b.as_ptr(), b.len()));
            let mut middle = [[zero; ALONG]; SIDE];
            unrolled!(column in [0 1 2 3 4 5] {
                let mut m = [zero; ALONG];
                unrolled!(row in [0 1 2 3 4 5] {
                    m[row] = V::load(self.sums.as_ptr().add((row * ALONG + column) * self.point));
                });
                let t = output(m);
                unrolled!(row in [0 1 2 3] {
                    middle[row][column] = t[row];
                });
            });
            let mut nothing = zero;
            unrolled!(row in [0 1 2 3] {
                if row < self.size[0] {
                    let sums = output(middle[row]);
                    unrolled!(column in [0 1 2 3] {
                        if column < self.size[1] {
                            let at = ((top + row) * self.width + left + column) * BLOCK;
                            // 0 times a number that is not finite is NaN.
                            nothing = sums[column].fma(zero, nothing);
                            let mut value = sums[column].add(bias);
                            if let Some(residual) = self.residual {
                                value = value.add(V::load(residual.as_ptr().add(at)));
                            }
                            hi.min(lo.max(value)).store(self.y.add(at));
                        }
                    });
                }
            });
            nothing.sum() == 0.0
        }
    }
}

#[inline(always)]
unsafe fn output<V: V16>(m: [V; 6]) -> [V; 4] {
    // SAFETY: the caller has the features of `V`.
    let (a, b, half, two, a_cubed, b_cubed) =
        unsafe { (V::splat(A), V::splat(B), V::splat(0.5), V::splat(2.0), V::splat(A / 2.0), V::splat(2.0 * B)) };
    let (near, near_odd) = (m[1].add(m[2]), m[1].sub(m[2]));
    let (far, far_odd) = (m[3].add(m[4]), m[3].sub(m[4]));
    [
        m[0].add(near).add(far),
        a.fma(near_odd, b.mul(far_odd)),
        half.fma(near, two.mul(far)),
        a_cubed.fma(near_odd, b_cubed.fma(far_odd, m[5])),
    ]
}
