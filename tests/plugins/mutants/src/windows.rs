//! Convolutions of one and two spatial axes, with the `Relu` behind them. Poolings are beside this file.

mod pools;
mod transposed;

use byoc_plugin_api::{Error, Node, Refusal, Region, Window};

use crate::backend::{Mutant, host, no_types};
use crate::call::{Bugs, Call, refused};
use crate::check;
use crate::tensor::{Tensor, View};

const BUGS: Bugs = &[
    ("none", "Nothing is wrong"),
    ("conv-pads-swapped", "The padding behind the input is taken for that in front of it"),
    ("conv-pads-top-for-left", "The padding at the top is used at the left as well"),
    ("conv-pads-1d", "With one spatial axis there is no padding in front"),
    ("conv-pads-edge", "Padding repeats the outermost element"),
    ("conv-strides-swapped", "Strides of height and width are exchanged"),
    ("conv-stride-of-1x1", "The short cut for kernels of 1x1 ignores strides"),
    ("conv-dilation-ignored", "Dilations are taken for 1"),
    ("conv-dilation-width", "The dilation of the height is used for the width as well"),
    ("conv-group-first", "Every group reads the channels of the first one"),
    ("conv-group-weights", "Every group has the weights of the first one"),
    ("conv-depthwise-multiplier", "Output channel m of a depthwise convolution reads input channel m modulo channels"),
    ("conv-bias-ignored", "The bias is not added"),
    ("conv-bias-by-row", "The bias is read by the row of the output"),
    ("conv-bias-without-group", "The bias of every group is that of the first one"),
    ("conv-inputs-16", "Input channels from the second block of 16 on are left out"),
    (
        "conv-outputs-tail-16",
        "What is left of the output channels behind the last full block of 16 is 0, if there is a block",
    ),
    (
        "conv-outputs-tail-8",
        "What is left of 9 and more output channels behind the last full 8 is computed without the bias",
    ),
    ("conv-kernel-turned", "The kernel is turned by half a turn"),
    ("conv-kernel-transposed", "Kernels are read column by column"),
    ("conv-batch-first", "All images of a batch are the first one"),
    ("conv-batch-remembered", "Images beyond the batch of the first run are 0"),
    ("conv-odd-width", "The last column of an output of an odd width is that before it"),
    ("conv-last-row", "The last row of 5 and more is 0"),
    ("conv-accumulates", "Each run adds to the result of the one before"),
    ("conv-stale-bias", "The bias is that of the first run"),
    ("relu-before-bias", "Relu behind a convolution is computed before the bias is added"),
    ("relu-dropped", "Relu behind a convolution is left out"),
    ("relu-tail", "Relu leaves elements behind the last multiple of 8 as they are"),
    ("relu-nan", "Relu makes 0 of NaN"),
    ("deconv-pads-swapped", "The padding behind is taken for that in front of it in ConvTranspose"),
    ("deconv-strides-swapped", "Strides of height and width are exchanged in ConvTranspose"),
    ("deconv-dilation-ignored", "Dilations of ConvTranspose are taken for 1"),
    ("deconv-group-first", "Every group of ConvTranspose reads the channels of the first one"),
    ("deconv-output-padding-ignored", "What output_padding adds has the bias only"),
    ("deconv-bias-ignored", "The bias of ConvTranspose is not added"),
    ("deconv-kernel-turned", "The kernel of ConvTranspose is turned by half a turn"),
    ("deconv-weights-transposed", "Weights of ConvTranspose are read with the output channel first"),
    ("pool-pads-swapped", "The padding behind the input is taken for that in front of it in poolings"),
    ("pool-strides-swapped", "Strides of height and width are exchanged in poolings"),
    ("pool-kernel-swapped", "Height and width of the window are exchanged in poolings"),
    ("pool-dilation-ignored", "Dilations of poolings are taken for 1"),
    ("pool-ceil-ignored", "Windows that ceil_mode adds are those before them"),
    ("pool-channels-16", "Channels from the second block of 16 on are those of the first"),
    ("max-padding-zero", "MaxPool counts the padding as 0"),
    ("max-from-zero", "MaxPool begins with 0"),
    ("max-nan", "MaxPool leaves NaN out"),
    ("average-include-pad-ignored", "AveragePool never counts the padding"),
    ("average-include-pad-always", "AveragePool always counts the padding"),
    ("average-overhang", "AveragePool counts what a window of ceil_mode has beyond the padding"),
    ("global-average-square", "GlobalAveragePool divides by the square of the height"),
    ("global-average-one-axis", "GlobalAveragePool is over the first row"),
    ("global-max-from-zero", "GlobalMaxPool begins with 0"),
];

/// The backend.
pub(crate) const BACKEND: Mutant = Mutant {
    name: "mutant-windows",
    summary: "Convolutions and poolings, with a bug if one is asked for",
    patterns: &[
        "(Relu (Conv ?x ?w ?b?))",
        "(Conv ?x ?w ?b?)",
        "(ConvTranspose ?x ?w ?b?)",
        "(MaxPool ?x)",
        "(AveragePool ?x)",
        "(GlobalAveragePool ?x)",
        "(GlobalMaxPool ?x)",
    ],
    bugs: BUGS,
    operators: Vec::new,
    infer: no_types,
    check,
    wants: host,
    kernel,
};

fn check(region: &Region, node: &Node) -> Result<(), Refusal> {
    check::one_output(node)?;
    match node.op.as_str() {
        "Conv" | "MaxPool" | "AveragePool" => check::ranks(region, node, &[3, 4]),
        "ConvTranspose" => check::ranks(region, node, &[4]),
        "GlobalAveragePool" | "GlobalMaxPool" => check::ranks(region, node, &[3, 4, 5]),
        _ => Ok(()),
    }
}

fn kernel(call: &mut Call<'_>) -> Result<Vec<Tensor>, Error> {
    Ok(vec![match call.node.op.as_str() {
        "Conv" => convolution(call)?,
        "Relu" => relu(call)?,
        "ConvTranspose" => transposed::convolution(call)?,
        "MaxPool" | "AveragePool" => pools::pool(call)?,
        "GlobalAveragePool" | "GlobalMaxPool" => pools::global(call)?,
        _ => return Err(call.unknown()),
    }])
}

/// How windows lie on two spatial axes; one axis alone is the second one.
struct Windows {
    kernel: [usize; 2],
    strides: [usize; 2],
    dilations: [usize; 2],
    begin: [usize; 2],
    end: [usize; 2],
}

/// Two numbers of one or two.
fn two(list: &[usize], missing: usize) -> [usize; 2] {
    match *list {
        [height, width] => [height, width],
        [width] => [missing, width],
        _ => [missing; 2],
    }
}

impl Windows {
    fn of(window: &Window) -> Windows {
        Windows {
            kernel: two(&window.kernel, 1),
            strides: two(&window.strides, 1),
            dilations: two(&window.dilations, 1),
            begin: two(&window.begin, 0),
            end: two(&window.end, 0),
        }
    }

    /// How many windows fit along an axis.
    fn count(&self, axis: usize, size: usize) -> usize {
        let span = (self.kernel[axis] - 1) * self.dilations[axis] + 1;
        (size + self.begin[axis] + self.end[axis]).checked_sub(span).map_or(0, |room| room / self.strides[axis] + 1)
    }

    /// Where an element of a window is in the input; `None` in the padding.
    fn place(&self, axis: usize, window: usize, element: usize, size: usize) -> Option<usize> {
        let at = window * self.strides[axis] + element * self.dilations[axis];
        at.checked_sub(self.begin[axis]).filter(|&at| at < size)
    }
}

/// The windows of a convolution, with what is planted in them.
fn planted(call: &Call<'_>, right: Windows, axes: usize) -> Windows {
    let mut windows = right;
    if call.has("conv-pads-swapped") {
        windows.begin = windows.end;
    }
    if call.has("conv-pads-top-for-left") && axes == 2 {
        windows.begin[1] = windows.begin[0];
    }
    if call.has("conv-pads-1d") && axes == 1 {
        windows.begin[1] = 0;
    }
    if call.has("conv-strides-swapped") && axes == 2 {
        windows.strides.swap(0, 1);
    }
    if call.has("conv-stride-of-1x1") && windows.kernel == [1, 1] {
        windows.strides = [1, 1];
    }
    if call.has("conv-dilation-ignored") {
        windows.dilations = [1, 1];
    }
    if call.has("conv-dilation-width") && axes == 2 {
        windows.dilations[1] = windows.dilations[0];
    }
    windows
}

fn convolution(call: &mut Call<'_>) -> Result<Tensor, Error> {
    let (x, w, bias) = (call.x(0)?, call.x(1)?, call.maybe(2)?);
    if x.shape.len() < 3 || x.shape.len() != w.shape.len() {
        return Err(Error::new(format!("Conv of {:?} with weights {:?}", x.shape, w.shape)));
    }
    let (spatial, axes) = (&x.shape[2..], x.shape.len() - 2);
    let right = Windows::of(&Window::over(call.node, spatial, Some(&w.shape[2..])).map_err(refused)?);
    let size = two(spatial, 1);
    let counts = [right.count(0, size[0]), right.count(1, size[1])];
    let outer = [x.shape[0], w.shape[0]];
    let shape = [&outer[..], &counts[2 - axes..]].concat();
    let sums = Sums { call, x, w, windows: planted(call, right, axes), size, channels: outer[1] };
    let remembered = call.state.batch.unwrap_or(outer[0]);
    let result = Tensor::of(&shape, |index| {
        let (mut n, m, mut oy, mut ox) = (index[0], index[1], if axes == 2 { index[2] } else { 0 }, index[axes + 1]);
        if call.has("conv-batch-remembered") && n >= remembered
            || call.has("conv-last-row") && counts[0] >= 5 && oy + 1 == counts[0]
            || call.has("conv-outputs-tail-16") && outer[1] > 16 && m >= outer[1] / 16 * 16
        {
            return 0.0;
        }
        if call.has("conv-batch-first") {
            n = 0;
        }
        if call.has("conv-odd-width") && counts[1] % 2 == 1 && ox > 0 && ox + 1 == counts[1] {
            ox -= 1;
        }
        if axes == 1 {
            oy = 0;
        }
        let sum = sums.at(n, m, [oy, ox]);
        let bias = bias.map_or(0.0, |bias| bias_of(call, bias, outer[1], m, oy));
        if call.has("relu-before-bias") && call.wanted.is_none() {
            return sum.max(0.0) + bias;
        }
        sum + bias
    });
    call.state.batch.get_or_insert(outer[0]);
    stateful(call, result)
}

/// The bias of an output channel.
fn bias_of(call: &Call<'_>, bias: View<'_>, channels: usize, m: usize, row: usize) -> f32 {
    if call.has("conv-bias-ignored") || call.has("conv-outputs-tail-8") && channels > 8 && m >= channels / 8 * 8 {
        return 0.0;
    }
    if call.has("conv-bias-by-row") {
        return bias.nth(row % channels.max(1));
    }
    if call.has("conv-bias-without-group") {
        let group = usize::try_from(call.node.int("group", 1)).unwrap_or(1).max(1);
        return bias.nth(m % (channels / group).max(1));
    }
    if call.has("conv-stale-bias")
        && let Some(&kept) = call.state.kept.get(m)
    {
        return kept;
    }
    bias.nth(m)
}

/// The bugs that show from the second run on.
fn stateful(call: &mut Call<'_>, result: Tensor) -> Result<Tensor, Error> {
    if call.has("conv-stale-bias") && call.state.kept.is_empty() {
        call.state.kept = call.maybe(2)?.map(|bias| bias.data.to_vec()).unwrap_or_default();
    }
    if call.has("conv-accumulates") {
        let view = result.view()?;
        let added = view.data.iter().enumerate();
        let added: Vec<f32> = added.map(|(at, y)| y + call.state.kept.get(at).unwrap_or(&0.0)).collect();
        call.state.kept.clone_from(&added);
        return Ok(Tensor::from_floats(view.shape, added));
    }
    Ok(result)
}

/// The sums of products of a convolution.
struct Sums<'a> {
    call: &'a Call<'a>,
    x: View<'a>,
    w: View<'a>,
    windows: Windows,
    /// Height and width of the input.
    size: [usize; 2],
    /// Output channels.
    channels: usize,
}

impl Sums<'_> {
    fn at(&self, n: usize, m: usize, window: [usize; 2]) -> f32 {
        let Sums { call, windows, .. } = self;
        let group = usize::try_from(call.node.int("group", 1)).unwrap_or(1).max(1);
        let (depth, kernel) = (self.w.shape[1], windows.kernel);
        let each = (self.channels / group).max(1);
        let mut own = m / each;
        if call.has("conv-depthwise-multiplier") && depth == 1 {
            own = m % group;
        }
        if call.has("conv-group-first") {
            own = 0;
        }
        let weights = if call.has("conv-group-weights") { m % each } else { m };
        let mut sum = 0.0;
        for c in 0..depth {
            if call.has("conv-inputs-16") && c >= 16 {
                continue;
            }
            for ky in 0..kernel[0] {
                for kx in 0..kernel[1] {
                    let Some(x) = self.input(n, own * depth + c, window, [ky, kx]) else { continue };
                    let mut at = ky * kernel[1] + kx;
                    if call.has("conv-kernel-turned") {
                        at = kernel[0] * kernel[1] - 1 - at;
                    }
                    if call.has("conv-kernel-transposed") {
                        at = kx * kernel[0] + ky;
                    }
                    sum += x * self.w.nth((weights * depth + c) * kernel[0] * kernel[1] + at);
                }
            }
        }
        sum
    }

    /// The element of the input under an element of a window; `None` in the padding.
    fn input(&self, n: usize, c: usize, window: [usize; 2], element: [usize; 2]) -> Option<f32> {
        let Sums { windows, size, .. } = self;
        let mut at = [0; 2];
        for axis in 0..2 {
            let place = windows.place(axis, window[axis], element[axis], size[axis]);
            at[axis] = match place {
                None if self.call.has("conv-pads-edge") => {
                    let before = window[axis] * windows.strides[axis] + element[axis] * windows.dilations[axis];
                    if before < windows.begin[axis] { 0 } else { size[axis] - 1 }
                }
                place => place?,
            };
        }
        Some(self.x.nth(((n * self.x.shape[1] + c) * size[0] + at[0]) * size[1] + at[1]))
    }
}

fn relu(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let mut place = 0;
    Ok(Tensor::of(x.shape, |_| {
        let value = x.nth(place);
        place += 1;
        if call.has("relu-dropped") || call.has("relu-tail") && place > x.data.len() / 8 * 8 {
            return value;
        }
        if call.has("relu-nan") {
            return value.max(0.0);
        }
        if value < 0.0 { 0.0 } else { value }
    }))
}
