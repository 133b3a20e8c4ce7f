//! Kmodels: shown, loaded into the simulator and run.

use byoc_core::diagnostic::Result;
use byoc_plugin_api::{Backend, BoundConstants, Environment, Options, Value};

use crate::artifact_file::Parts;
use crate::owned::{Input, Output};
use crate::{Target, kmodel_file, models};

pub(crate) const TARGET: Target =
    Target { name: "kmodel", seeds, run: |input| take(input).is_some(), mutate: kmodel_file::bytes };

fn take(input: &[u8]) -> Option<()> {
    let backend = models::REGISTRY.get("kendryte").ok()?;
    let file = backend.backend.open(input).ok()?;
    let environment = Environment { threads: 1, options: Options::default() };
    let mut executable =
        backend.backend.runtime().host().ok()?.load(input, &BoundConstants::new(Vec::new()), &environment).ok()?;
    let inputs = file.inputs.iter().map(|value| Input::new(value.dtype, &value.fixed_shape()?));
    let inputs = inputs.collect::<Option<Vec<_>>>()?;
    let output = |value: &Value| Output::new(value.dtype, &value.fixed_shape()?);
    let mut outputs = file.outputs.iter().map(output).collect::<Option<Vec<_>>>()?;
    let inputs = inputs.iter().map(Input::view).collect::<Option<Vec<_>>>()?;
    let mut outputs = outputs.iter_mut().map(Output::view).collect::<Option<Vec<_>>>()?;
    executable.run(&inputs, &mut outputs).ok()
}

/// The code of what the chip takes of the models, with and without its trailer.
fn seeds() -> Vec<Vec<u8>> {
    let all = models::all();
    let files = all.iter().map(|model| models::compiled(&model.finish(), &models::REGISTRY, &["kendryte", "json"]));
    let codes = |file: Vec<u8>| {
        let parts = Parts::read(&file).expect("an artifact");
        let names = parts.codes().filter(|name| name.contains("kendryte"));
        names.filter_map(|name| parts.section(name).map(<[u8]>::to_vec)).collect::<Vec<_>>()
    };
    let codes: Vec<_> = files.filter_map(Result::ok).flat_map(codes).collect();
    let bare = codes.iter().filter_map(|code| Some(kmodel_file::split(code)?.0.to_vec())).collect();
    [codes, bare].concat()
}
