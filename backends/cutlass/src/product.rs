//! A fused GEMM as a step: what it computes, and its kernel.

pub(crate) mod choice;
mod emit;
mod gemm;
mod hopper;
mod mma;

use byoc_dim as dim;
use byoc_dim::Expr;
use byoc_nvidia::compile::{Arch, Needs};
use byoc_nvidia::match_product::{self, Erf, MatchedProduct, Supported};
use byoc_nvidia::product::Product as FusedProduct;
use byoc_nvidia::program::{Argument, BufferRef, Launch, Limit, SizeRange};
use byoc_plugin_api::{DType, Dim, Error, Options, Refusal, RefusalCode, Region};
use serde::{Deserialize, Serialize};

pub(crate) use self::choice::{By, Rows, Tile, candidates};
pub(crate) use self::gemm::{Batch, Gemm, Matrix, Order};
use crate::buffers::{Buffers, Strides, Use};
use crate::math;
use crate::source::Kernel;

/// The supported fused GEMMs. f32 is listed so that its refusal without `math=tf32` has a reason of its own.
pub(crate) const SUPPORTED: Supported =
    Supported { types: &[DType::F16, DType::BF16, DType::F32], erf: Erf::Exact, silu: true, wide_bias: true };

/// A product of a region.
pub(crate) struct Product {
    fused: FusedProduct<usize>,
    gemm: Gemm,
    output: usize,
    /// Constants whose numbers are in the code.
    numbers: Vec<usize>,
    /// The name of the only tile that the user allows, if there is one.
    tile: Option<String>,
}

/// The option that names a tile.
pub(crate) const TILE: &str = "tile";

/// The most rows of a matrix: kernels count them in 32 bits.
const MOST_ROWS: usize = i32::MAX as usize;

/// From this a kernel can be generated again, also with another tile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Recipe {
    /// What is computed.
    pub(crate) gemm: Gemm,
    /// The chosen tile.
    pub(crate) tile: Tile,
    /// The buffers of x, w, the bias and c if there are any, and y.
    pub(crate) places: Vec<BufferRef>,
    /// The rows that it is for, if kernels of other tiles are for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rows: Option<Rows>,
}

impl Recipe {
    /// Checks a recipe from an untrusted file: sizes, the tile, and the number of operands.
    pub(crate) fn check(&self, arch: Arch) -> Result<(), &'static str> {
        let Gemm { n, k, x, w, bias, beta, .. } = &self.gemm;
        if self.gemm.limits().is_err() || [*n, *k, x.distance, w.distance].contains(&0) {
            return Err("a product has an invalid size or stride");
        }
        if self.places.len() != 3 + usize::from(bias.is_some()) + usize::from(beta.is_some()) {
            return Err("a product has the wrong number of operands");
        }
        if !choice::candidates(&self.gemm, arch).contains(&self.tile) {
            return Err("a product has a tile that its architecture does not support");
        }
        Ok(())
    }
}

impl Product {
    /// Matches a region to one product.
    pub(crate) fn read(region: &Region, options: &Options, strides: &Strides<'_>) -> Result<Product, Refusal> {
        let MatchedProduct { product: fused, numbers } = match_product::read(region, &SUPPORTED)?;
        if fused.dtype == DType::F32 && !math::tf32(options) {
            let message = "the product is f32, and tensor cores round it to TF32; math=tf32 allows it";
            return Err(Refusal::new(RefusalCode::Type, message));
        }
        let gemm = Gemm::of(&fused, region, strides)?;
        let output = *region.outputs.first().ok_or_else(|| Refusal::new(RefusalCode::Other, "there is no result"))?;
        let tile = Some(options.text(TILE)).filter(|name| !name.is_empty()).map(str::to_owned);
        Ok(Product { fused, gemm, output, numbers, tile })
    }

    /// The limits of its kernels that only a run can check.
    pub(crate) fn limits(&self) -> Vec<Limit> {
        let Gemm { m, n, .. } = &self.gemm;
        let limit = || Limit { of: format!("a matrix of {n} columns"), elements: m.clone(), most: MOST_ROWS as u64 };
        if m.fixed().is_none() { vec![limit()] } else { Vec::new() }
    }

    /// The tiles for an architecture: the fastest by estimate, each for its rows, or the one that the user names.
    fn chosen(&self, arch: Arch) -> Result<Vec<(Option<Rows>, Tile)>, Error> {
        let Some(name) = &self.tile else { return Ok(choice::by_rows(&self.gemm, arch)) };
        let candidates = choice::candidates(&self.gemm, arch);
        let found = candidates.iter().find(|tile| tile.name() == *name).ok_or_else(|| {
            let names: Vec<_> = candidates.iter().map(|tile| tile.name()).collect();
            let error = Error::new(format!("{} has no tile '{name}' for {arch}", self.name()));
            error.hint(format!("Its tiles are {}", names.join(", ")))
        })?;
        Ok(vec![(None, *found)])
    }

    /// The uses of constants: operands are read in place.
    pub(crate) fn uses(&self) -> Vec<(usize, Use)> {
        let FusedProduct { x, w, c, bias, .. } = &self.fused;
        let operands = [Some(x.from), Some(w.from), c.as_ref().map(|c| c.from), *bias];
        let read = operands.into_iter().flatten().map(|value| (value, Use::Host));
        read.chain(self.numbers.iter().map(|&value| (value, Use::Embedded))).collect()
    }

    /// Its name: type and sizes.
    pub(crate) fn name(&self) -> String {
        format!("product_{}_{}_{}", self.gemm.dtype, self.gemm.n, self.gemm.k)
    }

    /// The kernels for an architecture, of which a run launches the one for its rows.
    pub(crate) fn kernels(&self, arch: Arch, memory: &mut Buffers<'_>) -> Result<Vec<Kernel>, Error> {
        let mut pointers = vec![memory.operand(self.fused.x.from)?, memory.operand(self.fused.w.from)?];
        for value in [self.fused.bias, self.fused.c.as_ref().map(|c| c.from)].into_iter().flatten() {
            pointers.push(memory.operand(value)?);
        }
        pointers.push(memory.place(self.output)?);
        let recipe = |(rows, tile)| Recipe { gemm: self.gemm.clone(), tile, places: pointers.clone(), rows };
        let recipes = self.chosen(arch)?.into_iter().map(recipe).enumerate();
        recipes.map(|(at, recipe)| recipe.kernel(&format!("k{at}"), arch)).collect()
    }
}

impl Recipe {
    /// Its name among the recipes of the same product.
    pub(crate) fn name(&self) -> String {
        let tile = self.tile.name();
        match self.rows {
            None => tile,
            Some(Rows { least: 0, most, .. }) => format!("{tile} for up to {most} rows"),
            Some(Rows { least, most: u64::MAX, .. }) => format!("{tile} for {least} rows and more"),
            Some(Rows { least, most, .. }) => format!("{tile} for {least} to {most} rows"),
        }
    }

    /// All tiles for the product, the fastest for its rows by estimate first.
    pub(crate) fn tiles(&self, arch: Arch) -> Vec<Tile> {
        match self.rows {
            Some(rows) => choice::candidates_for(&self.gemm, arch, rows.likely),
            None => choice::candidates(&self.gemm, arch),
        }
    }

    /// The kernel.
    pub(crate) fn kernel(&self, symbol: &str, arch: Arch) -> Result<Kernel, Error> {
        let mut kernel = kernel(symbol, &self.gemm, self.tile, arch, &self.places)?;
        let range = |Rows { least, most, .. }| SizeRange { of: self.gemm.m.clone(), least, most };
        kernel.launch.only = self.rows.map(range);
        Ok(Kernel { recipe: serde_json::to_value(self)?, ..kernel })
    }
}

/// The kernel of a product with a tile.
fn kernel(symbol: &str, gemm: &Gemm, tile: Tile, arch: Arch, places: &[BufferRef]) -> Result<Kernel, Error> {
    let mut sizes = Sizes::default();
    let mut arguments: Vec<_> = places.iter().copied().map(Argument::Pointer).collect();
    let blocks = blocks(gemm, tile)?;
    // One block per multiprocessor, but for clusters: they have a tile each.
    let persistent = tile.by == By::Wgmma && tile.blocks() == 1;
    let (parts, text, grid, memory) = match tile.by {
        By::Mma => (mma::PARTS, mma::text(symbol, gemm, tile, places, &mut sizes)?, blocks, mma::MEMORY),
        By::Wgmma => {
            let &[x, w, ..] = places else { return Err(Error::new("a product needs two factors")) };
            arguments.splice(..2, hopper::maps(gemm, tile, x, w)?);
            let grid = if persistent {
                let most = Expr::from(choice::multiprocessors(arch) as i64);
                Expr::of(&blocks)?.smaller(&most)?.to_dim()?
            } else {
                dim::mul(&blocks, &Dim::Fixed(tile.blocks() as usize))?
            };
            (hopper::PARTS, hopper::text(symbol, gemm, tile, places, &mut sizes)?, grid, hopper::MEMORY)
        }
    };
    arguments.extend(sizes.0.into_iter().map(Argument::Size));
    let launch = Launch {
        cubin: 0,
        kernel: symbol.to_owned(),
        grid: [grid, Dim::Fixed(1), Dim::Fixed(1)],
        block: [tile.threads(), 1, 1],
        persistent,
        waits: true,
        shared: 0,
        arguments,
        nodes: Vec::new(),
        only: None,
    };
    let launch_info = Some(vec![tile.m, tile.n, tile.k]);
    let needs = Needs { cutlass: true, ..Needs::default() };
    Ok(Kernel { parts: parts.to_vec(), text, launch, launch_info, needs, memory, recipe: serde_json::Value::Null })
}

/// The number of tiles of all matrices of the batch.
fn blocks(gemm: &Gemm, tile: Tile) -> Result<Dim, Error> {
    let rows = dim::ceil_div(&gemm.m, &Dim::Fixed(tile.m as usize))?;
    let tiles = dim::mul(&rows, &Dim::Fixed(gemm.n.div_ceil(tile.n as usize)))?;
    let batch = gemm.batch.iter().try_fold(Dim::Fixed(1), |count, batch| dim::mul(&count, &batch.count))?;
    Ok(dim::mul(&tiles, &batch)?)
}

/// The unknown sizes, which are arguments of the kernel, in the order of its parameters.
#[derive(Default)]
pub(crate) struct Sizes(Vec<Dim>);

impl Sizes {
    /// A size as C++: a number, or the name of a parameter.
    pub(crate) fn text(&mut self, size: &Dim) -> String {
        if let Dim::Fixed(size) = size {
            return size.to_string();
        }
        let known = self.0.iter().position(|known| known == size);
        let at = known.unwrap_or_else(|| {
            self.0.push(size.clone());
            self.0.len() - 1
        });
        format!("s{at}")
    }
}

#[cfg(test)]
mod tests;
