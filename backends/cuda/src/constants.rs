//! The constant_updater: one claim for each constant. What kernels read is left to the host; what decided the structure is
//! embedded in the code so, and nothing else is needed.

pub(crate) use byoc_nvidia::claims::constant_updater;
