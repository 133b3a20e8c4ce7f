//! Kernels of CUTLASS 2's templates run on the host, with loops in their place: that the generated source gives them the right
//! operands, distances, sizes and epilogue, for every member of a batch and at the edges.

use std::collections::HashMap;

use byoc_nvidia::build::PRELUDE;
use byoc_nvidia_standins::cpu::{Buffer, Kernels, Param};
use byoc_plugin_api::testing::{Rng, Tensor, decode, encode};

use super::*;
use crate::source;

const STANDINS: [&str; 3] = [
    include_str!("../../../../nvidia/standins/cutlass/cutlass/cutlass.h"),
    include_str!("../../../../nvidia/standins/cutlass/cutlass/gemm/threadblock/default_mma.h"),
    include_str!("../../../../nvidia/standins/cutlass/cutlass/epilogue/threadblock/default_epilogue_with_broadcast.h"),
];

/// The source of a kernel, with the stand-ins where it includes CUTLASS.
fn compiled(own: &str) -> Kernels {
    let own = own.strip_prefix(PRELUDE).expect("the prelude stands first");
    let lines = STANDINS.iter().flat_map(|text| text.lines()).chain(own.lines());
    let kept: Vec<_> = lines.filter(|line| !line.starts_with("#include") && !line.starts_with("#pragma")).collect();
    Kernels::compile(&format!("{PRELUDE}\n{}\n", kept.join("\n")))
}

/// Numbers of a type, and what they are once they are of it.
fn stored(dtype: DType, values: &[f64]) -> (Buffer, Vec<f64>) {
    let bytes = encode(dtype, values);
    (Buffer::of(&bytes), decode(dtype, &bytes))
}

fn read(dtype: DType, buffer: &Buffer) -> Vec<f64> {
    decode(dtype, &buffer.read::<u8>())
}

/// Numbers between -1 and 1, other ones for each seed.
fn random(count: usize, seed: u64) -> Vec<f64> {
    Tensor::random([count], -1.0..1.0, &mut Rng::with_seed(seed)).numbers()
}

/// The integral of the normal distribution's density from 0 to `x`, by Simpson's rule.
fn normal(x: f64) -> f64 {
    let step = x / 1000.0;
    let density = |i: u32| (-0.5 * (f64::from(i) * step).powi(2)).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let weight = |i: u32| if i == 0 || i == 1000 { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
    (0..=1000).map(|i| weight(i) * density(i)).sum::<f64>() * step / 3.0
}

fn activated(activation: Activation, x: f64) -> f64 {
    let tanh = |x: f64| (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    match activation {
        Activation::None => x,
        Activation::Relu => x.max(0.0),
        Activation::Gelu => x * (0.5 + normal(x)),
        Activation::GeluTanh => 0.5 * x * (1.0 + tanh(x).tanh()),
        Activation::Silu => x / (1.0 + (-x).exp()),
    }
}

/// How far a result may be off. The loops do not round f32 to TF32, and the two forms of GELU differ by up to 5e-4.
fn exact(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 2e-2,
        DType::F16 => 2e-3,
        _ => 1e-5,
    }
}

/// Runs a product with a batch of `b` members where that is a symbol, and compares with loops in f64.
fn runs(gemm: &Gemm, tile: Tile, b: usize) {
    let symbols = HashMap::from([("b".to_owned(), b)]);
    let size = |dim: &Dim| dim::eval_shape(std::slice::from_ref(dim), &symbols).expect("it is known")[0];
    let (m, n, k) = (size(&gemm.m), gemm.n, gemm.k);
    let count: usize = gemm.batch.iter().map(|batch| size(&batch.count)).product();
    let ends = |step: fn(&Batch) -> &Dim| {
        gemm.batch.iter().map(|batch| (size(&batch.count) - 1) * size(step(batch))).sum::<usize>()
    };
    let (x, xs) = stored(gemm.dtype, &random(ends(|batch| &batch.x) + m.max(k) * gemm.x.distance.max(k), 1));
    let (w, ws) = stored(gemm.dtype, &random(ends(|batch| &batch.w) + k.max(n) * gemm.w.distance, 2));
    let (bias, biases) = stored(gemm.bias.unwrap_or(DType::F32), &random(n, 3));
    let (c, cs) = stored(gemm.dtype, &random(count * m * n, 4));
    let (y, _) = stored(gemm.dtype, &vec![f64::NAN; count * m * n]);
    let mut buffers = vec![&x, &w];
    buffers.extend(gemm.bias.map(|_| &bias));
    buffers.extend(gemm.beta.map(|_| &c));
    buffers.push(&y);

    let places = (0..buffers.len()).map(BufferRef::Input).collect();
    let kernel =
        Recipe { gemm: gemm.clone(), tile, places, rows: None }.kernel("k0", arch("sm_80")).expect("it is a kernel");
    let param = |argument: &Argument| match argument {
        Argument::Pointer(BufferRef::Input(at)) => Param::Buffer(buffers[*at]),
        Argument::Size(dim) => Param::Size(size(dim) as i64),
        other => panic!("{other:?}"),
    };
    let Launch { grid, block, arguments, .. } = &kernel.launch;
    let params: Vec<_> = arguments.iter().map(param).collect();
    let shared = ((tile.m + tile.n) * tile.k * tile.stages) * gemm.dtype.unpacked_bytes() as u32;
    compiled(&source::source("k", std::slice::from_ref(&kernel)).text).launch(
        "k0",
        grid.each_ref().map(|dim| size(dim) as u32),
        *block,
        shared,
        &params,
    );

    let found = read(gemm.dtype, &y);
    let exact = exact(gemm.dtype);
    let element = |matrix: &Matrix, row: usize, column: usize| match matrix.order {
        Order::Rows => row * matrix.distance + column,
        Order::Columns => column * matrix.distance + row,
    };
    for z in 0..count {
        let mut rest = z;
        let (mut at_x, mut at_w, mut at_y) = (0, 0, 0);
        for batch in gemm.batch.iter().rev() {
            let index = rest % size(&batch.count);
            rest /= size(&batch.count);
            at_x += index * size(&batch.x);
            at_w += index * size(&batch.w);
            at_y += index * size(&batch.y);
        }
        for (row, column) in (0..m).flat_map(|row| (0..n).map(move |column| (row, column))) {
            let one = |i: usize| xs[at_x + element(&gemm.x, row, i)] * ws[at_w + element(&gemm.w, i, column)];
            let mut sum = (0..k).map(one).sum::<f64>() * f64::from(gemm.alpha);
            sum += gemm.beta.map_or(0.0, |beta| f64::from(beta) * cs[at_y + row * n + column]);
            sum += gemm.bias.map_or(0.0, |_| biases[column]);
            let (expected, found) = (activated(gemm.activation, sum), found[at_y + row * n + column]);
            let close = (found - expected).abs() <= exact * expected.abs().max(1.0);
            assert!(close, "{gemm:?} {tile:?}: {found}, not {expected}, at {z} {row} {column}");
        }
    }
}

/// A product of small and odd sizes.
fn small(dtype: DType, m: usize, n: usize, k: usize) -> Gemm {
    let (x, w) = (Matrix { order: Order::Rows, distance: k }, Matrix { order: Order::Rows, distance: n });
    Gemm { dtype, m: Dim::Fixed(m), n, k, x, w, ..plain() }
}

#[test]
fn all_epilogues() {
    let activations = [Activation::None, Activation::Relu, Activation::Gelu, Activation::GeluTanh, Activation::Silu];
    for (number, activation) in activations.into_iter().enumerate() {
        let dtype = [DType::F16, DType::BF16, DType::F32][number % 3];
        let gemm = Gemm {
            activation,
            alpha: if number == 1 { 0.5 } else { 1.0 },
            bias: (number != 3).then_some(if number % 2 == 0 { DType::F32 } else { dtype }),
            beta: (number != 4).then_some(if number == 2 { -0.5 } else { 1.0 }),
            ..small(dtype, 70, 72, 40)
        };
        runs(&gemm, best(&gemm, arch("sm_80")), 1);
    }
}

#[test]
fn each_form_of_gelu_is_itself() {
    for activation in [Activation::Gelu, Activation::GeluTanh] {
        let gemm = Gemm { activation, ..small(DType::F32, 70, 72, 40) };
        runs(&gemm, best(&gemm, arch("sm_80")), 1);
    }
}

#[test]
fn all_orders_and_widths() {
    for (n, k) in [(72, 40), (68, 36), (66, 34), (65, 33)] {
        let gemm = small(DType::F16, 40, n, k);
        let w = Matrix { order: Order::Columns, distance: k };
        runs(&Gemm { w, bias: Some(DType::F16), ..gemm.clone() }, best(&gemm, arch("sm_80")), 1);
        let x = Matrix { order: Order::Columns, distance: 40 };
        runs(&Gemm { x, beta: Some(1.0), ..gemm.clone() }, best(&gemm, arch("sm_80")), 1);
    }
}

/// More groups of rows of tiles than one, and tiles that are cut off on both sides.
#[test]
fn all_tiles() {
    for tile in candidates(&plain(), arch("sm_80")) {
        let gemm = small(DType::F16, 9 * tile.m.min(32) as usize + 3, 2 * tile.n as usize + 8, 24);
        runs(&gemm, tile, 1);
    }
}

#[test]
fn batches() {
    for b in [1, 3] {
        let batch = |count: Dim, x: usize, w: usize, y: usize| Batch {
            count,
            x: Dim::Fixed(x),
            w: Dim::Fixed(w),
            y: Dim::Fixed(y),
        };
        let gemm = small(DType::F16, 20, 16, 8);
        let both = vec![batch(symbol("b"), 0, 4 * 128, 4 * 320), batch(Dim::Fixed(4), 160, 128, 320)];
        let gemm = Gemm { batch: both, bias: Some(DType::F32), beta: Some(1.0), ..gemm };
        runs(&gemm, best(&gemm, arch("sm_80")), b);
        let rows = dim::mul(&symbol("b"), &Dim::Fixed(21)).expect("it is a size");
        let gemm = Gemm { m: rows, ..small(DType::F16, 1, 16, 8) };
        runs(&gemm, best(&gemm, arch("sm_80")), b);
    }
}

/// What the kernels for sm_90a do behind `wgmma`: results as four warps have them come to their places, with all that is done to
/// them, and nothing is written beyond the edges.
#[test]
fn results_of_wgmma() {
    // The second tile of 64 columns, of which there are 40, and the first 50 of 64 rows.
    let (m, n, n0) = (50, 104, 64);
    let text = "
struct Sum {
  float const *tile;
  float operator()(int i) const {
    int thread = threadIdx.x, row = thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
    return tile[row * 64 + i / 4 * 8 + thread % 4 * 2 + i % 2];
  }
};
extern \"C\" __global__ void k0(float const *tile, float const *bias, f16 const *c, f16 *y, long long m, long long n) {
  int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  Old<64, true> old;
  old.read(c, row, 64, int(m), int(n));
  write<64, Relu>(Sum{tile}, old, row, 64, int(m), int(n), 2.0f, -1.0f, bias, y);
}
";
    let text = [PRELUDE, hopper::PARTS[1], hopper::WRITE, text].join("\n");
    let (tile, tiles) = stored(DType::F32, &random(64 * 64, 1));
    let (bias, biases) = stored(DType::F32, &random(n, 2));
    let (c, cs) = stored(DType::F16, &random(m * n, 3));
    let (y, _) = stored(DType::F16, &vec![7.0; m * n]);
    let buffers = [&tile, &bias, &c, &y].map(Param::Buffer);
    let sizes = [m, n].map(|size| Param::Size(size as i64));
    compiled(&text).launch("k0", [1, 1, 1], [128, 1, 1], 0, &[&buffers[..], &sizes].concat());
    for (at, found) in read(DType::F16, &y).into_iter().enumerate() {
        let (row, column) = (at / n, at % n);
        let product = || 2.0 * tiles[row * 64 + column - n0] + biases[column] - cs[at];
        let expected = if column < n0 { 7.0 } else { product().max(0.0) };
        assert!((found - expected).abs() < 2e-3, "{found}, not {expected}, at {row} {column}");
    }
}

/// Each range of rows at both its ends, as far as that is not too much.
#[test]
fn rows_that_a_run_tells() {
    let gemm = Gemm { m: symbol("b"), ..small(DType::F16, 1, 72, 40) };
    let ranges = choice::by_rows(&gemm, arch("sm_80"));
    assert!(ranges.len() > 1, "{ranges:?}");
    for (range, tile) in ranges {
        let Rows { least, most, .. } = range.expect("there are several");
        runs(&gemm, tile, least.max(1) as usize);
        runs(&gemm, tile, most.min(2100) as usize);
    }
}
