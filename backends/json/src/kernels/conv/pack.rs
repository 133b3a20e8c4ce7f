//! Weight packing for the convolution kernels.

use super::{ConvKind, ConvParams};
use crate::kernels::layout::BLOCK;
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

pub(super) fn pack(kind: ConvKind, p: &ConvParams, oihw: &[f32], out: &mut [f32]) {
    assert_eq!(oihw.len(), p.oc * p.group_channels().0 * p.kh * p.kw);
    assert_eq!(Some(out.len()), len(kind, p));
    match kind {
        ConvKind::Plain | ConvKind::Transposed => out.copy_from_slice(oihw),
        ConvKind::Depthwise | ConvKind::First => pack_filters(p, oihw, out),
        ConvKind::Blocked | ConvKind::Winograd => pack_blocks(p, oihw, out),
    }
}

/// As [o block][tap][i][16 o].
fn pack_filters(p: &ConvParams, oihw: &[f32], out: &mut [f32]) {
    let ((group_ic, _), taps) = (p.group_channels(), p.kh * p.kw);
    let inner = group_ic * taps;
    out.fill(0.0);
    for (o, filter) in oihw.chunks_exact(inner.max(1)).enumerate() {
        let block = &mut out[o / BLOCK * inner * BLOCK..][..inner * BLOCK];
        for (i, window) in filter.chunks_exact(taps).enumerate() {
            for (tap, &weight) in window.iter().enumerate() {
                block[(tap * group_ic + i) * BLOCK + o % BLOCK] = weight;
            }
        }
    }
}

/// As [`Filters`] says, zero where an input channel is none of the output channel's.
fn pack_blocks(p: &ConvParams, oihw: &[f32], out: &mut [f32]) {
    let ((group_ic, group_oc), taps) = (p.group_channels(), p.kh * p.kw);
    let to = Filters::new(p);
    let blocks = to.outputs.div_ceil(BLOCK);
    // Weights of a filter.
    let inner = group_ic * taps;
    out.fill(0.0);
    for (group, block) in (0..to.groups).flat_map(|group| (0..blocks).map(move |block| (group, block))) {
        let first = group * to.outputs + block * BLOCK;
        let filters = first..first + BLOCK.min(to.outputs - block * BLOCK);
        let row = |o: usize| &oihw[o * inner..][..inner];
        let place = |i: usize, tap: usize| to.start(group, block, i / BLOCK, tap) + i % BLOCK * to.row(block);
        // Most often all filters of a block read the same channels: one pass over them, side by side, writes whole lines.
        if group_ic == to.inputs {
            let rows: [&[f32]; BLOCK] = std::array::from_fn(|lane| row((first + lane).min(filters.end - 1)));
            for (i, tap) in (0..group_ic).flat_map(|i| (0..taps).map(move |tap| (i, tap))) {
                let to = &mut out[place(i, tap)..][..filters.len()];
                to.iter_mut().zip(rows).for_each(|(to, row)| *to = row[i * taps + tap]);
            }
            continue;
        }
        for (lane, o) in filters.enumerate() {
            // The first input channel of `o`, counted within the kernel's group.
            let before = o / group_oc * group_ic - group * to.inputs;
            for (i, window) in row(o).chunks_exact(taps).enumerate() {
                for (tap, &weight) in window.iter().enumerate() {
                    out[place(before + i, tap) + lane] = weight;
                }
            }
        }
    }
}
