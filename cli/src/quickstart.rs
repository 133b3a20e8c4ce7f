//! The models of `byoc quickstart` and `byoc plugin new`, made on the spot so that nothing has to be downloaded.

mod network;
mod sum;

pub(crate) use network::model;
pub(crate) use sum::sum;
