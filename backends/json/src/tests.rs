//! The backend through its own interface: every fusion fires on what exporters write, and fast kernels agree with the
//! reference ones.

mod allocation;
mod attention;
mod between;
mod constants;
mod filters;
mod fusion;
pub(crate) mod harness;
mod hostile;
mod images;
mod infinite;
mod inlined;
mod integer;
mod narrow;
mod narrow_filters;
mod places;
mod recurrent;
mod sampling;
mod shapes;
mod units;
mod work;
