//! placeholder
pub mod dlpack;
mod dtype;
mod error;
mod float_json;
mod region;
mod tensor;
pub use dtype::*;
pub use error::*;
pub use region::*;
pub use tensor::*;
