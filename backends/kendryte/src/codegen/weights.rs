//! The constants of a region as `f32`, in the order in which layers want them.

use byoc_plugin_api::{Error, Node};

use super::Network;
use crate::kmodel::bodies::FullyConnected;
use crate::kmodel::bodies::FullyConnectedSizes;
use crate::net::{Conv, DenseActivation};

/// The affine part of a layer: `scale * (weights . x) + bias` for each output.
pub(super) struct Affine {
    /// One row an output: `[oc][ic][kh][kw]`, `[c][kh][kw]` when depthwise, `[out][in]`.
    pub(super) weights: Vec<f32>,
    pub(super) scale: Option<Vec<f32>>,
    pub(super) bias: Vec<f32>,
}

impl Network<'_> {
    /// The elements of a constant.
    fn floats(&self, value: usize) -> Result<Vec<f32>, Error> {
        let missing = || Error::new(format!("the bytes of '{}' are not there", self.region.values[value].name));
        let constant = self.region.constant(value).ok_or_else(missing)?;
        self.constants.get(constant.id).ok_or_else(missing)?.to_vec::<f32>()
    }

    fn input(&self, node: &Node, index: usize) -> Result<Option<Vec<f32>>, Error> {
        node.input(index).map(|value| self.floats(value)).transpose()
    }

    /// The affine part of a convolution, or of a matrix product that is one.
    pub(super) fn affine(&self, conv: &Conv) -> Result<Affine, Error> {
        let node = &self.region.nodes[conv.node];
        if node.op != "Conv" {
            return self.dense_affine(conv.node, conv.after);
        }
        let weights = self.input(node, 1)?.unwrap_or_default();
        let outputs = self.outputs(node);
        let bias = self.input(node, 2)?.unwrap_or_else(|| vec![0.0; outputs]);
        let Some(after) = conv.after else { return Ok(Affine { weights, scale: None, bias }) };
        let norm = &self.region.nodes[after];
        let parameter = |index| Ok::<_, Error>(self.input(norm, index)?.unwrap_or_default());
        let (gamma, beta, mean, variance) = (parameter(1)?, parameter(2)?, parameter(3)?, parameter(4)?);
        let epsilon = norm.float("epsilon", 1e-5);
        let scale: Vec<_> =
            gamma.iter().zip(&variance).map(|(gamma, variance)| gamma / (variance + epsilon).sqrt()).collect();
        let shifted = scale.iter().zip(&bias).zip(mean.iter().zip(&beta));
        let bias = shifted.map(|((scale, bias), (mean, beta))| (bias - mean) * scale + beta).collect();
        Ok(Affine { weights, scale: Some(scale), bias })
    }

    fn outputs(&self, node: &Node) -> usize {
        let weights = node.input(1).and_then(|weights| self.region.values[weights].fixed_shape());
        weights.and_then(|sizes| sizes.first().copied()).unwrap_or_default()
    }

    /// The affine part of a matrix product, its bias in another node or in its own third input.
    fn dense_affine(&self, node: usize, bias_node: Option<usize>) -> Result<Affine, Error> {
        let node = &self.region.nodes[node];
        let matrix = self.input(node, 1)?.unwrap_or_default();
        let sizes = node.input(1).and_then(|weights| self.region.values[weights].fixed_shape()).unwrap_or_default();
        let [rows, columns] = *sizes.as_slice() else { return Err(Error::new("the weights are not a matrix")) };
        let alpha = if node.op == "Gemm" { node.float("alpha", 1.0) } else { 1.0 };
        let by_output: Vec<f32> = if node.int("transB", 0) != 0 {
            matrix
        } else {
            (0..columns).flat_map(|column| matrix.iter().skip(column).step_by(columns).copied()).collect()
        };
        let outputs = if node.int("transB", 0) != 0 { rows } else { columns };
        let weights = by_output.iter().map(|weight| weight * alpha).collect();
        let (bias, beta) = match bias_node.map(|index| &self.region.nodes[index]) {
            None => (self.input(node, 2)?, node.float("beta", 1.0)),
            Some(add) => {
                let constant = add.inputs.iter().flatten().find(|&&value| self.region.constant(value).is_some());
                (constant.map(|&value| self.floats(value)).transpose()?, 1.0)
            }
        };
        let bias = bias.unwrap_or_else(|| vec![0.0]);
        // A bias of one element is one for all.
        let bias = if bias.len() == outputs { bias } else { vec![bias.first().copied().unwrap_or(0.0); outputs] };
        Ok(Affine { weights, scale: None, bias: bias.iter().map(|bias| bias * beta).collect() })
    }

    /// A fully connected layer in `f32`; addresses are the caller's.
    pub(super) fn fully_connected(
        &self,
        node: usize,
        bias: Option<usize>,
        activation: DenseActivation,
        [input, output]: [u32; 2],
    ) -> Result<FullyConnected, Error> {
        let Affine { weights, bias, .. } = self.dense_affine(node, bias)?;
        let output_channels = bias.len() as u32;
        let input_channels = (weights.len() / bias.len().max(1)) as u32;
        let activation = match activation {
            DenseActivation::Linear => 0,
            DenseActivation::Relu => 1,
            DenseActivation::Relu6 => 2,
        };
        let sizes = FullyConnectedSizes { input, output, input_channels, output_channels, activation };
        Ok(FullyConnected { sizes, weights, bias })
    }
}
