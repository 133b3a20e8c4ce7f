//! Builds regions as core would hand them over.

use byoc_plugin_api::{Attribute, Constant, ConstantId, DType, Dim, INLINE_BYTES, Node, Region, SCHEMA, Value, to_hex};

/// A region under construction, with the elements of its constants.
pub(super) struct Build {
    pub(super) region: Region,
    dtype: DType,
    pub(super) constants: Vec<(ConstantId, Vec<i64>, Vec<f32>)>,
    random: u32,
}

/// A list of integers.
pub(super) fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

impl Build {
    pub(super) fn new(dtype: DType) -> Build {
        let region = Region { schema: SCHEMA.into(), symbol: "byoc_test_cutlass_0".into(), ..Region::default() };
        Build { region, dtype, constants: Vec::new(), random: 1 }
    }

    pub(super) fn input(&mut self, shape: &[Dim]) -> usize {
        let value = self.value("x", shape.to_vec());
        self.region.inputs.push(value);
        value
    }

    pub(super) fn value(&mut self, name: &str, shape: Vec<Dim>) -> usize {
        let name = format!("{name}{}", self.region.values.len());
        self.region.values.push(Value { name, dtype: self.dtype, shape });
        self.region.values.len() - 1
    }

    /// Numbers from -1 to 1.
    pub(super) fn random(&mut self, count: usize) -> Vec<f32> {
        let mut next = || {
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (self.random >> 8) as f32 / (1 << 23) as f32 - 1.0
        };
        (0..count).map(|_| next()).collect()
    }

    /// A constant, of `f32` whatever the images are.
    pub(super) fn constant(&mut self, shape: &[usize], data: Vec<f32>) -> usize {
        let value = self.value("c", shape.iter().map(|&size| size.into()).collect());
        self.region.values[value].dtype = DType::F32;
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        let inline = (bytes.len() <= INLINE_BYTES).then(|| to_hex(&bytes));
        let id = ConstantId(self.region.constants.len() as u64);
        self.region.constants.push(Constant { id, value, inline, shared: false });
        self.constants.push((id, shape.iter().map(|&size| size as i64).collect(), data));
        value
    }

    pub(super) fn weights(&mut self, shape: &[usize]) -> usize {
        let data = self.random(shape.iter().product());
        self.constant(shape, data)
    }

    pub(super) fn node(
        &mut self,
        op: &str,
        inputs: &[usize],
        attributes: &[(&str, Attribute)],
        shape: Vec<Dim>,
    ) -> usize {
        let output = self.value("v", shape);
        self.region.nodes.push(Node {
            name: format!("{op}_{}", self.region.nodes.len()),
            op: op.into(),
            domain: String::new(),
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: vec![Some(output)],
            attributes: attributes.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        });
        output
    }

    /// A node whose result has the shape of its first operand.
    pub(super) fn same(&mut self, op: &str, inputs: &[usize]) -> usize {
        let shape = self.region.values[inputs[0]].shape.clone();
        self.node(op, inputs, &[], shape)
    }

    /// The shape of images of so many channels, with a window's stride.
    pub(super) fn after(&self, x: usize, channels: usize, stride: usize) -> Vec<Dim> {
        let shape = &self.region.values[x].shape;
        let along = |axis: usize| shape[axis].fixed().expect("images have fixed sizes").div_ceil(stride).into();
        vec![shape[0].clone(), channels.into(), along(2), along(3)]
    }

    /// A convolution with as many rows and columns as strides leave.
    pub(super) fn conv(&mut self, x: usize, channels: usize, kernel: usize, stride: usize) -> usize {
        let from = self.region.values[x].shape[1].fixed().expect("images have fixed sizes");
        let weights = self.weights(&[channels, from, kernel, kernel]);
        let bias = self.weights(&[channels]);
        let (pad, step) = ((kernel / 2) as i64, stride as i64);
        let attributes = [("pads", ints(&[pad; 4])), ("strides", ints(&[step; 2]))];
        let shape = self.after(x, channels, stride);
        self.node("Conv", &[x, weights, bias], &attributes, shape)
    }

    /// A convolution of each channel on its own.
    pub(super) fn depthwise(&mut self, x: usize, kernel: usize, stride: usize) -> usize {
        let channels = self.region.values[x].shape[1].fixed().expect("images have fixed sizes");
        let weights = self.weights(&[channels, 1, kernel, kernel]);
        let (pad, step, group) = ((kernel / 2) as i64, stride as i64, Attribute::Int(channels as i64));
        let attributes = [("pads", ints(&[pad; 4])), ("strides", ints(&[step; 2])), ("group", group)];
        let shape = self.after(x, channels, stride);
        self.node("Conv", &[x, weights], &attributes, shape)
    }

    /// Batch normalisation.
    pub(super) fn norm(&mut self, x: usize) -> usize {
        let channels = self.region.values[x].shape[1].fixed().expect("images have fixed sizes");
        let [scale, shift, mean] = [(); 3].map(|()| self.weights(&[channels]));
        let variance: Vec<_> = self.random(channels).into_iter().map(|x| x.abs() + 0.5).collect();
        let variance = self.constant(&[channels], variance);
        self.same("BatchNormalization", &[x, scale, shift, mean, variance])
    }

    pub(super) fn pool(&mut self, op: &str, x: usize, kernel: usize, stride: usize) -> usize {
        let channels = self.region.values[x].shape[1].fixed().expect("images have fixed sizes");
        let (pad, size, step) = ((kernel / 2) as i64, kernel as i64, stride as i64);
        let attributes = [("kernel_shape", ints(&[size; 2])), ("pads", ints(&[pad; 4])), ("strides", ints(&[step; 2]))];
        let shape = self.after(x, channels, stride);
        self.node(op, &[x], &attributes, shape)
    }

    /// The mean of all pixels.
    pub(super) fn global(&mut self, x: usize) -> usize {
        let shape = [&self.region.values[x].shape[..2], &[1.into(), 1.into()]].concat();
        self.node("GlobalAveragePool", &[x], &[], shape)
    }

    /// The region with these results.
    pub(super) fn with(mut self, outputs: &[usize]) -> Build {
        self.region.outputs = outputs.to_vec();
        self.region.validate().expect("the region is well formed");
        self
    }
}

/// The beginning of a residual network: a stem, a block that changes the number of channels, one that does not, and the mean.
pub(super) fn residual(dtype: DType, batch: Dim, size: usize) -> Build {
    let mut build = Build::new(dtype);
    let x = build.input(&[batch, 3.into(), size.into(), size.into()]);
    let stem = build.conv(x, 16, 7, 2);
    let stem = build.norm(stem);
    let stem = build.same("Relu", &[stem]);
    let mut x = build.pool("MaxPool", stem, 3, 2);
    for block in 0..2 {
        let a = build.conv(x, 8, 1, 1);
        let a = build.same("Relu", &[a]);
        let b = build.conv(a, 8, 3, 1);
        let b = build.same("Relu", &[b]);
        let c = build.conv(b, 32, 1, 1);
        let c = build.norm(c);
        let beside = if block == 0 { build.conv(x, 32, 1, 1) } else { x };
        let sum = build.same("Add", &[c, beside]);
        x = build.same("Relu", &[sum]);
    }
    let mean = build.global(x);
    build.with(&[mean])
}

/// What mobile networks are made of: depthwise convolutions, gates by the mean of a channel, and joined channels; and a
/// result that is an image.
pub(super) fn mobile(dtype: DType, batch: Dim, size: usize) -> Build {
    let mut build = Build::new(dtype);
    let x = build.input(&[batch.clone(), 24.into(), size.into(), size.into()]);
    let wide = build.conv(x, 40, 1, 1);
    let sigmoid = build.same("Sigmoid", &[wide]);
    let wide = build.same("Mul", &[wide, sigmoid]);
    let deep = build.depthwise(wide, 3, 2);
    let deep = build.norm(deep);
    let deep = build.same("HardSwish", &[deep]);
    let mean = build.global(deep);
    let gate = build.conv(mean, 12, 1, 1);
    let gate = build.same("Relu", &[gate]);
    let gate = build.conv(gate, 40, 1, 1);
    let gate = build.same("HardSigmoid", &[gate]);
    let gated = build.same("Mul", &[deep, gate]);
    let pooled = build.pool("AveragePool", gated, 3, 1);
    let tanh = build.same("Tanh", &[gated]);
    let joined = build.after(gated, 90, 1);
    let last = build.conv(tanh, 10, 3, 1);
    let y = build.node("Concat", &[pooled, gated, last], &[("axis", Attribute::Int(1))], joined);
    build.with(&[y, mean])
}
