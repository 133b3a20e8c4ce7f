//! Every tile that `cutlass` has, at its edges: rings of stages that are used more than once, blocks that get a second tile,
//! the last rows and columns of a matrix, sums of less than one step, batches of one and two dimensions, every activation,
//! with and without a bias and C. As in `correctness`, memory begins as NaN.
//!
//! The choice by size would take few of these tiles for matrices that can be checked, so each is asked for by its name.

use byoc_core::runtime::Queueing;
use byoc_plugin_api::DType;
use fastrand::Rng;

use super::Scope;
use crate::check::Check;
use crate::fixture::{Fixture, PRODUCTS};
use crate::net::{Allowed, Id, Net, Op};
use crate::report::Result;
use crate::watch::Poisoned;

/// A tile, as in `choice.rs` of the backend: rows, columns and steps of K, stages, and the instruction with the schedule.
/// `mma` has half of the K in f32.
#[derive(Clone, Copy)]
pub(super) struct Tile {
    pub(super) m: usize,
    pub(super) n: usize,
    k: usize,
    stages: usize,
    pub(super) by: &'static str,
    /// Blocks that share K.
    pub(super) blocks: usize,
}

const fn mma(m: usize, n: usize, k: usize, stages: usize) -> Tile {
    Tile { m, n, k, stages, by: "mma", blocks: 1 }
}

const fn wgmma(m: usize, n: usize, stages: usize) -> Tile {
    Tile { m, n, k: 64, stages, by: "wgmma", blocks: 1 }
}

const fn ping_pong(m: usize, n: usize, stages: usize) -> Tile {
    Tile { by: "wgmma ping-pong", ..wgmma(m, n, stages) }
}

const fn split_2(m: usize, n: usize, stages: usize) -> Tile {
    Tile { by: "wgmma split-2", blocks: 2, ..wgmma(m, n, stages) }
}

const fn split_4(m: usize, n: usize, stages: usize) -> Tile {
    Tile { by: "wgmma split-4", blocks: 4, ..wgmma(m, n, stages) }
}

pub(super) const TILES: [Tile; 20] = [
    wgmma(64, 64, 12),
    wgmma(64, 128, 8),
    wgmma(64, 256, 5),
    wgmma(128, 64, 8),
    wgmma(128, 128, 6),
    wgmma(128, 192, 5),
    wgmma(128, 256, 4),
    ping_pong(128, 128, 6),
    ping_pong(64, 128, 8),
    split_2(64, 64, 8),
    split_4(64, 128, 6),
    split_4(128, 64, 6),
    mma(256, 128, 32, 3),
    mma(128, 256, 32, 3),
    mma(128, 128, 32, 4),
    mma(128, 64, 32, 5),
    mma(64, 128, 32, 5),
    mma(64, 64, 64, 4),
    mma(32, 64, 64, 5),
    mma(16, 128, 64, 4),
];

/// More tiles than twice the multiprocessors of any GPU of today, and than four times: with ping-pong a group has every other one.
const MANY: usize = 300;
const MANY_IN_TURN: usize = 600;

/// What is special about the sizes of a product.
#[derive(Clone, Copy, PartialEq)]
enum Sizes {
    /// Every stage is used twice, the last step is short, and so are the last rows and columns; few and many rows.
    Edges,
    /// Less than one step.
    Short,
    /// As many steps as stages.
    Ring,
    /// A batch of two dimensions, of which W has one only.
    Batches,
    /// Rows that are no multiple of 16 bytes, of which `mma` reads as many elements at once.
    Narrow(usize),
}

/// A product by a tile.
#[derive(Clone, Copy)]
struct Spec {
    tile: Tile,
    sizes: Sizes,
    dtype: DType,
    /// Whether W is stored as N x K.
    transposed: bool,
    /// Which of the epilogues.
    number: usize,
}

/// What follows the product.
const ACTIVATIONS: [Option<Op>; 5] = [None, Some(Op::Relu), Some(Op::Gelu), Some(Op::GeluErf), Some(Op::Sigmoid)];

pub(super) fn checks(scope: &Scope) -> Vec<Check> {
    let mut specs = Vec::new();
    for (at, tile) in TILES.into_iter().enumerate() {
        let mut add = |sizes, dtype, transposed| {
            let number = specs.len();
            specs.push(Spec { tile, sizes, dtype, transposed, number });
        };
        add(Sizes::Edges, DType::F16, false);
        if tile.is_wgmma() {
            add(Sizes::Edges, DType::F16, true);
            add(Sizes::Edges, DType::BF16, false);
            add(Sizes::Edges, DType::BF16, true);
            // Blocks that share K have two steps each.
            if tile.blocks == 1 {
                add(Sizes::Short, DType::F16, at % 2 == 0);
            }
            add(Sizes::Ring, DType::F16, at % 2 == 1);
            add(Sizes::Batches, DType::F16, false);
        } else {
            add(Sizes::Edges, DType::F32, at % 2 == 0);
            add(Sizes::Narrow([4, 2, 1][at % 3]), DType::F16, at % 2 == 1);
            add(Sizes::Batches, if at % 2 == 0 { DType::BF16 } else { DType::F32 }, false);
        }
    }
    // wgmma is for one architecture, which stand-ins do not run.
    specs.retain(|spec| !spec.tile.is_wgmma() || !scope.quick);
    specs.into_iter().map(|spec| Check::one(spec.name(), move |fixture| spec.check(fixture))).collect()
}

impl Tile {
    pub(super) fn is_wgmma(&self) -> bool {
        self.by.starts_with("wgmma")
    }

    /// Its name, as the option `tile` takes it for elements of 16 bits.
    pub(super) fn name(&self) -> String {
        let Tile { m, n, k, stages, by, .. } = self;
        format!("{m}x{n}x{k}_{stages} {by}")
    }
}

impl Spec {
    fn tile(&self) -> String {
        let Tile { k, stages, .. } = self.tile;
        let (k, stages) = match (self.dtype, self.sizes) {
            (DType::F32, _) => (k / 2, stages),
            (_, Sizes::Narrow(1)) => (k, 2),
            _ => (k, stages),
        };
        Tile { k, stages, ..self.tile }.name()
    }

    fn name(&self) -> String {
        let sizes = match self.sizes {
            Sizes::Edges => "edges".into(),
            Sizes::Short => "short".into(),
            Sizes::Ring => "ring".into(),
            Sizes::Batches => "batches".into(),
            Sizes::Narrow(width) => format!("rows of {width} elements"),
        };
        let dtype = if self.dtype == DType::F32 { "tf32".into() } else { self.dtype.to_string() };
        format!("{} {dtype} {}{sizes}", self.tile(), if self.transposed { "transposed " } else { "" })
    }

    /// Columns and sums.
    fn columns(&self) -> [usize; 2] {
        let Tile { n, k, stages, blocks, .. } = self.tile;
        match self.sizes {
            Sizes::Edges => [2 * n + 8, k * (2 * stages + 1) * blocks + 8],
            Sizes::Short => [n + 8, 8],
            Sizes::Ring => [n, k * stages * blocks],
            Sizes::Batches => [n + 8, 2 * k * blocks + 8],
            Sizes::Narrow(width) => [n + width, 2 * k + width],
        }
    }

    /// Rows of each run. Kernels are compiled for all of them.
    fn rows(&self, quick: bool) -> Vec<usize> {
        let (m, [n, _]) = (self.tile.m, self.columns());
        match self.sizes {
            // Loops on the CPU take long.
            _ if quick => vec![m - 1, m + 1],
            Sizes::Edges => {
                let many = if self.tile.by.ends_with("ping-pong") { MANY_IN_TURN } else { MANY };
                vec![1, m - 1, m + 1, m * many.div_ceil(n.div_ceil(self.tile.n)) - 1]
            }
            _ => vec![m + 1, 2 * m],
        }
    }

    fn net(&self, random: &mut Rng) -> Net {
        let ([n, k], mut net) = (self.columns(), Net::new(self.dtype));
        if self.sizes == Sizes::Batches {
            let (x, w) = (net.input(&[2, 3, self.tile.m + 1, k]), net.input(&[3, k, n]));
            net.step(Op::MatMul, &[x, w]);
            return net;
        }
        let x = net.batch_input(&[1, k]);
        let w = if self.transposed {
            let w = net.constant(random, &[n, k], 1.0);
            net.step(Op::Transpose, &[w])
        } else {
            net.constant(random, &[k, n], 1.0)
        };
        let c = (self.number % 3 == 1).then(|| net.batch_input(&[1, n]));
        let mut value = net.step(Op::MatMul, &[x, w]);
        if self.number % 4 != 3 {
            let bias = net.constant(random, &[n], 1.0);
            value = net.step(Op::Add, &[value, bias]);
        }
        if let Some(c) = c {
            value = net.step(Op::Add, &[value, c]);
        }
        self.activated(&mut net, value);
        net
    }

    fn activated(&self, net: &mut Net, value: Id) {
        match ACTIVATIONS[self.number % 5] {
            None => {}
            Some(Op::Sigmoid) => {
                let gate = net.step(Op::Sigmoid, &[value]);
                net.step(Op::Mul, &[value, gate]);
            }
            Some(op) => drop(net.step(op, &[value])),
        }
    }

    fn check(&self, fixture: &Fixture) -> Result<String> {
        if let Some(why) = fixture.without_hopper().filter(|_| self.tile.is_wgmma()) {
            return Ok(why);
        }
        let mut random = fixture.random(&self.name());
        let (net, tile, tf32) = (self.net(&mut random), self.tile(), self.dtype == DType::F32);
        let settings = [("cutlass.tile", tile.as_str()), ("cutlass.math", if tf32 { "tf32" } else { "f32" })];
        let compiled = fixture.compile("tile", &net.onnx(), &[PRODUCTS], &settings)?;
        let mut session = Poisoned::load(fixture, &compiled.path, Queueing::Recorded)?;
        let allowed = Allowed::new(self.dtype, tf32, self.number % 5 > 1);
        let (mut worst, rows) = (0f64, self.rows(fixture.quick));
        for &rows in &rows {
            let inputs = net.inputs(&mut random, rows);
            let found = session.run(&inputs)?;
            let (expected, sums) = net.evaluate(&inputs);
            let part = allowed.worst(&found, &expected, &sums);
            worst = worst.max(part.map_err(|error| format!("{rows} rows: {error}"))?);
        }
        Ok(format!("rows {rows:?}, {:?} columns and sums, {worst:.3} of what is allowed", self.columns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_of_the_backend_is_tested() {
        let (mut own, mut all) = (TILES.map(|tile| tile.name()).to_vec(), byoc_cutlass::all_kernels::tile_names());
        own.sort();
        all.sort();
        assert_eq!(own, all);
    }
}
