//! An executable together with the memory that it borrows.

use byoc_plugin_api::Error;

/// An executable, with code and constants that it borrows from `M`.
pub(crate) struct Bound<E: ?Sized, M> {
    // Dropped first: it borrows from the field below.
    executable: Box<E>,
    // Heap memory that stays in place while `Bound` moves, and is not changed.
    _memory: Box<M>,
}

impl<E: ?Sized, M: 'static> Bound<E, M> {
    /// Loads an executable that borrows from `memory`.
    pub(crate) fn new(memory: M, load: impl FnOnce(&'static M) -> Result<Box<E>, Error>) -> Result<Self, Error> {
        let memory = Box::new(memory);
        // SAFETY: `memory` is on the heap, is never changed, and `Bound` drops it after the executable, so the reference is
        // good for as long as the executable may use it. The executable does not leave `Bound`.
        let borrowed: &'static M = unsafe { &*std::ptr::from_ref(memory.as_ref()) };
        Ok(Bound { executable: load(borrowed)?, _memory: memory })
    }

    pub(crate) fn executable(&mut self) -> &mut E {
        self.executable.as_mut()
    }
}
