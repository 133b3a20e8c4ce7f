//! Filters of 16 bits become f32 a few at a time, in scratch that stays in a cache while they are multiplied, and get the factors of their
//! output channels on the way.

use crate::kernels::isa::{Isa, Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::simd::V16;
use crate::kernels::weights::{PackedWeights, Weight};

use super::ConvFilters;

/// Rows of packed filters that lie one behind another.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// The first value.
    pub(super) start: usize,
    pub(super) count: usize,
    /// From one to the next.
    pub(super) row: usize,
    /// Output blocks that are read, side by side: one, or two that share a panel.
    pub(super) blocks: usize,
    /// The first output channel, among all.
    pub(super) channel: usize,
}

/// Most values behind the rows that are written too: whole vectors are.
pub(super) const BEHIND: usize = BLOCK;

/// Writes rows as they lie, as f32, and up to [`BEHIND`] values behind the last one, which count for nothing. Returns what is written.
///
/// # Panics
/// If the rows are not within the filters, or `to` has not as many values.
pub(super) fn widen<'t>(isa: Isa, filters: &ConvFilters<'_>, rows: Rows, to: &'t mut [f32]) -> &'t [f32] {
    let Rows { start, count, row, blocks, channel } = rows;
    assert!(count > 0 && row > 0 && (1..=2).contains(&blocks));
    let len = (count - 1) * row + blocks * BLOCK;
    let from = start..start + len;
    let of_block = |block: usize| {
        let end = |channel: usize| channel.min(filters.factors.map_or(0, <[f32]>::len));
        let first = channel + block * BLOCK;
        filters.factors.map(|all| &all[end(first)..end(first + BLOCK)])
    };
    let factors = [of_block(0), of_block(1)];
    let to = &mut to[..len];
    match filters.packed {
        PackedWeights::F32(w) => dispatch(isa, Widen { from: &w[from], row, blocks, factors, to }),
        PackedWeights::F16(w) => dispatch(isa, Widen { from: &w[from], row, blocks, factors, to }),
        PackedWeights::BF16(w) => dispatch(isa, Widen { from: &w[from], row, blocks, factors, to }),
    }
    to
}

/// Rows, and where they go: as many values.
struct Widen<'a, W> {
    from: &'a [W],
    row: usize,
    blocks: usize,
    /// Of each block, as far as there are channels; 1 if absent.
    factors: [Option<&'a [f32]>; 2],
    to: &'a mut [f32],
}

impl<W: Weight> Kernel for Widen<'_, W> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Widen { from, row, blocks, factors, to } = self;
        let len = from.len();
        assert!(len == to.len() && len >= blocks * BLOCK);
        let (from, to) = (from.as_ptr(), to.as_mut_ptr());
        // SAFETY: `dispatch` checked the features; rows begin where `blocks` vectors follow; factors are read as far as there are some.
        unsafe {
            let one = V::splat(1.0);
            let first = factors[0].map_or(one, |all| V::load_up_to(all.as_ptr(), all.len()));
            let second = factors[1].map_or(one, |all| V::load_up_to(all.as_ptr(), all.len()));
            if row == BLOCK && blocks == 1 {
                for at in (0..len).step_by(BLOCK) {
                    W::load::<V>(from.add(at)).mul(first).store(to.add(at));
                }
                return;
            }
            // What is written behind a row, the next one overwrites.
            for at in (0..len - blocks * BLOCK + 1).step_by(row) {
                W::load::<V>(from.add(at)).mul(first).store(to.add(at));
                if blocks == 2 {
                    W::load::<V>(from.add(at + BLOCK)).mul(second).store(to.add(at + BLOCK));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::{bf16, f16};

    use super::super::tests::{CASES, Case, params, run_packed};
    use super::super::{Activation, ConvKind, ConvParams, Math};
    use super::*;
    use crate::kernels::parallel::Threads;
    use crate::tests::harness::{configurations, noise};

    /// Last output blocks of one, 15 and 17 channels, joined groups, several bands and parts of the input.
    const MORE: &[Case] = &[
        (1, 40, 47, 1, [6, 5], [3, 3], [1, 1], [1; 4], [1, 1]),
        (1, 600, 49, 1, [3, 3], [3, 3], [1, 1], [1; 4], [1, 1]),
        (2, 600, 17, 1, [9, 30], [1, 1], [2, 2], [0; 4], [1, 1]),
        (1, 72, 63, 1, [40, 40], [3, 3], [1, 1], [1; 4], [1, 1]),
        (1, 9, 7, 1, [20, 21], [3, 3], [1, 1], [1; 4], [1, 1]),
        (2, 96, 48, 2, [9, 9], [3, 3], [2, 2], [1; 4], [1, 1]),
        (1, 32, 70, 1, [1, 3], [2, 2], [1, 1], [1; 4], [1, 1]),
    ];

    /// Filters, and their factors, in the two ways that a kernel gets them.
    struct Given {
        kind: ConvKind,
        p: ConvParams,
        /// Packed, as numbers that both types have.
        elements: Vec<f32>,
        factors: Vec<f32>,
        /// Packed, times the factors.
        scaled: Vec<f32>,
    }

    impl Given {
        fn new(kind: ConvKind, p: ConvParams) -> Given {
            let of_channel = p.ic / p.group * p.kh * p.kw;
            // Eight bits, which bf16 has, within what f16 has.
            let elements = noise(p.oc * of_channel, 2);
            let elements: Vec<f32> = elements.iter().map(|value| f32::from((value * 127.0) as i8) / 64.0).collect();
            let factors = noise(p.oc, 6);
            let scaled: Vec<f32> =
                elements.iter().enumerate().map(|(at, value)| value * factors[at / of_channel]).collect();
            let packed = |weights: &[f32]| {
                let mut packed = vec![f32::NAN; kind.packed_len(&p).expect("countable")];
                kind.pack(&p, weights, &mut packed);
                packed
            };
            let (elements, scaled) = (packed(&elements), packed(&scaled));
            Given { kind, elements, factors, scaled, p }
        }

        /// As from filters of f32 that were multiplied before, to the bit.
        fn check(&self, threads: &Threads, math: Math) {
            let wide = ConvParams { math, ..self.p.clone() };
            let p = ConvParams { narrow: true, ..wide.clone() };
            let (x, bias) = (noise(p.n * p.ic * p.ih * p.iw, 1), noise(p.oc, 3));
            let residual = noise(p.n * p.oc * p.oh * p.ow, 4);
            let (bias, residual) = (Some(&bias[..]), Some(&residual[..]));
            let halves: Vec<f16> = self.elements.iter().map(|value| f16::from_f32(*value)).collect();
            let brains: Vec<bf16> = self.elements.iter().map(|value| bf16::from_f32(*value)).collect();
            for packed in [PackedWeights::F16(&halves), PackedWeights::BF16(&brains)] {
                for (factors, same) in [(None, &self.elements), (Some(&self.factors[..]), &self.scaled)] {
                    let filters = ConvFilters { packed, factors };
                    let got = run_packed(threads, self.kind, &p, &x, filters, bias, residual);
                    let want = run_packed(threads, self.kind, &wide, &x, same[..].into(), bias, residual);
                    let [got, want] = [got, want].map(|all| all.into_iter().map(f32::to_bits).collect::<Vec<_>>());
                    let (isa, count) = (threads.isa(), threads.count());
                    assert!(got == want, "{:?} {isa:?} {count} threads {p:?} {}", self.kind, factors.is_some());
                }
            }
        }
    }

    fn all() -> impl Iterator<Item = Given> {
        let kinds = [ConvKind::Blocked, ConvKind::Winograd];
        let acts = [Activation::None, Activation::Relu, Activation::Sigmoid].into_iter().cycle();
        let cases = CASES.iter().chain(MORE).zip(acts).map(|(case, act)| params(*case, act));
        let all = cases.flat_map(move |p| kinds.map(|kind| (kind, p.clone())));
        all.filter(|(kind, p)| kind.supports(p)).map(|(kind, p)| Given::new(kind, p))
    }

    #[test]
    fn filters_of_16_bits_are_those_of_f32() {
        for given in all() {
            configurations().for_each(|threads| given.check(&threads, Math::F32));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn filters_of_16_bits_by_products_of_bf16() {
        let ways = [Math::Bf16x6, Math::Bf16x3, Math::Bf16];
        // Units are emulated where there are none, which takes time.
        for (given, &math) in all().step_by(3).zip(ways.iter().cycle()) {
            for threads in crate::tests::harness::with_units([2]).iter().filter(|it| it.unit(math).is_some()) {
                given.check(threads, math);
            }
        }
    }

    /// Where a sum of numbers is none, it is computed again by other sums, which read the same filters.
    #[test]
    fn numbers_that_are_not_finite() {
        let sizes = (1, 40, 47, 1, [23, 23], [3, 3], [1, 1], [1; 4], [1, 1]);
        for kind in [ConvKind::Blocked, ConvKind::Winograd] {
            let mut given = Given::new(kind, params(sizes, Activation::None));
            // The fifth row of the first panel.
            (given.elements[4 * BLOCK + 13], given.factors[9]) = (f32::INFINITY, f32::NAN);
            let p = ConvParams { narrow: true, ..given.p.clone() };
            let halves: Vec<f16> = given.elements.iter().map(|value| f16::from_f32(*value)).collect();
            let x = noise(p.ic * p.ih * p.iw, 1);
            for threads in configurations() {
                let filters = ConvFilters { packed: PackedWeights::F16(&halves), factors: Some(&given.factors) };
                let got = run_packed(&threads, kind, &p, &x, filters, None, None);
                let pixels = p.oh * p.ow;
                for (channel, values) in got.chunks(pixels).enumerate() {
                    let count = values.iter().filter(|value| !value.is_finite()).count();
                    // Not where the tap is beside the image.
                    let expected = match channel {
                        9 => pixels..=pixels,
                        13 => pixels - p.oh - p.ow..=pixels,
                        _ => 0..=0,
                    };
                    assert!(expected.contains(&count), "{kind:?} channel {channel}: {count}");
                }
            }
        }
    }
}
