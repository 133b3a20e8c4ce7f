//! Threads for the kernels: a fixed crew that spins briefly between jobs, because kernels follow each other within
//! microseconds and a wake-up through the kernel of the operating system costs more than a small layer.

use super::isa::Isa;
use std::any::Any;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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
    pending: AtomicUsize,
    stop: AtomicBool,
    asleep: Vec<AtomicBool>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only by the holder of `Threads::leader` while no worker runs, before the release store of
// `epoch`; workers read it only after the acquire load of `epoch`.
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
        let mut threads =
            Threads { isa, count: count.max(1), crew: None, workers: Vec::new(), leader: Mutex::new(()) };
        if threads.count > 1 {
            let crew = Arc::new(Crew {
                epoch: AtomicUsize::new(0),
                job: UnsafeCell::new(None),
                pending: AtomicUsize::new(0),
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
        let guard = if tasks > 1 && !self.workers.is_empty() { self.leader.try_lock().ok() } else { None };
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
        crew.pending.store(self.workers.len(), Ordering::Relaxed);
        // SAFETY: the leader's lock is held and no worker runs (pending was 0): nobody else touches the cell.
        unsafe { *crew.job.get() = Some(Job { data: std::ptr::from_ref(body).cast(), call: call::<F> }) };
        crew.epoch.fetch_add(1, Ordering::SeqCst);
        for (asleep, worker) in crew.asleep.iter().zip(&self.workers) {
            if asleep.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(body));
        // Unwinding earlier would free what the workers still use.
        let mut spins = 0;
        while crew.pending.load(Ordering::Acquire) != 0 {
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
        // SAFETY: the acquire load of `epoch` orders this read after the leader's write, and the leader does not
        // write again before `pending` falls to zero below.
        if let Some(job) = unsafe { *crew.job.get() } {
            // SAFETY: the leader keeps what `data` points to alive until `pending` is zero.
            if let Err(payload) = catch_unwind(|| unsafe { (job.call)(job.data) })
                && let Ok(mut slot) = crew.panic.lock()
            {
                *slot = Some(payload);
            }
        }
        crew.pending.fetch_sub(1, Ordering::Release);
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
    #[expect(clippy::mut_from_ref, reason = "disjoint parts of one slice, which is what this type is for")]
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
    fn panics_reach_the_caller_and_leave_the_crew_usable() {
        let threads = Threads::new(2);
        for _ in 0..3 {
            let caught = catch_unwind(AssertUnwindSafe(|| threads.parallel_for(8, |i| assert!(i != 5))));
            assert!(caught.is_err());
        }
        threads.parallel_for(4, |_| ());
    }
}
