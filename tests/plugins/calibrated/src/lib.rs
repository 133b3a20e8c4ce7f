//! A backend that asks for calibration and whose code is the region as it was given: what core has observed can be read
//! in the artifact. It computes nothing.

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, DType, Description, Environment, Error, Executable, Generated, HostRuntime, Job,
    OptionSpec, Options, Pattern, Refusal, Region, RegionPolicy, Runtime,
};

struct Calibrated;

/// Operators that it takes.
const TAKES: [&str; 4] = ["Conv", "Mul", "Add", "Relu"];

impl Backend for Calibrated {
    fn describe(&self) -> Description {
        Description {
            name: "calibrated".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Writes down what it is told".into(),
            regions: RegionPolicy { merge: true, ..RegionPolicy::default() },
            options: vec![OptionSpec::text("crash", "", "Operator of whose region code generation ends the process")],
            calibration: true,
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        let pattern = |op: &str| {
            let operands = if op == "Relu" { "?x" } else { "?x ?y" };
            Pattern::new(op, format!("({op} {operands})"))
        };
        Ok(TAKES.into_iter().map(pattern).collect())
    }

    fn check(&self, _: &Region, _: &Options) -> Result<(), Refusal> {
        Ok(())
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        let Job { region, options, .. } = *job;
        if region.nodes.iter().any(|node| node.op == options.text("crash")) {
            std::process::abort();
        }
        let watched = |&value: &usize| region.values[value].dtype == DType::F32 && region.constant(value).is_none();
        if let Some(value) = (0..region.values.len()).filter(watched).find(|&value| region.observed(value).is_none()) {
            return Err(Error::new(format!("'{}' was not observed", region.values[value].name)));
        }
        let text = serde_json::to_string(region).map_err(|error| Error::new(error.to_string()))?;
        code.write_all(text.as_bytes())?;
        Ok(Generated::default())
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        job.region.constants.iter().try_for_each(|constant| claims.unused(constant.id))
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

impl HostRuntime for Calibrated {
    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        Err(Error::new("this backend computes nothing"))
    }
}

byoc_plugin_api::register_backend!(Calibrated);
byoc_plugin_api::export_plugin!();
