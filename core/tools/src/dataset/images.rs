//! Images as samples of an input of shape [1, channels, height, width].

use std::path::Path;

use byoc_core::calibrate::Input;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::FileKind;
use byoc_core::memory;
use byoc_plugin_api::DType;
use image::imageops::FilterType;
use image::{DynamicImage, ImageReader};

use super::bad;
use crate::text;

/// The user's mean and deviation of pixels between 0 and 1: one number, or one a channel; empty for 0 and 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Normalisation {
    pub(crate) mean: Vec<f32>,
    pub(crate) std: Vec<f32>,
}

/// How images become tensors of one input.
#[derive(Debug)]
pub(crate) struct Images {
    height: u32,
    width: u32,
    /// `f32`, or `u8`, which takes pixels as they are.
    dtype: DType,
    /// Mean and deviation of each channel.
    channels: Vec<(f32, f32)>,
}

impl Normalisation {
    pub(super) fn is_given(&self) -> bool {
        !self.mean.is_empty() || !self.std.is_empty()
    }

    fn channels(&self, input: &Input, count: usize) -> Result<Vec<(f32, f32)>> {
        let each = |flag: &str, given: &[f32], default: f32| match given {
            [] => Ok(vec![default; count]),
            [one] => Ok(vec![*one; count]),
            several if several.len() == count => Ok(several.to_vec()),
            several => {
                let message = format!(
                    "{flag} has {}, and input '{}' has {}",
                    text::count(several.len(), "number"),
                    input.name,
                    text::count(count, "channel")
                );
                Err(Diagnostic::new(Code::Usage, message).hint("Give one number, or one a channel"))
            }
        };
        let (mean, std) = (each("--input-mean", &self.mean, 0.0)?, each("--input-std", &self.std, 1.0)?);
        Ok(mean.into_iter().zip(std).collect())
    }
}

impl Images {
    /// For a model with these inputs. `file` is one of the images, for the message where it has no input for them.
    pub(crate) fn new(file: &Path, inputs: &[Input], normalisation: &Normalisation) -> Result<Images> {
        if let [input] = inputs
            && matches!(input.dtype, DType::F32 | DType::U8)
            && let &[1, channels @ (1 | 3), height, width] = input.shape.as_slice()
            && let (Ok(height), Ok(width)) = (u32::try_from(height), u32::try_from(width))
        {
            if input.dtype == DType::U8 && normalisation.is_given() {
                let message = format!("input '{}' is u8 and takes pixels as they are", input.name);
                return Err(Diagnostic::new(Code::Usage, message).hint("Leave --input-mean and --input-std out"));
            }
            let channels = normalisation.channels(input, channels)?;
            return Ok(Images { height, width, dtype: input.dtype, channels });
        }
        let inputs: Vec<_> = inputs
            .iter()
            .map(|input| format!("{}: {}{}", input.name, input.dtype, text::shape(&input.shape)))
            .collect();
        let message = format!("'{}' is an image, which the model does not take: {}", file.display(), inputs.join(", "));
        Err(bad(message)
            .hint("Images are for one input f32[1,3,H,W] or f32[1,1,H,W], or the same of u8; use .npy or .npz files for others"))
    }

    /// Reads the head of each file; the warning says how many images are of another size.
    pub(super) fn check(&self, dir: &Path, files: &[&Path]) -> Result<Option<Diagnostic>> {
        let mut resized = 0;
        for file in files {
            let size = reader(file)?.into_dimensions().map_err(|error| unreadable(file, &error))?;
            resized += usize::from(size != (self.width, self.height));
        }
        if resized == 0 {
            return Ok(None);
        }
        let message = format!(
            "{resized} of {} in '{}' are not {} wide and {} high: they are stretched with a bilinear filter",
            text::count(files.len(), "image"),
            dir.display(),
            self.width,
            self.height
        );
        Ok(Some(bad(message).hint("Bring them to that size as your training did for the closest ranges")))
    }

    /// The image as elements: a plane for each channel, normalised.
    pub(super) fn load(&self, file: &Path) -> Result<Vec<u8>> {
        self.elements(file, reader(file)?.decode().map_err(|error| unreadable(file, &error))?)
    }

    /// The same of an image that is decoded; `file` is for messages.
    pub(crate) fn elements(&self, file: &Path, image: DynamicImage) -> Result<Vec<u8>> {
        // To 8 bits first: that is what a camera gives, and what the pixels of the declared range are.
        let image = match self.channels.len() {
            1 => DynamicImage::from(image.into_luma8()),
            _ => DynamicImage::from(image.into_rgb8()),
        };
        let image = match self.fits(&image) {
            true => image,
            false => image.resize_exact(self.width, self.height, FilterType::Triangle),
        };
        let pixels = image.as_bytes();
        let count = self.channels.len();
        let size = if self.dtype == DType::U8 { 1 } else { size_of::<f32>() };
        let mut elements = memory::room(pixels.len() * size)
            .map_err(|shortage| shortage.diagnostic(Code::Io, format!("the image '{}'", file.display())))?;
        for (channel, &normalisation) in self.channels.iter().enumerate() {
            let plane = pixels.iter().skip(channel).step_by(count);
            match self.dtype {
                DType::U8 => elements.extend(plane),
                _ => elements.extend(plane.flat_map(|&pixel| normalised(pixel, normalisation).to_le_bytes())),
            }
        }
        Ok(elements)
    }

    /// Whether the image has the size of the input, and is not stretched.
    pub(crate) fn fits(&self, image: &DynamicImage) -> bool {
        (image.width(), image.height()) == (self.width, self.height)
    }

    /// The warning that an image is stretched.
    pub(crate) fn stretched(&self, file: &Path) -> Diagnostic {
        let (width, height) = (self.width, self.height);
        let message = format!(
            "'{}' is not {width} wide and {height} high: it is stretched with a bilinear filter",
            file.display()
        );
        bad(message).hint("Bring it to that size as your training did")
    }

    /// What the darkest and the brightest pixel become, over all channels.
    pub(super) fn range(&self) -> (f32, f32) {
        if self.dtype == DType::U8 {
            return (0.0, 255.0);
        }
        let ends = self.channels.iter().map(|&channel| (normalised(0, channel), normalised(255, channel)));
        ends.fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), (dark, bright)| (min.min(dark), max.max(bright)))
    }
}

fn normalised(pixel: u8, (mean, std): (f32, f32)) -> f32 {
    (f32::from(pixel) / 255.0 - mean) / std
}

/// The file's first bytes say what it is; its name does where they are of no known kind.
fn reader(file: &Path) -> Result<ImageReader<std::io::BufReader<std::fs::File>>> {
    let opened = ImageReader::open(file).and_then(ImageReader::with_guessed_format);
    opened.map_err(|error| Diagnostic::io(file, "read", &error))
}

/// The image in these bytes.
pub(crate) fn decode(file: &Path, bytes: &[u8]) -> Result<DynamicImage> {
    image::load_from_memory(bytes).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &image::ImageError) -> Diagnostic {
    let cause = match FileKind::of_file(file) {
        Ok(kind) if !matches!(kind, FileKind::Image | FileKind::Unknown) => format!("it is {}", kind.name()),
        _ => error.to_string(),
    };
    bad(format!("'{}' cannot be read as an image: {cause}", file.display())).hint("Leave it out, or write it again")
}
