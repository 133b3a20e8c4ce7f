//! Threads that executables share: a model of many regions has one pool, not one a region.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::kernels::Threads;

static POOLS: Mutex<Vec<Weak<Threads>>> = Mutex::new(Vec::new());

/// `count` threads: those that somebody uses already, or new ones.
pub(super) fn get(count: usize) -> Arc<Threads> {
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    pools.retain(|pool| pool.strong_count() > 0);
    if let Some(pool) = pools.iter().filter_map(Weak::upgrade).find(|pool| pool.count() == count) {
        return pool;
    }
    let pool = Arc::new(Threads::new(count));
    pools.push(Arc::downgrade(&pool));
    pool
}
