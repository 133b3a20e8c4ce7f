//! Weights of 8 bits in the layouts of the integer kernels.

use std::borrow::Cow;

use byoc_plugin_api::{DType, Error, TensorView};
use serde::{Deserialize, Serialize};

use crate::kernels::integer::{self, Byte, DEPTHWISE_LAYOUT, PACKED_LAYOUT};
use crate::kernels::product;

/// What weights are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Form {
    /// The right side of a product.
    Matrix {
        /// Whether it is [N, K].
        transposed: bool,
        /// Rows.
        k: usize,
        /// Columns.
        n: usize,
    },
    /// Filters [OC, C, KH, KW]; a window is by tap, all channels of each.
    Filters([usize; 4]),
    /// One filter for each channel.
    Depthwise {
        /// How many channels.
        channels: usize,
        /// Elements of a filter.
        taps: usize,
    },
}

impl Form {
    /// Elements of the weights.
    fn elements(&self) -> Option<usize> {
        match self {
            Form::Matrix { k, n, .. } => product(&[*k, *n]),
            Form::Filters(shape) => product(shape),
            Form::Depthwise { channels, taps } => product(&[*channels, *taps]),
        }
    }

    /// Bytes of the packed weights; `None` if they cannot be counted.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Form::Matrix { k, n, .. } => integer::packed_len(*k, *n),
            Form::Filters([filters, window @ ..]) => integer::packed_len(product(window)?, *filters),
            Form::Depthwise { .. } => self.elements(),
        }
    }

    /// Names the layout.
    pub(super) fn layout(&self) -> &'static str {
        match self {
            Form::Matrix { .. } | Form::Filters(_) => PACKED_LAYOUT,
            Form::Depthwise { .. } => DEPTHWISE_LAYOUT,
        }
    }

    /// Packs the weights.
    pub(super) fn pack(&self, view: &TensorView<'_>, unsigned: bool, out: &mut [i8]) -> Result<(), Error> {
        let (byte, dtype) = if unsigned { (Byte::U8, DType::U8) } else { (Byte::I8, DType::I8) };
        if view.dtype() != dtype || Some(view.len()) != self.elements() {
            return Err(Error::new(format!("weights {} {:?} for {self:?}", view.dtype(), view.shape())));
        }
        let bytes: Cow<'_, [u8]> = match view.as_bytes() {
            Some(bytes) => bytes.into(),
            None => {
                let mut copy = Vec::with_capacity(view.len());
                view.for_each_element(|element| copy.extend_from_slice(element));
                copy.into()
            }
        };
        if bytes.len() != view.len() {
            return Err(Error::new("weights without elements"));
        }
        match *self {
            Form::Matrix { transposed, k, n } => {
                integer::pack(k, n, &bytes, if transposed { [1, k] } else { [n, 1] }, byte, out);
            }
            Form::Filters([filters, channels, height, width]) => {
                let taps = height * width;
                // Channels last.
                let mut last = vec![0; bytes.len()];
                for (filter, from) in
                    last.chunks_exact_mut((channels * taps).max(1)).zip(bytes.chunks_exact(channels * taps))
                {
                    for (channel, from) in from.chunks_exact(taps).enumerate() {
                        from.iter().enumerate().for_each(|(tap, &weight)| filter[tap * channels + channel] = weight);
                    }
                }
                integer::pack(taps * channels, filters, &last, [1, taps * channels], byte, out);
            }
            Form::Depthwise { channels, taps } => integer::pack_depthwise(channels, taps, &bytes, byte, out),
        }
        Ok(())
    }
}
