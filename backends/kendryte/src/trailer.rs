//! What a kmodel does not say and the host must know: appended to the file, where readers of kmodels never look.
//! JSON, its length as a `u32`, and a mark.

use byoc_plugin_api::{DType, Error};
use serde::{Deserialize, Serialize};

use crate::quantize::Quantization;

/// What code with a trailer ends in.
const MARK: &[u8; 8] = b"byocK210";

/// How the region's values are to be taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Trailer {
    /// The input.
    pub(crate) input: Input,
    /// The outputs, in order.
    pub(crate) outputs: Vec<Named>,
    /// What the bytes of the values mean.
    pub(crate) scales: Vec<ScaleRow>,
}

/// An input, and what its bytes mean: `real = (byte - zero_point) * scale`. Integers of the model are the bytes, those of `i8`
/// greater by 128.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Input {
    #[serde(flatten)]
    pub(crate) value: Named,
    /// None where each channel has its own.
    pub(crate) scale: Option<f32>,
    pub(crate) zero_point: u8,
    /// Whether the model rounds to the levels of the scale itself, and so as ONNX does.
    #[serde(default)]
    pub(crate) given: bool,
    /// Of each channel of an image, where they differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) channels: Vec<ChannelScale>,
}

/// What the bytes of a channel mean: `real = byte * scale + bias`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChannelScale {
    pub(crate) scale: f32,
    pub(crate) bias: f32,
}

impl ChannelScale {
    /// The byte of a number.
    pub(crate) fn quantize(self, real: f32) -> u8 {
        ((real - self.bias) / self.scale).round().clamp(0.0, 255.0) as u8
    }
}

impl Input {
    /// What all bytes mean; none where that depends on the channel.
    pub(crate) fn quantization(&self) -> Option<Quantization> {
        Some(Quantization { scale: self.scale?, zero_point: self.zero_point })
    }

    /// Appends the bytes of numbers.
    pub(crate) fn bytes(&self, floats: &[f32], bytes: &mut Vec<u8>) {
        if let Some(quantization) = self.quantization() {
            let byte = |&real: &f32| match self.given {
                true => quantization.nearest(real),
                false => quantization.quantize(real),
            };
            bytes.extend(floats.iter().map(byte));
            return;
        }
        let plane = (floats.len() / self.channels.len().max(1)).max(1);
        for (channel, floats) in self.channels.iter().zip(floats.chunks(plane)) {
            bytes.extend(floats.iter().map(|&real| channel.quantize(real)));
        }
    }
}

/// A value with its name and its type in the model. Of the 8 bits of an `i8` the highest is the opposite of that of its byte.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) name: String,
    #[serde(default = "f32")]
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

/// The range and the scale of a value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScaleRow {
    pub(crate) value: String,
    pub(crate) least: f32,
    pub(crate) greatest: f32,
    pub(crate) scale: f32,
    pub(crate) zero_point: u8,
    /// Signal over quantisation noise in dB, estimated from the histogram; none where there is no noise.
    pub(crate) sqnr: Option<f32>,
    /// Whether it is the scale of a model that is quantised. Then the range is that of its levels.
    #[serde(default)]
    pub(crate) given: bool,
}

fn f32() -> DType {
    DType::F32
}

impl Trailer {
    /// Appends the trailer to a kmodel.
    pub(crate) fn append(&self, file: &mut Vec<u8>) -> Result<(), Error> {
        let start = file.len();
        serde_json::to_writer(&mut *file, self)?;
        let length = u32::try_from(file.len() - start).map_err(|_| Error::new("the trailer is too long"))?;
        file.extend(length.to_le_bytes());
        file.extend(MARK);
        Ok(())
    }

    /// The kmodel of some code, and the trailer if it has one.
    pub(crate) fn split(code: &[u8]) -> Result<(&[u8], Option<Trailer>), Error> {
        let Some(rest) = code.strip_suffix(MARK) else { return Ok((code, None)) };
        let damaged = || Error::new("damaged code: its trailer is longer than itself");
        let (rest, length) = rest.split_last_chunk::<4>().ok_or_else(damaged)?;
        let start = rest.len().checked_sub(u32::from_le_bytes(*length) as usize).ok_or_else(damaged)?;
        let trailer = serde_json::from_slice(&rest[start..])
            .map_err(|error| Error::new(format!("damaged code: its trailer is not valid: {error}")))?;
        Ok((&rest[..start], Some(trailer)))
    }
}
