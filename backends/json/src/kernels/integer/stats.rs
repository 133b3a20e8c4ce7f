//! What products of bytes need to know of each panel of B.

use super::dot::Dot;
use super::pack::{DEPTH, PANEL};
use super::wants_stats;
use crate::kernels::isa::Isa;
use crate::kernels::parallel::Threads;

/// Steps whose products may be added up in 16 bits, from few to many.
pub(super) const CHAINS: [usize; 3] = [1, 2, 4];

/// Of one panel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct PanelStats {
    /// The sum of each column.
    pub(super) sums: [i32; PANEL],
    /// For each of [`CHAINS`], the greatest sum of weights of one sign that are added up in one place: two neighbours of each
    /// step of a chain.
    pub(super) peaks: [u32; CHAINS.len()],
}

impl PanelStats {
    /// Steps whose products with bytes of at most `peak` may be added up in 16 bits; 0 if not even those of one may.
    #[inline(always)]
    pub(super) fn chain(&self, peak: u8) -> usize {
        let fits = |index: usize| self.peaks[index] * u32::from(peak) <= i16::MAX as u32;
        match (fits(2), fits(1), fits(0)) {
            (true, ..) => CHAINS[2],
            (_, true, _) => CHAINS[1],
            (.., true) => CHAINS[0],
            _ => 0,
        }
    }
}

/// Looks at all panels of a B of `k` rows; at none where the instruction set has no products of bytes.
///
/// # Panics
/// If there is no whole number of panels.
pub fn stats(isa: Isa, panels: &[i8], k: usize) -> Vec<PanelStats> {
    let len = k.next_multiple_of(DEPTH) * PANEL;
    if len == 0 || Dot::of(isa) == Dot::Wide {
        return Vec::new();
    }
    assert!(panels.len().is_multiple_of(len));
    let mut stats = vec![PanelStats::default(); panels.len() / len];
    look(Dot::of(isa), panels, k, &mut stats);
    stats
}

/// Writes what dot products need to know of as many panels of a B of `k` rows.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "only x86-64 has products of bytes"))]
pub(super) fn look(dot: Dot, panels: &[i8], k: usize, stats: &mut [PanelStats]) {
    let len = k.next_multiple_of(DEPTH) * PANEL;
    #[cfg(target_arch = "x86_64")]
    for (stats, panel) in stats.iter_mut().zip(panels.chunks_exact(len.max(1))) {
        *stats = match dot {
            Dot::Wide => PanelStats::default(),
            // SAFETY: a CPU that has these dot products has AVX2.
            Dot::Pairs => unsafe { x86::look(panel) },
            Dot::Vnni256 | Dot::Vnni512 | Dot::Amx => {
                // SAFETY: as above.
                let sums = unsafe { x86::sums(panel) };
                PanelStats { sums, ..PanelStats::default() }
            }
        };
    }
}

/// What products of so many rows are faster with of all panels of a B of `k` rows, where the sums of its columns are known already.
///
/// # Panics
/// If there is no whole number of panels.
pub fn stats_of_sums(threads: &Threads, panels: &[i8], k: usize, rows: usize, sums: &[i32]) -> Vec<PanelStats> {
    match Dot::of(threads.isa()) {
        Dot::Vnni256 | Dot::Vnni512 => {
            let panels = sums.as_chunks::<PANEL>().0.iter();
            panels.map(|&sums| PanelStats { sums, ..PanelStats::default() }).collect()
        }
        _ if wants_stats(threads, rows) => stats(threads.isa(), panels, k),
        _ => Vec::new(),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi16, _mm256_add_epi32, _mm256_loadu_si256, _mm256_madd_epi16, _mm256_maddubs_epi16,
        _mm256_max_epi8, _mm256_max_epi16, _mm256_min_epi8, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_setzero_si256,
        _mm256_storeu_si256, _mm256_sub_epi16,
    };

    use super::{CHAINS, DEPTH, PANEL, PanelStats};

    /// The positive weights of each two neighbours, added up, and the negative ones.
    #[derive(Clone, Copy)]
    struct Signs {
        more: __m256i,
        less: __m256i,
    }

    /// # Safety
    /// The CPU has AVX2, as for all that follows.
    #[inline(always)]
    unsafe fn signs(step: &[i8; DEPTH * PANEL]) -> Signs {
        // SAFETY: 32 bytes; the caller vouches for the CPU. Two bytes with one sign fit in 16 bits.
        unsafe {
            let (weights, zero) = (_mm256_loadu_si256(step.as_ptr().cast::<__m256i>()), _mm256_setzero_si256());
            let ones = _mm256_set1_epi8(1);
            Signs {
                more: _mm256_maddubs_epi16(ones, _mm256_max_epi8(weights, zero)),
                less: _mm256_maddubs_epi16(ones, _mm256_min_epi8(weights, zero)),
            }
        }
    }

    #[inline(always)]
    unsafe fn both(a: Signs, b: Signs) -> Signs {
        // SAFETY: the caller vouches for the CPU. At most eight bytes are added up.
        unsafe { Signs { more: _mm256_add_epi16(a.more, b.more), less: _mm256_add_epi16(a.less, b.less) } }
    }

    #[inline(always)]
    unsafe fn raise(peak: &mut __m256i, signs: Signs) {
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let less = _mm256_sub_epi16(_mm256_setzero_si256(), signs.less);
            *peak = _mm256_max_epi16(*peak, _mm256_max_epi16(signs.more, less));
        }
    }

    #[inline(always)]
    unsafe fn add(sums: &mut __m256i, signs: Signs) {
        // SAFETY: the caller vouches for the CPU.
        unsafe {
            let words = _mm256_add_epi16(signs.more, signs.less);
            *sums = _mm256_add_epi32(*sums, _mm256_madd_epi16(words, _mm256_set1_epi16(1)));
        }
    }

    /// The sum of each column.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn sums(panel: &[i8]) -> [i32; PANEL] {
        // SAFETY: the caller vouches for the CPU; 32 bytes of each step, and of the sums. Two bytes fit in 16 bits.
        unsafe {
            let (mut sums, ones) = (_mm256_setzero_si256(), _mm256_set1_epi8(1));
            for step in panel.as_chunks::<{ DEPTH * PANEL }>().0 {
                let pairs = _mm256_maddubs_epi16(ones, _mm256_loadu_si256(step.as_ptr().cast()));
                sums = _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
            }
            let mut out = [0; PANEL];
            _mm256_storeu_si256(out.as_mut_ptr().cast(), sums);
            out
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn look(panel: &[i8]) -> PanelStats {
        // SAFETY: the caller vouches for the CPU; what is stored is as long as where it goes.
        unsafe {
            let (mut sums, mut peaks) = (_mm256_setzero_si256(), [_mm256_setzero_si256(); CHAINS.len()]);
            let (chains, rest) = panel.as_chunks().0.as_chunks::<4>();
            for [a, b, c, d] in chains {
                let (a, b, c, d) = (signs(a), signs(b), signs(c), signs(d));
                for one in [a, b, c, d] {
                    raise(&mut peaks[0], one);
                }
                let (first, second) = (both(a, b), both(c, d));
                raise(&mut peaks[1], first);
                raise(&mut peaks[1], second);
                raise(&mut peaks[2], both(first, second));
                add(&mut sums, both(first, second));
            }
            // The last ones may be a shorter chain, but are never a part of a longer one.
            let mut last = Signs { more: _mm256_setzero_si256(), less: _mm256_setzero_si256() };
            for step in rest {
                raise(&mut peaks[0], signs(step));
                last = both(last, signs(step));
            }
            raise(&mut peaks[1], last);
            raise(&mut peaks[2], last);
            add(&mut sums, last);
            let mut stats = PanelStats::default();
            _mm256_storeu_si256(stats.sums.as_mut_ptr().cast::<__m256i>(), sums);
            for (peak, places) in stats.peaks.iter_mut().zip(peaks) {
                let mut words = [0u16; 2 * PANEL];
                _mm256_storeu_si256(words.as_mut_ptr().cast::<__m256i>(), places);
                *peak = words.into_iter().max().map_or(0, u32::from);
            }
            stats
        }
    }
}
