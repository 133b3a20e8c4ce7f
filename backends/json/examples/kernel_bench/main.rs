//! Times the kernels on layer shapes of well-known networks: `cargo run --release --example kernel_bench [filter] [isa]`,
//! or one convolution of any shape, with ReLU and with hard-swish: `conv:IC,OC,SIZE,KERNEL,STRIDE,GROUP` as the filter.
#![expect(clippy::print_stdout, reason = "it prints a table")]

mod layers;
mod values;

use byoc_json_backend::kernels::integer::{self, Byte, Grid, Image, Out, Plain, Right, Scaled, Shape};
use byoc_json_backend::kernels::nbits::{self, NBits, Weights, Zeros};
use byoc_json_backend::kernels::{
    Activation, AttentionParams, Bias, Binary, Broadcast, ConvFilters, ConvKind, ConvParams, Epilogue, GemmParams,
    Int8, Int8Columns, Int8Known, Isa, Math, NormParams, PackedWeights, Threads, Unary, attention,
    attention_scratch_len, binary, conv, conv_int8, conv_int8_scratch_len, from_blocked, gemm, gemm_int8, gemm_packed,
    gemm_scratch_len, int8_filters_known, int8_filters_len, int8_scratch_len, layer_norm, pack_b, packed_b_len,
    round_b, round_filters, softmax, to_blocked, transpose, unary,
};
use byoc_plugin_api::f16;
use layers::{EFFICIENTNET, Layer, MATRICES, MOBILENET2, RESNET50, VGG19};
use std::time::Instant;
use values::{Values, numbers};

/// The best of repeated runs, in seconds.
fn best(mut f: impl FnMut()) -> f64 {
    f();
    let (start, mut best) = (Instant::now(), f64::MAX);
    while start.elapsed().as_secs_f64() < 0.25 {
        let t = Instant::now();
        f();
        best = best.min(t.elapsed().as_secs_f64());
    }
    best
}

fn report(name: &str, flop: f64, seconds: [f64; 2]) {
    println!(
        "{name:<34} {:8.3} {:8.3} ms {:7.1} {:7.1} GFLOP/s",
        seconds[0] * 1e3,
        seconds[1] * 1e3,
        flop / seconds[0] / 1e9,
        flop / seconds[1] / 1e9
    );
}

/// How products and convolutions are to be computed: the third argument, such as bf16x6, or f16 and int8 for such filters; vnni for products
/// of bytes without matrix units.
fn name_of_math() -> String {
    std::env::args().nth(3).unwrap_or_default()
}

fn math() -> Math {
    Math::from_name(&name_of_math())
}

/// ic, oc, input size, kernel, stride, group; padded to keep the size.
#[expect(clippy::too_many_arguments, reason = "the shape of a convolution")]
fn bench_conv(
    threads: &[Threads; 2],
    ic: usize,
    oc: usize,
    size: usize,
    k: usize,
    stride: usize,
    group: usize,
    act: Activation,
) -> [f64; 2] {
    let out = size.div_ceil(stride);
    let p = ConvParams {
        n: 1,
        ic,
        ih: size,
        iw: size,
        oc,
        oh: out,
        ow: out,
        kh: k,
        kw: k,
        stride: [stride; 2],
        pad: [k / 2; 2],
        dilation: [1; 2],
        group,
        act,
        math: math(),
        narrow: false,
    };
    let kind = ConvKind::pick(&p);
    let p = ConvParams { narrow: name_of_math() == "f16" && kind.takes_narrow(), ..p };
    if name_of_math() == "int8" && group == 1 && kind.packing() == ConvKind::Blocked {
        return bench_rounded(threads, &p);
    }
    let x = numbers(kind.input_len(&p).expect("countable"));
    let mut w = Values::zeros(kind.packed_len(&p).expect("countable"));
    kind.pack(&p, &numbers(oc * (ic / group) * k * k), &mut w);
    let bias = vec![0.1; oc];
    let mut y = Values::zeros(kind.output_len(&p).expect("countable"));
    let mut scratch = Values::zeros(kind.scratch_len(&p, 2).expect("countable"));
    let halves: Vec<f16> = w.iter().map(|value| f16::from_f32(*value)).collect();
    let (packed, factors) = (PackedWeights::F16(&halves), Some(&bias[..]));
    let filters = if p.narrow { ConvFilters { packed, factors } } else { ConvFilters::from(&w[..]) };
    let times =
        [0, 1].map(|i| best(|| conv(&threads[i], kind, &p, &x, filters, Some(&bias), None, &mut y, &mut scratch)));
    let flop = 2.0 * (out * out * oc * (ic / group) * k * k) as f64;
    report(&format!("conv {ic}->{oc} {size}x{size} k{k} s{stride} g{group}"), flop, times);
    times
}

/// The same with filters of 8 bits.
fn bench_rounded(threads: &[Threads; 2], p: &ConvParams) -> [f64; 2] {
    let (kind, shape) = (ConvKind::Blocked, [p.oc, p.ic, p.kh, p.kw]);
    let x = numbers(kind.input_len(p).expect("countable"));
    let weights = shape.iter().product();
    let mut packed = vec![0; int8_filters_len(shape).expect("countable")];
    round_filters(shape, &numbers(weights), &mut packed);
    let bias = vec![0.1; p.oc];
    let mut y = Values::zeros(kind.output_len(p).expect("countable"));
    let mut scratch = Values::zeros(conv_int8_scratch_len(&threads[1], p).expect("countable"));
    let times = [0, 1].map(|i| {
        let known = int8_filters_known(&threads[i], p, &packed);
        let w = Int8 { packed: &packed, known: &known };
        best(|| conv_int8(&threads[i], p, &x, w, Some(&bias), None, &mut y, &mut scratch))
    });
    let (ic, oc, size, k, stride) = (p.ic, p.oc, p.ih, p.kh, p.stride[0]);
    report(&format!("conv {ic}->{oc} {size}x{size} k{k} s{stride} int8"), 2.0 * (p.oh * p.ow * weights) as f64, times);
    times
}

fn bench_gemm(threads: &[Threads; 2], m: usize, n: usize, k: usize) {
    let p = GemmParams { math: math(), ..GemmParams::dense(m, n, k) };
    let (a, b, mut c) = (numbers(m * k), numbers(k * n), Values::zeros(m * n));
    let bias = vec![0.1; n];
    let e = Epilogue { bias: Bias::PerCol(&bias), ..Default::default() };
    let mut scratch = Values::zeros(gemm_scratch_len(&p, 2).expect("countable"));
    let flop = 2.0 * (m * n * k) as f64;
    let times = [0, 1].map(|i| best(|| gemm(&threads[i], &p, &a, &b, &mut c, &e, &mut scratch)));
    report(&format!("gemm {m}x{n}x{k}"), flop, times);
    let t = p.clone().trans_b();
    let times = [0, 1].map(|i| best(|| gemm(&threads[i], &t, &a, &b, &mut c, &e, &mut scratch)));
    report(&format!("gemm {m}x{n}x{k} B transposed"), flop, times);
    let mut packed = Values::zeros(packed_b_len(k, n).expect("countable"));
    pack_b(k, n, &b, p.b, &mut packed);
    let times = [0, 1]
        .map(|i| best(|| gemm_packed(&threads[i], &p, &a, PackedWeights::F32(&packed), &mut c, &e, &mut scratch)));
    report(&format!("gemm {m}x{n}x{k} B packed"), flop, times);
    let halves: Vec<f16> = packed.iter().map(|&value| f16::from_f32(value)).collect();
    let times = [0, 1]
        .map(|i| best(|| gemm_packed(&threads[i], &p, &a, PackedWeights::F16(&halves), &mut c, &e, &mut scratch)));
    report(&format!("gemm {m}x{n}x{k} B packed, f16"), flop, times);
    let (mut packed, mut columns) = (vec![0; integer::packed_len(k, n).expect("countable")], Int8Columns::default());
    round_b(k, n, &b, p.b, &mut columns, &mut packed);
    packed.extend(columns.bytes().into_iter().map(|byte| byte as i8));
    let mut scratch = Values::zeros(int8_scratch_len(&threads[1], &p).expect("countable"));
    let times = [0, 1].map(|i| {
        let known = Int8Known::new(&threads[i], &p, &packed);
        let b = Int8 { packed: &packed, known: &known };
        best(|| gemm_int8(&threads[i], &p, &a, b, &mut c, &e, &mut scratch))
    });
    report(&format!("gemm {m}x{n}x{k} of int8"), flop, times);
}

/// Repeats (count, ic, oc, size, kernel, stride, group) and prints the sum.
fn network(name: &str, threads: &[Threads; 2], layers: &[Layer]) {
    let mut total = [0.0; 2];
    let act = if name == "efficientnet" { Activation::Silu } else { Activation::Relu };
    for &(count, ic, oc, size, k, stride, group) in layers {
        let times = bench_conv(threads, ic, oc, size, k, stride, group, act);
        (0..2).for_each(|i| total[i] += count as f64 * times[i]);
    }
    println!("{name}: {:.2} {:.2} ms\n", total[0] * 1e3, total[1] * 1e3);
}

/// Kernels bound by memory or by transcendental functions: "FLOP" counts values.
fn bench_rest(threads: &[Threads; 2]) {
    let len = 128 * 3072;
    let (mut x, mut y, b) = (vec![0.5; len], vec![0.25; len], vec![0.125; len]);
    for act in [
        Activation::Relu,
        Activation::Sigmoid,
        Activation::Silu,
        Activation::Tanh,
        Activation::GeluErf,
        Activation::GeluTanh,
    ] {
        let times = [0, 1].map(|i| best(|| unary(&threads[i], Unary::Act(act), &x, &mut y)));
        report(&format!("{act:?} of {len}"), len as f64, times);
    }
    let same = Broadcast::same(len);
    let times = [0, 1].map(|i| best(|| binary(&threads[i], Binary::Add, &same, &x, &b, &mut y, Activation::None)));
    report("add", len as f64, times);
    let times = [0, 1].map(|i| best(|| softmax(&threads[i], 12 * 128, 128, 1, false, &mut x[..12 * 128 * 128])));
    report("softmax 1536x128", 12.0 * 128.0 * 128.0, times);
    let p = NormParams { rows: 128, cols: 768, eps: 1e-5, rms: false };
    let n = 128 * 768;
    let times =
        [0, 1].map(|i| best(|| layer_norm(&threads[i], &p, &b[..n], Some(&x[..n]), None, None, None, &mut y[..n])));
    report("add + layer_norm 128x768", n as f64, times);
    let times = [0, 1].map(|i| best(|| transpose(&threads[i], &[128, 12, 64], &[1, 0, 2], &x[..n], &mut y[..n])));
    report("transpose 128x12x64 102", n as f64, times);
    let times = [0, 1].map(|i| best(|| transpose(&threads[i], &[128, 3072], &[1, 0], &x, &mut y)));
    report("transpose 128x3072 10", len as f64, times);
    let times = [0, 1].map(|i| best(|| to_blocked(&threads[i], 1, 128, 3072, &x, &mut y)));
    report("to_blocked 128x3072", len as f64, times);
    let times = [0, 1].map(|i| best(|| from_blocked(&threads[i], 1, 128, 3072, &x, &mut y)));
    report("from_blocked 128x3072", len as f64, times);
}

/// Attention among `len` rows, with heads of `size` side by side.
fn bench_attention(threads: &[Threads; 2], name: &str, [heads, len, size]: [usize; 3]) {
    let row = heads * size;
    let side = [len * row, size, row];
    let p = AttentionParams {
        batch: 1,
        heads,
        kv_heads: heads,
        q_len: len,
        kv_len: len,
        head_dim: size,
        v_dim: size,
        scale: 0.125,
        causal: false,
        hidden_gives_zeros: false,
        q: side,
        k: side,
        v: side,
        out: side,
        mask: [0; 4],
        math: math(),
    };
    let (x, mut y) = (numbers(len * row), Values::zeros(len * row));
    let mut scratch = Values::zeros(attention_scratch_len(&p, 2).expect("countable"));
    let times = [0, 1].map(|i| best(|| attention(&threads[i], &p, &x, &x, &x, None, &mut y, &mut scratch)));
    report(name, 4.0 * (row * len * len) as f64, times);
}

/// The clamp behind what is quantised.
const CLAMP: (f32, f32) = (0.0, 6.0);

/// Products of 8 bits: sizes of MobileNetV2, ResNet-50 and BERT.
fn bench_integer_products(threads: &[Threads; 2]) {
    for (m, n, k) in
        [(12544, 16, 32), (12544, 96, 16), (784, 192, 32), (49, 1280, 320), (128, 768, 768), (128, 3072, 768)]
    {
        let (a, b) = (vec![7u8; m * k], vec![3i8; integer::packed_len(k, n).unwrap_or(0)]);
        let (factors, mut y) = (vec![0.01; n], vec![0u8; m * n]);
        let e = integer::Epilogue { factors: &factors, offsets: &factors, clamp: CLAMP, ..Default::default() };
        let shape = Shape { m, n, k };
        let known = integer::stats(threads[0].isa(), &b, k);
        for (name, known) in [("16 bits", &[][..]), ("8 bits", &known)] {
            let seconds = threads.each_ref().map(|threads| {
                let mut scratch = vec![0.0; integer::scratch_len(threads, &shape, true).unwrap_or(0)];
                let rows = Plain { bytes: &a, byte: Byte::U8, zero: 9, columns: k };
                best(|| {
                    let out = Out::Bytes(&mut y, Byte::U8, 3);
                    integer::product(threads, shape, &rows, Right::Packed(&b, known), out, &e, &mut scratch);
                })
            });
            report(&format!("integers {m}x{n}x{k} by {name}"), 2.0 * (m * n * k) as f64, seconds);
        }
    }
}

/// Convolutions of 8 bits.
fn bench_integer_convolutions(threads: &[Threads; 2]) {
    for (channels, size, filters, kernel) in
        [(32, 112, 32, 3), (144, 56, 144, 3), (64, 56, 64, 3), (512, 7, 512, 3), (3, 224, 64, 7)]
    {
        let x = vec![7u8; size * size * channels];
        let depthwise = channels == 32 || channels == 144;
        let k = integer::window_len([kernel; 2], channels).unwrap_or(0);
        let len = if depthwise { kernel * kernel * channels } else { integer::packed_len(k, filters).unwrap_or(0) };
        let (weights, factors) = (vec![3i8; len], vec![0.01; filters]);
        let (stride, out) = if channels == 3 { (2, size / 2) } else { (1, size) };
        let mut y = vec![0u8; out * out * filters];
        let image = Image {
            bytes: &x,
            byte: Byte::U8,
            zero: 4,
            size: [size; 2],
            channels,
            out: [out; 2],
            kernel: [kernel; 2],
            strides: [stride; 2],
            pads: [kernel / 2; 2],
            dilations: [1; 2],
        };
        let e = integer::Epilogue { factors: &factors, offsets: &factors, clamp: CLAMP, ..Default::default() };
        let shape = Shape { m: out * out, n: filters, k };
        let known = if depthwise { Vec::new() } else { integer::stats(threads[0].isa(), &weights, k) };
        let right = Right::Packed(&weights, &known);
        let seconds = threads.each_ref().map(|threads| {
            let scratch = integer::scratch_len(threads, &shape, true).unwrap_or(0);
            let scratch = scratch.max(integer::depthwise_scratch_len(channels, kernel * kernel).unwrap_or(0));
            let mut scratch = vec![0.0; scratch];
            best(|| {
                let y = Out::Bytes(&mut y, Byte::U8, 3);
                match depthwise {
                    true => integer::depthwise(threads, shape.m, &image, &weights, y, &e, &mut scratch),
                    false => integer::product(threads, shape, &image, right, y, &e, &mut scratch),
                }
            })
        });
        let work = 2.0 * (shape.m * kernel * kernel * channels * if depthwise { 1 } else { filters }) as f64;
        report(&format!("{channels} of {size}, {filters} x {kernel}"), work, seconds);
    }
}

/// Functions of tensors of 8 bits.
fn bench_bytes(threads: &[Threads; 2]) {
    let (a, mut y) = (vec![7u8; 802_816], vec![0u8; 802_816]);
    let (mut reals, grid) = (vec![0.5f32; a.len()], Grid { byte: Byte::U8, scale: 0.1, zero: 3 });
    let x = Scaled { bytes: &a, byte: Byte::U8, scale: 0.2, zero: 1 };
    let len = a.len() as f64;
    let sum = threads
        .each_ref()
        .map(|threads| best(|| integer::combine(threads, Binary::Add, (x, x), (&mut y, grid), CLAMP)));
    report("sum of two", len, sum);
    let table = std::array::from_fn(|byte| 255 - byte as u8);
    let looked_up = threads.each_ref().map(|threads| best(|| integer::lookup(threads, &table, &a, &mut y)));
    report("by a table", len, looked_up);
    let numbers = vec![0.7f32; 64];
    let by_channel = threads
        .each_ref()
        .map(|threads| best(|| integer::affine(threads, x, (&numbers, &numbers), (&mut y, grid), CLAMP)));
    report("times a factor by channel", len, by_channel);
    let to = threads.each_ref().map(|threads| best(|| integer::quantise(threads, &reals, &mut y, Byte::U8, 0.1, 3)));
    report("to bytes", len, to);
    let from =
        threads.each_ref().map(|threads| best(|| integer::dequantise(threads, &a, &mut reals, Byte::U8, 0.1, 3)));
    report("from bytes", len, from);
    let range = threads.each_ref().map(|threads| best(|| _ = integer::range(threads, &reals, &mut [0.0; 4])));
    report("range", len, range);
}

/// One row times weights of 4 bits in blocks of 32, in single precision and in 8 bits: those of two layers, and more than a cache holds.
fn bench_few_bits(threads: &[Threads; 2]) {
    for (n, k) in [(2048, 2048), (5632, 2048), (32_000, 2048)] {
        for bytes in [false, true] {
            let p = NBits { m: 1, n, k, bits: 4, block: 32, bytes };
            let (packed, scales) = (vec![0x5a; p.packed_len()], vec![0.01; n * p.blocks()]);
            let weights = Weights { packed: &packed, scales: &scales, zeros: Zeros::Middle };
            let (a, mut c) = (vec![0.5; k], vec![0.0; n]);
            let seconds = threads.each_ref().map(|threads| {
                let mut scratch = vec![0.0; p.scratch_len(threads.count()).unwrap_or(0)];
                best(|| nbits::nbits(threads, &p, &a, &weights, None, &mut c, &mut scratch))
            });
            let name = format!("few bits {n}x{k}{}", if bytes { ", in bytes" } else { "" });
            report(&name, 2.0 * (n * k) as f64, seconds);
        }
    }
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let isa = match std::env::args().nth(2).as_deref() {
        Some("avx2") => Isa::Avx2,
        Some("portable") => Isa::Portable,
        _ => Isa::detect(),
    };
    // Products of bytes by dot products of vectors, where there are matrix units too.
    let amx = name_of_math() != "vnni";
    let threads = [1, 2].map(|count| Threads::with_isa(count, isa).with_amx(amx));
    println!("{:?}; columns: 1 and 2 threads", threads[0].isa());
    if let Some(shape) = filter.strip_prefix("conv:") {
        let sizes: Vec<usize> = shape.split(',').map(|size| size.parse().expect("a size is a number")).collect();
        let [ic, oc, size, k, stride, group] = sizes[..].try_into().expect("six sizes");
        for act in [Activation::Relu, Activation::HardSwish { alpha: 1.0 / 6.0, beta: 0.5 }] {
            bench_conv(&threads, ic, oc, size, k, stride, group, act);
        }
        return;
    }
    for (name, layers) in
        [("resnet50", RESNET50), ("mobilenet2", MOBILENET2), ("vgg19", VGG19), ("efficientnet", EFFICIENTNET)]
    {
        if name.contains(&filter) {
            network(name, &threads, layers);
        }
    }
    if "gemm".contains(&filter) {
        MATRICES.iter().for_each(|&(m, n, k)| bench_gemm(&threads, m, n, k));
    }
    if "integers".contains(&filter) {
        bench_integer_products(&threads);
        bench_integer_convolutions(&threads);
        bench_bytes(&threads);
    }
    if "few bits".contains(&filter) {
        bench_few_bits(&threads);
    }
    if "rest".contains(&filter) {
        bench_rest(&threads);
    }
    for [heads, len, size] in
        [[3 * 64, 49, 32], [3 * 64, 49, 64], [48, 64, 64], [24, 96, 64], [12, 128, 64], [12, 197, 64], [8, 1500, 64]]
    {
        let name = format!("attention {heads} x {len}x{len}x{size}");
        if name.contains(&filter) {
            bench_attention(&threads, &name, [heads, len, size]);
        }
    }
}
