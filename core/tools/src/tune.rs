//! The fastest of the kernels that backends have for each region, found on a device.

mod cache;
mod measure;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

use byoc_core::artifact::Artifact;
use byoc_core::artifact::manifest::{Chosen, Region, ValueInfo};
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::dim::Expr;
use byoc_core::plugin::{Registered, Registry, Settings};
use byoc_core::runtime::{Device, DeviceName, LoadOptions, PortInfo, SingleRegion, region_backend};
use byoc_core::tune::Choice;
use byoc_plugin_api::{Description, DomainInfo, Error, Options};
use bytes::Bytes;
use serde_json::json;

use self::cache::Cache;
use self::measure::measure;
pub use self::measure::{LeftOut, Outcome};
use crate::inputs::{self, Inputs, OpenSizes};
use crate::lists::Given;
use crate::tensor::Tensor;

/// What is tuned, and how.
#[derive(Clone, Debug)]
pub struct Request {
    /// The device to try kernels on.
    pub device: DeviceName,
    /// Only regions of these backends; empty for all on the device.
    pub backends: Vec<String>,
    /// Sizes of symbolic dimensions, by name.
    pub dims: Vec<(String, usize)>,
    /// How often the time of each kernel is taken.
    pub repeat: u32,
    /// Whether cached choices are ignored.
    pub again: bool,
}

/// The choices for the selected regions.
#[derive(Debug)]
pub struct Found {
    /// What the device is.
    pub title: String,
    /// Each different region that has kernels to choose from.
    pub tuned: Vec<Tuned>,
    /// The choice for each region, by number, for [`byoc_core::tune::rewrite`].
    pub choices: BTreeMap<usize, Choice>,
}

/// Regions that have the same code, and what was found for it.
#[derive(Debug)]
pub struct Tuned {
    /// The regions.
    pub symbols: Vec<String>,
    /// Whose they are.
    pub backend: String,
    /// What was found.
    pub outcome: Outcome,
    /// Whether it was found before.
    pub known: bool,
}

/// What regions are tuned with.
struct Tuner<'a> {
    single_region: SingleRegion<'a>,
    request: &'a Request,
    device: DomainInfo,
    cache: Cache,
    /// What was found, by key, and where in [`Tuner::found`].
    keys: HashMap<String, usize>,
    found: Vec<Tuned>,
    choices: BTreeMap<usize, Choice>,
}

/// The files in which choices are kept from one time to the next.
pub fn kept_files() -> Vec<PathBuf> {
    Cache::of_process().files()
}

/// Tries what backends have for each region of the artifact. The registry has its backends, and `settings` their options
/// about this machine; `progress` is called for each region as [`Observer::progress`](byoc_core::compile::Observer::progress).
pub fn tune(
    artifact: &Artifact,
    registry: &Registry,
    settings: Settings,
    request: &Request,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Found> {
    let all = &artifact.manifest().regions;
    let regions = wanted(artifact, request)?;
    for &index in &regions {
        region_backend(&all[index], registry)?;
    }
    let device = Device::open(&request.device, registry, &|backend| backend.run_options(&settings))?;
    let options = LoadOptions { run_options: settings, ..LoadOptions::default() };
    let mut tuner = Tuner {
        single_region: SingleRegion { artifact, registry, options: &options, device: &device },
        request,
        device: device.info(),
        cache: Cache::of_process(),
        keys: HashMap::new(),
        found: Vec::new(),
        choices: BTreeMap::new(),
    };
    for (done, &index) in regions.iter().enumerate() {
        progress(done, regions.len(), &all[index].symbol);
        tuner.tune(index)?;
    }
    let Tuner { device, found, choices, .. } = tuner;
    Ok(Found { title: device.title, tuned: found, choices })
}

/// The selected regions, by number.
fn wanted(artifact: &Artifact, request: &Request) -> Result<Vec<usize>> {
    let all = &artifact.manifest().regions;
    let (path, device) = (artifact.path().display(), &request.device);
    for name in &request.backends {
        if !all.iter().any(|region| region.backend == *name) {
            let message = format!("'{path}' has no region of the backend '{name}'");
            return Err(Diagnostic::new(Code::UnknownName, message).hint("See byoc inspect --plugins"));
        }
    }
    let is_wanted = |region: &Region| {
        let of_backend = request.backends.is_empty() || request.backends.contains(&region.backend);
        of_backend && region.domain.as_deref() == Some(&device.kind)
    };
    let regions: Vec<_> = (0..all.len()).filter(|&index| is_wanted(&all[index])).collect();
    if regions.is_empty() {
        let message = format!("no region of '{path}' that is asked about runs on {device}");
        return Err(Diagnostic::new(Code::UnknownName, message).hint("See byoc inspect --regions"));
    }
    let mut known = BTreeSet::new();
    for &index in &regions {
        known.extend(symbols(&all[index])?);
    }
    match request.dims.iter().find(|(name, _)| !known.contains(name)) {
        None => Ok(regions),
        Some((name, _)) => {
            let error = Diagnostic::new(Code::ShapeOption, format!("no region has a dimension '{name}'"));
            let names: Vec<_> = known.into_iter().collect();
            Err(match names.is_empty() {
                true => error.hint("All dimensions of their inputs are fixed"),
                false => error.hint(format!("Their dimensions are: {}", names.join(", "))),
            })
        }
    }
}

/// The symbols in the shapes of a region's inputs.
fn symbols(region: &Region) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for dim in region.inputs.iter().flat_map(|input| &input.shape) {
        names.extend(Expr::of(dim)?.symbols());
    }
    Ok(names)
}

impl Tuner<'_> {
    /// Chooses the code of a region.
    fn tune(&mut self, index: usize) -> Result<()> {
        let region = &self.single_region.artifact.manifest().regions[index];
        let registered = region_backend(region, self.single_region.registry)?;
        if !registered.description.candidates {
            return Ok(());
        }
        same_version(region, &registered.description)?;
        let options = region.options.clone().and(&registered.run_options(&self.single_region.options.run_options)?);
        let code = self.single_region.artifact.code(region)?;
        let inputs = self.inputs(region)?;
        let key = self.key(region, &options, &code, &inputs);
        let at = match self.keys.get(&key) {
            Some(&at) => at,
            None => {
                let known = if self.request.again { None } else { self.cache.find(&key) };
                let is_known = known.is_some();
                let found = match known {
                    Some(outcome) => Some(outcome),
                    None => self.measured(region, registered, &options, &code, &inputs)?,
                };
                let Some(outcome) = found else { return Ok(()) };
                if !is_known {
                    self.keep(&key, region, &options, &outcome, &inputs);
                }
                let backend = region.backend.clone();
                self.found.push(Tuned { symbols: Vec::new(), backend, outcome, known: is_known });
                self.keys.insert(key, self.found.len() - 1);
                self.found.len() - 1
            }
        };
        let tuned = &mut self.found[at];
        tuned.symbols.push(region.symbol.clone());
        let choice = choice(region, &tuned.outcome, &self.device.title);
        self.choices.insert(index, choice);
        Ok(())
    }

    /// Tries what its backend has for a region; `None` where there is nothing to choose.
    fn measured(
        &self,
        region: &Region,
        registered: &Registered,
        options: &Options,
        code: &Bytes,
        inputs: &[Tensor],
    ) -> Result<Option<Outcome>> {
        let failed = |error: Error| {
            let (name, symbol) = (&region.backend, &region.symbol);
            if error.crashed {
                let message = format!("backend '{name}' {} while it made kernels for region {symbol}", error.message);
                return Diagnostic::new(Code::BackendCrashed, message).hint("Report this to the backend's maker");
            }
            let message = format!("backend '{name}' cannot make kernels for region {symbol}: {}", error.message);
            Diagnostic { code: Code::BackendFailed, message, hint: error.hint }
        };
        let candidates = registered.candidates(code, options).map_err(failed)?;
        measure(&self.single_region, region, candidates, inputs, self.request.repeat)
    }

    /// Made-up inputs of the shapes that the region has.
    fn inputs(&self, region: &Region) -> Result<Vec<Tensor>> {
        let port = |info: &ValueInfo| PortInfo {
            name: info.name.clone(),
            dtype: info.dtype,
            shape: info.shape.clone(),
            list: None,
        };
        let ports: Vec<_> = region.inputs.iter().map(port).collect();
        let known = symbols(region)?;
        let dims = self.request.dims.iter().filter(|(name, _)| known.contains(name)).cloned().collect();
        let place = || format!("region {}", region.symbol);
        let given = inputs::gather(&ports, &Inputs::random(), &OpenSizes { dims, shapes: Vec::new() }, &mut |_| {});
        let tensor = |given| if let Given::Tensor(tensor) = given { Some(tensor) } else { None };
        Ok(given.map_err(|error| error.within(place()))?.values.into_iter().filter_map(tensor).collect())
    }

    /// What the choice depends on, in hex: code, options, shapes, the device with its software, and the backend's version.
    fn key(&self, region: &Region, options: &Options, code: &[u8], inputs: &[Tensor]) -> String {
        let DomainInfo { title, libraries, .. } = &self.device;
        let shapes: Vec<_> = inputs.iter().map(Tensor::shape).collect();
        let Region { backend, backend_version, code_version, .. } = region;
        let about = json!([backend, backend_version, code_version, options, shapes, title, libraries]);
        let mut hasher = blake3::Hasher::new();
        hasher.update(about.to_string().as_bytes()).update(&[0]).update(code);
        hasher.finalize().to_hex().to_string()
    }

    /// Keeps what was found, for this code and for the code that was chosen.
    fn keep(&self, key: &str, region: &Region, options: &Options, outcome: &Outcome, inputs: &[Tensor]) {
        self.cache.keep(key, outcome);
        if let Some(code) = &outcome.code {
            self.cache.keep(&self.key(region, options, code, inputs), &outcome.of_chosen());
        }
    }
}

/// Other code is the region's own only if it comes from the same version of its backend.
fn same_version(region: &Region, here: &Description) -> Result<()> {
    let (was, found) = (&region.backend_version, &here.version);
    if was == found {
        return Ok(());
    }
    let message = format!("region {} was compiled with {} {was}, and {found} is here", region.symbol, region.backend);
    Err(Diagnostic::new(Code::MissingRequirement, message).hint("Compile the model again with this backend"))
}

/// The choice for a region. One that was tuned on that device before and keeps its code stays as it is.
fn choice(region: &Region, outcome: &Outcome, title: &str) -> Choice {
    let Outcome { candidate, before, after, code, .. } = outcome;
    let chosen = match &region.chosen {
        Some(known @ Chosen::Tuned { device, .. }) if code.is_none() && device == title => known.clone(),
        _ => Chosen::Tuned { device: title.into(), candidate: candidate.clone(), seconds: *after, before: *before },
    };
    Choice { code: code.clone(), chosen }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Region {
        serde_json::from_value(json!({
            "symbol": "byoc_main_gpu_0", "backend": "gpu", "backend_version": "1.0", "code_version": 2,
            "abi_version": 1, "code": "code/byoc_main_gpu_0", "constants": [], "inputs": [], "outputs": [],
        }))
        .expect("a region")
    }

    #[test]
    fn kernels_are_those_of_the_version_that_compiled() {
        let here = |version: &str| Description { version: version.into(), ..Description::default() };
        assert_eq!(same_version(&region(), &here("1.0")), Ok(()));
        assert_eq!(
            same_version(&region(), &here("1.1")).expect_err("another").to_string(),
            "[B604] region byoc_main_gpu_0 was compiled with gpu 1.0, and 1.1 is here. Compile the model again with this backend"
        );
    }

    #[test]
    fn a_record_lasts_as_long_as_the_code_it_is_about() {
        let outcome = Outcome {
            own: "a".into(),
            candidate: "b".into(),
            candidates: 2,
            before: 2.0,
            after: 1.0,
            left_out: Vec::new(),
            code: Some(Bytes::from_static(b"b")),
        };
        let tuned = |device: &str, candidate: &str, seconds, before| {
            let (device, candidate) = (device.into(), candidate.into());
            Some(Chosen::Tuned { device, candidate, seconds, before })
        };
        let chosen = |was: Option<Chosen>, outcome: &Outcome| {
            Some(choice(&Region { chosen: was, ..region() }, outcome, "a card").chosen)
        };
        let fresh = tuned("a card", "b", 1.0, 2.0);
        assert_eq!(chosen(Some(Chosen::Table), &outcome), fresh);
        assert_eq!(chosen(tuned("a card", "a", 3.0, 4.0), &outcome), fresh);
        let kept = outcome.of_chosen();
        assert_eq!(chosen(fresh.clone(), &kept), fresh);
        assert_eq!(chosen(tuned("another card", "b", 3.0, 4.0), &kept), tuned("a card", "b", 1.0, 1.0));
    }
}
