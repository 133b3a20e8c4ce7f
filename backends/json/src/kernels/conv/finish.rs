//! The epilogue of a run of NCHW16c pixels that are still in the first-level cache.

use crate::kernels::activation::Activation;
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::simd::V16;

/// y = act(y + bias + residual) for pixels of one block of channels; `bias` starts at the block's first channel.
pub(super) fn finish(isa: Isa, act: Activation, bias: Option<&[f32]>, residual: Option<&[f32]>, y: &mut [f32]) {
    let clamp = act.as_clamp();
    if bias.is_some() || residual.is_some() || clamp.is_some_and(|_| act != Activation::None) {
        let clamp = clamp.unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
        dispatch(isa, Finish { bias, residual, clamp, y });
    }
    if clamp.is_none() {
        act.apply(isa, y);
    }
}

struct Finish<'a> {
    bias: Option<&'a [f32]>,
    residual: Option<&'a [f32]>,
    clamp: (f32, f32),
    y: &'a mut [f32],
}

impl Kernel for Finish<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        assert!(self.residual.is_none_or(|r| r.len() >= self.y.len()));
        // SAFETY: `dispatch` checked the features; chunks hold 16 values, and the residual is as long as `y`.
        unsafe {
            let (lo, hi) = (V::splat(self.clamp.0), V::splat(self.clamp.1));
            let bias = self.bias.map_or(V::splat(0.0), |b| V::load_part(b.as_ptr(), b.len().min(BLOCK), 0.0));
            for (i, px) in self.y.chunks_exact_mut(BLOCK).enumerate() {
                let mut v = V::load(px.as_ptr()).add(bias);
                if let Some(r) = self.residual {
                    v = v.add(V::load(r.as_ptr().add(i * BLOCK)));
                }
                hi.min(lo.max(v)).store(px.as_mut_ptr());
            }
        }
    }
}
