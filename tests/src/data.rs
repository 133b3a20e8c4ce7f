//! Test data that Python makes: the environment with the packages, and the folders that `tests/python/prepare.py`
//! fills. Both are made once and kept under `target`, under names that change with what they are made from.

use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use byoc_core::ops::{self, OpDef};
use serde_json::Value;

use crate::places;
use crate::trial::{Needed, Skip};

/// The exception of `tests/python/zoo/packages.py` where a package is not to be had.
const NOT_DOWNLOADED: &str = "NotDownloadedError";

/// The Python interpreter of an environment that has the packages of `tests/python/requirements.txt`.
pub fn python() -> Needed<PathBuf> {
    static KNOWN: Mutex<Option<Needed<PathBuf>>> = Mutex::new(None);
    once(&KNOWN, || Ok(make_environment("python", "requirements.txt", &[])?.join("bin/python")))
}

/// The Python interpreter of an environment that has the packages of `tests/python/examples.txt`: what the examples for Python use, and
/// the checker of its types.
pub fn examples() -> Needed<PathBuf> {
    static KNOWN: Mutex<Option<Needed<PathBuf>>> = Mutex::new(None);
    once(&KNOWN, || Ok(make_environment("examples", "examples.txt", &[])?.join("bin/python")))
}

/// The folder `nvidia` among the packages of an environment that has those of `tests/python/nvrtc.txt`: NVIDIA's
/// compiler and its headers, 102 MiB to download.
pub fn nvidia() -> Needed<PathBuf> {
    static KNOWN: Mutex<Option<Needed<PathBuf>>> = Mutex::new(None);
    once(&KNOWN, || {
        // CUTLASS's package asks for others that use it from Python.
        let library = make_environment("nvrtc", "nvrtc.txt", &["--no-deps"])?.join("lib");
        let version = places::list(&library).into_iter().find(|name| name.starts_with("python3."));
        let version = version.expect("an environment has a folder for its version of Python");
        Ok(library.join(version).join("site-packages/nvidia"))
    })
}

/// Gives the programs that are started that compiler, and a cache of what it compiles that outlives a test.
pub struct Compiler {
    environment: PathBuf,
}

/// The compiler of [`nvidia`] as users have it: in the active Python environment.
pub fn compiler() -> Needed<Compiler> {
    let packages = nvidia()?;
    let environment = packages.ancestors().nth(4).expect("lib/python3.x/site-packages/nvidia");
    Ok(Compiler { environment: environment.to_owned() })
}

impl Compiler {
    /// Makes it the one that a command finds, whatever else the machine has.
    pub fn set(&self, command: &mut Command) {
        for name in ["BYOC_CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX", "LD_LIBRARY_PATH"] {
            command.env_remove(name);
        }
        command.env("VIRTUAL_ENV", &self.environment).env("BYOC_CACHE_DIR", places::target().join("cubins"));
    }
}

/// The folder of test data called `name`, such as `node` or `seeded/vgg19`.
pub fn test_data(name: &str) -> Needed<PathBuf> {
    // They say which of ONNX's own cases there are.
    let operators: Vec<_> = ops::all().map(OpDef::qualified).collect();
    let root = places::target().join(format!("testdata-{:016x}", hash_of(&sources(), &operators)));
    let folder = root.join(name);
    if folder.is_dir() {
        return Ok(folder);
    }
    let python = python()?;
    std::fs::create_dir_all(&root).expect("the build folder can be written");
    // Others may be made meanwhile: a maker takes one core, and no more memory than a test.
    let _lock = lock(&root.join(format!(".{}", name.replace('/', "-"))));
    if !folder.is_dir() {
        let script = scripts().join("prepare.py");
        match run(Command::new(python).arg(script).arg(&root).args(["--only", name])) {
            Err(error) if error.contains(NOT_DOWNLOADED) => return Err(Skip(error)),
            made => made.unwrap_or_else(|error| panic!("{name}: {error}")),
        };
    }
    Ok(folder)
}

/// Makes test data that many tests wait for, while others run. What goes wrong is told by those who wait.
pub fn make_ahead(name: &'static str) {
    std::thread::spawn(move || std::panic::catch_unwind(|| test_data(name)).is_ok());
}

/// What a script of `tests/python` prints.
pub fn script(name: &str, arguments: &[&Path]) -> Needed<String> {
    let python = python()?;
    Ok(run(Command::new(python).arg(scripts().join(name)).args(arguments)).unwrap_or_else(|error| panic!("{error}")))
}

/// The layers of a kmodel file as netron finds them; `tests/python/kmodel_layers.py` tells what the value holds.
pub fn kmodel_layers(file: &Path) -> Needed<Value> {
    run(Command::new("node").arg("--version")).map_err(|error| Skip(format!("netron's reader needs node: {error}")))?;
    Ok(serde_json::from_str(&script("kmodel_layers.py", &[file])?).expect("the script prints JSON"))
}

fn scripts() -> PathBuf {
    places::checkout().join("tests/python")
}

/// A Python environment with the packages of a file of `tests/python`. Returns its folder.
fn make_environment(name: &str, requirements: &str, options: &[&str]) -> Needed<PathBuf> {
    let requirements = scripts().join(requirements);
    let folder = places::target().join(format!("{name}-{:016x}", hash_of(std::slice::from_ref(&requirements), &[])));
    let (python, ready) = (folder.join("bin/python"), folder.join("ready"));
    let _lock = lock(&folder);
    if ready.is_file() {
        return Ok(folder);
    }
    let wanting = |what: &str| {
        let what = what.to_owned();
        move |error: String| Skip(format!("{what}: {error}"))
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
        .map_err(wanting("cannot make a Python environment"))?;
    // Modules are compiled when they are first used, which few of them are.
    let install = ["-m", "pip", "install", "--quiet", "--no-compile"];
    run(Command::new(&python).args(install).args(options).arg("--requirement").arg(&requirements))
        .map_err(wanting("cannot install the Python packages"))?;
    std::fs::write(&ready, "").expect("the environment is ours");
    Ok(folder)
}

/// The first answer, remembered for the life of the process.
fn once<T: Clone>(known: &Mutex<Option<T>>, make: impl FnOnce() -> T) -> T {
    let mut known = known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    known.get_or_insert_with(make).clone()
}

/// Waits until no other test process makes `folder`.
fn lock(folder: &Path) -> File {
    let file = File::create(folder.with_extension("lock")).expect("the build folder can be written");
    file.lock().expect("the build folder's file system has locks");
    file
}

/// The output of a command, or the last line of what it complained.
fn run(command: &mut Command) -> Result<String, String> {
    // Other Python settings of the user must not leak into the environment.
    let output = command.env_remove("PYTHONPATH").env_remove("PYTHONHOME").output();
    let output = output.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let line = complaint.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output");
    Err(format!("{}: {line}", output.status))
}

/// Every file that the test data are made from.
fn sources() -> Vec<PathBuf> {
    let zoo = scripts().join("zoo");
    let modules = places::list(&zoo).into_iter().filter(|name| name.ends_with(".py")).map(|name| zoo.join(name));
    modules.chain(["prepare.py", "requirements.txt"].map(|name| scripts().join(name))).collect()
}

fn hash_of(files: &[PathBuf], names: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.file_name().hash(&mut hasher);
        places::read(file).hash(&mut hasher);
    }
    names.iter().for_each(|name| name.hash(&mut hasher));
    hasher.finish()
}
