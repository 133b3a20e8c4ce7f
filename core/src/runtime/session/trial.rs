//! Tries to load the entries of an artifact. A region that runs on the host is loaded once, however many entries call it.

use std::collections::HashMap;
use std::sync::Arc;

use super::load::check_processor;
use super::{LoadOptions, Session};
use crate::artifact::Artifact;
use crate::artifact::manifest::Entry;
use crate::diagnostic::Result;
use crate::plugin::Registry;
use crate::runtime::bind::Loader;

/// The entries of an artifact, as they are tried.
pub struct Trial<'a> {
    artifact: &'a Artifact,
    registry: &'a Registry,
    options: &'a LoadOptions,
    /// Results of loading regions of the host, by index.
    regions: HashMap<usize, Result<()>>,
}

impl<'a> Trial<'a> {
    /// For an artifact with its other files attached; of the options, the entry does not matter, nor do devices that an entry
    /// does not run on.
    pub fn new(artifact: &'a Artifact, registry: &'a Registry, options: &'a LoadOptions) -> Trial<'a> {
        Trial { artifact, registry, options, regions: HashMap::new() }
    }

    /// The error with which [`Session::load`] of this entry would end, if it would.
    pub fn load(&mut self, entry: &Entry) -> Result<()> {
        let manifest = self.artifact.manifest();
        let all = &manifest.regions;
        let calls: Vec<_> = manifest.with_bodies(entry).into_iter().flat_map(|entry| &entry.calls).collect();
        let mut kinds = calls.iter().filter_map(|call| all.get(call.region)?.domain.as_deref()).peekable();
        if kinds.peek().is_some() {
            // Device memory, such as constants, belongs to the entry.
            let kinds: Vec<_> = kinds.collect();
            let devices =
                self.options.devices.iter().filter(|name| kinds.contains(&name.kind.as_str())).cloned().collect();
            let options = LoadOptions { entry: Some(entry.name.clone()), devices, ..self.options.clone() };
            return Session::load(self.artifact.clone(), self.registry, &options).map(drop);
        }
        check_processor(self.artifact)?;
        calls.iter().try_for_each(|call| self.region(call.region))
    }

    fn region(&mut self, index: usize) -> Result<()> {
        let Trial { artifact, registry, options, regions } = self;
        let load = || {
            let loader = Loader { artifact, registry, threads: options.threads(), settings: &options.run_options };
            artifact
                .manifest()
                .regions
                .get(index)
                .map_or(Ok(()), |region| loader.host(region, &Arc::default()).map(drop))
        };
        regions.entry(index).or_insert_with(load).clone()
    }
}
