//! The code of a region: what is computed from what, as JSON. Shapes are those of the tensors that it is run on.

use byoc_plugin_api::{ConstantId, Error, Region};
use serde::{Deserialize, Serialize};

/// A kernel that is called, by indices of values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) op: String,
    pub(crate) operands: Vec<usize>,
    pub(crate) result: usize,
}

/// A region.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) symbol: String,
    /// How many values there are.
    pub(crate) values: usize,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) constants: Vec<(ConstantId, usize)>,
    /// In an order in which they can be made.
    pub(crate) calls: Vec<Call>,
}

impl Program {
    pub(crate) fn of(region: &Region) -> Result<Program, Error> {
        let call = |node: &byoc_plugin_api::Node| {
            let result = node.output(0).ok_or_else(|| Error::new("nobody wants the result").at(&node.name))?;
            Ok(Call { op: node.op.clone(), operands: node.inputs.iter().flatten().copied().collect(), result })
        };
        Ok(Program {
            symbol: region.symbol.clone(),
            values: region.values.len(),
            inputs: region.inputs.clone(),
            outputs: region.outputs.clone(),
            constants: region.constants.iter().map(|constant| (constant.id, constant.value)).collect(),
            calls: region.nodes.iter().map(call).collect::<Result<_, Error>>()?,
        })
    }

    /// Reads code; every index in it is one of a value.
    pub(crate) fn read(code: &[u8]) -> Result<Program, Error> {
        let damaged = || Error::new("damaged code").hint("Compile the model again");
        let program: Program = serde_json::from_slice(code).map_err(|_| damaged())?;
        let calls = program.calls.iter().flat_map(|call| call.operands.iter().chain([&call.result]));
        let constants = program.constants.iter().map(|(_, value)| value);
        let mut all = program.inputs.iter().chain(&program.outputs).chain(constants).chain(calls);
        let whole = all.all(|&value| value < program.values);
        drop(all);
        if whole { Ok(program) } else { Err(damaged()) }
    }
}
