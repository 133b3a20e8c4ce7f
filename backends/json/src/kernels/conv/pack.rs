//! Weight packing for the convolution kernels.

use super::{ConvKind, ConvParams};
use crate::kernels::layout::BLOCK;
use crate::kernels::sizes::product;

/// Blocks in and out of one group, for [`ConvKind::Blocked`] and [`ConvKind::Winograd`], and the number of such groups.
pub(super) fn group_blocks(p: &ConvParams) -> (usize, usize, usize) {
    let groups = p.blocked_groups().unwrap_or(p.group);
    ((p.ic / groups).div_ceil(BLOCK), (p.oc / groups).div_ceil(BLOCK), groups)
}

pub(super) fn len(kind: ConvKind, p: &ConvParams) -> Option<usize> {
    let out_blocks = p.oc.div_ceil(BLOCK);
    match kind {
        ConvKind::Blocked | ConvKind::Winograd => {
            let (ib, ob, groups) = group_blocks(p);
            product(&[groups, ob, ib, p.kh, p.kw, BLOCK, BLOCK])
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

/// As [group][o block][i block][tap][16 i][16 o], zero where an input channel is none of the output channel's.
fn pack_blocks(p: &ConvParams, oihw: &[f32], out: &mut [f32]) {
    let ((group_ic, group_oc), taps) = (p.group_channels(), p.kh * p.kw);
    let (ib, ob, groups) = group_blocks(p);
    // Channels of a kernel's group; wider than the convolution's own when small groups are joined.
    let (wide_ic, wide_oc) = (p.ic / groups, p.oc / groups);
    // Weights of a filter, and of a tap between two blocks.
    let (inner, square) = (group_ic * taps, BLOCK * BLOCK);
    out.fill(0.0);
    for (at, blocks) in out.chunks_exact_mut((ib * taps * square).max(1)).enumerate() {
        let (group, outs) = (at / ob, at % ob * BLOCK);
        let first = group * wide_oc + outs;
        let filters = first..first + BLOCK.min(wide_oc - outs);
        let row = |o: usize| &oihw[o * inner..][..inner];
        // Most often all filters of a block read the same channels: one pass over them, side by side, writes whole lines.
        if filters.len() == BLOCK && group_ic == wide_ic {
            let rows: [&[f32]; BLOCK] = std::array::from_fn(|lane| row(first + lane));
            for (i, tap) in (0..group_ic).flat_map(|i| (0..taps).map(move |tap| (i, tap))) {
                let to = &mut blocks[(i / BLOCK * taps + tap) * square + i % BLOCK * BLOCK..][..BLOCK];
                to.iter_mut().zip(rows).for_each(|(to, row)| *to = row[i * taps + tap]);
            }
            continue;
        }
        for (lane, o) in filters.enumerate() {
            // The first input channel of `o`, counted within the kernel's group.
            let before = o / group_oc * group_ic - group * wide_ic;
            for (i, window) in row(o).chunks_exact(taps).enumerate() {
                let (block, i) = ((before + i) / BLOCK, (before + i) % BLOCK);
                for (tap, &weight) in window.iter().enumerate() {
                    blocks[(block * taps + tap) * square + i * BLOCK + lane] = weight;
                }
            }
        }
    }
}
