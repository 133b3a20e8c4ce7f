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
use crate::bed::Bed;
use crate::report::Report;

/// Does a part.
pub(crate) fn run(part: Part, bed: &Bed, report: &mut Report) {
    match part {
        Part::Environment => environment::run(bed, report),
        Part::Correctness => correctness::run(bed, report),
        Part::Kernels => kernels::run(bed, report),
        Part::Operators => operators::run(bed, report),
        Part::Replay => replay::run(bed, report),
        Part::Memory => memory::run(bed, report),
        Part::Errors => errors::run(bed, report),
        Part::Times => times::run(bed, report),
        Part::Checker => checker::run(bed, report),
    }
}
