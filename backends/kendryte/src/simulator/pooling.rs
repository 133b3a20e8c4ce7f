//! Pooling of bytes after the activation (kmodel v3, arithmetic: pool types 0 to 9).

use crate::kmodel::arguments::Pooling;

/// Whether only one pixel of each window counts, and which: row and column.
pub(crate) fn picked(pooling: Pooling) -> Option<(usize, usize)> {
    match pooling {
        Pooling::None | Pooling::LeftTop2 | Pooling::LeftTop4 => Some((0, 0)),
        Pooling::RightTop2 => Some((0, 1)),
        _ => None,
    }
}

/// Pools one channel of `height` x `width` bytes.
pub(crate) fn pool(pooling: Pooling, input: &[u8], width: usize, height: usize, out: &mut [u8]) {
    let stride = pooling.stride() as usize;
    let out_width = width / stride;
    let window = |y: usize, x: usize, size: usize| {
        let cell = move |index: usize| {
            let (row, column) =
                ((y * stride + index / size).min(height - 1), (x * stride + index % size).min(width - 1));
            input[row * width + column]
        };
        (0..size * size).map(cell)
    };
    // Where a window of stride 1 leaves the image, the last row and column are repeated, which does not change a maximum.
    let mean = |y, x, size: usize| (window(y, x, size).map(u32::from).sum::<u32>() / (size * size) as u32) as u8;
    let most = |y, x, size| window(y, x, size).max().unwrap_or_default();
    for (index, out) in out.iter_mut().enumerate() {
        let (y, x) = (index / out_width, index % out_width);
        *out = match pooling {
            Pooling::Max2 | Pooling::Max2Stride1 => most(y, x, 2),
            Pooling::Mean2 | Pooling::Mean2Stride1 => mean(y, x, 2),
            Pooling::Max4 => most(y, x, 4),
            Pooling::Mean4 => mean(y, x, 4),
            Pooling::None | Pooling::LeftTop2 | Pooling::LeftTop4 => input[y * stride * width + x * stride],
            Pooling::RightTop2 => input[y * stride * width + x * stride + 1],
        };
    }
}
