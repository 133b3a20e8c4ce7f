//! Products of numbers of bf16 that are added up in f32, by matrix units (AMX) or by dot products of vector units (AVX512-BF16).
//!
//! Both read the same form of A and B: a row of A has 32 elements of k as 16 pairs, and B has 16 rows of 16 columns, each a pair; pair i
//! of a row of A meets row i of B. Which two elements of k make a pair is free as long as A and B agree, and each unit's own matter.

#[cfg(target_arch = "x86_64")]
mod compiled;
#[cfg(target_arch = "x86_64")]
mod dots;
#[cfg(target_arch = "x86_64")]
mod pieces;
#[cfg(target_arch = "x86_64")]
pub(crate) mod terms;
#[cfg(target_arch = "x86_64")]
mod tiles;

#[cfg(target_arch = "x86_64")]
pub(crate) use compiled::{Job, run};
#[cfg(target_arch = "x86_64")]
pub(crate) use {super::amx::Tiles, dots::Dots};

use super::precision::Math;

/// Tiles are 16 rows of A and 16 columns of B, each of 16 pairs.
#[cfg(target_arch = "x86_64")]
pub(crate) use super::amx::{TILE, TILE_BYTES};

/// What computes such products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no other processor is known to have one"))]
pub(crate) enum Unit {
    /// Matrix units.
    Tiles,
    /// Dot products of pairs, on vector units.
    Dots,
}

impl Unit {
    /// The one of this processor, if there is one that is faster so than by multiply-adds of f32. It has to have AVX-512 too.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn of(math: Math) -> Option<Unit> {
        // The question for matrix units has the operating system provide them, so it is asked only by those who want them.
        let there = |unit: &Unit| match unit {
            Unit::Tiles => super::amx::multiplies_bf16(),
            Unit::Dots => dots::are_fast(),
        };
        [Unit::Tiles, Unit::Dots].into_iter().find(|unit| unit.computes(math) && there(unit))
    }

    /// No other processors are known here.
    #[cfg(not(target_arch = "x86_64"))]
    pub(crate) fn of(_: Math) -> Option<Unit> {
        None
    }

    /// Whether it is for this: dot products have twice the rate of multiply-adds, which three products of pieces use up.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "no other processor is known to have one"))]
    pub(crate) fn computes(self, math: Math) -> bool {
        match self {
            Unit::Tiles => math != Math::F32,
            Unit::Dots => math == Math::Bf16,
        }
    }
}
