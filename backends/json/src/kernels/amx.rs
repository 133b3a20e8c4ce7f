//! The matrix units of x86-64 (AMX): eight tiles of up to 16 rows of 64 bytes, and products of tiles that are added up in others.
//!
//! Instructions and their numbers: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2; how a process asks for the
//! tiles: the Linux kernel's documentation, arch/x86/xstate.

#[cfg(test)]
mod emulator;

use std::arch::asm;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Rows of a tile, and columns of 32 bits.
pub(crate) const TILE: usize = 16;

/// Bytes of a row of a tile.
pub(super) const LINE: usize = 64;

/// Bytes of a whole tile.
pub(crate) const TILE_BYTES: usize = TILE * LINE;

/// What the processor says of products in leaf 7, EDX: AMX-BF16 and AMX-INT8.
const BF16: u32 = 1 << 22;
const INT8: u32 = 1 << 25;

/// The same of the tiles: AMX-TILE.
const TILES: u32 = 1 << 24;

/// Whether this process may multiply tiles of bf16: asks the processor and the kernel of the operating system, once. Tests always may, as
/// they emulate what is not there.
pub(super) fn multiplies_bf16() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| is_available(BF16))
}

/// The same of tiles of bytes.
pub(super) fn multiplies_bytes() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| is_available(INT8))
}

fn is_available(products: u32) -> bool {
    let is_there = permit() && has_instructions(products);
    #[cfg(test)]
    let is_there = is_there || emulator::install();
    is_there
}

/// What the processor says.
fn has_instructions(products: u32) -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let wanted = products | TILES;
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

/// The operand of `ldtilecfg`: rows of each tile, and bytes of their rows.
#[repr(C, align(64))]
pub(super) struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    /// Eight whole tiles.
    pub(super) const WHOLE: Config = Config::of_products(TILE, LINE);

    /// Tiles 0 to 3 for sums of 32 bits, 4 and 5 for so many rows of A of so many bytes each, and 6 and 7 for what those meet of B.
    ///
    /// # Panics
    /// If these are no sizes of tiles.
    pub(super) const fn of_products(rows: usize, bytes: usize) -> Config {
        assert!(0 < rows && rows <= TILE && 0 < bytes && bytes <= LINE && bytes.is_multiple_of(4));
        let (a, b) = (rows as u8, (bytes / 4) as u8);
        let (line, of_a) = (LINE as u16, bytes as u16);
        Config {
            palette: 1,
            start_row: 0,
            reserved: [0; 14],
            row_bytes: [line, line, line, line, of_a, of_a, line, line, 0, 0, 0, 0, 0, 0, 0, 0],
            rows: [a, a, a, a, a, a, b, b, 0, 0, 0, 0, 0, 0, 0, 0],
        }
    }
}

/// This thread's tiles, configured; given back when dropped, so that a switch of threads need not keep them.
pub(crate) struct Tiles {
    /// They are this thread's.
    _here: PhantomData<*mut ()>,
}

impl Tiles {
    /// # Safety
    /// The process may use them, and no others of this thread are alive.
    #[inline(always)]
    pub(super) unsafe fn configure(config: &Config) -> Tiles {
        // SAFETY: 64 bytes that are a valid configuration; the caller vouches for the instruction.
        unsafe { asm!("ldtilecfg [rax]", in("rax") &raw const *config, options(nostack, preserves_flags, readonly)) };
        Tiles { _here: PhantomData }
    }

    /// Tile `T` is zero.
    #[inline(always)]
    pub(super) fn zero<const T: usize>(&self) {
        // SAFETY: the tiles are configured, and compiled code keeps nothing in them.
        unsafe { asm!("tilezero tmm{}", const T, options(nostack, preserves_flags, nomem)) };
    }

    /// Tile `T` is what is at `from`, its rows `stride` bytes from each other.
    ///
    /// # Safety
    /// The bytes of each row are readable.
    #[inline(always)]
    pub(super) unsafe fn load<const T: usize>(&self, from: *const u8, stride: usize) {
        // SAFETY: as above; the caller vouches for the bytes.
        unsafe {
            asm!("tileloadd tmm{}, [{} + {}]", const T, in(reg) from, in(reg) stride, options(nostack, preserves_flags, readonly));
        }
    }

    /// Writes tile `T` to `to`, row after row.
    ///
    /// # Safety
    /// The bytes of each row are writable.
    #[inline(always)]
    pub(super) unsafe fn store<const T: usize>(&self, to: *mut u8) {
        // SAFETY: as above; the caller vouches for the bytes.
        unsafe {
            asm!("tilestored [{} + {}], tmm{}", in(reg) to, in(reg) LINE, const T, options(nostack, preserves_flags))
        };
    }

    /// Adds the product of tiles `A` and `B` of bf16 to tile `C` of f32.
    #[inline(always)]
    pub(super) fn add_bf16<const C: usize, const A: usize, const B: usize>(&self) {
        // SAFETY: the tiles are configured, and compiled code keeps nothing in them.
        unsafe {
            asm!("tdpbf16ps tmm{}, tmm{}, tmm{}", const C, const A, const B, options(nostack, preserves_flags, nomem))
        };
    }

    /// Adds the product of tiles `A` of u8 and `B` of i8 to tile `C` of i32; the sums wrap.
    #[inline(always)]
    pub(super) fn add_bytes<const C: usize, const A: usize, const B: usize>(&self) {
        // SAFETY: the tiles are configured, and compiled code keeps nothing in them.
        unsafe {
            asm!("tdpbusd tmm{}, tmm{}, tmm{}", const C, const A, const B, options(nostack, preserves_flags, nomem))
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
        assert!(multiplies_bf16());
        let bf16_pair = |low: f32, high: f32| (low.to_bits() >> 16) | (high.to_bits() & 0xffff_0000);
        let a: Vec<u32> = (0..256).map(|at| bf16_pair((at % 7) as f32 - 3.0, (at % 5) as f32)).collect();
        let b: Vec<u32> = (0..256).map(|at| bf16_pair((at % 3) as f32, (at % 11) as f32 - 5.0)).collect();
        let mut c = vec![f32::NAN; 256];
        // SAFETY: there are the instructions or the emulator; each tile is 1024 bytes.
        unsafe {
            let tiles = Tiles::configure(&Config::WHOLE);
            tiles.zero::<3>();
            tiles.load::<4>(a.as_ptr().cast(), LINE);
            tiles.load::<7>(b.as_ptr().cast(), LINE);
            tiles.add_bf16::<3, 4, 7>();
            tiles.add_bf16::<3, 4, 7>();
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

    /// A has no sign and B has one; tiles of fewer rows and bytes read and write no others.
    #[test]
    fn a_product_of_tiles_adds_bytes_in_32_bits() {
        assert!(multiplies_bytes());
        for (rows, bytes, stride) in [(16, 64, 64), (7, 28, 96), (1, 4, 4)] {
            let a: Vec<u8> = (0..rows * stride).map(|at| (at * 37 + 200) as u8).collect();
            let b: Vec<i8> = (0..bytes * TILE).map(|at| (at * 91 + 100) as u8 as i8).collect();
            let mut c = vec![-1i32; TILE * TILE];
            // SAFETY: there are the instructions or the emulator; tiles have no more bytes than the lists.
            unsafe {
                let tiles = Tiles::configure(&Config::of_products(rows, bytes));
                tiles.zero::<1>();
                tiles.load::<5>(a.as_ptr(), stride);
                tiles.load::<6>(b.as_ptr().cast(), LINE);
                tiles.add_bytes::<1, 5, 6>();
                tiles.add_bytes::<1, 5, 6>();
                tiles.store::<1>(c.as_mut_ptr().cast());
            }
            for (at, got) in c.iter().enumerate() {
                let (row, column) = (at / TILE, at % TILE);
                let of_k = |k: usize| i32::from(a[row * stride + k]) * i32::from(b[k / 4 * LINE + column * 4 + k % 4]);
                let want = if row < rows { 2 * (0..bytes).map(of_k).sum::<i32>() } else { -1 };
                assert_eq!(*got, want, "{rows} rows of {bytes} bytes: row {row}, column {column}");
            }
        }
    }
}
