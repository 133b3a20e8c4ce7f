//! Layers on bytes, and layers that only move elements (kmodel v3, layer types and SDK CPU-layer details).

use byoc_plugin_api::Error;

use super::memory::{Maps, Memories};
use crate::kmodel::access::{max_pool_reads, quantized_add_count};
use crate::kmodel::bodies::{
    AddPadding, Concat, Flatten, Pool, QuantizedAdd, RemovePadding, Requantize, Rescale, Resize, Shape, Upload,
};

/// Shift to the right by up to 63 bits, whatever the file says: more would be undefined in C.
fn shift_right(value: i64, shift: i32) -> i64 {
    value >> shift.clamp(0, 63)
}

/// The SDK's rounding: half of the last place goes away from zero after a shift towards minus infinity.
fn carry_shift(value: i64, shift: i32) -> i64 {
    if shift <= 0 {
        return value;
    }
    let value = shift_right(value, shift - 1);
    match (value & 1, value < 0) {
        (0, _) => value >> 1,
        (_, false) => (value >> 1) + 1,
        (_, true) => (value >> 1) - 1,
    }
}

/// `(a + offset) * mul` of both, shifted together if both shifts are equal, else each by its own. Numbers that leave
/// 64 bits, which no compiler writes, wrap.
pub(super) fn add(body: &QuantizedAdd, memories: &mut Memories) -> Result<(), Error> {
    let count = quantized_add_count(body.count);
    let scaled = |x: u8, scale: &Rescale| (i64::from(x) + i64::from(scale.offset)) * i64::from(scale.mul);
    let (a_shift, b_shift) = (body.a_scale.shift, body.b_scale.shift);
    let sum = |a: i64, b: i64| {
        if a_shift == b_shift {
            shift_right(a.wrapping_add(b), a_shift)
        } else {
            shift_right(a, a_shift).wrapping_add(shift_right(b, b_shift))
        }
    };
    let rescaled = &body.output_scale;
    memories.compute(body.output, |main, out| {
        let (a, b) = (main.read(body.a, count)?, main.read(body.b, count)?);
        out.extend(a.iter().zip(b).map(|(&a, &b)| {
            let v = sum(scaled(a, &body.a_scale), scaled(b, &body.b_scale));
            let v = carry_shift(v.wrapping_mul(i64::from(rescaled.mul)), rescaled.shift);
            v.saturating_add(i64::from(rescaled.offset)).clamp(0, 255) as u8
        }));
        Ok(())
    })
}

pub(super) fn requantize(body: &Requantize, memories: &mut Memories) -> Result<(), Error> {
    memories.compute(body.output, |main, out| {
        let input = main.read(body.input, u64::from(body.count))?;
        out.extend(input.iter().map(|&x| body.table[usize::from(x)]));
        Ok(())
    })
}

/// The cells of the window of an output that are inside the input: rows and columns.
pub(super) fn window(pool: &Pool, y: u32, x: u32) -> (std::ops::Range<usize>, std::ops::Range<usize>) {
    let inside = |at: u32, stride: u32, padding: u32, kernel: u32, size: u32| {
        let start = i64::from(at) * i64::from(stride) - i64::from(padding);
        let end = (start + i64::from(kernel)).clamp(0, i64::from(size));
        start.clamp(0, end) as usize..end as usize
    };
    let Shape { width, height, .. } = pool.input_shape;
    (
        inside(y, pool.stride_height, pool.padding_height, pool.kernel_height, height),
        inside(x, pool.stride_width, pool.padding_width, pool.kernel_width, width),
    )
}

/// The maximum starts from 0.
pub(super) fn max_pool(body: &Pool, memories: &mut Memories) -> Result<(), Error> {
    let (width, height) = (body.input_shape.width as usize, body.input_shape.height as usize);
    let channels = if max_pool_reads(body) == 0 { 0 } else { body.output_shape.channels };
    memories.compute(body.output, |main, out| {
        let input = main.read(body.input, max_pool_reads(body))?;
        for channel in 0..channels as usize {
            let channel = &input[channel * width * height..];
            for y in 0..body.output_shape.height {
                for x in 0..body.output_shape.width {
                    let (rows, columns) = window(body, y, x);
                    let line = |row: usize| channel[row * width..][columns.clone()].iter().copied();
                    out.push(rows.flat_map(line).max().unwrap_or(0));
                }
            }
        }
        Ok(())
    })
}

/// The ranges are copied in order, so that a later one sees what an earlier one wrote.
pub(super) fn concat(body: &Concat, memories: &mut Memories) -> Result<(), Error> {
    let mut address = body.output;
    for input in &body.inputs {
        memories.copy(input.start, address, u64::from(input.size))?;
        address = address.saturating_add(input.size);
    }
    Ok(())
}

/// CHW to HWC, elements of `N` bytes.
pub(super) fn flatten<const N: usize>(body: &Flatten, memories: &mut Memories) -> Result<(), Error> {
    let (pixels, channels) = ((body.shape.width as usize) * (body.shape.height as usize), body.shape.channels as usize);
    memories.compute(body.output, |main, out| {
        let input = main.elements::<N>(body.input, body.shape.count())?;
        for pixel in 0..if channels == 0 { 0 } else { pixels } {
            for channel in 0..channels {
                out.extend(input[channel * pixels + pixel]);
            }
        }
        Ok(())
    })
}

/// Nearest neighbour with the SDK's `f32` scale, elements of `N` bytes.
pub(super) fn resize<const N: usize>(body: &Resize, memories: &mut Memories) -> Result<(), Error> {
    let Shape { width, height, channels } = body.shape;
    let scale = |size: u32, out: u32| size as f32 / out as f32;
    let (across, down) = (scale(width, body.output_width), scale(height, body.output_height));
    // The cast rounds down, for nothing is negative.
    let source = |at: u32, scale: f32, size: u32| ((at as f32 * scale) as u32).min(size - 1) as usize;
    memories.compute(body.output, |main, out| {
        let input = main.elements::<N>(body.input, body.shape.count())?;
        for channel in 0..channels as usize {
            for y in 0..if body.output_width == 0 { 0 } else { body.output_height } {
                let line = (channel * height as usize + source(y, down, height)) * width as usize;
                let line = &input[line..][..width as usize];
                (0..body.output_width).for_each(|x| out.extend(line[source(x, across, width)]));
            }
        }
        Ok(())
    })
}

pub(super) fn add_padding(body: &AddPadding, memories: &mut Memories) -> Result<(), Error> {
    let maps = Maps { row: body.kpu_output, width: 4, height: 4, channels: body.channels };
    memories.compute_maps(maps, |main, out| {
        let input = main.read(body.input, u64::from(body.channels))?;
        // The reference leaves the other 15 pixels of a map as they are; nothing that is used depends on them.
        out.extend(input.iter().flat_map(|&byte| std::iter::once(byte).chain([0; 15])));
        Ok(())
    })
}

pub(super) fn remove_padding(body: &RemovePadding, memories: &mut Memories) -> Result<(), Error> {
    memories.compute(body.output, |main, out| {
        let input = main.read(body.input, (16 * u64::from(body.channels)).saturating_sub(15))?;
        out.extend(input.iter().step_by(16));
        Ok(())
    })
}

pub(super) fn upload(body: &Upload, memories: &mut Memories) -> Result<(), Error> {
    let Shape { width, height, channels } = body.shape;
    let maps = Maps { row: body.kpu_output, width, height, channels };
    memories.compute_maps(maps, |main, out| {
        out.extend_from_slice(main.read(body.input, body.shape.count())?);
        Ok(())
    })
}
