//! The thread pool that all executables share.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::kernels::Threads;

static POOLS: Mutex<Vec<Weak<Threads>>> = Mutex::new(Vec::new());

/// `count` threads: an existing pool, or a new one.
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
