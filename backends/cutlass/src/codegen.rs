//! Generates the code of a region: one source of kernels for each architecture, and the launches.

use std::io::Write;

use byoc_nvidia::build::Build;
use byoc_nvidia::claims::Learnt;
use byoc_nvidia::compile::{Arch, Cubin, CubinInfo};
use byoc_nvidia::program::{self, Program, Variant};
use byoc_plugin_api::{Error, Generated, Job};

use crate::buffers::{self, Buffers, Use};
use crate::conv;
use crate::math;
use crate::source::{self, Kernel};
use crate::step;

pub(crate) fn codegen(job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
    let Job { region, constants: data, options, .. } = *job;
    if conv::is_one(region) {
        return conv::codegen(job, math::tf32(options), &Build::new(options)?, code);
    }
    let step = step::read(region, options, &buffers::strides(region, data));
    let step = step.map_err(|refusal| Error::new(refusal.to_string()))?;
    let build = Build::new(options)?;
    let name = step.name();
    let mut program = Program {
        title: name.clone(),
        inputs: program::tensors(region, &region.inputs),
        outputs: program::tensors(region, &region.outputs),
        limits: step.limits(),
        ..Program::default()
    };
    let (mut cubins, mut recipes) = (Vec::new(), serde_json::Map::new());
    for (done, &arch) in build.arches().iter().enumerate() {
        job.progress(done, build.arches().len(), format!("{name} for {arch}"));
        let mut memory = Buffers::new(region, data);
        let kernels = step.kernels(arch, &mut memory)?;
        let cubin = build.cubin(&source::source(&name, &kernels), arch)?;
        let (constants, scratch) = memory.take();
        program.constants = same(&program.constants, constants)?;
        let mut variant = variant(&kernels, arch, &cubin, cubins.len(), scratch)?;
        for launch in &mut variant.launches {
            launch.nodes = (0..region.nodes.len()).collect();
        }
        program.variants.push(variant);
        recipes.insert(arch.to_string(), kernels.iter().map(|kernel| kernel.recipe.clone()).collect());
        cubins.push(cubin.bytes);
    }
    program.recipe = Some(recipes.into());
    program.write(&cubins.iter().map(Vec::as_slice).collect::<Vec<_>>(), code)?;
    let used = |wanted: Use| -> Vec<usize> {
        step.uses().into_iter().filter(|&(_, used)| used == wanted).map(|(value, _)| value).collect()
    };
    Generated::learnt(&Learnt::of(region, &used(Use::Host), &used(Use::Embedded)))
}

/// The launches for an architecture, from the cubin of that index.
pub(crate) fn variant(
    kernels: &[Kernel],
    arch: Arch,
    cubin: &Cubin,
    number: usize,
    scratch: Vec<byoc_plugin_api::Dim>,
) -> Result<Variant, Error> {
    let info = CubinInfo::of(&cubin.bytes)?;
    let settled = |kernel: &Kernel| Ok(program::Launch { cubin: number, ..kernel.settle(&info)? });
    let launches = kernels.iter().map(settled).collect::<Result<_, Error>>()?;
    Ok(Variant { arch: arch.to_string(), scratch, launches })
}

/// The constants of a program, which are the same for all variants.
fn same(known: &[program::Constant], found: Vec<program::Constant>) -> Result<Vec<program::Constant>, Error> {
    if known.is_empty() || known == found {
        return Ok(found);
    }
    Err(Error::new("architectures differ in how they read constants"))
}
