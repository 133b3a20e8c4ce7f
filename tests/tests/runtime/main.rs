//! Sessions: in several threads and processes, and without allocations. The allocator of this binary counts for
//! `allocations.rs`: each thread for itself, so other tests do not disturb it.

mod allocations;
mod control_flow;
mod interleavings;
mod run_time_sizes;
mod sequences;
mod strings;
mod threads;
mod variants;
