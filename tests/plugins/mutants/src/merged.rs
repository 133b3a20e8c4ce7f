//! Regions of several nodes: a program of steps whose buffers are shared by values that are not alive at once.

mod plan;
mod run;
#[cfg(test)]
mod tests;

use std::io::Write;

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, ConstantAccess, Description, Environment, Error, Executable, Generated,
    HostRuntime, Job, Options, Pattern, Refusal, Region, RegionPolicy, Runtime,
};

use crate::backend::{bug_option, pattern};
use crate::call::Bugs;
use crate::check;
use plan::Program;

pub(crate) const BUGS: Bugs = &[
    ("none", "Nothing is wrong"),
    ("freed-after-first-read", "A buffer is free after the first step that reads it"),
    ("freed-at-second-output", "A value that is an output as well is free when it was written there"),
    ("in-place-shared", "A step writes into the buffer of its left operand, although it is read again"),
    ("in-place-broadcast", "A step writes into the buffer of a left operand that is broadcast"),
    ("in-place-matmul", "A product is written into the buffer of its left operand"),
    ("matmul-not-cleared", "A product is added to what its buffer had before"),
    ("diamond-order", "The second branch of a diamond is computed after the step that joins it"),
    ("inner-output", "A value that is both read and an output is not written to the output"),
    ("final-outputs-first", "Outputs that the region does not read itself come before the others"),
    ("constant-second-use", "A constant reads as zeros for the second step that reads it"),
    ("constant-of-first", "All products have the weights of the first one"),
    ("sub-swapped-inner", "Sub exchanges its operands where the left one is an inner value"),
    ("sub-swapped-constant", "Sub exchanges its operands where the left one is a constant"),
    ("relu-into-producer", "Relu is computed in the buffer of its operand, although it is read again"),
    ("relu-of-neg", "Relu behind Neg changes places with it"),
    ("neg-of-sub", "Neg behind Sub is left out"),
    ("last-activation", "Relu or Sigmoid at the end of three nodes and more is left out"),
    ("square", "Mul of a value and itself is that value"),
    ("double", "Add of a value and itself is that value"),
    ("add-behind-mul", "Add behind a Mul that somebody else reads as well leaves out the other operand"),
    ("input-twice", "The second step that reads an input of two and more reads the next input"),
    ("inputs-by-last-read", "Inputs are taken in the order in which they are read for the last time"),
    ("fourth-node", "The fourth node and later ones with one operand are left out"),
    ("sigmoid-twice", "The second Sigmoid of a region is left out"),
    ("residual-dropped", "Add of an inner value and an input of the region leaves out the input"),
    ("bias-of-first", "All Adds with a constant have that of the first one"),
    ("batch-remembered", "Elements beyond the size of the first run are 0"),
];

/// The backend.
pub(crate) struct Merged;

/// What it takes, in any number together.
const PATTERNS: &[&str] =
    &["(MatMul ?x ?y)", "(Add ?x ?y)", "(Sub ?x ?y)", "(Mul ?x ?y)", "(Relu ?x)", "(Sigmoid ?x)", "(Neg ?x)"];

impl Backend for Merged {
    fn describe(&self) -> Description {
        Description {
            name: "mutant-merged".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Regions of several nodes, with a bug if one is asked for".into(),
            regions: RegionPolicy { merge: true, ..RegionPolicy::default() },
            constant_access: ConstantAccess::Load,
            options: vec![bug_option(BUGS)],
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(PATTERNS.iter().map(|text| pattern(text)).collect())
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        candidate.nodes.iter().try_for_each(|node| check::types(candidate, node))
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        serde_json::to_writer(code, &plan::plan(job.region, job.options.text("bug"))?)?;
        Ok(Generated::default())
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        job.region.constants.iter().try_for_each(|constant| claims.host(constant.id))
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

impl HostRuntime for Merged {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let program: Program = serde_json::from_slice(code)?;
        program.validate(BUGS)?;
        Ok(Box::new(run::Loaded::new(program, constants)?))
    }
}
