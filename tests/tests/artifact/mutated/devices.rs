//! The code of the CUDA backends: lists of launches and calls, loaded, planned and run on stand-ins for NVIDIA's libraries,
//! which report what a kernel must not do. Lies are told of what stands around the kernels; a kernel itself is machine code
//! that does what its author wants, so whoever runs an artifact with some trusts it.

use byoc_nvidia_standins::with_cutlass;
use byoc_tests::folder::Folder;
use byoc_tests::places;
use byoc_tests::program::{byoc, outcome};
use byoc_tests::trial::{Needed, Trial, trial};

use super::bases::{Base, some};
use super::sweep::{self, Stage, plain};
use super::{judge, share};

const PLUGINS: [&str; 3] = ["cutlass", "cublas", "cuda"];

pub(crate) fn trials() -> Vec<Trial> {
    let bases = some(&["products", "rows", "attention", "moves", "norms", "open"]);
    bases.into_iter().map(|base| trial(format!("cuda/{}", base.name), move || cuda(&base))).collect()
}

fn cuda(base: &Base) -> Needed<()> {
    let folder = Folder::empty();
    folder.write("model.onnx", base.model.clone().finish());
    let plugins: Vec<_> = PLUGINS.iter().map(|name| places::plugin(name)).collect();
    let standins = plain(with_cutlass()).to_owned();
    let cache = plain(folder.path()).to_owned();
    let settings =
        vec![("BYOC_CUDA_PATH", standins), ("STANDIN_CAPABILITY", "80".to_owned()), ("BYOC_CACHE_DIR", cache)];
    let mut command = byoc(&["compile", "model.onnx", "-o", "model.byoc", "--backend", "cutlass,cublas,cuda,json"]);
    command.args(["--backend-opt", "cutlass.arch=sm_80", "--backend-opt", "cuda.arch=sm_80"]);
    for plugin in &plugins {
        command.arg("--plugin").arg(plugin);
    }
    command.envs(settings.iter().map(|(name, value)| (name, value)));
    outcome(command.current_dir(folder.path())).success();
    let path = folder.path().join("model.byoc");
    let plugins = plugins.into_iter().chain([places::plugin("json")]).collect();
    let stage = Stage { name: format!("cuda {}", base.name), path, plugins, settings, graph: true };
    judge(&sweep::sweep(&stage, share()), base.name);
    Ok(())
}
