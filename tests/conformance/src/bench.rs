//! The backend under test beside the one that it is compared with, and what the compiler gives it of a model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use byoc_core::compile::{self, Request, Silent, Stage};
use byoc_core::diagnostic::{Code, Diagnostic};
use byoc_core::ir;
use byoc_core::onnx::ImportOptions;
use byoc_core::partition::{Outcome, Partitioned, RegionPlan};
use byoc_core::passes::infer;
use byoc_core::plugin::{Registered, Registry, Selected, Settings, custom_operators};
use byoc_plugin_api::host::NO_REASON;
use byoc_plugin_api::{Allowance, Backend, Error, Options, Precision};

use crate::device::{self, Device};
use crate::judge::COARSE;
use crate::onnx::{Fill, Input, Model};
use crate::region::{self, Bound, Loaded, Taken};
use crate::report::{Notes, Step, Verdict, fail};
use crate::samples::Ordinary;
use crate::tensor::Tensor;

/// The two backends.
#[derive(Clone)]
pub(crate) struct Bench {
    /// The backend under test.
    pub(crate) selected: Selected,
    /// The backend whose results are right.
    pub(crate) reference: Selected,
    /// A folder for models and artifacts.
    pub(crate) folder: PathBuf,
    /// Settings of options of running.
    pub(crate) run_settings: Settings,
    /// The options that regions under test are told: those of compiling and those of running.
    pub(crate) options: Options,
    /// Where regions under test run.
    pub(crate) device: Arc<Device>,
    /// What the case that is run has to tell.
    pub(crate) notes: Notes,
}

/// A model file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// Sizes of symbolic dimensions.
    pub(crate) dims: Vec<(String, usize)>,
    /// What its inputs may hold; any values where one is not listed.
    pub(crate) inputs: Vec<Input>,
    /// What difference is allowed; by backend and element type where it is not given.
    pub(crate) allowed: Option<Allowance>,
    /// Nodes that stand in front of what the model is about, by name.
    pub(crate) front: Vec<String>,
    /// Whether constants were made for one size of what the model leaves open.
    pub(crate) is_for_one_size: bool,
}

/// A model as far as the regions that code is generated for.
pub(crate) struct Prepared {
    /// The regions of the backend under test, but for those that have nothing but nodes in front.
    pub(crate) taken: Vec<Taken>,
    /// Patterns that matched some nodes, with what came of it: `None` where the nodes are taken.
    pub(crate) tried: Vec<(String, Option<String>)>,
    /// (domain, operator) of the nodes that the compiler's own passes left.
    pub(crate) ops: Vec<(String, String)>,
    /// Whether all of those stand in front.
    only_front: bool,
}

impl Source {
    /// Writes a model into the folder.
    pub(crate) fn write(model: &Model, folder: &Path) -> Result<Source, Diagnostic> {
        let path = folder.join("model.onnx");
        std::fs::write(&path, model.finish()).map_err(|error| Diagnostic::io(&path, "write", &error))?;
        let (inputs, front) = (model.inputs.clone(), model.front.clone());
        let allowed = model.is_coarse.then_some(COARSE);
        Ok(Source { path, dims: Vec::new(), inputs, allowed, front, is_for_one_size: model.is_for_one_size })
    }

    /// What the input of that name may hold.
    pub(crate) fn fill(&self, name: &str) -> Fill {
        self.inputs.iter().find(|input| input.name == name).map_or(Fill::Any, |input| input.fill)
    }

    /// Whether core, or the backend under test, knows the model's operators with these types and shapes.
    pub(crate) fn is_valid(&self, bench: &Bench) -> bool {
        self.typed(bench).is_ok()
    }

    /// The model in core's text form, on one line.
    pub(crate) fn text(&self, bench: &Bench) -> Result<String, Diagnostic> {
        let text = ir::print(&self.typed(bench)?);
        // The first line has the name of the entry.
        Ok(text
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
            .join("; "))
    }

    fn typed(&self, bench: &Bench) -> Result<ir::Model, Diagnostic> {
        let custom = custom_operators(std::slice::from_ref(&bench.selected));
        let mut model = byoc_core::onnx::import(&[("main".into(), &self.path)], &self.import(), &custom)?;
        infer::infer(&mut model)?;
        Ok(model)
    }

    fn import(&self) -> ImportOptions {
        // A model is overwritten by the next one of the same name.
        ImportOptions { dims: self.dims.clone(), shapes: Vec::new(), no_mmap: true }
    }
}

impl Bench {
    /// A backend of this plugin, with settings of its options of both kinds.
    pub(crate) fn new(
        registry: &Registry,
        name: &str,
        settings: &[(String, String)],
        reference: Selected,
        (folder, notes): (&Path, Notes),
    ) -> Result<Bench, Diagnostic> {
        let prefix = format!("{name}.");
        let (own, run_settings) = registry.part_settings(settings);
        let own: Vec<_> = own.into_iter().filter(|(key, _)| key.starts_with(&prefix)).collect();
        let selected = registry.select(&[name.to_owned()], &own)?.remove(0);
        let kind = selected.registered.description.domain.clone();
        // Whoever is of the kind may open it; the backend itself is asked first.
        let (first, others): (Vec<_>, Vec<_>) =
            registry.backends.iter().partition(|registered| registered.description.name == name);
        let of_kind = first.into_iter().chain(others).filter(|it| kind.is_some() && it.description.domain == kind);
        let opener = |it: &Registered| Ok((it.clone(), it.run_options(&run_settings)?));
        let openers = of_kind.map(opener).collect::<Result<_, Diagnostic>>()?;
        let options = selected.options.clone().and(&selected.registered.run_options(&run_settings)?);
        let device = Arc::new(Device::new(kind, openers));
        Ok(Bench { selected, reference, folder: folder.to_owned(), run_settings, options, device, notes })
    }

    /// The same, with the backend under test spoken to as by the host of ABI 1.0.
    pub(crate) fn under_first_host(mut self) -> Result<Bench, Diagnostic> {
        let first = self.selected.registered.backend.under_first_host();
        let first = first.map_err(|error| Diagnostic::new(Code::Usage, error.message))?;
        self.selected.registered.description = first.describe();
        self.selected.registered.backend = Arc::new(first);
        Ok(self)
    }

    /// Loads code of the backend under test where its regions run.
    pub(crate) fn load<'a>(&self, code: &'a [u8], bound: &'a [Bound]) -> Step<Result<Loaded<'a>, Error>> {
        Ok(match self.device.domain()? {
            None => region::load(&self.selected, &self.options, code, bound),
            Some(domain) => device::load(&self.selected, &self.options, domain, code, bound).map(Loaded::on_device),
        })
    }

    /// What the backend under test declares of the results of a region.
    pub(crate) fn allowance(&self, taken: &Taken) -> Option<Allowance> {
        Precision::of_region(&self.selected.registered.description.precision, &taken.region)
    }

    /// Whether the backend under test chooses ranges from samples, so that its results are near and not the same.
    pub(crate) fn is_calibrated(&self) -> bool {
        self.selected.registered.description.calibration
    }

    /// What to compile, for these backends.
    fn request(&self, source: &Source, backends: Vec<Selected>) -> Request {
        let sources = vec![("main".into(), source.path.clone())];
        Request {
            import: source.import(),
            folding_backend: Some(self.reference.clone()),
            calibration: Some(Box::new(Ordinary(source.clone()))),
            ..Request::new(sources, backends)
        }
    }

    /// What the backend takes of a model.
    pub(crate) fn prepare(&self, source: &Source) -> Step<Prepared> {
        let request = self.request(source, vec![self.selected.clone()]);
        match compile::prepared(&request, &mut Silent) {
            Ok(found) => Ok(Prepared::of(&found, source)),
            Err(error) if matches!(error.code, Code::BackendFailed | Code::PluginContract | Code::Io) => fail(error),
            Err(error) => Err(Verdict::Unsupported(format!("the compiler refuses the model: {error}"))),
        }
    }

    /// The backend under test, with the other one for what is left over.
    fn both(&self) -> Vec<Selected> {
        // A host backend takes everything itself; two of one name could not be told apart.
        match self.selected.registered.description.host || self.selected.name() == self.reference.name() {
            true => vec![self.selected.clone()],
            false => vec![self.selected.clone(), self.reference.clone()],
        }
    }

    /// Compiles the model for the backend under test into `output`.
    pub(crate) fn compile(&self, source: &Source, output: &Path) -> Result<Registry, Diagnostic> {
        self.compile_for(source, &self.both(), output)
    }

    /// Compiles the model for the backend under test as far as every constant has its home.
    pub(crate) fn settle(&self, source: &Source) -> Result<(), Diagnostic> {
        compile::compile_until(&self.request(source, self.both()), Stage::Ownership, &mut Silent)
    }

    /// Compiles the model for the backend whose results are right.
    pub(crate) fn compile_reference(&self, source: &Source, output: &Path) -> Result<Registry, Diagnostic> {
        self.compile_for(source, std::slice::from_ref(&self.reference), output)
    }

    fn compile_for(&self, source: &Source, backends: &[Selected], output: &Path) -> Result<Registry, Diagnostic> {
        compile::compile(&self.request(source, backends.to_vec()), output, &mut Silent)?;
        let selected = backends.iter().map(|selected| &selected.registered);
        let others = self.device.openers().filter(|it| backends.iter().all(|one| one.name() != it.description.name));
        let backends = selected.chain(others).cloned().collect();
        Ok(Registry { backends, ..Registry::default() })
    }
}

impl Prepared {
    /// Whether some region has an operator that nobody else can compute, not even by others that stand for it.
    pub(crate) fn is_only_its_own(&self) -> bool {
        self.taken.iter().any(Taken::is_only_its_own)
    }

    /// Whether only a session runs some region.
    pub(crate) fn needs_session(&self) -> bool {
        self.taken.iter().any(Taken::needs_session)
    }

    /// Whether some region has an operator that the backend brings.
    pub(crate) fn is_custom(&self) -> bool {
        self.taken.iter().any(Taken::is_custom)
    }

    fn of(found: &Partitioned, source: &Source) -> Prepared {
        let is_about = |plan: &&RegionPlan| plan.region.nodes.iter().any(|node| !source.front.contains(&node.name));
        let own = found.regions.iter().filter(|plan| plan.backend == 0).filter(is_about);
        let entries = &found.model.entries;
        let reads_inner = |plan: &RegionPlan| plan.inputs.iter().any(|id| !entries[plan.entry].inputs.contains(id));
        let taken = own.map(|plan| {
            let tensors = plan.region.constants.iter().zip(&plan.constants).map(|(constant, at)| {
                let dtype = plan.region.values[constant.value].dtype;
                let shape = at.view.shape.iter().map(|&size| size as i64).collect();
                Tensor::new(dtype, shape, found.model.constants.materialize(at))
            });
            Taken { region: plan.region.clone(), constants: tensors.collect(), reads_inner: reads_inner(plan) }
        });
        let tried = found.attempts.iter().map(|attempt| {
            let reason = match &attempt.outcome {
                Outcome::Taken => None,
                Outcome::Refused(refusal) => Some(refusal.to_string()),
                Outcome::OnlyNoOps => Some("the region would do no arithmetic".into()),
                Outcome::NoRegion(reason) => Some(reason.to_string()),
            };
            (attempt.pattern.clone(), reason)
        });
        let nodes = found.model.entries.iter().flat_map(|graph| &graph.nodes);
        Prepared {
            taken: taken.collect(),
            tried: tried.collect(),
            only_front: nodes.clone().all(|node| source.front.contains(&node.name)),
            ops: nodes.map(|node| (node.domain.clone(), node.op.clone())).collect(),
        }
    }

    /// What comes of a case about a model of which nothing is taken: a backend that refuses says why.
    pub(crate) fn refused(&self) -> Verdict {
        let without_reason =
            |(_, reason): &&(String, Option<String>)| reason.as_ref().is_some_and(|reason| reason.ends_with(NO_REASON));
        match self.tried.iter().find(without_reason) {
            Some((pattern, _)) => Verdict::Fail(format!("check refuses '{pattern}' and gives no reason")),
            None => Verdict::Unsupported(self.refusal()),
        }
    }

    /// Why nothing was taken.
    fn refusal(&self) -> String {
        if self.only_front {
            return "the compiler's own passes leave nothing of it".into();
        }
        let reason = self.tried.iter().rev().find_map(|(_, reason)| reason.clone());
        reason.unwrap_or_else(|| "no pattern matches".into())
    }
}
