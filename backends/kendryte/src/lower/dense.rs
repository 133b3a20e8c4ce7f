//! Fully connected layers: on the accelerator as a convolution of 1x1 over maps of 4x4 that hold one value each, or in
//! `f32` on the CPU.

use byoc_plugin_api::{DType, Node, Refusal, RefusalCode};

use super::{Lowering, read};
use crate::given::{check_weights, stored};
use crate::kmodel::arguments::{Kernel, MOST_CHANNELS, Pooling};
use crate::kmodel::bodies::Shape;
use crate::net::{Conv, DenseActivation, Form, Function, Work};
use crate::quantize::Activation;

/// Rows and columns of the maps that hold one value (kmodel v3, K210_ADD_PADDING).
const PADDED: u32 = 4;

impl Lowering<'_> {
    pub(super) fn dense(&mut self, index: usize) -> Result<(), Refusal> {
        let region = self.region;
        let node = &region.nodes[index];
        let (inputs, outputs) = self.dense_sizes(node)?;
        let (input, mut last) = (read::input(node, 0)?, read::output(node)?);
        let after = self.bias_node(node, last, outputs);
        if let Some(next) = after {
            self.done[next] = true;
            last = read::output(&region.nodes[next])?;
        }
        let on_accelerator = !self.settings.float_dense && inputs.max(outputs) <= MOST_CHANNELS;
        let next = self.only_reader(last);
        let activation = match next.map(|next| self.function_of(&region.nodes[next])) {
            Some(Ok(Function::Monotone(activation))) => activation,
            _ => Activation::Linear,
        };
        let simple = dense_activation(activation);
        let fused =
            if on_accelerator || simple.is_some() { next.filter(|_| activation != Activation::Linear) } else { None };
        if let Some(next) = fused {
            self.done[next] = true;
            last = read::output(&region.nodes[next])?;
        }
        let vector = |channels| Shape { width: 1, height: 1, channels };
        if !on_accelerator {
            let activation = simple.unwrap_or(DenseActivation::Linear);
            let floats = self.floats(input)?;
            self.give_floats(Work::Dense { node: index, bias: after, activation }, floats, vector(outputs), last);
            return Ok(());
        }
        let padded = |channels| Shape { width: PADDED, height: PADDED, channels };
        let (source, bytes) = (self.alias[input], self.bytes(input)?);
        let maps = self.net.step(Work::AddPadding, vec![bytes], read::tensor(Form::Kpu, padded(inputs), source));
        let conv = Conv {
            node: index,
            after,
            kernel: Kernel::One,
            depthwise: false,
            activation,
            pooling: Pooling::None,
            front: None,
        };
        let (_, step) = self.add_conv(conv, maps, padded(outputs), last)?;
        let copy = self.net.tensor(Form::Bytes, padded(outputs), last);
        self.net.steps[step].outputs.push(copy);
        self.give_bytes(Work::RemovePadding, vec![copy], vector(outputs), last);
        Ok(())
    }

    /// Elements of the input and of the output.
    fn dense_sizes(&self, node: &Node) -> Result<(u32, u32), Refusal> {
        let (input, weights) = (read::input(node, 0)?, read::input(node, 1)?);
        let needed = |what: &str| Refusal::new(RefusalCode::ConstantNeeded, format!("{what} must be constant"));
        let is_constant = |value| stored(self.region, value).is_some();
        if !is_constant(weights) {
            return Err(needed("the weights"));
        }
        if node.input(2).is_some_and(|bias| !is_constant(bias)) {
            return Err(needed("the bias"));
        }
        if self.region.values[weights].dtype != DType::F32 {
            return Err(Refusal::new(RefusalCode::Type, "only weights of f32 have code"));
        }
        if node.int("transA", 0) != 0 {
            return Err(read::attribute("transA 1 has no code"));
        }
        let sizes = self.fixed(input)?;
        let [1, inputs] = *sizes.as_slice() else {
            return Err(read::shape(format!("a product with {sizes:?}, only one row is taken")));
        };
        let [rows, columns] = *self.fixed(weights)?.as_slice() else {
            return Err(read::shape("the weights must be a matrix"));
        };
        let (outputs, axis) = if node.int("transB", 0) == 0 { (columns, 1) } else { (rows, 0) };
        check_weights(self.region, weights, axis)?;
        self.check_bias(node.input(2))?;
        let small = |size| u32::try_from(size).map_err(|_| read::shape(format!("a vector of {size}")));
        Ok((small(inputs)?, small(outputs)?))
    }

    /// The addition of a constant vector that is the only reader of a product without a bias.
    fn bias_node(&self, product: &Node, value: usize, outputs: u32) -> Option<usize> {
        let next = self.only_reader(value).filter(|_| product.op == "MatMul")?;
        let node = &self.region.nodes[next];
        let bias = node.inputs.iter().flatten().find(|&&input| input != value)?;
        let sizes = stored(self.region, *bias).and_then(|_| self.region.values[*bias].fixed_shape())?;
        let count = outputs as usize;
        let fits = sizes.iter().product::<usize>() == count && sizes.last() == Some(&count);
        (node.op == "Add" && fits).then_some(next)
    }
}

fn dense_activation(activation: Activation) -> Option<DenseActivation> {
    match activation {
        Activation::Linear => Some(DenseActivation::Linear),
        Activation::Relu => Some(DenseActivation::Relu),
        Activation::Clip { min: 0.0, max: 6.0 } => Some(DenseActivation::Relu6),
        _ => None,
    }
}
