//! Two backends on a simulated device, so that what core does with memory that is not the host's is tested on every
//! machine. `simdev` opens the domain `sim`; `simdev-guest` runs its regions there and needs `simdev` for that. The device is
//! strict: whatever a real one leaves undefined is an error here, or comes out as NaN.
//!
//! Where the environment variable `BYOC_SIMDEV_LOG` names a file, every call of a domain, and of the regions in it, is a
//! line there.

mod codegen;
mod domain;
mod host;
mod kernels;
mod log;
mod memory;
mod region;
mod run;
mod sim;

use std::io::Write;

use byoc_plugin_api::{
    Backend, Candidate, Claims, ConstantAccess, DType, Description, DeviceConstants, DeviceExecutable, DeviceRuntime,
    Domain, DomainHandles, Environment, Error, Generated, Job, OptionSpec, Options, Pattern, Refusal, RefusalCode,
    Region, RegionPolicy, Runtime, Tool,
};

use crate::log::panic_if;

/// One of the two.
struct Simulated {
    name: &'static str,
    summary: &'static str,
    /// The operators that it takes, unless the user names others.
    takes: &'static str,
    /// Whether neighbouring nodes become one region.
    merge: bool,
    /// Whether it opens the domain.
    opens: bool,
}

const SIMDEV: Simulated = Simulated {
    name: "simdev",
    summary: "Runs on a simulated device, which it opens",
    takes: "MatMul Add Relu",
    merge: true,
    opens: true,
};

const GUEST: Simulated = Simulated {
    name: "simdev-guest",
    summary: "Runs on the simulated device that simdev opens",
    takes: "Mul Neg Relu",
    merge: false,
    opens: false,
};

impl Simulated {
    fn run_options(&self) -> Vec<OptionSpec> {
        let wrong: Vec<_> = run::Wrong::NAMES.iter().map(|&(name, _)| name).collect();
        let mut options = vec![
            OptionSpec::bool("unrecordable", false, "Say that regions cannot be recorded"),
            OptionSpec::bool(
                "brief",
                false,
                "Say that recordings do not last when regions are prepared for other shapes",
            ),
            OptionSpec::int("scratch", 0, "Bytes of scratch memory that each region asks for"),
            OptionSpec::choice("wrong", &wrong, "What the regions do wrong"),
            OptionSpec::text("panic", "", "Name of the call that panics"),
        ];
        if self.opens {
            options.extend([
                OptionSpec::int("memory", 4294967296, "Bytes of memory that the device has"),
                OptionSpec::text("fault", "", "Operator whose kernel faults"),
                OptionSpec::bool("records", true, "Whether the device records work"),
                OptionSpec::bool("fatal", false, "Whether there is a kernel that loses the device"),
                OptionSpec::bool("off", false, "Whether the device is switched off, so that it cannot be opened"),
            ]);
        }
        options
    }
}

impl Backend for Simulated {
    fn describe(&self) -> Description {
        Description {
            name: self.name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: self.summary.into(),
            regions: RegionPolicy { merge: self.merge, ..RegionPolicy::default() },
            constant_access: ConstantAccess::Load,
            options: vec![
                OptionSpec::text("takes", self.takes, "Operators that it takes"),
                OptionSpec::bool("named", true, "Whether the code has the name of its region"),
            ],
            domain: Some("sim".into()),
            run_options: self.run_options(),
            candidates: self.opens,
            ..Description::default()
        }
    }

    fn patterns(&self, options: &Options) -> Result<Vec<Pattern>, Error> {
        let pattern = |op: &str| match kernels::operands(op) {
            Some(1) => Ok(Pattern::new(op, format!("({op} ?x)"))),
            Some(_) => Ok(Pattern::new(op, format!("({op} ?x ?y)"))),
            None => Err(Error::new(format!("the device has no kernel for '{op}'"))),
        };
        options.text("takes").split_whitespace().map(pattern).collect()
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        if let Some(value) = candidate.values.iter().find(|value| value.dtype != DType::F32) {
            return Err(Refusal::new(
                RefusalCode::Type,
                format!("'{}' is {}, and only f32 is taken", value.name, value.dtype),
            ));
        }
        let products = candidate.nodes.iter().filter(|node| node.op == "MatMul");
        let mut operands =
            products.flat_map(|node| node.inputs.iter().flatten()).map(|&value| &candidate.values[value]);
        match operands.find(|value| value.shape.len() != 2) {
            Some(value) => Err(Refusal::new(RefusalCode::Shape, format!("'{}' is not a matrix", value.name))),
            None => Ok(()),
        }
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        serde_json::to_writer(code, &codegen::Program::of(job.region, job.options.bool("named"))?)?;
        Ok(Generated::default())
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        job.region.constants.iter().try_for_each(|constant| claims.host(constant.id))
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Device(self)
    }

    fn tools(&self, options: &Options) -> Result<Vec<Tool>, Error> {
        panic_if(options.text("panic"), "tools");
        let simulator = Tool { name: "the simulator".into(), needed_for: "running".into(), ..Tool::default() };
        Ok(vec![match options.bool("off") {
            true => Tool { hint: Some("Leave out simdev.off".into()), ..simulator },
            false => Tool { found: Some("0.1.0, within the plugin".into()), ..simulator },
        }])
    }

    fn candidates(&self, code: &[u8], options: &Options) -> Result<Vec<Candidate>, Error> {
        panic_if(options.text("panic"), "candidates");
        codegen::Program::read(code)?.candidates(options.bool("fatal"))
    }
}

impl DeviceRuntime for Simulated {
    fn open_domain(&self, ordinal: u32, options: &Options) -> Result<Box<dyn Domain>, Error> {
        match self.opens {
            true => Ok(Box::new(domain::Opened::open(ordinal, options)?)),
            false => Err(Error::new("this backend opens no memory domain")),
        }
    }

    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &DeviceConstants<'a>,
        environment: &Environment,
        domain: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        Ok(Box::new(region::Loaded::load(code, constants, &environment.options, domain)?))
    }
}

byoc_plugin_api::register_backend!(SIMDEV);
byoc_plugin_api::register_backend!(GUEST);
byoc_plugin_api::export_plugin!("simdev", "simdev-guest");
