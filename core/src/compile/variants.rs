//! One model compiled several times, for one file: what the variants have in common is in it once.

use std::path::Path;

use super::{Destination, Observer, Ready, Request, Stage, Unnamed, ready, settled};
use crate::artifact::{Joined, Ledger};
use crate::atomic_file::Scratch;
use crate::codegen;
use crate::diagnostic::{Diagnostic, Result};
use crate::merge;
use crate::overwrite::Input;
use crate::ownership::{self, Forms, Storage};
use crate::partition::NodeRow;

/// A variant that is to be compiled.
pub struct Variant {
    /// Its name.
    pub name: String,
    /// What to compile, and how: the same models as those of the others.
    pub request: Request,
}

/// What became of the variants.
pub struct VariantsReport {
    /// Each of them, the most wanted first.
    pub variants: Vec<VariantReport>,
    /// Bytes of the file.
    pub file_bytes: u64,
}

/// What became of a variant.
pub struct VariantReport {
    /// Its name.
    pub name: String,
    /// One row for each node.
    pub nodes: Vec<NodeRow>,
    /// Its ledger.
    pub ledger: Ledger,
}

/// Several variants to be compiled into one file.
pub struct Variants<'a> {
    /// Each of them, the most wanted first.
    pub list: &'a [Variant],
    /// Asks backends that pack a constant to give way where another variant has another form of it.
    pub share: bool,
}

impl Variants<'_> {
    /// Compiles the variants into the file `output`. On an error nothing is written, and an existing file stays. It is an error if
    /// a model is read from `output`.
    pub fn compile(&self, output: &Path, observer: &mut dyn Observer) -> Result<VariantsReport> {
        let destination = Destination { scratch: Scratch::beside(output), output: Some(output) };
        let (joined, variants, inputs) = self.make(&destination, observer)?;
        // The models may have been replaced since they were read.
        self.list.iter().try_for_each(|variant| destination.check(&variant.request, &inputs))?;
        observer.go_on()?;
        let file_bytes = joined.write(output, &mut |done, total, next| observer.progress(done, total, next))?;
        Ok(VariantsReport { variants, file_bytes })
    }

    /// Compiles the variants into an unnamed file, as [`compile_unnamed`](super::compile_unnamed).
    pub fn compile_unnamed(&self, beside: Option<&Path>, observer: &mut dyn Observer) -> Result<Unnamed> {
        let scratch = beside.map_or_else(Scratch::temporary, Scratch::beside);
        let destination = Destination { scratch, output: None };
        let (joined, _, inputs) = self.make(&destination, observer)?;
        let name = beside.unwrap_or(&destination.scratch.dir);
        let progress = &mut |done, total, next: &str| observer.progress(done, total, next);
        let bytes = joined.write_unnamed(name, &destination.scratch, progress)?;
        Ok(Unnamed { bytes, inputs })
    }

    fn make(
        &self,
        destination: &Destination<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(Joined, Vec<VariantReport>, Vec<Input>)> {
        let mut all = Vec::new();
        for Variant { name, request } in self.list {
            let ready = ready(request, destination, &mut Named { name, observer });
            all.push(ready.map_err(|error| of_variant(name, error))?);
        }
        if self.share {
            self.share_forms(&mut all, observer)?;
        }
        let (mut contents, mut reports, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for (Variant { name, request }, mut ready) in self.list.iter().zip(all) {
            inputs.append(&mut ready.inputs);
            let nodes = std::mem::take(&mut ready.nodes);
            let settled = settled(&ready, request, destination, &mut Named { name, observer });
            let settled = settled.map_err(|error| of_variant(name, error))?;
            let (own, ledger) = settled.into_contents();
            contents.push((name.clone(), own));
            reports.push(VariantReport { name: name.clone(), nodes, ledger });
        }
        let allowed = self.list.iter().all(|variant| variant.request.allow_duplicates);
        let (joined, warnings) = merge::join(contents, allowed)?;
        warnings.iter().for_each(|warning| observer.warning(warning));
        observer.go_on()?;
        observer.stage(Stage::Artifact);
        Ok((joined, reports, inputs))
    }

    /// Asks every backend that packs a constant of which the file would have several forms, until no more give way.
    fn share_forms(&self, all: &mut [Ready], observer: &mut dyn Observer) -> Result<()> {
        loop {
            let mut forms = Forms::default();
            all.iter().for_each(|ready| forms.add(&ready.generated, &ready.storage));
            let mut changed = false;
            for (Variant { name, request }, ready) in self.list.iter().zip(all.iter_mut()) {
                let again = ownership::mark_shared(&mut ready.generated, &forms);
                if again.is_empty() {
                    continue;
                }
                let mut observer = Named { name, observer };
                let observer = std::cell::RefCell::new(&mut observer as &mut dyn Observer);
                let report = |event: codegen::Event<'_>| super::tell(event, &observer);
                codegen::regenerate(&mut ready.generated, &again, &request.backends, &report)
                    .map_err(|failure| of_variant(name, failure.diagnostic))?;
                ready.storage = Storage::find(&ready.generated)?;
                changed = true;
            }
            if !changed {
                return Ok(());
            }
        }
    }
}

/// An error or a warning that is about a variant.
fn of_variant(name: &str, about: Diagnostic) -> Diagnostic {
    Diagnostic { message: format!("variant '{name}': {}", about.message), ..about }
}

/// Tells which variant something is about.
struct Named<'a, 'b> {
    name: &'a str,
    observer: &'b mut dyn Observer,
}

impl Observer for Named<'_, '_> {
    fn stage(&mut self, stage: Stage) {
        self.observer.stage(stage);
    }

    fn progress(&mut self, done: usize, total: usize, next: &str) {
        self.observer.progress(done, total, &format!("{}: {next}", self.name));
    }

    fn log(&mut self, backend: &str, line: &str) {
        self.observer.log(backend, line);
    }

    fn warning(&mut self, warning: &Diagnostic) {
        self.observer.warning(&of_variant(self.name, warning.clone()));
    }

    fn go_on(&mut self) -> Result<()> {
        self.observer.go_on()
    }
}
