//! The threads of a simulator. They live as long as it does.

use rayon_core::{ThreadPool, ThreadPoolBuilder};

/// Threads that share work with the one that asks.
pub(crate) struct Threads {
    count: usize,
    /// The others.
    pool: Option<ThreadPool>,
}

impl Threads {
    /// `count` threads, the caller's included.
    pub(crate) fn new(count: usize) -> Self {
        let others = ThreadPoolBuilder::new().num_threads(count.saturating_sub(1));
        let others = others.thread_name(|index| format!("byoc-kpu-{}", index + 1));
        // A machine that refuses threads still computes, with one.
        let pool = (count > 1).then(|| others.build().ok()).flatten();
        Threads { count: if pool.is_some() { count } else { 1 }, pool }
    }

    /// Threads.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Calls `work` for each part: the caller's thread takes the first, the others share the rest.
    pub(crate) fn share<P: Send>(&self, mut parts: impl Iterator<Item = P>, work: impl Fn(P) + Sync) {
        let Some(own) = parts.next() else { return };
        let (Some(pool), Some(second)) = (&self.pool, parts.next()) else { return work(own) };
        let work = &work;
        pool.in_place_scope(|scope| {
            std::iter::once(second).chain(parts).for_each(|part| scope.spawn(move |_| work(part)));
            work(own);
        });
    }
}
