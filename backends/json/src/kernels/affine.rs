//! A factor and an offset for each channel of an image tensor.

use super::activation::{Activation, parts_of};
use super::isa::{Kernel, dispatch};
use super::layout::{BLOCK, blocked_len};
use super::parallel::{SharedMut, Threads, image_grid, part};
use super::pool::Layout;
use super::simd::V16;
use super::sizes::product;

/// Pixels computed before an activation that is not a clamp is applied to them.
const STRIP: usize = 128;

/// y = act(x * scale + shift), with one `scale` and one `shift` for each channel.
///
/// # Panics
/// If a length is wrong.
#[expect(clippy::too_many_arguments, reason = "the shape of an image tensor")]
pub fn affine(
    threads: &Threads,
    layout: Layout,
    n: usize,
    c: usize,
    hw: usize,
    x: &[f32],
    scale: &[f32],
    shift: &[f32],
    act: Activation,
    y: &mut [f32],
) {
    let (len, planes, lanes) = match layout {
        Layout::Nchw => (product(&[n, c, hw]), c, 1),
        Layout::Blocked => (Some(blocked_len(n, c, hw)), c.div_ceil(BLOCK), BLOCK),
    };
    assert!(len == Some(x.len()) && len == Some(y.len()) && scale.len() == c && shift.len() == c);
    let (total, plane) = (n * planes, hw * lanes);
    let (plane_parts, pixel_parts) = image_grid(parts_of(threads, x.len()), n, total, hw, hw);
    let out = SharedMut::new(y);
    threads.parallel_for(plane_parts * pixel_parts, |i| {
        let pixels = part(hw, pixel_parts, i / plane_parts);
        for at in part(total, plane_parts, i % plane_parts) {
            let channel = at % planes * lanes;
            let count = lanes.min(c - channel);
            let (start, len) = (at * plane + pixels.start * lanes, pixels.len() * lanes);
            // SAFETY: pixels of planes are disjoint.
            let y = unsafe { out.slice(start, len) };
            let x = &x[start..][..len];
            let (scale, shift) = (&scale[channel..][..count], &shift[channel..][..count]);
            let width = STRIP * BLOCK;
            for (x, y) in x.chunks(width).zip(y.chunks_mut(width)) {
                dispatch(threads.isa(), Strip { x, y, scale, shift, blocked: lanes == BLOCK, clamp: act.as_clamp() });
                if act.as_clamp().is_none() {
                    act.apply(threads.isa(), y);
                }
            }
        }
    });
}

/// Pixels of one channel, or of one block of channels.
struct Strip<'a> {
    x: &'a [f32],
    y: &'a mut [f32],
    scale: &'a [f32],
    shift: &'a [f32],
    blocked: bool,
    clamp: Option<(f32, f32)>,
}

impl Kernel for Strip<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let (low, high) = self.clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        // SAFETY: `dispatch` checked the features; vectors are loaded and stored within the slices.
        unsafe {
            let (scale, shift) = (self.vector::<V>(self.scale), self.vector::<V>(self.shift));
            let clamp = (V::splat(low), V::splat(high));
            let (x, tail) = self.x.as_chunks::<16>();
            let (y, rest) = self.y.as_chunks_mut::<16>();
            for (x, y) in x.iter().zip(y) {
                each(V::load(x.as_ptr()), scale, shift, clamp).store(y.as_mut_ptr());
            }
            if !tail.is_empty() {
                let x = V::load_part(tail.as_ptr(), tail.len(), 0.0);
                each(x, scale, shift, clamp).store_part(rest.as_mut_ptr(), rest.len());
            }
        }
    }
}

impl Strip<'_> {
    /// The numbers of the channels, each in its lane, or of the one channel in all.
    ///
    /// # Safety
    /// The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn vector<V: V16>(&self, values: &[f32]) -> V {
        // SAFETY: the caller vouches for the features; no more than the values are read.
        unsafe {
            match self.blocked {
                true => V::load_part(values.as_ptr(), values.len(), 0.0),
                false => V::splat(values[0]),
            }
        }
    }
}

/// Not a closure, in which the compiler may leave instructions that the function around it has as calls.
#[inline(always)]
fn each<V: V16>(x: V, scale: V, shift: V, (low, high): (V, V)) -> V {
    // NaN is kept: `max` and `min` return their second operand for it.
    high.min(low.max(x.fma(scale, shift)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;
    use crate::kernels::{from_blocked, to_blocked};

    #[test]
    fn both_layouts_and_every_instruction_set_agree_with_the_formula() {
        let (n, c, hw) = (2, 19, 35);
        let x: Vec<f32> = (0..n * c * hw).map(|i| (i * 7919 % 211) as f32 / 50.0 - 2.0).collect();
        let scale: Vec<f32> = (0..c).map(|i| i as f32 / 7.0 - 1.0).collect();
        let shift: Vec<f32> = (0..c).map(|i| 1.0 - i as f32 / 9.0).collect();
        for &isa in Isa::available() {
            let threads = Threads::with_isa(2, isa);
            for act in [Activation::None, Activation::Relu, Activation::Sigmoid] {
                let mut plain = vec![0.0; x.len()];
                affine(&threads, Layout::Nchw, n, c, hw, &x, &scale, &shift, act, &mut plain);
                let mut blocked = vec![0.0; blocked_len(n, c, hw)];
                to_blocked(&threads, n, c, hw, &x, &mut blocked);
                let mut out = vec![0.0; blocked.len()];
                affine(&threads, Layout::Blocked, n, c, hw, &blocked, &scale, &shift, act, &mut out);
                let mut back = vec![0.0; x.len()];
                from_blocked(&threads, n, c, hw, &out, &mut back);
                for (i, (&a, &b)) in plain.iter().zip(&back).enumerate() {
                    let channel = i / hw % c;
                    let z = x[i] * scale[channel] + shift[channel];
                    let want = match act {
                        Activation::Relu => z.max(0.0),
                        Activation::Sigmoid => 1.0 / (1.0 + (-z).exp()),
                        _ => z,
                    };
                    assert!((a - want).abs() < 1e-5 && (b - want).abs() < 1e-5, "{isa:?} {act:?} {a} {b} {want}");
                }
            }
        }
    }
}
