//! Weight packing for the convolution kernels.

use std::ops::Range;

use super::{ConvKind, ConvParams};
use crate::kernels::exchange::square;
use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::simd::V16;
use crate::kernels::sizes::product;

/// Blocks in and out of one group, for [`ConvKind::Blocked`] and [`ConvKind::Winograd`], and the number of such groups.
pub(super) fn group_blocks(p: &ConvParams) -> (usize, usize, usize) {
    let filters = Filters::new(p);
    (filters.inputs.div_ceil(BLOCK), filters.outputs.div_ceil(BLOCK), filters.groups)
}

/// Where the filters of [`ConvKind::Blocked`] and [`ConvKind::Winograd`] are: [group][panel][i block][tap][i][o]. A panel has the 16
/// channels of an output block; where the last block is not full, it shares one with the block before it, whose rows are longer by
/// its channels. Input blocks have as many rows as channels. So filters are no larger than the model's, whatever the channels, but for
/// what is behind the last row: whole vectors are read there, too, whose lanes past the last channel count for nothing.
#[derive(Clone, Copy)]
pub(in crate::kernels) struct Filters {
    /// Channels of a kernel's group; wider than the convolution's own where small groups are joined.
    inputs: usize,
    outputs: usize,
    taps: usize,
    groups: usize,
}

impl Filters {
    pub(super) fn new(p: &ConvParams) -> Filters {
        let groups = p.blocked_groups().unwrap_or(p.group);
        Filters { inputs: p.ic / groups, outputs: p.oc / groups, taps: p.kh * p.kw, groups }
    }

    /// Those of a 1x1 convolution in one group.
    pub(in crate::kernels) fn pointwise(inputs: usize, outputs: usize) -> Filters {
        Filters { inputs, outputs, taps: 1, groups: 1 }
    }

    /// f32 values of all of them; `None` if they cannot be counted.
    pub(in crate::kernels) fn len(&self) -> Option<usize> {
        let behind = self.outputs.checked_next_multiple_of(BLOCK)? - self.outputs;
        product(&[self.groups, self.outputs, self.inputs, self.taps])?.checked_add(behind)
    }

    /// The first output block of a group that shares its panel, or has a narrow one; the number of blocks where none does.
    pub(in crate::kernels) fn shared(&self) -> usize {
        let full = self.outputs / BLOCK;
        if self.outputs.is_multiple_of(BLOCK) { full } else { full.saturating_sub(1) }
    }

    /// Values from one row of an output block to the next.
    pub(in crate::kernels) fn row(&self, out: usize) -> usize {
        let shared = self.shared();
        if out < shared { BLOCK } else { self.outputs - shared * BLOCK }
    }

    /// Input channels of an input block: rows of each tap.
    pub(super) fn rows(&self, input: usize) -> usize {
        BLOCK.min(self.inputs - input * BLOCK)
    }

    /// The first output channel of an output block of a group, among all.
    pub(super) fn channel(&self, group: usize, out: usize) -> usize {
        group * self.outputs + out * BLOCK
    }

    /// Where the first row of a tap is, between an input and an output block of a group.
    pub(super) fn start(&self, group: usize, out: usize, input: usize, tap: usize) -> usize {
        let before = out.min(self.shared());
        let panel = (group * self.outputs + before * BLOCK) * self.inputs * self.taps + (out - before) * BLOCK;
        panel + (input * BLOCK * self.taps + tap * self.rows(input)) * self.row(out)
    }
}

pub(super) fn len(kind: ConvKind, p: &ConvParams) -> Option<usize> {
    let out_blocks = p.oc.div_ceil(BLOCK);
    match kind {
        ConvKind::Blocked | ConvKind::Winograd => {
            product(&[p.kh, p.kw])?;
            Filters::new(p).len()
        }
        ConvKind::First => product(&[out_blocks, p.ic, p.kh, p.kw, BLOCK]),
        ConvKind::Depthwise => product(&[out_blocks, p.kh, p.kw, BLOCK]),
        ConvKind::Plain | ConvKind::Transposed => product(&[p.oc, p.ic / p.group, p.kh, p.kw]),
    }
}

/// Writes the filters of a range, one behind another, each as [IC / group][KH][KW].
pub(super) type Read<'a> = &'a mut dyn FnMut(Range<usize>, &mut [f32]);

/// Packs filters that are read a block of output channels at a time, so that they are in a cache while they are put in order.
pub(super) fn pack(kind: ConvKind, p: &ConvParams, read: Read<'_>, out: &mut [f32]) {
    assert_eq!(Some(out.len()), len(kind, p));
    match kind {
        ConvKind::Plain | ConvKind::Transposed => read(0..p.oc, out),
        ConvKind::Depthwise | ConvKind::First => pack_filters(p, read, out),
        ConvKind::Blocked | ConvKind::Winograd => pack_blocks(p, read, out),
    }
}

/// As [o block][tap][i][16 o].
fn pack_filters(p: &ConvParams, read: Read<'_>, out: &mut [f32]) {
    let ((group_ic, _), taps) = (p.group_channels(), p.kh * p.kw);
    let inner = group_ic * taps;
    let mut filters = vec![0.0; BLOCK.min(p.oc) * inner];
    for (block, out) in out.chunks_exact_mut((inner * BLOCK).max(1)).enumerate() {
        let range = block * BLOCK..p.oc.min((block + 1) * BLOCK);
        let filters = &mut filters[..range.len() * inner];
        let lanes = range.len();
        read(range, filters);
        if lanes < BLOCK {
            out.fill(0.0);
        }
        exchange(Rows { filters, lanes, start: 0, rows: group_ic, taps, to: out, row: BLOCK });
    }
}

/// As [`Filters`] says, zero where an input channel is none of the output channel's.
fn pack_blocks(p: &ConvParams, read: Read<'_>, out: &mut [f32]) {
    let ((group_ic, group_oc), taps) = (p.group_channels(), p.kh * p.kw);
    let to = Filters::new(p);
    let blocks = to.outputs.div_ceil(BLOCK);
    // Weights of a filter.
    let inner = group_ic * taps;
    // Most often all filters of a block read the same channels.
    let alike = group_ic == to.inputs;
    let written = if alike { to.groups * to.outputs * inner } else { 0 };
    out[written..].fill(0.0);
    let mut of_block = vec![0.0; BLOCK.min(to.outputs) * inner];
    for (group, block) in (0..to.groups).flat_map(|group| (0..blocks).map(move |block| (group, block))) {
        let first = group * to.outputs + block * BLOCK;
        let range = first..first + BLOCK.min(to.outputs - block * BLOCK);
        let filters = &mut of_block[..range.len() * inner];
        read(range.clone(), filters);
        if alike {
            for input in 0..to.inputs.div_ceil(BLOCK) {
                let (rows, lanes) = (to.rows(input), range.len());
                let out = &mut out[to.start(group, block, input, 0)..];
                let start = input * BLOCK * taps;
                exchange(Rows { filters, lanes, start, rows, taps, to: out, row: to.row(block) });
            }
            continue;
        }
        let place = |i: usize, tap: usize| to.start(group, block, i / BLOCK, tap) + i % BLOCK * to.row(block);
        for (lane, o) in range.enumerate() {
            // The first input channel of `o`, counted within the kernel's group.
            let before = o / group_oc * group_ic - group * to.inputs;
            for (i, window) in filters[lane * inner..][..inner].chunks_exact(taps).enumerate() {
                for (tap, &weight) in window.iter().enumerate() {
                    out[place(before + i, tap) + lane] = weight;
                }
            }
        }
    }
}

/// Some input channels of some filters, which go to rows of `lanes` values: [tap][channel][filter].
struct Rows<'a> {
    /// One behind another.
    filters: &'a [f32],
    /// How many.
    lanes: usize,
    /// Where the first channel is in each.
    start: usize,
    /// Channels.
    rows: usize,
    taps: usize,
    to: &'a mut [f32],
    /// From a row to the next.
    row: usize,
}

fn exchange(rows: Rows<'_>) {
    let Rows { filters, lanes, start, rows: channels, taps, row, .. } = rows;
    let columns = channels * taps;
    if columns == 0 || lanes == 0 {
        return;
    }
    assert!(lanes <= BLOCK && filters.len().is_multiple_of(lanes) && start + columns <= filters.len() / lanes);
    assert!(rows.to.len() >= (columns - 1) * row + lanes);
    dispatch(Isa::detect(), rows);
}

impl Kernel for Rows<'_> {
    type Out = ();

    /// 16 weights of each filter become rows.
    ///
    /// # Safety
    /// As [`Kernel::run`]; [`exchange`] looked at the lengths.
    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Rows { filters, lanes, start, rows, taps, to, row } = self;
        let (each, columns, to) = (filters.len() / lanes, rows * taps, to.as_mut_ptr());
        for column in (0..columns).step_by(BLOCK) {
            let count = BLOCK.min(columns - column);
            // SAFETY: as many weights of each filter, and as many rows, are there.
            unsafe {
                let square = square::<V>(filters.as_ptr().add(start + column), each, lanes, count);
                for (i, value) in square.into_iter().enumerate().take(count) {
                    let (channel, tap) = ((column + i) / taps, (column + i) % taps);
                    value.store_up_to(to.add((tap * rows + channel) * row), lanes);
                }
            }
        }
    }
}
