//! Compiling, and what is known of a model before it.

use std::path::{Path, PathBuf};

use byoc_core::artifact::{Artifact, Ledger};
use byoc_core::compile::variants::{self, VariantReport, Variants};
use byoc_core::compile::{self, Observer, Policy, Request, Silent, Stage};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::onnx::ImportOptions;
use byoc_core::overwrite::{self, Input};
use byoc_core::partition::NodeRow;
use byoc_core::plugin::{Registry, allow_lists};
use byoc_core::runtime::Session;
#[cfg(feature = "dataset")]
use byoc_tools::dataset::{self, Files};
use byoc_tools::place::{self, Written};
use byoc_tools::request::{self, Chosen};

use crate::open::OpenOptions;
use crate::plugins::Plugins;

/// What a compile says of its result.
pub struct Report {
    /// A row for each node: the backend that took it, and why others did not; none where there are variants.
    pub nodes: Vec<NodeRow>,
    /// The place and the bytes of each constant; empty where there are variants.
    pub ledger: Ledger,
    /// The same for each variant, the most wanted first.
    pub variants: Vec<VariantReport>,
    /// Bytes of the artifact.
    pub file_bytes: u64,
    /// What the user should know.
    pub warnings: Vec<Diagnostic>,
}

/// What to compile, by which backends, under which rules. All is at its default where nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    models: Vec<(Option<String>, PathBuf)>,
    chosen: Chosen,
    variants: Vec<Variant>,
    share: bool,
    shapes: Vec<(String, Vec<usize>)>,
    dims: Vec<(String, usize)>,
    plugins: Plugins,
    policy: Policy,
    external_constants: bool,
    allow_duplicates: bool,
    fallback_on_crash: bool,
    #[cfg(feature = "dataset")]
    dataset: Option<Samples>,
}

/// A variant of the model, for the file to hold beside others.
#[derive(Clone, Debug)]
pub struct Variant {
    name: String,
    chosen: Chosen,
    policy: Option<Policy>,
}

impl Variant {
    /// A variant of that name, so far without backends.
    pub fn new(name: impl Into<String>) -> Variant {
        Variant { name: name.into(), chosen: Chosen::default(), policy: None }
    }

    /// A backend, less wanted than those before it.
    #[must_use]
    pub fn backend(mut self, name: impl Into<String>) -> Variant {
        self.chosen.backends.push(name.into());
        self
    }

    /// A backend's option in this variant, as `acme.key` and its value. It comes before one of [`Compiler::option`].
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl ToString) -> Variant {
        self.chosen.options.push((key.into(), value.to_string()));
        self
    }

    /// Rules for where nodes may go, in place of those of [`Compiler::policy`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Variant {
        self.policy = Some(policy);
        self
    }
}

/// Where samples are, and how pixels become numbers.
#[cfg(feature = "dataset")]
#[derive(Clone, Debug)]
struct Samples {
    path: PathBuf,
    mean: Vec<f32>,
    std: Vec<f32>,
}

impl Compiler {
    /// Everything at its default: no model, and the embedded backend for the host.
    pub fn new() -> Compiler {
        Compiler::default()
    }

    /// An ONNX model. Its entry is called `main`, or after the file where there are several models, which share their constants.
    #[must_use]
    pub fn model(mut self, path: impl Into<PathBuf>) -> Compiler {
        self.models.push((None, path.into()));
        self
    }

    /// An ONNX model, with the name of its entry.
    #[must_use]
    pub fn entry(mut self, name: impl Into<String>, path: impl Into<PathBuf>) -> Compiler {
        self.models.push((Some(name.into()), path.into()));
        self
    }

    /// A backend, less wanted than those before it; `cpu` is the embedded one for the host, which is taken where none is named.
    #[must_use]
    pub fn backend(mut self, name: impl Into<String>) -> Compiler {
        self.chosen.backends.push(name.into());
        self
    }

    /// A backend's option, as `acme.key` and its value.
    #[must_use]
    pub fn option(mut self, key: impl Into<String>, value: impl ToString) -> Compiler {
        self.chosen.options.push((key.into(), value.to_string()));
        self
    }

    /// A variant of the model, less wanted than those before it, in place of [`Compiler::backend`]: the file holds all of them, and what
    /// they have in common once. Options of [`Compiler::option`] are for those variants that have the backend.
    #[must_use]
    pub fn variant(mut self, variant: Variant) -> Compiler {
        self.variants.push(variant);
        self
    }

    /// Asks backends that pack a constant to give way where another variant has it in another form: a smaller file, maybe slower.
    #[must_use]
    pub fn share(mut self, share: bool) -> Compiler {
        self.share = share;
        self
    }

    /// The shape of an input.
    #[must_use]
    pub fn shape(mut self, input: impl Into<String>, shape: impl Into<Vec<usize>>) -> Compiler {
        self.shapes.push((input.into(), shape.into()));
        self
    }

    /// The size of a dimension that the model has a name for.
    #[must_use]
    pub fn dim(mut self, name: impl Into<String>, size: usize) -> Compiler {
        self.dims.push((name.into(), size));
        self
    }

    /// A plugin file.
    #[must_use]
    pub fn plugin(mut self, file: impl Into<PathBuf>) -> Compiler {
        self.plugins.files.push(file.into());
        self
    }

    /// Where plugins are, in place of what was said of them.
    #[must_use]
    pub fn plugins(mut self, plugins: Plugins) -> Compiler {
        self.plugins = plugins;
        self
    }

    /// Rules for where nodes may go.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Compiler {
        self.policy = policy;
        self
    }

    /// Refers to constants in the model's files in place of copying them.
    #[must_use]
    pub fn external_constants(mut self, refer: bool) -> Compiler {
        self.external_constants = refer;
        self
    }

    /// Stores a constant although a backend's code holds its bytes too, with a warning in place of an error.
    #[must_use]
    pub fn allow_duplicates(mut self, allow: bool) -> Compiler {
        self.allow_duplicates = allow;
        self
    }

    /// Gives the nodes of a region in which a backend crashes to the next backend, with a warning in place of an error.
    #[must_use]
    pub fn fallback_on_crash(mut self, fall_back: bool) -> Compiler {
        self.fallback_on_crash = fall_back;
        self
    }

    /// Samples of the inputs, for backends that choose ranges from them: a folder or an `.npz` file. `mean` is subtracted from each
    /// pixel of an image, which is then divided by `std`: one number, or one for each channel; none for arrays.
    #[cfg(feature = "dataset")]
    #[must_use]
    pub fn dataset(mut self, path: impl Into<PathBuf>, mean: &[f32], std: &[f32]) -> Compiler {
        self.dataset = Some(Samples { path: path.into(), mean: mean.to_vec(), std: std.to_vec() });
        self
    }

    /// Compiles into the file `output`. On an error nothing is written, and an existing file stays; so it does where the output is a
    /// file that the compile reads.
    pub fn write(&self, output: impl AsRef<Path>) -> Result<Report> {
        self.write_watched(output, &mut Silent)
    }

    /// The same, with progress and a way to end it.
    pub fn write_watched(&self, output: impl AsRef<Path>, observer: &mut dyn Observer) -> Result<Report> {
        let output = output.as_ref();
        overwrite::check(&[output], &self.inputs())?;
        place::check(Written::Artifact, output)?;
        let mut observer = Collecting { observer, warnings: Vec::new() };
        if self.share && self.variants.is_empty() {
            let error = Diagnostic::new(Code::Usage, "share is for variants, and there are none");
            return Err(error.hint("Leave it out"));
        }
        let mut report = Report {
            nodes: Vec::new(),
            ledger: Ledger::default(),
            variants: Vec::new(),
            file_bytes: 0,
            warnings: Vec::new(),
        };
        if self.variants.is_empty() {
            let (request, _) = self.request()?;
            let compile::Report { nodes, ledger, file_bytes } = compile::compile(&request, output, &mut observer)?;
            report = Report { nodes, ledger, file_bytes, ..report };
        } else {
            let list = self.requests()?;
            let compiled = Variants { list: &list, share: self.share }.compile(output, &mut observer)?;
            report = Report { variants: compiled.variants, file_bytes: compiled.file_bytes, ..report };
        }
        Ok(Report { warnings: observer.warnings, ..report })
    }

    /// Compiles into memory that has no file's name, and opens it. Options of running are those of both; plugins are those of the
    /// compile. Errors where `options` have plugins of their own, or a folder of constants.
    pub fn open(&self, options: &OpenOptions, observer: &mut dyn Observer) -> Result<Session> {
        if options.constants_from.is_some() || options.plugins != Plugins::default() {
            let what =
                if options.constants_from.is_some() { "constants_from is" } else { "plugins of OpenOptions are" };
            let error = Diagnostic::new(Code::Usage, format!("{what} for artifacts, and a model is given"));
            return Err(error.hint("Leave it out"));
        }
        if let Some(name) = &options.variant {
            let error =
                Diagnostic::new(Code::Usage, format!("variant '{name}' is one of an artifact, and a model is given"));
            return Err(error.hint("Leave it out"));
        }
        let (request, registry) = self.request()?;
        let mut run_options = registry.part_settings(&named_all(&self.chosen)?.options).1;
        run_options.extend(options.options_of_running(&registry)?);
        let unnamed = compile::compile_unnamed(&request, None, observer)?;
        let name = self.models.first().map_or(Path::new("model"), |(_, path)| path);
        options.load(Artifact::from_bytes(name, unnamed.bytes)?, &registry, run_options)
    }

    /// Which backend takes each node, and why others do not.
    pub fn explain(&self, observer: &mut dyn Observer) -> Result<Vec<NodeRow>> {
        compile::explain(&self.request()?.0, observer)
    }

    /// The request, and the registry that its backends are from.
    pub fn request(&self) -> Result<(Request, Registry)> {
        if !self.variants.is_empty() {
            let error = Diagnostic::new(Code::Usage, "variants are for a file, and this is about one compile");
            return Err(error.hint("Leave the variants out, and name backends"));
        }
        let chosen = named_all(&self.chosen)?;
        let registry = self.plugins.for_compiling(&chosen.backends)?;
        Ok((self.request_of(&registry, &chosen, &self.policy)?, registry))
    }

    /// A request for each variant.
    fn requests(&self) -> Result<Vec<variants::Variant>> {
        if let Some(backend) = self.chosen.backends.first() {
            let message = format!("backend '{backend}' is in no variant, and there are variants");
            return Err(Diagnostic::new(Code::Usage, message).hint("Name it in a variant"));
        }
        let all = named_all(&self.chosen)?;
        let chosen = self.variants.iter().map(|variant| named_all(&variant.chosen)).collect::<Result<Vec<_>>>()?;
        let backends: Vec<_> = chosen.iter().flat_map(|chosen| chosen.backends.iter().cloned()).collect();
        let registry = self.plugins.for_compiling(&backends)?;
        let request = |(variant, own): (&Variant, &Chosen)| {
            let options = request::options_of_variant(&all.options, own, &chosen);
            let chosen = Chosen { backends: own.backends.clone(), options };
            let request = self.request_of(&registry, &chosen, variant.policy.as_ref().unwrap_or(&self.policy))?;
            Ok(variants::Variant { name: variant.name.clone(), request })
        };
        self.variants.iter().zip(&chosen).map(request).collect()
    }

    fn request_of(&self, registry: &Registry, chosen: &Chosen, policy: &Policy) -> Result<Request> {
        if self.models.is_empty() {
            return Err(Diagnostic::new(Code::Usage, "there is no model to compile").hint("Name one"));
        }
        let import = ImportOptions { shapes: self.shapes.clone(), dims: self.dims.clone(), no_mmap: false };
        let sources = request::sources(&self.models);
        let mut request = request::request(registry, &byoc_plugin_api::registered(), chosen, sources, import)?;
        request.policy = policy.clone();
        for (backend, _) in &mut request.policy.require {
            *backend = named(backend)?;
        }
        request.external_constants = self.external_constants;
        request.allow_duplicates = self.allow_duplicates;
        request.fallback_on_crash = self.fallback_on_crash;
        #[cfg(feature = "dataset")]
        self.calibrate(&mut request)?;
        Ok(request)
    }
}

impl Compiler {
    /// Everything that a compile reads.
    fn inputs(&self) -> Vec<Input> {
        let mut inputs: Vec<_> = self.models.iter().map(|(_, path)| Input::new("a model", path)).collect();
        inputs.extend(self.plugins.search().every_file().into_iter().map(|path| Input::new("a plugin", path)));
        inputs.extend(allow_lists().into_iter().map(|path| Input::new("a list of allowed plugins", path)));
        #[cfg(feature = "dataset")]
        if let Some(samples) = &self.dataset {
            inputs.extend(dataset::files(&samples.path).into_iter().map(|path| Input::new("a data set", path)));
        }
        inputs
    }

    #[cfg(feature = "dataset")]
    fn calibrate(&self, request: &mut Request) -> Result<()> {
        if let Some(Samples { path, mean, std }) = &self.dataset {
            let files = Files::find(path, mean, std)?;
            files.tell(&mut request.backends)?;
            request.calibration = Some(Box::new(files));
        }
        Ok(())
    }
}

/// What is chosen, where the embedded backend has its own name.
fn named_all(chosen: &Chosen) -> Result<Chosen> {
    let embedded = byoc_plugin_api::registered();
    let option = |(key, value): &(String, String)| Ok((request::option_named(key, &embedded)?, value.clone()));
    Ok(Chosen {
        backends: chosen.backends.iter().map(|name| named(name)).collect::<Result<_>>()?,
        options: chosen.options.iter().map(option).collect::<Result<_>>()?,
    })
}

/// The backend that a user means by a name.
fn named(name: &str) -> Result<String> {
    request::backend_named(name, &byoc_plugin_api::registered())
}

/// Hands everything on, and keeps warnings.
struct Collecting<'a> {
    observer: &'a mut dyn Observer,
    warnings: Vec<Diagnostic>,
}

impl Observer for Collecting<'_> {
    fn stage(&mut self, stage: Stage) {
        self.observer.stage(stage);
    }

    fn progress(&mut self, done: usize, total: usize, next: &str) {
        self.observer.progress(done, total, next);
    }

    fn log(&mut self, backend: &str, line: &str) {
        self.observer.log(backend, line);
    }

    fn dump(&mut self, stage: Stage, text: &dyn Fn() -> String) {
        self.observer.dump(stage, text);
    }

    fn warning(&mut self, warning: &Diagnostic) {
        self.warnings.push(warning.clone());
        self.observer.warning(warning);
    }

    fn go_on(&mut self) -> Result<()> {
        self.observer.go_on()
    }
}
