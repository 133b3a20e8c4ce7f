//! Sums of products of bytes: four pixels and sixteen output channels at a time. What a pixel has in four places of a
//! kernel line meets the weights of all sixteen channels at once, so that no sum has to be gathered from several lanes.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Output channels of a group.
pub(crate) const OUTPUTS: usize = 16;

/// Pixels that are computed together.
pub(crate) const PIXELS: usize = 4;

/// Places of a kernel line whose weights are side by side.
pub(crate) const LANES: usize = 4;

/// The weights of [`LANES`] places for [`OUTPUTS`] channels, `[channel][place]`.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lanes(pub(crate) [[i8; LANES]; OUTPUTS]);

/// Pixels and a group of output channels.
pub(crate) struct Tile<'a> {
    /// Bytes of the input, pixel by pixel.
    pub(crate) image: &'a [u8],
    /// Where the first kernel line of each pixel starts; a multiple of [`PIXELS`].
    pub(crate) starts: &'a [u32],
    /// From one kernel line to the next.
    pub(crate) pitch: usize,
    /// `[line][place / LANES]`.
    pub(crate) weights: &'a [Lanes],
    /// Kernel lines.
    pub(crate) lines: usize,
}

/// Sums of one pixel.
type Sums = [i32; OUTPUTS];

impl Tile<'_> {
    /// The sums of all pixels, of which `four` computes [`PIXELS`]; from `[pixel][channel]` to `[channel][pixel]`.
    #[inline(always)]
    fn each(&self, sums: &mut [i32], stride: usize, four: impl Fn(&[u32; PIXELS]) -> [Sums; PIXELS]) {
        for (number, starts) in self.starts.as_chunks().0.iter().enumerate() {
            let [a, b, c, d] = four(starts);
            for (channel, sums) in sums.chunks_exact_mut(stride).enumerate().take(OUTPUTS) {
                let four = [a[channel], b[channel], c[channel], d[channel]];
                sums[number * PIXELS..][..PIXELS].copy_from_slice(&four);
            }
        }
    }

    /// The weights of each kernel line with the number of the line.
    #[inline(always)]
    fn lines(&self) -> impl Iterator<Item = (usize, &[Lanes])> {
        self.weights.chunks_exact(self.weights.len() / self.lines).enumerate()
    }

    /// The bytes that a pixel has under `steps` weights of a kernel line.
    #[inline(always)]
    fn bytes(&self, start: u32, line: usize, steps: usize) -> &[[u8; LANES]] {
        self.image[start as usize + line * self.pitch..][..steps * LANES].as_chunks().0
    }
}

pub(super) fn portable(tile: &Tile<'_>, sums: &mut [i32], stride: usize) {
    tile.each(sums, stride, |starts| {
        std::array::from_fn(|pixel| {
            // Each place has a sum of its own until the end, so that places and not channels are side by side.
            let mut sums = [[0i32; LANES]; OUTPUTS];
            for (line, weights) in tile.lines() {
                for (x, weights) in tile.bytes(starts[pixel], line, weights.len()).iter().zip(weights) {
                    for (sums, weights) in sums.iter_mut().zip(&weights.0) {
                        for place in 0..LANES {
                            sums[place] += i32::from(x[place]) * i32::from(weights[place]);
                        }
                    }
                }
            }
            std::array::from_fn(|channel| sums[channel].iter().sum())
        })
    });
}

/// As 16-bit numbers, of which an instruction multiplies and adds neighbours; two pixels at a time have room.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) fn avx2(tile: &Tile<'_>, sums: &mut [i32], stride: usize) {
    let two = |first: u32, second: u32| {
        let (mut sums, mut others) = ([_mm256_setzero_si256(); 4], [_mm256_setzero_si256(); 4]);
        for (line, weights) in tile.lines() {
            let bytes = |start| tile.bytes(start, line, weights.len());
            for ((x, y), weights) in bytes(first).iter().zip(bytes(second)).zip(weights) {
                let wide = |x: &[u8; LANES]| _mm256_cvtepu8_epi16(_mm_set1_epi32(i32::from_le_bytes(*x)));
                let (x, y) = (wide(x), wide(y));
                let quarters = weights.0.as_chunks::<4>().0.iter();
                for ((weights, sums), others) in quarters.zip(&mut sums).zip(&mut others) {
                    // SAFETY: 16 bytes.
                    let weights = _mm256_cvtepi8_epi16(unsafe { _mm_loadu_si128(weights.as_ptr().cast()) });
                    *sums = _mm256_add_epi32(*sums, _mm256_madd_epi16(x, weights));
                    *others = _mm256_add_epi32(*others, _mm256_madd_epi16(y, weights));
                }
            }
        }
        [sums, others]
    };
    // A channel has two sums, side by side.
    let gather = |sums: [__m256i; 4]| {
        let mut out: Sums = [0; OUTPUTS];
        for (half, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let sums = _mm256_hadd_epi32(sums[2 * half], sums[2 * half + 1]);
            // SAFETY: 32 bytes.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_permute4x64_epi64::<0b11_01_10_00>(sums)) };
        }
        out
    };
    tile.each(sums, stride, |&[a, b, c, d]| {
        let ([a, b], [c, d]) = (two(a, b), two(c, d));
        [gather(a), gather(b), gather(c), gather(d)]
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(super) fn avx512(tile: &Tile<'_>, sums: &mut [i32], stride: usize) {
    let store = |sums: __m512i| {
        let mut out: Sums = [0; OUTPUTS];
        // SAFETY: 64 bytes.
        unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), sums) };
        out
    };
    tile.each(sums, stride, |&[a, b, c, d]| {
        let mut sums = [_mm512_setzero_si512(); PIXELS];
        for (line, weights) in tile.lines() {
            let bytes = |start| tile.bytes(start, line, weights.len());
            let pixels = bytes(a).iter().zip(bytes(b)).zip(bytes(c)).zip(bytes(d));
            for ((((a, b), c), d), weights) in pixels.zip(weights) {
                // SAFETY: 64 bytes.
                let weights = unsafe { _mm512_loadu_si512(weights.0.as_ptr().cast()) };
                for (sums, x) in sums.iter_mut().zip([a, b, c, d]) {
                    *sums = _mm512_dpbusd_epi32(*sums, _mm512_set1_epi32(i32::from_le_bytes(*x)), weights);
                }
            }
        }
        [store(sums[0]), store(sums[1]), store(sums[2]), store(sums[3])]
    });
}
