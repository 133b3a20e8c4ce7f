//! Hosts that a plugin may meet, and how they speak: one of a later version, and the first one. `byoc plugin test` asks a plugin
//! as they would.

use serde_json::Value;

use super::LoadedBackend;
use crate::backend::{Description, RegionPolicy};
use crate::call::Request;
use crate::error::Error;
use crate::host::answer::json;
use crate::runtime::Environment;

/// A host by what it says, and what it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Host {
    /// This one.
    This,
    /// One of a later version, whose messages have fields that nobody knows yet.
    Newer,
    /// That of ABI 1.0, as it was first published.
    First,
}

/// The methods that a host of ABI 1.0 calls.
pub(super) const FIRST_METHODS: [&str; 5] = ["describe", "patterns", "check", "codegen", "constant_updater"];
/// Fields of a region, and of a node, that it does not write.
const LATER_FIELDS: [&str; 4] = ["observed", "covers_entry", "quantized", "version"];

impl LoadedBackend {
    /// The same backend, spoken to as by a host of a later version: regions and environments have fields that nobody
    /// knows yet, and that a backend must ignore.
    pub fn under_newer_host(&self) -> LoadedBackend {
        LoadedBackend {
            code: self.code.clone(),
            description: self.description.clone(),
            unknown: self.unknown.clone(),
            host: Host::Newer,
        }
    }

    /// The same backend, spoken to as by the host of ABI 1.0, which calls five methods, writes regions without the fields
    /// that came later, and knows nothing of abilities. An error names what the backend cannot do without.
    pub fn under_first_host(&self) -> Result<LoadedBackend, Error> {
        let all = self.description.clone();
        let needed = [
            (all.domain.is_some(), "memory of a device"),
            (all.calibration, "a data set"),
            (all.run_time_sizes, "sizes that only a run tells"),
        ];
        if let Some((_, what)) = needed.iter().find(|(needs, _)| *needs) {
            return Err(Error::new(format!("a host of ABI 1.0 knows nothing of {what}, which the backend needs")));
        }
        let RegionPolicy { merge, max_inputs, .. } = all.regions;
        let description = Description {
            regions: RegionPolicy { merge, max_inputs, ..RegionPolicy::default() },
            files: Vec::new(),
            run_options: Vec::new(),
            candidates: false,
            operators: Vec::new(),
            types: Vec::new(),
            reads: Vec::new(),
            ..all
        };
        Ok(LoadedBackend { code: self.code.clone(), description, unknown: self.unknown.clone(), host: Host::First })
    }

    pub(super) fn request(&self, request: &Request<'_>) -> Result<Vec<u8>, Error> {
        let change = match self.host {
            Host::This => return json(request),
            Host::Newer => add_unknown,
            Host::First => remove_later,
        };
        let mut value = serde_json::to_value(request)?;
        change(&mut value);
        if let Some(region) = value.get_mut("region") {
            for list in ["values", "constants", "nodes"] {
                region[list].as_array_mut().into_iter().flatten().for_each(change);
            }
            change(region);
        }
        json(&value)
    }

    pub(super) fn environment(&self, environment: &Environment) -> Result<Vec<u8>, Error> {
        if self.host != Host::Newer {
            return json(environment);
        }
        let mut value = serde_json::to_value(environment)?;
        add_unknown(&mut value);
        json(&value)
    }
}

/// A field such as a later version may have.
fn add_unknown(object: &mut Value) {
    object["of_a_later_version"] = serde_json::json!({ "list": [1, null, "text"], "nested": {} });
}

/// Takes off what a host of ABI 1.0 does not write.
fn remove_later(object: &mut Value) {
    if let Value::Object(fields) = object {
        fields.retain(|name, _| !LATER_FIELDS.contains(&name.as_str()));
    }
}
