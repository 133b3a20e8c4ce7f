//! A pool of threads that spins briefly between jobs, because kernels follow each other within microseconds and a wake-up
//! through the kernel of the operating system costs more than a small layer.
//!
//! `tests/tests/runtime/interleavings.rs` compiles this file once more, with a model checker's types in place of those of `sync`.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::sync::{Arc, AtomicBool, AtomicUsize, Mutex, Ordering, SPINS, UnsafeCell, hint, thread};

/// Threads that work on a job together with its caller.
pub(crate) struct ThreadPool {
    state: Arc<State>,
    workers: Vec<thread::JoinHandle<()>>,
    /// Held by who has the pool at work.
    leader: Mutex<()>,
}

/// A type-erased `&dyn Fn(usize)` that lives as long as the call that published it.
#[derive(Clone, Copy)]
struct Job {
    data: *const (),
    call: unsafe fn(*const (), usize),
}

/// What leader and workers share.
struct State {
    /// Counts the jobs, and the end.
    epoch: AtomicUsize,
    job: UnsafeCell<Option<Job>>,
    /// Workers inside the job, plus `CLOSED` while there is none to enter.
    gate: AtomicUsize,
    stop: AtomicBool,
    /// For each worker, whether it may have to be woken.
    asleep: Vec<AtomicBool>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The bit of `State::gate` that keeps workers out. A leader that has done all the work itself closes the gate and goes
/// on: it does not wait for workers that the operating system has not scheduled yet.
const CLOSED: usize = 1 << (usize::BITS - 1);

// SAFETY: `job` is written only by the holder of `ThreadPool::leader` while the gate is closed and no worker is inside; workers
// read it only inside, after the acquire operation on the gate that let them in.
unsafe impl Sync for State {}
// SAFETY: the pointers in `job` are only followed during the call that published them.
unsafe impl Send for State {}

impl ThreadPool {
    /// A pool of `count` workers besides the leader, or of fewer where the machine refuses threads.
    pub(crate) fn start(count: usize) -> ThreadPool {
        let state = Arc::new(State {
            epoch: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            gate: AtomicUsize::new(CLOSED),
            stop: AtomicBool::new(false),
            asleep: (0..count).map(|_| AtomicBool::new(false)).collect(),
            panic: Mutex::new(None),
        });
        let start = |index: usize| {
            let state = Arc::clone(&state);
            thread::Builder::new().name(format!("byoc-kernel-{}", index + 1)).spawn(move || work(&state, index)).ok()
        };
        let workers = (0..count).map_while(start).collect();
        ThreadPool { state, workers, leader: Mutex::new(()) }
    }

    /// Has everyone call `body` with a number of its own, the caller with 0, and returns when all have returned that began. A worker may
    /// call it again when it has returned. Does nothing and says so where there are no workers or the pool is at work already. A panic
    /// in `body` goes on in the caller.
    pub(crate) fn lead<F: Fn(usize) + Sync>(&self, body: &F) -> bool {
        let leads = match self.leader.try_lock() {
            // A job that panicked left nothing half done: the lock only says who leads.
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            lock => lock.ok(),
        };
        let Some(_leads) = leads.filter(|_| !self.workers.is_empty()) else { return false };
        let state = &*self.state;
        let job = Job { data: std::ptr::from_ref(body).cast(), call: call::<F> };
        // SAFETY: the leader's lock is held, the gate is closed and was empty when it closed: no thread reads the cell.
        state.job.with_mut(|cell| unsafe { *cell = Some(job) });
        // Not a store: a worker that came too late for the last job may be about to undo its entry.
        state.gate.fetch_and(!CLOSED, Ordering::Release);
        state.epoch.fetch_add(1, Ordering::SeqCst);
        for (asleep, worker) in state.asleep.iter().zip(&self.workers) {
            if asleep.load(Ordering::SeqCst) {
                worker.thread().unpark();
            }
        }
        let own = catch_unwind(AssertUnwindSafe(|| body(0)));
        // Returning or unwinding before everyone has left would free what the workers still use.
        state.gate.fetch_or(CLOSED, Ordering::AcqRel);
        let mut spins = 0;
        while state.gate.load(Ordering::Acquire) != CLOSED {
            spins += 1;
            if spins < SPINS {
                hint::spin_loop();
            } else {
                spins = 0;
                thread::yield_now();
            }
        }
        let theirs = state.panic.lock().map_or(None, |mut slot| slot.take());
        if let Some(payload) = own.err().or(theirs) {
            resume_unwind(payload);
        }
        true
    }
}

/// Calls the `F` that `data` points to.
///
/// # Safety
/// It is alive.
unsafe fn call<F: Fn(usize)>(data: *const (), thread: usize) {
    // SAFETY: `data` is the `&F` of the `lead` call that waits for this one to return.
    unsafe { (*data.cast::<F>())(thread) }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::SeqCst);
        self.state.epoch.fetch_add(1, Ordering::SeqCst);
        for worker in self.workers.drain(..) {
            worker.thread().unpark();
            // A worker cannot panic: it catches what its jobs throw.
            drop(worker.join());
        }
    }
}

/// The life of a worker: wait for the next epoch, do its job, say so.
fn work(state: &State, index: usize) {
    let mut seen = 0;
    loop {
        seen = wait_for_epoch(state, index, seen);
        if state.stop.load(Ordering::SeqCst) {
            return;
        }
        if state.gate.fetch_add(1, Ordering::AcqRel) & CLOSED == 0 {
            enter(state, index + 1);
        }
        state.gate.fetch_sub(1, Ordering::Release);
    }
}

/// Runs the job; the caller is inside the gate.
fn enter(state: &State, thread: usize) {
    // SAFETY: inside the gate the leader does not write, and the acquire operation that let this worker in orders the
    // read after the leader's write.
    if let Some(job) = state.job.with(|cell| unsafe { *cell }) {
        // SAFETY: the leader keeps what `data` points to alive until everyone has left.
        if let Err(payload) = catch_unwind(|| unsafe { (job.call)(job.data, thread) })
            && let Ok(mut slot) = state.panic.lock()
        {
            *slot = Some(payload);
        }
    }
}

fn wait_for_epoch(state: &State, index: usize, seen: usize) -> usize {
    for _ in 0..SPINS {
        let now = state.epoch.load(Ordering::Acquire);
        if now != seen {
            return now;
        }
        hint::spin_loop();
    }
    loop {
        state.asleep[index].store(true, Ordering::SeqCst);
        // Read again after announcing the sleep: the leader either sees the announcement or is seen here.
        let now = state.epoch.load(Ordering::SeqCst);
        if now == seen {
            thread::park();
        }
        state.asleep[index].store(false, Ordering::SeqCst);
        if now != seen {
            return now;
        }
    }
}
