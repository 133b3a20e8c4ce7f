//! Threads for the kernels: a fixed crew that spins briefly between jobs, because kernels follow each other within
//! microseconds and a wake-up through the kernel of the operating system costs more than a small layer.

use super::isa::Isa;
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;

/// Iterations of the spin loop before a waiting worker parks (about 50 to 100 microseconds).
const SPINS: usize = 2000;

/// A type-erased `&dyn Fn()` that lives as long as the call that published it.
#[derive(Clone, Copy)]
struct Job {
    data: *const (),
    call: unsafe fn(*const ()),
}

struct Crew {
    epoch: AtomicUsize,
    job: UnsafeCell<Option<Job>>,
    /// Workers inside the job, plus `CLOSED` while there is none to enter.
    gate: AtomicUsize,
    stop: AtomicBool,
    asleep: Vec<AtomicBool>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The bit of `Crew::gate` that keeps workers out. A leader that has done all the work itself closes the gate and goes
/// on: it does not wait for workers that the operating system has not scheduled yet.
const CLOSED: usize = 1 << (usize::BITS - 1);

// SAFETY: `job` is written only by the holder of `Threads::leader` while the gate is closed and nobody is inside; workers
// read it only inside, after the acquire operation on the gate that let them in.
unsafe impl Sync for Crew {}
// SAFETY: the pointers in `job` are only followed during the call that published them.
unsafe impl Send for Crew {}

/// The threads (and the instruction set) that kernels run on. Build once, share by reference.
pub struct Threads {
    isa: Isa,
    count: usize,
    crew: Option<Arc<Crew>>,
    workers: Vec<JoinHandle<()>>,
    leader: Mutex<()>,
}

impl Threads {
    /// `count` threads (at least 1, the caller included) with the best instruction set of this machine.
    pub fn new(count: usize) -> Threads {
        Threads::with_isa(count, Isa::detect())
    }

    /// As [`Threads::new`] with a given instruction set; falls back to the portable one if the CPU lacks it.
    pub fn with_isa(count: usize, isa: Isa) -> Threads {
        let isa = if isa.is_available() { isa } else { Isa::Portable };
        let mut threads = Threads { isa, count: count.max(1), crew: None, workers: Vec::new(), leader: Mutex::new(()) };
        if threads.count > 1 {
            let crew = Arc::new(Crew {
                epoch: AtomicUsize::new(0),
                job: UnsafeCell::new(None),
                gate: AtomicUsize::new(CLOSED),
                stop: AtomicBool::new(false),
                asleep: (1..threads.count).map(|_| AtomicBool::new(false)).collect(),
                panic: Mutex::new(None),
            });
            for index in 0..threads.count - 1 {
                let crew = Arc::clone(&crew);
                let spawned = std::thread::Builder::new()
                    .name(format!("byoc-kernel-{}", index + 1))
                    .spawn(move || work(&crew, index));
                // A machine that refuses threads still computes, with fewer of them.
                match spawned {
                    Ok(handle) => threads.workers.push(handle),
                    Err(_) => break,
                }
            }
            threads.crew = Some(crew);
        }
        threads
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
        let guard = match self.leader.try_lock() {
            _ if tasks <= 1 || self.workers.is_empty() => None,
            Ok(guard) => Some(guard),
            // A job that panicked left nothing half done: the lock only says who leads.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let (Some(_guard), Some(crew)) = (guard, &self.crew) else {
            (0..tasks).for_each(f);
            return;
        };
        let next = AtomicUsize::new(0);
        let body = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= tasks {
                    break;
                }
                f(i);
            }
        };
        self.lead(crew, &body);
    }

    /// Publishes `body` to the workers, runs it here as well, and waits for everyone.
    fn lead<F: Fn() + Sync>(&self, crew: &Crew, body: &F) {
        unsafe fn call<F: Fn()>(data: *const ()) {
            // SAFETY: `data` is the `&F` of the `lead` call that waits for this one to return.
            unsafe { (*data.cast::<F>())() }
        }
        // SAFETY: the leader's lock is held, the gate is closed and was empty when it closed: nobody reads the cell.
        unsafe {
            *crew.job.get() = Some(Job { data: std::ptr::from_ref(body).cast(), call: call::<F> });
        }
        // Not a store: a worker that came too late for the last job may be about to undo its entry.
        crew.gate.fetch_and(!CLOSED, Ordering::Release);
        crew.epoch.fetch_add(1, Ordering::SeqCst);
        for (asleep, worker) in crew.asleep.iter().zip(&self.workers) {
            if asleep.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(body));
        // Returning or unwinding before everyone has left would free what the workers still use.
        crew.gate.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0;
        while crew.gate.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            if spins % SPINS == 0 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        let theirs = crew.panic.lock().map_or(None, |mut slot| slot.take());
        if let Some(payload) = own.err().or(theirs) {
            resume_unwind(payload);
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(crew) = &self.crew {
            crew.stop.store(true, Ordering::SeqCst);
            crew.epoch.fetch_add(1, Ordering::SeqCst);
        }
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker cannot panic: it catches what its jobs throw.
            drop(worker.join());
        }
    }
}

/// The life of a worker: wait for the next epoch, do its job, say so.
fn work(crew: &Crew, index: usize) {
    let mut seen = 0;
    loop {
        seen = wait_for_epoch(crew, index, seen);
        if crew.stop.load(Ordering::SeqCst) {
            return;
        }
        if crew.gate.fetch_add(1, Ordering::AcqRel) & CLOSED == 0 {
            enter(crew);
        }
        crew.gate.fetch_sub(1, Ordering::Release);
    }
}

/// Runs the job; the caller is inside the gate.
fn enter(crew: &Crew) {
    // SAFETY: inside the gate the leader does not write, and the acquire operation that let this worker in orders the
    // read after the leader's write.
    if let Some(job) = unsafe { *crew.job.get() } {
        // SAFETY: the leader keeps what `data` points to alive until everyone has left.
        if let Err(payload) = catch_unwind(|| unsafe { (job.call)(job.data) })
            && let Ok(mut slot) = crew.panic.lock()
        {
            *slot = Some(payload);
        }
    }
}

fn wait_for_epoch(crew: &Crew, index: usize, seen: usize) -> usize {
    for _ in 0..SPINS {
        let now = crew.epoch.load(Ordering::Acquire);
        if now != seen {
            return now;
        }
        std::hint::spin_loop();
    }
    loop {
        crew.asleep[index].store(true, Ordering::SeqCst);
        // Read again after announcing the sleep: the leader either sees the announcement or is seen here.
        let now = crew.epoch.load(Ordering::SeqCst);
        if now == seen {
            std::thread::park();
        }
        crew.asleep[index].store(false, Ordering::SeqCst);
        if now != seen {
            return now;
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

/// The `i`-th of `parts` contiguous, nearly equal ranges of `0..total`.
pub(crate) fn part(total: usize, parts: usize, i: usize) -> std::ops::Range<usize> {
    total * i / parts..total * (i + 1) / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_runs_once() {
        for n in [1, 2, 3] {
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

    #[test]
    fn panics_reach_the_caller_and_leave_the_crew_usable() {
        let threads = Threads::new(2);
        for _ in 0..3 {
            let caught = catch_unwind(AssertUnwindSafe(|| threads.parallel_for(8, |i| assert!(i != 5))));
            assert!(caught.is_err());
        }
        threads.parallel_for(4, |_| ());
    }
}
