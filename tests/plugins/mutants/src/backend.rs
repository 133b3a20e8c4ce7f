//! One of the backends: what it takes, and the calls of byoc.

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, Constant, ConstantAccess, Description, Environment, Error, Executable, Generated,
    HostRuntime, Job, Node, Operator, OptionSpec, Options, OutputType, Pattern, Refusal, Region, Runtime,
};

use crate::call::Bugs;
use crate::check;
use crate::panels;
use crate::program::{Kernel, Loaded, Place, Program, embedded};

/// A backend: naive kernels for one family of operators.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    /// Texts of patterns; each is named by its first operators.
    pub(crate) patterns: &'static [&'static str],
    pub(crate) bugs: Bugs,
    /// Operators that core computes by others where nobody takes them.
    pub(crate) operators: fn() -> Vec<Operator>,
    /// The types of outputs of those operators that have no rule.
    pub(crate) infer: fn(&Region) -> Result<OutputType, Error>,
    /// Looks at ranks and attributes of a node; types were looked at before.
    pub(crate) check: fn(&Region, &Node) -> Result<(), Refusal>,
    /// Where a constant is best.
    pub(crate) wants: fn(&Region, &Constant) -> Wants,
    pub(crate) kernel: Kernel,
}

/// Where a backend wants a constant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    Host,
    Packed,
    Embedded,
}

/// For backends that leave all constants to the host.
pub(crate) fn host(_: &Region, _: &Constant) -> Wants {
    Wants::Host
}

/// For backends that bring no operator, or have a rule for the outputs of each.
pub(crate) fn no_types(_: &Region) -> Result<OutputType, Error> {
    Err(Error::new("there is no operator whose types are not declared"))
}

/// The option that plants a bug.
pub(crate) fn bug_option(bugs: Bugs) -> OptionSpec {
    let names: Vec<_> = bugs.iter().map(|(name, _)| *name).collect();
    OptionSpec::choice("bug", &names, "The bug that is planted")
}

/// The operators of a pattern with `-` between them.
pub(crate) fn pattern(text: &str) -> Pattern {
    let operators = text.split('(').skip(1).filter_map(|part| part.split_whitespace().next());
    Pattern::new(operators.map(|op| op.trim_end_matches(')')).collect::<Vec<_>>().join("-"), text)
}

impl Backend for Mutant {
    fn describe(&self) -> Description {
        Description {
            name: self.name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: self.summary.into(),
            constant_access: ConstantAccess::Both,
            options: vec![bug_option(self.bugs)],
            operators: (self.operators)(),
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(self.patterns.iter().map(|text| pattern(text)).collect())
    }

    fn infer(&self, candidate: &Region, _: &Options) -> Result<Vec<OutputType>, Error> {
        Ok(vec![(self.infer)(candidate)?])
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        for node in &candidate.nodes {
            check::types(candidate, node)?;
            check::constants(candidate, node)?;
            (self.check)(candidate, node)?;
        }
        Ok(())
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        let Job { region, constants, options, .. } = *job;
        let bug = options.text("bug").to_owned();
        let mut places = Vec::new();
        for constant in &region.constants {
            // Somebody else has the model's own bytes: they serve here as well.
            let wants = if constant.shared { Wants::Host } else { (self.wants)(region, constant) };
            places.push(match wants {
                Wants::Host => Place::Host,
                Wants::Packed => Place::Packed,
                Wants::Embedded => {
                    let view = constants.get(constant.id);
                    embedded(view.ok_or_else(|| Error::new(format!("constant {} was not given", constant.id)))?)?
                }
            });
        }
        serde_json::to_writer(code, &Program { bug, region: Program::nameless(region), places })?;
        Ok(Generated::default())
    }

    fn constant_updater(&self, job: &Job<'_>, code: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        let program = Program::read(code, self.bugs)?;
        for (constant, place) in job.region.constants.iter().zip(&program.places) {
            let id = constant.id;
            match place {
                Place::Host => claims.host(id)?,
                Place::Embedded(_) => claims.embedded(id)?,
                Place::Packed => {
                    let view =
                        job.constants.get(id).ok_or_else(|| Error::new(format!("constant {id} was not given")))?;
                    let &[rows, columns] = view.shape() else { return Err(Error::new("only a matrix is packed")) };
                    let (rows, columns) = (rows as usize, columns as usize);
                    let bytes = panels::pack(&program.bug, view, rows, columns)?;
                    claims.packed(id, panels::packed(rows, columns))?.write_all(&bytes)?;
                }
            }
        }
        Ok(())
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

impl HostRuntime for Mutant {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        Ok(Box::new(Loaded::new(Program::read(code, self.bugs)?, self.kernel, constants)?))
    }
}
