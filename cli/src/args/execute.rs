//! The flags of `run`, `bench` and `verify`.

use std::path::PathBuf;

use super::Execution;

/// `byoc run`.
#[derive(clap::Args, Debug)]
pub(crate) struct Run {
    /// Write the outputs into this file
    #[arg(short, long, value_name = "OUT.npz")]
    pub(crate) output: Option<PathBuf>,
    /// Print the N largest elements of each output
    #[arg(long, value_name = "N")]
    pub(crate) print_top: Option<usize>,
    /// Print the time of each region
    #[arg(long, conflicts_with = "sync_each")]
    pub(crate) profile: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// What to run.
    #[command(flatten)]
    pub(crate) execution: Execution,
}

/// `byoc bench`.
#[derive(clap::Args, Debug)]
pub(crate) struct Bench {
    /// Runs before the measured ones
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub(crate) warmup: usize,
    /// Least number of measured runs [default: 5]
    #[arg(long, value_name = "N")]
    pub(crate) repeat: Option<usize>,
    /// Least time to measure for, in seconds [default: 3 without --repeat, 0 with it]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) duration: Option<f64>,
    /// Print the mean time of each region; regions on a device are then queued one by one and not replayed
    #[arg(long, conflicts_with = "sync_each")]
    pub(crate) profile: bool,
    /// Leave inputs on the devices that read them and outputs on those that compute them, and measure runs without those
    /// copies
    #[arg(long)]
    pub(crate) resident: bool,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// What to run. Inputs that no file gives are filled at random.
    #[command(flatten)]
    pub(crate) execution: Execution,
}

/// `byoc verify`.
#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("expected").required(true).args(["reference", "model"]))]
pub(crate) struct Verify {
    /// The expected outputs
    #[arg(long, value_name = "OUT.npz")]
    pub(crate) reference: Option<PathBuf>,
    /// The model to compute the expected outputs with, by reference kernels; inputs that no file gives are random
    #[arg(long, value_name = "MODEL.onnx")]
    pub(crate) model: Option<PathBuf>,
    /// Absolute tolerance: |a-b| <= atol + rtol*|b| [default: 1e-5 for f32 and f64, 1e-3 for f16, 1e-2 for bf16]
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) atol: Option<f64>,
    /// Relative tolerance [default: 1e-3 for f32 and f64, 1e-2 for f16, 5e-2 for bf16]
    #[arg(long, value_name = "X", value_parser = tolerance)]
    pub(crate) rtol: Option<f64>,
    /// Report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// What to run.
    #[command(flatten)]
    pub(crate) execution: Execution,
}

fn seconds(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    // A day: long enough for any measurement, short enough for every clock.
    if (0.0..=86400.0).contains(&value) { Ok(value) } else { Err("expected 0 to 86400 seconds".into()) }
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    if value >= 0.0 { Ok(value) } else { Err("expected a number of at least 0".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_tolerances_are_sane_numbers() {
        assert_eq!(seconds("1.5"), Ok(1.5));
        assert_eq!(seconds("-1"), Err("expected 0 to 86400 seconds".into()));
        assert_eq!(seconds("inf"), Err("expected 0 to 86400 seconds".into()));
        assert_eq!(seconds("x"), Err("expected a number of seconds".into()));
        assert_eq!(tolerance("1e-3"), Ok(1e-3));
        assert_eq!(tolerance("NaN"), Err("expected a number of at least 0".into()));
    }
}
