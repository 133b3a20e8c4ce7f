//! The code of a region: what is computed from what, as JSON. Shapes are those of the tensors that it is run on.

use byoc_plugin_api::{Candidate, ConstantId, Error, Region};
use serde::{Deserialize, Serialize};

/// A kernel that is called, by indices of values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) op: String,
    pub(crate) operands: Vec<usize>,
    pub(crate) result: usize,
}

/// A region.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    pub(crate) symbol: String,
    /// How many values there are.
    pub(crate) values: usize,
    pub(crate) inputs: Vec<usize>,
    pub(crate) outputs: Vec<usize>,
    pub(crate) constants: Vec<(ConstantId, usize)>,
    /// In an order in which they can be made.
    pub(crate) calls: Vec<Call>,
    /// How it is computed; [`KERNELS`] has the names.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) kernel: String,
}

/// How regions are computed.
pub(crate) struct Kernel {
    /// In code; empty for the one that code is generated with.
    name: &'static str,
    /// Of the device's own time for it.
    pub(crate) time: f64,
    /// Whether the first element of each output comes out wrong.
    pub(crate) wrong: bool,
    /// Why it cannot be loaded.
    pub(crate) broken: Option<&'static str>,
    /// Whether the device is lost when it runs.
    pub(crate) fatal: bool,
}

const fn kernel(name: &'static str, time: f64) -> Kernel {
    Kernel { name, time, wrong: false, broken: None, fatal: false }
}

/// All of them.
pub(crate) const KERNELS: [Kernel; 6] = [
    kernel("", 1.0),
    kernel("narrow", 2.0),
    kernel("wide", 0.5),
    Kernel { wrong: true, ..kernel("hasty", 0.25) },
    Kernel { broken: Some("it needs more cores than there are"), ..kernel("huge", 0.125) },
    Kernel { fatal: true, ..kernel("fatal", 0.0) },
];

/// What the kernel is called that has no name in code.
const PLAIN: &str = "plain";

impl Program {
    pub(crate) fn of(region: &Region, named: bool) -> Result<Program, Error> {
        let call = |node: &byoc_plugin_api::Node| {
            let result = node.output(0).ok_or_else(|| Error::new("nobody wants the result").at(&node.name))?;
            Ok(Call { op: node.op.clone(), operands: node.inputs.iter().flatten().copied().collect(), result })
        };
        Ok(Program {
            symbol: if named { region.symbol.clone() } else { "region".into() },
            values: region.values.len(),
            inputs: region.inputs.clone(),
            outputs: region.outputs.clone(),
            constants: region.constants.iter().map(|constant| (constant.id, constant.value)).collect(),
            calls: region.nodes.iter().map(call).collect::<Result<_, Error>>()?,
            kernel: String::new(),
        })
    }

    /// How it is computed.
    pub(crate) fn kernel(&self) -> Result<&'static Kernel, Error> {
        let found = KERNELS.iter().find(|kernel| kernel.name == self.kernel);
        found.ok_or_else(|| Error::new(format!("damaged code: there is no kernel '{}'", self.kernel)))
    }

    /// The same region with each kernel, its own first; with those that lose the device where a test asks for it.
    pub(crate) fn candidates(&self, fatal: bool) -> Result<Vec<Candidate>, Error> {
        let own = self.kernel()?.name;
        let others = KERNELS.iter().filter(|kernel| kernel.name != own && (fatal || !kernel.fatal));
        let others = others.map(|kernel| kernel.name);
        std::iter::once(own).chain(others).map(|name| self.candidate(name)).collect()
    }

    fn candidate(&self, kernel: &str) -> Result<Candidate, Error> {
        let code = serde_json::to_vec(&Program { kernel: kernel.into(), ..self.clone() })?;
        Ok(Candidate { name: if kernel.is_empty() { PLAIN } else { kernel }.into(), code })
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
