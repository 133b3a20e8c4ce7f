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
    let (group_ic, group_oc) = p.group_channels();
    let taps = p.kh * p.kw;
    assert_eq!(oihw.len(), p.oc * group_ic * taps);
    assert_eq!(Some(out.len()), len(kind, p));
    let (ib, ob, groups) = group_blocks(p);
    // Channels of a kernel's group; wider than the convolution's own when small groups are joined.
    let (wide_ic, wide_oc) = (p.ic / groups, p.oc / groups);
    // The weight from `i` (counted within the kernel's group) to output channel `o`, zero where they do not meet.
    let weight = |o: usize, i: usize, tap: usize| {
        let first_ic = (o / group_oc) * group_ic;
        let ic = (o / wide_oc) * wide_ic + i;
        if ic < first_ic || ic >= first_ic + group_ic { 0.0 } else { oihw[(o * group_ic + ic - first_ic) * taps + tap] }
    };
    match kind {
        ConvKind::Plain | ConvKind::Transposed => out.copy_from_slice(oihw),
        ConvKind::Depthwise | ConvKind::First => {
            let inner = group_ic * taps;
            for (at, block) in out.chunks_exact_mut(BLOCK).enumerate() {
                let (first, k) = (at / inner * BLOCK, at % inner);
                // [o block][tap][i][16 o]
                let k = k % group_ic * taps + k / group_ic;
                for (lane, v) in block.iter_mut().enumerate() {
                    *v = if first + lane < p.oc { oihw[(first + lane) * inner + k] } else { 0.0 };
                }
            }
        }
        ConvKind::Blocked | ConvKind::Winograd => {
            // [group][ob][ib][tap][16 i][16 o]
            for (at, row) in out.chunks_exact_mut(BLOCK).enumerate() {
                let lane_i = at % BLOCK;
                let tap = at / BLOCK % taps;
                let i = at / (BLOCK * taps) % ib * BLOCK + lane_i;
                let o_block = at / (BLOCK * taps * ib) % ob;
                let group = at / (BLOCK * taps * ib * ob);
                for (lane, v) in row.iter_mut().enumerate() {
                    let o = o_block * BLOCK + lane;
                    *v = if i < wide_ic && o < wide_oc { weight(group * wide_oc + o, i, tap) } else { 0.0 };
                }
            }
        }
    }
}
