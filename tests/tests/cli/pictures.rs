//! Small pictures.

use std::path::Path;

use image::{ImageFormat, Rgb, RgbImage};

/// Writes a PNG image whose pixel at (x, y) is (10 x, 20 y, 5), whatever the name of the file.
pub(crate) fn write_png(path: &Path, width: u32, height: u32) {
    let pixel = |x: u32, y: u32| Rgb([10 * x as u8, 20 * y as u8, 5]);
    let image = RgbImage::from_fn(width, height, pixel);
    image.save_with_format(path, ImageFormat::Png).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
