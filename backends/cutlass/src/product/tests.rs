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

/// Rows that only a run tells have a tile for each range of them, which together are all rows.
#[test]
fn ranges_of_rows() {
    let tiles = |n: usize, k: usize, on: &str| -> Vec<(u64, u64, String)> {
        let gemm = Gemm { m: symbol("rows"), n, k, ..plain() };
        let of = |(rows, tile): (Option<Rows>, Tile)| {
            rows.map_or((0, u64::MAX, tile.name()), |rows| (rows.least, rows.most, tile.name()))
        };
        choice::by_rows(&gemm, arch(on)).into_iter().map(of).collect()
    };
    let named = |list: &[(u64, u64, &str)]| -> Vec<(u64, u64, String)> {
        list.iter().map(|&(least, most, name)| (least, most, name.to_owned())).collect()
    };
    let three = [
        (0, 256, "64x64x64_8 wgmma split-2"),
        (257, 2048, "64x128x64_8 wgmma"),
        (2049, u64::MAX, "128x256x64_4 wgmma"),
    ];
    assert_eq!(tiles(1024, 1024, "sm_90a"), named(&three));
    // Neighbours with one tile are one range, and if that is all, there is none.
    let two = [(0, 256, "32x64x64_5 mma"), (257, u64::MAX, "128x128x32_4 mma")];
    assert_eq!(tiles(1024, 1024, "sm_80"), named(&two));
    let gemm = Gemm { m: symbol("rows"), n: 30528, ..plain() };
    assert_eq!(choice::by_rows(&gemm, arch("sm_90a")), [(None, best(&gemm, arch("sm_90a")))]);
    for (n, k) in [(64, 64), (768, 768), (3072, 768), (30528, 768), (8, 8192), (16384, 16384)] {
        for on in ["sm_80", "sm_90a"] {
            let found = tiles(n, k, on);
            assert_eq!((found[0].0, found[found.len() - 1].1), (0, u64::MAX), "{found:?}");
            assert!(found.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0 && pair[0].2 != pair[1].2), "{found:?}");
        }
    }
    // Known rows have one.
    assert_eq!(choice::by_rows(&plain(), arch("sm_80")), [(None, best(&plain(), arch("sm_80")))]);
}

/// What ranges are worth by the costs that tiles are chosen by: the time of the tile that is taken over that of the best one for
/// the rows, as a geometric mean and at most, for ranges and for the one tile of a likely number of rows.
#[test]
fn ranges_are_near_the_best_tile() {
    let sizes = [(768, 768), (2304, 768), (3072, 768), (768, 3072), (30528, 768), (512, 512), (2048, 512)];
    let sizes = sizes.into_iter().chain([(1024, 1024), (4096, 1024), (1024, 4096), (4096, 4096)]);
    let products: Vec<_> = sizes.map(|(n, k)| Gemm { m: symbol("rows"), n, k, ..plain() }).collect();
    let counts = [1, 2, 4, 7, 8, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024, 1280, 1536];
    let counts: Vec<usize> = counts.into_iter().chain([2048, 2560, 3072, 4096, 6144, 8192, 12288, 16384]).collect();
    let worth = |on: &str, taken: &dyn Fn(&Gemm, usize) -> Tile| -> [f64; 2] {
        let time = |gemm: &Gemm, rows: usize, tile: Tile| choice::cost_of(gemm, rows, arch(on), tile) as f64;
        let pairs = products.iter().flat_map(|gemm| counts.iter().map(move |&rows| (gemm, rows)));
        let ratio = |(gemm, rows)| {
            let best = choice::candidates_for(gemm, arch(on), rows)[0];
            time(gemm, rows, taken(gemm, rows)) / time(gemm, rows, best)
        };
        let all: Vec<f64> = pairs.map(ratio).collect();
        let mean = (all.iter().map(|ratio| ratio.ln()).sum::<f64>() / all.len() as f64).exp();
        [mean, all.into_iter().fold(1.0, f64::max)].map(|ratio| (ratio * 100.0).round() / 100.0)
    };
    for (on, ranges, one) in [("sm_90a", [1.1, 1.85], [1.46, 4.1]), ("sm_80", [1.18, 2.64], [1.71, 6.4])] {
        let in_range = |gemm: &Gemm, count: usize| {
            let is_in = |rows: Option<Rows>| rows.is_none_or(|rows| (rows.least..=rows.most).contains(&(count as u64)));
            choice::by_rows(gemm, arch(on)).into_iter().find(|&(rows, _)| is_in(rows)).expect("all are in one").1
        };
        assert_eq!((worth(on, &in_range), worth(on, &|gemm, _| best(gemm, arch(on)))), (ranges, one), "{on}");
    }
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
