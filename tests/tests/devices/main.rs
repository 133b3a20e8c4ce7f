//! Regions in memory that is not the host's, on a simulated device.

mod domains_in_c;
mod entries;
mod graphs;
mod on_device;
mod runs;
mod shapes;
mod simdev;
mod tune;
mod variants;
