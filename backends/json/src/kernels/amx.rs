//! The matrix units of x86-64 (AMX): eight tiles of 16 rows of 64 bytes, and products of tiles of bf16 that are added up in f32.
//!
//! A product of tiles takes A as 16 rows of 32 elements and B as 16 rows of 16 pairs: element pair i of a row of A meets row i of B. Which
//! two elements of k make a pair is free as long as A and B agree; here k and k + 16 do, so that two neighbouring vectors become one row
//! without a permutation.
//!
//! Instructions and their numbers: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2; how a process asks for the
//! tiles: the Linux kernel's documentation, arch/x86/xstate.

#[cfg(test)]
pub(crate) mod emulator;
mod pieces;
pub(crate) mod terms;

use std::arch::asm;
use std::marker::PhantomData;
use std::sync::OnceLock;

use pieces::pieces;

/// Rows of a tile, and its columns of f32.
pub(crate) const TILE: usize = 16;
/// Bytes of a tile.
pub(crate) const TILE_BYTES: usize = 1024;

/// Whether this process may use tiles and products of bf16: asks the processor and the kernel of the operating system, once. Tests always
/// may, as they emulate what is not there.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let is_there = has_instructions() && permit();
        #[cfg(test)]
        let is_there = is_there || emulator::install();
        is_there
    })
}

/// What the processor says: leaf 7, EDX, AMX-BF16 and AMX-TILE.
fn has_instructions() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let wanted = 1 << 22 | 1 << 24;
    #[allow(
        unused_unsafe,
        reason = "these functions are safe since a Rust that is newer than the oldest that this is for"
    )]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & wanted == wanted
    }
}

/// Asks for the state of the tiles, which is too large to be every process's. It is granted to all threads, also later ones.
#[cfg(target_os = "linux")]
fn permit() -> bool {
    const ARCH_PRCTL: usize = 158;
    const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
    const XTILEDATA: usize = 18;
    let result: isize;
    // SAFETY: a system call of two numbers, which touches no memory of the process; `syscall` overwrites rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XTILEDATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// Other systems are not known to grant it so.
#[cfg(not(target_os = "linux"))]
fn permit() -> bool {
    false
}

/// The operand of `ldtilecfg`.
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight whole tiles of bf16 or f32.
static WHOLE: Config = Config {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// This thread's tiles, configured as eight whole ones; given back when dropped, so that a switch of threads need not keep them.
pub(crate) struct Tiles {
    /// They are this thread's.
    _here: PhantomData<*mut ()>,
}

impl Tiles {
    /// # Safety
    /// [`is_available`] said so, and no other `Tiles` of this thread is alive.
    #[inline(always)]
    pub(crate) unsafe fn configure() -> Tiles {
        // SAFETY: 64 bytes that are a valid configuration.
        unsafe { asm!("ldtilecfg [rax]", in("rax") &raw const WHOLE, options(nostack, preserves_flags, readonly)) };
        Tiles { _here: PhantomData }
    }

    /// Tile `T` is zero.
    #[inline(always)]
    pub(crate) fn zero<const T: usize>(&self) {
        // SAFETY: the tiles are configured, and compiled code keeps nothing in them.
        unsafe { asm!("tilezero tmm{}", const T, options(nostack, preserves_flags, nomem)) };
    }

    /// Tile `T` is what is at `from`, row after row.
    ///
    /// # Safety
    /// 1024 readable bytes.
    #[inline(always)]
    pub(crate) unsafe fn load<const T: usize>(&self, from: *const u8) {
        // SAFETY: as above; the caller vouches for the bytes.
        unsafe {
            asm!("tileloadd tmm{}, [{} + {}]", const T, in(reg) from, in(reg) 64usize, options(nostack, preserves_flags, readonly));
        }
    }

    /// Writes tile `T` to `to`, row after row.
    ///
    /// # Safety
    /// 1024 writable bytes.
    #[inline(always)]
    pub(crate) unsafe fn store<const T: usize>(&self, to: *mut u8) {
        // SAFETY: as above; the caller vouches for the bytes.
        unsafe {
            asm!("tilestored [{} + {}], tmm{}", in(reg) to, in(reg) 64usize, const T, options(nostack, preserves_flags))
        };
    }

    /// Adds the product of tiles `A` and `B` of bf16 to tile `C` of f32.
    #[inline(always)]
    pub(crate) fn product<const C: usize, const A: usize, const B: usize>(&self) {
        // SAFETY: the tiles are configured, and compiled code keeps nothing in them.
        unsafe {
            asm!("tdpbf16ps tmm{}, tmm{}, tmm{}", const C, const A, const B, options(nostack, preserves_flags, nomem))
        };
    }
}

impl Drop for Tiles {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the tiles are this thread's and no longer used.
        unsafe { asm!("tilerelease", options(nostack, preserves_flags, nomem)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions by their results: those of this processor if it has them, else those of the emulator.
    #[test]
    fn a_product_of_tiles_adds_pairs_of_bf16_in_f32() {
        assert!(is_available());
        let bf16_pair = |low: f32, high: f32| (low.to_bits() >> 16) | (high.to_bits() & 0xffff_0000);
        let a: Vec<u32> = (0..256).map(|at| bf16_pair((at % 7) as f32 - 3.0, (at % 5) as f32)).collect();
        let b: Vec<u32> = (0..256).map(|at| bf16_pair((at % 3) as f32, (at % 11) as f32 - 5.0)).collect();
        let mut c = vec![f32::NAN; 256];
        // SAFETY: there are the instructions or the emulator; each tile is 1024 bytes.
        unsafe {
            let tiles = Tiles::configure();
            tiles.zero::<3>();
            tiles.load::<4>(a.as_ptr().cast());
            tiles.load::<7>(b.as_ptr().cast());
            tiles.product::<3, 4, 7>();
            tiles.product::<3, 4, 7>();
            tiles.store::<3>(c.as_mut_ptr().cast());
        }
        let part = |pair: u32| [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)];
        for (at, got) in c.iter().enumerate() {
            let (row, column) = (at / 16, at % 16);
            let pairs = (0..16).map(|i| (part(a[row * 16 + i]), part(b[i * 16 + column])));
            let sum: f32 = pairs.map(|(a, b)| a[0] * b[0] + a[1] * b[1]).sum();
            assert_eq!(*got, 2.0 * sum, "row {row}, column {column}");
        }
    }
}
