//! Every convolution kernel against plain f64 loops.

use byoc_plugin_api::f16;

use super::pack::Filters;
use super::*;
use crate::kernels::isa::Isa;
use crate::kernels::layout::{from_blocked, to_blocked};
use crate::kernels::scale_filters;
use crate::tests::harness::{configurations, noise};

fn act(a: Activation, v: f64) -> f64 {
    match a {
        Activation::Relu => v.max(0.0),
        Activation::Clip { min, max } => v.max(f64::from(min)).min(f64::from(max)),
        Activation::Sigmoid => 1.0 / (1.0 + (-v).exp()),
        _ => v,
    }
}

fn reference(p: &ConvParams, x: &[f32], w: &[f32], bias: Option<&[f32]>, residual: Option<&[f32]>) -> Vec<f64> {
    let (ic, oc) = (p.ic / p.group, p.oc / p.group);
    let mut y = Vec::new();
    for at in 0..p.n * p.oc * p.oh * p.ow {
        let (ox, oy, o, n) = (at % p.ow, at / p.ow % p.oh, at / p.ow / p.oh % p.oc, at / p.ow / p.oh / p.oc);
        let mut sum = bias.map_or(0.0, |b| f64::from(b[o])) + residual.map_or(0.0, |r| f64::from(r[at]));
        for i in 0..ic {
            for kh in 0..p.kh {
                for kw in 0..p.kw {
                    let iy = (oy * p.stride[0] + kh * p.dilation[0]).wrapping_sub(p.pad[0]);
                    let ix = (ox * p.stride[1] + kw * p.dilation[1]).wrapping_sub(p.pad[1]);
                    if iy < p.ih && ix < p.iw {
                        let channel = o / oc * ic + i;
                        sum += f64::from(x[((n * p.ic + channel) * p.ih + iy) * p.iw + ix])
                            * f64::from(w[((o * ic + i) * p.kh + kh) * p.kw + kw]);
                    }
                }
            }
        }
        y.push(act(p.act, sum));
    }
    y
}

/// Runs one kernel on NCHW data, converting layouts around it.
fn run(
    threads: &Threads,
    kind: ConvKind,
    p: &ConvParams,
    x: &[f32],
    w: &[f32],
    b: Option<&[f32]>,
    r: Option<&[f32]>,
) -> Vec<f32> {
    let mut packed = vec![f32::NAN; kind.packed_len(p).expect("countable")];
    kind.pack(p, w, &mut packed);
    run_packed(threads, kind, p, x, ConvFilters::from(&packed[..]), b, r)
}

/// The same with filters in the layout of the kernel.
pub(super) fn run_packed(
    threads: &Threads,
    kind: ConvKind,
    p: &ConvParams,
    x: &[f32],
    filters: ConvFilters<'_>,
    b: Option<&[f32]>,
    r: Option<&[f32]>,
) -> Vec<f32> {
    let mut xk = vec![0.0; kind.input_len(p).expect("countable")];
    if kind.input_blocked() {
        to_blocked(threads, p.n, p.ic, p.ih * p.iw, x, &mut xk);
        // Lanes past the last channel are unspecified: nothing may depend on them.
        let lanes = p.ic % BLOCK;
        if lanes != 0 {
            let blocks = p.ic.div_ceil(BLOCK) * p.ih * p.iw;
            for (i, px) in xk.chunks_exact_mut(BLOCK).enumerate() {
                if i % blocks >= blocks - p.ih * p.iw {
                    px[lanes..].fill(f32::NAN);
                }
            }
        }
    } else {
        xk.copy_from_slice(x);
    }
    let hw = p.oh * p.ow;
    let residual = r.map(|r| {
        let mut out = vec![0.0; kind.output_len(p).expect("countable")];
        if kind.output_blocked() {
            to_blocked(threads, p.n, p.oc, hw, r, &mut out)
        } else {
            out.copy_from_slice(r)
        }
        out
    });
    let mut y = vec![f32::NAN; kind.output_len(p).expect("countable")];
    let mut scratch = vec![f32::NAN; kind.scratch_len(p, threads.count()).expect("countable")];
    conv(threads, kind, p, &xk, filters, b, residual.as_deref(), &mut y, &mut scratch);
    if kind.output_blocked() {
        let mut out = vec![f32::NAN; p.n * p.oc * hw];
        from_blocked(threads, p.n, p.oc, hw, &y, &mut out);
        out
    } else {
        y
    }
}

fn check(p: &ConvParams) {
    let x = noise(p.n * p.ic * p.ih * p.iw, 1);
    let w = noise(p.oc * (p.ic / p.group) * p.kh * p.kw, 2);
    let bias = noise(p.oc, 3);
    let residual = noise(p.n * p.oc * p.oh * p.ow, 4);
    for (b, r) in [(None, None), (Some(&bias[..]), Some(&residual[..]))] {
        let want = reference(p, &x, &w, b, r);
        for &isa in Isa::available() {
            for count in [1, 2, 3] {
                let threads = Threads::with_isa(count, isa);
                let direct = [ConvKind::Blocked, ConvKind::First, ConvKind::Depthwise, ConvKind::Plain];
                for kind in direct.into_iter().chain([ConvKind::Winograd]) {
                    if !kind.supports(p) {
                        continue;
                    }
                    let got = run(&threads, kind, p, &x, &w, b, r);
                    let scale = ((p.ic / p.group * p.kh * p.kw) as f64).sqrt();
                    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                        assert!(
                            (f64::from(*g) - w).abs() <= 2e-6 * (scale + w.abs()),
                            "{kind:?} {isa:?} {count} threads {p:?}: [{i}] {g} for {w}"
                        );
                    }
                }
            }
        }
    }
}

/// n, ic, oc, group, (ih, iw), (kh, kw), stride, pad (top, left, bottom, right), dilation
pub(super) type Case = (usize, usize, usize, usize, [usize; 2], [usize; 2], [usize; 2], [usize; 4], [usize; 2]);

pub(super) fn params(c: Case, act: Activation) -> ConvParams {
    let (n, ic, oc, group, [ih, iw], [kh, kw], stride, pad, dilation) = c;
    let out = |i: usize, k: usize, axis: usize| {
        (i + pad[axis] + pad[axis + 2] - (k - 1) * dilation[axis] - 1) / stride[axis] + 1
    };
    ConvParams {
        n,
        ic,
        ih,
        iw,
        oc,
        oh: out(ih, kh, 0),
        ow: out(iw, kw, 1),
        kh,
        kw,
        stride,
        pad: [pad[0], pad[1]],
        dilation,
        group,
        act,
        math: Math::F32,
        narrow: false,
    }
}

pub(super) const CASES: &[Case] = &[
    (1, 16, 16, 1, [5, 5], [1, 1], [1, 1], [0; 4], [1, 1]),
    (2, 24, 40, 1, [7, 7], [1, 1], [1, 1], [0; 4], [1, 1]),
    (1, 32, 64, 1, [7, 7], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 33, 70, 1, [14, 15], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 33, 70, 1, [15, 29], [3, 3], [2, 2], [1; 4], [1, 1]),
    (1, 16, 48, 1, [9, 30], [1, 1], [2, 2], [0; 4], [1, 1]),
    (2, 20, 48, 1, [9, 30], [1, 1], [2, 1], [0; 4], [1, 1]),
    (1, 16, 16, 1, [6, 7], [1, 1], [2, 2], [0, 0, 1, 2], [1, 1]),
    (1, 16, 16, 1, [6, 7], [1, 1], [1, 1], [1; 4], [1, 1]),
    (1, 16, 16, 1, [9, 11], [3, 3], [3, 3], [1; 4], [1, 1]),
    (1, 16, 32, 1, [12, 13], [5, 5], [1, 1], [2; 4], [1, 1]),
    (1, 16, 32, 1, [12, 13], [3, 3], [1, 1], [2; 4], [2, 2]),
    (1, 16, 32, 1, [10, 9], [3, 3], [1, 1], [0, 1, 2, 3], [1, 1]),
    (1, 16, 32, 1, [3, 3], [3, 3], [1, 1], [4, 4, 4, 4], [1, 1]),
    (1, 16, 32, 1, [6, 5], [2, 4], [2, 1], [1, 2, 0, 1], [3, 1]),
    (1, 200, 32, 1, [4, 4], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 400, 130, 1, [3, 40], [1, 1], [1, 1], [0; 4], [1, 1]),
    (2, 3, 20, 1, [11, 35], [7, 7], [2, 2], [3; 4], [1, 1]),
    (1, 3, 32, 1, [9, 31], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 1, 5, 1, [8, 8], [5, 5], [1, 1], [2; 4], [1, 1]),
    (1, 2, 17, 1, [8, 20], [3, 3], [1, 2], [1; 4], [1, 1]),
    (2, 5, 16, 1, [7, 15], [3, 2], [1, 1], [1; 4], [1, 2]),
    (2, 35, 35, 35, [9, 17], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 32, 32, 32, [9, 30], [3, 3], [2, 2], [1; 4], [1, 1]),
    (1, 20, 20, 20, [12, 12], [5, 5], [1, 1], [2; 4], [1, 1]),
    (1, 20, 20, 20, [12, 12], [3, 3], [3, 3], [0, 0, 1, 1], [2, 2]),
    (1, 16, 16, 16, [2, 2], [5, 5], [1, 1], [2; 4], [1, 1]),
    (1, 64, 32, 2, [6, 6], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 32, 32, 8, [6, 6], [3, 3], [1, 1], [1; 4], [1, 1]),
    (2, 32, 32, 16, [6, 6], [3, 3], [2, 2], [1; 4], [1, 1]),
    (1, 6, 9, 3, [6, 6], [3, 3], [1, 1], [1; 4], [1, 1]),
    (2, 8, 16, 8, [6, 7], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 16, 17, 1, [30, 30], [1, 1], [1, 1], [0; 4], [1, 1]),
    (3, 16, 16, 1, [17, 4], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 130, 20, 1, [13, 18], [3, 3], [1, 1], [2, 0, 0, 2], [1, 1]),
    (1, 20, 40, 1, [61, 59], [3, 3], [1, 1], [1; 4], [1, 1]),
    // One block of filters over tiles of fourteen pixels, with every activation; rows that end with other tiles.
    (1, 3, 16, 1, [9, 28], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 3, 10, 1, [9, 56], [3, 3], [2, 2], [1; 4], [1, 1]),
    (2, 3, 16, 1, [6, 28], [3, 3], [1, 1], [1; 4], [1, 1]),
    (1, 3, 33, 1, [9, 56], [3, 3], [2, 2], [1; 4], [1, 1]),
    (1, 3, 9, 1, [9, 59], [3, 3], [2, 2], [1; 4], [1, 1]),
];

/// Every value of packed filters is one of a filter, but those that the last vector reads too far.
#[test]
fn filters_lie_side_by_side_and_whole_vectors_are_read() {
    for (ic, oc, group, kernel) in
        [(16, 16, 1, 1), (5, 7, 1, 2), (33, 70, 1, 3), (16, 17, 1, 1), (96, 64, 2, 3), (40, 24, 1, 1)]
    {
        let p = params((1, ic, oc, group, [9, 9], [kernel, kernel], [1, 1], [0; 4], [1, 1]), Activation::None);
        let filters = Filters::new(&p);
        let len = filters.len().expect("countable");
        let (inputs, outputs) = p.group_channels();
        let mut readers = vec![0; len];
        for group in 0..p.group {
            for (o, i) in (0..outputs).flat_map(|o| (0..inputs).map(move |i| (o, i))) {
                for tap in 0..kernel * kernel {
                    let row = filters.start(group, o / BLOCK, i / BLOCK, tap) + i % BLOCK * filters.row(o / BLOCK);
                    assert!(i % BLOCK < filters.rows(i / BLOCK) && row + BLOCK <= len);
                    readers[row + o % BLOCK] += 1;
                }
            }
        }
        let used = ic * outputs * kernel * kernel;
        assert!(len - used < BLOCK && readers[..used].iter().all(|&count| count == 1));
        assert!(readers[used..].iter().all(|&count| count == 0));
    }
}

/// Packed filters times a factor for each input channel are those of weights times the factors.
#[test]
fn packed_filters_are_scaled() {
    for (channels, filters) in [(8, 16), (20, 7), (33, 24), (17, 64), (40, 70), (200, 200)] {
        let sizes = (1, channels, filters, 1, [1, 1], [1, 1], [1, 1], [0; 4], [1, 1]);
        let p = params(sizes, Activation::None);
        let packed = |weights: &[f32]| {
            let mut packed = vec![f32::NAN; ConvKind::Blocked.packed_len(&p).expect("countable")];
            ConvKind::Blocked.pack(&p, weights, &mut packed);
            packed
        };
        let (weights, factors) = (noise(channels * filters, 1), noise(channels, 2));
        let scaled: Vec<f32> =
            weights.iter().zip(factors.iter().cycle()).map(|(weight, factor)| weight * factor).collect();
        let (w, expected) = (packed(&weights), packed(&scaled));
        let halves: Vec<f16> = w.iter().map(|value| f16::from_f32(*value)).collect();
        let scaled: Vec<f32> = weights.iter().map(|weight| f16::from_f32(*weight).to_f32()).collect();
        let scaled: Vec<f32> =
            scaled.iter().zip(factors.iter().cycle()).map(|(weight, factor)| weight * factor).collect();
        let of_halves = packed(&scaled);
        for threads in configurations() {
            for (w, expected) in [(PackedWeights::F32(&w), &expected), (PackedWeights::F16(&halves), &of_halves)] {
                let mut y = vec![f32::NAN; w.len()];
                scale_filters::scale(&threads, filters, w, &factors, &mut y);
                assert_eq!(y, *expected, "{channels} {filters} {:?} {}", threads.isa(), threads.count());
            }
        }
    }
    let fits = scale_filters::fits;
    assert!(!fits([0, 16], 0) && !fits([16, 0], 0) && !fits([16, 17], 16 * 17) && fits([16, 17], 16 * 17 + 15));
}

#[test]
fn against_f64_loops() {
    for (i, case) in CASES.iter().enumerate() {
        let act =
            [Activation::None, Activation::Relu, Activation::Clip { min: -0.5, max: 0.75 }, Activation::Sigmoid][i % 4];
        check(&params(*case, act));
        check(&params(*case, Activation::None));
    }
}

/// Tiles of every number of pixels, of which up to all are outside the image at either side.
#[test]
fn rows_of_every_width() {
    for width in 1..=31 {
        for (kernel, stride, pad, dilation) in
            [(3, 1, 1, 1), (3, 2, 1, 1), (3, 3, 2, 1), (3, 1, 2, 2), (5, 1, 2, 1), (5, 2, 2, 1), (5, 1, 4, 1)]
        {
            if width + 2 * pad <= (kernel - 1) * dilation {
                continue;
            }
            for (ic, oc, group) in [(20, 20, 20), (18, 64, 1)] {
                let (kernel, stride, dilation) = ([3, kernel], [1, stride], [1, dilation]);
                let pads = [1, pad, 1, pad];
                check(&params((1, ic, oc, group, [3, width], kernel, stride, pads, dilation), Activation::None));
            }
        }
    }
}

fn image(channels: [usize; 2], size: usize) -> ConvParams {
    params((1, channels[0], channels[1], 1, [size; 2], [3, 3], [1, 1], [1; 4], [1, 1]), Activation::None)
}

/// The mean square of the differences.
fn error(got: &[f32], want: &[f64]) -> f64 {
    got.iter().zip(want).map(|(got, want)| (f64::from(*got) - want).powi(2)).sum::<f64>() / want.len() as f64
}

#[test]
fn fewer_multiplications_round_as_direct_sums_do() {
    for (channels, size) in [([16, 16], 40), ([64, 32], 28), ([512, 16], 14)] {
        let p = image(channels, size);
        let (x, w) = (noise(p.ic * p.ih * p.iw, 5), noise(p.oc * p.ic * 9, 6));
        let want = reference(&p, &x, &w, None, None);
        let error_of = |isa: Isa, kind: ConvKind| {
            error(&run(&Threads::with_isa(1, isa), kind, &p, &x, &w, None, None), &want).sqrt()
        };
        for &isa in Isa::available() {
            // Direct sums of AVX2 are made of several and more accurate than those this is held against.
            let direct = error_of(if isa == Isa::Avx2 { Isa::Portable } else { isa }, ConvKind::Blocked);
            let fewer = error_of(isa, ConvKind::Winograd);
            assert!(fewer != error_of(isa, ConvKind::Blocked), "{p:?} {isa:?}: it pays here");
            assert!(fewer <= 2.5 * direct, "{p:?} {isa:?}: {fewer} beside {direct}");
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    // The last one has two bands that three threads share.
    for (channels, size) in [([32, 48], 14), ([40, 33], 40), ([16, 16], 100), ([512, 16], 40)] {
        let p = image(channels, size);
        let (x, w) = (noise(p.ic * p.ih * p.iw, 5), noise(p.oc * p.ic * 9, 6));
        let of = |count| run(&Threads::new(count), ConvKind::Winograd, &p, &x, &w, None, None);
        assert!(of(1) == of(2) && of(1) == of(3), "{p:?}");
    }
}

/// The error of every output is one of the largest number of its tile, where direct sums know only their own window.
#[test]
fn a_large_number_is_felt_in_its_tile() {
    let p = image([20, 20], 16);
    let (mut x, w) = (noise(p.ic * p.ih * p.iw, 5), noise(p.oc * p.ic * 9, 6));
    x[700] = 1e6;
    let want = reference(&p, &x, &w, None, None);
    for &isa in Isa::available() {
        let got = run(&Threads::with_isa(1, isa), ConvKind::Winograd, &p, &x, &w, None, None);
        let largest = got.iter().zip(&want).map(|(got, want)| (f64::from(*got) - want).abs()).fold(0.0, f64::max);
        assert!((0.01..2.0).contains(&largest), "{isa:?}: {largest}");
    }
}

/// A number that is not finite reaches the outputs that depend on it, and no others of its tile.
#[test]
fn what_is_not_finite_stays_where_it_is() {
    let p = image([20, 20], 16);
    let (x, w) = (noise(p.ic * p.ih * p.iw, 5), noise(p.oc * p.ic * 9, 6));
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        for in_weights in [false, true] {
            let (mut x, mut w) = (x.clone(), w.clone());
            *(if in_weights { &mut w[100] } else { &mut x[700] }) = value;
            for &isa in Isa::available() {
                let threads = Threads::with_isa(1, isa);
                let [direct, fewer] =
                    [ConvKind::Blocked, ConvKind::Winograd].map(|kind| run(&threads, kind, &p, &x, &w, None, None));
                let alike = direct.iter().zip(&fewer).all(|(a, b)| a == b || a.is_nan() && b.is_nan());
                assert!(alike && direct.iter().any(|y| y.is_nan() || y.abs() >= 1e9), "{value} {isa:?}");
            }
        }
    }
}

/// As [`reference`], for transposed convolutions: what each input pixel adds.
fn transposed(p: &ConvParams, x: &[f32], w: &[f32], bias: &[f32], residual: &[f32]) -> Vec<f64> {
    let (ic, oc, plane) = (p.ic / p.group, p.oc / p.group, p.oh * p.ow);
    let mut y: Vec<f64> = residual.iter().map(|&r| f64::from(r)).collect();
    y.iter_mut().enumerate().for_each(|(at, y)| *y += f64::from(bias[at / plane % p.oc]));
    for (at, &value) in x.iter().enumerate() {
        let (ix, iy, c, n) = (at % p.iw, at / p.iw % p.ih, at / p.iw / p.ih % p.ic, at / p.iw / p.ih / p.ic);
        for tap in 0..oc * p.kh * p.kw {
            let (o, ky, kx) = (tap / p.kw / p.kh, tap / p.kw % p.kh, tap % p.kw);
            let oy = (iy * p.stride[0] + ky * p.dilation[0]).wrapping_sub(p.pad[0]);
            let ox = (ix * p.stride[1] + kx * p.dilation[1]).wrapping_sub(p.pad[1]);
            if oy < p.oh && ox < p.ow {
                let place = ((n * p.oc + c / ic * oc + o) * p.oh + oy) * p.ow + ox;
                y[place] += f64::from(value) * f64::from(w[c * oc * p.kh * p.kw + tap]);
            }
        }
    }
    y.into_iter().map(|v| act(p.act, v)).collect()
}

#[test]
fn transposed_against_f64_loops() {
    // The last two numbers are elements behind the output.
    let cases: &[(Case, [usize; 2])] = &[
        ((1, 1, 1, 1, [1, 1], [1, 1], [1, 1], [0; 4], [1, 1]), [0, 0]),
        ((2, 3, 5, 1, [4, 7], [3, 3], [1, 1], [1; 4], [1, 1]), [0, 0]),
        ((1, 20, 6, 2, [9, 11], [4, 4], [2, 2], [1; 4], [1, 1]), [0, 1]),
        ((1, 6, 40, 1, [5, 6], [2, 2], [2, 2], [0; 4], [1, 1]), [0, 0]),
        ((1, 8, 4, 1, [1, 50], [1, 16], [1, 8], [0, 4, 0, 4], [1, 1]), [0, 0]),
        ((1, 4, 4, 4, [5, 4], [3, 2], [3, 1], [2, 0, 1, 1], [2, 3]), [1, 0]),
        ((1, 3, 2, 1, [3, 3], [2, 2], [5, 4], [0; 4], [1, 1]), [2, 3]),
        ((1, 2, 3, 1, [40, 300], [3, 3], [2, 1], [1; 4], [1, 1]), [1, 0]),
        ((1, 2, 3, 1, [0, 3], [3, 3], [1, 1], [0; 4], [1, 1]), [4, 0]),
    ];
    for (i, &((n, ic, oc, group, [ih, iw], [kh, kw], stride, pad, dilation), more)) in cases.iter().enumerate() {
        let out = |size: usize, k: usize, axis: usize| {
            (size.max(1) - 1) * stride[axis] + (k - 1) * dilation[axis] + 1 + more[axis] - pad[axis] - pad[axis + 2]
        };
        let (oh, ow, act) =
            (out(ih, kh, 0), out(iw, kw, 1), [Activation::None, Activation::Relu, Activation::Sigmoid][i % 3]);
        let p = ConvParams {
            n,
            ic,
            ih,
            iw,
            oc,
            oh,
            ow,
            kh,
            kw,
            stride,
            pad: [pad[0], pad[1]],
            dilation,
            group,
            act,
            math: Math::F32,
            narrow: false,
        };
        let (x, w) = (noise(n * ic * ih * iw, 1), noise(ic * (oc / group) * kh * kw, 2));
        let (bias, residual) = (noise(oc, 3), noise(n * oc * oh * ow, 4));
        let want = transposed(&p, &x, &w, &bias, &residual);
        for (&isa, count) in Isa::available().iter().flat_map(|isa| [1, 3].map(|count| (isa, count))) {
            let threads = Threads::with_isa(count, isa);
            let got = run(&threads, ConvKind::Transposed, &p, &x, &w, Some(&bias), Some(&residual));
            assert_eq!(got.len(), want.len());
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                assert!(
                    (f64::from(*got) - want).abs() <= 2e-5 * (1.0 + want.abs()),
                    "{isa:?} {p:?}: [{i}] {got} for {want}"
                );
            }
        }
    }
}

/// Every way of computing f32 on matrix units, which are emulated where there are none.
#[cfg(target_arch = "x86_64")]
mod matrix_units {
    use super::*;
    use crate::tests::harness::{as_in_f32, error_of_largest, with_units};

    /// What a convolution may be off by, of the square root of the products and of itself.
    const WAYS: [(Math, f64); 3] = [(Math::Bf16x6, 1e-6), (Math::Bf16x3, 1e-5), (Math::Bf16, 4e-3)];

    fn check(c: Case) {
        let p = params(c, Activation::None);
        let x = noise(p.n * p.ic * p.ih * p.iw, 1);
        let w = noise(p.oc * (p.ic / p.group) * p.kh * p.kw, 2);
        let (bias, residual) = (noise(p.oc, 3), noise(p.n * p.oc * p.oh * p.ow, 4));
        for (index, act) in [Activation::None, Activation::Relu, Activation::Sigmoid].into_iter().enumerate() {
            let (bias, residual) = if index == 0 { (None, None) } else { (Some(&bias[..]), Some(&residual[..])) };
            let (math, error) = WAYS[index];
            let p = ConvParams { act, math, ..p.clone() };
            let want = reference(&p, &x, &w, bias, residual);
            let scale = ((p.ic / p.group * p.kh * p.kw) as f64).sqrt();
            for threads in with_units([1, 2, 3]).iter().filter(|threads| threads.unit(math).is_some()) {
                for kind in [ConvKind::Blocked, ConvKind::Winograd].into_iter().filter(|kind| kind.supports(&p)) {
                    let got = run(threads, kind, &p, &x, &w, bias, residual);
                    // Fewer multiplications round more than six products of pieces.
                    let error = if kind == ConvKind::Winograd { error.max(2e-6) } else { error };
                    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                        let close = (f64::from(*got) - want).abs() <= error * (scale + want.abs());
                        assert!(close, "{math:?} {kind:?} {} threads {p:?}: [{i}] {got} for {want}", threads.count());
                    }
                }
            }
        }
    }

    #[test]
    fn shapes_windows_and_groups() {
        CASES.iter().for_each(|case| check(*case));
        for case in [
            // Groups of whole blocks; several bands of rows.
            (1, 64, 96, 2, [6, 6], [3, 3], [1, 1], [1; 4], [1, 1]),
            (1, 160, 16, 1, [40, 40], [3, 3], [1, 1], [1; 4], [1, 1]),
            // A window wider than it is high, and the other way round with odd pads.
            (1, 64, 16, 1, [8, 3], [1, 5], [1, 1], [0, 2, 0, 2], [1, 1]),
            (1, 48, 70, 1, [9, 20], [3, 2], [1, 1], [0, 1, 2, 0], [2, 1]),
            // Strides: shorter than the window, longer, of one side; with dilation and odd pads; several bands of rows.
            (2, 40, 48, 1, [11, 14], [3, 3], [2, 2], [1; 4], [1, 1]),
            (1, 64, 32, 2, [13, 9], [5, 2], [3, 2], [2, 0, 1, 1], [1, 1]),
            (1, 33, 40, 1, [9, 17], [1, 1], [4, 3], [0; 4], [1, 1]),
            (1, 48, 33, 1, [12, 20], [3, 3], [1, 2], [1, 2, 0, 1], [2, 2]),
            (1, 64, 16, 1, [19, 11], [3, 2], [3, 1], [1, 0, 2, 1], [2, 3]),
            (1, 160, 16, 1, [60, 61], [3, 3], [2, 2], [1; 4], [1, 1]),
            // Rows that are cut; with a stride, of several rows.
            (1, 96, 20, 1, [1, 1500], [1, 3], [1, 1], [0, 1, 0, 1], [1, 1]),
            (1, 64, 20, 1, [1, 4001], [1, 3], [1, 2], [0, 1, 0, 1], [1, 1]),
            (1, 160, 16, 1, [3, 900], [3, 3], [2, 2], [1; 4], [1, 1]),
        ] {
            check(case);
        }
    }

    /// Taps that are far apart would take lines for all that is between them.
    #[test]
    fn what_fits_no_cache_is_left_to_the_vector_units() {
        let (ih, iw) = (1 + 1024, 1 + (1 << 20));
        let p = params((1, 32, 32, 1, [ih, iw], [2, 2], [1, 1], [0; 4], [1024, 1 << 20]), Activation::None);
        for (math, _) in WAYS {
            let p = ConvParams { math, ..p.clone() };
            assert_eq!(ConvKind::Blocked.scratch_len(&p, 4), Some(0));
            assert!(!ConvKind::Blocked.is_on_units(&p, &Threads::new(1)));
        }
    }

    /// The error of each way is what its pieces leave out, which no other kernel's is: so it ran.
    #[test]
    fn errors_are_those_of_the_pieces() {
        let p = params((1, 64, 32, 1, [12, 12], [3, 3], [1, 1], [1; 4], [1, 1]), Activation::None);
        let (x, w) = (noise(p.ic * p.ih * p.iw, 5), noise(p.oc * p.ic * 9, 6));
        let want = reference(&p, &x, &w, None, None);
        let ways = [(Math::Bf16x6, 1e-8..5e-7), (Math::Bf16x3, 1e-6..1e-5), (Math::Bf16, 5e-4..5e-3)];
        for (threads, (math, range)) in with_units([1]).iter().flat_map(|it| ways.clone().map(|way| (it, way))) {
            if threads.unit(math).is_none() {
                continue;
            }
            let p = ConvParams { math, ..p.clone() };
            let got = run(threads, ConvKind::Blocked, &p, &x, &w, None, None);
            let error = error_of_largest(&got, &want);
            assert!(range.contains(&error), "{math:?}: {error:e}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite() {
        let p = params((1, 40, 40, 1, [23, 23], [3, 3], [1, 1], [1; 4], [1, 1]), Activation::None);
        let special = [f32::INFINITY, f32::NAN, f32::MAX].into_iter().flat_map(|it| [(true, it), (false, it)]);
        for ((in_x, special), threads) in special.flat_map(|it| with_units([1]).into_iter().map(move |on| (it, on))) {
            let threads = &threads;
            let (mut x, mut w) = (noise(p.ic * p.ih * p.iw, 5), noise(p.oc * p.ic * 9, 6));
            if in_x {
                x[35 * 529 + 8] = special
            } else {
                w[(33 * p.ic + 38) * 9 + 4] = special
            }
            let want = run(threads, ConvKind::Blocked, &p, &x, &w, None, None);
            for ((math, error), kind) in
                WAYS.into_iter().flat_map(|way| [(way, ConvKind::Blocked), (way, ConvKind::Winograd)])
            {
                let got = run(threads, kind, &ConvParams { math, ..p.clone() }, &x, &w, None, None);
                for (got, want) in got.iter().zip(&want) {
                    assert!(as_in_f32(*got, *want, 20.0 * error), "{math:?} {special} {in_x}: {got} for {want}");
                }
            }
        }
    }
}
