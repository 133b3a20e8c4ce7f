//! Takes the best variant of a file that can be loaded here.

use super::device::DeviceName;
use super::session::Session;
use crate::artifact::{Artifact, ArtifactFile};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::Settings;

/// A variant that was not taken.
#[derive(Clone, Debug)]
pub struct PassedOver {
    /// Its name.
    pub variant: String,
    /// Why it cannot be loaded here.
    pub reason: Diagnostic,
}

/// Which variant is wanted, and what is said about the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted<'a> {
    /// The name of the variant; the best one that can be loaded where there is none.
    pub variant: Option<&'a str>,
    /// Devices that are named: a variant without regions on each of them is passed over.
    pub devices: &'a [DeviceName],
    /// Settings of backends' options of running; each variant is given those of its own backends.
    pub settings: &'a [(String, String)],
}

/// What was loaded, and what was not.
#[derive(Debug)]
pub struct Best<T> {
    /// What `load` made of the variant.
    pub loaded: T,
    /// Better variants that cannot be loaded here, the most wanted first.
    pub passed_over: Vec<PassedOver>,
}

impl Best<Session> {
    /// The session, which tells what was passed over.
    pub fn into_session(self) -> Session {
        let Best { loaded: mut session, passed_over } = self;
        session.passed_over = passed_over;
        session
    }
}

/// Calls `load` with the variants, the most wanted first, until one can be loaded, with the settings that are about its backends.
/// A file without variants is loaded as it is.
///
/// Where no variant can be loaded, the error has the reason of each. What is wrong whatever the variant, such as a damaged file or
/// an entry that is not there, is an error at once.
pub fn load_best<T>(
    file: &ArtifactFile,
    wanted: Wanted<'_>,
    load: &mut dyn FnMut(Artifact, Settings) -> Result<T>,
) -> Result<Best<T>> {
    if file.variants().is_empty() && wanted.variant.is_none() {
        return Ok(Best { loaded: load(file.only()?, wanted.settings.to_vec())?, passed_over: Vec::new() });
    }
    check_settings(file, wanted.variant, wanted.settings)?;
    if let Some(name) = wanted.variant {
        let artifact = file.variant(name)?;
        let settings = settings_of(&artifact, wanted.settings);
        return Ok(Best { loaded: load(artifact, settings)?, passed_over: Vec::new() });
    }
    let mut passed_over = Vec::new();
    for name in file.variants() {
        let artifact = file.variant(name)?;
        let settings = settings_of(&artifact, wanted.settings);
        let loaded = match unused_device(&artifact, wanted.devices) {
            Some(reason) => Err(reason),
            None => load(artifact, settings),
        };
        match loaded {
            Ok(loaded) => return Ok(Best { loaded, passed_over }),
            Err(reason) if is_about_the_machine(reason.code) => {
                passed_over.push(PassedOver { variant: name.clone(), reason });
            }
            Err(error) => return Err(error),
        }
    }
    Err(none(file, &passed_over))
}

fn none(file: &ArtifactFile, passed_over: &[PassedOver]) -> Diagnostic {
    let reasons: Vec<_> = passed_over.iter().map(|it| format!("{}: {}", it.variant, it.reason.message)).collect();
    let message = format!("no variant of '{}' can be loaded here: {}", file.path().display(), reasons.join("; "));
    Diagnostic::new(Code::MissingRequirement, message).hint("byoc check has the remedies")
}

/// Whether another variant may do where this is why one cannot be loaded.
pub fn is_about_the_machine(code: Code) -> bool {
    matches!(
        code,
        Code::MissingRequirement
            | Code::ConstantSource
            | Code::UnknownBackend
            | Code::NotAPlugin
            | Code::AbiMismatch
            | Code::PluginContract
            | Code::PluginNotAllowed
            | Code::BackendFailed
            | Code::BackendCrashed
            | Code::RunFailed
            | Code::Device
    )
}

/// The error of devices of which the artifact uses one or more not at all, if there are any.
pub fn unused_device(artifact: &Artifact, devices: &[DeviceName]) -> Option<Diagnostic> {
    let regions = &artifact.manifest().regions;
    let used = |name: &DeviceName| regions.iter().any(|region| region.domain.as_ref() == Some(&name.kind));
    let unused = devices.iter().find(|name| !used(name))?;
    Some(Diagnostic::new(Code::MissingRequirement, format!("no region runs on {unused}")))
}

/// The settings that are about backends of the artifact.
pub fn settings_of(artifact: &Artifact, settings: &[(String, String)]) -> Settings {
    let backends = artifact.manifest().backends();
    settings.iter().filter(|(key, _)| backends.iter().any(|name| backend_of(key) == name)).cloned().collect()
}

/// Errors where a setting is about a backend that the named variant, or any variant where none is named, does not have.
pub fn check_settings(file: &ArtifactFile, variant: Option<&str>, settings: &[(String, String)]) -> Result<()> {
    if settings.is_empty() {
        return Ok(());
    }
    let all = variant.map_or_else(|| file.all(), |name| Ok(vec![file.variant(name)?]))?;
    let backends: Vec<String> = all.iter().flat_map(|artifact| artifact.manifest().backends()).collect();
    let Some((key, _)) = settings.iter().find(|(key, _)| !backends.iter().any(|name| backend_of(key) == name)) else {
        return Ok(());
    };
    let none = variant.map_or("no variant has".to_owned(), |name| format!("the variant '{name}' does not have"));
    let message = format!("option '{key}' is of the backend '{}', which {none}", backend_of(key));
    Err(Diagnostic::new(Code::BadOption, message).hint("byoc inspect shows the backends of each variant"))
}

/// The backend that a setting `backend.key` is about.
fn backend_of(key: &str) -> &str {
    key.split_once('.').map_or(key, |(backend, _)| backend)
}
