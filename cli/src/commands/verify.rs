//! `byoc verify`: are the outputs what they should be, going by a file or by the reference kernels.

use std::path::Path;
use std::process::ExitCode;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, PortInfo, Session};
use byoc_plugin_api::TensorView;
use byoc_tools::npz;
use byoc_tools::tensor::Tensor;
use serde_json::json;

use crate::args::{Backends, FillMode, Inputs, Shapes, Verify};
use crate::artifact::Digests;
use crate::compare::{self, Comparison, Tolerance};
use crate::execution::{self, Loaded};
use crate::{artifact, compile_request, embed, outputs, report};

/// Outputs by name.
pub(crate) type Named = Vec<(String, Tensor)>;

/// Runs the verb.
pub(crate) fn run(args: &Verify) -> Result<ExitCode> {
    let given = &args.execution.inputs;
    // Any inputs will do to compare with the model itself.
    let fill = given.fill.or(args.model.as_ref().map(|_| FillMode::Random));
    let mut loaded = execution::load(&args.execution, &Inputs { fill, ..given.clone() }, false, Digests::Always)?;
    loaded.run()?;
    let found = outputs::collect(&loaded.session)?;
    let expected = match (&args.reference, &args.model) {
        (Some(path), _) => from_file(path, &loaded.session.outputs())?,
        (None, Some(model)) => {
            let names = [embed::reference()?.0, embed::default_backend()?];
            let registry = compile_request::registry_of(&args.execution.plugins, &names)?;
            by_reference_kernels(model, &registry, &loaded)?
        }
        // clap asks for one of the two.
        (None, None) => return Err(Diagnostic::new(Code::Usage, "there is nothing to compare with")),
    };
    let tolerance = Tolerance { atol: args.atol, rtol: args.rtol };
    let comparisons = compare_all(&found, &expected, tolerance)?;
    let holds = comparisons.iter().all(Comparison::holds);
    if args.json {
        report::print_json(&json!({ "matches": holds, "outputs": comparisons }))?;
    } else {
        report::print(&compare::table(&comparisons))?;
    }
    Ok(if holds { ExitCode::SUCCESS } else { ExitCode::from(Code::Mismatch.exit()) })
}

/// Compares each output with the expected one of its name.
pub(crate) fn compare_all(found: &Named, expected: &Named, tolerance: Tolerance) -> Result<Vec<Comparison>> {
    if let Some((name, _)) = expected.iter().find(|(name, _)| !found.iter().any(|(other, _)| other == name)) {
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("there is no output '{name}', which the reference has");
        return Err(Diagnostic::new(Code::UnknownName, message).hint(format!("The outputs are: {}", names.join(", "))));
    }
    let compare = |(name, tensor): &(String, Tensor)| match expected.iter().find(|(other, _)| other == name) {
        Some((_, expected)) => Comparison::of(name, tensor, expected, tolerance),
        None => Comparison::without_reference(name, tensor),
    };
    Ok(found.iter().map(compare).collect())
}

fn from_file(path: &Path, ports: &[PortInfo]) -> Result<Named> {
    let arrays = npz::read(path)?.into_iter();
    let tensor = |(name, array): (String, byoc_tools::npy::Array)| {
        // An array of another name is told of when the names are compared; its type does not matter then.
        let dtype = ports.iter().find(|port| port.name == name).map(|port| port.dtype);
        let tensor = array.into_tensor_like(dtype).map_err(|found| {
            let message = format!("output '{name}' is {found} in '{}'", path.display());
            Diagnostic::new(Code::BadInput, message).hint("Convert it with NumPy's astype")
        })?;
        Ok((name, tensor))
    };
    arrays.map(tensor).collect()
}

/// The outputs of the model on the same inputs, computed by the kernels that are there to compare with.
pub(crate) fn by_reference_kernels(model: &Path, registry: &Registry, loaded: &Loaded) -> Result<Named> {
    let (name, setting) = embed::reference()?;
    let chosen = Backends { backend: vec![name], backend_opt: vec![setting] };
    let shape = |(port, tensor): (PortInfo, &Tensor)| {
        (port.name, tensor.shape().iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect())
    };
    let ports = loaded.session.inputs();
    let shapes = Shapes { shape: ports.into_iter().zip(&loaded.inputs).map(shape).collect(), dim: Vec::new() };
    let sources = vec![("main".to_owned(), model.to_owned())];
    let request = compile_request::request(registry, &chosen, sources, &shapes)?;
    let mut session = Session::load(artifact::compile_for_now(&request, model)?.0, registry, &LoadOptions::default())?;
    let inputs = in_order_of(&session.inputs(), loaded)?;
    session.run(&inputs)?;
    outputs::collect(&session)
}

/// The inputs that the artifact was run on, in the order of the model's.
fn in_order_of<'a>(ports: &[PortInfo], loaded: &'a Loaded) -> Result<Vec<TensorView<'a>>> {
    let own = loaded.session.inputs();
    let find = |port: &PortInfo| {
        let at = own.iter().position(|other| other.name == port.name);
        let Some(at) = at else {
            let message = format!("the model has an input '{}', which the artifact does not have", port.name);
            return Err(
                Diagnostic::new(Code::BadInput, message).hint("Is it the model that the artifact was compiled from?")
            );
        };
        loaded.inputs[at].view()
    };
    ports.iter().map(find).collect()
}
