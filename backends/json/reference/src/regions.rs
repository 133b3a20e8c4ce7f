//! Regions of images: `MaxRoiPool` and `RoiAlign`.

use byoc_plugin_api::{DType, Error};
use std::ops::Range;

use super::array::{Array, Item, elements, shaped};
use super::call::{Call, Outputs};
use super::{FLOAT, I64, Kernel, SAME, kernel};

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] =
    &[kernel("MaxRoiPool", max_roi_pool, &[FLOAT, SAME]), kernel("RoiAlign", roi_align, &[FLOAT, SAME, I64])];

/// The images, and the output with a grid for each region.
struct Images {
    values: Vec<f64>,
    batch: usize,
    channels: usize,
    height: usize,
    width: usize,
}

impl Images {
    fn of(call: &Call<'_, '_>) -> Result<Images, Error> {
        let x = call.input(0)?;
        let &[batch, channels, height, width] = x.shape() else {
            return Err(Error::new(format!("{} of {:?}, expected images", call.node.op, x.shape())));
        };
        Ok(Images { values: x.to_f64().into_iter().collect(), batch, channels, height, width })
    }

    /// The elements of one channel of one image.
    fn plane(&self, image: usize, channel: usize) -> &[f64] {
        let size = self.height * self.width;
        &self.values[(image * self.channels + channel) * size..][..size]
    }

    fn image(&self, number: f64) -> Result<usize, Error> {
        let image =
            (number >= 0.0 && number.fract() == 0.0).then_some(number as usize).filter(|&image| image < self.batch);
        image.ok_or_else(|| Error::new(format!("a region of image {number}, where there are {}", self.batch)))
    }
}

/// A size that an attribute gives.
fn size(value: i64) -> Result<usize, Error> {
    usize::try_from(value)
        .ok()
        .filter(|&size| size > 0)
        .ok_or_else(|| Error::new(format!("a grid of {value} elements")))
}

/// The rows of the regions, of `columns` numbers each.
fn regions<const N: usize>(call: &Call<'_, '_>) -> Result<Vec<[f64; N]>, Error> {
    let regions = call.input(1)?;
    match *regions.shape() {
        [_, columns] if columns == N => {
            let numbers = regions.to_f64();
            let numbers = numbers.view();
            Ok(elements(&numbers).as_chunks::<N>().0.to_vec())
        }
        ref shape => Err(Error::new(format!("{} with regions {shape:?}, expected {N} columns", call.node.op))),
    }
}

/// `MaxRoiPool`: the largest element of each part of a region, whose corners are rounded to elements; 0 where there is none.
pub(crate) fn max_roi_pool(call: &Call<'_, '_>) -> Outputs {
    let images = Images::of(call)?;
    let regions = regions::<5>(call)?;
    let [rows, columns] = call.node.ints("pooled_shape").unwrap_or_default() else {
        return Err(Error::new("MaxRoiPool without a pooled_shape of two sizes"));
    };
    let (rows, columns) = (size(*rows)?, size(*columns)?);
    let scale = call.node.float("spatial_scale", 1.0);
    let shape = [regions.len(), images.channels, rows, columns];
    let mut y = Vec::with_capacity(call.count(&shape)?);
    for [image, corners @ ..] in &regions {
        let image = images.image(*image)?;
        // Halves decide between elements: calculated as the numbers are given, in single precision.
        let [left, top, right, bottom] = corners.map(|at| (at as f32 * scale).round() as i64);
        for channel in 0..images.channels {
            let plane = images.plane(image, channel);
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                let within = |part: (usize, usize), ends: (i64, i64), size| self::part(part, ends, size);
                let down = within((row, rows), (top, bottom), images.height);
                let across = within((column, columns), (left, right), images.width);
                let values = down.flat_map(|h| plane[h * images.width..][across.clone()].iter().copied());
                y.push(values.reduce(Item::larger).unwrap_or(0.0));
            }
        }
    }
    call.rounded(shaped(&shape, y)?)
}

/// The elements of a part of a region, which reaches from `first` to `last` with both: from the first that belongs to it at all to the
/// last one, within `size`.
fn part((part, parts): (usize, usize), (first, last): (i64, i64), size: usize) -> Range<usize> {
    let length = i128::from(last) - i128::from(first) + 1;
    let (part, parts, length) = (part as i128, parts as i128, length.max(1));
    let start = part * length / parts + i128::from(first);
    let end = ((part + 1) * length + parts - 1) / parts + i128::from(first);
    let within = |at: i128| at.clamp(0, size as i128) as usize;
    within(start)..within(end).max(within(start))
}

/// Samples of one part of a region along an axis: two neighbours with their weights; none outside of the image.
type Samples = Vec<Option<[(usize, f64); 2]>>;

/// One axis of a region of `RoiAlign`.
struct Span {
    start: f64,
    /// Length of a part.
    part: f64,
    /// Samples of a part.
    count: i64,
}

impl Span {
    /// The samples of a part that are on the image, and whether any is outside of it.
    fn samples(&self, part: usize, size: usize) -> (Samples, bool) {
        // A region without a length has none.
        if self.count <= 0 {
            return (Samples::new(), false);
        }
        let step = self.part / self.count as f64;
        let first = self.start + part as f64 * self.part;
        // Of a region that is much larger than the image, only the samples on the image are looked at.
        let place = |at: f64| ((at - first) / step - 0.5).clamp(0.0, self.count as f64);
        // A region whose corners are swapped is sampled backwards.
        // Those of a region without a length, of which there are no more than the attribute says, are all at one place.
        let (one, other) = if step == 0.0 { (0.0, self.count as f64) } else { (place(-1.0), place(size as f64)) };
        let from = one.min(other).floor() as i64;
        let to = (one.max(other).ceil() as i64 + 1).min(self.count);
        let samples: Samples = (from..to).map(|index| sample(first + (index as f64 + 0.5) * step, size)).collect();
        let outside = from > 0 || to < self.count || samples.contains(&None);
        (samples, outside)
    }
}

/// The neighbours of a place. Up to one element outside of the image it is that at the edge.
fn sample(at: f64, size: usize) -> Option<[(usize, f64); 2]> {
    let last = size.checked_sub(1)?;
    if !(-1.0..=size as f64).contains(&at) {
        return None;
    }
    let at = at.clamp(0.0, last as f64);
    let low = at as usize;
    let rest = at - low as f64;
    Some([(low, 1.0 - rest), ((low + 1).min(last), rest)])
}

/// How the parts of a region are sampled.
struct Align {
    grid: [usize; 2],
    ratio: i64,
    scale: f32,
    half_pixel: bool,
    max: bool,
    /// Corners are given in double precision.
    double: bool,
}

impl Align {
    fn of(call: &Call<'_, '_>) -> Result<Align, Error> {
        let node = call.node;
        let ratio = node.int("sampling_ratio", 0);
        if !(0..=256).contains(&ratio) {
            return Err(Error::new(format!("RoiAlign with {ratio} samples")));
        }
        Ok(Align {
            grid: [size(node.int("output_height", 1))?, size(node.int("output_width", 1))?],
            ratio,
            scale: node.float("spatial_scale", 1.0),
            half_pixel: node.string("coordinate_transformation_mode", "half_pixel") == "half_pixel",
            max: node.string("mode", "avg") == "max",
            double: call.input(0)?.dtype() == DType::F64,
        })
    }

    /// The axis from `first` to `last`, in `parts`. How many samples there are follows from a length that is rounded up, so it is
    /// calculated as the corners are given.
    fn span(&self, first: f64, last: f64, parts: usize) -> Span {
        let given = |value: f64| if self.double { value } else { f64::from(value as f32) };
        let shift = if self.half_pixel { 0.5 } else { 0.0 };
        let [start, end] = [first, last].map(|at| given(given(at * f64::from(self.scale)) - shift));
        let length = given(end - start);
        let length = if self.half_pixel { length } else { length.max(1.0) };
        let part = given(length / parts as f64);
        let count = if self.ratio > 0 { self.ratio } else { part.ceil() as i64 };
        Span { start, part, count }
    }
}

/// `RoiAlign`: the mean of samples between elements, or the largest of what the neighbours contribute to them.
pub(crate) fn roi_align(call: &Call<'_, '_>) -> Outputs {
    let images = Images::of(call)?;
    let regions = regions::<4>(call)?;
    let align = Align::of(call)?;
    let numbers = call.ints(2).unwrap_or_default();
    if numbers.len() != regions.len() {
        return Err(Error::new(format!("RoiAlign of {} regions with {} images", regions.len(), numbers.len())));
    }
    let shape = [regions.len(), images.channels, align.grid[0], align.grid[1]];
    let mut y = vec![0.0; call.count(&shape)?];
    let cells = align.grid[0] * align.grid[1];
    for (region, (&[left, top, right, bottom], &number)) in regions.iter().zip(&numbers).enumerate() {
        let image = images.image(number as f64)?;
        let [down, across] = [align.span(top, bottom, align.grid[0]), align.span(left, right, align.grid[1])];
        let count = (down.count as f64 * across.count as f64).max(1.0);
        let columns: Vec<_> = (0..align.grid[1]).map(|part| across.samples(part, images.width)).collect();
        for row in 0..align.grid[0] {
            let (rows, row_outside) = down.samples(row, images.height);
            for (column, (columns, column_outside)) in columns.iter().enumerate() {
                let outside = row_outside || *column_outside;
                for channel in 0..images.channels {
                    let values = Weighted { plane: images.plane(image, channel), width: images.width };
                    let place = (region * images.channels + channel) * cells + row * align.grid[1] + column;
                    y[place] = if align.max {
                        values.largest(&rows, columns, outside)
                    } else {
                        values.sum(&rows, columns) / count
                    };
                }
            }
        }
    }
    Ok(vec![Array::from_f64(call.input(0)?.dtype(), shaped(&shape, y)?)])
}

/// A channel, seen through samples.
struct Weighted<'a> {
    plane: &'a [f64],
    width: usize,
}

impl Weighted<'_> {
    /// What the neighbours contribute to each sample.
    fn each(&self, rows: &Samples, columns: &Samples) -> impl Iterator<Item = [f64; 4]> {
        let pairs = rows.iter().flatten().flat_map(|row| columns.iter().flatten().map(move |column| (row, column)));
        pairs.map(|([top, bottom], [left, right])| {
            let corners = [(top, left), (top, right), (bottom, left), (bottom, right)];
            corners.map(|(&(h, down), &(w, across))| down * across * self.plane[h * self.width + w])
        })
    }

    fn sum(&self, rows: &Samples, columns: &Samples) -> f64 {
        self.each(rows, columns).map(|corners| corners.iter().sum::<f64>()).fold(0.0, |sum, sample| sum + sample)
    }

    /// The largest contribution, as in ONNX's reference; a sample outside of the image contributes 0.
    fn largest(&self, rows: &Samples, columns: &Samples, outside: bool) -> f64 {
        let all = self.each(rows, columns).flatten().chain(outside.then_some(0.0));
        all.reduce(Item::larger).unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use super::super::testing::{all, counting, first, ints, list, tensor, text};

    #[test]
    fn parts_of_regions_have_their_largest_elements() {
        let pool = |regions: &[f32], grid: &[i64]| {
            let regions = tensor(&[regions.len() / 5, 5], regions);
            let inputs = vec![counting(&[2, 1, 3, 4]), regions];
            all("MaxRoiPool", &[("pooled_shape", list(grid))], inputs)
                .map(|y| y[0].to_ints())
                .map_err(|error| error.message)
        };
        assert_eq!(pool(&[0.0, 0.0, 0.0, 3.0, 2.0], &[1, 2]), Ok(vec![10, 12]));
        // Three rows in two parts: both have the one between.
        assert_eq!(pool(&[1.0, 1.0, 0.0, 1.4, 2.0], &[2, 1]), Ok(vec![18, 22]));
        assert_eq!(pool(&[0.0, 9.0, 9.0, 10.0, 10.0], &[1, 1]), Ok(vec![0]));
        assert_eq!(pool(&[0.0, -1e30, f32::NAN, 1e30, 1e30], &[1, 1]), Ok(vec![12]));
        assert_eq!(pool(&[2.0, 0.0, 0.0, 1.0, 1.0], &[1, 1]), Err("a region of image 2, where there are 2".into()));
    }

    fn align(region: [f32; 4], attributes: &[(&str, Attribute)]) -> Vec<f64> {
        first("RoiAlign", attributes, vec![counting(&[1, 1, 3, 3]), tensor(&[1, 4], &region), ints(&[0])]).1
    }

    #[test]
    fn samples_lie_between_elements() {
        // One sample in the middle of the image, and one for each element.
        assert_eq!(align([0.0, 0.0, 3.0, 3.0], &[("sampling_ratio", Attribute::Int(1))]), [5.0]);
        assert_eq!(align([0.0, 0.0, 3.0, 3.0], &[]), [5.0]);
        let older = [("coordinate_transformation_mode", text("output_half_pixel"))];
        assert_eq!(align([0.0, 0.0, 2.0, 2.0], &older), [5.0]);
        assert_eq!(align([1.0, 1.0, 1.0, 1.0], &older), [7.0]);
        assert_eq!(align([0.5, 0.5, 1.5, 1.5], &[("mode", text("max"))]), [1.25]);
        // A part of the samples is outside and counts as 0; of a huge region nearly all of them.
        assert_eq!(align([-4.0, 0.0, 2.0, 1.0], &[("sampling_ratio", Attribute::Int(2))]), [0.6875]);
        // A region without a length, at the farthest place that counts.
        let twice = [("sampling_ratio", Attribute::Int(2))];
        assert_eq!(align([-0.5, -0.5, -0.5, -0.5], &twice), align([0.5, 0.5, 0.5, 0.5], &twice));
        let tiny = align([-1e9, 0.0, 1e9, 1.0], &[])[0];
        assert!((0.0..1e-6).contains(&tiny));
        assert_eq!(align([2.0, 2.0, 0.0, 0.0], &[]), [0.0]);
        let backwards = [("sampling_ratio", Attribute::Int(1)), ("output_width", Attribute::Int(2))];
        assert_eq!(align([3.0, 0.0, 1.0, 1.0], &backwards), [3.0, 2.0]);
        assert_eq!(align([f32::NAN, f32::INFINITY, 1.0, 1.0], &[]), [0.0]);
    }

    #[test]
    fn wrong_regions_are_errors() {
        let error = |region: Option<_>, images: &[i64]| {
            let inputs = vec![counting(&[1, 1, 3, 3]), region, ints(images)];
            all("RoiAlign", &[], inputs).expect_err("a wrong input").message
        };
        assert_eq!(error(counting(&[1, 4]), &[1]), "a region of image 1, where there are 1");
        assert_eq!(error(counting(&[1, 4]), &[-1]), "a region of image -1, where there are 1");
        assert_eq!(error(counting(&[1, 4]), &[0, 0]), "RoiAlign of 1 regions with 2 images");
        assert_eq!(error(counting(&[1, 5]), &[0]), "RoiAlign with regions [1, 5], expected 4 columns");
    }
}
