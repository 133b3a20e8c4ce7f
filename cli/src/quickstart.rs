//! The model of `byoc quickstart`, made on the spot so that the tour needs no download.

mod network;
mod protobuf;

pub(crate) use network::model;
