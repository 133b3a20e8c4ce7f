//! What a region computes, if it is not a convolution. `check` needs the reason of a refusal; codegen and the
//! constant_updater match what was accepted.

use byoc_nvidia::compile::Arch;
use byoc_nvidia::program::Limit;
use byoc_plugin_api::{Error, Options, Refusal, Region};

use crate::attention;
use crate::buffers::{Buffers, Strides, Use};
use crate::product::Product;
use crate::source::Kernel;

/// A product or an attention, of which one launch does all.
pub(crate) enum Step {
    /// `softmax(scale Q K' + mask) V`.
    Attention(attention::MatchedAttention),
    /// A product of matrices.
    Product(Product),
}

/// The step of a region.
pub(crate) fn read(region: &Region, options: &Options, strides: &Strides<'_>) -> Result<Step, Refusal> {
    if region.nodes.iter().any(|node| matches!(node.op.as_str(), "Attention" | "Softmax")) {
        return Ok(Step::Attention(attention::read(region)?));
    }
    Ok(Step::Product(Product::read(region, options, strides)?))
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

    /// The kernels for an architecture, of which a run launches one.
    pub(crate) fn kernels(&self, arch: Arch, memory: &mut Buffers<'_>) -> Result<Vec<Kernel>, Error> {
        match self {
            Step::Attention(matched) => Ok(vec![attention::kernel(matched, "k0", memory)?]),
            Step::Product(product) => product.kernels(arch, memory),
        }
    }
}
