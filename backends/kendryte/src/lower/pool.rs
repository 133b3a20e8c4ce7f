//! Poolings on the CPU: maxima of bytes, means of `f32`.

use byoc_plugin_api::{Node, Refusal};

use super::{Lowering, read};
use crate::net::{Window, Work};

impl Lowering<'_> {
    /// The window of a pooling, and that its attributes are ones that have code.
    pub(super) fn pool_window(&self, node: &Node) -> Result<Window, Refusal> {
        let image = self.map(read::input(node, 0)?)?;
        if node.int("storage_order", 0) != 0 {
            return Err(read::attribute("storage_order 1 has no code"));
        }
        let window = self.window(node, None, &image)?;
        let padded = window.begin != [0, 0] || window.end != [0, 0];
        if node.op == "AveragePool" && padded && node.int("count_include_pad", 0) != 0 {
            return Err(read::attribute("count_include_pad 1 has no code"));
        }
        if (0..2).any(|axis| window.begin[axis].max(window.end[axis]) >= window.kernel[axis]) {
            return Err(read::attribute("pads as large as the kernel"));
        }
        Ok(window)
    }

    pub(super) fn max_pool(&mut self, node: &Node) -> Result<(), Refusal> {
        let (input, output) = (read::input(node, 0)?, read::output(node)?);
        let (window, shape) = (self.pool_window(node)?, self.map(output)?);
        self.give_moved(node, Work::MaxPool(window), [input, output], shape)
    }

    pub(super) fn average_pool(&mut self, node: &Node) -> Result<(), Refusal> {
        let (input, output) = (read::input(node, 0)?, read::output(node)?);
        let (window, shape) = (self.pool_window(node)?, self.map(output)?);
        let floats = self.floats(input)?;
        self.give_floats(Work::AveragePool(window), floats, shape, output);
        Ok(())
    }

    /// The mean of each map, as `GlobalAveragePool` or as `ReduceMean` over rows and columns.
    pub(super) fn global_average_pool(&mut self, node: &Node) -> Result<(), Refusal> {
        let (input, output) = (read::input(node, 0)?, read::output(node)?);
        let image = self.map(input)?;
        if node.op == "ReduceMean" {
            let axes = node.input(1).and_then(|axes| self.region.constant_ints(axes)).unwrap_or_default();
            let mut axes: Vec<_> = axes.into_iter().map(|axis| if axis < 0 { axis + 4 } else { axis }).collect();
            axes.sort_unstable();
            if axes != [2, 3] {
                return Err(read::attribute(format!("a mean over axes {axes:?}, only rows and columns have code")));
            }
        }
        let shape = self.lying(output)?;
        let floats = self.floats(input)?;
        self.give_floats(Work::GlobalAveragePool(image), floats, shape, output);
        Ok(())
    }
}
