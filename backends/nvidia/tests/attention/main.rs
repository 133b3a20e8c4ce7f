//! Attention: the generated kernels, run on the host, against loops in f64; and which regions are read as attention.

mod cases;
mod kernels;
mod reading;
mod reference;
