//! Generates the code of a region: the source of each operand. It has no weights.

use std::io::Write;

use byoc_plugin_api::{ConstantId, Error, Generated, Job, Region};
use serde::{Deserialize, Serialize};

/// The source of an operand.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operand {
    /// The input of that position.
    Input(usize),
    /// A constant.
    Constant(ConstantId),
}

/// The code of a region.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) operands: Vec<Operand>,
}

pub(crate) fn codegen(job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
    let operands = job.region.nodes[0].inputs.iter().flatten().map(|&value| operand(job.region, value));
    serde_json::to_writer(code, &Program { operands: operands.collect::<Result<_, _>>()? })?;
    Ok(Generated::default())
}

fn operand(region: &Region, value: usize) -> Result<Operand, Error> {
    if let Some(constant) = region.constant(value) {
        return Ok(Operand::Constant(constant.id));
    }
    let position = region.inputs.iter().position(|&input| input == value);
    position.map(Operand::Input).ok_or_else(|| Error::new(format!("value {value} is neither an input nor computed")))
}
