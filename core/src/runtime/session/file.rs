//! A session of a file in a backend's own format: one call, whose inputs and outputs are those of the file.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use byoc_plugin_api::{Environment, Options, Value};

use super::kept::Kept;
use super::tables::Tables;
use super::{LoadOptions, LoadedCall, LoadedRegion, Session};
use crate::artifact::manifest::{Call, Entry, Port, ValueType};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::runtime::bind::bind_file;
use crate::runtime::copies::names;
use crate::runtime::open::Opened;
use crate::runtime::steps::{HOST, Steps};

impl Session {
    /// Loads a file that is code of a backend by itself: no constants, one entry without a name. The backend's options
    /// are at their defaults.
    pub fn of_file(opened: &Opened, path: &Path, options: &LoadOptions) -> Result<Session> {
        let path = path.display().to_string();
        if options.entry.is_some() {
            return Err(Diagnostic::new(Code::UnknownName, format!("'{path}' has one entry, which has no name"))
                .hint("Leave out --entry"));
        }
        let description = &opened.backend.description;
        let settings = Options::resolve(&description.options, []).map_err(|error| {
            Diagnostic::new(Code::PluginContract, format!("backend '{}': {}", description.name, error.message))
        })?;
        if let Some(device) = options.devices.first() {
            return Err(Diagnostic::new(Code::UnknownName, format!("'{path}' does not run on {device}"))
                .hint("Leave out --device"));
        }
        let settings = settings.and(&opened.backend.run_options(&options.run_options)?);
        let environment = Environment { threads: options.threads(), options: settings };
        let title = format!("'{path}'");
        let bound = bind_file(&opened.backend, opened.code.clone(), &environment, &title)?;
        let backend = description.name.clone();
        let region = LoadedRegion::Host(bound);
        let place = crate::crash::name(format!("{title} of the backend '{backend}'"));
        let call = LoadedCall { symbol: path, title, place, backend, region, time: Duration::ZERO, watch: None };
        let call = call.watched(|| Ok(&[]), options.queueing)?;
        let entry = entry_of(&opened.contents.inputs, &opened.contents.outputs);
        let memories = vec![HOST];
        Ok(Session {
            elsewhere: Vec::new(),
            later: None,
            told: HashMap::new(),
            kept: Kept::default(),
            state: None,
            calls: vec![call],
            constants: HashMap::new(),
            residents: Vec::new(),
            devices: Vec::new(),
            steps: Steps::new(&entry, &memories),
            memories,
            names: names(&entry, &[]),
            queueing: options.queueing,
            tables: Tables::default(),
            entry,
            _artifact: None,
            passed_over: Vec::new(),
        })
    }
}

/// One call that takes and gives these.
pub(super) fn entry_of(inputs: &[Value], outputs: &[Value]) -> Entry {
    let ports = |values: &[Value], first: usize| -> Vec<Port> {
        let port = |(index, value): (usize, &Value)| Port { name: value.name.clone(), value: first + index };
        values.iter().enumerate().map(port).collect()
    };
    let ty = |value: &Value| ValueType { dtype: value.dtype, shape: value.shape.clone(), list: None };
    let (first, end) = (inputs.len(), inputs.len() + outputs.len());
    Entry {
        name: "main".into(),
        inputs: ports(inputs, 0),
        outputs: ports(outputs, first),
        values: inputs.iter().chain(outputs).map(ty).collect(),
        constants: Vec::new(),
        calls: vec![Call { region: 0, inputs: (0..first).collect(), outputs: (first..end).collect() }],
        ..Entry::default()
    }
}
