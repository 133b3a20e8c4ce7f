//! Threads that executables share: a model of many regions has one crew, not one a region.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::kernels::Threads;

static CREWS: Mutex<Vec<Weak<Threads>>> = Mutex::new(Vec::new());

/// A crew of `count` threads: one that somebody uses already, or a new one.
pub(super) fn crew(count: usize) -> Arc<Threads> {
    let mut crews = CREWS.lock().unwrap_or_else(PoisonError::into_inner);
    crews.retain(|crew| crew.strong_count() > 0);
    if let Some(crew) = crews.iter().filter_map(Weak::upgrade).find(|crew| crew.count() == count) {
        return crew;
    }
    let crew = Arc::new(Threads::new(count));
    crews.push(Arc::downgrade(&crew));
    crew
}
