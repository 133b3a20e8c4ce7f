//! Takes the best variant of a file that can be loaded here.

use std::path::Path;

use super::device::DeviceName;
use super::session::Session;
use crate::artifact::{Artifact, ArtifactFile};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::plugin::{Registry, Settings, backend_of};

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
    /// Settings of backends' options of running, of all variants.
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

/// Calls `load` with the variants, the most wanted first, until one can be loaded. It is also given the backends that settings may be
/// about without being for that variant ([`settings_for`]). A file without variants is loaded as it is.
///
/// Where no variant can be loaded, the error has the reason of each. What is wrong whatever the variant, such as a damaged file or
/// an entry that is not there, is an error at once.
pub fn load_best<T>(
    file: &ArtifactFile,
    wanted: Wanted<'_>,
    load: &mut dyn FnMut(Artifact, &[String]) -> Result<T>,
) -> Result<Best<T>> {
    if let Some(name) = wanted.variant {
        return Ok(Best { loaded: load(file.variant(name)?, &[])?, passed_over: Vec::new() });
    }
    if file.variants().is_empty() {
        return Ok(Best { loaded: load(file.only()?, &[])?, passed_over: Vec::new() });
    }
    // Other graphs are looked at only where that is of use.
    let backends = if wanted.settings.is_empty() { Vec::new() } else { backends(&file.all()?) };
    let mut passed_over = Vec::new();
    for name in file.variants() {
        let artifact = file.variant(name)?;
        let loaded = match unused_device(&artifact, wanted.devices) {
            Some(reason) => Err(reason),
            None => load(artifact, &backends),
        };
        match loaded {
            Ok(loaded) => return Ok(Best { loaded, passed_over }),
            Err(reason) if is_about_the_machine(reason.code) => {
                passed_over.push(PassedOver { variant: name.clone(), reason });
            }
            Err(error) => return Err(error),
        }
    }
    Err(none_can_be_loaded(file.path(), &passed_over))
}

/// The error of a file of which no variant can be loaded here.
pub fn none_can_be_loaded(file: &Path, passed_over: &[PassedOver]) -> Diagnostic {
    let reasons: Vec<_> = passed_over.iter().map(|it| format!("{}: {}", it.variant, it.reason.message)).collect();
    let message = format!("no variant of '{}' can be loaded here: {}", file.display(), reasons.join("; "));
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

/// The backends of all of these variants.
pub fn backends(all: &[Artifact]) -> Vec<String> {
    all.iter().flat_map(|artifact| artifact.manifest().backends()).collect()
}

/// The settings that are for a variant whose backends are in `registry`: those of backends of the list `elsewhere` are for another one where
/// they are not in it. What is about no backend of any variant stays, so that it is refused.
pub fn settings_for(registry: &Registry, settings: &[(String, String)], elsewhere: &[String]) -> Settings {
    let is_for = |key: &str| {
        let backend = backend_of(key);
        registry.get(backend).is_ok() || !elsewhere.iter().any(|name| name == backend)
    };
    settings.iter().filter(|(key, _)| is_for(key)).cloned().collect()
}
