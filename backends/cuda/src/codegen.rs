//! Generates the code of a region: one source with its fused and standalone kernels, compiled for each architecture.

use std::fmt::Write as _;
use std::io::Write;

use byoc_nvidia::build::{Build, PRELUDE, Source};
use byoc_nvidia::claims::Learnt;
use byoc_nvidia::compile::Needs;
use byoc_nvidia::program::{Launch, Program, Variant, tensors};
use byoc_plugin_api::{ConstantId, Constants, Error, Generated, Job, Region};

use crate::lower::{IrGraph, lower};
use crate::plan::{KernelPlan, Written, plan};

const HELPERS: &str = include_str!("helpers.cuh");

/// The kernels of a region, before they are compiled.
pub(crate) struct Fused {
    /// The source; `None` if there is nothing to compute.
    pub(crate) source: Option<Source>,
    /// The program but for its variants.
    pub(crate) program: Program,
    /// Its one variant.
    pub(crate) variant: Variant,
    /// Constants that decided the structure.
    pub(crate) embedded: Vec<ConstantId>,
}

pub(crate) fn codegen(job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
    let Fused { source, mut program, variant, embedded } = fuse(job.region, job.constants)?;
    let build = Build::new(job.options)?;
    let mut cubins = Vec::new();
    for (done, &arch) in build.arches().iter().enumerate() {
        job.progress(done, build.arches().len(), format!("{} for {arch}", program.title));
        let own = |launch: &Launch| Launch { cubin: cubins.len(), ..launch.clone() };
        let launches = variant.launches.iter().map(own).collect();
        program.variants.push(Variant { arch: arch.to_string(), scratch: variant.scratch.clone(), launches });
        if let Some(source) = &source {
            cubins.push(build.cubin(source, arch)?.bytes);
        }
    }
    let cubins: Vec<&[u8]> = cubins.iter().map(Vec::as_slice).collect();
    program.write(&cubins, code)?;
    Generated::learnt(&Learnt { host: program.constants.iter().map(|constant| constant.id).collect(), embedded })
}

/// Fuses a region.
pub(crate) fn fuse(region: &Region, constants: &Constants<'_>) -> Result<Fused, Error> {
    region.validate()?;
    let graph = lower(region, Some(constants)).map_err(|refusal| Error::new(refusal.to_string()))?;
    let plan = plan(&graph).map_err(|cause| Error::new(format!("its kernels cannot be written: {cause}")))?;
    Ok(assemble(region, graph, plan))
}

fn assemble(region: &Region, graph: IrGraph, mut plan: KernelPlan) -> Fused {
    let used: Vec<usize> = plan.constants().into_iter().collect();
    plan.renumber(&used);
    let mut operators: Vec<&str> = Vec::new();
    for operator in plan.kernels.iter().flat_map(|kernel| self::operators(region, kernel)) {
        if !operators.contains(&operator) {
            operators.push(operator);
        }
    }
    let program = Program {
        title: if operators.is_empty() { "nothing".into() } else { operators.join(", ") },
        inputs: tensors(region, &region.inputs),
        outputs: tensors(region, &region.outputs),
        constants: used.iter().map(|&at| graph.constants[at].clone()).collect(),
        limits: Vec::new(),
        variants: Vec::new(),
        recipe: None,
    };
    let source = (!plan.kernels.is_empty()).then(|| source(region, &plan, &operators));
    let launches = plan.kernels.into_iter().map(|kernel| kernel.launch).collect();
    let embedded =
        graph.decided.iter().filter_map(|&value| region.constant(value)).map(|constant| constant.id).collect();
    Fused { source, program, embedded, variant: Variant { arch: String::new(), scratch: plan.scratch, launches } }
}

/// The operators that a kernel computes, in full or in part.
fn operators<'a>(region: &'a Region, kernel: &Written) -> Vec<&'a str> {
    kernel.launch.nodes.iter().map(|&node| region.nodes[node].op.as_str()).collect()
}

fn source(region: &Region, plan: &KernelPlan, operators: &[&str]) -> Source {
    let mut kernels = String::new();
    for kernel in &plan.kernels {
        let _ = write!(kernels, "\n// {}.\n{}", self::operators(region, kernel).join(", "), kernel.text);
    }
    let own: Vec<String> = operators.iter().take(4).map(|operator| operator.to_lowercase()).collect();
    Source { name: own.join("_"), text: format!("{PRELUDE}\n{HELPERS}{kernels}"), needs: Needs::default(), memory: 0 }
}
