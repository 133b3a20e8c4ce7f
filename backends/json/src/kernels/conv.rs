//! 2-D convolution: parameters, choice of kernel, weight packing and the entry point.
//!
//! The fast kernels work on NCHW16c tensors (see [`layout`](super::layout)): 16 channels of one pixel are side by
//! side, so one vector holds 16 output channels of a pixel and no shuffles are needed.

#[cfg(target_arch = "x86_64")]
mod bf16;
mod blocked;
mod depthwise;
mod finish;
mod first;
mod int8;
mod narrow;
mod pack;
mod plain;
mod taps;
#[cfg(test)]
mod tests;
mod tile;
mod transposed;
mod winograd;

pub use int8::{
    INT8_FILTERS_LAYOUT, conv_int8, conv_int8_is_on_amx, conv_int8_scratch_len, int8_filters_known, int8_filters_len,
    round_filters,
};
pub(super) use pack::Filters;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::layout::BLOCK;
use super::parallel::Threads;
use super::precision::Math;
use super::sizes::{product, reach};
use super::weights::PackedWeights;

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
    /// How exactly its products are computed, of [`ConvKind::Blocked`] and [`ConvKind::Winograd`].
    pub math: Math,
    /// Whether its filters are of 16 bits, of [`ConvKind::Blocked`] and [`ConvKind::Winograd`].
    pub narrow: bool,
}

/// Which kernel computes a convolution: it fixes the layouts of input, weights and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConvKind {
    /// NCHW16c to NCHW16c, one group or groups that fill blocks of 16 channels.
    Blocked,
    /// As [`ConvKind::Blocked`], 3x3 with stride 1 in one group: by fewer multiplications where there are enough pixels.
    Winograd,
    /// NCHW to NCHW16c, one group, few input channels: the first layer of a network.
    First,
    /// NCHW16c to NCHW16c, one filter for each channel.
    Depthwise,
    /// NCHW to NCHW, anything: im2col and GEMM.
    Plain,
    /// NCHW to NCHW, the other way round: every input pixel adds a window of the output, with weights
    /// [IC][OC / group][KH][KW].
    Transposed,
}

/// The filters of a convolution.
#[derive(Clone, Copy)]
pub struct ConvFilters<'a> {
    /// In the layout of the kernel, by [`ConvKind::pack`]; of 16 bits where the parameters say so.
    pub packed: PackedWeights<'a>,
    /// What the filter of each output channel is multiplied by before it is used, of filters of 16 bits.
    pub factors: Option<&'a [f32]>,
}

impl<'a> ConvFilters<'a> {
    /// Those of f32, which most kernels take only.
    fn plain(&self) -> &'a [f32] {
        let PackedWeights::F32(packed) = self.packed else { panic!("filters of 16 bits, which `conv` refuses here") };
        packed
    }
}

impl<'a> From<&'a [f32]> for ConvFilters<'a> {
    fn from(packed: &'a [f32]) -> Self {
        ConvFilters { packed: PackedWeights::F32(packed), factors: None }
    }
}

/// The operands of one convolution beside its parameters.
#[derive(Clone, Copy)]
struct Operands<'a> {
    x: &'a [f32],
    filters: ConvFilters<'a>,
    bias: Option<&'a [f32]>,
    residual: Option<&'a [f32]>,
}

impl ConvParams {
    /// Whether every number means something: nothing is 0 that steps or divides, and groups share out both sides.
    fn is_valid(&self) -> bool {
        let [sy, sx] = self.stride;
        let [dy, dx] = self.dilation;
        ![self.kh, self.kw, sy, sx, dy, dx, self.group].contains(&0)
            && self.ic.is_multiple_of(self.group)
            && self.oc.is_multiple_of(self.group)
    }

    /// Height and width under the windows of `rows` by `columns` output pixels.
    fn window(&self, rows: usize, columns: usize) -> Option<[usize; 2]> {
        let height = reach(&[rows.max(1), self.kh], &[self.stride[0], self.dilation[0]])?;
        let width = reach(&[columns.max(1), self.kw], &[self.stride[1], self.dilation[1]])?;
        Some([height, width])
    }

    /// Whether the bytes between any two pixels that a window can name can be counted, those beside the image included:
    /// then no coordinate or offset that a kernel computes from these parameters wraps.
    fn is_countable(&self) -> bool {
        let far = |under: usize, size: usize, axis: usize| {
            under.checked_add(size)?.checked_add(self.pad[axis])?.checked_add(self.dilation[axis])
        };
        let bytes = || {
            let [height, width] = self.window(self.oh, self.ow)?;
            let (height, width) = (far(height, self.ih, 0)?, far(width, self.iw, 1)?);
            product(&[height, width, BLOCK, size_of::<f32>()])
        };
        bytes().is_some_and(|bytes| bytes <= isize::MAX as usize)
    }

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
        } else if winograd::supports(p) {
            ConvKind::Winograd
        } else if p.blocked_groups().is_some() {
            ConvKind::Blocked
        } else {
            ConvKind::Plain
        }
    }

    /// Whether this kernel can compute these parameters at all.
    pub fn supports(self, p: &ConvParams) -> bool {
        let countable = match self {
            // Its windows lie on the output.
            ConvKind::Transposed => ConvParams { ih: p.oh, iw: p.ow, oh: p.ih, ow: p.iw, ..p.clone() }.is_countable(),
            _ => p.is_countable(),
        };
        if !p.is_valid() || !countable {
            return false;
        }
        match self {
            ConvKind::Blocked => p.blocked_groups().is_some(),
            ConvKind::Winograd => winograd::supports(p),
            ConvKind::First => p.group == 1,
            ConvKind::Depthwise => p.group == p.ic && p.ic == p.oc,
            ConvKind::Plain | ConvKind::Transposed => true,
        }
    }

    /// Whether its filters may be of 16 bits.
    pub fn takes_narrow(self) -> bool {
        self.packing() == ConvKind::Blocked
    }

    /// Whether products of bf16 compute it.
    pub fn is_on_units(self, p: &ConvParams, threads: &Threads) -> bool {
        #[cfg(target_arch = "x86_64")]
        let takes = match self {
            ConvKind::Blocked => bf16::takes(threads, p),
            ConvKind::Winograd => winograd::is_on_units(p, threads),
            _ => false,
        };
        #[cfg(not(target_arch = "x86_64"))]
        let (takes, _) = (false, (p, threads));
        takes
    }

    /// Whether the input is NCHW16c (else NCHW).
    pub fn input_blocked(self) -> bool {
        matches!(self, ConvKind::Blocked | ConvKind::Winograd | ConvKind::Depthwise)
    }

    /// Whether the output (and the residual) is NCHW16c (else NCHW).
    pub fn output_blocked(self) -> bool {
        !matches!(self, ConvKind::Plain | ConvKind::Transposed)
    }

    /// The kernel that names how the weights are packed, of all that read them so: constants are the same where their bytes are.
    pub fn packing(self) -> ConvKind {
        if self == ConvKind::Winograd { ConvKind::Blocked } else { self }
    }

    /// Names the layout of the packed weights, for artifacts; it changes whenever the bytes would.
    pub fn layout_tag(self) -> &'static str {
        match self {
            ConvKind::Blocked | ConvKind::Winograd => "nchw16c/oihw16i16o/2",
            ConvKind::First => "nchw16c/ohwi16o/1",
            ConvKind::Depthwise => "nchw16c/chw16c/1",
            ConvKind::Plain => "oihw/1",
            ConvKind::Transposed => "iohw/1",
        }
    }

    /// f32 values of the packed weights; `None` if the kernel does not support the parameters or the values cannot be
    /// counted.
    pub fn packed_len(self, p: &ConvParams) -> Option<usize> {
        if self.supports(p) { pack::len(self, p) } else { None }
    }

    /// Packs weights given as [OC][IC / group][KH][KW] (those of [`ConvKind::Transposed`] as they are); every value of `out` is
    /// written.
    ///
    /// # Panics
    /// If a length is wrong or the kernel does not support the parameters.
    pub fn pack(self, p: &ConvParams, oihw: &[f32], out: &mut [f32]) {
        let each = p.group_channels().0 * p.kh * p.kw;
        assert_eq!(oihw.len(), p.oc * each);
        let mut read = |filters: Range<usize>, to: &mut [f32]| {
            to.copy_from_slice(&oihw[filters.start * each..filters.end * each]);
        };
        self.pack_some(p, &mut read, out);
    }

    /// The same of filters that are not all in memory: `read` writes those of a range, one behind another.
    ///
    /// # Panics
    /// As [`ConvKind::pack`].
    pub fn pack_some(self, p: &ConvParams, read: &mut dyn FnMut(Range<usize>, &mut [f32]), out: &mut [f32]) {
        assert!(self.supports(p), "{self:?} does not support {p:?}");
        pack::pack(self, p, read, out);
    }

    /// f32 values of scratch that [`conv`] needs on this many threads; `None` as in [`ConvKind::packed_len`].
    pub fn scratch_len(self, p: &ConvParams, threads: usize) -> Option<usize> {
        if !self.supports(p) {
            return None;
        }
        match self {
            ConvKind::Blocked => blocked::scratch_len(p, threads),
            ConvKind::Winograd => winograd::scratch_len(p, threads),
            ConvKind::Depthwise => Some(0),
            ConvKind::First => first::scratch_len(p)?.checked_mul(threads),
            ConvKind::Plain => plain::scratch_len(p)?.checked_mul(threads),
            ConvKind::Transposed => transposed::scratch_len(p)?.checked_mul(threads),
        }
    }

    /// f32 values of the input; `None` if they cannot be counted.
    pub fn input_len(self, p: &ConvParams) -> Option<usize> {
        image_len(self.input_blocked(), [p.n, p.ic, p.ih, p.iw])
    }

    /// f32 values of the output and of the residual; `None` if they cannot be counted.
    pub fn output_len(self, p: &ConvParams) -> Option<usize> {
        image_len(self.output_blocked(), [p.n, p.oc, p.oh, p.ow])
    }
}

fn image_len(blocked: bool, [n, c, h, w]: [usize; 4]) -> Option<usize> {
    if blocked { product(&[n, c.div_ceil(BLOCK), h, w, BLOCK]) } else { product(&[n, c, h, w]) }
}

/// y = act(x * w + bias + residual): `w` of these filters, `bias` with one value for each output channel,
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
    filters: ConvFilters<'_>,
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
) {
    assert!(kind.supports(p), "{kind:?} does not support {p:?}");
    assert_eq!(Some(x.len()), kind.input_len(p));
    assert_eq!(Some(filters.packed.len()), kind.packed_len(p));
    assert_eq!(p.narrow, !matches!(filters.packed, PackedWeights::F32(_)));
    assert!(!p.narrow || kind.takes_narrow(), "{kind:?} takes no filters of 16 bits");
    assert!(filters.factors.is_none_or(|factors| p.narrow && factors.len() == p.oc));
    assert_eq!(Some(y.len()), kind.output_len(p));
    assert!(bias.is_none_or(|b| b.len() == p.oc));
    assert!(residual.is_none_or(|r| r.len() == y.len()));
    assert!(kind.scratch_len(p, threads.count()).is_some_and(|len| scratch.len() >= len));
    if y.is_empty() {
        return;
    }
    let operands = Operands { x, filters, bias, residual };
    match kind {
        ConvKind::Blocked => blocked::run(threads, p, operands, y, scratch),
        ConvKind::Winograd => winograd::run(threads, p, operands, y, scratch),
        ConvKind::First => first::run(threads, p, operands, y, scratch),
        ConvKind::Depthwise => depthwise::run(threads, p, operands, y),
        ConvKind::Plain => plain::run(threads, p, operands, y, scratch),
        ConvKind::Transposed => transposed::run(threads, p, operands, y, scratch),
    }
}
