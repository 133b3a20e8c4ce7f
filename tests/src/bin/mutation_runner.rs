//! The process that opens, loads and runs mutated artifacts, one after another: it says the number of each case before it
//! begins, so that whoever reads knows which one it was that ended it.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use byoc_core::artifact::{Artifact, Totals};
use byoc_core::diagnostic::Result;
use byoc_core::plugin::Registry;
use byoc_core::runtime::{LoadOptions, PortInfo, Session};
use byoc_dim::{self as dim, Expr};
use byoc_kendryte_backend as _;
use byoc_plugin_api::{Backend, DType};
use byoc_tests::mutator::{Mutator, random};
use byoc_tests::tensor::Tensor;
use byoc_tests::{engine, places};
use half::{bf16, f16};
use rustix::process::{Resource, Rlimit, setrlimit};

/// Most iterations of control flow in a run: more would only take long.
const ITERATIONS: u64 = 64;

/// Set where memory is not to be limited: sanitizers reserve more than any machine has.
const UNLIMITED: &str = "BYOC_MUTATION_UNLIMITED";

/// Most memory of the process, in bytes: more than an honest case needs.
const MEMORY: u64 = 4 << 30;

/// Most bytes of inputs that are made up.
const INPUTS: usize = 64 << 20;

/// Those of backends are caught, and no better than others.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [base, first, each, graph, plugins @ ..] = arguments.as_slice() else {
        panic!(
            "the artifact, the first case, out of how many one is tried, whether the graph is mutated, and plugin files"
        );
    };
    limit();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        hook(info);
    }));
    let registry = match plugins {
        [] => engine::embedded(),
        files => engine::from_files(files.iter().map(Into::into).collect()),
    };
    let (base, graph) = (Path::new(base), graph == "true");
    let (first, each): (usize, u64) = (first.parse().expect("a number"), each.parse().expect("a number"));
    let mutator = Mutator::new(&places::read(base), graph);
    let mut out = std::io::stdout();
    let mut say = |text: String| out.write_all(text.as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
    for case in (first..mutator.cases()).filter(|&case| random(case as u64).is_multiple_of(each)) {
        say(format!("{case} "));
        let file = mutator.mutate(case).1;
        let panics = PANICS.load(Ordering::Relaxed);
        let end = attempt(base, file, &registry, case).map_or_else(|error| error.code.id(), |()| "ok");
        let panicked = if PANICS.load(Ordering::Relaxed) > panics { " panic" } else { "" };
        say(format!("{end}{panicked}\n"));
    }
}

/// Limits memory, unless somebody else does, and leaves no core files of the crashes that are looked for.
fn limit() {
    let at_most = |resource, most| setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    if std::env::var_os(UNLIMITED).is_none() {
        at_most(Resource::As, MEMORY).expect("it is less than before");
    }
    at_most(Resource::Core, 0).expect("it is less than before");
}

/// What `byoc check`, `byoc inspect` and `byoc run` do with a file.
fn attempt(path: &Path, file: Vec<u8>, registry: &Registry, case: usize) -> Result<()> {
    let artifact = Artifact::from_bytes(path, file.into())?;
    artifact.verify_digests()?;
    let manifest = artifact.manifest();
    let _ = Totals::of(manifest, artifact.ledger()?).saved();
    for region in &manifest.regions {
        let code = artifact.section(&region.code)?;
        if let Ok(found) = registry.get(&region.backend) {
            let _ = found.backend.open(&code);
        }
    }
    let entries: Vec<String> = manifest.callable().map(|entry| entry.name.clone()).collect();
    for entry in entries.into_iter().take(4) {
        let (threads, max_iterations) = (1 + case % 2, Some(ITERATIONS));
        let options = LoadOptions { entry: Some(entry), threads, max_iterations, ..LoadOptions::default() };
        let mut session = Session::load(artifact.clone(), registry, &options)?;
        for seed in 0..2 {
            let Some(inputs) = inputs(&session.inputs(), seed) else { break };
            let borrowed: Vec<_> = inputs.iter().map(Tensor::borrowed).collect();
            let views: Vec<_> = borrowed.iter().map(|tensor| tensor.view()).collect();
            session.run(&views)?;
            for output in 0..session.outputs().len() {
                // Every byte is looked at.
                let _ = session.output(output)?.as_bytes().map(|bytes| bytes.iter().fold(0, |sum, byte| sum ^ byte));
            }
        }
    }
    Ok(())
}

/// Zeros, then numbers from 0 to 1, of whatever sizes are asked for; symbols are 2. `None` where that is too much.
fn inputs(ports: &[PortInfo], seed: u64) -> Option<Vec<Tensor>> {
    let names = ports.iter().flat_map(|port| &port.shape).filter_map(|dim| Some(Expr::of(dim).ok()?.symbols()));
    let symbols: HashMap<String, usize> = names.flatten().map(|name| (name, 2)).collect();
    let mut left = INPUTS;
    let tensor = |port: &PortInfo| {
        let shape = dim::eval_shape(&port.shape, &symbols).ok()?;
        let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(size))?;
        left = left.checked_sub(port.dtype.bytes_for(count)?)?;
        let shape = shape.iter().map(|&size| size as i64).collect();
        let elements: Vec<u8> = (0..count as u64).flat_map(|at| element(port.dtype, seed * random(at))).collect();
        // As the session takes it: of texts, handles.
        Some(Tensor { dtype: port.dtype, shape, bytes: port.dtype.pack(&elements) })
    };
    ports.iter().map(tensor).collect()
}

/// A float of 0 to 1, or a whole number that is 0 or 1.
fn element(dtype: DType, number: u64) -> Vec<u8> {
    let float = (number >> 40) as f32 / (1u32 << 24) as f32;
    match dtype {
        DType::F32 => float.to_le_bytes().to_vec(),
        DType::F64 => f64::from(float).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f32(float).to_le_bytes().to_vec(),
        DType::BF16 => bf16::from_f32(float).to_le_bytes().to_vec(),
        integer => {
            let mut bytes = vec![0; integer.unpacked_bytes()];
            bytes[0] = (number >> 63) as u8;
            bytes
        }
    }
}
