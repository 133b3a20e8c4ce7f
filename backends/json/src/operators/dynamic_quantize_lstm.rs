//! `DynamicQuantizeLSTM`: an LSTM whose weights are stored quantised, and whose input and state are quantised while it runs.

use byoc_plugin_api::{
    Attribute, AttributeKind, CustomAttribute, DType, Dim, Error, Node, Operator, OutputType, Region, Value,
};

use super::{MICROSOFT, text};
use crate::reference;

/// Its name.
pub(super) const NAME: &str = "DynamicQuantizeLSTM";

/// The operator.
pub(super) fn operator() -> Operator {
    let attributes = vec![
        CustomAttribute::optional("activation_alpha", AttributeKind::Floats),
        CustomAttribute::optional("activation_beta", AttributeKind::Floats),
        CustomAttribute::optional("activations", AttributeKind::Strings),
        CustomAttribute::optional("clip", AttributeKind::Float),
        CustomAttribute::with_default("direction", Attribute::String("forward".into())),
        CustomAttribute::optional("hidden_size", AttributeKind::Int),
        CustomAttribute::with_default("input_forget", Attribute::Int(0)),
    ];
    // Inputs 8 to 11 are needed behind optional ones.
    let (domain, name) = (MICROSOFT.into(), NAME.into());
    Operator { domain, name, inputs: 3, optional_inputs: 9, attributes, ..Operator::default() }
}

/// The types of its outputs: the state after each step, [steps, directions, batch, hidden], and the last state and cell.
pub(super) fn infer(candidate: &Region, node: &Node) -> Result<Vec<OutputType>, Error> {
    let inputs = Inputs { candidate, node };
    let directions = match node.string("direction", "forward") {
        "forward" | "reverse" => 1,
        "bidirectional" => 2,
        other => {
            let expected = "forward, reverse or bidirectional";
            return Err(Error::new(format!("attribute 'direction' is '{other}', expected {expected}")));
        }
    };
    reference::check_recurrent(node, directions)?;
    let (x, r) = (inputs.ranked(0, 3)?, inputs.ranked(2, 3)?);
    let (steps, batch, width, hidden) = (&x.shape[0], &x.shape[1], &x.shape[2], &r.shape[1]);
    let given = node.int("hidden_size", -1);
    if let (Some(size), true) = (hidden.fixed(), given >= 0)
        && usize::try_from(given).ok() != Some(size)
    {
        return Err(Error::new(format!("attribute 'hidden_size' is {given}, and input 2 is {}", text(r))));
    }
    let Some(size) = hidden.fixed() else {
        return Err(Error::new(format!("input 2 is {}, expected a hidden size that is known", text(r))));
    };
    let [directions, gates, biases, peepholes] =
        [Some(directions), size.checked_mul(4), size.checked_mul(8), size.checked_mul(3)]
            .map(|size| size.map(Dim::Fixed).ok_or_else(|| Error::new("the hidden size is too large")));
    let (directions, gates, biases, peepholes) = (directions?, gates?, biases?, peepholes?);
    inputs.fits(1, &[&directions, width, &gates])?;
    inputs.fits(2, &[&directions, hidden, &gates])?;
    inputs.fits(3, &[&directions, &biases])?;
    inputs.fits(4, &[batch])?;
    for state in [5, 6] {
        inputs.fits(state, &[&directions, batch, hidden])?;
    }
    inputs.fits(7, &[&directions, &peepholes])?;
    for (weights, scale) in [(1, 8), (2, 10)] {
        inputs.scale(weights, scale, &directions, &gates)?;
    }
    let state = [&directions, batch, hidden].map(Dim::clone).to_vec();
    let all = [steps, &directions, batch, hidden].map(Dim::clone).to_vec();
    Ok([all, state.clone(), state].map(|shape| OutputType { dtype: x.dtype, shape }).to_vec())
}

/// The inputs of the node.
struct Inputs<'a> {
    candidate: &'a Region,
    node: &'a Node,
}

impl<'a> Inputs<'a> {
    fn optional(&self, index: usize) -> Option<&'a Value> {
        self.node.input(index).map(|value| &self.candidate.values[value])
    }

    fn needed(&self, index: usize) -> Result<&'a Value, Error> {
        self.optional(index).ok_or_else(|| Error::new(format!("input {index} is missing")))
    }

    fn ranked(&self, index: usize, rank: usize) -> Result<&'a Value, Error> {
        let value = self.needed(index)?;
        match value.shape.len() == rank {
            true => Ok(value),
            false => Err(Error::new(format!("input {index} is {}, expected {rank} dimensions", text(value)))),
        }
    }

    /// Fails where an input is there and has another shape. Sizes that only a run tells are compared by the kernel.
    fn fits(&self, index: usize, shape: &[&Dim]) -> Result<(), Error> {
        let Some(value) = self.optional(index) else { return Ok(()) };
        let same = |(found, wanted): (&Dim, &&Dim)| match (found.fixed(), wanted.fixed()) {
            (Some(found), Some(wanted)) => found == wanted,
            _ => true,
        };
        if value.shape.len() == shape.len() && value.shape.iter().zip(shape).all(same) {
            return Ok(());
        }
        let sizes: Vec<_> = shape.iter().map(ToString::to_string).collect();
        Err(Error::new(format!("input {index} is {}, expected the shape [{}]", text(value), sizes.join(", "))))
    }

    /// Fails where the scale and the zero point of weights are not one for each direction, or one for each gate and hidden element of it.
    fn scale(&self, weights: usize, scale: usize, directions: &Dim, gates: &Dim) -> Result<(), Error> {
        for index in [scale, scale + 1] {
            let value = self.needed(index)?;
            let shape = if value.shape.len() == 1 { &[directions][..] } else { &[directions, gates] };
            self.fits(index, shape)?;
        }
        let (weights, zero) = (self.needed(weights)?, self.needed(scale + 1)?);
        match weights.dtype == zero.dtype && matches!(zero.dtype, DType::U8 | DType::I8) {
            true => Ok(()),
            false => {
                let (at, weights, zero) = (scale + 1, text(weights), text(zero));
                Err(Error::new(format!(
                    "input {at} is {zero}, and the weights are {weights}: expected u8 or i8 of both"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests;
