//! The parts of the suite, a file each.

mod checker;
mod correctness;
mod environment;
mod errors;
mod kernels;
mod memory;
mod operators;
mod replay;
pub(crate) mod times;

use crate::args::Part;
use crate::fixture::Fixture;
use crate::report::Report;

/// Does a part.
pub(crate) fn run(part: Part, fixture: &Fixture, report: &mut Report) {
    match part {
        Part::Environment => environment::run(fixture, report),
        Part::Correctness => correctness::run(fixture, report),
        Part::Kernels => kernels::run(fixture, report),
        Part::Operators => operators::run(fixture, report),
        Part::Replay => replay::run(fixture, report),
        Part::Memory => memory::run(fixture, report),
        Part::Errors => errors::run(fixture, report),
        Part::Times => times::run(fixture, report),
        Part::Checker => checker::run(fixture, report),
    }
}
