//! The register tile of the matrix product: P rows times OB blocks of 16 columns.

use crate::kernels::isa::Isa;
use crate::kernels::layout::BLOCK;
#[cfg(target_arch = "x86_64")]
use crate::kernels::simd::{Avx2x16, Avx512x16};
use crate::kernels::simd::{Portable16, V16};
use crate::kernels::unrolled::{FEW, MOST, unrolled};
use crate::kernels::weights::Weight;

/// One tile's work. Strides count f32 values.
#[derive(Clone)]
pub(crate) struct Tile {
    /// Panel of A: [ceil(k / 16)][P][16].
    pub(crate) a: *const f32,
    /// Panel of B: [k][16], the next one `b_panel` further.
    pub(crate) b: *const f32,
    pub(crate) b_panel: usize,
    /// The same of 16 bits, [k][16] and that many elements further, for tiles that widen them to where `b` is.
    pub(crate) narrow: *const u16,
    pub(crate) narrow_panel: usize,
    pub(crate) k: usize,
    /// Cache lines that will be needed soon, fetched meanwhile: k of them.
    pub(crate) ahead: *const f32,
    /// With AVX2 only those that the first so many times 16 steps fetch.
    pub(crate) fetches: usize,
    /// P rows of OB * 16 values.
    pub(crate) out: *mut f32,
    pub(crate) out_row: usize,
    /// Add to what `out` holds.
    pub(crate) add: bool,
    /// One value for each column, and a matrix laid out as `out`, added at the end; null: none.
    pub(crate) bias: *const f32,
    pub(crate) residual: *const f32,
    /// The range that the sums are brought into at last.
    pub(crate) clamp: (f32, f32),
}

impl Tile {
    /// The range that is all numbers.
    pub(crate) const NO_CLAMP: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

    /// The product of a panel of A and panels of B `b_panel` apart, over `k`, into the sums as they are; it fetches from `b` + `ahead`
    /// values on, or nothing if that is 0.
    pub(crate) fn new(a: *const f32, b: *const f32, b_panel: usize, k: usize, ahead: usize) -> Tile {
        Tile {
            a,
            b,
            b_panel,
            narrow: std::ptr::null(),
            narrow_panel: 0,
            k,
            ahead: b.wrapping_add(ahead),
            fetches: if ahead == 0 { 0 } else { k / BLOCK },
            out: std::ptr::null_mut(),
            out_row: 0,
            add: false,
            bias: std::ptr::null(),
            residual: std::ptr::null(),
            clamp: Tile::NO_CLAMP,
        }
    }

    /// Lets it fetch part `index` of `parts` of the next panel of B: all of it in one tile would be more than memory gives meanwhile.
    pub(super) fn fetch_part(&mut self, index: usize, parts: usize) {
        let steps = self.k / BLOCK;
        let each = steps.div_ceil(parts.max(1));
        let first = (index * each).min(steps);
        self.ahead = self.b.wrapping_add(self.b_panel + first * BLOCK * BLOCK);
        self.fetches = each.min(steps - first);
    }
}

/// A compiled tile.
pub(crate) type TileFn = unsafe fn(&Tile);

/// Up to 16 steps of k: acc[p][o] += a[p][i] * b[o][i].
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn step<V: V16, const P: usize, const OB: usize>(
    a: *const f32,
    b: *const f32,
    b_panel: usize,
    count: usize,
    ahead: *const f32,
    acc: &mut [[V; OB]; P],
) {
    for i in 0..count {
        // SAFETY: the caller vouches for the pointers; i < 16.
        unsafe { one::<V, P, OB, true>(a.add(i), b.add(i * BLOCK), b_panel, ahead.wrapping_add(i * BLOCK), acc) };
    }
}

/// [`step`] of 16, written out, which fetches what is ahead or not: 20 instructions a step for 6 rows with AVX2, where a loop that fetches
/// has 24. A step takes 6 cycles for its 12 multiply-adds; a core that two hardware threads share starts 3 instructions a cycle for
/// each (Zen 3), so that there every one above 18 takes time.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn sixteen<V: V16, const P: usize, const OB: usize, const FETCHES: bool>(
    a: *const f32,
    b: *const f32,
    b_panel: usize,
    ahead: *const f32,
    acc: &mut [[V; OB]; P],
) {
    unrolled!(i in 0..BLOCK {
        // SAFETY: the caller vouches for the pointers; i < 16.
        unsafe { one::<V, P, OB, FETCHES>(a.add(i), b.add(i * BLOCK), b_panel, ahead.wrapping_add(i * BLOCK), acc) };
    });
}

/// One step of k.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn one<V: V16, const P: usize, const OB: usize, const FETCHES: bool>(
    a: *const f32,
    b: *const f32,
    b_panel: usize,
    ahead: *const f32,
    acc: &mut [[V; OB]; P],
) {
    // SAFETY: the caller vouches for the pointers.
    unsafe {
        if FETCHES {
            V::prefetch(ahead);
        }
        let mut bv = [V::splat(0.0); OB];
        unrolled!(o in 0..OB of FEW {
            bv[o] = V::load(b.add(o * b_panel));
        });
        multiply(a, &bv, acc);
    }
}

/// acc[p][o] += a[p] * b[o].
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn multiply<V: V16, const P: usize, const OB: usize>(a: *const f32, b: &[V; OB], acc: &mut [[V; OB]; P]) {
    // SAFETY: the caller vouches for the panel of A.
    unsafe {
        unrolled!(p in 0..P {
            let av = V::splat(*a.add(p * BLOCK));
            unrolled!(o in 0..OB of FEW {
                acc[p][o] = av.fma(b[o], acc[p][o]);
            });
        });
    }
}

/// Asks for the rows that the end reads and writes.
#[inline(always)]
fn fetch<V: V16, const P: usize, const OB: usize>(t: &Tile) {
    for p in 0..P {
        for o in 0..OB {
            let at = p * t.out_row + o * BLOCK;
            V::prefetch_to_write(t.out.wrapping_add(at));
            if !t.residual.is_null() {
                V::prefetch(t.residual.wrapping_add(at));
            }
        }
    }
}

/// What `out` held, bias, residual and clamp, then the store.
///
/// # Safety
/// As [`tile`].
#[inline(always)]
unsafe fn finish<V: V16, const P: usize, const OB: usize>(t: &Tile, acc: &[[V; OB]; P]) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        let (lo, hi) = (V::splat(t.clamp.0), V::splat(t.clamp.1));
        unrolled!(o in 0..OB of FEW {
            // Negative zero is what changes no sum.
            let bias = if t.bias.is_null() { V::splat(-0.0) } else { V::load(t.bias.add(o * BLOCK)) };
            unrolled!(p in 0..P {
                let at = p * t.out_row + o * BLOCK;
                let mut v = acc[p][o].add(bias);
                if t.add {
                    v = v.add(V::load(t.out.add(at)));
                }
                if !t.residual.is_null() {
                    v = v.add(V::load(t.residual.add(at)));
                }
                hi.min(lo.max(v)).store(t.out.add(at));
            });
        });
    }
}

/// # Safety
/// The CPU has the features of `V`; the pointers of `t` are valid for `P` rows and its columns.
#[inline(always)]
unsafe fn tile<V: V16, const P: usize, const OB: usize>(t: &Tile) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        fetch::<V, P, OB>(t);
        let mut acc = [[V::splat(0.0); OB]; P];
        let (mut a, mut b, mut ahead) = (t.a, t.b, t.ahead);
        let mut left = t.k;
        if const { V::REGISTERS == 2 } {
            for _ in 0..t.fetches {
                sixteen::<V, P, OB, true>(a, b, t.b_panel, ahead, &mut acc);
                (a, b, ahead) = (a.add(P * BLOCK), b.add(BLOCK * BLOCK), ahead.wrapping_add(BLOCK * BLOCK));
            }
            for _ in t.fetches..t.k / BLOCK {
                sixteen::<V, P, OB, false>(a, b, t.b_panel, ahead, &mut acc);
                (a, b) = (a.add(P * BLOCK), b.add(BLOCK * BLOCK));
            }
            left = t.k % BLOCK;
        }
        while left > 0 {
            let count = left.min(BLOCK);
            step::<V, P, OB>(a, b, t.b_panel, count, ahead, &mut acc);
            ahead = ahead.wrapping_add(count * BLOCK);
            b = b.add(count * BLOCK);
            a = a.add(P * BLOCK);
            left -= count;
        }
        finish(t, &acc);
    }
}

/// The same of panels of 16 bits, which it widens to where `b` is on its way: the tiles of other rows read them there.
///
/// # Safety
/// As [`tile`]; `narrow` is of these elements, and `b` is writable.
#[inline(always)]
unsafe fn widening<W: Weight, V: V16, const P: usize, const OB: usize>(t: &Tile) {
    // SAFETY: the caller vouches for features and pointers.
    unsafe {
        fetch::<V, P, OB>(t);
        let mut acc = [[V::splat(0.0); OB]; P];
        let (mut a, b, narrow) = (t.a, t.b.cast_mut(), t.narrow.cast::<W>());
        for first in (0..t.k).step_by(BLOCK) {
            for i in 0..BLOCK.min(t.k - first) {
                let at = (first + i) * BLOCK;
                V::prefetch(t.ahead.wrapping_add(at));
                let mut bv = [V::splat(0.0); OB];
                unrolled!(o in 0..OB of FEW {
                    bv[o] = W::load(narrow.add(o * t.narrow_panel + at));
                    bv[o].store(b.add(o * t.b_panel + at));
                });
                multiply(a.add(i), &bv, &mut acc);
            }
            a = a.add(P * BLOCK);
        }
        finish(t, &acc);
    }
}

unsafe fn portable<const P: usize, const OB: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers; the portable vector needs no feature.
    unsafe { tile::<Portable16, P, OB>(t) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2<const P: usize, const OB: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers and for AVX2.
    unsafe { tile::<Avx2x16, P, OB>(t) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
unsafe fn avx512<const P: usize, const OB: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers and for AVX-512.
    unsafe { tile::<Avx512x16, P, OB>(t) }
}

unsafe fn portable_of<W: Weight, const P: usize, const OB: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers; the portable vector needs no feature.
    unsafe { widening::<W, Portable16, P, OB>(t) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn avx2_of<W: Weight, const P: usize, const OB: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers and for AVX2 and F16C.
    unsafe { widening::<W, Avx2x16, P, OB>(t) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
unsafe fn avx512_of<W: Weight, const P: usize, const OB: usize>(t: &Tile) {
    // SAFETY: the caller vouches for the pointers and for AVX-512.
    unsafe { widening::<W, Avx512x16, P, OB>(t) }
}

/// The tiles of 1 to some number of rows for one OB.
macro_rules! tiles {
    ($f:ident, $ob:literal, [$($p:literal)*]) => {
        tiles!(@ $ob [$($f::<$p, $ob>)*])
    };
    ($f:ident of $weight:ident, $ob:literal, [$($p:literal)*]) => {
        tiles!(@ $ob [$($f::<$weight, $p, $ob>)*])
    };
    (@ $ob:literal [$($tile:expr)*]) => {{
        let tiles: &'static [TileFn] = const {
            let tiles: &[TileFn] = &[$($tile),*];
            assert!(tiles.len() <= MOST && $ob <= FEW, "no loop is unrolled further");
            tiles
        };
        tiles
    }};
}

/// The tiles for products with `m` rows and the blocks of columns they take: entry P - 1 computes P rows.
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "portable tiles are the same for all"))]
pub(crate) fn tiles(isa: Isa, m: usize) -> (&'static [TileFn], usize) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if m <= 7 => (tiles!(avx512, 4, [1 2 3 4 5 6 7]), 4),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => (tiles!(avx512, 2, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]), 2),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 if m == 1 => (tiles!(avx2, 4, [1]), 4),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 if m == 2 => (tiles!(avx2, 2, [1 2]), 2),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => (tiles!(avx2, 1, [1 2 3 4 5 6]), 1),
        _ => (tiles!(portable, 1, [1 2 3]), 1),
    }
}

/// The tiles that take one block of columns, for the last columns; as many rows as [`tiles`] has.
pub(crate) fn one_block(isa: Isa) -> &'static [TileFn] {
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => tiles!(avx512, 1, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => tiles!(avx2, 1, [1 2 3 4 5 6]),
        _ => tiles!(portable, 1, [1 2 3]),
    }
}

/// Those that widen B, of [`tiles`] where `blocks` are its blocks of columns, else of [`one_block`].
#[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables, reason = "portable tiles are the same for all"))]
pub(super) fn widening_tiles<W: Weight>(isa: Isa, blocks: usize) -> &'static [TileFn] {
    match (isa, blocks) {
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 4) => tiles!(avx512_of of W, 4, [1 2 3 4 5 6 7]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, 2) => tiles!(avx512_of of W, 2, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx512, _) => tiles!(avx512_of of W, 1, [1 2 3 4 5 6 7 8 9 10 11 12 13 14]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, 4) => tiles!(avx2_of of W, 4, [1]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, 2) => tiles!(avx2_of of W, 2, [1 2]),
        #[cfg(target_arch = "x86_64")]
        (Isa::Avx2, _) => tiles!(avx2_of of W, 1, [1 2 3 4 5 6]),
        _ => tiles!(portable_of of W, 1, [1 2 3]),
    }
}
