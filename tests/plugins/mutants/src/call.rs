//! What a kernel gets: its node, what it reads, and which bug is planted.

use byoc_plugin_api::{Error, Node, Refusal};

use crate::tensor::{Tensor, View, axis, sizes};

/// The bugs of a backend, each with what it does; the first one is none.
pub(crate) type Bugs = &'static [(&'static str, &'static str)];

/// What a kernel keeps from one run to the next. The right code never reads it.
#[derive(Default)]
pub(crate) struct State {
    /// Size of the first dimension in the first run.
    pub(crate) batch: Option<usize>,
    /// Elements of an earlier run.
    pub(crate) kept: Vec<f32>,
}

/// A node that is to be computed.
pub(crate) struct Call<'a> {
    pub(crate) node: &'a Node,
    pub(crate) inputs: Vec<Option<&'a Tensor>>,
    /// Which inputs are constants.
    pub(crate) constants: Vec<bool>,
    /// The shape of the first output, where it is one of the region's.
    pub(crate) wanted: Option<Vec<usize>>,
    /// The name of the planted bug.
    pub(crate) bug: &'a str,
    pub(crate) state: &'a mut State,
}

impl<'a> Call<'a> {
    /// Whether this bug is planted.
    pub(crate) fn has(&self, bug: &str) -> bool {
        self.bug == bug
    }

    /// An input of `f32` that must be there.
    pub(crate) fn x(&self, index: usize) -> Result<View<'a>, Error> {
        self.maybe(index)?.ok_or_else(|| Error::new(format!("{} has no input {index}", self.node.op)))
    }

    /// An input of `f32` that may be absent.
    pub(crate) fn maybe(&self, index: usize) -> Result<Option<View<'a>>, Error> {
        self.tensor(index).map(Tensor::view).transpose()
    }

    /// An input of integers or booleans that must be there.
    pub(crate) fn ints(&self, index: usize) -> Result<&'a [i64], Error> {
        let found = self.maybe_ints(index)?;
        found.ok_or_else(|| Error::new(format!("{} has no input {index}", self.node.op)))
    }

    /// An input of integers or booleans that may be absent.
    pub(crate) fn maybe_ints(&self, index: usize) -> Result<Option<&'a [i64]>, Error> {
        self.tensor(index).map(Tensor::ints).transpose()
    }

    /// An input of any type, if it is there.
    pub(crate) fn tensor(&self, index: usize) -> Option<&'a Tensor> {
        self.inputs.get(index).copied().flatten()
    }

    /// Whether an input is a constant.
    pub(crate) fn is_constant(&self, index: usize) -> bool {
        self.constants.get(index) == Some(&true)
    }

    /// The attribute `axis`, counted from the front.
    pub(crate) fn axis(&self, default: i64, rank: usize) -> Result<usize, Error> {
        axis(self.node.int("axis", default), rank)
    }

    /// An attribute that is a list of sizes.
    pub(crate) fn sizes(&self, name: &str) -> Option<Vec<usize>> {
        self.node.ints(name).map(sizes)
    }

    /// The error for an operator without code.
    pub(crate) fn unknown(&self) -> Error {
        Error::new(format!("damaged code: there is no kernel for {}", self.node.op))
    }
}

/// A refusal of windows that are known only now, as an error.
pub(crate) fn refused(refusal: Refusal) -> Error {
    Error::new(refusal.message)
}
