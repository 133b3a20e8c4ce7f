//! Every order in which the threads of a pool of json's kernels can take their steps, by loom: the pool's file is compiled
//! once more, with the model checker's types.

mod sync {
    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Arc, Mutex};
    pub(crate) use loom::{hint, thread};

    /// Whoever waits lets others run at once.
    pub(crate) const SPINS: usize = 1;
}

#[path = "../../../backends/json/src/kernels/thread_pool.rs"]
mod thread_pool;

use self::sync::{Arc, AtomicUsize, Ordering, UnsafeCell, thread};
use self::thread_pool::ThreadPool;

/// Steps at which a thread is stopped for another, at most, in one execution: all is tried below that.
const PREEMPTIONS: usize = 3;

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(check);
}

/// What a task makes.
struct Made(UnsafeCell<usize>);

// SAFETY: loom ends the test where two threads use one at the same time; to find that out is what it is for.
unsafe impl Sync for Made {}

/// Has a pool do `tasks` tasks, each of which writes what is its own and nobody's else.
fn lead(pool: &ThreadPool, tasks: usize) -> bool {
    let next = AtomicUsize::new(0);
    let made: Vec<_> = (0..tasks).map(|_| Made(UnsafeCell::new(0))).collect();
    // Who has a number, and whether two have the same.
    let inside: Vec<_> = (0..3).map(|_| Made(UnsafeCell::new(0))).collect();
    let led = pool.lead(&|thread| {
        // SAFETY: nobody else has this number now.
        inside[thread].0.with_mut(|times| unsafe { *times += 1 });
        while let Some(Made(times)) = made.get(next.fetch_add(1, Ordering::Relaxed)) {
            // SAFETY: each number is drawn once, so nobody else is here.
            times.with_mut(|times| unsafe { *times += 1 });
        }
    });
    for Made(times) in &made {
        // SAFETY: everyone has left.
        times.with(|times| assert_eq!(unsafe { *times }, usize::from(led)));
    }
    led
}

#[test]
fn every_job_is_done_once_before_its_leader_goes_on() {
    model(|| {
        let pool = ThreadPool::start(1);
        assert!(lead(&pool, 2));
        assert!(lead(&pool, 2));
    });
}

#[test]
fn two_workers_share_a_job() {
    model(|| {
        let pool = ThreadPool::start(2);
        assert!(lead(&pool, 2));
    });
}

#[test]
fn one_of_two_callers_leads() {
    model(|| {
        let pool = Arc::new(ThreadPool::start(1));
        let other = Arc::clone(&pool);
        let other = thread::spawn(move || lead(&other, 1));
        let led = lead(&pool, 1);
        // The last one ends the pool.
        drop(pool);
        let other = other.join().expect("it ends");
        assert!(led || other);
    });
}

#[test]
fn a_pool_without_a_job_ends() {
    model(|| drop(ThreadPool::start(2)));
}
