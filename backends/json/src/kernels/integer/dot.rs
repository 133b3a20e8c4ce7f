//! How a CPU multiplies rows of bytes with panels of them.

use crate::kernels::isa::Isa;
use crate::kernels::parallel::Threads;

/// The instructions that products are made of, worst first. All give the same sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "VNNI is of x86-64"))]
pub(super) enum Dot {
    /// Products of 16 bits: A is widened.
    Wide,
    /// Products of bytes, of which several are added up in 16 bits where they fit; of 16 bits elsewhere. AVX2.
    Pairs,
    /// Four products of bytes at once, in vectors of 256 bits. AVX-VNNI.
    Vnni256,
    /// The same in vectors of 512 bits. AVX512-VNNI.
    Vnni512,
    /// Tiles of 16 rows of 64 bytes with 16 columns, by matrix units. AMX-INT8, beside AVX512-VNNI.
    Amx,
}

/// Rows, elements of a row, and elements of all rows from which on matrix units are used. By counts of cycles (16 for a product of tiles, 8
/// to 19 to load one, 40 to put as much of B in order, 170 to configure and release them once a call), not by measurement, they take half
/// of the time of dot products of vectors there, and less of larger products.
const LEAST: [usize; 3] = [16, 64, 4096];

/// Panels that any dot products multiply together.
pub(super) const MOST_PANELS: usize = 4;

impl Dot {
    /// The best that the CPU and the instruction set have.
    pub(super) fn of(isa: Isa) -> Dot {
        Dot::available(isa).last().copied().unwrap_or(Dot::Wide)
    }

    /// The best for so many rows of A, of so many elements each.
    pub(super) fn of_product(threads: &Threads, rows: usize, depth: usize) -> Dot {
        let pays = rows >= LEAST[0] && depth >= LEAST[1] && rows.saturating_mul(depth) >= LEAST[2];
        match Dot::of(threads.isa()) {
            Dot::Vnni512 if pays && threads.has_amx() => Dot::Amx,
            dot => dot,
        }
    }

    /// All that they have, but for matrix units.
    pub(super) fn available(isa: Isa) -> &'static [Dot] {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 if is_x86_feature_detected!("avxvnni") => &[Dot::Wide, Dot::Pairs, Dot::Vnni256],
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if isa.has_vnni512() => &[Dot::Wide, Dot::Pairs, Dot::Vnni512],
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::Avx512 => &[Dot::Wide, Dot::Pairs],
            _ => &[Dot::Wide],
        }
    }

    /// Whether it reads rows of 16 bits, at least where it must.
    pub(super) fn widens(self) -> bool {
        matches!(self, Dot::Wide | Dot::Pairs)
    }

    /// Whether it reads rows of A in pieces, and lines of them.
    pub(super) fn takes_pieces(self) -> bool {
        matches!(self, Dot::Vnni512 | Dot::Amx)
    }

    /// Panels that are multiplied together, [`MOST_PANELS`] at most.
    pub(super) fn panels(self) -> usize {
        match self {
            Dot::Wide | Dot::Pairs => 1,
            Dot::Vnni256 => 2,
            Dot::Vnni512 | Dot::Amx => 4,
        }
    }
}
