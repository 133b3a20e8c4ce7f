//! Functions of one byte, by a table.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    _mm512_loadu_si512, _mm512_mask_blend_epi8, _mm512_movepi8_mask, _mm512_permutex2var_epi8, _mm512_storeu_si512,
};

use super::linear::in_parts;
use crate::kernels::parallel::Threads;

/// `y = table[x]`.
///
/// # Panics
/// If the lengths differ.
pub fn lookup(threads: &Threads, table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    assert_eq!(x.len(), y.len());
    #[cfg(target_arch = "x86_64")]
    if threads.isa().has_vbmi() {
        // SAFETY: the CPU has it.
        in_parts(threads, y, |range, y| unsafe { permute(table, &x[range], y) });
        return;
    }
    in_parts(threads, y, |range, y| one_by_one(table, &x[range], y));
}

fn one_by_one(table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    y.iter_mut().zip(x).for_each(|(y, &x)| *y = table[usize::from(x)]);
}

/// The same for 64 bytes at a time: each half of the table is two vectors.
///
/// # Safety
/// The CPU has AVX-512 F, BW and VBMI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
unsafe fn permute(table: &[u8; 256], x: &[u8], y: &mut [u8]) {
    const LANES: usize = 64;
    let (from, x_rest) = x.as_chunks::<LANES>();
    let (to, y_rest) = y.as_chunks_mut::<LANES>();
    let table_at = table.as_ptr();
    // SAFETY: four vectors of the table, and one of each chunk.
    unsafe {
        let low = [_mm512_loadu_si512(table_at.cast()), _mm512_loadu_si512(table_at.add(LANES).cast())];
        let high =
            [_mm512_loadu_si512(table_at.add(2 * LANES).cast()), _mm512_loadu_si512(table_at.add(3 * LANES).cast())];
        for (from, to) in from.iter().zip(to) {
            let x = _mm512_loadu_si512(from.as_ptr().cast());
            let of_low = _mm512_permutex2var_epi8(low[0], x, low[1]);
            let of_high = _mm512_permutex2var_epi8(high[0], x, high[1]);
            let y = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), of_low, of_high);
            _mm512_storeu_si512(to.as_mut_ptr().cast(), y);
        }
    }
    one_by_one(table, x_rest, y_rest);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::isa::Isa;

    #[test]
    fn every_byte_has_its_own() {
        let table: [u8; 256] = std::array::from_fn(|at| (at * 7 + 3) as u8);
        for len in [0, 1, 63, 64, 65, 256, 40_000] {
            let x: Vec<u8> = (0..len).map(|at: usize| (at + at / 256) as u8).collect();
            let want: Vec<u8> = x.iter().map(|&x| table[usize::from(x)]).collect();
            for &isa in Isa::available() {
                let mut y = vec![0; len];
                lookup(&Threads::with_isa(2, isa), &table, &x, &mut y);
                assert_eq!(y, want, "{isa:?} {len}");
            }
        }
    }
}
