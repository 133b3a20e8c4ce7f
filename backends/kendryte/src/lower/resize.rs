//! Nearest-neighbour resize, where the SDK's layer picks the same pixels as ONNX.

use byoc_plugin_api::{Node, Refusal, RefusalCode};

use super::{Lowering, other, read};
use crate::kmodel::bodies::Shape;
use crate::net::Work;

/// One axis of a resize.
struct Axis {
    size: u32,
    out: u32,
    scale: f64,
}

impl Lowering<'_> {
    pub(super) fn resize(&mut self, node: &Node) -> Result<(), Refusal> {
        let (input, output) = (read::input(node, 0)?, read::output(node)?);
        let (from, to) = (self.map(input)?, self.map(output)?);
        let mode = node.string("mode", "nearest");
        if mode != "nearest" {
            return Err(read::attribute(format!("mode '{mode}', only 'nearest' has code")));
        }
        let [rows, columns] = self.scales(node, &from, &to)?;
        let axes = [
            Axis { size: from.height, out: to.height, scale: rows },
            Axis { size: from.width, out: to.width, scale: columns },
        ];
        for axis in axes {
            for at in 0..axis.out {
                if axis.wanted(node, at)? != axis.picked(at) {
                    return Err(other("the SDKs pick other pixels for these sizes and modes"));
                }
            }
        }
        if from.channels != to.channels {
            return Err(read::shape("only rows and columns are resized"));
        }
        self.give_moved(node, Work::Resize(from), [input, output], to)
    }

    /// The scales of rows and columns.
    fn scales(&self, node: &Node, from: &Shape, to: &Shape) -> Result<[f64; 2], Refusal> {
        let unknown = || Refusal::new(RefusalCode::ConstantNeeded, "the scales must be constant");
        let of_sizes = [f64::from(to.height) / f64::from(from.height), f64::from(to.width) / f64::from(from.width)];
        match node.input(2) {
            None => Ok(of_sizes),
            Some(scales) => match *self.region.constant_floats(scales).ok_or_else(unknown)?.as_slice() {
                [_, _, rows, columns] | [rows, columns] => Ok([rows, columns]),
                [] => Ok(of_sizes),
                _ => Err(read::attribute("scales of other axes than rows and columns")),
            },
        }
    }
}

impl Axis {
    /// The pixel that the SDKs pick for output `at` (kmodel v3, SDK CPU-layer details: resize).
    fn picked(&self, at: u32) -> u32 {
        let scale = self.size as f32 / self.out as f32;
        ((at as f32 * scale).floor() as u32).min(self.size - 1)
    }

    /// The pixel that ONNX wants (Resize 19).
    fn wanted(&self, node: &Node, at: u32) -> Result<u32, Refusal> {
        let x = f64::from(at);
        let place = match node.string("coordinate_transformation_mode", "half_pixel") {
            "half_pixel" => (x + 0.5) / self.scale - 0.5,
            "pytorch_half_pixel" if self.out > 1 => (x + 0.5) / self.scale - 0.5,
            "pytorch_half_pixel" => 0.0,
            "asymmetric" => x / self.scale,
            "align_corners" if self.out > 1 => x * f64::from(self.size - 1) / f64::from(self.out - 1),
            "align_corners" => 0.0,
            mode => return Err(read::attribute(format!("coordinate_transformation_mode '{mode}' has no code"))),
        };
        let pixel = match node.string("nearest_mode", "round_prefer_floor") {
            "round_prefer_floor" => (place - 0.5).ceil(),
            "round_prefer_ceil" => (place + 0.5).floor(),
            "floor" => place.floor(),
            "ceil" => place.ceil(),
            mode => return Err(read::attribute(format!("nearest_mode '{mode}' has no code"))),
        };
        Ok(pixel.clamp(0.0, f64::from(self.size - 1)) as u32)
    }
}
