//! The instructions of matrix units in software, for processors without them: the illegal instruction is decoded where it was met and
//! computed on tiles of the thread, as the manual defines it. The kernels' own machine code is tested so, to the encoding.
//!
//! Subnormal numbers are zero for these instructions, in what they read and what they write; the rounding of a sum is to nearest.

use std::cell::Cell;

/// A tile: rows of four bytes each.
type Tile = [[u32; 16]; 16];

/// The tiles of a thread, and the rows and bytes of a row of each.
#[derive(Clone, Copy)]
struct State {
    configured: bool,
    sizes: [[usize; 2]; 8],
    tiles: [Tile; 8],
}

impl State {
    const NONE: State = State { configured: false, sizes: [[0; 2]; 8], tiles: [[[0; 16]; 16]; 8] };
}

thread_local! {
    // Without a destructor and known before the program starts, so that a signal handler may use it.
    static STATE: Cell<State> = const { Cell::new(State::NONE) };
}

/// Has illegal instructions computed here if they are ones of matrix units; says that it did.
pub(crate) fn install() -> bool {
    // SAFETY: a handler of the type that `SA_SIGINFO` asks for; zero is a valid value of the structure's other fields.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGILL, &raw const action, std::ptr::null_mut()) == 0
    }
}

extern "C" fn handler(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands a `ucontext_t` to a handler with `SA_SIGINFO`; its instruction pointer is readable.
    let done = unsafe { step(&mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs) };
    if done.is_none() {
        // SAFETY: ends the process, as the signal would.
        unsafe { libc::abort() }
    }
}

/// Computes the instruction at the instruction pointer and goes past it; `None` if it is none of matrix units.
///
/// # Safety
/// The registers are those of a thread that met it.
unsafe fn step(registers: &mut [libc::greg_t; 23]) -> Option<()> {
    let start = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: the bytes of an instruction, whose length is found as they are read.
    let at = |index: usize| unsafe { *start.add(index) };
    // VEX of three bytes, map 0F38, 128 bits, W 0.
    let (vex, map, w) = (at(0), at(1), at(2));
    if vex != 0xc4 || map & 0x1f != 2 || w & 0x84 != 0 {
        return None;
    }
    let (prefix, vvvv) = (w & 3, usize::from(!w >> 3 & 15));
    let (opcode, modrm) = (at(3), at(4));
    let (mode, reg, rm) = (modrm >> 6, usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
    let mut state = STATE.get();
    let mut length = 5;
    match (opcode, prefix, mode) {
        // LDTILECFG and TILERELEASE.
        (0x49, 0, 0) if rm != 4 && rm != 5 && reg == 0 && vvvv == 0 => {
            // SAFETY: the operand of the instruction.
            let config = unsafe { &*(register(registers, rm, map & 0x20 == 0) as *const [u8; 64]) };
            assert!(config[..16] == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "the only palette");
            state = State { configured: true, ..State::NONE };
            for (tile, [rows, bytes]) in state.sizes.iter_mut().enumerate() {
                *rows = usize::from(config[48 + tile]);
                *bytes = usize::from(u16::from_le_bytes([config[16 + 2 * tile], config[17 + 2 * tile]]));
                assert!(*rows <= 16 && *bytes <= 64 && bytes.is_multiple_of(4), "{rows} rows of {bytes} bytes");
            }
        }
        (0x49, 0, 3) if modrm == 0xc0 && vvvv == 0 => state.configured = false,
        // TILEZERO.
        (0x49, 3, 3) if rm == 0 && vvvv == 0 && state.configured => state.tiles[reg] = [[0; 16]; 16],
        // TILELOADD and TILESTORED: always a SIB byte, here without displacement or with one of a byte.
        (0x4b, 2 | 3, 0 | 1) if rm == 4 && vvvv == 0 && state.configured => {
            let sib = at(5);
            length = 6 + usize::from(mode);
            let base = register(registers, usize::from(sib & 7), map & 0x20 == 0);
            let stride = register(registers, usize::from(sib >> 3 & 7), map & 0x40 == 0) << (sib >> 6);
            let displacement = if mode == 1 { isize::from(at(6).cast_signed()) } else { 0 };
            let [rows, bytes] = state.sizes[reg];
            if prefix == 3 {
                state.tiles[reg] = [[0; 16]; 16];
            }
            for (row, lanes) in state.tiles[reg].iter_mut().enumerate().take(rows) {
                let place = (base as *mut u8).wrapping_offset(displacement).wrapping_add(row * stride);
                let lanes: *mut u8 = lanes.as_mut_ptr().cast();
                // SAFETY: the operand of the instruction.
                unsafe {
                    match prefix {
                        3 => lanes.copy_from(place, bytes),
                        _ => place.copy_from(lanes, bytes),
                    }
                }
            }
        }
        // TDPBF16PS and TDPBUSD.
        (0x5c, 2, 3) | (0x5e, 1, 3) if state.configured => {
            assert!(reg != rm && reg != vvvv && rm != vvvv, "three tiles that differ");
            let ([c, a, b], [rows, bytes]) = ([reg, rm, vvvv].map(|tile| state.sizes[tile]), state.sizes[rm]);
            assert!(c == [rows, b[1]] && a == [rows, bytes] && b[0] == bytes / 4, "{c:?} is not of {a:?} and {b:?}");
            let (a, b) = (state.tiles[rm], state.tiles[vvvv]);
            let product = if opcode == 0x5c { product_of_bf16 } else { product_of_bytes };
            product(&mut state.tiles[reg], &a, &b);
        }
        _ => return None,
    }
    STATE.set(state);
    registers[libc::REG_RIP as usize] += length as libc::greg_t;
    Some(())
}

/// A general register by its number in an instruction; `high` for the eight later ones.
fn register(registers: &[libc::greg_t; 23], number: usize, high: bool) -> usize {
    use libc::{REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    use libc::{REG_RAX, REG_RBP, REG_RBX, REG_RCX, REG_RDI, REG_RDX, REG_RSI, REG_RSP};
    let low_half = [REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI];
    let high_half = [REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15];
    registers[if high { high_half[number] } else { low_half[number] } as usize] as usize
}

/// The sums of even and of odd elements are apart until the end, as in the manual.
fn product_of_bf16(c: &mut Tile, a: &Tile, b: &Tile) {
    for (c, a) in c.iter_mut().zip(a) {
        for (column, c) in c.iter_mut().enumerate() {
            let (mut even, mut odd) = (0.0_f32, 0.0_f32);
            for (pair, row) in a.iter().zip(b) {
                even = flush(flush(f32::from_bits(pair << 16)).mul_add(flush(f32::from_bits(row[column] << 16)), even));
                let high = |pair: u32| flush(f32::from_bits(pair & 0xffff_0000));
                odd = flush(high(*pair).mul_add(high(row[column]), odd));
            }
            *c = flush(flush(even + odd) + flush(f32::from_bits(*c))).to_bits();
        }
    }
}

fn flush(x: f32) -> f32 {
    if x.is_subnormal() { 0.0_f32.copysign(x) } else { x }
}

/// Bytes of A without a sign, and of B with one; the sums wrap.
fn product_of_bytes(c: &mut Tile, a: &Tile, b: &Tile) {
    for (c, a) in c.iter_mut().zip(a) {
        for (column, c) in c.iter_mut().enumerate() {
            for (a, row) in a.iter().zip(b) {
                for (a, b) in a.to_le_bytes().into_iter().zip(row[column].to_le_bytes()) {
                    *c = c.wrapping_add_signed(i32::from(a) * i32::from(b.cast_signed()));
                }
            }
        }
    }
}
