//! Shared state and waiting of the pool. The test that checks every order of its steps has the same names from a model
//! checker.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
pub(crate) use std::sync::{Arc, Mutex};
pub(crate) use std::{hint, thread};

/// Iterations of a loop that waits, before it does so otherwise (about 50 to 100 microseconds).
pub(crate) const SPINS: usize = 2000;

/// As [`std::cell::UnsafeCell`], with accesses that begin and end.
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

impl<T> UnsafeCell<T> {
    pub(crate) fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// A read, without a concurrent write.
    pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
        read(self.0.get())
    }

    /// A write, without any other concurrent access.
    pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
        write(self.0.get())
    }
}
