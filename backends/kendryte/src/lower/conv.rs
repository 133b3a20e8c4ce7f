//! Convolutions with the batch normalisation, activation and pooling that follow them (kmodel v3, section 9).

use byoc_plugin_api::{Node, Refusal, RefusalCode};

use super::pick::Pixels;
use super::{Lowering, read};
use crate::given::{check_weights, integers, stored};
use crate::kmodel::arguments::{Kernel, MOST_CHANNELS, Pooling};
use crate::kmodel::bodies::Shape;
use crate::net::{Conv, Form, Function, Step, TensorId, Window, Work};
use crate::quantize::Activation;

/// Least rows and columns of a map (kmodel v3, section 3: limits).
pub(super) const LEAST: u32 = 4;
/// Most columns of a map.
const MOST_WIDTH: u32 = 512;
/// Most rows of a map.
const MOST_HEIGHT: u32 = 256;

impl Lowering<'_> {
    pub(super) fn conv(&mut self, index: usize) -> Result<(), Refusal> {
        let node = &self.region.nodes[index];
        let weights = read::input(node, 1)?;
        let (input, padding) = self.unpadded(read::input(node, 0)?);
        let (input, front) = self.unnormalised(input);
        let image = self.map(input)?;
        let (kernel, depthwise) = self.kernel(node, &image)?;
        let filters = self.fixed(weights)?;
        let window = padding.around(self.window(node, Some(&filters[2..]), &image)?);
        let pixels = Pixels::of(&window, kernel)?;
        let mut conv = Conv {
            node: index,
            after: None,
            kernel,
            depthwise,
            activation: Activation::Linear,
            pooling: Pooling::None,
            front,
        };
        let mut last = read::output(node)?;
        self.follow(&mut conv, &mut last)?;
        let doubled = Shape { width: 2 * image.width, height: 2 * image.height, ..image };
        if let Some((source, _)) = self.known[self.alias[input]].doubled
            && self.net.tensors[source].shape == doubled
            && (kernel, depthwise, pixels) == (Kernel::One, false, Pixels::All)
        {
            conv.pooling = Pooling::LeftTop2;
            return self.place(conv, source, last);
        }
        let source = self.kpu(input)?;
        match (pixels, depthwise) {
            (Pixels::At(first), _) => return self.place_picked(conv, source, &window, first, last),
            (Pixels::UpperLeft, true) => return self.place_doubled(conv, source, last),
            (Pixels::UpperLeft, false) => conv.pooling = Pooling::LeftTop2,
            (Pixels::All, true) => {}
            (Pixels::All, false) => self.fuse_pooling(&mut conv, &image, &mut last)?,
        }
        self.place(conv, source, last)
    }

    /// The kernel of a convolution, and whether each channel has one of its own.
    fn kernel(&self, node: &Node, image: &Shape) -> Result<(Kernel, bool), Refusal> {
        let weights = read::input(node, 1)?;
        if stored(self.region, weights).is_none() {
            return Err(Refusal::new(RefusalCode::ConstantNeeded, "the weights must be constant"));
        }
        check_weights(self.region, weights, 0)?;
        self.check_bias(node.input(2))?;
        let sizes = self.fixed(weights)?;
        let kernel = match *sizes.as_slice() {
            [_, _, 1, 1] => Kernel::One,
            [_, _, 3, 3] => Kernel::Three,
            [_, _, height, width] => {
                return Err(read::shape(format!("a kernel of {height}x{width}, only 1x1 and 3x3 have code")));
            }
            _ => return Err(read::shape(format!("weights of {sizes:?}, only images have code"))),
        };
        let (groups, outputs) = (node.int("group", 1), sizes[0] as i64);
        let channels = i64::from(image.channels);
        match groups {
            1 => Ok((kernel, false)),
            _ if groups == channels && outputs == channels => Ok((kernel, true)),
            _ => Err(read::attribute(format!(
                "group {groups} with {channels} channels in and {outputs} out, only 1 and depthwise have code"
            ))),
        }
    }

    /// Takes along the nodes behind a convolution that the accelerator computes with it: batch normalisation, then a
    /// rising function.
    pub(super) fn follow(&mut self, conv: &mut Conv, last: &mut usize) -> Result<(), Refusal> {
        let region = self.region;
        if let Some(next) = self.only_reader(*last)
            && region.nodes[next].op == "BatchNormalization"
        {
            if region.nodes[next].int("training_mode", 0) != 0 {
                return Err(read::attribute(format!("'{}' is in training mode", region.nodes[next].name)));
            }
            conv.after = Some(next);
            self.take(next, last)?;
        }
        if let Some(next) = self.only_reader(*last)
            && let Ok(Function::Monotone(activation)) = self.function_of(&region.nodes[next])
        {
            conv.activation = activation;
            self.take(next, last)?;
        }
        Ok(())
    }

    pub(super) fn take(&mut self, node: usize, last: &mut usize) -> Result<(), Refusal> {
        self.check_types(&self.region.nodes[node])?;
        self.done[node] = true;
        *last = read::output(&self.region.nodes[node])?;
        Ok(())
    }

    /// Takes along a pooling that the accelerator knows, where the result is not too small for it.
    fn fuse_pooling(&mut self, conv: &mut Conv, image: &Shape, last: &mut usize) -> Result<(), Refusal> {
        let region = self.region;
        let (Some(next), conversions) = self.reader_past_conversions(*last) else { return Ok(()) };
        let node = &region.nodes[next];
        let maximum = match node.op.as_str() {
            "MaxPool" => true,
            "AveragePool" => false,
            _ => return Ok(()),
        };
        let Ok(window) = self.pool_window(node) else { return Ok(()) };
        let Some(pooling) = pooling(&window, maximum) else { return Ok(()) };
        let output = self.map(read::output(node)?)?;
        let (width, height) = (image.width / pooling.stride(), image.height / pooling.stride());
        if (output.width, output.height) != (width, height) || width < LEAST || height < LEAST {
            return Ok(());
        }
        let wanted = read::output(node)?;
        // A maximum of levels is one of them, a mean is rounded.
        let same = |&conversion: &usize| {
            integers(&region.nodes[conversion]).is_some_and(|tensor| self.net.given[tensor] == self.net.given[wanted])
        };
        let commutes = conversions.is_empty() || (maximum && conversions.iter().all(same));
        if !commutes {
            return Ok(());
        }
        if !maximum {
            // Means need the bytes of what they are taken from; a maximum is there among them.
            self.net.same_scale.push((*last, wanted));
        }
        conversions.into_iter().for_each(|conversion| self.done[conversion] = true);
        conv.pooling = pooling;
        self.take(next, last)
    }

    /// Adds the step of a convolution whose result is `value`.
    fn place(&mut self, conv: Conv, source: TensorId, value: usize) -> Result<(), Refusal> {
        let shape = self.map(value)?;
        let (tensor, step) = self.add_conv(conv, source, shape, value)?;
        self.known[value].kpu = Some((tensor, Some(step)));
        Ok(())
    }

    /// The same for a depthwise one with a stride of 2, which the accelerator computes without the stride: a 1x1
    /// convolution behind it skips the pixels, or a layer of the CPU does.
    fn place_doubled(&mut self, conv: Conv, source: TensorId, value: usize) -> Result<(), Refusal> {
        let Shape { width, height, channels } = self.map(value)?;
        let full = Shape { width: 2 * width, height: 2 * height, channels };
        let made = self.add_conv(conv, source, full, value)?;
        self.known[value].doubled = Some(made);
        Ok(())
    }

    pub(super) fn add_conv(
        &mut self,
        conv: Conv,
        source: TensorId,
        shape: Shape,
        value: usize,
    ) -> Result<(TensorId, usize), Refusal> {
        let input = self.net.tensors[source].shape;
        check_map("input", &input)?;
        check_map("output", &shape)?;
        let tensor = self.net.tensor(Form::Kpu, shape, value);
        self.net.steps.push(Step { work: Work::Conv(conv), inputs: vec![source], outputs: vec![tensor] });
        Ok((tensor, self.net.steps.len() - 1))
    }
}

/// The pooling of the accelerator that a window is (kmodel v3, section 4).
fn pooling(window: &Window, maximum: bool) -> Option<Pooling> {
    let Window { kernel, stride, begin, end, .. } = *window;
    match (kernel, stride, begin, end, maximum) {
        ([2, 2], [2, 2], [0, 0], [0, 0], true) => Some(Pooling::Max2),
        ([2, 2], [2, 2], [0, 0], [0, 0], false) => Some(Pooling::Mean2),
        ([4, 4], [4, 4], [0, 0], [0, 0], true) => Some(Pooling::Max4),
        ([4, 4], [4, 4], [0, 0], [0, 0], false) => Some(Pooling::Mean4),
        ([2, 2], [1, 1], [0, 0], [1, 1], true) => Some(Pooling::Max2Stride1),
        _ => None,
    }
}

fn check_map(what: &str, shape: &Shape) -> Result<(), Refusal> {
    let limit = |name: &str, value: u32, limit: u32| {
        Refusal::limit(format!("{name} of the convolution's {what}"), f64::from(value), f64::from(limit))
    };
    let Shape { width, height, channels } = *shape;
    match () {
        () if channels > MOST_CHANNELS => Err(limit("channels", channels, MOST_CHANNELS)),
        () if width < LEAST => Err(limit("columns", width, LEAST)),
        () if height < LEAST => Err(limit("rows", height, LEAST)),
        () if width > MOST_WIDTH => Err(limit("columns", width, MOST_WIDTH)),
        () if height > MOST_HEIGHT => Err(limit("rows", height, MOST_HEIGHT)),
        () => Ok(()),
    }
}
