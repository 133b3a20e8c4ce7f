//! `byoc check`: whether this machine can run an artifact, and with which devices and restrictions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use byoc_core::artifact::{Artifact, ArtifactFile, manifest};
use byoc_core::diagnostic::{Code, Result};
use byoc_core::plugin::Registry;
use byoc_core::runtime::{
    Device, DeviceName, LoadOptions, SingleRegion, Trial, backends, is_about_the_machine, settings_for, unused_device,
};
use byoc_plugin_api::{Description, DomainInfo};
use serde::Serialize;
use serde_json::json;

use crate::args::{Plugins, SELDOM, hide_limits, name_value};
use crate::artifact::Compared;
use crate::report::{self, Table, Tone};
use crate::{artifact, compile_request};

/// Whether a region can run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Verdict {
    #[serde(rename = "OPTIMAL")]
    Optimal,
    #[serde(rename = "RECOMPILE ADVISED")]
    RecompileAdvised,
    #[serde(rename = "UNSUPPORTED")]
    Unsupported,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Optimal => "OPTIMAL",
            Verdict::RecompileAdvised => "RECOMPILE ADVISED",
            Verdict::Unsupported => "UNSUPPORTED",
        }
    }
}

#[derive(Serialize)]
struct RegionCheck {
    symbol: String,
    backend: String,
    verdict: Verdict,
    reason: Option<String>,
}

/// The result of loading an entry.
#[derive(Serialize)]
struct EntryCheck {
    entry: String,
    /// Why it cannot be loaded.
    error: Option<String>,
}

/// Report about a device.
#[derive(Serialize)]
struct DeviceCheck {
    device: String,
    title: String,
    memory: u64,
    libraries: Vec<String>,
}

/// Report about a file.
#[derive(Serialize)]
struct FileCheck {
    runs: bool,
    digests: &'static str,
    compared: Compared,
    #[serde(flatten)]
    parts: Parts,
}

/// Report about the artifact that it is, or about each of its variants.
#[derive(Serialize)]
#[serde(untagged)]
enum Parts {
    Plain(ArtifactCheck),
    Variants {
        /// The one that is taken where none is named.
        takes: Option<String>,
        variants: Vec<VariantCheck>,
    },
}

/// Report about a variant.
#[derive(Serialize)]
struct VariantCheck {
    variant: String,
    runs: bool,
    /// Why it does not run.
    reason: Option<String>,
    #[serde(flatten)]
    check: ArtifactCheck,
}

/// Report about an artifact.
#[derive(Serialize)]
struct ArtifactCheck {
    regions: Vec<RegionCheck>,
    entries: Vec<EntryCheck>,
}

impl ArtifactCheck {
    fn runs(&self) -> bool {
        self.why_not().is_none()
    }

    /// Why it does not run here: the first region that does not, or the first entry.
    fn why_not(&self) -> Option<String> {
        let region = self.regions.iter().find(|region| region.verdict == Verdict::Unsupported);
        let region = region.and_then(|region| region.reason.clone());
        self.entries.iter().find_map(|entry| entry.error.clone()).or(region)
    }
}

/// Check whether this machine can run an artifact
///
/// It reads every byte of the file and loads every entry, and gives a verdict on each region. OPTIMAL: its backend is here, in the version
/// that compiled the region. RECOMPILE ADVISED: it runs, but its backend has another version here, which may generate better
/// code. UNSUPPORTED: it does not run here, for the reason beside it; the exit code is then 3.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  byoc check model.byoc\n  byoc check --device cuda:0", mut_args(hide_limits))]
#[command(override_usage = "byoc check [OPTIONS] <FILE>\n       byoc check [OPTIONS] --device <KIND:N> [FILE]")]
pub(crate) struct Args {
    /// An artifact; needed unless a device is named
    #[arg(required_unless_present = "device")]
    file: Option<PathBuf>,
    /// A device to look at, and to load the artifact on, such as cuda:0 (repeatable, one of each kind)
    #[arg(long, value_name = "KIND:N")]
    device: Vec<DeviceName>,
    /// The variant to check, of a file that has some [default: all of them]
    #[arg(long, value_name = "NAME", requires = "file")]
    variant: Option<String>,
    /// An option of a backend about the machine that runs its regions (repeatable); see `byoc plugin info NAME`
    #[arg(long, value_name = "NAME.KEY=VALUE", value_parser = name_value::backend_option)]
    backend_opt: Vec<(String, String)>,
    /// Report as JSON
    #[arg(long)]
    json: bool,
    /// Where plugins are.
    #[command(flatten)]
    places: Plugins,
    /// The folder of the files that the artifact takes constants from
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = SELDOM)]
    constants_from: Option<PathBuf>,
}

/// Runs the verb.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let devices = devices(args)?;
    let file = args.file.as_deref().map(|path| check_file(path, args)).transpose()?;
    let runs = file.as_ref().is_none_or(|file| file.runs);
    if args.json {
        let mut answer = file.map_or_else(|| json!({}), |file| json!(file));
        if !devices.is_empty() {
            answer["devices"] = json!(devices);
        }
        report::print_json(&answer)?;
    } else {
        let devices: String = devices.iter().map(device_text).collect();
        report::print(&(devices + &file.map_or_else(String::new, |file| text(&file))))?;
    }
    Ok(if runs { ExitCode::SUCCESS } else { ExitCode::from(Code::MissingRequirement.exit()) })
}

/// Opens each of the devices.
fn devices(args: &Args) -> Result<Vec<DeviceCheck>> {
    if args.device.is_empty() {
        return Ok(Vec::new());
    }
    let registry = compile_request::isolated_registry(&args.places, &[])?;
    let settings = artifact::run_options(&registry, &args.backend_opt)?;
    let open = |name: &DeviceName| {
        let device = Device::open(name, &registry, &|backend| backend.run_options(&settings))?;
        let DomainInfo { title, memory, libraries, .. } = device.info();
        Ok(DeviceCheck { device: name.to_string(), title, memory, libraries })
    };
    args.device.iter().map(open).collect()
}

fn device_text(device: &DeviceCheck) -> String {
    let libraries: String = device.libraries.iter().map(|library| format!("  {library}\n")).collect();
    format!("{} {}, {}\n{libraries}", device.device, device.title, report::size(device.memory))
}

fn check_file(path: &Path, args: &Args) -> Result<FileCheck> {
    let file = artifact::open_artifact(path, &args.places)?;
    file.verify_digests()?;
    let compared = Compared::all(&file);
    let (runs, parts) = match (&args.variant, file.variants()) {
        (None, []) => {
            let check = check_artifact(file.only()?, args, &[])?;
            (check.runs(), Parts::Plain(check))
        }
        (named, names) => {
            // Every section is one of somebody's.
            let backends = backends(&file.all()?);
            let elsewhere = if named.is_some() { &[] } else { backends.as_slice() };
            let of = named.as_ref().map_or_else(|| names.to_vec(), |name| vec![name.clone()]);
            let variants =
                of.iter().map(|name| check_variant(&file, name, args, elsewhere)).collect::<Result<Vec<_>>>()?;
            let best = variants.iter().find(|it| it.runs).map(|it| it.variant.clone());
            let takes = best.clone().filter(|_| named.is_none());
            (best.is_some(), Parts::Variants { takes, variants })
        }
    };
    Ok(FileCheck { runs, digests: "ok", compared, parts })
}

fn check_variant(file: &ArtifactFile, name: &str, args: &Args, elsewhere: &[String]) -> Result<VariantCheck> {
    let artifact = file.variant(name)?;
    let unused = unused_device(&artifact, &args.device).map(|error| error.message);
    let check = match check_artifact(artifact, args, elsewhere) {
        Ok(check) => check,
        Err(error) if is_about_the_machine(error.code) => {
            let check = ArtifactCheck { regions: Vec::new(), entries: Vec::new() };
            return Ok(VariantCheck { variant: name.to_owned(), runs: false, reason: Some(error.message), check });
        }
        Err(error) => return Err(error),
    };
    let reason = unused.or_else(|| check.why_not());
    Ok(VariantCheck { variant: name.to_owned(), runs: reason.is_none(), reason, check })
}

/// Checks an artifact; settings may be about backends `elsewhere`, which it need not have.
fn check_artifact(mut artifact: Artifact, args: &Args, elsewhere: &[String]) -> Result<ArtifactCheck> {
    // No run reads it.
    artifact.ledger()?;
    artifact.attach(args.constants_from.as_deref())?;
    let registry = compile_request::registry_for(&args.places, &artifact)?;
    let options = LoadOptions {
        threads: 1,
        devices: args.device.clone(),
        run_options: artifact::run_options(&registry, &settings_for(&registry, &args.backend_opt, elsewhere))?,
        ..LoadOptions::default()
    };
    let mut regions: Vec<_> = artifact.manifest().regions.iter().map(|region| check(region, &registry)).collect();
    for name in &devices_of(&artifact, &args.device) {
        load_each(&artifact, &registry, &options, name, &mut regions);
    }
    let supported = regions.iter().all(|region| region.verdict != Verdict::Unsupported);
    let entries = if supported { entries(&artifact, &registry, &options) } else { Vec::new() };
    for failed in entries.iter().filter(|entry| entry.error.is_some()) {
        agree(&artifact, failed, &mut regions);
    }
    Ok(ArtifactCheck { regions, entries })
}

/// The devices that a run takes: those that are named, and the first one of each other kind that regions need.
fn devices_of(artifact: &Artifact, named: &[DeviceName]) -> Vec<DeviceName> {
    let mut devices = named.to_vec();
    for kind in artifact.manifest().regions.iter().filter_map(|region| region.domain.as_ref()) {
        if !devices.iter().any(|device| device.kind == *kind) {
            devices.push(DeviceName { kind: kind.clone(), ordinal: 0 });
        }
    }
    devices
}

fn check(region: &manifest::Region, registry: &Registry) -> RegionCheck {
    let (verdict, reason) = match registry.get(&region.backend) {
        Err(error) => {
            let hint = error.hint.map(|hint| format!(". {hint}")).unwrap_or_default();
            (Verdict::Unsupported, Some(format!("{}{hint}", error.message)))
        }
        Ok(found) => judge(region, &found.description),
    };
    RegionCheck { symbol: region.symbol.clone(), backend: region.backend.clone(), verdict, reason }
}

/// Checks a region whose backend has the right version and code format.
fn judge(region: &manifest::Region, found: &Description) -> (Verdict, Option<String>) {
    let version = found.version.as_str();
    if !found.reads_code(region.code_version) {
        let (was, backend) = (&region.backend_version, &region.backend);
        let needs = format!("its code is of version {}, from {backend} {was}", region.code_version);
        let reason =
            format!("{needs}; {backend} {version} here reads {}. Compile the model again", found.code_versions());
        return (Verdict::Unsupported, Some(reason));
    }
    if version != region.backend_version {
        let reason = format!("compiled with {} {}, here is {version}", region.backend, region.backend_version);
        return (Verdict::RecompileAdvised, Some(reason));
    }
    (Verdict::Optimal, None)
}

/// Loads each region of a device by itself: its code may be for other devices of that kind, and then the backend says what
/// to do about it.
fn load_each(
    artifact: &Artifact,
    registry: &Registry,
    options: &LoadOptions,
    name: &DeviceName,
    checks: &mut [RegionCheck],
) {
    // Where it cannot be opened with the backends that the file needs, loading an entry reports it.
    let settings = &options.run_options;
    let Ok(device) = Device::open(name, registry, &|backend| backend.run_options(settings)) else { return };
    let single_region = SingleRegion { artifact, registry, options, device: &device };
    let regions = artifact.manifest().regions.iter().zip(checks);
    let here = regions.filter(|(region, _)| region.domain.as_ref() == Some(&name.kind));
    for (region, check) in here.filter(|(_, check)| check.verdict != Verdict::Unsupported) {
        let loaded = artifact.code(region).and_then(|code| single_region.load(region, code, None));
        if let Err(error) = loaded {
            let hint = error.hint.map(|hint| format!(". {hint}")).unwrap_or_default();
            (check.verdict, check.reason) = (Verdict::Unsupported, Some(format!("{}{hint}", error.message)));
        }
    }
}

/// Loads each entry: a backend may find only then that the machine lacks something.
fn entries(artifact: &Artifact, registry: &Registry, options: &LoadOptions) -> Vec<EntryCheck> {
    let mut trial = Trial::new(artifact, registry, options);
    let load = |entry: &manifest::Entry| {
        let error = trial.load(entry).err();
        EntryCheck { entry: entry.name.clone(), error: error.map(|error| error.to_string()) }
    };
    artifact.manifest().callable().map(load).collect()
}

/// The colour of a verdict.
fn tone(verdict: &str) -> Option<Tone> {
    Some(match verdict {
        "OPTIMAL" => Tone::Good,
        "UNSUPPORTED" => Tone::Bad,
        _ => Tone::Warning,
    })
}

/// Regions of an entry that cannot be loaded are not optimal, whatever can be said of each by itself.
fn agree(artifact: &Artifact, failed: &EntryCheck, checks: &mut [RegionCheck]) {
    let manifest = artifact.manifest();
    let Some(entry) = manifest.entries.iter().find(|entry| entry.name == failed.entry) else { return };
    for call in manifest.with_bodies(entry).iter().flat_map(|entry| &entry.calls) {
        let Some(check) = checks.get_mut(call.region).filter(|check| check.verdict != Verdict::Unsupported) else {
            continue;
        };
        (check.verdict, check.reason) =
            (Verdict::Unsupported, Some(format!("its entry {} cannot be loaded", failed.entry)));
    }
}

fn text(file: &FileCheck) -> String {
    let (parts, answer) = match &file.parts {
        Parts::Plain(check) => {
            let answer = if file.runs { "this machine can run it" } else { "this machine cannot run it" };
            (artifact_text(check), answer.to_owned())
        }
        Parts::Variants { takes, variants } => {
            let mut table = Table::new(&["variant", "runs", "reason"]);
            for it in variants {
                let runs = if it.runs { "yes" } else { "no" };
                table.row([&it.variant, runs, it.reason.as_deref().unwrap_or_default()]);
            }
            let each = |it: &VariantCheck| format!("\nvariant {}\n{}", it.variant, artifact_text(&it.check));
            let parts = table.text() + &variants.iter().map(each).collect::<String>();
            let answer = match takes {
                Some(name) => format!("this machine can run it, and takes variant {name}"),
                None if file.runs => "this machine can run it".to_owned(),
                None => "this machine cannot run it".to_owned(),
            };
            (parts + "\n", answer)
        }
    };
    format!("{parts}{}{answer}\n", file.compared.text())
}

fn artifact_text(check: &ArtifactCheck) -> String {
    let table = Table::new(&["region", "backend", "verdict", "reason"]);
    let mut table = table.tone("verdict", tone);
    for region in &check.regions {
        let reason = region.reason.as_deref().unwrap_or_default();
        table.row([&region.symbol, &region.backend, region.verdict.text(), reason]);
    }
    let mut text = table.text();
    for entry in &check.entries {
        match &entry.error {
            None => text += &format!("entry {} loads\n", entry.entry),
            Some(error) => text += &format!("entry {} cannot be loaded: {error}\n", entry.entry),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_decide() {
        let region: manifest::Region = serde_json::from_value(json!({
            "symbol": "byoc_main_gpu_0", "backend": "gpu", "backend_version": "1.0", "code_version": 2,
            "abi_version": 1, "code": "code/byoc_main_gpu_0", "constants": [], "inputs": [], "outputs": [],
        }))
        .expect("a region");
        let here = |version: &str, code_version: u32, reads: &[u32]| {
            let (version, reads) = (version.to_owned(), reads.to_vec());
            judge(&region, &Description { version, code_version, reads, ..Description::default() })
        };
        assert_eq!(here("1.0", 2, &[]), (Verdict::Optimal, None));
        let advised = "compiled with gpu 1.0, here is 1.1".to_owned();
        assert_eq!(here("1.1", 2, &[]), (Verdict::RecompileAdvised, Some(advised)));
        let advised = "compiled with gpu 1.0, here is 2.0".to_owned();
        assert_eq!(here("2.0", 3, &[1, 2]), (Verdict::RecompileAdvised, Some(advised)));
        let unsupported =
            "its code is of version 2, from gpu 1.0; gpu 2.0 here reads version 3. Compile the model again";
        assert_eq!(here("2.0", 3, &[]), (Verdict::Unsupported, Some(unsupported.into())));
        let unsupported =
            "its code is of version 2, from gpu 1.0; gpu 2.0 here reads versions 1, 3 and 4. Compile the model again";
        assert_eq!(here("2.0", 4, &[1, 3]), (Verdict::Unsupported, Some(unsupported.into())));
    }
}
