//! The native part of the Python module `byoc`: sessions, compiling, and what there is to say of models and artifacts. What users
//! import is in `python/byoc`, which gives all of it types and documentation; results that are no arrays cross as JSON.

mod array;
mod compile;
mod error;
mod places;
mod session;
mod verify;

use pyo3::prelude::*;

// Each line links a backend in, which registers itself.
use byoc_json_backend as _;
use byoc_kendryte_backend as _;

/// The module `byoc._native`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<session::Session>()?;
    module.add_function(wrap_pyfunction!(compile::compile, module)?)?;
    module.add_function(wrap_pyfunction!(compile::explain, module)?)?;
    module.add_function(wrap_pyfunction!(compile::inspect, module)?)?;
    module.add_function(wrap_pyfunction!(verify::verify, module)?)?;
    module.add_function(wrap_pyfunction!(places::default_backend, module)?)?;
    Ok(())
}
