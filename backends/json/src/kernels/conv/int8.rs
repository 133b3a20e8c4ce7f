//! Convolution of NCHW16c by filters of 8 bits, each rounded with a scale of its own; the numbers of an image are rounded with one scale
//! when it comes. Sums are exact integers, so that every instruction set gives the same bits.
//!
//! An image becomes bytes with its channels last, then it is a product of windows and filters (`kernels/integer.rs`).

use super::ConvParams;
use super::finish::finish;
use crate::kernels::activation::{Activation, parts_of};
use crate::kernels::gemm::{
    GemmParams, Int8, Int8Columns, Int8Known, ZERO, int8_len, inverse, magnitude, round_b, scale_of,
};
use crate::kernels::integer::{self, Byte, DEPTH, Epilogue, Image, Out, Shape};
use crate::kernels::isa::{Kernel, dispatch};
use crate::kernels::layout::BLOCK;
use crate::kernels::parallel::{SharedMut, Threads, part};
use crate::kernels::simd::V16;
use crate::kernels::sizes::product;

/// Names the layout of [`round_filters`]: as that of a matrix of 8 bits with a column for each filter, whose rows are windows by row,
/// column and channel; channels are filled up to a multiple of four.
pub const INT8_FILTERS_LAYOUT: &str = "conv/n8k4-scaled/1";

/// Rows of the matrix that filters [OC, IC, KH, KW] are.
fn depth([_, channels, height, width]: [usize; 4]) -> Option<usize> {
    integer::window_len([height, width], channels.checked_next_multiple_of(DEPTH)?)
}

/// Bytes of filters [OC, IC, KH, KW]; `None` if they cannot be counted, or their sums need more than 32 bits.
pub fn int8_filters_len(shape: [usize; 4]) -> Option<usize> {
    int8_len(depth(shape)?, shape[0])
}

/// Rounds and packs filters [OC, IC, KH, KW].
///
/// # Panics
/// If a length is wrong.
pub fn round_filters(shape: [usize; 4], oihw: &[f32], out: &mut [i8]) {
    let [filters, channels, ..] = shape;
    let (Some(depth), Some(len)) = (depth(shape), int8_filters_len(shape)) else { panic!("the sizes are too large") };
    assert!(out.len() == len);
    let windows = integer::by_window(oihw, shape, channels.next_multiple_of(DEPTH), 0.0);
    let (panels, columns) = out.split_at_mut(integer::packed_len(depth, filters).unwrap_or(0));
    let mut kept = Int8Columns::default();
    round_b(depth, filters, &windows, [1, depth], &mut kept, panels);
    columns.iter_mut().zip(kept.bytes()).for_each(|(to, byte)| *to = byte as i8);
}

/// The product that the convolution of one image is.
fn as_product(p: &ConvParams) -> Option<GemmParams> {
    let depth = depth([p.oc, p.ic, p.kh, p.kw])?;
    Some(GemmParams::dense(product(&[p.oh, p.ow])?, p.oc, depth))
}

/// What is known of the filters.
///
/// # Panics
/// If `packed` has another length than [`int8_filters_len`] says.
pub fn int8_filters_known(threads: &Threads, p: &ConvParams, packed: &[i8]) -> Int8Known {
    let Some(product) = as_product(p) else { panic!("the sizes are too large") };
    Int8Known::new(threads, &product, packed)
}

/// The sizes of what scratch begins with; a factor for each filter, the greatest number of each thread's part and what the product needs
/// come behind it.
struct Space {
    shape: Shape,
    /// Bytes of a pixel.
    pixel: usize,
    /// Bytes of an image.
    bytes: usize,
}

impl Space {
    fn new(p: &ConvParams) -> Option<Space> {
        let GemmParams { m, n, k, .. } = as_product(p)?;
        let pixel = p.ic.checked_next_multiple_of(DEPTH)?;
        Some(Space { shape: Shape { m, n, k }, pixel, bytes: product(&[p.ih, p.iw, pixel])? })
    }
}

/// Whether convolutions with such filters are computed by matrix units.
pub fn conv_int8_is_on_amx(threads: &Threads, p: &ConvParams) -> bool {
    Space::new(p).is_some_and(|space| integer::is_on_amx(threads, &space.shape))
}

/// f32 values of scratch on these threads; `None` if they cannot be counted.
pub fn conv_int8_scratch_len(threads: &Threads, p: &ConvParams) -> Option<usize> {
    let space = Space::new(p)?;
    let of_product = integer::scratch_len(threads, &space.shape, true)?;
    space.bytes.div_ceil(4).checked_add(p.oc)?.checked_add(threads.count())?.checked_add(of_product)
}

/// y = act(x * w + bias + residual) in one group, x and w rounded; x, residual and y are NCHW16c. Where a number of an image of x is not
/// finite, none of y's is a number there.
///
/// # Panics
/// If a length is wrong.
#[expect(clippy::too_many_arguments, reason = "the operands of a convolution")]
pub fn conv_int8(
    threads: &Threads,
    p: &ConvParams,
    x: &[f32],
    w: Int8<'_>,
    bias: Option<&[f32]>,
    residual: Option<&[f32]>,
    y: &mut [f32],
    scratch: &mut [f32],
) {
    let kind = super::ConvKind::Blocked;
    assert!(p.group == 1 && kind.supports(p), "{p:?} is not supported");
    assert!(Some(x.len()) == kind.input_len(p) && Some(y.len()) == kind.output_len(p));
    assert!(bias.is_none_or(|bias| bias.len() == p.oc) && residual.is_none_or(|residual| residual.len() == y.len()));
    assert!(conv_int8_scratch_len(threads, p).is_some_and(|len| scratch.len() >= len));
    let (from, to) = (x.len() / p.n.max(1), y.len() / p.n.max(1));
    for image in 0..p.n {
        let (x, y) = (&x[image * from..][..from], &mut y[image * to..][..to]);
        let residual = residual.map(|residual| &residual[image * to..][..to]);
        one(threads, p, x, w, bias, y, residual.is_none(), scratch);
        finish_image(threads, p.act, residual, y);
    }
}

/// One image, without the residual; the activation is applied where it is a clamp and comes `last`.
#[expect(clippy::too_many_arguments, reason = "the operands of a convolution")]
fn one(
    threads: &Threads,
    p: &ConvParams,
    x: &[f32],
    w: Int8<'_>,
    bias: Option<&[f32]>,
    y: &mut [f32],
    last: bool,
    scratch: &mut [f32],
) {
    let Some(Space { shape, pixel, bytes }) = Space::new(p) else { panic!("the sizes are too large") };
    let (image, scratch) = scratch.split_at_mut(bytes.div_ceil(4));
    let (factors, scratch) = scratch.split_at_mut(p.oc);
    let (most, scratch) = scratch.split_at_mut(threads.count());
    let image = &mut integer::as_bytes(image)[..bytes];
    let scale = scale_of(greatest(threads, p, x, most));
    round(threads, p, x, scale, (pixel, &mut *image));
    factors.iter_mut().zip(w.scales()).for_each(|(factor, of_filter)| *factor = of_filter * scale);
    let clamp = p.act.as_clamp().filter(|_| last).unwrap_or((f32::NEG_INFINITY, f32::INFINITY));
    let e = Epilogue { factors, offsets: bias.unwrap_or_default(), clamp, ..Epilogue::default() };
    let rows = Image {
        bytes: image,
        byte: Byte::U8,
        zero: i32::from(ZERO),
        size: [p.ih, p.iw],
        channels: pixel,
        out: [p.oh, p.ow],
        kernel: [p.kh, p.kw],
        strides: p.stride,
        pads: p.pad,
        dilations: p.dilation,
    };
    integer::product(threads, shape, &rows, w.right(shape.k, shape.n), Out::Blocked(y), &e, scratch);
}

/// Residual and activation, as far as sums that are in registers did not get them.
fn finish_image(threads: &Threads, act: Activation, residual: Option<&[f32]>, y: &mut [f32]) {
    if residual.is_none() && act.as_clamp().is_some() {
        return;
    }
    let (pixels, parts) = (y.len() / BLOCK, parts_of(threads, y.len()));
    let y = SharedMut::new(y);
    threads.parallel_for(parts, |i| {
        let pixels = part(pixels, parts, i);
        let (start, len) = (pixels.start * BLOCK, pixels.len() * BLOCK);
        // SAFETY: the parts are disjoint.
        let y = unsafe { y.slice(start, len) };
        finish(threads.isa(), act, None, residual.map(|residual| &residual[start..start + len]), y);
    });
}

/// The greatest magnitude of an image's numbers; one of `most` for each thread.
fn greatest(threads: &Threads, p: &ConvParams, x: &[f32], most: &mut [f32]) -> u32 {
    let (pixels, parts) = (p.ih * p.iw, parts_of(threads, x.len()));
    let of_parts = SharedMut::new(&mut *most);
    threads.parallel_for(parts, |i| {
        let pixels = part(pixels, parts, i);
        let mut most = 0;
        for block in 0..p.ic.div_ceil(BLOCK) {
            let x = &x[(block * p.ih * p.iw + pixels.start) * BLOCK..][..pixels.len() * BLOCK];
            most = most.max(dispatch(threads.isa(), Greatest { x, lanes: BLOCK.min(p.ic - block * BLOCK) }));
        }
        // SAFETY: one value for each part, of which there are no more than threads.
        unsafe { of_parts.slice(i, 1)[0] = f32::from_bits(most) };
    });
    most[..parts].iter().map(|most| most.to_bits()).max().unwrap_or(0)
}

/// Pixels of one block of channels.
struct Greatest<'a> {
    x: &'a [f32],
    /// Channels that there are.
    lanes: usize,
}

impl Kernel for Greatest<'_> {
    type Out = u32;

    #[inline(always)]
    unsafe fn run<V: V16>(self) -> u32 {
        let mut most = [0u32; 4 * BLOCK];
        let (four, rest) = self.x.as_chunks::<{ 4 * BLOCK }>();
        for pixels in four {
            for j in 0..4 * BLOCK {
                most[j] = most[j].max(magnitude(pixels[j]));
            }
        }
        for pixel in rest.as_chunks::<BLOCK>().0 {
            for j in 0..BLOCK {
                most[j] = most[j].max(magnitude(pixel[j]));
            }
        }
        let there = most.iter().enumerate().filter(|(j, _)| j % BLOCK < self.lanes);
        there.map(|(_, &most)| most).max().unwrap_or(0)
    }
}

/// Writes the bytes of an image, `pixel` for each pixel.
fn round(threads: &Threads, p: &ConvParams, x: &[f32], scale: f32, (pixel, out): (usize, &mut [u8])) {
    let (plane, parts) = (p.ih * p.iw, parts_of(threads, x.len()));
    let out = SharedMut::new(out);
    threads.parallel_for(parts, |i| {
        let pixels = part(plane, parts, i);
        // SAFETY: the parts are disjoint.
        let out = unsafe { out.slice(pixels.start * pixel, pixels.len() * pixel) };
        let x = &x[pixels.start * BLOCK..];
        dispatch(threads.isa(), Round { x, plane: plane * BLOCK, channels: p.ic, inverse: inverse(scale), pixel, out });
    });
}

/// Some pixels of all blocks of channels.
struct Round<'a> {
    x: &'a [f32],
    /// From one block to the next.
    plane: usize,
    channels: usize,
    inverse: f32,
    /// Bytes of a pixel.
    pixel: usize,
    out: &'a mut [u8],
}

/// Blocks that are rounded together: a line of bytes.
const TOGETHER: usize = 4;

impl Kernel for Round<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        // SAFETY: `dispatch` checked the features; blocks have 16 values a pixel.
        unsafe {
            let inverse = V::splat(self.inverse);
            for first in (0..self.pixel).step_by(TOGETHER * BLOCK) {
                for (at, pixel) in self.out.chunks_exact_mut(self.pixel).enumerate() {
                    let end = self.pixel.min(first + TOGETHER * BLOCK);
                    for (index, to) in pixel[first..end].chunks_mut(BLOCK).enumerate() {
                        let channel = first + index * BLOCK;
                        let from = &self.x[channel / BLOCK * self.plane + at * BLOCK..][..BLOCK];
                        let bytes = V::load(from.as_ptr()).mul(inverse).nearest();
                        let there = to.len().min(self.channels.saturating_sub(channel));
                        for j in 0..to.len() {
                            to[j] = if j < there { bytes[j] as u8 ^ ZERO } else { ZERO };
                        }
                    }
                }
            }
        }
    }
}

const _: () = assert!(BLOCK.is_multiple_of(DEPTH), "blocks of channels are whole steps of dot products");

#[cfg(test)]
mod tests {
    use super::super::image_len;
    use super::super::tests::{Case as Sizes, params};
    use super::*;
    use crate::kernels::layout::{from_blocked, to_blocked};
    use crate::tests::harness::{byte_configurations, noise, rounded};

    /// As the cases of the other kernels.
    const SIZES: &[Sizes] = &[
        (1, 16, 16, 1, [5, 5], [1, 1], [1, 1], [0; 4], [1, 1]),
        (2, 24, 40, 1, [7, 7], [1, 1], [1, 1], [0; 4], [1, 1]),
        (1, 18, 33, 1, [9, 9], [3, 3], [1, 1], [1; 4], [1, 1]),
        (2, 64, 20, 1, [12, 12], [3, 3], [2, 2], [1; 4], [1, 1]),
        (1, 70, 64, 1, [6, 6], [1, 1], [2, 2], [0; 4], [1, 1]),
        (2, 9, 7, 1, [10, 10], [2, 2], [1, 1], [1; 4], [2, 2]),
        (1, 300, 50, 1, [4, 4], [1, 1], [1, 1], [0; 4], [1, 1]),
    ];

    /// The operands of a convolution; images are NCHW.
    struct Case {
        p: ConvParams,
        x: Vec<f32>,
        w: Vec<f32>,
        bias: Vec<f32>,
        residual: Option<Vec<f32>>,
    }

    impl Case {
        fn new(p: ConvParams, adds: bool) -> Case {
            let residual = adds.then(|| noise(p.n * p.oc * p.oh * p.ow, 4));
            let (x, w) = (noise(p.n * p.ic * p.ih * p.iw, 1), noise(p.oc * p.ic * p.kh * p.kw, 2));
            Case { x, w, bias: noise(p.oc, 3), residual, p }
        }

        /// What is to come out, by the definition.
        fn expected(&self) -> Vec<f32> {
            let p = &self.p;
            let mut y = Vec::new();
            for image in self.x.chunks_exact(p.ic * p.ih * p.iw) {
                let (image, of_image) = rounded(image);
                for (filter, bias) in self.w.chunks_exact(p.ic * p.kh * p.kw).zip(&self.bias) {
                    let (filter, of_filter) = rounded(filter);
                    let sums = sums(p, &image, &filter).into_iter();
                    y.extend(sums.map(|sum| sum as f32 * (of_filter * of_image) + bias));
                }
            }
            for (at, y) in y.iter_mut().enumerate() {
                *y += self.residual.as_ref().map_or(0.0, |residual| residual[at]);
                *y = if p.act == Activation::Relu { y.max(0.0) } else { *y };
            }
            y
        }

        fn found(&self, threads: &Threads) -> Vec<f32> {
            let (p, shape) = (&self.p, [self.p.oc, self.p.ic, self.p.kh, self.p.kw]);
            let x = blocked(threads, [p.n, p.ic, p.ih, p.iw], &self.x);
            let residual = self.residual.as_ref().map(|all| blocked(threads, [p.n, p.oc, p.oh, p.ow], all));
            let mut packed = vec![0; int8_filters_len(shape).expect("countable")];
            round_filters(shape, &self.w, &mut packed);
            let known = int8_filters_known(threads, p, &packed);
            let filters = Int8 { packed: &packed, known: &known };
            let mut y = vec![f32::NAN; image_len(true, [p.n, p.oc, p.oh, p.ow]).expect("countable")];
            let mut scratch = vec![f32::NAN; conv_int8_scratch_len(threads, p).expect("countable")];
            conv_int8(threads, p, &x, filters, Some(&self.bias), residual.as_deref(), &mut y, &mut scratch);
            let mut plain = vec![f32::NAN; p.n * p.oc * p.oh * p.ow];
            from_blocked(threads, p.n, p.oc, p.oh * p.ow, &y, &mut plain);
            plain
        }
    }

    /// An image in blocks, with numbers that count for nothing where there is no channel.
    fn blocked(threads: &Threads, [n, c, h, w]: [usize; 4], nchw: &[f32]) -> Vec<f32> {
        let mut blocked = vec![f32::NAN; image_len(true, [n, c, h, w]).expect("countable")];
        to_blocked(threads, n, c, h * w, nchw, &mut blocked);
        let blocks = c.div_ceil(BLOCK);
        for (at, pixel) in blocked.chunks_exact_mut(BLOCK).enumerate() {
            let block = at / (h * w) % blocks;
            pixel.iter_mut().skip(c - block * BLOCK).for_each(|lane| *lane = f32::NAN);
        }
        blocked
    }

    /// The sums of the products of an image and a filter, for each output pixel.
    fn sums(p: &ConvParams, x: &[i32], filter: &[i32]) -> Vec<i32> {
        let place = |axis: usize, size: usize, at: usize, tap: usize| {
            (at * p.stride[axis] + tap * p.dilation[axis]).checked_sub(p.pad[axis]).filter(|&at| at < size)
        };
        let mut sums = Vec::new();
        for (oy, ox) in (0..p.oh).flat_map(|y| (0..p.ow).map(move |x| (y, x))) {
            let mut sum = 0;
            for (i, tap) in (0..p.ic).flat_map(|i| (0..p.kh * p.kw).map(move |tap| (i, tap))) {
                let (row, column) = (place(0, p.ih, oy, tap / p.kw), place(1, p.iw, ox, tap % p.kw));
                if let (Some(row), Some(column)) = (row, column) {
                    sum += x[(i * p.ih + row) * p.iw + column] * filter[i * p.kh * p.kw + tap];
                }
            }
            sums.push(sum);
        }
        sums
    }

    /// To the bit, on every instruction set.
    #[test]
    fn sums_of_rounded_images_and_filters() {
        for (index, &sizes) in SIZES.iter().enumerate() {
            for adds in [false, true] {
                let act = [Activation::Relu, Activation::None][index / 2 % 2];
                let case = Case::new(params(sizes, act), adds);
                let want = case.expected();
                for threads in byte_configurations() {
                    let (isa, count) = (threads.isa(), threads.count());
                    assert_eq!(case.found(&threads), want, "{sizes:?} {isa:?} {count} threads");
                }
            }
        }
    }

    /// A number that is not finite leaves no number of its image, and all of the others.
    #[test]
    fn images_that_have_no_scale() {
        let sizes = (3, 16, 16, 1, [5, 5], [3, 3], [1, 1], [1; 4], [1, 1]);
        let mut case = Case::new(params(sizes, Activation::None), false);
        let plain = case.found(&Threads::new(1));
        (case.x[7], case.x[16 * 25 + 399]) = (f32::INFINITY, f32::NAN);
        for threads in byte_configurations() {
            let found = case.found(&threads);
            assert!(found[..2 * 16 * 25].iter().all(|number| number.is_nan()));
            assert_eq!(found[2 * 16 * 25..], plain[2 * 16 * 25..]);
        }
    }
}
