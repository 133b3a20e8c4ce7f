//! Matches a region to steps, each of which becomes a launch. `check` needs the reason of a refusal; codegen and the
//! constant_updater match what was accepted.

use byoc_nvidia::compile::Arch;
use byoc_nvidia::program::Limit;
use byoc_plugin_api::{Error, Options, Refusal, Region};

use crate::attention;
use crate::buffers::{Buffers, Strides, Use};
use crate::product::Product;
use crate::source::Kernel;

/// One step.
pub(crate) enum Step {
    /// `softmax(scale Q K' + mask) V`.
    Attention(attention::MatchedAttention),
    /// A product of matrices.
    Product(Product),
}

/// The steps of a region, in the order in which they run.
pub(crate) fn read(region: &Region, options: &Options, strides: &Strides<'_>) -> Result<Vec<Step>, Refusal> {
    if region.nodes.iter().any(|node| matches!(node.op.as_str(), "Attention" | "Softmax")) {
        return Ok(vec![Step::Attention(attention::read(region)?)]);
    }
    Ok(vec![Step::Product(Product::read(region, options, strides)?)])
}

impl Step {
    /// The uses of constants, by value.
    pub(crate) fn uses(&self) -> Vec<(usize, Use)> {
        match self {
            Step::Attention(matched) => attention::uses(matched),
            Step::Product(product) => product.uses(),
        }
    }

    /// The limits of its kernels that only a run can check.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        match self {
            Step::Attention(_) => Vec::new(),
            Step::Product(product) => product.limits(),
        }
    }

    /// Its name in file names and messages.
    pub(crate) fn name(&self) -> String {
        match self {
            Step::Attention(matched) => attention::name(matched),
            Step::Product(product) => product.name(),
        }
    }

    /// The kernel of that symbol for an architecture.
    pub(crate) fn kernel(&self, symbol: &str, arch: Arch, memory: &mut Buffers<'_>) -> Result<Kernel, Error> {
        match self {
            Step::Attention(matched) => attention::kernel(matched, symbol, memory),
            Step::Product(product) => product.kernel(symbol, arch, memory),
        }
    }
}
