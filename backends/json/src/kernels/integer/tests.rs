//! Integer products and convolutions against plain loops, to the bit, on every instruction set.

use super::*;
use crate::kernels::elementwise::Binary;
use crate::kernels::layout::BLOCK;
use crate::tests::harness::{byte_configurations, configurations, with_amx};

/// Bytes that are the same in every run.
fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(next).collect()
}

fn reals(len: usize, seed: u64) -> Vec<f32> {
    bytes(len, seed).iter().map(|&byte| (f32::from(byte) + 1.0) / 1000.0).collect()
}

/// The sums of a window or a row, as plain as can be.
fn expect(rows: &[Vec<i32>], column: impl Fn(usize, usize) -> i32, n: usize) -> Vec<i32> {
    let one = |row: &Vec<i32>, n: usize| row.iter().enumerate().map(|(k, a)| a * column(k, n)).sum();
    rows.iter().flat_map(|row| (0..n).map(move |n| one(row, n))).collect()
}

/// All three outputs of `run`, compared with what the epilogue makes of the sums by its description.
fn check(name: &str, sums: &[i32], e: &Epilogue<'_>, n: usize, run: impl Fn(Out<'_>)) {
    let biased = |at: usize| sums[at].wrapping_add(e.bias.get(at % n).copied().unwrap_or(0));
    let mut out = vec![0i32; sums.len()];
    run(Out::Sums(&mut out));
    assert!((0..sums.len()).all(|at| out[at] == biased(at)), "{name}: sums");
    let real = |at: usize| {
        let factor = e.factors.get(at % n).copied().unwrap_or(1.0);
        let offset = e.offsets.get(at % n).copied().unwrap_or(0.0);
        (biased(at) as f32 * factor + offset).max(e.clamp.0).min(e.clamp.1)
    };
    let mut out = vec![f32::NAN; sums.len()];
    run(Out::Real(&mut out));
    assert!((0..sums.len()).all(|at| out[at].to_bits() == real(at).to_bits()), "{name}: numbers");
    for (byte, zero) in [(Byte::U8, 7), (Byte::I8, -11)] {
        let mut out = vec![0u8; sums.len()];
        run(Out::Bytes(&mut out, byte, zero));
        let (least, most) = byte.range();
        let want = |at: usize| {
            (i64::from(real(at).round_ties_even() as i32) + i64::from(zero)).clamp(i64::from(least), i64::from(most))
                as u8
        };
        assert!((0..sums.len()).all(|at| out[at] == want(at)), "{name}: {byte:?}");
    }
}

#[test]
fn products_are_exact() {
    for (case, &(m, n, k)) in
        [(1, 1, 1), (1, 9, 3), (7, 8, 4), (13, 33, 30), (6, 16, 64), (50, 70, 129), (3, 200, 300), (0, 4, 4), (4, 3, 0)]
            .iter()
            .enumerate()
    {
        let (a, b) = (bytes(m * k, 1 + case as u64), bytes(k * n, 50 + case as u64));
        let zeros: Vec<i32> = bytes(n, 3).iter().map(|&zero| i32::from(zero) - 128).collect();
        let bias: Vec<i32> = bytes(n, 4).iter().map(|&bias| i32::from(bias) * 100).collect();
        let (factors, offsets) = (reals(n, 5), reals(n, 6));
        for (byte, zero) in [(Byte::U8, 0), (Byte::U8, 255), (Byte::I8, -128), (Byte::I8, 3)] {
            for (right, by_column) in [(Byte::I8, false), (Byte::U8, true)] {
                let b_zero = |n: usize| match (right, by_column) {
                    (Byte::U8, _) => zeros[n] + 128,
                    (Byte::I8, _) => 0,
                };
                let rows: Vec<Vec<i32>> =
                    (0..m).map(|m| (0..k).map(|k_| byte.number(a[m * k + k_]) - zero).collect()).collect();
                let sums = expect(&rows, |k, n_| right.number(b[k * n + n_]) - b_zero(n_), n);
                let e = Epilogue {
                    zeros: if by_column { &zeros } else { &[] },
                    bias: &bias,
                    factors: &factors,
                    offsets: &offsets,
                    clamp: (-3.0, 60.0),
                    ..Epilogue::default()
                };
                let shape = Shape { m, n, k };
                let mut packed = vec![1i8; packed_len(k, n).expect("countable")];
                pack(k, n, &b, [n, 1], right, &mut packed);
                for threads in byte_configurations() {
                    let known = stats(threads.isa(), &packed, k);
                    let sides = [
                        Right::Packed(&packed, &[]),
                        Right::Packed(&packed, &known),
                        Right::Strided(&b, [n, 1], right),
                    ];
                    for (case, side) in sides.into_iter().enumerate() {
                        let is_packed = matches!(side, Right::Packed(..));
                        let scratch = scratch_len(&threads, &shape, is_packed).expect("countable");
                        let (isa, count) = (threads.isa(), threads.count());
                        let name = format!("{m}x{n}x{k} {byte:?} {right:?} {isa:?} {count} {case}");
                        let plain = Plain { bytes: &a, byte, zero, columns: k };
                        check(&name, &sums, &e, n, |out| {
                            product(&threads, shape, &plain, side, out, &e, &mut vec![f32::NAN; scratch]);
                        });
                    }
                }
            }
        }
    }
}

/// What dot products need to know of all panels.
fn looked(dot: Dot, panels: &[i8], k: usize) -> Vec<PanelStats> {
    let mut found = vec![PanelStats::default(); panels.len() / (k.next_multiple_of(DEPTH) * PANEL)];
    stats::look(dot, panels, k, &mut found);
    found
}

/// Sums of columns, and of weights of one sign that are neighbours in one step or in several.
#[test]
fn panels_are_known() {
    for k in [1, 4, 7, 16, 30, 64] {
        let b = bytes(k * PANEL, k as u64);
        let mut packed = vec![1i8; packed_len(k, PANEL).expect("countable")];
        pack(k, PANEL, &b, [PANEL, 1], Byte::I8, &mut packed);
        let weight = |k_: usize, n: usize| if k_ < k { Byte::I8.number(b[k_ * PANEL + n]) } else { 0 };
        // Of the steps of a chain, in each of which they are the elements `at` and the next one.
        let peak = |chain: usize, n: usize, at: usize| {
            let ends = (0..k.div_ceil(DEPTH)).step_by(chain).map(|first| {
                let of = (first..first + chain).flat_map(|step| [step * DEPTH + at, step * DEPTH + at + 1]);
                let (more, less): (Vec<i32>, Vec<i32>) = of.map(|k| weight(k, n)).partition(|&weight| weight > 0);
                more.iter().sum::<i32>().max(-less.iter().sum::<i32>())
            });
            ends.max().unwrap_or(0)
        };
        for dot in Isa::available().iter().flat_map(|&isa| Dot::available(isa)).filter(|&&dot| dot != Dot::Wide) {
            for known in looked(*dot, &packed, k) {
                assert_eq!(known.sums, std::array::from_fn(|n| (0..k).map(|k| weight(k, n)).sum::<i32>()), "{k}");
                for (index, chain) in [1, 2, 4].into_iter().enumerate().filter(|_| *dot == Dot::Pairs) {
                    let places = (0..PANEL).flat_map(|n| [(n, 0), (n, 2)]);
                    let want = places.map(|(n, at)| peak(chain, n, at)).max().unwrap_or(0);
                    let known = known.peaks[index] as i32;
                    // Two chains at the end count as one.
                    assert!(known == want || known > want && k.div_ceil(DEPTH) % 4 == 3, "{k}: {known}, {want}");
                }
            }
        }
    }
}

/// Weights and bytes by how large they are, and the longest chain whose sums fit.
#[test]
fn products_in_chains_are_exact() {
    let (m, n) = (13, 21);
    for k in [4, 12, 16, 18, 96] {
        for (weight, most, chain) in
            [(127, 255, 0), (127, 129, 1), (64, 255, 1), (63, 130, 2), (15, 255, 4), (0, 255, 4)]
        {
            // The sign changes by the column: both ends of 16 bits are met.
            let b: Vec<u8> = (0..k * n).map(|at| if at % n % 2 == 0 { weight } else { -weight } as u8).collect();
            let a = vec![most; m * k];
            let mut packed = vec![1i8; packed_len(k, n).expect("countable")];
            pack(k, n, &b, [n, 1], Byte::I8, &mut packed);
            let rows = vec![vec![i32::from(most) - 3; k]; m];
            let sums = expect(&rows, |k, n_| Byte::I8.number(b[k * n + n_]), n);
            for threads in byte_configurations() {
                let known = stats(threads.isa(), &packed, k);
                if Dot::available(threads.isa()).contains(&Dot::Pairs) {
                    let as_said = looked(Dot::Pairs, &packed, k).iter().all(|stats| stats.chain(most) == chain);
                    assert!(as_said || !k.is_multiple_of(16), "{k} {weight} {most}");
                }
                let scratch = scratch_len(&threads, &Shape { m, n, k }, true).expect("countable");
                let plain = Plain { bytes: &a, byte: Byte::U8, zero: 3, columns: k };
                let name = format!("{k} {weight} {most} {:?}", threads.isa());
                check(&name, &sums, &Epilogue::default(), n, |out| {
                    let (b, e) = (Right::Packed(&packed, &known), Epilogue::default());
                    product(&threads, Shape { m, n, k }, &plain, b, out, &e, &mut vec![f32::NAN; scratch]);
                });
            }
        }
    }
}

/// All dot products of an instruction set, and matrix units.
fn all(isa: Isa) -> Vec<Dot> {
    let mut all = Dot::available(isa).to_vec();
    if Threads::with_isa(1, isa).has_amx() {
        all.push(Dot::Amx);
    }
    all
}

/// What any dot products make of rows and panels of so many elements, on every number of panels.
fn alike(isa: Isa, rows_of: &[usize], depth: usize) {
    let (most_rows, most_panels, zero) = (rows_of.iter().copied().max().unwrap_or(0), MOST_PANELS, 77);
    let b: Vec<i8> = bytes(most_panels * PANEL * depth, 7).iter().map(|&byte| byte as i8).collect();
    let rows = bytes(most_rows * depth, 8);
    let wide: Vec<i16> = rows.iter().map(|&byte| i16::from(byte) - i16::from(zero)).collect();
    let peaks: Vec<u8> = rows.chunks(MOST_ROWS * depth).map(|tile| *tile.iter().max().expect("bytes")).collect();
    let e = Epilogue::default();
    let multiply = |dot: Dot, finds: bool, m: usize, panels: usize| {
        let known = match dot {
            Dot::Wide => Vec::new(),
            _ if finds => vec![PanelStats::default(); most_panels],
            _ => looked(dot, &b, depth),
        };
        let width = panels * PANEL - 3;
        let mut out = vec![0; m * width];
        for first in (0..panels).step_by(dot.panels()) {
            let range = first..panels.min(first + dot.panels());
            let columns = range.start * PANEL..width.min(range.end * PANEL);
            let target = Out::Sums(&mut out).target();
            let finish = Finish { sums: &[], rows: m, row: 0, columns, steps: [width, BLOCK], out: target, e: &e };
            let tiles = Tiles {
                bytes: &rows[..m * depth],
                places: Places::dense(depth),
                ahead: false,
                wide: &wide[..m * depth],
                peaks: &peaks[..m.div_ceil(MOST_ROWS)],
                zero,
                b: &b[range.start * depth * PANEL..range.end * depth * PANEL],
                finds,
                stats: known.get(range).unwrap_or_default(),
                depth,
                finish,
            };
            let mut units =
                vec![1; Space::new(&Shape { m, n: width, k: depth }, true, dot).expect("countable").units * 4];
            // SAFETY: the rows and columns are in `out`; the CPU has what is available.
            unsafe { multiply::multiply(&tiles, dot, isa != Isa::Portable, &mut units) };
        }
        out
    };
    for (m, panels) in rows_of.iter().flat_map(|&m| (1..=most_panels).map(move |panels| (m, panels))) {
        let want = multiply(Dot::Wide, false, m, panels);
        for dot in all(isa) {
            for finds in [false, true].into_iter().take(if dot == Dot::Vnni512 { 2 } else { 1 }) {
                let found = multiply(dot, finds, m, panels);
                assert_eq!(found, want, "{isa:?} {dot:?} {finds} {m} rows of {depth}, {panels} panels");
            }
        }
    }
}

/// Every dot product that the CPU has, on every number of rows and panels of a tile, and on rows that are cut into several.
#[test]
fn dot_products_are_alike() {
    for &isa in Isa::available() {
        alike(isa, &(1..=13).collect::<Vec<usize>>(), 20);
        for depth in [64, 100, 132, 256] {
            alike(isa, &[1, 7, 16, 17, 33, 50], depth);
        }
    }
}

/// Bytes and numbers that come of a product with random weights.
fn results(threads: &Threads, shape: Shape, rows: &impl Rows) -> (Vec<u8>, Vec<f32>) {
    let Shape { m, n, k } = shape;
    let (b, factors) = (bytes(k * n, 2), reals(n, 3));
    let mut packed = vec![1i8; packed_len(k, n).expect("countable")];
    pack(k, n, &b, [n, 1], Byte::I8, &mut packed);
    let (known, e) = (stats(threads.isa(), &packed, k), Epilogue { factors: &factors, ..Epilogue::default() });
    let mut scratch = vec![f32::NAN; scratch_len(threads, &shape, true).expect("countable")];
    let (mut of_bytes, mut real, right) = (vec![0; m * n], vec![f32::NAN; m * n], Right::Packed(&packed, &known));
    product(threads, shape, rows, right, Out::Bytes(&mut of_bytes, Byte::U8, 128), &e, &mut scratch);
    product(threads, shape, rows, right, Out::Real(&mut real), &e, &mut scratch);
    (of_bytes, real)
}

/// Products of several blocks of rows, and windows of several lines, by matrix units and by vectors.
#[test]
fn matrix_units_are_exact() {
    let plain = Threads::new(1).with_amx(false);
    for (m, n, k) in [(200, 40, 2100), (97, 33, 64), (16, 8, 256), (300, 20, 72), (130, 70, 3072)] {
        let (shape, a) = (Shape { m, n, k }, bytes(m * k, 1));
        let rows = Plain { bytes: &a, byte: Byte::I8, zero: 3, columns: k };
        let want = results(&plain, shape, &rows);
        for threads in with_amx() {
            assert!(is_on_amx(&threads, &shape));
            assert!(results(&threads, shape, &rows) == want, "{shape:?} {}", threads.count());
        }
    }
    for (channels, size, kernel, strides) in [
        (80, [20, 33], [3, 3], [1, 1]),
        (24, [40, 56], [3, 3], [2, 2]),
        (4, [60, 50], [7, 7], [2, 2]),
        (64, [9, 7], [3, 3], [1, 1]),
    ] {
        let (x, pads) = (bytes(2 * size[0] * size[1] * channels, 5), kernel.map(|taps| taps / 2));
        let out = [0, 1].map(|axis| size[axis].div_ceil(strides[axis]));
        let dilations = [1, 1];
        let rows = Image { size, kernel, strides, pads, out, dilations, ..image(&x, Byte::U8, 9, channels) };
        let k = window_len(kernel, channels).expect("countable");
        let shape = Shape { m: 2 * out[0] * out[1], n: 40, k };
        let want = results(&plain, shape, &rows);
        for threads in with_amx() {
            assert!(is_on_amx(&threads, &shape));
            assert!(results(&threads, shape, &rows) == want, "{kernel:?} of {channels} {}", threads.count());
        }
    }
}

/// An image with everything odd about it.
fn image(bytes: &[u8], byte: Byte, zero: i32, channels: usize) -> Image<'_> {
    Image {
        bytes,
        byte,
        zero,
        size: [7, 9],
        channels,
        out: [4, 8],
        kernel: [3, 2],
        strides: [2, 1],
        pads: [2, 1],
        dilations: [2, 3],
    }
}

/// The elements of each window, without the zero point, by tap and channel.
fn windows(image: &Image<'_>, images: usize) -> Vec<Vec<i32>> {
    let mut rows = Vec::new();
    for (n, y, x) in (0..images * image.out[0] * image.out[1])
        .map(|at| (at / image.out[1] / image.out[0], at / image.out[1] % image.out[0], at % image.out[1]))
    {
        let mut row = Vec::new();
        for (ky, kx) in (0..image.kernel[0] * image.kernel[1]).map(|tap| (tap / image.kernel[1], tap % image.kernel[1]))
        {
            let iy = (y * image.strides[0] + ky * image.dilations[0]) as isize - image.pads[0] as isize;
            let ix = (x * image.strides[1] + kx * image.dilations[1]) as isize - image.pads[1] as isize;
            let inside = (0..image.size[0] as isize).contains(&iy) && (0..image.size[1] as isize).contains(&ix);
            for c in 0..image.channels {
                let at = ((n as isize * image.size[0] as isize + iy) * image.size[1] as isize + ix)
                    * image.channels as isize
                    + c as isize;
                row.push(if inside { image.byte.number(image.bytes[at as usize]) - image.zero } else { 0 });
            }
        }
        rows.push(row);
    }
    rows
}

/// A convolution of so many images with `n` filters, [n][taps][channels], of which something is known or nothing.
fn convolved(name: &str, image: &Image<'_>, images: usize, b: &[u8], n: usize) {
    let (taps, e) = (b.len() / n, Epilogue::default());
    let sums = expect(&windows(image, images), |k_, n_| Byte::I8.number(b[n_ * taps + k_]), n);
    // Zeros behind each row of the kernel.
    let k = window_len(image.kernel, image.channels).expect("countable");
    let (line, width) = (taps / image.kernel[0], k / image.kernel[0]);
    let mut padded = vec![0; n * k];
    for (to, from) in padded.chunks_mut(width).zip(b.chunks(line)) {
        to[..line].copy_from_slice(from);
    }
    let mut packed = vec![1i8; packed_len(k, n).expect("countable")];
    pack(k, n, &padded, [1, k], Byte::I8, &mut packed);
    let shape = Shape { m: sums.len() / n, n, k };
    for threads in byte_configurations() {
        let scratch = scratch_len(&threads, &shape, true).expect("countable");
        for known in [&[][..], &stats(threads.isa(), &packed, shape.k)] {
            check(&format!("{name} {:?}", threads.isa()), &sums, &e, shape.n, |out| {
                let b = Right::Packed(&packed, known);
                product(&threads, shape, image, b, out, &e, &mut vec![f32::NAN; scratch]);
            });
        }
    }
}

#[test]
fn convolutions_are_exact() {
    for (channels, out) in [(1, [4, 8]), (3, [4, 8]), (12, [4, 8]), (16, [6, 17])] {
        let x = bytes(2 * 7 * 9 * channels, channels as u64);
        // Windows of the last one are beside the image, too.
        let b = bytes(6 * channels * 10, 9);
        for (byte, zero) in [(Byte::U8, 100), (Byte::I8, -5)] {
            let image = Image { out, ..image(&x, byte, zero, channels) };
            convolved(&format!("{channels} {byte:?}"), &image, 2, &b, 10);
        }
    }
}

/// Rows of more pieces than are kept, and windows that are a step from each other.
#[test]
fn windows_of_many_pieces_are_exact() {
    let x = bytes(2 * 7 * 9 * 3, 8);
    for (kernel, dilations, pads, out) in
        [([6, 7], [2, 2], [5, 6], [3, 9]), ([3, 3], [1, 1], [1, 1], [4, 9]), ([1, 1], [1, 1], [0, 0], [4, 9])]
    {
        let image = Image { kernel, dilations, pads, out, ..image(&x, Byte::U8, 9, 3) };
        convolved(&format!("{kernel:?}"), &image, 2, &bytes(3 * kernel[0] * kernel[1] * 10, 9), 10);
    }
}

/// Windows that are multiplied where they are: lines of several lengths, more of them than are copied together, also beside the image, and
/// columns that fill no vector.
#[test]
fn windows_of_lines_are_exact() {
    let cases: [[[usize; 2]; 5]; 6] = [
        [[30, 60], [3, 3], [1, 1], [1, 1], [1, 1]],
        [[30, 60], [3, 3], [2, 2], [0, 0], [1, 1]],
        [[9, 23], [7, 7], [2, 2], [3, 3], [1, 1]],
        [[8, 5], [3, 1], [1, 1], [2, 0], [3, 2]],
        [[5, 8], [1, 5], [1, 3], [0, 6], [1, 1]],
        [[3, 1], [3, 3], [1, 1], [1, 1], [1, 1]],
    ];
    for [size, kernel, strides, pads, dilations] in cases {
        let reach = |axis: usize| (kernel[axis] - 1) * dilations[axis] + 1;
        let fits = [0, 1].map(|axis| (size[axis] + 2 * pads[axis] - reach(axis)) / strides[axis] + 1);
        for (channels, filters, beside) in [(1, 8, 0), (3, 40, 0), (4, 33, 2), (16, 17, 0)] {
            let x = bytes(2 * size[0] * size[1] * channels, channels as u64);
            let b = bytes(kernel[0] * kernel[1] * channels * filters, 9);
            // Windows of the last ones may be beside the image, too.
            let out = fits.map(|count| count + beside);
            for (byte, zero) in [(Byte::U8, 100), (Byte::I8, -5)] {
                let of = Image { size, kernel, strides, pads, dilations, out, ..image(&x, byte, zero, channels) };
                convolved(&format!("{size:?} {kernel:?} {strides:?} {channels}"), &of, 2, &b, filters);
            }
        }
    }
}

#[test]
fn depthwise_convolutions_are_exact() {
    for channels in [1, 3, 8, 16, 24, 40, 64] {
        let x = bytes(2 * 7 * 9 * channels, channels as u64);
        let weights = bytes(channels * 6, 5);
        let bias: Vec<i32> = bytes(channels, 4).iter().map(|&bias| i32::from(bias) - 99).collect();
        for (byte, zero) in [(Byte::U8, 100), (Byte::I8, -5), (Byte::U8, 0)] {
            for (right, w_zero) in [(Byte::I8, 0), (Byte::U8, 77)] {
                let image = image(&x, byte, zero, channels);
                let rows = windows(&image, 2);
                let one = |row: &Vec<i32>, c: usize| -> i32 {
                    let weight = |tap: usize| right.number(weights[c * 6 + tap]) - w_zero;
                    (0..6).map(|tap| row[tap * channels + c] * weight(tap)).sum()
                };
                let sums: Vec<i32> = rows.iter().flat_map(|row| (0..channels).map(move |c| one(row, c))).collect();
                let mut packed = vec![1i8; channels * 6];
                pack_depthwise(channels, 6, &weights, right, &mut packed);
                let shift = if right == Byte::U8 { 128 } else { 0 };
                let e = Epilogue { zero: w_zero - shift, bias: &bias, ..Epilogue::default() };
                let scratch = depthwise_scratch_len(channels, 6).expect("countable");
                for threads in configurations() {
                    check(&format!("{channels} {byte:?} {:?}", threads.isa()), &sums, &e, channels, |out| {
                        depthwise(&threads, rows.len(), &image, &packed, out, &e, &mut vec![f32::NAN; scratch]);
                    });
                }
            }
        }
    }
}

/// Windows of many columns and of several groups of rows, over rows that are longer than what is interleaved at a time; with scales and
/// ends, also in the wrong order.
#[test]
fn depthwise_convolutions_of_any_size_are_exact() {
    for (kernel, strides, dilations) in [
        ([3, 3], [1, 1], [1, 1]),
        ([3, 3], [2, 2], [1, 1]),
        ([5, 2], [1, 3], [2, 5]),
        ([2, 1], [1, 1], [1, 1]),
        ([9, 5], [3, 1], [1, 1]),
    ] {
        let (taps, size, pads) = (kernel[0] * kernel[1], [6, 150], [3, 2]);
        let reach = |axis: usize| (kernel[axis] - 1) * dilations[axis] + 1;
        let out = [0, 1].map(|axis| (size[axis] + 2 * pads[axis] - reach(axis)) / strides[axis] + 1);
        for channels in [16, 64, 80, 130] {
            let x = bytes(2 * size[0] * size[1] * channels, channels as u64);
            let weights = bytes(channels * taps, 5);
            let bias: Vec<i32> = bytes(channels, 4).iter().map(|&bias| i32::from(bias) - 99).collect();
            let (factors, offsets) = (reals(channels, 5), reals(channels, 6));
            let mut packed = vec![1i8; channels * taps];
            pack_depthwise(channels, taps, &weights, Byte::I8, &mut packed);
            for (byte, zero, clamp) in [(Byte::U8, 100, (0.0, 60.0)), (Byte::I8, -5, (90.0, 3.0))] {
                let image = Image { kernel, strides, dilations, pads, size, out, ..image(&x, byte, zero, channels) };
                let rows = windows(&image, 2);
                let one = |row: &Vec<i32>, c: usize| -> i32 {
                    (0..taps).map(|tap| row[tap * channels + c] * Byte::I8.number(weights[c * taps + tap])).sum()
                };
                let sums: Vec<i32> = rows.iter().flat_map(|row| (0..channels).map(move |c| one(row, c))).collect();
                for (bias, offsets) in [(&bias[..], &offsets[..]), (&[][..], &[][..])] {
                    let e = Epilogue { bias, factors: &factors, offsets, clamp, ..Epilogue::default() };
                    let scratch = depthwise_scratch_len(channels, taps).expect("countable");
                    for threads in configurations().filter(|threads| threads.count() < 3) {
                        check(
                            &format!("{kernel:?} {channels} {byte:?} {:?}", threads.isa()),
                            &sums,
                            &e,
                            channels,
                            |out| {
                                depthwise(&threads, rows.len(), &image, &packed, out, &e, &mut vec![f32::NAN; scratch]);
                            },
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn numbers_are_rounded_to_even_and_kept_in_range() {
    let x = [0.5, 1.5, -0.5, 300.0, -300.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2.6, -2.6];
    for threads in configurations() {
        let mut y = [9u8; 10];
        quantise(&threads, &x, &mut y, Byte::U8, 1.0, 10);
        assert_eq!(y, [10, 12, 10, 255, 0, 0, 255, 0, 13, 7]);
        quantise(&threads, &x, &mut y, Byte::I8, 1.0, -3);
        assert_eq!(y.map(|byte| byte as i8), [-3, -1, -3, 127, -128, 0, 127, -128, 0, -6]);
        let mut back = [0f32; 10];
        dequantise(&threads, &y, &mut back, Byte::I8, 0.5, -3);
        assert_eq!(back, [0.0, 1.0, 0.0, 65.0, -62.5, 1.5, 65.0, -62.5, 1.5, -1.5]);
        let many: Vec<f32> = (0..70_000).map(|at| (at as f32 - 20_000.0) / 7.0).collect();
        let ends = range(&threads, &many, &mut [0.0; 6]);
        assert_eq!(ends, (-20_000.0 / 7.0, 49_999.0 / 7.0));
        assert_eq!(range(&threads, &[], &mut [0.0; 2]), (0.0, 0.0));
        assert_eq!(dynamic_range((-1.0, 254.0)), (1.0, 1));
        assert_eq!(dynamic_range((0.0, 0.0)), (1.0, 0));
    }
}

/// A scale that is not a number makes numbers that are none, and the least byte.
#[test]
fn results_that_are_not_numbers() {
    let (n, k) = (40, 8);
    let (a, b) = (bytes(7 * k, 1), bytes(k * n, 2));
    let (shape, factors) = (Shape { m: 7, n, k }, vec![f32::NAN; n]);
    let mut packed = vec![0; packed_len(k, n).expect("countable")];
    pack(k, n, &b, [n, 1], Byte::I8, &mut packed);
    for (factors, rows) in [(&factors[..], &[][..]), (&[], &factors[..7])] {
        let e = Epilogue { factors, rows, clamp: (0.0, 6.0), ..Epilogue::default() };
        for threads in configurations() {
            let mut scratch = vec![0.0; scratch_len(&threads, &shape, true).expect("countable")];
            let known = stats(threads.isa(), &packed, k);
            let plain = Plain { bytes: &a, byte: Byte::U8, zero: 0, columns: k };
            for stats in [&[][..], &known] {
                let mut out = vec![0.0; 7 * n];
                let right = Right::Packed(&packed, stats);
                product(&threads, shape, &plain, right, Out::Real(&mut out), &e, &mut scratch);
                assert!(out.iter().all(|number| number.is_nan()), "{:?}: {out:?}", threads.isa());
                if rows.is_empty() {
                    let mut out = vec![0; 7 * n];
                    product(&threads, shape, &plain, right, Out::Bytes(&mut out, Byte::U8, 3), &e, &mut scratch);
                    assert!(out.iter().all(|&byte| byte == 3), "{:?}: {out:?}", threads.isa());
                }
            }
        }
    }
}

/// Functions of two tensors, rounded as the numbers that they stand for: also where scales are so small, or so large, or ends are in such an order
/// that more is looked at.
#[test]
fn functions_of_two_are_rounded_as_numbers() {
    let (p, q) = (bytes(5000, 1), bytes(5000, 2));
    let ends = [(f32::NEG_INFINITY, f32::INFINITY), (0.0, 6.0), (5.0, -1.0)];
    for (scales, ends) in [[0.02, 0.013, 0.05], [1e-20, 0.5, 1e-20], [0.3, 0.4, 1e30], [0.0, 1.0, 0.0]]
        .into_iter()
        .flat_map(|scales| ends.map(|ends| (scales, ends)))
    {
        for (byte, other, [p_zero, q_zero, zero]) in
            [(Byte::U8, Byte::U8, [3, 128, 9]), (Byte::I8, Byte::U8, [-7, 0, -100])]
        {
            for function in [Binary::Add, Binary::Sub, Binary::Mul] {
                let number = |byte: Byte, at: u8, zero: i32, scale: f32| (byte.number(at) - zero) as f32 * scale;
                let want = p.iter().zip(&q).map(|(&p, &q)| {
                    let (p, q) = (number(byte, p, p_zero, scales[0]), number(other, q, q_zero, scales[1]));
                    let of_both = match function {
                        Binary::Add => p + q,
                        Binary::Sub => p - q,
                        _ => p * q,
                    };
                    let above = if of_both > ends.0 { of_both } else { ends.0 };
                    Levels::new(byte, zero).byte(if above < ends.1 { above } else { ends.1 } / scales[2])
                });
                let want: Vec<u8> = want.collect();
                for threads in configurations() {
                    let mut y = vec![0; p.len()];
                    let p = Scaled { bytes: &p, byte, scale: scales[0], zero: p_zero };
                    let q = Scaled { bytes: &q, byte: other, scale: scales[1], zero: q_zero };
                    let grid = Grid { byte, scale: scales[2], zero };
                    combine(&threads, function, (p, q), (&mut y, grid), ends);
                    assert!(y == want, "{scales:?} {ends:?} {byte:?} {function:?} {:?}", threads.isa());
                }
            }
        }
    }
}
