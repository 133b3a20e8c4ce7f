//! 2-D convolution: parameters, choice of kernel, weight packing and the entry point.
//!
//! The fast kernels work on NCHW16c tensors (see [`layout`](super::layout)): 16 channels of one pixel lie side by
//! side, so one vector holds 16 output channels of a pixel and no shuffles are needed.

mod blocked;
mod depthwise;
mod finish;
mod first;
mod pack;
mod plain;
#[cfg(test)]
mod tests;
mod tile;

use super::activation::Activation;
use super::layout::{BLOCK, blocked_len};
use super::parallel::Threads;

/// The shape of a 2-D convolution (or correlation, as in every deep learning framework).
#[derive(Clone, Debug, PartialEq)]
pub struct ConvParams {
    /// Images.
    pub n: usize,
    /// Input channels.
    pub ic: usize,
    /// Input height.
    pub ih: usize,
    /// Input width.
    pub iw: usize,
    /// Output channels.
    pub oc: usize,
    /// Output height.
    pub oh: usize,
    /// Output width.
    pub ow: usize,
    /// Kernel height.
    pub kh: usize,
    /// Kernel width.
    pub kw: usize,
    /// Vertical and horizontal stride.
    pub stride: [usize; 2],
    /// Zeros above and to the left; those below and to the right follow from the output size.
    pub pad: [usize; 2],
    /// Vertical and horizontal distance between kernel taps.
    pub dilation: [usize; 2],
    /// Groups; divides both channel counts.
    pub group: usize,
    /// Applied last.
    pub act: Activation,
}

/// Which kernel computes a convolution: it fixes the layouts of input, weights and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvKind {
    /// NCHW16c to NCHW16c, one group or groups that fill blocks of 16 channels.
    Blocked,
    /// NCHW to NCHW16c, one group, few input channels: the first layer of a network.
    First,
    /// NCHW16c to NCHW16c, one filter for each channel.
    Depthwise,
    /// NCHW to NCHW, anything: im2col and GEMM.
    Plain,
}

/// The operands of one convolution beside its parameters.
#[derive(Clone, Copy)]
struct Operands<'a> {
    x: &'a [f32],
    w: &'a [f32],
    bias: Option<&'a [f32]>,
    residual: Option<&'a [f32]>,
}

impl ConvParams {
    /// Channels of one group: input, output.
    fn group_channels(&self) -> (usize, usize) {
        (self.ic / self.group, self.oc / self.group)
    }

    /// The same convolution with groups joined until each fills whole blocks, if that is possible without waste of
    /// more than 16x: groups of 1, 2, 4, 8 channels in and out become block-diagonal groups of 16.
    fn blocked_groups(&self) -> Option<usize> {
        let (ic, oc) = self.group_channels();
        if self.group == 1 || (ic.is_multiple_of(BLOCK) && oc.is_multiple_of(BLOCK)) {
            Some(self.group)
        } else if ic == oc && BLOCK.is_multiple_of(ic) && self.ic.is_multiple_of(BLOCK) {
            Some(self.ic / BLOCK)
        } else {
            None
        }
    }
}

impl ConvKind {
    /// The fastest kernel for these parameters.
    pub fn pick(p: &ConvParams) -> ConvKind {
        if p.group == 1 && p.ic < BLOCK / 2 {
            ConvKind::First
        } else if p.group > 1 && p.group == p.ic && p.ic == p.oc {
            ConvKind::Depthwise
        } else if p.blocked_groups().is_some() {
            ConvKind::Blocked
        } else {
            ConvKind::Plain
        }
    }

    /// Whether this kernel can compute these parameters at all.
    pub fn supports(self, p: &ConvParams) -> bool {
        match self {
            ConvKind::Blocked => p.blocked_groups().is_some(),
            ConvKind::First => p.group == 1,
            ConvKind::Depthwise => p.group == p.ic && p.ic == p.oc,
            ConvKind::Plain => true,
        }
    }

    /// Whether the input is NCHW16c (else NCHW).
    pub fn input_blocked(self) -> bool {
        matches!(self, ConvKind::Blocked | ConvKind::Depthwise)
    }

    /// Whether the output (and the residual) is NCHW16c (else NCHW).
    pub fn output_blocked(self) -> bool {
        self != ConvKind::Plain
    }

    /// Names the layout of the packed weights, for artifacts; it changes whenever the bytes would.
    pub fn layout_tag(self) -> &'static str {
        match self {
            ConvKind::Blocked => "nchw16c/oihw16i16o/1",
            ConvKind::First => "nchw16c/ohwi16o/1",
            ConvKind::Depthwise => "nchw16c/chw16c/1",
            ConvKind::Plain => "oihw/1",
        }
    }

    /// f32 values of the packed weights.
    pub fn packed_len(self, p: &ConvParams) -> usize {
        pack::len(self, p)
    }

    /// Packs weights given as [OC][IC / group][KH][KW]; every value of `out` is written.
    ///
    /// # Panics
    /// If a length is wrong or the kernel does not support the parameters.
    pub fn pack(self, p: &ConvParams, oihw: &[f32], out: &mut [f32]) {
        assert!(self.supports(p), "{self:?} does not support {p:?}");
        pack::pack(self, p, oihw, out);
    }

    /// f32 values of scratch that [`conv`] needs on this many threads.
    pub fn scratch_len(self, p: &ConvParams, threads: usize) -> usize {
        match self {
            ConvKind::Blocked => blocked::scratch_len(p),
            ConvKind::Depthwise => 0,
            ConvKind::First => first::scratch_len(p, threads),
            ConvKind::Plain => plain::scratch_len(p, threads),
        }
    }

    /// f32 values of the input.
    pub fn input_len(self, p: &ConvParams) -> usize {
        let hw = p.ih * p.iw;
        if self.input_blocked() { blocked_len(p.n, p.ic, hw) } else { p.n * p.ic * hw }
    }

    /// f32 values of the output and of the residual.
    pub fn output_len(self, p: &ConvParams) -> usize {
        let hw = p.oh * p.ow;
        if self.output_blocked() { blocked_len(p.n, p.oc, hw) } else { p.n * p.oc * hw }
    }
}

/// y = act(x * w + bias + residual): `packed` from [`ConvKind::pack`], `bias` with one value for each output channel,
/// `residual` in the layout of `y`. Layouts are those of `kind`. Lanes of `y` past the last channel are unspecified.
///
/// # Panics
/// If a length is wrong or the kernel does not support the parameters.
#[expect(clippy::too_many_arguments, reason = "the operands of a convolution")]
pub fn conv(
    threads: &Threads,
    kind: ConvKind,
    p: &ConvParams,
    x: &[f32],
    packed: &[f32],
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
) {
    assert!(kind.supports(p), "{kind:?} does not support {p:?}");
    assert_eq!(x.len(), kind.input_len(p));
    assert_eq!(packed.len(), kind.packed_len(p));
    assert_eq!(y.len(), kind.output_len(p));
    assert!(bias.is_none_or(|b| b.len() == p.oc));
    assert!(residual.is_none_or(|r| r.len() == y.len()));
    assert!(scratch.len() >= kind.scratch_len(p, threads.count()));
    if y.is_empty() {
        return;
    }
    let operands = Operands { x, w: packed, bias, residual };
    match kind {
        ConvKind::Blocked => blocked::run(threads, p, operands, y, scratch),
        ConvKind::First => first::run(threads, p, operands, y, scratch),
        ConvKind::Depthwise => depthwise::run(threads, p, operands, y),
        ConvKind::Plain => plain::run(threads, p, operands, y, scratch),
    }
}
