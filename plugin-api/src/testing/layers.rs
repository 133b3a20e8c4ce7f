//! Layers of networks for images: nodes with their parameters.

use super::{RegionBuilder, Tensor};
use crate::region::{Attribute, Dim};

impl RegionBuilder {
    /// The type of images of so many channels, after a window that goes by `stride` and leaves out none.
    #[track_caller]
    pub fn after(&self, x: usize, channels: usize, stride: usize) -> super::Type {
        let mut ty = self.ty(x);
        for (axis, size) in ty.shape.iter_mut().enumerate() {
            *size = match (axis, &*size) {
                (0, size) => size.clone(),
                (1, _) => channels.into(),
                (_, Dim::Fixed(size)) => size.div_ceil(stride).into(),
                (_, Dim::Symbolic(size)) => panic!("images have fixed sizes, and not '{size}'"),
            };
        }
        ty
    }

    /// A convolution with a bias, padded so that only the stride makes images smaller. The weights make numbers neither
    /// larger nor smaller.
    #[track_caller]
    pub fn conv(&mut self, x: usize, channels: usize, kernel: usize, stride: usize, group: usize) -> usize {
        let from = self.region.values[x].shape[1].fixed().expect("images have a fixed number of channels") / group;
        let most = (3.0 / (from * kernel * kernel) as f64).sqrt();
        let weights = self.drawn([channels, from, kernel, kernel], -most..most);
        let bias = self.drawn([channels], -0.5..0.5);
        let attributes = [
            ("group", Attribute::Int(group as i64)),
            ("pads", Attribute::Ints(vec![(kernel / 2) as i64; 4])),
            ("strides", Attribute::Ints(vec![stride as i64; 2])),
        ];
        self.node("Conv", &[x, weights, bias], self.after(x, channels, stride), &attributes)
    }

    /// Batch normalisation.
    #[track_caller]
    pub fn norm(&mut self, x: usize) -> usize {
        let channels = self.region.values[x].shape[1].fixed().expect("images have a fixed number of channels");
        let positive = |net: &mut Self| net.drawn([channels], 0.5..1.5);
        let inputs = [x, positive(self), self.weight([channels]), self.weight([channels]), positive(self)];
        self.like("BatchNormalization", &inputs, "")
    }

    /// A constant of random numbers of that range.
    #[track_caller]
    pub fn drawn(&mut self, ty: impl Into<super::Type>, range: std::ops::Range<f64>) -> usize {
        let ty = ty.into();
        let tensor = Tensor::random((ty.dtype.unwrap_or(self.dtype), ty.shape), range, &mut self.random);
        self.constant(tensor)
    }
}
