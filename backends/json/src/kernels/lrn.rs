//! Local response normalisation: each value divided by a power of the mean square of its neighbours in other channels.

use super::activation::parts_of;
use super::isa::{Kernel, dispatch};
use super::layout::{BLOCK, blocked_len};
use super::parallel::{SharedMut, Threads, part};
use super::pool::Layout;
use super::simd::V16;
use super::sizes::product;

/// The widest window that fits the blocked kernel: a block on either side.
pub const MAX_BLOCKED_LRN: usize = 2 * BLOCK;

/// y = x / (bias + alpha / size * sum of x^2)^beta, the sum over `size` channels around each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrnParams {
    /// Images.
    pub n: usize,
    /// Channels.
    pub c: usize,
    /// Pixels.
    pub hw: usize,
    /// Channels of the window: (size - 1) / 2 before, the rest from the channel itself on.
    pub size: usize,
    /// Factor.
    pub alpha: f32,
    /// Exponent.
    pub beta: f32,
    /// Offset.
    pub bias: f32,
}

/// Normalises every pixel.
///
/// # Panics
/// If a length is wrong, or the layout is blocked and the window wider than [`MAX_BLOCKED_LRN`].
pub fn lrn(threads: &Threads, layout: Layout, p: &LrnParams, x: &[f32], y: &mut [f32]) {
    let (len, planes, lanes) = match layout {
        Layout::Nchw => (product(&[p.n, p.c, p.hw]), p.c, 1),
        Layout::Blocked => (Some(blocked_len(p.n, p.c, p.hw)), p.c.div_ceil(BLOCK), BLOCK),
    };
    assert!(len == Some(x.len()) && len == Some(y.len()) && p.size > 0);
    assert!(lanes == 1 || p.size <= MAX_BLOCKED_LRN);
    let (total, plane) = (p.n * planes, p.hw * lanes);
    let parts = parts_of(threads, x.len().saturating_mul(p.size)).min(total.max(1));
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |i| {
        for at in part(total, parts, i) {
            // SAFETY: planes are disjoint.
            let y = unsafe { out.slice(at * plane, plane) };
            let image = &x[at / planes * planes * plane..][..planes * plane];
            let rows = Rows { p, image, y, at: at % planes };
            match layout {
                Layout::Nchw => dispatch(threads.isa(), Plain(rows)),
                Layout::Blocked => dispatch(threads.isa(), Blocked(rows)),
            }
        }
    });
}

/// One channel, or one block of channels, of an image.
struct Rows<'a> {
    p: &'a LrnParams,
    image: &'a [f32],
    y: &'a mut [f32],
    at: usize,
}

impl LrnParams {
    fn before(&self) -> usize {
        (self.size - 1) / 2
    }

    /// # Safety
    /// The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn finish<V: V16>(&self, x: V, sum: V) -> V {
        // SAFETY: the caller vouches for the features.
        unsafe {
            let mean = sum.fma(V::splat(self.alpha / self.size as f32), V::splat(self.bias));
            if self.beta == 0.75 {
                let root = mean.sqrt();
                return x.div(root.mul(root.sqrt()));
            }
            let powers = mean.lanes().map(|mean| mean.powf(self.beta));
            x.div(V::load(powers.as_ptr()))
        }
    }
}

struct Plain<'a>(Rows<'a>);

impl Kernel for Plain<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Rows { p, image, y, at } = self.0;
        let first = at.saturating_sub(p.before());
        let last = at.saturating_add(p.size - p.before()).min(p.c);
        for start in (0..p.hw).step_by(16) {
            let count = (p.hw - start).min(16);
            // SAFETY: `count` pixels from `start` are in every plane; `dispatch` checked the features.
            unsafe {
                let mut sum = V::splat(0.0);
                for channel in first..last {
                    let x = V::load_part(image[channel * p.hw + start..][..count].as_ptr(), count, 0.0);
                    sum = x.fma(x, sum);
                }
                let x = V::load_part(image[at * p.hw + start..][..count].as_ptr(), count, 0.0);
                p.finish(x, sum).store_part(y[start..][..count].as_mut_ptr(), count);
            }
        }
    }
}

struct Blocked<'a>(Rows<'a>);

impl Kernel for Blocked<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Rows { p, image, y, at } = self.0;
        // Squares of three neighbouring blocks of one pixel; channels that are not there stay 0.
        let mut squares = [0f32; 3 * BLOCK];
        for pixel in 0..p.hw {
            // SAFETY: `lanes` values of each block are in the image; windows of at most 32 channels that start in the
            // middle block are in `squares`; `dispatch` checked the features.
            unsafe {
                for (i, squares) in squares.chunks_exact_mut(BLOCK).enumerate() {
                    let Some(block) = (at + i).checked_sub(1).filter(|&block| block * BLOCK < p.c) else {
                        continue;
                    };
                    let lanes = (p.c - block * BLOCK).min(BLOCK);
                    let x = V::load_part(image[(block * p.hw + pixel) * BLOCK..][..BLOCK].as_ptr(), lanes, 0.0);
                    x.mul(x).store(squares.as_mut_ptr());
                }
                let window = &squares[BLOCK - p.before()..];
                let mut sum = V::splat(0.0);
                for i in 0..p.size {
                    sum = sum.add(V::load(window[i..][..BLOCK].as_ptr()));
                }
                let x = V::load(image[(at * p.hw + pixel) * BLOCK..][..BLOCK].as_ptr());
                p.finish(x, sum).store(y[pixel * BLOCK..][..BLOCK].as_mut_ptr());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;
    use crate::kernels::{from_blocked, to_blocked};

    #[test]
    fn both_layouts_and_every_instruction_set_agree_with_the_formula() {
        for (size, beta) in [(5, 0.75), (4, 0.5), (1, 0.75), (32, 0.75)] {
            let p = LrnParams { n: 2, c: 37, hw: 19, size, alpha: 0.5, beta, bias: 1.5 };
            let x: Vec<f32> = (0..p.n * p.c * p.hw).map(|i| (i * 7919 % 211) as f32 / 50.0 - 2.0).collect();
            for &isa in Isa::available() {
                let threads = Threads::with_isa(2, isa);
                let mut plain = vec![0.0; x.len()];
                lrn(&threads, Layout::Nchw, &p, &x, &mut plain);
                let mut blocked = vec![0.0; blocked_len(p.n, p.c, p.hw)];
                to_blocked(&threads, p.n, p.c, p.hw, &x, &mut blocked);
                let mut out = vec![0.0; blocked.len()];
                lrn(&threads, Layout::Blocked, &p, &blocked, &mut out);
                let mut back = vec![0.0; x.len()];
                from_blocked(&threads, p.n, p.c, p.hw, &out, &mut back);
                for i in 0..x.len() {
                    let (image, channel, pixel) = (i / p.hw / p.c, i / p.hw % p.c, i % p.hw);
                    let first = channel.saturating_sub((size - 1) / 2);
                    let last = (channel + size / 2 + 1).min(p.c);
                    let square = |c: usize| x[(image * p.c + c) * p.hw + pixel].powi(2);
                    let sum: f32 = (first..last).map(square).sum();
                    let want = x[i] / (1.5 + 0.5 / size as f32 * sum).powf(beta);
                    assert!((plain[i] - want).abs() < 1e-5 && (back[i] - want).abs() < 1e-5, "{isa:?} {size} {i}");
                }
            }
        }
    }
}
