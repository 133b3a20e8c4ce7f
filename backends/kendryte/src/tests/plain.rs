//! A convolution layer straight from the formulas (kmodel v3, arithmetic), one pixel at a time, in 128 bits.

use crate::kmodel::conv::Conv;

/// The output, packed CHW; none when a sum needs more than 36 bits.
pub(super) fn convolve(conv: &Conv, input: &[u8]) -> Option<Vec<u8>> {
    let a = &conv.arguments;
    let (width, height) = (a.width as usize, a.height as usize);
    let mut out = Vec::new();
    for oc in 0..a.output_channels as usize {
        let mut plane = Vec::new();
        for y in 0..height {
            for x in 0..width {
                plane.push(pixel(conv, input, oc, y as i64, x as i64)?);
            }
        }
        let pool = crate::kmodel::arguments::POOLINGS.iter().position(|pool| *pool == a.pooling);
        out.extend(pooled(pool.expect("known"), &plane, width as i64, height as i64));
    }
    Some(out)
}

fn pixel(conv: &Conv, input: &[u8], oc: usize, y: i64, x: i64) -> Option<u8> {
    let a = &conv.arguments;
    let (width, height) = (i64::from(a.width), i64::from(a.height));
    let k = i64::from(a.kernel.size());
    let channels = if a.depthwise { oc..oc + 1 } else { 0..a.input_channels as usize };
    let count = channels.len();
    let (mut products, mut sum_x, mut sum_w) = (0i128, 0i128, 0i128);
    for (number, ic) in channels.enumerate() {
        for ky in 0..k {
            for kx in 0..k {
                let (iy, ix) = (y + ky - k / 2, x + kx - k / 2);
                let inside = iy >= 0 && iy < height && ix >= 0 && ix < width;
                let x =
                    if inside { input[(ic as i64 * height * width + iy * width + ix) as usize] } else { a.pad_value };
                let w = conv.weights[((oc * count + number) as i64 * k * k + ky * k + kx) as usize];
                products += i128::from(x) * i128::from(w);
                sum_x += i128::from(x);
                sum_w += i128::from(w);
            }
        }
    }
    let acc = products
        + ((i128::from(a.arg_x) * sum_x) >> a.shr_x)
        + ((i128::from(a.arg_w) * sum_w) >> a.shr_w)
        + i128::from(a.arg_add) * count as i128;
    let norm = conv.batch_norm[oc];
    let v = ((fit(acc)? * i128::from(norm.mul)) >> norm.shift) + i128::from(norm.add);
    Some(activate(conv, fit(v)?))
}

fn fit(value: i128) -> Option<i128> {
    (-(1i128 << 35)..1i128 << 35).contains(&value).then_some(value)
}

fn activate(conv: &Conv, v: i128) -> u8 {
    let mut segment = &conv.activation[0];
    for candidate in &conv.activation {
        if v > i128::from(candidate.start) {
            segment = candidate;
        }
    }
    let t = (v - i128::from(segment.start)) * i128::from(segment.mul);
    let rounded = if segment.shift == 0 {
        t
    } else {
        let (q, f, half) = (t >> segment.shift, t & ((1 << segment.shift) - 1), 1i128 << (segment.shift - 1));
        let sign = if t < 0 { -1 } else { 1 };
        if f < half || (f == half && q % 2 == 0) { q } else { q + sign }
    };
    (rounded + i128::from(segment.bias)).clamp(0, 255) as u8
}

fn pooled(pool: usize, plane: &[u8], width: i64, height: i64) -> Vec<u8> {
    let (size, stride) = [(1, 1), (2, 2), (2, 2), (4, 4), (4, 4), (1, 2), (1, 2), (1, 4), (2, 1), (2, 1)][pool];
    let mut out = Vec::new();
    for y in 0..height / stride {
        for x in 0..width / stride {
            let at = |y: i64, x: i64| plane[(y * width + x) as usize];
            let (top, left) = (y * stride, x * stride);
            let cells = (0..size).flat_map(|ky| (0..size).map(move |kx| (top + ky, left + kx)));
            out.push(match pool {
                1 | 3 | 9 => {
                    cells.filter(|(y, x)| *y < height && *x < width).map(|(y, x)| at(y, x)).max().expect("a cell")
                }
                2 | 4 | 8 => {
                    let sum: i64 = cells.map(|(y, x)| i64::from(at(y.min(height - 1), x.min(width - 1)))).sum();
                    (sum / (size * size)) as u8
                }
                6 => at(top, left + 1),
                _ => at(top, left),
            });
        }
    }
    out
}
