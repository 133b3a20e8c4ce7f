//! The code of a region: steps over values, as JSON. Written by codegen, read by `constant_updater` and the runtime.

use byoc_plugin_api::{ConstantId, DType, Dim, Error, Node};
use serde::{Deserialize, Serialize};

use crate::constants::Recipe;

mod bounds;
pub(crate) mod integer;
mod op;
pub(crate) mod text;

pub(crate) use integer::{Combine, IntegerAverage, IntegerConv, IntegerGemm, IntegerPool, NBits};
pub(crate) use op::{Attention, Conv, Gemm, GridSample, Op, Pool, Recurrent, Side};

/// The version of the format. Code of another version is refused: there is no way to guess what it means.
pub(crate) const VERSION: u32 = 4;

/// The code of a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Program {
    /// [`VERSION`].
    pub(crate) version: u32,
    /// Every tensor.
    pub(crate) values: Vec<Value>,
    /// Values that `run` receives.
    pub(crate) inputs: Vec<usize>,
    /// Values that `run` fills.
    pub(crate) outputs: Vec<usize>,
    /// Values that are there before the first step.
    pub(crate) constants: Vec<Constant>,
    /// What happens, in order.
    pub(crate) steps: Vec<Step>,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Value {
    /// Element type.
    pub(crate) dtype: DType,
    /// Shape, whatever the layout.
    pub(crate) shape: Vec<Dim>,
    /// Whether the tensor (then of rank 4) is in NCHW16c order rather than row-major.
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) blocked: bool,
}

/// A value that is known at load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Constant {
    /// Index of the value.
    pub(crate) value: usize,
    /// Where its bytes come from.
    pub(crate) source: Source,
}

/// Where the bytes of a constant come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// The original bytes, kept by core.
    Host(ConstantId),
    /// The bytes themselves: small constants only.
    Inline {
        /// The constant they are of.
        id: ConstantId,
        /// The bytes.
        hex: String,
    },
    /// Computed from other constants by a recipe.
    Derived {
        /// How.
        recipe: Recipe,
        /// The constant in whose place the result is stored; without one it is computed at load.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        carrier: Option<ConstantId>,
        /// The type of 16 bits in which the result is stored, where it is of f32.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stored: Option<DType>,
    },
}

/// One call of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// The node it came from, for messages.
    pub(crate) name: String,
    /// What to compute.
    #[serde(rename = "call")]
    pub(crate) op: Op,
    /// Values read; their order depends on the kernel.
    pub(crate) inputs: Vec<Option<usize>>,
    /// Values written.
    pub(crate) outputs: Vec<Option<usize>>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Step {
    /// The ONNX node that the step is, if it has no faster kernel.
    pub(crate) fn node(&self) -> Option<Node> {
        let Op::Reference { op, attributes } = &self.op else { return None };
        Some(Node {
            name: self.name.clone(),
            op: op.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            attributes: attributes.clone(),
            ..Node::default()
        })
    }

    /// The value at input `index`, if it is there.
    pub(crate) fn input(&self, index: usize) -> Option<usize> {
        self.inputs.get(index).copied().flatten()
    }

    /// The input that is a value, if only one is.
    pub(crate) fn only_place(&self, value: usize) -> Option<usize> {
        let mut places = (0..self.inputs.len()).filter(|&index| self.input(index) == Some(value));
        places.next().filter(|_| places.next().is_none())
    }

    /// The value at output `index`, if it is used.
    pub(crate) fn output(&self, index: usize) -> Option<usize> {
        self.outputs.get(index).copied().flatten()
    }
}

impl Program {
    /// Reads and checks code: every number is within its bounds, every index in range, every value has one origin and is
    /// there before it is read.
    pub(crate) fn parse(code: &[u8]) -> Result<Program, Error> {
        let damaged = |what: String| Error::new(format!("damaged code: {what}")).hint("Compile the model again");
        let json = text::decode(code).map_err(damaged)?;
        let program: Program = serde_json::from_slice(&json).map_err(|error| damaged(error.to_string()))?;
        if program.version != VERSION {
            return Err(Error::new(format!("the code has version {}, this runtime reads {VERSION}", program.version))
                .hint("Compile the model again with this version of the backend"));
        }
        program.check().map_err(damaged)?;
        Ok(program)
    }

    fn check(&self) -> Result<(), String> {
        self.check_bounds()?;
        let mut known = vec![false; self.values.len()];
        let mut define = |value: usize| match known.get_mut(value) {
            None => Err(format!("there is no value {value}")),
            Some(true) => Err(format!("value {value} has two origins")),
            Some(known) => {
                *known = true;
                Ok(())
            }
        };
        self.inputs.iter().try_for_each(|&value| define(value))?;
        self.constants.iter().try_for_each(|constant| define(constant.value))?;
        for step in &self.steps {
            step.outputs.iter().flatten().try_for_each(|&value| define(value))?;
        }
        self.check_order()?;
        self.check_layouts()
    }

    /// NCHW16c is for images, and for kernels that know it.
    fn check_layouts(&self) -> Result<(), String> {
        if let Some(value) = self.values.iter().position(|value| value.blocked && value.shape.len() != 4) {
            return Err(format!("value {value} is blocked but not of rank 4"));
        }
        let blocked =
            |step: &&Step| step.inputs.iter().chain(&step.outputs).flatten().any(|&at| self.values[at].blocked);
        match self.steps.iter().filter(blocked).find(|step| !step.op.takes_blocked()) {
            Some(step) => Err(format!("step '{}' has a blocked operand, which its kernel does not take", step.name)),
            None => Ok(()),
        }
    }

    fn check_order(&self) -> Result<(), String> {
        let mut ready = vec![false; self.values.len()];
        for value in self.inputs.iter().copied().chain(self.constants.iter().map(|constant| constant.value)) {
            ready[value] = true;
        }
        for step in &self.steps {
            if let Some(value) = step.inputs.iter().flatten().find(|&&value| ready.get(value) != Some(&true)) {
                return Err(format!("step '{}' reads value {value} before it is there", step.name));
            }
            step.outputs.iter().flatten().for_each(|&value| ready[value] = true);
        }
        match self.outputs.iter().find(|&&value| ready.get(value) != Some(&true)) {
            Some(value) => Err(format!("output {value} is not computed")),
            None => Ok(()),
        }
    }
}
