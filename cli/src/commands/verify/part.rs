//! Parts of a model, compiled for one backend and run: the reference of a single region, and the prefixes of one that differs.

use std::path::PathBuf;

use byoc_core::artifact::Artifact;
use byoc_core::calibrate::{Dataset, Input, Samples};
use byoc_core::compile::parts::Parts;
use byoc_core::compile::{Request, Silent, compile_unnamed};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::ir::Model;
use byoc_core::plugin::{Registry, Selected};
use byoc_core::runtime::{LoadOptions, Session};
use byoc_tools::lists::Given;
use byoc_tools::outputs;
use byoc_tools::regions::Reference;
use byoc_tools::tensor::Tensor;

/// A backend with what it takes to run a model by it.
pub(super) struct Runner<'a> {
    /// The model's file, for messages.
    pub(super) model: PathBuf,
    /// Where the backend is in this process.
    pub(super) registry: &'a Registry,
    /// The backends that may take nodes, with their options.
    pub(super) backends: Vec<Selected>,
    /// What computes constants ahead of time.
    pub(super) folding_backend: Option<Selected>,
    /// Whether a backend chooses ranges from samples: what the model is run on is the sample then.
    pub(super) samples_needed: bool,
    /// How to load.
    pub(super) options: LoadOptions,
}

/// A data set of one sample: the tensors that a part of a model is run on.
struct OneSample(Vec<(String, Tensor)>);

impl OneSample {
    fn of(inputs: &[(&str, &Given)]) -> OneSample {
        let tensor = |&(name, given): &(&str, &Given)| match given {
            Given::Tensor(tensor) => Some((name.to_owned(), tensor.clone())),
            Given::Nothing | Given::Optional(_) | Given::Sequence(_) => None,
        };
        OneSample(inputs.iter().filter_map(tensor).collect())
    }
}

impl Dataset for OneSample {
    fn name(&self) -> String {
        "the values of the reference".into()
    }

    fn open(&self, inputs: &[Input], _: &mut dyn FnMut(Diagnostic)) -> Result<Box<dyn Samples + '_>> {
        let bytes = |input: &Input| {
            let found = self.0.iter().find(|(name, _)| *name == input.name).map(|(_, tensor)| tensor.bytes().to_vec());
            found.ok_or_else(|| {
                Diagnostic::new(Code::BadInput, format!("there is no value '{}' to run it on", input.name))
            })
        };
        Ok(Box::new(Sample(inputs.iter().map(bytes).collect::<Result<_>>()?)))
    }
}

struct Sample(Vec<Vec<u8>>);

impl Samples for Sample {
    fn count(&self) -> usize {
        1
    }

    fn name(&self, sample: usize) -> String {
        sample.to_string()
    }

    fn load(&self, _: usize) -> Result<Vec<Vec<u8>>> {
        Ok(self.0.clone())
    }
}

impl Runner<'_> {
    /// Compiles a model, runs it once and gives its outputs. It takes its inputs from `inputs`, by name.
    pub(super) fn run(&self, model: Model, inputs: &[(&str, &Given)]) -> Result<Vec<(String, Tensor)>> {
        let sample = self.samples_needed.then(|| Box::new(OneSample::of(inputs)) as Box<dyn Dataset>);
        let request = Request {
            model: Some(model),
            calibration: sample,
            folding_backend: self.folding_backend.clone(),
            ..Request::new(Vec::new(), self.backends.clone())
        };
        let bytes = compile_unnamed(&request, None, &mut Silent)?.bytes;
        drop(request);
        let mut session = Session::load(Artifact::from_bytes(&self.model, bytes)?, self.registry, &self.options)?;
        let find = |name: &str| {
            let given = inputs.iter().find(|(known, _)| *known == name).map(|(_, given)| *given);
            given.ok_or_else(|| Diagnostic::new(Code::BadInput, format!("there is no value '{name}' to run it on")))
        };
        let given = session.inputs().iter().map(|port| find(&port.name)).collect::<Result<Vec<_>>>()?;
        let handles = given.iter().map(|given| given.give(&mut session)).collect::<Result<Vec<_>>>()?;
        let views = given.iter().zip(&handles).map(|(given, handles)| given.view(handles));
        session.run(&views.collect::<Result<Vec<_>>>()?)?;
        outputs::collect(&session)
    }
}

/// The names and shapes of values.
pub(super) fn shapes<'n>(inputs: &[(&'n str, &Given)]) -> Vec<(&'n str, Vec<usize>)> {
    let shape = |&(name, given): &(&'n str, &Given)| match given {
        Given::Tensor(tensor) => {
            let sizes = tensor.shape().iter().map(|&size| usize::try_from(size).unwrap_or(0));
            Some((name, sizes.collect()))
        }
        Given::Nothing | Given::Optional(_) | Given::Sequence(_) => None,
    };
    inputs.iter().filter_map(shape).collect()
}

/// The model by reference kernels, part by part.
pub(super) struct ByKernels<'a> {
    pub(super) parts: Parts,
    pub(super) runner: Runner<'a>,
}

impl Reference for ByKernels<'_> {
    fn has(&self, value: &str) -> bool {
        self.parts.has(value)
    }

    fn outputs_of(&self, node: &str) -> Vec<Option<String>> {
        self.parts.outputs_of(node)
    }

    fn compute(&mut self, inputs: &[(&str, &Given)], outputs: &[&str]) -> Result<Vec<(String, Tensor)>> {
        self.runner.run(self.parts.between(&shapes(inputs), outputs)?, inputs)
    }
}
