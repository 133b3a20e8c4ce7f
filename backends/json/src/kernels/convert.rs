//! Conversions between f32 and the types of 16 bits.

use byoc_plugin_api::{bf16, f16};
use half::slice::HalfFloatSliceExt;

use super::parallel::{SharedMut, Threads, part};

/// Elements below which a second thread costs more than it saves.
const ENOUGH: usize = 16 * 1024;

/// A type of 16 bits.
pub(crate) trait Narrow: Copy + Send + Sync {
    /// `y = x`.
    fn widen(x: &[Self], y: &mut [f32]);
    /// `y = x`, rounded to the nearest, of two the even one.
    fn narrow(x: &[f32], y: &mut [Self]);
}

impl Narrow for f16 {
    fn widen(x: &[f16], y: &mut [f32]) {
        x.convert_to_f32_slice(y);
    }
    fn narrow(x: &[f32], y: &mut [f16]) {
        y.convert_from_f32_slice(x);
    }
}

impl Narrow for bf16 {
    fn widen(x: &[bf16], y: &mut [f32]) {
        x.convert_to_f32_slice(y);
    }
    fn narrow(x: &[f32], y: &mut [bf16]) {
        y.convert_from_f32_slice(x);
    }
}

/// Elements of 16 bits as f32.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn widen<T: Narrow>(threads: &Threads, x: &[T], y: &mut [f32]) {
    by_parts(threads, x, y, T::widen);
}

/// Elements of f32 in 16 bits.
///
/// # Panics
/// If the lengths differ.
pub(crate) fn narrow<T: Narrow>(threads: &Threads, x: &[f32], y: &mut [T]) {
    by_parts(threads, x, y, T::narrow);
}

fn by_parts<X: Sync, Y: Send>(threads: &Threads, x: &[X], y: &mut [Y], each: impl Fn(&[X], &mut [Y]) + Sync) {
    assert_eq!(x.len(), y.len());
    let tasks = threads.count().min(x.len().div_ceil(ENOUGH)).max(1);
    let out = SharedMut::new(y);
    threads.parallel_for(tasks, |task| {
        let range = part(x.len(), tasks, task);
        // SAFETY: tasks write disjoint elements.
        each(&x[range.clone()], unsafe { out.slice(range.start, range.len()) });
    });
}
