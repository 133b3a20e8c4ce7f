//! The input of a region as an image: what a byte of it means where the user says what was done to the pixels.

use byoc_plugin_api::{DType, Error, Options, Region};

use super::Network;
use super::weights::Affine;
use crate::codegen::stored::Rows;
use crate::kmodel::arguments::Kernel;
use crate::net::{Conv, Front, Net, Tensor};
use crate::trailer::ChannelScale;

/// The highest pixel.
const WHITE: f64 = 255.0;

/// How near the byte that stands for 0 has to be to a whole number.
const WHOLE: f64 = 1e-3;

/// What a byte of the input means.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Image {
    /// By the range that was observed.
    Observed,
    /// A pixel; these are the numbers of black and white in all channels.
    Range(f32, f32),
    /// A pixel; no scale with a zero point for all channels gives its number, so `factor * byte / 255 + offset` is computed by the
    /// first convolution.
    Channels(Front),
}

impl Image {
    /// By the options `input-mean` and `input-std`. They are about the model's input: for a region that is only a part of a model and
    /// does not fit them, they do not count.
    pub(crate) fn of(region: &Region, net: &Net, options: &Options) -> Result<Image, Error> {
        let (mean, std) = (numbers(options, "input-mean")?, numbers(options, "input-std")?);
        let [input] = *region.inputs.as_slice() else { return Ok(Image::Observed) };
        let shape = region.values[input].fixed_shape().unwrap_or_default();
        let [_, channels, _, _] = *shape.as_slice() else { return Ok(Image::Observed) };
        let is_told = !mean.is_empty() || !std.is_empty();
        if !is_told || net.given[input].is_some() || region.values[input].dtype != DType::F32 {
            return Ok(Image::Observed);
        }
        match fitting(region, input, channels, (&mean, &std)) {
            Ok(front) => Ok(Image::by(front)),
            Err(error) if region.covers_entry => Err(error),
            Err(_) => Ok(Image::Observed),
        }
    }

    fn by(front: Front) -> Image {
        let first = (front.factors.first().copied().unwrap_or(1.0), front.offsets.first().copied().unwrap_or(0.0));
        let same = front.factors.iter().zip(&front.offsets).all(|(&factor, &offset)| (factor, offset) == first);
        let zero = -first.1 / first.0 * WHITE;
        if same && (0.0..=WHITE).contains(&zero) && (zero - zero.round()).abs() < WHOLE {
            return Image::Range(first.1 as f32, (first.0 + first.1) as f32);
        }
        Image::Channels(front)
    }

    /// What the host does to each channel to get bytes.
    pub(crate) fn scales(&self) -> Vec<ChannelScale> {
        let Image::Channels(front) = self else { return Vec::new() };
        let channels = front.factors.iter().zip(&front.offsets);
        channels.map(|(factor, &offset)| ChannelScale { scale: (factor / WHITE) as f32, bias: offset as f32 }).collect()
    }
}

/// The numbers of an option, with commas between.
fn numbers(options: &Options, name: &str) -> Result<Vec<f64>, Error> {
    let text = options.text(name).trim();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let number = |part: &str| part.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    text.split(',')
        .map(number)
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| Error::new(format!("option '{name}' takes numbers with commas between, not '{text}'")))
}

/// What becomes of pixels by a mean and a deviation, if it is what the samples of the input have.
fn fitting(region: &Region, input: usize, channels: usize, (mean, std): (&[f64], &[f64])) -> Result<Front, Error> {
    let name = &region.values[input].name;
    let each = |list: &[f64], default: f64, option: &str| match *list {
        [] => Ok(vec![default; channels]),
        [one] => Ok(vec![one; channels]),
        _ if list.len() == channels => Ok(list.to_vec()),
        _ => Err(Error::new(format!("option '{option}' has {} numbers, '{name}' has {channels} channels", list.len()))),
    };
    let (mean, std) = (each(mean, 0.0, "input-mean")?, each(std, 1.0, "input-std")?);
    let front = Front::of("Div", &std).after(&Front::of("Sub", &mean));
    if std.iter().any(|&std| std <= 0.0) || !front.is_usable() {
        return Err(Error::new("option 'input-std' takes positive numbers"));
    }
    let black = front.offsets.iter().copied().fold(f64::INFINITY, f64::min);
    let white = front.factors.iter().zip(&front.offsets).map(|(a, b)| a + b).fold(f64::NEG_INFINITY, f64::max);
    let slack = (white - black) / WHITE;
    match region.observed(input) {
        Some(seen) if f64::from(seen.min) < black - slack || f64::from(seen.max) > white + slack => {
            let message = format!(
                "'{name}' goes from {} to {} in the data set, but with input-mean and input-std pixels go from {black:.4} to \
                 {white:.4}",
                seen.min, seen.max
            );
            Err(Error::new(message).hint("Give the mean and the deviation that the samples were made with"))
        }
        _ => Ok(front),
    }
}

impl Network<'_> {
    /// What is done to the bytes of a convolution's source, as `(byte - zero point) * scale`, before its weights are for them.
    pub(super) fn front(&self, conv: &Conv, source: &Tensor) -> Option<Front> {
        let pixels = match &self.image {
            Image::Channels(front) if self.region.inputs.contains(&source.value) => Some(front),
            _ => None,
        };
        match (&conv.front, pixels) {
            (Some(front), Some(pixels)) => Some(front.after(pixels)),
            (front, pixels) => front.as_ref().or(pixels).cloned(),
        }
    }

    /// The byte outside the image that is nearest to 0 in all channels, and how far from 0 it is at most.
    pub(super) fn border(&self, conv: &Conv, source: &Tensor) -> Result<Option<(u8, f64)>, Error> {
        let Some(front) = self.front(conv, source) else { return Ok(None) };
        let quantization = self.scales.of_value(source.value)?;
        let (scale, zero) = (f64::from(quantization.scale), f64::from(quantization.zero_point));
        let channels = || front.factors.iter().zip(&front.offsets);
        let wanted: f64 = channels().map(|(factor, offset)| zero - offset / factor / scale).sum();
        let byte = (wanted / front.factors.len().max(1) as f64).round().clamp(0.0, WHITE);
        let off = |(factor, offset): (&f64, &f64)| (factor * (byte - zero) * scale + offset).abs();
        Ok(Some((byte as u8, channels().map(off).fold(0.0, f64::max))))
    }

    /// What the user should know about borders.
    pub(super) fn border_notes(&self) -> Result<Vec<String>, Error> {
        let mut notes = Vec::new();
        for step in &self.net.steps {
            let crate::net::Work::Conv(conv) = &step.work else { continue };
            let source = &self.net.tensors[step.inputs[0]];
            if let Some((byte, off)) = self.border(conv, source)?
                && conv.kernel == Kernel::Three
                && off > 1e-6
            {
                notes.push(format!(
                    "mean and deviation are part of '{}', whose border is pixels of {byte} in all channels: they stand for up to \
                     {off:.3} where the model has 0",
                    self.region.nodes[conv.node].name
                ));
            }
        }
        Ok(notes)
    }
}

impl Affine {
    /// The layer of what is in front of it: `weights . (factor * x + offset)`.
    pub(super) fn behind(self, front: &Front, outputs: usize, depthwise: bool) -> Affine {
        let Affine { weights, scale, bias } = self;
        let mut weights = weights.real();
        let size = weights.len() / outputs.max(1);
        let channels = if depthwise { 1 } else { front.factors.len().max(1) };
        let per_channel = (size / channels).max(1);
        let mut sums = vec![0.0; outputs];
        for (at, weight) in weights.iter_mut().enumerate() {
            let output = at / size.max(1);
            let channel = if depthwise { output } else { at % size / per_channel };
            sums[output] += f64::from(*weight) * front.offsets[channel];
            *weight = (f64::from(*weight) * front.factors[channel]) as f32;
        }
        let factor = |output: usize| scale.as_ref().map_or(1.0, |scale| f64::from(scale[output]));
        let moved =
            bias.iter().enumerate().map(|(output, &bias)| (f64::from(bias) + factor(output) * sums[output]) as f32);
        Affine { weights: Rows::Real(weights), bias: moved.collect(), scale }
    }
}
