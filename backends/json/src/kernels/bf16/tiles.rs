//! The matrix units of x86-64 (AMX): eight tiles of 16 rows of 64 bytes, and products of tiles of bf16 that are added up in f32.
//!
//! Instructions and their numbers: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2; how a process asks for the
//! tiles: the Linux kernel's documentation, arch/x86/xstate.

use std::arch::asm;
use std::arch::x86_64::__m512;
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::terms::{Between, MOST, Multiplier, Operand, Rows, SUMS, Step, Terms, all_finite, put_row};
use super::{TILE, TILE_BYTES};

/// Whether this process may use tiles and products of bf16: asks the processor and the kernel of the operating system, once. Tests always
/// may, as they emulate what is not there.
pub(super) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let is_there = has_instructions() && permit();
        #[cfg(test)]
        let is_there = is_there || super::emulator::install();
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
    /// Tile `T` is zero.
    #[inline(always)]
    fn zero<const T: usize>(&self) {
        // SAFETY: the tiles are configured, and compiled code keeps nothing in them.
        unsafe { asm!("tilezero tmm{}", const T, options(nostack, preserves_flags, nomem)) };
    }

    /// Tile `T` is what is at `from`, row after row.
    ///
    /// # Safety
    /// 1024 readable bytes.
    #[inline(always)]
    unsafe fn load<const T: usize>(&self, from: *const u8) {
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
    unsafe fn store<const T: usize>(&self, to: *mut u8) {
        // SAFETY: as above; the caller vouches for the bytes.
        unsafe {
            asm!("tilestored [{} + {}], tmm{}", in(reg) to, in(reg) 64usize, const T, options(nostack, preserves_flags))
        };
    }

    /// Adds the product of tiles `A` and `B` of bf16 to tile `C` of f32.
    #[inline(always)]
    fn product<const C: usize, const A: usize, const B: usize>(&self) {
        // SAFETY: the tiles are configured, and compiled code keeps nothing in them.
        unsafe {
            asm!("tdpbf16ps tmm{}, tmm{}, tmm{}", const C, const A, const B, options(nostack, preserves_flags, nomem))
        };
    }

    /// Adds the products of 32 elements of k to the sums. Tiles 0 to 3 are the sums, 4 and 5 rows of A, 6 and 7 columns of B; without `ROWS`
    /// or `COLUMNS` the second of them is not there.
    ///
    /// # Safety
    /// The tiles of `a` and `b` are readable.
    #[inline(always)]
    unsafe fn products<T: Terms, const ROWS: bool, const COLUMNS: bool>(&self, a: Operand, b: Operand) {
        let (mut loaded_a, mut loaded_b) = (MOST, MOST);
        for &(i, j) in T::ORDER {
            // SAFETY: the caller vouches for the tiles.
            unsafe {
                if i != loaded_a {
                    let from = a.tiles.add(i * a.piece);
                    self.load::<4>(from);
                    if ROWS {
                        self.load::<5>(from.add(TILE_BYTES));
                    }
                }
                if j != loaded_b {
                    let from = b.tiles.add(j * b.piece);
                    self.load::<6>(from);
                    if COLUMNS {
                        self.load::<7>(from.add(TILE_BYTES));
                    }
                }
            }
            (loaded_a, loaded_b) = (i, j);
            self.product::<0, 4, 6>();
            if COLUMNS {
                self.product::<1, 4, 7>();
            }
            if ROWS {
                self.product::<2, 5, 6>();
            }
            if ROWS && COLUMNS {
                self.product::<3, 5, 7>();
            }
        }
    }
}

impl Multiplier for Tiles {
    /// 32 KiB in one piece: such tiles have to come from the first-level cache. Those of more pieces need not.
    const DEPTH: usize = 512;

    #[inline(always)]
    unsafe fn start() -> Tiles {
        // SAFETY: 64 bytes that are a valid configuration.
        unsafe { asm!("ldtilecfg [rax]", in("rax") &raw const WHOLE, options(nostack, preserves_flags, readonly)) };
        Tiles { _here: PhantomData }
    }

    #[inline(always)]
    unsafe fn put_a<T: Terms>(to: *mut u8, stride: usize, elements: [__m512; 2]) {
        // SAFETY: the caller vouches for it.
        unsafe { put_row(T::A, to, stride, elements) };
    }

    #[inline(always)]
    unsafe fn put_b<T: Terms>(to: *mut u8, stride: usize, rows: &impl Rows, index: usize) {
        // SAFETY: the caller vouches for it.
        unsafe { put_row(T::B, to, stride, [rows.row(index), rows.row(index + TILE)]) };
    }

    #[inline(always)]
    unsafe fn sums<T: Terms>(
        &self,
        [rows, columns]: [usize; 2],
        steps: impl Iterator<Item = Step> + Clone,
        between: &mut impl Between,
        sums: &mut [f32; SUMS],
    ) -> bool {
        self.zero::<0>();
        self.zero::<1>();
        self.zero::<2>();
        self.zero::<3>();
        for Step { a, b, .. } in steps {
            // SAFETY: the caller vouches for the tiles.
            unsafe {
                match (rows > TILE, columns > TILE) {
                    (true, true) => self.products::<T, true, true>(a, b),
                    (true, false) => self.products::<T, true, false>(a, b),
                    (false, true) => self.products::<T, false, true>(a, b),
                    (false, false) => self.products::<T, false, false>(a, b),
                }
                between.advance(1);
            }
        }
        let to: *mut u8 = sums.as_mut_ptr().cast();
        // SAFETY: four tiles of 1024 bytes.
        unsafe {
            self.store::<0>(to);
            self.store::<1>(to.add(TILE_BYTES));
            self.store::<2>(to.add(2 * TILE_BYTES));
            self.store::<3>(to.add(3 * TILE_BYTES));
            all_finite(sums)
        }
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
            let tiles = Tiles::start();
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
