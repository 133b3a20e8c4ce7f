//! Convolutions by CUTLASS's implicit GEMM, with the pooling, activations, sums and joins between them, so that regions are
//! as large as possible.
//!
//! Inside a region images are in NHWC. [`lower`] makes steps of a region; [`program`] makes launches of steps, of CUTLASS's
//! template ([`fprop`]) and of our own kernels ([`images`]); [`pack`] packs weights for both.

mod act;
mod fprop;
mod graph;
mod images;
mod lower;
mod net;
mod pack;
mod program;
#[cfg(test)]
mod tests;
mod tile;

use std::io::Write;

use byoc_nvidia::build::Build;
use byoc_plugin_api::{Claims, ConstantId, DType, Error, Generated, Job, Pattern, Refusal, Region};
use serde::{Deserialize, Serialize};

use self::net::{Net, Weights};

/// Whether this module compiles a region: it has a convolution.
pub(crate) fn is_one(region: &Region) -> bool {
    region.nodes.iter().any(|node| node.op == "Conv")
}

/// Convolutions with their neighbours: each pattern has a convolution, so that a region without one is never taken.
/// The largest come first, each with a pooling before the convolution and without: a pooling with other readers would
/// prevent the shorter match.
pub(crate) fn patterns() -> Vec<Pattern> {
    let conv = "(Conv ?x ?w:const ?b:const?)";
    let plain = patterns_of(conv);
    let pooled = patterns_of(&conv.replace("?x", &format!("({POOLS} ?x)")));
    pooled.into_iter().zip(plain).flat_map(|(pooled, plain)| [pooled, plain]).collect()
}

const POOLS: &str = "MaxPool|AveragePool|GlobalAveragePool";

fn patterns_of(conv: &str) -> Vec<Pattern> {
    let acts = "Relu|Clip|Sigmoid|HardSigmoid|HardSwish|LeakyRelu|Tanh";
    let constants = "?scale:const ?shift:const ?mean:const ?variance:const";
    let normalised = format!("(BatchNormalization? {conv} {constants})");
    let gated = format!("(Mul {normalised} (Sigmoid {normalised}))");
    let act = format!("(or {gated} ({acts}? {normalised} ...))");
    // Patterns match both operand orders of `Add` and `Mul` only.
    let sum = format!("(or (Add|Sum {act} ?r) (Sum ?r {act}))");
    let any = format!("(or ({acts}? {sum} ...) {act})");
    vec![
        Pattern::new("pooling of a convolution", format!("({POOLS} {any})")),
        Pattern::new("convolution among joined channels", format!("(or (Concat {any} ...) (Concat ?first {any} ...))")),
        Pattern::new("gate by a convolution", format!("(Mul ?gated {any})")),
        Pattern::new("function of a convolution and a sum", format!("({acts} {sum} ...)")),
        Pattern::new("convolution and sum", sum),
        Pattern::new("gated convolution", gated),
        Pattern::new("function of a convolution", format!("({acts} {normalised} ...)")),
        Pattern::new("normalised convolution", format!("(BatchNormalization {conv} {constants})")),
        Pattern::new("convolution", conv),
    ]
}

/// Accepts a region that can be lowered.
pub(crate) fn check(region: &Region, tf32: bool) -> Result<(), Refusal> {
    lower::lower(region, tf32).map(drop)
}

/// What code generation has learnt of the constants of a region.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Learnt {
    dtype: DType,
    /// What is packed, with the size of each filter.
    weights: Vec<(Weights, [usize; 2])>,
    /// What decided what is computed.
    embedded: Vec<ConstantId>,
}

impl Learnt {
    pub(crate) fn of(net: &Net, region: &Region) -> Learnt {
        let embedded = net.numbers.iter().filter_map(|&value| region.constant(value)).map(|constant| constant.id);
        let weights = net.convolutions().map(|conv| (conv.weights.clone(), conv.window.kernel));
        Learnt { dtype: net.dtype, weights: weights.collect(), embedded: embedded.collect() }
    }
}

/// Writes the code of a region.
pub(crate) fn codegen(job: &Job<'_>, tf32: bool, build: &Build, code: &mut dyn Write) -> Result<Generated, Error> {
    let net = lower(job.region, tf32)?;
    let mut draft = program::draft(&net, job.region)?;
    let mut cubins: Vec<Vec<u8>> = Vec::new();
    for (done, &arch) in build.arches().iter().enumerate() {
        job.progress(done, build.arches().len(), format!("{} for {arch}", draft.program.title));
        let made = draft.sources.iter().map(|source| Ok(build.cubin(source, arch)?.bytes));
        let made: Vec<Vec<u8>> = made.collect::<Result<_, Error>>()?;
        let variant = draft.variant(arch.to_string(), cubins.len(), &made)?;
        draft.program.variants.push(variant);
        cubins.extend(made);
    }
    let cubins: Vec<&[u8]> = cubins.iter().map(Vec::as_slice).collect();
    draft.program.write(&cubins, code)?;
    Generated::learnt(&Learnt::of(&net, job.region))
}

/// Claims the constants of a region: each filter is packed together with its scale and bias.
pub(crate) fn constant_updater(job: &Job<'_>, learnt: &Learnt, claims: &mut Claims<'_>) -> Result<(), Error> {
    let view = |id| job.constants.get(id).copied().ok_or_else(|| Error::new(format!("constant {id} was not given")));
    for constant in &job.region.constants {
        let id = constant.id;
        if let Some((weights, kernel)) = learnt.weights.iter().find(|(weights, _)| weights.filters == id) {
            let mut writer = claims.packed(id, pack::packed(weights, *kernel, learnt.dtype))?;
            pack::pack(weights, *kernel, learnt.dtype, &view, &mut writer)?;
        } else if learnt.embedded.contains(&id) {
            claims.embedded(id)?;
        } else {
            claims.unused(id)?;
        }
    }
    Ok(())
}

fn lower(region: &Region, tf32: bool) -> Result<Net, Error> {
    lower::lower(region, tf32).map_err(|refusal| Error::new(refusal.to_string()))
}
