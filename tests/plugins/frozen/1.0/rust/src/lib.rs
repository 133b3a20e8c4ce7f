//! A plugin as a vendor wrote it for byoc-plugin-api 1.0.0: takes `Mul` by a constant of one element, packs the
//! constant, has an option, and refuses what is not f32. Its allocator is not the host's.

mod allocator;

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, ConstantAccess, ConstantId, DType, Description, Environment, Error, Executable,
    Generated, HostRuntime, Job, OptionSpec, Options, Packed, Pattern, Refusal, RefusalCode, Region, RegionPolicy,
    Runtime, TensorView, TensorViewMut, export_plugin, register_backend,
};

const LAYOUT: &str = "doubled/1";

struct Frozen;

impl Backend for Frozen {
    fn describe(&self) -> Description {
        Description {
            name: "frozen".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Multiplies by a constant".into(),
            host: false,
            regions: RegionPolicy::default(),
            constant_access: ConstantAccess::Both,
            options: vec![OptionSpec::bool("twice", false, "Multiplies twice")],
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(vec![Pattern::new("scale", "(Mul ?x ?by:const)")])
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        if candidate.values.iter().any(|value| value.dtype != DType::F32) {
            return Err(Refusal::new(RefusalCode::Type, "frozen takes f32 only"));
        }
        let one = |constant: &byoc_plugin_api::Constant| {
            candidate.values[constant.value].fixed_shape().is_some_and(|shape| shape.iter().product::<usize>() == 1)
        };
        match candidate.constants.iter().all(one) {
            true => Ok(()),
            false => Err(Refusal::new(RefusalCode::Shape, "frozen multiplies by one element")),
        }
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        let Job { region, constants, options, .. } = *job;
        if allocator::live() == 0 {
            return Err(Error::new("the allocator is not used"));
        }
        let id = region.constants[0].id;
        constants.get(id).ok_or_else(|| Error::new("no constant"))?.to_vec::<f32>()?;
        job.progress(0, 1, "the code");
        write!(code, "{id} {}", if options.bool("twice") { 2 } else { 1 })?;
        Ok(Generated { learnt: vec![1], ..Generated::default() })
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], learnt: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        if learnt != [1] {
            return Err(Error::new("what was learnt is lost"));
        }
        let id = job.region.constants[0].id;
        let by = job.constants.get(id).ok_or_else(|| Error::new("no constant"))?.to_vec::<f32>()?[0];
        let mut packed = claims.packed(id, Packed::new(LAYOUT, DType::F32, &[2]))?;
        Ok(packed.write_all(&[by, by].map(f32::to_le_bytes).concat())?)
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

impl HostRuntime for Frozen {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let damaged = || Error::new("damaged code");
        let (id, times) = std::str::from_utf8(code).ok().and_then(|text| text.split_once(' ')).ok_or_else(damaged)?;
        let id = ConstantId(id.parse().map_err(|_| damaged())?);
        let by = constants.packed(id, LAYOUT)?.to_vec::<f32>()?;
        Ok(Box::new(Run { by: if times == "2" { by[0] * by[1] } else { by[0] } }))
    }
}

struct Run {
    by: f32,
}

impl Executable for Run {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let (Some(x), Some(y)) = (inputs[0].as_slice::<f32>(), outputs[0].as_mut_slice::<f32>()) else {
            return Err(Error::new("expected tensors of f32"));
        };
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * self.by);
        Ok(())
    }
}

register_backend!(Frozen);
export_plugin!();
