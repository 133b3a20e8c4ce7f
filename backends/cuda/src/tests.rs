//! What kernels compute, on the host's processor, beside the reference kernels; and sources as they are to stay.

mod fixture;
mod golden;
mod graphs;
mod operators;
mod standalone;
