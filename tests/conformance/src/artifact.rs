//! The case of the whole way: a model compiled to a file, which is mapped and run, beside the same model compiled for the reference.

use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, Session};
use byoc_plugin_api::{DType, Error, Handle};

use crate::bench::{Bench, Prepared, Source};
use crate::data;
use crate::judge::judge;
use crate::report::{Step, fail};
use crate::results::no_reference;
use crate::tensor::Tensor;

/// The sizes of dimensions that the model leaves open, one run after another: that of the symbolic samples first.
const SYMBOLIC: [usize; 3] = [3, 1, 5];

/// The whole way: an artifact on disk, mapped, beside the model compiled for the reference.
pub(crate) fn artifact(bench: &Bench, source: &Source, prepared: &Prepared) -> Step {
    bench.device.domain()?;
    let paths = ["model.byoc", "reference.byoc"].map(|name| bench.folder.join(name));
    let registry = bench.compile(source, &paths[0]).or_else(fail)?;
    let mut found = Ran::open(&paths[0], &registry, bench).or_else(fail)?;
    let reference = match prepared.is_only_its_own() {
        true => None,
        false => Some(bench.compile_reference(source, &paths[1]).map_err(no_reference)?),
    };
    let expected = reference.map(|reference| Ran::open(&paths[1], &reference, bench).map_err(no_reference));
    let mut expected = expected.transpose()?;
    let declared = found.0.allowances();
    for (number, &size) in found.sizes(bench, source).iter().enumerate() {
        let expected = match &mut expected {
            None => None,
            Some(expected) => match expected.run(source, number, size) {
                Ok(expected) => Some(expected),
                Err(error) if number == 0 => return Err(no_reference(error)),
                // Constants of the model may have been made for the first size.
                Err(_) => continue,
            },
        };
        let found = match found.run(source, number, size) {
            Ok(found) => found,
            // Nobody knows which sizes an operator of the backend's own takes.
            Err(_) if number > 0 && expected.is_none() => continue,
            Err(error) => return fail(error),
        };
        for (name, expected) in expected.iter().flatten() {
            let Some((_, found)) = found.iter().find(|(known, _)| known == name) else { continue };
            let run = if number == 0 { String::new() } else { format!(" of run {}", number + 1) };
            judge(bench, source, declared.get(name).copied(), found, expected)
                .or_else(|reason| fail(format!("output '{name}'{run}: {reason}")))?;
        }
    }
    Ok(())
}

/// An artifact that runs several times.
struct Ran(Session);

impl Ran {
    fn open(path: &Path, registry: &Registry, bench: &Bench) -> Result<Ran> {
        let options = LoadOptions { threads: 2, run_options: bench.run_settings.clone(), ..LoadOptions::default() };
        Session::open(path, registry, &options).map(Ran)
    }

    /// The sizes of what the model leaves open, one for each run. Where it leaves nothing open there are two runs all the same: the
    /// second one has other inputs.
    fn sizes(&self, bench: &Bench, source: &Source) -> Vec<usize> {
        // Ranges are chosen from inputs of one size, and what sizes a model of the vendor's takes is not known.
        if bench.is_calibrated() || source.inputs.is_empty() {
            return SYMBOLIC[..1].to_vec();
        }
        let is_open = self.0.inputs().iter().any(|port| port.shape.iter().any(|size| size.fixed().is_none()));
        if is_open && !source.is_for_one_size { SYMBOLIC.to_vec() } else { vec![SYMBOLIC[0]; 2] }
    }

    /// The outputs of the run of that number, by name.
    fn run(&mut self, source: &Source, number: usize, size: usize) -> Result<Vec<(String, Tensor)>> {
        let ports = self.0.inputs();
        let inputs = ports.iter().map(|port| {
            let sizes: Vec<_> = port.shape.iter().map(|known| known.fixed().unwrap_or(size) as i64).collect();
            let seed = if number == 0 { port.name.clone() } else { format!("{} {number}", port.name) };
            data::random(port.dtype, &sizes, source.fill(&port.name), &seed)
        });
        let inputs: Vec<_> = inputs.collect();
        let handles = inputs.iter().map(|tensor| self.give_texts(tensor)).collect::<Result<Vec<_>>>()?;
        let borrowed: Vec<_> = inputs.iter().map(Tensor::borrowed).collect();
        let given = borrowed.iter().zip(&handles);
        let views =
            given.map(|(tensor, handles)| handles.as_ref().map_or_else(|| tensor.view(), |of| tensor.with_handles(of)));
        let views: Vec<_> = views.collect();
        let ran = self.0.run(&views);
        let ports = self.0.outputs().into_iter().enumerate();
        let outputs = ran.and_then(|_| ports.map(|(index, port)| Ok((port.name, self.output(index)?))).collect());
        self.0.take_back_texts();
        outputs
    }

    /// The handles of the texts of an input.
    fn give_texts(&mut self, tensor: &Tensor) -> Result<Option<Vec<Handle>>> {
        let given = |text| self.0.give_text(text);
        tensor.strings().map(|texts| texts.into_iter().map(given).collect()).transpose()
    }

    fn output(&self, index: usize) -> Result<Tensor> {
        let view = self.0.output(index)?;
        if view.dtype() != DType::String {
            return Ok(Tensor::of(&view));
        }
        let unread = |error: Error| Diagnostic::new(Code::RunFailed, error.message);
        let handles = view.to_vec::<Handle>().map_err(unread)?;
        let texts = handles.into_iter().map(|handle| self.0.text(handle)).collect::<Result<Vec<_>>>()?;
        Ok(Tensor::texts(view.shape(), &texts))
    }
}
