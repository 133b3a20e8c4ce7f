//! What programs around the compiler and the runtime share: tensors in memory of their own, and the files that hold them.

pub mod file;
pub mod npy;
pub mod npz;
pub mod tensor;
