//! The affine parts of layers: weights, biases and what normalises.

use byoc_plugin_api::{Error, Node};

use super::Network;
use super::stored::Rows;
use crate::given::stored;
use crate::kmodel::bodies::FullyConnected;
use crate::kmodel::bodies::FullyConnectedSizes;
use crate::net::{Conv, DenseActivation};

/// The affine part of a layer: `scale * (weights . x) + bias` for each output.
pub(super) struct Affine {
    pub(super) weights: Rows,
    pub(super) scale: Option<Vec<f32>>,
    pub(super) bias: Vec<f32>,
}

impl Network<'_> {
    /// The affine part of a convolution, or of a matrix product that is one.
    pub(super) fn affine(&self, conv: &Conv) -> Result<Affine, Error> {
        let node = &self.region.nodes[conv.node];
        if node.op != "Conv" {
            return self.dense_affine(conv.node, conv.after);
        }
        let (value, sizes) = self.weights(node)?;
        let outputs = sizes.first().copied().unwrap_or_default();
        let weights = self.rows(value, outputs)?;
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

    /// The weights of a node, and their sizes.
    fn weights(&self, node: &Node) -> Result<(usize, Vec<usize>), Error> {
        let value = node.input(1).ok_or_else(|| Error::new("the weights are missing").at(&node.name))?;
        Ok((value, self.region.values[value].fixed_shape().unwrap_or_default()))
    }

    /// The affine part of a matrix product, its bias in another node or in its own third input.
    fn dense_affine(&self, node: usize, bias_node: Option<usize>) -> Result<Affine, Error> {
        let node = &self.region.nodes[node];
        let (value, sizes) = self.weights(node)?;
        let [rows, columns] = *sizes.as_slice() else { return Err(Error::new("the weights are not a matrix")) };
        let alpha = if node.op == "Gemm" { node.float("alpha", 1.0) } else { 1.0 };
        let (outputs, by_output) = match node.int("transB", 0) {
            0 => (columns, self.rows(value, columns)?.transposed(columns)),
            _ => (rows, self.rows(value, rows)?),
        };
        let weights = by_output.times(alpha);
        let (bias, beta) = match bias_node.map(|index| &self.region.nodes[index]) {
            None => (self.input(node, 2)?, node.float("beta", 1.0)),
            Some(add) => {
                let constant = add.inputs.iter().flatten().find(|&&value| stored(self.region, value).is_some());
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
        let weights = weights.real();
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
