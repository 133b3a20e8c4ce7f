//! The times that a page shows: what a profile has printed, of the file that the page is about.

use std::path::Path;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_tools::file;
use serde_json::Value;

use super::page::Time;
use crate::commands::explain::Region;

/// How much of a digest is shown.
const DIGEST: usize = 16;

/// The times in what a profile printed: of its steps where it tells them, else of its regions.
///
/// Errors where it says that it was measured on another file than `shown`.
pub(super) fn read(path: &Path, shown: &Path) -> Result<Vec<Time>> {
    let bad = |cause: String| {
        let error = Diagnostic::new(Code::BadInput, format!("'{}' is not a profile: {cause}", path.display()));
        error.hint("Give what `byoc bench FILE --profile --json` prints")
    };
    let bytes = std::fs::read(path).map_err(|error| Diagnostic::io(path, "read", &error))?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| bad(format!("it is not JSON: {error}")))?;
    same_file(path, &value, shown)?;
    let regions = value["regions"].as_array().ok_or_else(|| bad("it has no list 'regions'".into()))?;
    let mut times = Vec::new();
    for region in regions {
        of_region(region, &mut times).map_err(|cause| bad(cause.into()))?;
    }
    times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    Ok(times)
}

/// Adds the times of a region; an error says what it lacks.
fn of_region(region: &Value, times: &mut Vec<Time>) -> std::result::Result<(), &'static str> {
    let (symbol, backend) = (region["region"].as_str(), region["backend"].as_str());
    let (Some(symbol), Some(backend), Some(seconds)) = (symbol, backend, region["seconds"].as_f64()) else {
        return Err("a region has no name, backend or seconds");
    };
    let steps = region["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    for step in steps {
        let nodes = step["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        let nodes: Vec<_> = nodes.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let kernel = step["kernel"].as_str().unwrap_or("?");
        let name = if nodes.is_empty() { kernel.to_owned() } else { format!("{kernel}: {}", nodes.join(", ")) };
        let seconds = step["seconds"].as_f64().ok_or("a step has no seconds")?;
        times.push(Time { name, backend: backend.into(), region: symbol.into(), nodes, seconds });
    }
    let told: f64 = times[times.len() - steps.len()..].iter().map(|time| time.seconds).sum();
    let (name, seconds) = match steps.is_empty() {
        true => (symbol.to_owned(), seconds),
        false => (format!("(rest of {symbol})"), (seconds - told).max(0.0)),
    };
    times.push(Time { name, backend: backend.into(), region: symbol.into(), nodes: Vec::new(), seconds });
    Ok(())
}

/// Errors where the profile names another file.
fn same_file(path: &Path, profile: &Value, shown: &Path) -> Result<()> {
    let Some(measured) = profile["file_blake3"].as_str() else { return Ok(()) };
    if file::digest(shown)? == measured {
        return Ok(());
    }
    let (path, name) = (path.display(), profile["file"].as_str().unwrap_or("another file"));
    let digest = measured.get(..DIGEST).unwrap_or(measured);
    let message = format!("'{path}' was measured on '{name}' (blake3 {digest}...), not on '{}'", shown.display());
    Err(measure_it(message, shown))
}

/// Errors where a time is of a region that the file does not have.
pub(super) fn check(path: &Path, times: &[Time], shown: &Path, regions: &[Region]) -> Result<()> {
    let is_of = |time: &Time, region: &Region| region.region == time.region && region.backend == time.backend;
    match times.iter().find(|time| !regions.iter().any(|region| is_of(time, region))) {
        None => Ok(()),
        Some(Time { region, backend, .. }) => {
            let (path, shown_name) = (path.display(), shown.display());
            let message =
                format!("'{path}' has times of region {region} of {backend}, which '{shown_name}' does not have");
            Err(measure_it(message, shown))
        }
    }
}

fn measure_it(message: String, shown: &Path) -> Diagnostic {
    let hint = format!("`byoc bench {} --profile --json` measures it", shown.display());
    Diagnostic::new(Code::BadInput, message).hint(hint)
}
