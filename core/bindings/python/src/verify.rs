//! Comparison with the reference kernels, as JSON.

use std::path::PathBuf;

use byoc::Plugins;
use byoc_core::compile::{Observer, Silent};
use byoc_core::diagnostic::Result;
use byoc_core::runtime::Session;
use byoc_tools::compare::{Tolerance, Tolerances, compare_all};
use byoc_tools::execution::Loaded;
use byoc_tools::fill::Fill;
use byoc_tools::inputs::{Inputs, OpenSizes, Source};
use byoc_tools::{outputs, reference};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::compile::{Models, Watcher};
use crate::places::Places;
use crate::session::{self, Loading};

/// What is compared, and how, as keyword arguments give it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Comparing {
    model: PathBuf,
    inputs: Vec<PathBuf>,
    seed: u64,
    atol: Option<f64>,
    rtol: Option<f64>,
    snr: Option<f64>,
    min_cosine: Option<f64>,
}

/// A comparison for each output of an entry with what the model computes by the reference kernels, on the same inputs.
#[pyfunction]
pub(crate) fn verify(
    py: Python<'_>,
    path: PathBuf,
    models: Models,
    places: Places,
    loading: Loading,
    comparing: Comparing,
) -> PyResult<String> {
    let mut watcher = Watcher::new(None);
    let compared = py.detach(|| {
        // Of a model they are used when it is compiled, and no size is open then.
        let sizes = if session::is_model(&path)? { OpenSizes::default() } else { models.open_sizes() };
        let plugins = Plugins::from(places);
        let loaded = session::load(path, models, plugins.clone(), loading, &mut watcher)?;
        compare(loaded, &sizes, &plugins, comparing, &mut watcher)
    });
    let compared = watcher.ended(py, compared)?;
    watcher.warn(py)?;
    Ok(compared.to_string())
}

fn compare(
    session: Session,
    sizes: &OpenSizes,
    plugins: &Plugins,
    comparing: Comparing,
    watcher: &mut Watcher,
) -> Result<Value> {
    let Comparing { model, inputs, seed, atol, rtol, snr, min_cosine } = comparing;
    let sources = inputs.into_iter().map(Source::file).collect();
    let given = Inputs { sources, fill: Some(Fill::Random), seed, ..Inputs::default() };
    let mut loaded = Loaded::new(session, &given, sizes, &mut |warning| watcher.warning(&warning))?;
    loaded.run()?;
    let found = outputs::collect(&loaded.session)?;
    let embedded = byoc_plugin_api::registered();
    let registry = plugins.for_running(&[])?;
    let expected = reference::outputs_of(&model, &registry, &embedded, &loaded, &mut Silent)?;
    let all = Tolerance { atol, rtol, snr, min_cosine, ..Tolerance::default() };
    let declared = loaded.session.allowances();
    let compared = compare_all(&found, &expected, &Tolerances { all, declared, ..Tolerances::default() })?;
    let compared = compared.iter().map(|comparison| {
        let mut row = json!(comparison);
        row["holds"] = json!(comparison.holds());
        row
    });
    Ok(Value::from(compared.collect::<Vec<_>>()))
}
