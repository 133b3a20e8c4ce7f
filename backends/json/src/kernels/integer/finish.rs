//! What happens to a tile of sums: zero points of B, scales, bias, clamp, and rounding to 8 bits.

use std::ops::Range;

use super::linear::{Byte, Levels};
use super::pack::PANEL;
use super::tile::MOST_ROWS;
use crate::kernels::isa::Isa;

/// Where the results go.
#[derive(Debug)]
pub enum Out<'a> {
    /// The sums themselves; they wrap.
    Sums(&'a mut [i32]),
    /// `sum * factor + offset`, clamped.
    Real(&'a mut [f32]),
    /// The same, rounded to even, plus the zero point, within the range of the type.
    Bytes(&'a mut [u8], Byte, i32),
}

impl Out<'_> {
    /// All of it.
    pub fn all(&mut self) -> Out<'_> {
        let len = self.len();
        self.part(0, len)
    }

    /// `len` elements from `start` on.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn part(&mut self, start: usize, len: usize) -> Out<'_> {
        match self {
            Out::Sums(out) => Out::Sums(&mut out[start..start + len]),
            Out::Real(out) => Out::Real(&mut out[start..start + len]),
            Out::Bytes(out, byte, zero) => Out::Bytes(&mut out[start..start + len], *byte, *zero),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Out::Sums(out) => out.len(),
            Out::Real(out) => out.len(),
            Out::Bytes(out, ..) => out.len(),
        }
    }

    pub(super) fn target(self) -> Target {
        match self {
            Out::Sums(out) => Target::Sums(out.as_mut_ptr()),
            Out::Real(out) => Target::Real(out.as_mut_ptr()),
            Out::Bytes(out, byte, zero) => Target::Bytes(out.as_mut_ptr(), byte, zero),
        }
    }
}

/// As [`Out`], shared by tasks that write disjoint parts.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Sums(*mut i32),
    Real(*mut f32),
    Bytes(*mut u8, Byte, i32),
}

// SAFETY: addresses of a slice that outlives the tasks, each of which writes elements of its own.
unsafe impl Send for Target {}
// SAFETY: as above.
unsafe impl Sync for Target {}

/// What happens to the sums. A list is empty, or has one element for each column.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// Zero points of B, as its packed bytes are: those of `u8` 128 less.
    pub zeros: &'a [i32],
    /// The zero point of all of B, where there is one.
    pub zero: i32,
    /// Added to the sums.
    pub bias: &'a [i32],
    /// Factors of the sums.
    pub factors: &'a [f32],
    /// Added to the products with them.
    pub offsets: &'a [f32],
    /// The ends of what is left of that.
    pub clamp: (f32, f32),
}

impl Default for Epilogue<'_> {
    fn default() -> Self {
        let clamp = (f32::NEG_INFINITY, f32::INFINITY);
        Epilogue { zeros: &[], zero: 0, bias: &[], factors: &[], offsets: &[], clamp }
    }
}

impl Epilogue<'_> {
    pub(super) fn check(&self, columns: usize) {
        let fits = |len: usize| len == 0 || len == columns;
        assert!(fits(self.zeros.len()) && fits(self.bias.len()), "integers for another number of columns");
        assert!(fits(self.factors.len()) && fits(self.offsets.len()), "numbers for another number of columns");
    }

    /// Whether the sums of the rows of A count.
    pub(super) fn needs_sums(&self) -> bool {
        self.zero != 0 || !self.zeros.is_empty()
    }
}

/// A tile and where it goes.
pub(super) struct Finish<'a> {
    pub(super) product: &'a [i32; MOST_ROWS * PANEL],
    /// The sum of each row of A; not looked at where no zero point needs it.
    pub(super) sums: &'a [i32],
    /// The first row.
    pub(super) row: usize,
    /// The columns: at most a panel.
    pub(super) columns: Range<usize>,
    /// Columns of C.
    pub(super) width: usize,
    pub(super) out: Target,
    pub(super) e: &'a Epilogue<'a>,
}

/// Writes a tile.
///
/// # Safety
/// The rows and columns are in C, and nothing else accesses them.
pub(super) unsafe fn run(isa: Isa, finish: Finish<'_>) {
    assert!(finish.sums.len() <= MOST_ROWS);
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` that reaches the kernels was checked against the CPU; the caller vouches for C.
        Isa::Avx2 | Isa::Avx512 => unsafe { x86::avx2(&finish) },
        // SAFETY: the caller vouches for C.
        _ => unsafe { finish.portable() },
    }
}

/// The columns of a list, one for each, or `other` where it is empty.
#[inline(always)]
fn columns<T: Copy>(list: &[T], columns: &Range<usize>, other: T) -> [T; PANEL] {
    let mut panel = [other; PANEL];
    if let Some(list) = list.get(columns.clone()) {
        panel[..list.len()].copy_from_slice(list);
    }
    panel
}

impl Finish<'_> {
    /// Zero points of B by column.
    #[inline(always)]
    fn zeros(&self) -> [i32; PANEL] {
        if self.e.zeros.is_empty() { [self.e.zero; PANEL] } else { columns(self.e.zeros, &self.columns, 0) }
    }

    /// What one row of C begins at.
    #[inline(always)]
    fn at(&self, row: usize) -> usize {
        (self.row + row) * self.width + self.columns.start
    }

    /// What the other instruction sets compute, by its definition.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn portable(&self) {
        let (range, e, count) = (&self.columns, self.e, self.columns.len());
        let (zeros, bias) = (self.zeros(), columns(e.bias, range, 0));
        let (factors, offsets) = (columns(e.factors, range, 1.0), columns(e.offsets, range, 0.0));
        for (index, (product, &sum)) in self.product.chunks_exact(PANEL).zip(self.sums).enumerate() {
            let sum = if e.needs_sums() { sum } else { 0 };
            let total = |j: usize| product[j].wrapping_sub(zeros[j].wrapping_mul(sum)).wrapping_add(bias[j]);
            let real = |j: usize| (total(j) as f32 * factors[j] + offsets[j]).max(e.clamp.0).min(e.clamp.1);
            let at = self.at(index);
            for j in 0..count {
                // SAFETY: `count` elements from there on are this task's own.
                unsafe {
                    match self.out {
                        Target::Sums(out) => *out.add(at + j) = total(j),
                        Target::Real(out) => *out.add(at + j) = real(j),
                        Target::Bytes(out, byte, zero) => {
                            *out.add(at + j) = Levels::new(byte, zero).byte(real(j));
                        }
                    }
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m128i, __m256, __m256i, _mm_packs_epi16, _mm_packs_epi32, _mm_packus_epi16, _mm_storel_epi64,
        _mm256_add_epi32, _mm256_add_ps, _mm256_castsi256_si128, _mm256_cvtepi32_ps, _mm256_cvtps_epi32,
        _mm256_extracti128_si256, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_max_ps, _mm256_min_ps, _mm256_mul_ps,
        _mm256_mullo_epi32, _mm256_set1_epi32, _mm256_set1_ps, _mm256_storeu_ps, _mm256_storeu_si256, _mm256_sub_epi32,
    };

    use std::ops::Range;

    use super::{Byte, Finish, Levels, PANEL, Target, columns};

    /// The columns of a list, or `other` where it is empty.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn integers(list: &[i32], range: &Range<usize>, other: i32) -> __m256i {
        match list.get(range.start..range.start + PANEL) {
            _ if list.is_empty() => _mm256_set1_epi32(other),
            // SAFETY: eight elements.
            Some(list) => unsafe { _mm256_loadu_si256(list.as_ptr().cast::<__m256i>()) },
            // SAFETY: eight elements.
            None => unsafe { _mm256_loadu_si256(columns(list, range, other).as_ptr().cast::<__m256i>()) },
        }
    }

    /// The same of numbers.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn reals(list: &[f32], range: &Range<usize>, other: f32) -> __m256 {
        match list.get(range.start..range.start + PANEL) {
            _ if list.is_empty() => _mm256_set1_ps(other),
            // SAFETY: eight elements.
            Some(list) => unsafe { _mm256_loadu_ps(list.as_ptr()) },
            // SAFETY: eight elements.
            None => unsafe { _mm256_loadu_ps(columns(list, range, other).as_ptr()) },
        }
    }

    /// What the columns of a tile have in common. There are no closures and iterators of slices in this module: what is not inlined
    /// has no vectors.
    struct Panel {
        zeros: __m256i,
        bias: __m256i,
        factors: __m256,
        offsets: __m256,
        lo: __m256,
        hi: __m256,
        needs_sums: bool,
    }

    impl Panel {
        #[inline]
        #[target_feature(enable = "avx2")]
        fn new(finish: &Finish<'_>, (lo, hi): (f32, f32)) -> Panel {
            let (e, range) = (finish.e, &finish.columns);
            Panel {
                zeros: integers(e.zeros, range, e.zero),
                bias: integers(e.bias, range, 0),
                factors: reals(e.factors, range, 1.0),
                offsets: reals(e.offsets, range, 0.0),
                lo: _mm256_set1_ps(lo),
                hi: _mm256_set1_ps(hi),
                needs_sums: e.needs_sums(),
            }
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn total(&self, finish: &Finish<'_>, row: usize) -> __m256i {
            // SAFETY: a tile has as many rows of eight as there are sums, as `run` checks.
            let mut total = unsafe { _mm256_loadu_si256(finish.product.as_ptr().add(row * PANEL).cast::<__m256i>()) };
            if self.needs_sums {
                let sum = _mm256_set1_epi32(finish.sums[row]);
                total = _mm256_sub_epi32(total, _mm256_mullo_epi32(self.zeros, sum));
            }
            _mm256_add_epi32(total, self.bias)
        }

        #[inline]
        #[target_feature(enable = "avx2")]
        fn real(&self, finish: &Finish<'_>, row: usize) -> __m256 {
            let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(self.total(finish, row)), self.factors);
            // The second operand is taken where the first one is NaN.
            _mm256_min_ps(_mm256_max_ps(_mm256_add_ps(scaled, self.offsets), self.lo), self.hi)
        }
    }

    /// As `Finish::portable`: the same operations on eight columns at a time. Conversions round to even.
    ///
    /// # Safety
    /// As [`super::run`]; the CPU has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2(finish: &Finish<'_>) {
        // SAFETY: the caller vouches for it.
        unsafe {
            match finish.out {
                Target::Sums(out) => sums(finish, out),
                Target::Real(out) => numbers(finish, out),
                Target::Bytes(out, byte, zero) => bytes(finish, out, byte, zero),
            }
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn sums(finish: &Finish<'_>, out: *mut i32) {
        let panel = Panel::new(finish, finish.e.clamp);
        for index in 0..finish.sums.len() {
            let mut row = [0i32; PANEL];
            // SAFETY: eight elements, of which the caller vouches for as many as there are columns.
            unsafe {
                _mm256_storeu_si256(row.as_mut_ptr().cast::<__m256i>(), panel.total(finish, index));
                std::ptr::copy_nonoverlapping(row.as_ptr(), out.add(finish.at(index)), finish.columns.len());
            }
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn numbers(finish: &Finish<'_>, out: *mut f32) {
        let panel = Panel::new(finish, finish.e.clamp);
        for index in 0..finish.sums.len() {
            let real = panel.real(finish, index);
            let mut row = [0f32; PANEL];
            // SAFETY: as in `sums`.
            unsafe {
                let out = out.add(finish.at(index));
                if finish.columns.len() == PANEL {
                    _mm256_storeu_ps(out, real);
                } else {
                    _mm256_storeu_ps(row.as_mut_ptr(), real);
                    std::ptr::copy_nonoverlapping(row.as_ptr(), out, finish.columns.len());
                }
            }
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn bytes(finish: &Finish<'_>, out: *mut u8, byte: Byte, zero: i32) {
        let Levels { least, most, .. } = Levels::new(byte, zero);
        let (lo, hi) = finish.e.clamp;
        // A clamp of a clamp.
        let panel = Panel::new(finish, (lo.max(least).min(most), hi.max(least).min(most)));
        let zeros = _mm256_set1_epi32(zero);
        for index in 0..finish.sums.len() {
            let wide = _mm256_add_epi32(_mm256_cvtps_epi32(panel.real(finish, index)), zeros);
            let words = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256::<1>(wide));
            let packed = match byte {
                Byte::U8 => _mm_packus_epi16(words, words),
                Byte::I8 => _mm_packs_epi16(words, words),
            };
            let mut row = [0u8; PANEL];
            // SAFETY: as in `sums`.
            unsafe {
                let out = out.add(finish.at(index));
                if finish.columns.len() == PANEL {
                    _mm_storel_epi64(out.cast::<__m128i>(), packed);
                } else {
                    _mm_storel_epi64(row.as_mut_ptr().cast::<__m128i>(), packed);
                    std::ptr::copy_nonoverlapping(row.as_ptr(), out, finish.columns.len());
                }
            }
        }
    }
}
