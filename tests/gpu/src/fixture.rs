//! The fixture of all parts: the backends, the device, and a folder for models and artifacts.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use byoc_conformance::tensor::Tensor;
use byoc_core::compile::{self, Request, Silent};
use byoc_core::plugin::{Registry, SearchPath};
use byoc_core::runtime::{DeviceName, LoadOptions, Queueing, Session};
// Links the backend in, which registers itself.
use byoc_json_backend as _;
use fastrand::Rng;
use tempfile::TempDir;

use crate::args::Args;
use crate::check::Prepared;
use crate::gpu::Gpu;
use crate::report::{Result, failure};
use crate::watch::{self, Watch};

/// The backend under test where a part names no other.
pub(crate) const BACKEND: &str = "cublas";

/// The backend whose products are compiled for them.
pub(crate) const PRODUCTS: &str = "cutlass";

/// The backend for what is not a product.
pub(crate) const REST: &str = "cuda";

/// The backends that generate kernels, for which CUDA's compiler is needed.
pub(crate) const GENERATING: [&str; 2] = [PRODUCTS, REST];

/// The backend for the rest of a model.
pub(crate) const HOST: &str = "json";

/// The fixture of all parts.
pub(crate) struct Fixture {
    /// The backend under test, and the one for the rest.
    pub(crate) registry: Registry,
    /// The same, on devices that are opened by [`Watch`].
    pub(crate) watched: Registry,
    pub(crate) watch: &'static Watch,
    /// None where kernels are only compiled.
    gpu: Option<Mutex<Gpu>>,
    /// What NVIDIA calls the device.
    pub(crate) title: String,
    /// The architecture that kernels are compiled for: the device's own.
    arch: String,
    pub(crate) device: DeviceName,
    pub(crate) plugins: Vec<PathBuf>,
    pub(crate) quick: bool,
    pub(crate) seed: u64,
    pub(crate) args: Args,
    folder: TempDir,
}

/// A compiled model.
pub(crate) struct Compiled {
    pub(crate) path: PathBuf,
    /// Of the file.
    pub(crate) bytes: u64,
}

/// The paths of the plugins, by default those beside this program.
pub(crate) fn plugins(args: &Args) -> Result<Vec<PathBuf>> {
    if !args.plugin.is_empty() {
        return Ok(args.plugin.clone());
    }
    let program = std::env::current_exe()?;
    let beside = |backend: &str| program.with_file_name(format!("libbyoc_{backend}.so"));
    let all = [BACKEND].into_iter().chain(GENERATING).map(beside);
    Ok(all.filter(|file| file.is_file()).collect())
}

/// The backends: those of the plugins, and those of the program itself.
pub(crate) fn registry(plugins: &[PathBuf]) -> Result<Registry> {
    let search = SearchPath { files: plugins.to_vec(), ..SearchPath::default() };
    Ok(Registry::discover(&search, &byoc_plugin_api::registered(), None)?)
}

impl Fixture {
    /// Opens the plugins and the device, with cublasLt where that is called; no device where kernels are only compiled.
    pub(crate) fn new(args: &Args, seed: u64, with_cublaslt: bool) -> Result<Fixture> {
        let plugins = plugins(args)?;
        let registry = registry(&plugins)?;
        let watch = watch::watch();
        let mut watched = registry.clone();
        watched.backends.insert(0, watch.registered());
        let (title, arch, gpu) = match &args.prepare {
            Some(arch) => (arch.clone(), arch.clone(), None),
            None => {
                let gpu = Gpu::open(args.device.ordinal, with_cublaslt)?;
                (gpu.name().to_owned(), gpu.arch(), Some(Mutex::new(gpu)))
            }
        };
        let (device, quick, folder) = (args.device.clone(), args.quick, tempfile::tempdir()?);
        Ok(Fixture {
            registry,
            watched,
            watch,
            gpu,
            title,
            arch,
            device,
            plugins,
            quick,
            seed,
            args: args.clone(),
            folder,
        })
    }

    /// The device, as the suite opens it.
    pub(crate) fn gpu(&self) -> MutexGuard<'_, Gpu> {
        let gpu = self.gpu.as_ref().expect("nothing is loaded where kernels are only compiled");
        gpu.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The architecture that kernels are compiled for.
    pub(crate) fn arch(&self) -> &str {
        &self.arch
    }

    /// Why what only `sm_90a` has is left out, on any other device.
    pub(crate) fn without_hopper(&self) -> Option<String> {
        (self.arch != "sm_90a").then(|| format!("left out: it is for sm_90a, and this is {}", self.arch))
    }

    /// An error of the kind [`Prepared`] where kernels are only compiled.
    pub(crate) fn ready(&self) -> Result<()> {
        if self.gpu.is_some() { Ok(()) } else { Err(Prepared.into()) }
    }

    /// Waits until no other check times anything, and keeps others from it for as long as the answer lives.
    pub(crate) fn turn(&self) -> Result<Option<File>> {
        let Some(path) = &self.args.turn else { return Ok(None) };
        let file = File::open(path)?;
        file.lock()?;
        Ok(Some(file))
    }

    /// Whether the device is a stand-in for tests.
    pub(crate) fn is_stand_in(&self) -> bool {
        self.title.starts_with("stand-in")
    }

    /// The arguments for the same plugins.
    pub(crate) fn plugin_arguments(&self) -> impl Iterator<Item = &OsStr> {
        self.plugins.iter().flat_map(|file| [OsStr::new("--plugin"), file.as_os_str()])
    }

    /// A generator of random numbers for a part, which does not depend on other parts.
    pub(crate) fn random(&self, part: &str) -> Rng {
        Rng::with_seed(part.bytes().fold(self.seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte))))
    }

    /// One of two numbers: for a GPU, or with `--quick`.
    pub(crate) fn pick<T>(&self, full: T, quick: T) -> T {
        if self.quick { quick } else { full }
    }

    /// Writes an ONNX file, which stays until the suite ends or the model is compiled.
    pub(crate) fn write(&self, name: &str, onnx: &[u8]) -> Result<PathBuf> {
        let path = self.folder.path().join(format!("{name}.onnx"));
        std::fs::write(&path, onnx)?;
        Ok(path)
    }

    /// The target architecture of a backend that generates kernels, as an option (`backend.key`, value).
    pub(crate) fn arch_of(&self, backend: &str) -> Option<(String, String)> {
        GENERATING.contains(&backend).then(|| (format!("{backend}.arch"), self.arch.clone()))
    }

    /// Compiles an ONNX file for these backends, with options as (`backend.key`, value). The model itself is not kept.
    pub(crate) fn compile(
        &self,
        name: &str,
        onnx: &[u8],
        backends: &[&str],
        settings: &[(&str, &str)],
    ) -> Result<Compiled> {
        let (model, path) = (self.write(name, onnx)?, self.folder.path().join(format!("{name}.byoc")));
        let names: Vec<_> = backends.iter().map(|name| (*name).to_owned()).collect();
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let settings: Vec<_> = settings.chain(backends.iter().filter_map(|backend| self.arch_of(backend))).collect();
        let backends = self.registry.select(&names, &settings)?;
        let folder = self.registry.select(&[HOST.to_owned()], &[])?.pop();
        let request =
            Request { folding_backend: folder, ..Request::new(vec![("main".into(), model.clone())], backends) };
        let report = compile::compile(&request, &path, &mut Silent)?;
        std::fs::remove_file(&model)?;
        Ok(Compiled { path, bytes: report.file_bytes })
    }

    /// Loads an artifact on the device.
    pub(crate) fn load(&self, registry: &Registry, path: &Path, queueing: Queueing) -> Result<Session> {
        self.ready()?;
        let devices = vec![self.device.clone()];
        Ok(Session::open(path, registry, &LoadOptions { devices, queueing, ..LoadOptions::default() })?)
    }

    /// Loads an artifact on the device as it is opened by [`Watch`].
    pub(crate) fn load_watched(&self, path: &Path, queueing: Queueing) -> Result<Session> {
        self.load(&self.watched, path, queueing)
    }
}

/// Runs, and copies the first output.
pub(crate) fn run(session: &mut Session, inputs: &[Tensor]) -> Result<Tensor> {
    with_views(inputs, |views| Ok(session.run(views)?))?;
    first_output(session)
}

/// The first output of the last run.
pub(crate) fn first_output(session: &Session) -> Result<Tensor> {
    Ok(Tensor::of(&session.output(0)?))
}

/// Calls with views of the inputs.
pub(crate) fn with_views<T>(
    inputs: &[Tensor],
    call: impl FnOnce(&[byoc_plugin_api::TensorView<'_>]) -> Result<T>,
) -> Result<T> {
    let borrowed: Vec<_> = inputs.iter().map(Tensor::borrowed).collect();
    let views: Vec<_> = borrowed.iter().map(|lent| lent.view()).collect();
    call(&views)
}

/// An error unless the outputs are the same to the bit.
pub(crate) fn same(found: &Tensor, expected: &Tensor, what: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    let differing = found.floats().zip(expected.floats()).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    failure(format!("{what}: {differing} of {} elements are other bits", expected.floats().count()))
}
