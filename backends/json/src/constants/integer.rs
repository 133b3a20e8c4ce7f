//! Weights of 8 bits in the layouts of the integer kernels.

use std::borrow::Cow;

use byoc_plugin_api::{DType, Error, TensorView};
use serde::{Deserialize, Serialize};

use crate::kernels::integer::{self, Byte, DEPTH, DEPTHWISE_LAYOUT, PACKED_LAYOUT, PACKED_ROWS_LAYOUT};
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
            &Form::Filters([filters, channels, height, width]) => {
                integer::packed_len(integer::window_len([height, width], channels)?, filters)
            }
            Form::Depthwise { .. } => self.elements(),
        }
    }

    /// Names the layout.
    pub(super) fn layout(&self) -> &'static str {
        match self {
            Form::Filters([_, channels, height, width])
                if *height > 1 && !(channels % DEPTH * (width % DEPTH)).is_multiple_of(DEPTH) =>
            {
                PACKED_ROWS_LAYOUT
            }
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
            Form::Filters(shape) => {
                let [filters, channels, kernel @ ..] = shape;
                // The byte of what stands for 0 in packed weights.
                let windows = integer::by_window(&bytes, shape, channels, if unsigned { 0x80 } else { 0 });
                let len = windows.len() / filters.max(1);
                debug_assert_eq!(Some(len), integer::window_len(kernel, channels));
                integer::pack(len, filters, &windows, [1, len], byte, out);
            }
            Form::Depthwise { channels, taps } => integer::pack_depthwise(channels, taps, &bytes, byte, out),
        }
        Ok(())
    }
}
