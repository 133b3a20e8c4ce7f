//! Times runs whose shapes change, on the JSON runtime and one thread. Usage:
//!
//!     cargo run --release -p byoc-bench --features json --bin shapes MODEL NAME SIZE [SIZE...]
//!
//! `NAME` is a dimension that the model leaves open; all others that it does are 1. Prints a Markdown table: what a run takes when
//! the one before was of the same sizes, when the sizes take turns, and when every run is of a size that was not there before (those
//! between the first and the last), which is compared with runs of the same sizes one after the other. Medians; inputs are zeros.

#![allow(clippy::print_stdout, reason = "what was measured is what it is for")]

use std::error::Error as AnyError;
use std::path::Path;
use std::time::{Duration, Instant};

use byoc_core::compile::{Request, Silent, compile};
use byoc_core::plugin::{Registry, SearchPath};
use byoc_core::runtime::{LoadOptions, PortInfo, Session};
use byoc_json_backend as _;
use byoc_plugin_api::{DType, Dim, Error, TensorView, contiguous_strides};

/// Runs of each size, of which the median counts.
const RUNS: usize = 21;

/// The inputs of a run.
struct Inputs(Vec<Input>);

struct Input {
    shape: Vec<i64>,
    strides: Vec<i64>,
    zeros: Zeros,
}

enum Zeros {
    F32(Vec<f32>),
    I64(Vec<i64>),
}

impl Input {
    fn new(dtype: DType, shape: Vec<i64>) -> Result<Input, Box<dyn AnyError>> {
        let count = shape.iter().product::<i64>() as usize;
        let zeros = match dtype {
            DType::F32 => Zeros::F32(vec![0.0; count]),
            DType::I64 => Zeros::I64(vec![0; count]),
            other => return Err(format!("an input is {other}, and f32 or i64 are made").into()),
        };
        Ok(Input { strides: contiguous_strides(&shape), shape, zeros })
    }

    fn view(&self) -> Result<TensorView<'_>, Error> {
        match &self.zeros {
            Zeros::F32(zeros) => TensorView::from_slice(zeros, &self.shape, &self.strides),
            Zeros::I64(zeros) => TensorView::from_slice(zeros, &self.shape, &self.strides),
        }
    }
}

impl Inputs {
    /// Zeros for every input of a session, with a size for the open dimension of that name.
    fn of(session: &Session, name: &str, size: usize) -> Result<Inputs, Box<dyn AnyError>> {
        let dim = |dim: &Dim| match dim {
            Dim::Fixed(size) => *size as i64,
            Dim::Symbolic(known) if known == name => size as i64,
            Dim::Symbolic(_) => 1,
        };
        let input = |port: PortInfo| Input::new(port.dtype, port.shape.iter().map(dim).collect());
        Ok(Inputs(session.inputs().into_iter().map(input).collect::<Result<_, _>>()?))
    }

    /// What a run on them takes.
    fn time(&self, session: &mut Session) -> Result<Duration, Box<dyn AnyError>> {
        let views = self.0.iter().map(Input::view).collect::<Result<Vec<_>, _>>()?;
        let start = Instant::now();
        session.run(&views)?;
        Ok(start.elapsed())
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn main() -> Result<(), Box<dyn AnyError>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [model, name, sizes @ ..] = arguments.as_slice() else { return Err("give a model, a name and sizes".into()) };
    let sizes: Vec<usize> = sizes.iter().map(|size| size.parse()).collect::<Result<_, _>>()?;
    let (Some(&first), Some(&last)) = (sizes.first(), sizes.last()) else { return Err("give a size".into()) };
    let folder = tempfile::tempdir()?;
    let artifact = folder.path().join("model.byoc");
    let registry = Registry::discover(&SearchPath::default(), &byoc_plugin_api::registered(), None)?;
    let backends = registry.select(&["json".to_owned()], &[])?;
    let request = Request::new(vec![("main".into(), Path::new(model).to_owned())], backends);
    compile(&request, &artifact, &mut Silent)?;
    let load = || Session::open(&artifact, &registry, &LoadOptions { threads: 1, ..LoadOptions::default() });

    let mut session = load()?;
    let inputs = sizes.iter().map(|&size| Inputs::of(&session, name, size)).collect::<Result<Vec<_>, _>>()?;
    let mut same = Vec::new();
    for inputs in &inputs {
        inputs.time(&mut session)?;
        let times = (0..RUNS).map(|_| inputs.time(&mut session)).collect::<Result<Vec<_>, _>>()?;
        same.push(median(times));
    }
    let mut turns = vec![Vec::new(); inputs.len()];
    for _ in 0..=RUNS {
        for (times, inputs) in turns.iter_mut().zip(&inputs) {
            times.push(inputs.time(&mut session)?);
        }
    }
    println!("| {name} | the same, µs | in turns, µs | ratio |\n|---|---|---|---|");
    for ((size, same), times) in sizes.iter().zip(&same).zip(turns) {
        let turns = median(times);
        println!("| {size} | {same:.1} | {turns:.1} | {:.2} |", turns / same);
    }

    let (mut session, mut twice) = (load()?, load()?);
    let (mut new, mut again) = (Vec::new(), Vec::new());
    for size in first..=last {
        let inputs = Inputs::of(&session, name, size)?;
        new.push(inputs.time(&mut session)?);
        inputs.time(&mut twice)?;
        again.push(inputs.time(&mut twice)?);
    }
    let (new, again) = (median(new), median(again));
    println!("| {first} to {last}, each once | {again:.1} | {new:.1} | {:.2} |", new / again);
    Ok(())
}
