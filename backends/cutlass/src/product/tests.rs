//! Products in numbers: their kernels' texts, launches, tiles and widths of accesses.

use byoc_nvidia::product::Activation;
use byoc_nvidia::program::TensorMap;

use super::*;

/// The fastest tile by estimate.
fn best(gemm: &Gemm, arch: Arch) -> Tile {
    candidates(gemm, arch)[0]
}

fn arch(text: &str) -> Arch {
    text.parse().expect("it is one")
}

fn symbol(text: &str) -> Dim {
    Dim::Symbolic(text.into())
}

/// `y[512, 3072] = x[512, 768] w[768, 3072]` in f16.
fn plain() -> Gemm {
    Gemm {
        dtype: DType::F16,
        m: Dim::Fixed(512),
        n: 3072,
        k: 768,
        batch: Vec::new(),
        x: Matrix { order: Order::Rows, distance: 768 },
        w: Matrix { order: Order::Rows, distance: 3072 },
        alpha: 1.0,
        beta: None,
        bias: None,
        activation: Activation::None,
    }
}

/// `softmax(...) v` of 12 heads: a batch of which one dimension is not known.
fn heads() -> Gemm {
    let batch = |count: Dim, x: Dim, w: Dim, y: Dim| Batch { count, x, w, y };
    let inner = batch(Dim::Fixed(12), Dim::Fixed(128 * 96), Dim::Fixed(96 * 64), Dim::Fixed(128 * 64));
    let outer = batch(symbol("b"), symbol("147456*b"), Dim::Fixed(0), Dim::Fixed(12 * 128 * 64));
    let (x, w) = (Matrix { order: Order::Rows, distance: 96 }, Matrix { order: Order::Columns, distance: 96 });
    Gemm { m: Dim::Fixed(128), n: 64, k: 96, batch: vec![outer, inner], x, w, ..plain() }
}

fn launched(gemm: &Gemm, on: &str) -> Kernel {
    kernel(
        "k0",
        gemm,
        best(gemm, arch(on)),
        arch(on),
        &[BufferRef::Input(0), BufferRef::Constant(0), BufferRef::Output(0)],
    )
    .expect("it is a product")
}

#[test]
fn texts() {
    let full = Gemm { m: symbol("batch*seq"), bias: Some(DType::F32), beta: Some(0.5), ..plain() };
    let full = Gemm { activation: Activation::Gelu, ..full };
    let cases = [
        ("plain", "sm_80", plain()),
        ("heads", "sm_80", heads()),
        ("full", "sm_80", full.clone()),
        ("tf32", "sm_90a", Gemm { dtype: DType::F32, alpha: 0.125, activation: Activation::Silu, ..plain() }),
        ("hopper_heads", "sm_90a", heads()),
        ("hopper_full", "sm_90a", full),
    ];
    for (name, on, gemm) in cases {
        let path = format!("{}/src/product/texts/{name}.cu", env!("CARGO_MANIFEST_DIR"));
        let found = launched(&gemm, on).text;
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, &found).expect("the checkout can be written");
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{path} is out of date; run UPDATE_GOLDEN=1 cargo test -p byoc-cutlass\n{found}");
    }
}

#[test]
fn a_block_for_each_tile() {
    let grid = |gemm: &Gemm| launched(gemm, "sm_80").launch.grid;
    let one = || Dim::Fixed(1);
    // 4 rows and 24 columns of tiles of 128 x 128.
    assert_eq!(best(&plain(), arch("sm_80")), choice::mma(128, 128, 32, (64, 64), 4));
    assert_eq!(grid(&plain()), [Dim::Fixed(4 * 24), one(), one()]);
    let more = Gemm { m: Dim::Fixed(513), n: 3080, ..plain() };
    let Tile { m, n, .. } = best(&more, arch("sm_80"));
    assert_eq!(
        grid(&more),
        [Dim::Fixed(513_usize.div_ceil(m as usize) * 3080_usize.div_ceil(n as usize)), one(), one()]
    );
    let Tile { m, n, .. } = best(&heads(), arch("sm_80"));
    let blocks = 128_usize.div_ceil(m as usize) * 64_usize.div_ceil(n as usize) * 12;
    assert_eq!(grid(&heads()), [dim::mul(&Dim::Fixed(blocks), &symbol("b")).expect("it is a size"), one(), one()]);
}

#[test]
fn small_products_get_small_tiles() {
    let best = |m: usize, n: usize, on: &str| {
        let Tile { m, n, .. } = best(&Gemm { m: Dim::Fixed(m), n, ..plain() }, arch(on));
        (m, n)
    };
    assert_eq!(best(8192, 8192, "sm_80"), (256, 128));
    assert_eq!(best(512, 3072, "sm_80"), (128, 128));
    assert_eq!(best(128, 3072, "sm_80"), (64, 64));
    assert_eq!(best(1, 3072, "sm_80"), (32, 64));
    assert_eq!(best(1, 30528, "sm_80"), (16, 128));
    // 128 tiles, which is nearly one for each of 132 multiprocessors.
    assert_eq!(best(1024, 3072, "sm_90a"), (128, 192));
}

/// A multiprocessor of sm_90a has one block, which goes from tile to tile.
#[test]
fn blocks_that_stay() {
    let tile = best(&plain(), arch("sm_90a"));
    assert_eq!((tile.by, tile.m, tile.n, tile.threads()), (By::Wgmma, 128, 128, 384));
    let Launch { grid, persistent, arguments, .. } = launched(&plain(), "sm_90a").launch;
    assert_eq!((&grid[0], persistent), (&Dim::Fixed(4 * 24), true));
    assert!(!launched(&plain(), "sm_80").launch.persistent);
    let fixed = |sizes: &[usize]| sizes.iter().copied().map(Dim::Fixed).collect::<Vec<_>>();
    let map = |at, sizes: &[usize], strides: &[usize], block: &[u32]| {
        let (sizes, strides, block) = (fixed(sizes), fixed(strides), block.to_vec());
        Argument::TensorMap(TensorMap { at, dtype: DType::F16, sizes, strides, block, swizzle: 128 })
    };
    // W is row-major: a copy brings 64 rows of 64 columns.
    let x = map(BufferRef::Input(0), &[768, 512], &[1536], &[64, 128]);
    let w = map(BufferRef::Constant(0), &[3072, 768], &[6144], &[64, 64]);
    assert_eq!(arguments, [x, w, Argument::Pointer(BufferRef::Output(0))]);
    assert_eq!(launched(&Gemm { m: Dim::Fixed(65536), ..plain() }, "sm_90a").launch.grid[0], Dim::Fixed(132));

    // The batch is a dimension of the maps, but for what is the same for all of it.
    let arguments = launched(&heads(), "sm_90a").launch.arguments;
    let [Argument::TensorMap(x), Argument::TensorMap(w), ..] = &arguments[..] else { panic!("{arguments:?}") };
    assert_eq!((x.sizes.len(), x.block.len(), x.strides.len()), (4, 4, 3));
    assert_eq!(w.sizes, fixed(&[96, 64, 12]));
    assert_eq!(w.strides, fixed(&[96 * 2, 96 * 64 * 2]));
    assert_eq!(arguments[2..], [Argument::Pointer(BufferRef::Output(0)), Argument::Size(symbol("b"))]);
}

#[test]
fn what_tma_does_not_copy() {
    let by = |gemm: Gemm, on: &str| best(&gemm, arch(on)).by;
    assert_eq!(by(plain(), "sm_90a"), By::Wgmma);
    assert_eq!(by(plain(), "sm_90"), By::Mma);
    assert_eq!(by(plain(), "sm_100a"), By::Mma);
    assert_eq!(by(Gemm { dtype: DType::F32, ..plain() }, "sm_90a"), By::Mma);
    assert_eq!(by(Gemm { k: 764, x: Matrix { order: Order::Rows, distance: 764 }, ..plain() }, "sm_90a"), By::Mma);
    assert_eq!(by(Gemm { x: Matrix { order: Order::Columns, distance: 512 }, ..plain() }, "sm_90a"), By::Mma);
}

/// 163 KiB of shared memory are what a block of sm_80 may have, 227 KiB one of sm_90.
#[test]
fn tiles_fit() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let all = candidates(&Gemm { dtype, ..plain() }, arch("sm_80"));
        assert_eq!(all.len(), 8);
        for tile in all {
            let bytes = (tile.m + tile.n) * tile.k * tile.stages * dtype.unpacked_bytes() as u32;
            assert!(bytes <= 96 << 10, "{tile:?}");
            assert!([64, 128, 256].contains(&tile.threads()), "{tile:?}");
        }
    }
    let all = candidates(&plain(), arch("sm_90a"));
    assert_eq!(all.len(), 20);
    for tile in all.iter().filter(|tile| tile.by == By::Wgmma) {
        // Blocks that share K keep their sums beside the stages.
        let sums = if tile.blocks() > 1 { tile.m * tile.n * 4 } else { 0 };
        let bytes = (tile.m + tile.n) * tile.k * tile.stages * 2 + sums;
        assert!(bytes <= 200 << 10 && tile.k == 64, "{tile:?}");
        // A thread has at most 128 sums.
        assert!(
            tile.m * tile.n <= 128 * (tile.threads() - 128) / if tile.groups() * 64 > tile.m { 2 } else { 1 },
            "{tile:?}"
        );
    }
}

#[test]
fn how_wide_accesses_are() {
    assert_eq!(plain().alignment(), [8, 8, 8]);
    assert_eq!(heads().alignment(), [8, 8, 8]);
    assert_eq!(Gemm { dtype: DType::F32, ..plain() }.alignment(), [4, 4, 4]);
    assert_eq!(Gemm { n: 3070, w: Matrix { order: Order::Rows, distance: 3070 }, ..plain() }.alignment(), [8, 2, 2]);
    assert_eq!(Gemm { k: 767, x: Matrix { order: Order::Rows, distance: 767 }, ..plain() }.alignment(), [1, 8, 8]);
    // x is column-major: its alignment depends on the number of rows.
    let turned = Gemm { m: Dim::Fixed(6), x: Matrix { order: Order::Columns, distance: 6 }, ..plain() };
    assert_eq!(turned.alignment(), [2, 8, 8]);
    // Elements of 2 bytes are too small for cp.async.
    let odd = Gemm { k: 767, x: Matrix { order: Order::Rows, distance: 767 }, ..plain() };
    assert_eq!(best(&odd, arch("sm_80")).stages, 2);
}

#[test]
fn sizes_are_parameters_once() {
    let mut sizes = Sizes::default();
    let texts = [Dim::Fixed(7), symbol("a"), symbol("b*2"), symbol("a")].map(|size| sizes.text(&size));
    assert_eq!(texts, ["7", "s0", "s1", "s0"]);
    assert_eq!(sizes.0, [symbol("a"), symbol("b*2")]);
}

mod pipeline;
mod regions;
mod running;
