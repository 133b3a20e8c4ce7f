//! What convolutions and poolings share: windows over up to three spatial axes, whose sizes the source has as constants.

use std::fmt::Write;

use byoc_plugin_api::{Dim, Node, Refusal, RefusalCode, Region};

/// Spatial axes of a kernel. Fewer are filled up in front with axes of one element.
pub(super) const AXES: usize = 3;

/// Windows over a padded input.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Window {
    pub(crate) input: [usize; AXES],
    pub(crate) kernel: [usize; AXES],
    pub(crate) stride: [usize; AXES],
    pub(crate) dilation: [usize; AXES],
    /// Padding in front.
    pub(crate) begin: [usize; AXES],
    /// Padding behind, without what a window hangs over (`ceil_mode`).
    pub(crate) end: [usize; AXES],
    pub(crate) output: [usize; AXES],
}

impl Window {
    /// Reads the windows of a node from `x` of `[batch, channels, spatial axes]` to `y`; the kernel's sizes are those of the
    /// attribute, or of the weights' last axes.
    pub(super) fn read(region: &Region, node: &Node, x: usize, y: usize, w: Option<usize>) -> Result<Self, Refusal> {
        let (input, output) = (spatial(region, x)?, spatial(region, y)?);
        let rank = input.len();
        let kernel = match w {
            Some(w) => spatial(region, w)?,
            None => list(node, "kernel_shape", rank)?.ok_or_else(|| bad(node, "kernel_shape"))?,
        };
        if output.len() != rank || kernel.len() != rank {
            return Err(shape(format!("'{}' has windows of another rank than its input", node.name)));
        }
        let ones = || vec![1; rank];
        let stride = list(node, "strides", rank)?.unwrap_or_else(ones);
        let dilation = list(node, "dilations", rank)?.unwrap_or_else(ones);
        if [&kernel, &stride, &dilation].iter().any(|sizes| sizes.contains(&0)) {
            return Err(bad(node, "kernel_shape, strides or dilations"));
        }
        let mut window = Window {
            input: filled(&input, 1),
            kernel: filled(&kernel, 1),
            stride: filled(&stride, 1),
            dilation: filled(&dilation, 1),
            begin: [0; AXES],
            end: [0; AXES],
            output: filled(&output, 1),
        };
        window.pad(node, rank)?;
        let sizes = [&window.input, &window.output, &window.kernel];
        if sizes.iter().any(|sizes| sizes.iter().product::<usize>() > i32::MAX as usize) {
            return Err(shape(format!("'{}' has more elements a channel than 32 bits count", node.name)));
        }
        Ok(window)
    }

    fn pad(&mut self, node: &Node, rank: usize) -> Result<(), Refusal> {
        match node.string("auto_pad", "NOTSET") {
            "SAME_UPPER" => (0..AXES).for_each(|axis| self.same(axis, true)),
            "SAME_LOWER" => (0..AXES).for_each(|axis| self.same(axis, false)),
            "NOTSET" | "" => {
                if let Some(pads) = list(node, "pads", 2 * rank)? {
                    (self.begin, self.end) = (filled(&pads[..rank], 0), filled(&pads[rank..], 0));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What is missing for all windows is divided between front and back; an odd element goes behind, or in front.
    fn same(&mut self, axis: usize, upper: bool) {
        let reach = (self.output[axis].saturating_sub(1)) * self.stride[axis] + self.span(axis);
        let needed = reach.saturating_sub(self.input[axis]);
        self.begin[axis] = if upper { needed / 2 } else { needed.div_ceil(2) };
        self.end[axis] = needed - self.begin[axis];
    }

    /// Elements that a window spans.
    fn span(&self, axis: usize) -> usize {
        (self.kernel[axis] - 1) * self.dilation[axis] + 1
    }

    /// Whether every window lies on the input alone.
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
        // Enumerators, since not every source reads all of them, which would be warned of.
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
        return Err(shape(format!("'{}' has {} spatial axes, taken are 1 to {AXES}", value.name, sizes.len())));
    }
    let sizes: Option<Vec<_>> = sizes.iter().map(Dim::fixed).collect();
    sizes.ok_or_else(|| shape(format!("the spatial sizes of '{}' are not known: fix them with --dim", value.name)))
}

fn list(node: &Node, name: &str, length: usize) -> Result<Option<Vec<usize>>, Refusal> {
    let Some(values) = node.ints(name) else { return Ok(None) };
    let values: Option<Vec<_>> = values.iter().map(|&value| usize::try_from(value).ok()).collect();
    values.filter(|values| values.len() == length).map(Some).ok_or_else(|| bad(node, name))
}

fn filled(values: &[usize], default: usize) -> [usize; AXES] {
    let mut all = [default; AXES];
    all[AXES - values.len()..].copy_from_slice(values);
    all
}

fn bad(node: &Node, name: &str) -> Refusal {
    Refusal::new(RefusalCode::Attribute, format!("'{}' has no windows as its {name} say", node.name))
}

pub(super) fn shape(message: String) -> Refusal {
    Refusal::new(RefusalCode::Shape, message)
}
