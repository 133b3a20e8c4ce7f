//! The window of a convolution or a pooling, as the fast kernels take it.

use byoc_plugin_api::Dim;

use crate::program::Step;

/// A window over two spatial dimensions.
pub(super) struct Window {
    pub(super) kernel: [usize; 2],
    pub(super) strides: [usize; 2],
    pub(super) dilations: [usize; 2],
    /// Above, left, below, right.
    pub(super) pads: [usize; 4],
}

impl Window {
    /// The window of a node over images `x` to images `y`, whose weights have these spatial sizes; `None` where it has
    /// another rank, or padding that follows from sizes not known yet.
    pub(super) fn of(step: &Step, x: &[Dim], y: &[Dim], weights: Option<&[usize]>) -> Option<Window> {
        if x.len() != 4 || y.len() != 4 {
            return None;
        }
        let window = byoc_plugin_api::Window::of(&step.node()?, 2, weights).ok()?;
        let pads = [window.begin, window.end].concat();
        Some(Window {
            kernel: window.kernel.try_into().ok()?,
            strides: window.strides.try_into().ok()?,
            dilations: window.dilations.try_into().ok()?,
            pads: pads.try_into().ok()?,
        })
    }
}
