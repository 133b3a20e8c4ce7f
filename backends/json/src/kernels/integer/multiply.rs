//! Rows of A times panels of B, exact in `i32`, and at once what follows: by the dot products that the CPU has.

use super::dot::Dot;
#[cfg(target_arch = "x86_64")]
use super::tile::Places;
use super::tile::Tiles;
#[cfg(target_arch = "x86_64")]
use super::{amx, pairs, vnni, vnni_row, vnni512, wide};

/// Computes and writes the tiles; `vectors` says whether the instruction set has any, and `scratch` is what [`Dot::Amx`] needs.
///
/// # Panics
/// If a length is not what the dot products read.
///
/// # Safety
/// The rows and columns of `finish` are in C, and nothing else accesses them; the CPU has what `dot` and `vectors` say.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "only x86-64 has a choice"))]
pub(super) unsafe fn multiply(tiles: &Tiles<'_>, dot: Dot, vectors: bool, scratch: &mut [u8]) {
    tiles.check(dot);
    match dot {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the lengths were checked above; the caller vouches for C and the CPU.
        Dot::Wide if vectors => unsafe { wide::run(tiles) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Dot::Pairs => unsafe { pairs::run(tiles) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Dot::Vnni256 => unsafe { vnni::run(tiles) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Dot::Vnni512 if tiles.finish.rows == 1 && tiles.places == Places::dense(tiles.depth) => unsafe {
            vnni_row::run(tiles);
        },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Dot::Vnni512 => unsafe { vnni512::run(tiles) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Dot::Amx => unsafe { amx::run(tiles, scratch) },
        // SAFETY: the caller vouches for C.
        _ => unsafe { tiles.portable() },
    }
}
