//! What regions become: steps, sources, launches and packed weights; and what these compute.

mod build;
mod lowering;
mod packing;
mod running;
mod sources;
