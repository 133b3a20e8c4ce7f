//! GEMM kernels of each variant that is generated, in a few sources: for tests that compile them.

use byoc_nvidia::build::Source;
use byoc_nvidia::compile::{Arch, CubinInfo};
use byoc_nvidia::product::Activation;
use byoc_nvidia::program::{BufferRef, Launch};
use byoc_plugin_api::{DType, Dim, Error};

use crate::product::{Batch, By, Gemm, Matrix, Order, Recipe, Tile, candidates, choice};
use crate::source::{self, Kernel};

/// Some kernels in one source.
pub struct KernelSource {
    /// The source.
    pub source: Source,
    kernels: Vec<Kernel>,
}

impl KernelSource {
    /// The launches of its kernels as they are before compilation, without what a cubin tells.
    pub fn unsettled_launches(&self) -> impl Iterator<Item = &Launch> {
        self.kernels.iter().map(|kernel| &kernel.launch)
    }

    /// The launches of its kernels.
    ///
    /// # Errors
    ///
    /// When the cubin disagrees with the computed launches.
    pub fn launches(&self, cubin: &[u8]) -> Result<Vec<Launch>, Error> {
        let info = CubinInfo::of(cubin)?;
        self.kernels.iter().map(|kernel| kernel.settle(&info)).collect()
    }
}

/// The sources for an architecture: every tile, every activation, both orders of both factors, every alignment,
/// with and without a bias and c.
///
/// # Errors
///
/// When a kernel cannot be generated.
pub fn all_kernels(arch: Arch) -> Result<Vec<KernelSource>, Error> {
    [("f16", DType::F16), ("bf16", DType::BF16), ("tf32", DType::F32)]
        .into_iter()
        .map(|(name, dtype)| {
            let mut kernels = Vec::new();
            let tiles = tiles(&gemm(dtype, 0), arch).len();
            // Types differ only in a name: one of them has all tiles.
            let tiles = if dtype == DType::F16 { tiles } else { 2 };
            for at in 0..tiles {
                let gemm = gemm(dtype, at);
                let own = self::tiles(&gemm, arch);
                let tile = own[at % own.len()];
                kernels.push(Recipe { places: places(&gemm), tile, gemm, rows: None }.kernel(&format!("k{at}"), arch)?);
            }
            Ok(KernelSource { source: source::source(name, &kernels), kernels })
        })
        .collect()
}

/// A source with a kernel for every tile of `wgmma` and either order of the second factor, in f16 for sm_90a.
///
/// # Errors
///
/// When a kernel cannot be generated.
pub fn wgmma_kernels() -> Result<KernelSource, Error> {
    let arch = "sm_90a".parse()?;
    let tiles = choice::all().filter(|tile| tile.by == By::Wgmma);
    let both = tiles.flat_map(|tile| [Order::Rows, Order::Columns].map(|order| (tile, order)));
    let kernel = |(at, (tile, order))| {
        let [x, w] = [Order::Rows, order].map(|order| Matrix { order, distance: 1024 });
        let gemm = Gemm { k: 1024, x, w, ..gemm(DType::F16, 0) };
        Recipe { places: places(&gemm), tile, gemm, rows: None }.kernel(&format!("k{at}"), arch)
    };
    let kernels: Vec<_> = both.enumerate().map(kernel).collect::<Result<_, Error>>()?;
    Ok(KernelSource { source: source::source("wgmma", &kernels), kernels })
}

/// The names of all tiles, as the option `tile` takes them for elements of 16 bits.
pub fn tile_names() -> Vec<String> {
    choice::all().map(Tile::name).collect()
}

/// The tiles for the newest instruction of the architecture, as the others are compiled for sm_80; all tiles if that
/// instruction does not support the product. They are in the order of the list, whatever is the fastest.
fn tiles(gemm: &Gemm, arch: Arch) -> Vec<Tile> {
    let mut all = candidates(gemm, arch);
    let place = |tile: &Tile| {
        choice::all()
            .position(|known| (known.m, known.n, known.by, known.schedule) == (tile.m, tile.n, tile.by, tile.schedule))
    };
    all.sort_by_key(place);
    let newest: Vec<_> = all.iter().copied().filter(|tile| tile.by == By::Wgmma).collect();
    if newest.is_empty() { all } else { newest }
}

/// A product for each tile.
fn gemm(dtype: DType, number: usize) -> Gemm {
    let activations = [Activation::None, Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu];
    // The last ones have rows of less and less alignment.
    let (n, k) = match number {
        5 => (1020, 772),
        6 => (1022, 774),
        7 => (1023, 775),
        _ => (1024, 776),
    };
    let order = |by_columns: bool, rows: usize, columns: usize| match by_columns {
        true => Matrix { order: Order::Columns, distance: rows },
        false => Matrix { order: Order::Rows, distance: columns },
    };
    let symbol = |text: &str| Dim::Symbolic(text.into());
    let m = if number % 3 == 1 { symbol("m") } else { Dim::Fixed(512) };
    let step = |elements: usize| Dim::Fixed(elements);
    let inner = Batch { count: Dim::Fixed(6), x: step(512 * k), w: step(k * n), y: step(512 * n) };
    let outer = Batch { count: symbol("b"), x: step(6 * 512 * k), w: step(0), y: step(6 * 512 * n) };
    Gemm {
        dtype,
        m,
        n,
        k,
        batch: if number % 4 == 2 { vec![outer, inner] } else { Vec::new() },
        x: order(number == 4, 512, k),
        w: order(number % 2 == 1, k, n),
        alpha: if number == 3 { 0.125 } else { 1.0 },
        beta: (number % 3 != 2).then_some(1.0),
        bias: (number % 4 != 3).then_some(if number % 2 == 1 { DType::F32 } else { dtype }),
        activation: activations[number % 5],
    }
}

/// Buffers in the order of a kernel's parameters.
fn places(gemm: &Gemm) -> Vec<BufferRef> {
    let more = usize::from(gemm.bias.is_some()) + usize::from(gemm.beta.is_some());
    let others = (2..2 + more).map(BufferRef::Input);
    [BufferRef::Input(0), BufferRef::Input(1)].into_iter().chain(others).chain([BufferRef::Output(0)]).collect()
}
