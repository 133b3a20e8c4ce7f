//! Windows of convolutions and poolings, over up to three spatial axes. Their sizes are constants of the source.

use std::fmt::Write;

use byoc_plugin_api::{Dim, Node, Refusal, RefusalCode, Region};

/// Spatial axes of a kernel. Missing ones are prepended with size 1.
pub(super) const AXES: usize = 3;

/// Windows over a padded input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) input: [usize; AXES],
    pub(crate) kernel: [usize; AXES],
    pub(crate) stride: [usize; AXES],
    pub(crate) dilation: [usize; AXES],
    /// Padding at the begin.
    pub(crate) begin: [usize; AXES],
    /// Padding at the end, without the excess of `ceil_mode`.
    pub(crate) end: [usize; AXES],
    pub(crate) output: [usize; AXES],
}

impl Window {
    /// Reads the windows of a node from `x` of `[batch, channels, spatial axes]` to `y`; the kernel's sizes are those of the
    /// attribute, or of the weights' last axes.
    pub(super) fn read(region: &Region, node: &Node, x: usize, y: usize, w: Option<usize>) -> Result<Self, Refusal> {
        let (input, output) = (spatial(region, x)?, spatial(region, y)?);
        let weights = w.map(|w| spatial(region, w)).transpose()?;
        if [Some(&output), weights.as_ref()].into_iter().flatten().any(|sizes| sizes.len() != input.len()) {
            return Err(shape(format!("'{}' has a window of another rank than its input", node.name)));
        }
        let read = byoc_plugin_api::Window::of(node, input.len(), weights.as_deref())?;
        let window = Window {
            input: filled(&input, 1),
            kernel: filled(&read.kernel, 1),
            stride: filled(&read.strides, 1),
            dilation: filled(&read.dilations, 1),
            begin: filled(&read.begin, 0),
            end: filled(&read.end, 0),
            output: filled(&output, 1),
        };
        let sizes = [&window.input, &window.output, &window.kernel];
        if sizes.iter().any(|sizes| sizes.iter().product::<usize>() > i32::MAX as usize) {
            return Err(shape(format!("'{}' has more elements a channel than 32 bits can count", node.name)));
        }
        Ok(window)
    }

    /// Elements that a window spans.
    fn span(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }

    /// Whether no window reaches into padding.
    pub(crate) fn is_inside(&self) -> bool {
        let ends = |axis: usize| self.output[axis].saturating_sub(1) * self.stride[axis] + self.span(axis);
        self.begin == [0; AXES] && (0..AXES).all(|axis| ends(axis) <= self.input[axis])
    }

    /// Whether there is one window of one element at each place of the input.
    pub(super) fn is_point(&self) -> bool {
        [self.kernel, self.stride] == [[1; AXES]; 2] && self.is_inside() && self.input == self.output
    }

    /// Windows of a channel.
    pub(super) fn positions(&self) -> usize {
        self.output.iter().product()
    }

    /// The constants of the source.
    pub(super) fn constants(&self) -> String {
        // Enumerators, since unused constants would be warned of.
        let mut text = "enum : int {\n".to_owned();
        let lists = [
            ("IN", &self.input),
            ("OUT", &self.output),
            ("KERNEL", &self.kernel),
            ("STRIDE", &self.stride),
            ("DILATION", &self.dilation),
            ("BEGIN", &self.begin),
            ("END", &self.end),
        ];
        for (name, [depth, rows, columns]) in lists {
            let _ = writeln!(text, "  {name}_D = {depth}, {name}_H = {rows}, {name}_W = {columns},");
        }
        let _ = writeln!(text, "}};\nconstexpr bool INSIDE = {};", self.is_inside());
        text
    }
}

/// Sizes of the spatial axes of a tensor, all of which are known.
fn spatial(region: &Region, value: usize) -> Result<Vec<usize>, Refusal> {
    let value = &region.values[value];
    let sizes = value.shape.get(2..).unwrap_or_default();
    if sizes.is_empty() || sizes.len() > AXES {
        return Err(shape(format!("'{}' has {} spatial axes; supported are 1 to {AXES}", value.name, sizes.len())));
    }
    let sizes: Option<Vec<_>> = sizes.iter().map(Dim::fixed).collect();
    sizes.ok_or_else(|| shape(format!("the spatial sizes of '{}' are not known: fix them with --dim", value.name)))
}

fn filled(values: &[usize], default: usize) -> [usize; AXES] {
    let mut all = [default; AXES];
    all[AXES - values.len()..].copy_from_slice(values);
    all
}

pub(super) fn shape(message: String) -> Refusal {
    Refusal::new(RefusalCode::Shape, message)
}
