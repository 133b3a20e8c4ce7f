//! What is written once for all units and ways, compiled for each of them.

use super::terms::{Multiplier, One, Six, Terms, Three};
use super::{Dots, Tiles, Unit};
use crate::kernels::precision::Math;

/// A computation by products of bf16.
pub(crate) trait Job {
    /// What it returns.
    type Out;

    /// The body; `#[inline(always)]`, so that it takes over the features of the function it is inlined in.
    ///
    /// # Safety
    /// The processor has the unit and AVX-512; no unit of this thread is in use.
    unsafe fn run<T: Terms, M: Multiplier>(self) -> Self::Out;
}

/// Runs the job on a unit, in one of its ways.
///
/// # Safety
/// As [`Job::run`].
pub(crate) unsafe fn run<J: Job>(unit: Unit, math: Math, job: J) -> J::Out {
    // SAFETY: the caller vouches for the unit.
    unsafe {
        match (unit, math) {
            (Unit::Dots, _) => on_dots(job),
            (Unit::Tiles, Math::Bf16x6) => on_tiles::<Six, J>(job),
            (Unit::Tiles, Math::Bf16x3) => on_tiles::<Three, J>(job),
            (Unit::Tiles, Math::Bf16 | Math::F32) => on_tiles::<One, J>(job),
        }
    }
}

#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
unsafe fn on_tiles<T: Terms, J: Job>(job: J) -> J::Out {
    // SAFETY: the caller vouches for the unit.
    unsafe { job.run::<T, Tiles>() }
}

#[target_feature(enable = "avx512bf16,avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")]
unsafe fn on_dots<J: Job>(job: J) -> J::Out {
    // SAFETY: the caller vouches for the unit.
    unsafe { job.run::<One, Dots>() }
}
