//! Makes the program of a region from its steps: sources, launches, and packed constants.

use std::collections::{BTreeSet, HashMap};

use byoc_dim::{self as dim, DimError};
use byoc_nvidia::build::Source;
use byoc_nvidia::compile::{CubinInfo, Needs};
use byoc_nvidia::program::{Argument, BufferRef, Constant, Launch, Limit, Made, Program, Tensor, Variant};
use byoc_plugin_api::{Dim, Error, Region};

use super::fprop::{self, Fprop};
use super::images::{self, Call};
use super::net::{Conv, Net, Op};
use super::pack;

/// A region's program before compilation. Launches of convolutions lack the launch info of their cubins.
pub(crate) struct Draft {
    /// The program but for its variants.
    pub(crate) program: Program,
    pub(crate) sources: Vec<Source>,
    pub(crate) scratch: Vec<Dim>,
    /// `cubin` of each is the index of a source.
    pub(crate) launches: Vec<Launch>,
}

struct Drafting<'a> {
    net: &'a Net,
    region: &'a Region,
    draft: Draft,
    /// The NHWC buffers of images.
    places: HashMap<usize, BufferRef>,
    /// Kernels over images: name and text.
    images: Vec<(String, String)>,
    convolutions: Vec<Fprop>,
}

/// The source of convolutions, and the source of all other kernels. An empty one is left out.
const CONVOLUTIONS: usize = 0;
const IMAGES: usize = 1;

/// Drafts the code of a region.
///
/// # Errors
///
/// When a size is too large to compute with.
pub(crate) fn draft(net: &Net, region: &Region) -> Result<Draft, Error> {
    let tensor = |&value: &usize| Tensor { dtype: net.dtype, shape: region.values[value].shape.clone() };
    let program = Program {
        title: "convolutions".into(),
        inputs: region.inputs.iter().map(tensor).collect(),
        outputs: region.outputs.iter().map(tensor).collect(),
        constants: constants(net),
        limits: limits(net).map_err(|error| Error::new(error.to_string()))?,
        ..Program::default()
    };
    let draft = Draft { program, sources: Vec::new(), scratch: Vec::new(), launches: Vec::new() };
    let (places, images, convolutions) = (HashMap::new(), Vec::new(), Vec::new());
    let mut drafting = Drafting { net, region, draft, places, images, convolutions };
    drafting.all().map_err(|error| Error::new(error.to_string()))?;
    Ok(drafting.draft)
}

/// The limits of unknown batch sizes, each once.
fn limits(net: &Net) -> Result<Vec<Limit>, DimError> {
    let mut limits = Vec::new();
    for (&value, image) in net.images.iter().filter(|(_, image)| image.batch.fixed().is_none()) {
        let of = format!("a batch of images of {} channels", image.channels);
        let limit = Limit { of, elements: image.elements()?, most: net.most_elements(value) as u64 };
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    Ok(limits)
}

/// The packed weights, each once.
fn constants(net: &Net) -> Vec<Constant> {
    let mut constants: Vec<Constant> = Vec::new();
    for conv in net.convolutions() {
        let (id, layout) = (conv.weights.filters, Some(pack::layout(&conv.weights).to_owned()));
        if constants.iter().all(|constant| constant.id != id) {
            let shape = vec![pack::elements(&conv.weights, conv.window.kernel, net.dtype)];
            constants.push(Constant { id, layout, dtype: net.dtype, shape, strides: vec![1] });
        }
    }
    constants
}

impl Drafting<'_> {
    fn all(&mut self) -> Result<(), DimError> {
        for (position, value) in self.region.inputs.iter().enumerate() {
            let Some(image) = self.net.images.get(value) else { continue };
            let input = BufferRef::Input(position);
            if image.is_plain() {
                self.places.insert(*value, input);
            } else {
                let call = images::to_nhwc(image, self.net.dtype)?;
                let to = self.new_place(*value)?;
                self.launch(call, &[input, to]);
            }
        }
        for step in &self.net.steps {
            let to = self.new_place(step.to)?;
            let first = self.draft.launches.len();
            self.step(&step.op, step.to, to)?;
            let nodes = self.nodes(&step.op, step.to);
            self.draft.launches[first..].iter_mut().for_each(|launch| launch.nodes.clone_from(&nodes));
        }
        for (position, value) in self.region.outputs.iter().enumerate() {
            let image = &self.net.images[value];
            if !image.is_plain() {
                let call = images::to_nchw(image, self.net.dtype)?;
                self.launch(call, &[self.places[value], BufferRef::Output(position)]);
            }
        }
        self.sources();
        Ok(())
    }

    /// The nodes between what a step reads and the value that it gives, in the region's order.
    fn nodes(&self, op: &Op, value: usize) -> Vec<usize> {
        let reads = op.reads();
        let mut nodes = BTreeSet::new();
        let mut values = vec![value];
        while let Some(value) = values.pop() {
            let made = self.region.nodes.iter().position(|node| node.outputs.contains(&Some(value)));
            if let Some(made) = made.filter(|made| nodes.insert(*made)) {
                let inputs = self.region.nodes[made].inputs.iter().flatten();
                values.extend(inputs.filter(|input| !reads.contains(input)));
            }
        }
        nodes.into_iter().collect()
    }

    fn sources(&mut self) {
        if self.convolutions.is_empty() {
            self.draft.launches.iter_mut().for_each(|launch| launch.cubin = CONVOLUTIONS);
        } else {
            self.draft.sources.push(fprop::source(&self.convolutions));
        }
        if !self.images.is_empty() {
            let text = images::source(self.images.iter().map(|(_, text)| text.as_str()));
            self.draft.sources.push(Source { name: "images".into(), text, needs: Needs::default(), memory: 0 });
        }
    }

    /// A buffer for a computed image.
    fn new_place(&mut self, value: usize) -> Result<BufferRef, DimError> {
        let image = &self.net.images[&value];
        let output = self.region.outputs.iter().position(|&output| output == value);
        let place = match output {
            Some(position) if image.is_plain() => BufferRef::Output(position),
            _ => {
                let bytes = image.pixels() * image.pitch * self.net.dtype.unpacked_bytes();
                self.draft.scratch.push(dim::mul(&image.batch, &bytes.into())?);
                BufferRef::Scratch(self.draft.scratch.len() - 1)
            }
        };
        self.places.insert(value, place);
        Ok(place)
    }

    fn step(&mut self, op: &Op, value: usize, to: BufferRef) -> Result<(), DimError> {
        let (net, dtype) = (self.net, self.net.dtype);
        let (images, y) = (&net.images, &net.images[&value]);
        let from: Vec<BufferRef> = op.reads().iter().map(|read| self.places[read]).collect();
        let call = match op {
            Op::Conv(conv) if conv.weights.depthwise => {
                let call = images::depthwise(conv, &images[&conv.from], y, dtype)?;
                self.launch(call, &[from[0], self.weights(conv), to]);
                return Ok(());
            }
            Op::Conv(conv) => return self.conv(conv, value, to),
            Op::Concat { from: values } => return self.concat(values, value, to),
            Op::MaxPool { from, window } => images::max_pool(window, &images[from], y, dtype)?,
            Op::AveragePool { from, window, padded } => {
                images::average_pool(window, *padded, (&images[from], y), dtype)?
            }
            Op::GlobalAverage { from } => images::global_average(&images[from], dtype)?,
            Op::Map { act, .. } => images::map(*act, y, dtype)?,
            Op::Pair { from: [a, b], pair } => images::pair(*pair, &images[a], &images[b], dtype)?,
        };
        self.launch(call, &[from, vec![to]].concat());
        Ok(())
    }

    /// The buffer of a convolution's weights.
    fn weights(&self, conv: &Conv) -> BufferRef {
        let constants = &self.draft.program.constants;
        BufferRef::Constant(
            constants.iter().position(|constant| constant.id == conv.weights.filters).unwrap_or_default(),
        )
    }

    fn launch(&mut self, call: Call, places: &[BufferRef]) {
        if self.images.iter().all(|(name, _)| *name != call.kernel) {
            self.images.push((call.kernel.clone(), call.text));
        }
        let arguments = places.iter().map(|&place| Argument::Pointer(place)).chain(call.count.map(Argument::Size));
        let Call { kernel, grid, block, .. } = call;
        self.draft.launches.push(Launch {
            cubin: IMAGES,
            kernel,
            grid,
            block,
            persistent: false,
            waits: false,
            shared: 0,
            arguments: arguments.collect(),
            nodes: Vec::new(),
            only: None,
        });
    }

    fn concat(&mut self, values: &[usize], value: usize, to: BufferRef) -> Result<(), DimError> {
        let y = &self.net.images[&value];
        let mut first = 0;
        for part in values {
            let x = &self.net.images[part];
            let call = images::place(x, y, first, self.net.dtype)?;
            self.launch(call, &[self.places[part], to]);
            first += x.channels;
        }
        Ok(())
    }

    fn conv(&mut self, conv: &Conv, value: usize, to: BufferRef) -> Result<(), DimError> {
        let (x, y) = (&self.net.images[&conv.from], &self.net.images[&value]);
        let fprop = Fprop::of(conv, self.net.dtype, x, y);
        if !self.convolutions.contains(&fprop) {
            self.convolutions.push(fprop.clone());
        }
        let residual = conv.residual.map_or(to, |residual| self.places[&residual]);
        let places = [self.places[&conv.from], self.weights(conv), residual, to].map(Argument::Pointer);
        let (window, [k, c]) = (&conv.window, [y.pitch, x.pitch]);
        let sizes = [[x.height, x.width], [c, k], window.kernel, [y.height, y.width], window.pads, window.strides];
        let sizes = sizes.as_flattened().iter().chain(&window.dilations).map(|&size| Dim::Fixed(size));
        let sizes = std::iter::once(x.batch.clone()).chain(sizes).map(Argument::Size);
        let arguments = places.into_iter().chain(sizes).collect();
        let [rows, columns] = fprop.tile.block;
        let grid = [
            dim::ceil_div(&dim::mul(&y.batch, &y.pixels().into())?, &rows.into())?,
            k.div_ceil(columns).into(),
            1.into(),
        ];
        let kernel = fprop.name();
        let made = Argument::Made(Made { kernel: fprop::init(&kernel), arguments, bytes: 0 });
        let (cubin, block, arguments) = (CONVOLUTIONS, [0, 1, 1], vec![made]);
        self.draft.launches.push(Launch {
            cubin,
            kernel,
            grid,
            block,
            persistent: false,
            waits: false,
            shared: 0,
            arguments,
            nodes: Vec::new(),
            only: None,
        });
        Ok(())
    }
}

impl Draft {
    /// The launches for one architecture, whose cubins begin at index `first`.
    ///
    /// # Errors
    ///
    /// When a cubin lacks its launch info.
    pub(crate) fn variant(&self, arch: String, first: usize, cubins: &[Vec<u8>]) -> Result<Variant, Error> {
        let info: Vec<_> = cubins.iter().map(|cubin| CubinInfo::of(cubin)).collect::<Result<_, Error>>()?;
        let mut launches = self.launches.clone();
        for launch in &mut launches {
            if let [Argument::Made(made)] = launch.arguments.as_mut_slice() {
                let words = info[launch.cubin].words(&fprop::launch_info(&launch.kernel)).unwrap_or_default();
                let &[threads, shared, bytes] = words.as_slice() else {
                    return Err(Error::new(format!("the cubin of '{}' has no launch info", launch.kernel)));
                };
                (launch.block[0], launch.shared, made.bytes) = (threads as u32, shared as u32, bytes as u32);
            }
            launch.cubin += first;
        }
        Ok(Variant { arch, scratch: self.scratch.clone(), launches })
    }
}
