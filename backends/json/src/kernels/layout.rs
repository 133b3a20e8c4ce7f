//! NCHW to NCHW16c and back. NCHW16c is [N][ceil(C / 16)][H][W][16].

use super::activation::parts_of;
use super::exchange::Exchange;
use super::isa::dispatch;
use super::parallel::{SharedMut, Threads, part};
use super::sizes::product;

/// Channels of a block.
pub const BLOCK: usize = 16;

/// f32 values of an NCHW16c tensor with `hw` pixels; saturates where that is more than can be counted, which is longer
/// than any slice.
pub fn blocked_len(n: usize, c: usize, hw: usize) -> usize {
    product(&[n, c.div_ceil(BLOCK), hw, BLOCK]).unwrap_or(usize::MAX)
}

/// Pixels converted together: 16 rows of this many f32 stay in the first-level cache.
const STRIP: usize = 256;

/// NCHW to NCHW16c; lanes past the last channel become zero.
///
/// # Panics
/// If a length is wrong.
pub fn to_blocked(threads: &Threads, n: usize, c: usize, hw: usize, nchw: &[f32], out: &mut [f32]) {
    assert_eq!(Some(nchw.len()), product(&[n, c, hw]));
    assert_eq!(out.len(), blocked_len(n, c, hw));
    let dst = SharedMut::new(out);
    each_strip(threads, n, c, hw, |image, block, start, pixels| {
        // SAFETY: strips are disjoint.
        let out = unsafe { dst.slice(((image * c.div_ceil(BLOCK) + block) * hw + start) * BLOCK, pixels * BLOCK) };
        let rows = BLOCK.min(c - block * BLOCK);
        if rows < BLOCK {
            out.fill(0.0);
        }
        let from = &nchw[(image * c + block * BLOCK) * hw + start..][..(rows - 1) * hw + pixels];
        let (from, to) = (from.as_ptr(), out.as_mut_ptr());
        dispatch(threads.isa(), Exchange { from, from_row: hw, rows, columns: pixels, to, to_row: BLOCK });
    });
}

/// NCHW16c to NCHW.
///
/// # Panics
/// If a length is wrong.
pub fn from_blocked(threads: &Threads, n: usize, c: usize, hw: usize, blocked: &[f32], out: &mut [f32]) {
    assert_eq!(blocked.len(), blocked_len(n, c, hw));
    assert_eq!(Some(out.len()), product(&[n, c, hw]));
    let dst = SharedMut::new(out);
    each_strip(threads, n, c, hw, |image, block, start, pixels| {
        let from = &blocked[((image * c.div_ceil(BLOCK) + block) * hw + start) * BLOCK..][..pixels * BLOCK];
        let columns = BLOCK.min(c - block * BLOCK);
        let first = (image * c + block * BLOCK) * hw + start;
        assert!(first + (columns - 1) * hw + pixels <= n * c * hw);
        // Strips are disjoint.
        let (from, to) = (from.as_ptr(), dst.as_ptr().wrapping_add(first));
        dispatch(threads.isa(), Exchange { from, from_row: BLOCK, rows: pixels, columns, to, to_row: hw });
    });
}

/// Calls `f(image, block, first pixel, pixels)` for every strip of every block.
fn each_strip(threads: &Threads, n: usize, c: usize, hw: usize, f: impl Fn(usize, usize, usize, usize) + Sync) {
    let blocks = c.div_ceil(BLOCK);
    let strips = hw.div_ceil(STRIP);
    let total = n * blocks * strips;
    let parts = parts_of(threads, n * c * hw).min(total.max(1));
    threads.parallel_for(parts, |i| {
        for at in part(total, parts, i) {
            let start = at % strips * STRIP;
            f(at / strips / blocks, at / strips % blocks, start, STRIP.min(hw - start));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for threads in [Threads::new(1), Threads::new(2)] {
            for (n, c, hw) in [(1, 1, 1), (2, 17, 5), (1, 32, 300), (3, 3, 1000), (1, 0, 4)] {
                let x: Vec<f32> = (0..n * c * hw).map(|i| i as f32 + 1.0).collect();
                let mut blocked = vec![f32::NAN; blocked_len(n, c, hw)];
                to_blocked(&threads, n, c, hw, &x, &mut blocked);
                for (i, v) in blocked.iter().enumerate() {
                    let (lane, px, block) = (i % 16, i / 16 % hw, i / 16 / hw % c.div_ceil(16));
                    let (image, channel) = (i / 16 / hw / c.div_ceil(16), block * 16 + lane);
                    let want = if channel < c { x[(image * c + channel) * hw + px] } else { 0.0 };
                    assert_eq!(*v, want);
                }
                let mut back = vec![f32::NAN; x.len()];
                from_blocked(&threads, n, c, hw, &blocked, &mut back);
                assert_eq!(back, x);
            }
        }
    }
}
