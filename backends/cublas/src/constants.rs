//! The constant_updater: one claim for each constant. Every operand is left to the host: cublasLt reads matrices and their
//! transposes as they are. The numbers of a GELU decided which function the code names, and are embedded so; what is
//! multiplied by 0 is not needed.

pub(crate) use byoc_nvidia::claims::constant_updater;
