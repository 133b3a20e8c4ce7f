//! Pixels between those of an image, at places that a grid gives.

use serde::{Deserialize, Serialize};

use super::activation::parts_of;
use super::isa::{Kernel, dispatch};
use super::parallel::{SharedMut, Threads, part};
use super::simd::V16;
use super::sizes::product;

/// How a pixel is made of its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sampling {
    /// The nearest one; of two, the even one.
    Nearest,
    /// Four, by their distances.
    Linear,
}

/// What is beyond the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// Zeros.
    Zeros,
    /// The pixels at the edge.
    Border,
    /// The image, reflected by its edges.
    Reflection,
}

/// Images [n, channels, height, width], sampled at places [n, rows, columns, 2].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GridSampleParams {
    /// Images.
    pub n: usize,
    /// Channels.
    pub channels: usize,
    /// Height and width of the images.
    pub size: [usize; 2],
    /// Samples of an image.
    pub places: usize,
    /// How pixels are made.
    pub sampling: Sampling,
    /// What is beyond the edges.
    pub beyond: Beyond,
    /// Whether -1 and 1 are the centres of the outer pixels rather than their edges.
    pub align_corners: bool,
}

/// Samples whose pixels are looked up together, for every channel.
const TILE: usize = 128;

impl GridSampleParams {
    /// Elements of the images, of the grid and of the output; `None` where the kernel cannot count the pixels.
    pub fn lens(&self) -> Option<[usize; 3]> {
        let plane = product(&self.size).filter(|&plane| plane <= u32::MAX as usize)?;
        let places = product(&[self.n, self.places, 2])?;
        Some([product(&[self.n, self.channels, plane])?, places, product(&[self.n, self.channels, self.places])?])
    }

    /// Pixels along an axis whose coordinate is `at`, and their weights.
    #[inline(always)]
    fn taps(&self, axis: usize, at: f32) -> [(f64, Option<usize>); 2] {
        let size = self.size[axis];
        let (last, wide) = (size as f64 - 1.0, size as f32);
        // Halves decide between pixels, so this is calculated in the type of the grid.
        let mut place = f64::from(match self.align_corners {
            true => (at + 1.0) / 2.0 * (wide - 1.0),
            false => ((at + 1.0) * wide - 1.0) / 2.0,
        });
        if self.sampling == Sampling::Nearest {
            place = place.round_ties_even();
        }
        place = match self.beyond {
            Beyond::Zeros => place,
            Beyond::Border => place.max(0.0).min(last.max(0.0)),
            Beyond::Reflection => self.reflected(axis, place),
        };
        if self.sampling == Sampling::Nearest {
            return [(1.0, self.pixel(axis, place)), (0.0, None)];
        }
        let first = place.floor();
        let x = place - first;
        [(1.0 - x, self.pixel(axis, first)), (x, self.pixel(axis, first + 1.0))]
    }

    /// The pixel at a whole coordinate.
    #[inline(always)]
    fn pixel(&self, axis: usize, at: f64) -> Option<usize> {
        let last = self.size[axis].checked_sub(1)?;
        let inside = match self.beyond {
            Beyond::Zeros if at < 0.0 || at > last as f64 => return None,
            Beyond::Zeros | Beyond::Border => at,
            Beyond::Reflection => self.reflected(axis, at),
        };
        Some((inside.max(0.0) as usize).min(last))
    }

    /// A place beyond the edges, reflected by them until it is between them.
    #[inline(always)]
    fn reflected(&self, axis: usize, place: f64) -> f64 {
        let size = self.size[axis] as f64;
        let (low, high) = if self.align_corners { (0.0, size - 1.0) } else { (-0.5, size - 0.5) };
        let range = high - low;
        if (low..=high).contains(&place) || range <= 0.0 {
            return place.clamp(low, high.max(low));
        }
        let beyond = if place < low { low - place } else { place - high };
        let rest = beyond % range;
        let from_low = (place < low) == ((beyond / range).floor() % 2.0 == 0.0);
        if from_low { low + rest } else { high - rest }
    }
}

/// The pixels of some samples, and their weights.
struct Tile {
    pixels: [[u32; TILE]; 4],
    weights: [[f32; TILE]; 4],
    /// Those of `pixels` that are none, and stand for 0.
    outside: [u16; 4 * TILE],
    none: usize,
    taps: usize,
    count: usize,
}

/// Looks up places: pairs of a column and a row.
struct LookUp<'a> {
    p: &'a GridSampleParams,
    places: &'a [f32],
    tile: &'a mut Tile,
}

impl Kernel for LookUp<'_> {
    type Out = ();

    /// Written without vectors of our own: rounding is one instruction where there are others.
    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let LookUp { p, places, tile } = self;
        let places = places.as_chunks::<2>().0;
        (tile.count, tile.none) = (places.len(), 0);
        for (at, place) in places.iter().enumerate() {
            let (rows, columns) = (p.taps(0, place[1]), p.taps(1, place[0]));
            for tap in 0..tile.taps {
                let ((weight, row), (more, column)) = (rows[tap / 2], columns[tap % 2]);
                tile.weights[tap][at] = (weight * more) as f32;
                match (row, column) {
                    (Some(row), Some(column)) => tile.pixels[tap][at] = (row * p.size[1] + column) as u32,
                    _ => {
                        tile.pixels[tap][at] = 0;
                        tile.outside[tile.none] = (tap * TILE + at) as u16;
                        tile.none += 1;
                    }
                }
            }
        }
    }
}

/// The samples of one channel.
struct Sum<'a> {
    tile: &'a Tile,
    plane: &'a [f32],
    y: &'a mut [f32],
}

impl Kernel for Sum<'_> {
    type Out = ();

    #[inline(always)]
    unsafe fn run<V: V16>(self) {
        let Sum { tile, plane, y } = self;
        let mut values = [[0f32; TILE]; 4];
        if !plane.is_empty() {
            for (values, pixels) in values.iter_mut().zip(&tile.pixels).take(tile.taps) {
                for (value, &pixel) in values.iter_mut().zip(&pixels[..tile.count]) {
                    debug_assert!((pixel as usize) < plane.len());
                    // SAFETY: `LookUp` found rows and columns within the plane, or put 0 in their place.
                    *value = unsafe { *plane.get_unchecked(pixel as usize) };
                }
            }
        }
        // What is no pixel counts as 0, whatever its weight is, but for NaN.
        for &place in &tile.outside[..tile.none] {
            values[place as usize / TILE][place as usize % TILE] = 0.0;
        }
        assert!(y.len() == tile.count && tile.count <= TILE);
        // SAFETY: `dispatch` checked the features; TILE is a multiple of 16, and `count` elements from `at` are in y.
        unsafe {
            for at in (0..y.len()).step_by(16) {
                let mut sum = V::splat(0.0);
                for (values, weights) in values.iter().zip(&tile.weights).take(tile.taps) {
                    let value = V::load(values.as_ptr().add(at));
                    sum = sum.add(V::load(weights.as_ptr().add(at)).mul(value));
                }
                sum.store_up_to(y.as_mut_ptr().add(at), y.len() - at);
            }
        }
    }
}

/// Samples images.
///
/// # Panics
/// If a length is wrong.
pub fn grid_sample(threads: &Threads, p: &GridSampleParams, x: &[f32], grid: &[f32], y: &mut [f32]) {
    assert!(p.lens() == Some([x.len(), grid.len(), y.len()]));
    if y.is_empty() {
        return;
    }
    let tiles = p.places.div_ceil(TILE);
    let (total, plane) = (p.n * tiles, p.size[0] * p.size[1]);
    let parts = parts_of(threads, y.len()).min(total);
    let out = SharedMut::new(y);
    threads.parallel_for(parts, |task| {
        let taps = if p.sampling == Sampling::Nearest { 1 } else { 4 };
        let (pixels, weights, outside) = ([[0; TILE]; 4], [[0.0; TILE]; 4], [0; 4 * TILE]);
        let mut tile = Tile { pixels, weights, outside, none: 0, taps, count: 0 };
        for at in part(total, parts, task) {
            let (image, start) = (at / tiles, at % tiles * TILE);
            let count = TILE.min(p.places - start);
            let places = &grid[(image * p.places + start) * 2..][..count * 2];
            dispatch(threads.isa(), LookUp { p, places, tile: &mut tile });
            for channel in image * p.channels..(image + 1) * p.channels {
                // SAFETY: each tile is one task's, and its samples of each channel are disjoint.
                let y = unsafe { out.slice(channel * p.places + start, count) };
                dispatch(threads.isa(), Sum { tile: &tile, plane: &x[channel * plane..][..plane], y });
            }
        }
    });
}
