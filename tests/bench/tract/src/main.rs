//! Runs one model on tract in a process of its own and prints load time, latency and peak memory as JSON, in the form of
//! `tests/bench/ort_bench.py`. Usage: `byoc-bench-tract MODEL.onnx INPUTS.npz --duration S`. tract runs on one thread.

use std::error::Error;
use std::fs::File;
use std::time::{Duration, Instant};

use ndarray_npy::NpzReader;
use tract_onnx::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, model, inputs, _, seconds] = arguments.as_slice() else {
        return Err("usage: byoc-bench-tract MODEL.onnx INPUTS.npz --duration SECONDS".into());
    };
    let duration = Duration::from_secs_f64(seconds.parse()?);
    let start = Instant::now();
    let mut model = tract_onnx::onnx().model_for_path(model)?;
    let inputs = read(inputs, &model)?;
    for (index, input) in inputs.iter().enumerate() {
        let fact = InferenceFact::dt_shape(input.datum_type(), input.shape());
        model.set_input_fact(index, fact)?;
    }
    let model = model.into_optimized()?.into_runnable()?;
    let load = start.elapsed();
    let mut times = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < duration || times.len() < 4 {
        let start = Instant::now();
        model.run(inputs.clone())?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    // The first run warms up.
    times.remove(0);
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let report = serde_json::json!({
        "load_ms": load.as_secs_f64() * 1e3, "median_ms": at(0.5), "least_ms": at(0.0), "p10": at(0.1), "p90": at(0.9),
        "runs": times.len(), "peak_mb": peak_mb()?,
    });
    println!("{report}");
    Ok(())
}

/// The inputs of the model, in its order.
fn read(path: &str, model: &InferenceModel) -> Result<TVec<TValue>, Box<dyn Error>> {
    let mut npz = NpzReader::new(File::open(path)?)?;
    let mut values = tvec!();
    for outlet in model.input_outlets()? {
        let name = model.node(outlet.node).name.clone();
        let tensor: Tensor = match npz.by_name::<ndarray::OwnedRepr<f32>, ndarray::IxDyn>(&name) {
            Ok(array) => Tensor::from_shape(array.shape(), &array.iter().copied().collect::<Vec<_>>())?,
            Err(_) => {
                let array = npz.by_name::<ndarray::OwnedRepr<i64>, ndarray::IxDyn>(&name)?;
                Tensor::from_shape(array.shape(), &array.iter().copied().collect::<Vec<_>>())?
            }
        };
        values.push(tensor.into());
    }
    Ok(values)
}

/// Peak resident memory of this process (Linux).
fn peak_mb() -> Result<f64, Box<dyn Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no number")?.parse()?;
    Ok(kilobytes / 1024.0)
}
