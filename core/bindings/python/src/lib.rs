//! The native part of the Python module `byoc`: sessions, compiling, and what there is to say of models and artifacts. What users
//! import is in `python/byoc`, which gives all of it types and documentation; results that are no arrays cross as JSON.

mod array;
mod compile;
mod device;
mod dlpack;
mod error;
mod out;
mod places;
mod session;
mod verify;

use pyo3::prelude::*;

/// The module `byoc._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_class::<device::DeviceArray>()?;
    module.add_function(wrap_pyfunction!(compile::compile, module)?)?;
    module.add_function(wrap_pyfunction!(compile::explain, module)?)?;
    module.add_function(wrap_pyfunction!(compile::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(verify::verify, module)?)?;
    Ok(())
}
