//! Threads for the kernels, and how they share what they write.

use super::bf16::Unit;
use super::isa::Isa;
use super::layout::BLOCK;
use super::precision::Math;
use super::thread_pool::ThreadPool;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Most ranges that tasks are shared out in. More threads have some in common.
const MOST_RANGES: usize = 16;

/// The threads (and the instruction set) that kernels run on. Build once, share by reference.
pub struct Threads {
    isa: Isa,
    count: usize,
    pool: Option<ThreadPool>,
    /// Whether products of bytes may use matrix units, where there are any.
    amx: bool,
    /// What computes products of bf16, whatever else there is.
    #[cfg(test)]
    only: Option<Unit>,
}

impl Threads {
    /// `count` threads (at least 1, the caller included) with the best instruction set of this machine.
    pub fn new(count: usize) -> Threads {
        Threads::with_isa(count, Isa::detect())
    }

    /// As [`Threads::new`] with a given instruction set; falls back to the portable one if the CPU lacks it.
    pub fn with_isa(count: usize, isa: Isa) -> Threads {
        let isa = if isa.is_available() { isa } else { Isa::Portable };
        let count = count.max(1);
        let pool = (count > 1).then(|| ThreadPool::start(count - 1));
        Threads {
            isa,
            count,
            pool,
            amx: true,
            #[cfg(test)]
            only: None,
        }
    }

    /// As [`Threads::new`] with AVX-512 and one unit for products of bf16, which the machine has to have.
    #[cfg(test)]
    pub(crate) fn with_unit(count: usize, unit: Unit) -> Threads {
        Threads { only: Some(unit), ..Threads::with_isa(count, Isa::Avx512) }
    }

    /// Whether products of bytes may use matrix units, where there are any; they may unless this says otherwise.
    pub fn with_amx(self, amx: bool) -> Threads {
        Threads { amx, ..self }
    }

    /// Whether products of bytes use matrix units. The first question asks the kernel of the operating system for them.
    pub(crate) fn has_amx(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        let is_there = || self.isa == Isa::Avx512 && super::amx::multiplies_bytes();
        #[cfg(not(target_arch = "x86_64"))]
        let is_there = || false;
        self.amx && is_there()
    }

    /// What computes products of bf16. The first question asks the kernel of the operating system for matrix units.
    pub(crate) fn unit(&self, math: Math) -> Option<Unit> {
        #[cfg(test)]
        if let Some(unit) = self.only {
            return Some(unit).filter(|unit| unit.computes(math));
        }
        Unit::of(math).filter(|_| self.isa == Isa::Avx512)
    }

    /// How many threads work, the caller included.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The instruction set the kernels use.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Calls `f(i)` once for every `i` in `0..tasks`, spread over the threads, and returns when all are done.
    /// With one thread or one task it runs on the caller, without synchronisation. A call from inside a task, or
    /// while another caller uses these threads, runs on the caller alone.
    pub fn parallel_for(&self, tasks: usize, f: impl Fn(usize) + Sync) {
        self.parallel_for_each(tasks, |_, i| f(i));
    }

    /// As [`Threads::parallel_for`], `f(thread, i)`: the threads that are in it at the same time have different numbers below
    /// [`Threads::count`], for what each has of its own. Each begins with the same range of the tasks whenever there are as many, since what
    /// it wrote in one step is in its own caches, and goes over to what others have left.
    pub(crate) fn parallel_for_each(&self, tasks: usize, f: impl Fn(usize, usize) + Sync) {
        let ranges = self.count.min(MOST_RANGES);
        let begun: [AtomicUsize; MOST_RANGES] = [const { AtomicUsize::new(0) }; MOST_RANGES];
        let body = |thread: usize| {
            for index in (0..ranges).map(|further| (thread + further) % ranges) {
                let (range, begun) = (part(tasks, ranges, index), &begun[index]);
                // A read first: many threads that find nothing left do not take the line from each other.
                while begun.load(Ordering::Relaxed) < range.len() {
                    let i = range.start + begun.fetch_add(1, Ordering::Relaxed);
                    if i < range.end {
                        f(thread, i);
                    }
                }
            }
        };
        let done = tasks > 1 && self.pool.as_ref().is_some_and(|pool| pool.lead(&body));
        if !done {
            (0..tasks).for_each(|i| f(0, i));
        }
    }
}

/// A mutable slice that tasks share, each writing its own elements: for tiled outputs that `chunks_mut` cannot cut.
#[derive(Clone, Copy)]
pub(crate) struct SharedMut<'a, T> {
    ptr: *mut T,
    len: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: it is only a pointer; `slice` makes the caller vouch that concurrent tasks use disjoint elements.
unsafe impl<T: Send> Send for SharedMut<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SharedMut<'_, T> {}

impl<'a, T> SharedMut<'a, T> {
    pub(crate) fn new(slice: &'a mut [T]) -> Self {
        SharedMut { ptr: slice.as_mut_ptr(), len: slice.len(), life: PhantomData }
    }

    /// The elements `start..start + len`.
    ///
    /// # Safety
    /// No other live reference, here or in another task, covers any of these elements.
    pub(crate) unsafe fn slice(&self, start: usize, len: usize) -> &'a mut [T] {
        assert!(start <= self.len && len <= self.len - start);
        // SAFETY: in bounds (checked), exclusive (the caller vouches), and `'a` outlives the borrow.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.add(start), len) }
    }

    /// The start of the slice, for tiles with gaps; writes through it obey the rule of [`SharedMut::slice`].
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.ptr
    }
}

/// How to cut a grid of `columns` x `rows` equal pieces (times `outer`) for `threads`: (column parts, row parts) with the
/// least time for the slowest thread, few parts, and cuts across the preferred side where that makes no difference.
pub(crate) fn grid(threads: usize, outer: usize, columns: usize, rows: usize, columns_first: bool) -> (usize, usize) {
    let (threads, outer) = (threads.max(1), outer.max(1));
    let mut best = (1, 1);
    let mut least = usize::MAX;
    for i in 1..=threads {
        for round in 1..=3 {
            let other = (threads * round).div_ceil(i * outer).max(1);
            // `i` cuts across the side that is not preferred, so few of them are tried first.
            let (c, r) = if columns_first { (other, i) } else { (i, other) };
            let (c, r) = (c.min(columns).max(1), r.min(rows).max(1));
            let time = (outer * c * r).div_ceil(threads) * columns.div_ceil(c) * rows.div_ceil(r);
            if time < least {
                (least, best) = (time, (c, r));
            }
        }
    }
    best
}

/// How to cut images, of so many planes together (blocks of 16 channels), for steps that compute each plane for itself: (parts of the
/// planes, parts of the rows). One image by rows where those are many, as convolutions cut it: then a thread reads what it wrote itself. From a
/// core with a third-level cache of its own, a line takes as long as from memory.
pub(crate) fn image_grid(threads: usize, images: usize, planes: usize, rows: usize, pixels: usize) -> (usize, usize) {
    // Convolutions cut several images from each other, and one by channels where filters are larger than it. In networks that we know,
    // those in front of depthwise ones have up to 4 channels a pixel and are cut by rows, or 11 and more.
    let by_planes = images > 1 || planes.saturating_mul(BLOCK) > pixels.saturating_mul(4);
    // Uneven parts of so many rows cost less than lines of other cores.
    if !by_planes && rows / 8 >= threads { (1, threads) } else { grid(threads, 1, planes, rows, by_planes) }
}

/// The `i`-th of `parts` contiguous, nearly equal ranges of `0..total`.
pub(crate) fn part(total: usize, parts: usize, i: usize) -> std::ops::Range<usize> {
    total * i / parts..total * (i + 1) / parts
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn every_task_runs_once() {
        for n in [1, 2, 3, MOST_RANGES + 3] {
            let threads = Threads::new(n);
            for tasks in [0, 1, 2, 7, 1000] {
                let hits: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                threads.parallel_for(tasks, |i| {
                    hits[i].fetch_add(1, Ordering::Relaxed);
                    threads.parallel_for(2, |_| ());
                });
                assert!(hits.iter().all(|h| h.load(Ordering::Relaxed) == 1));
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
            threads.parallel_for(3, |_| ());
        }
    }

    #[test]
    fn grids_are_balanced() {
        // threads, outer, columns, rows, prefer columns: parts
        for (input, want) in [
            ((1, 1, 9, 9, true), (1, 1)),
            ((2, 1, 8, 7, true), (2, 1)),
            ((2, 1, 8, 14, false), (1, 2)),
            ((2, 1, 3, 14, true), (1, 2)),
            ((2, 2, 3, 14, true), (1, 1)),
            ((4, 1, 2, 8, true), (2, 2)),
            ((4, 1, 1, 1, true), (1, 1)),
        ] {
            let (threads, outer, columns, rows, first) = input;
            assert_eq!(grid(threads, outer, columns, rows, first), want, "{input:?}");
        }
    }

    /// The first tasks of both ranges wait for each other.
    #[test]
    fn threads_begin_with_ranges_of_their_own() {
        let threads = Threads::new(2);
        for _ in 0..100 {
            let begun = [const { AtomicUsize::new(usize::MAX) }; 2];
            threads.parallel_for_each(4, |thread, i| {
                if i % 2 == 0 {
                    begun[i / 2].store(thread, Ordering::SeqCst);
                    while begun.iter().any(|it| it.load(Ordering::SeqCst) == usize::MAX) {
                        std::thread::yield_now();
                    }
                }
            });
            assert_eq!(begun.map(AtomicUsize::into_inner), [0, 1]);
        }
    }

    #[test]
    fn images_are_cut_by_rows_where_those_are_many() {
        // threads, images, planes, rows, pixels: parts
        for (input, want) in [
            ((1, 1, 9, 9, 81), (1, 1)),
            ((2, 1, 2, 112, 112 * 112), (1, 2)),
            ((2, 1, 36, 14, 14 * 14), (1, 2)),
            ((2, 1, 2, 75, 75 * 75), (1, 2)),
            ((2, 1, 60, 7, 7 * 7), (2, 1)),
            ((2, 1, 61, 8, 8 * 8), (1, 2)),
            ((2, 2, 4, 112, 112 * 112), (2, 1)),
            ((4, 1, 3, 6, 6 * 6), (1, 4)),
            ((3, 1, 1, 0, 0), (1, 1)),
        ] {
            let (threads, images, planes, rows, pixels) = input;
            assert_eq!(image_grid(threads, images, planes, rows, pixels), want, "{input:?}");
        }
    }

    #[test]
    fn panics_reach_the_caller_and_leave_the_pool_usable() {
        let threads = Threads::new(2);
        for _ in 0..3 {
            let caught = catch_unwind(AssertUnwindSafe(|| threads.parallel_for(8, |i| assert!(i != 5))));
            assert!(caught.is_err());
        }
        threads.parallel_for(4, |_| ());
    }
}
