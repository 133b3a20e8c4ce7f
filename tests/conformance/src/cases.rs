//! The list of cases, in order, and how each is run: the same plugin gives the same list, so a number names a case.

use std::path::Path;
use std::time::{Duration, Instant};

use byoc_core::compile::wildcard;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Selected;
use byoc_plugin_api::{Expr, Pattern};

use crate::bench::{Bench, Prepared, Source};
use crate::models::{self, Kind, Sample};
use crate::report::{Case, Noted, Notes, Step, Tag, Verdict, fail, one_line};
use crate::saved::Saved;
use crate::stream::Event;
use crate::vendor::{NOT_HERE, VendorCase};
use crate::{Settings, Shard, artifact, claims, damage, files, minimise, plugin, results, usage};

/// A case of a model.
type Test = fn(&Bench, &Source, &Prepared) -> Step<Option<Duration>>;

/// The cases of a model, in order: name, the kinds of sample that have it, and what it does.
const TESTS: &[(&str, &[Kind], Test)] = &[
    ("check", EVERY, |b, s, p| claims::check(b, s, p).map(|()| None)),
    ("codegen", EVERY, |b, s, p| claims::codegen(b, s, p).map(|()| None)),
    ("claims", WHOLE, |b, s, p| claims::claims(b, s, p).map(|()| None)),
    ("run", FIXED, results::run),
    ("results", SWEPT, results::swept),
    ("artifact", WHOLE, |b, s, p| artifact::artifact(b, s, p).map(|()| None)),
    ("special", THOROUGH, |b, s, p| results::special(b, s, p).map(|()| None)),
    ("layouts", THOROUGH, |b, s, p| results::layouts(b, s, p).map(|()| None)),
    ("shared", THOROUGH, |b, s, p| results::shared(b, s, p).map(|()| None)),
    ("together", THOROUGH, |b, s, p| results::together(b, s, p).map(|()| None)),
    ("newer host", THOROUGH, |b, s, p| claims::newer_host(b, s, p).map(|()| None)),
    ("first host", THOROUGH, |b, s, p| claims::first_host(b, s, p).map(|()| None)),
    ("open", THOROUGH, |b, s, p| files::open(b, s, p).map(|()| None)),
    ("damaged code", THOROUGH, |b, s, p| damage::code(b, s, p).map(|()| None)),
    ("damaged constants", THOROUGH, |b, s, p| damage::constants(b, s, p).map(|()| None)),
];

const EVERY: &[Kind] = &[Kind::Thorough, Kind::Plain, Kind::Symbolic];
const WHOLE: &[Kind] = &[Kind::Thorough, Kind::Symbolic];
const FIXED: &[Kind] = &[Kind::Thorough, Kind::Plain];
const THOROUGH: &[Kind] = &[Kind::Thorough];
const SWEPT: &[Kind] = &[Kind::Swept];

/// Cases whose "unsupported" is worth a line; the others would say it again.
const TELLING: &[&str] = &["check", "run", "results", "shared"];
/// Cases that the rest of a model rests on: where one fails, the others would fail for the same reason.
const BASIC: &[&str] = &["check", "codegen", "claims", "run"];
/// Failures of which a smaller model is looked for.
const MOST_MINIMISED: usize = 20;

/// Runs every case from number `from` on and tells of each.
pub(crate) fn run(settings: &Settings, from: usize, tell: &mut dyn FnMut(Event)) -> Result<()> {
    let Shard { index, count } = settings.shard;
    let is_mine = index == 0;
    let mut runner = Runner {
        next: 0,
        from,
        settings,
        is_mine,
        samples: 0,
        failures: 0,
        minimised: 0,
        notes: Notes::default(),
        tell,
    };
    if count == 0 || index >= count {
        return Err(Diagnostic::new(Code::Usage, format!("there is no shard {}", settings.shard)));
    }
    let mut opened = Err(Verdict::Skip);
    runner.essential("", "handshake", &mut || {
        opened = plugin::open(&settings.plugin).or_else(fail);
        opened.as_ref().map(|_| None).map_err(Clone::clone)
    });
    let registry = match opened {
        Ok(registry) => registry,
        Err(_) => {
            (runner.tell)(Event::Refused);
            return Ok(());
        }
    };
    let all = || registry.backends.iter().map(|found| found.description.name.clone()).collect();
    let names = if settings.backends.is_empty() { all() } else { settings.backends.clone() };
    let folder =
        tempfile::tempdir().map_err(|error| Diagnostic::io(&std::env::temp_dir(), "make a folder in", &error))?;
    for name in names {
        let bench = Bench::new(
            &registry,
            &name,
            &settings.options,
            settings.reference.clone(),
            (folder.path(), runner.notes.clone()),
        )?;
        let bench = if settings.choice.first_host { bench.under_first_host()? } else { bench };
        runner.backend(settings, &bench)?;
    }
    (runner.tell)(Event::Done);
    Ok(())
}

struct Runner<'a> {
    /// The number of the next case.
    next: usize,
    /// The first case that is run.
    from: usize,
    settings: &'a Settings,
    /// Whether what comes next belongs to this shard.
    is_mine: bool,
    /// Samples so far.
    samples: usize,
    /// Cases that failed so far.
    failures: usize,
    /// How often a smaller model was looked for.
    minimised: usize,
    /// What the case that is run has to tell.
    notes: Notes,
    tell: &'a mut dyn FnMut(Event),
}

impl Runner<'_> {
    /// A case; `after` is the number of the case to go on with should this one crash.
    fn case(&mut self, backend: &str, name: &str, after: usize, test: &mut dyn FnMut() -> Step<Option<Duration>>) {
        let index = self.next;
        self.next += 1;
        let is_asked = self.is_asked(name);
        if index < self.from || !self.is_mine || !is_asked || self.is_over() {
            return;
        }
        (self.tell)(Event::Start { after, backend: backend.to_owned(), name: name.to_owned() });
        let before = usage::reset_peak();
        let start = Instant::now();
        let verdict = test().map_or_else(|verdict| verdict, Verdict::Pass);
        let seconds = start.elapsed().as_secs_f64();
        let peak_bytes = usage::peak().zip(before).map(|(peak, before)| peak.saturating_sub(before));
        let Noted { texts: notes, noise_db } = self.notes.take();
        let mut model = None;
        let (result, reason, time) = match verdict {
            Verdict::Skip => {
                let (backend, name) = (backend.to_owned(), name.to_owned());
                return (self.tell)(Event::Skip { backend, name });
            }
            Verdict::FailOn { reason, model: text } => {
                model = Some(text);
                (Tag::Fail, Some(one_line(&reason)), None)
            }
            Verdict::Pass(time) => (Tag::Pass, None, time),
            Verdict::Fail(reason) => (Tag::Fail, Some(one_line(&reason)), None),
            Verdict::Unsupported(reason) => (Tag::Unsupported, Some(one_line(&reason)), None),
        };
        let (backend, name) = (backend.to_owned(), name.to_owned());
        let seconds_per_call = time.map(|time| time.as_secs_f64());
        let case =
            Case { backend, name, result, notes, reason, model, seconds, seconds_per_call, noise_db, peak_bytes };
        self.failures += usize::from(self.settings.vendor.settle(case.clone()).result == Tag::Fail);
        (self.tell)(Event::End(case));
    }

    /// A case without which nothing can follow. What it does is done even if the case was run before, or is another shard's.
    fn essential(&mut self, backend: &str, name: &str, test: &mut dyn FnMut() -> Step<Option<Duration>>) {
        let is_asked = self.is_asked(name);
        if self.next < self.from || !self.is_mine || !is_asked {
            self.next += 1;
            if let (Err(Verdict::Fail(reason)), false) = (test(), is_asked) {
                // Nothing can follow, so it is told although nobody has asked for it.
                (self.tell)(Event::End(Case::of(backend, name, Tag::Fail, reason)));
            }
        } else {
            self.case(backend, name, usize::MAX, test);
        }
    }

    /// Whether a case of that name is among those that are wanted.
    fn is_asked(&self, name: &str) -> bool {
        self.settings.choice.only.as_ref().is_none_or(|only| wildcard(only, name))
    }

    /// Whether nothing more is asked.
    fn is_over(&self) -> bool {
        self.settings.choice.fail_fast && self.failures > 0
    }

    fn backend(&mut self, settings: &Settings, bench: &Bench) -> Result<()> {
        let Selected { registered, .. } = &bench.selected;
        let name = registered.description.name.as_str();
        let plain = |step: Step| step.map(|()| None);
        let next = self.next + 1;
        self.case(name, "describe", next, &mut || match settings.choice.first_host {
            true => Err(Verdict::Skip),
            false => plain(plugin::describe(&settings.plugin, &bench.selected, &bench.notes)),
        });
        self.case(name, "options", next + 1, &mut || {
            let description = &registered.description;
            plugin::options(&[&description.options[..], &description.run_options].concat())?;
            plain(plugin::choices(&bench.selected))
        });
        let mut patterns = Vec::new();
        self.essential(name, "patterns", &mut || {
            patterns = plugin::patterns(&bench.selected)?;
            Ok(None)
        });
        for (index, (pattern, expr)) in patterns.iter().enumerate() {
            let earlier = patterns[..index].iter().filter(|(other, _)| other.name == pattern.name).count();
            let label = if earlier == 0 { pattern.name.clone() } else { format!("{} {}", pattern.name, earlier + 1) };
            self.pattern(bench, &one_line(&label), pattern, expr)?;
        }
        self.chains(bench, &patterns)?;
        for (folder, case) in &settings.vendor.cases {
            if case.backend.as_ref().is_none_or(|only| only == name) {
                let next = self.next + 1;
                self.case(name, &case.name, next, &mut || vendor(bench, folder, case));
            }
        }
        Ok(())
    }

    fn save(&self, bench: &Bench, label: &str, sample: &Sample) -> Result<Saved> {
        let case = format!("{label} {}", sample.name);
        Saved::write(self.settings.choice.save_failing.as_deref(), bench.selected.name(), &case, &sample.model)
    }

    /// Patterns together, where their matches become one region.
    fn chains(&mut self, bench: &Bench, patterns: &[(Pattern, Expr)]) -> Result<()> {
        let description = &bench.selected.registered.description;
        if !description.regions.merge || self.is_over() {
            return Ok(());
        }
        let named: Vec<_> = patterns.iter().map(|(pattern, expr)| (one_line(&pattern.name), expr.clone())).collect();
        for sample in valid(bench, models::chains(&named, description))? {
            self.sample(bench, "merged", &sample)?;
        }
        Ok(())
    }

    fn pattern(&mut self, bench: &Bench, label: &str, pattern: &Pattern, expr: &Expr) -> Result<()> {
        if self.is_over() {
            return Ok(());
        }
        let backend = bench.selected.name();
        let own = &bench.selected.registered.description.operators;
        let unknown = plugin::unknown_operator(expr, own).filter(|_| !self.settings.choice.first_host);
        if let Some(reason) = unknown {
            let next = self.next + 1;
            self.case(backend, &format!("{label}: matches"), next, &mut || fail(&reason));
            return Ok(());
        }
        let samples = valid(bench, models::samples(expr, &bench.selected.registered.description))?;
        let next = self.next + 1;
        self.case(backend, &format!("{label}: matches"), next, &mut || {
            matches(bench, pattern, &samples).map(|()| None)
        });
        for sample in &samples {
            self.sample(bench, label, sample)?;
        }
        Ok(())
    }

    fn sample(&mut self, bench: &Bench, label: &str, sample: &Sample) -> Result<()> {
        let tests: Vec<_> = TESTS.iter().filter(|(_, kinds, _)| kinds.contains(&sample.kind)).collect();
        let end = self.next + tests.len();
        let Shard { index, count } = self.settings.shard;
        let is_mine = self.samples % count == index;
        self.samples += 1;
        if end <= self.from || !is_mine || self.is_over() {
            self.next = end;
            return Ok(());
        }
        let before = std::mem::replace(&mut self.is_mine, true);
        // Another process has crashed within it: its model stays.
        let has_crashed = self.next < self.from;
        let mut source = Source::write(&sample.model, &bench.folder)?;
        let (vendor, usual) = (&self.settings.vendor, source.allowed);
        let saved = self.save(bench, label, sample)?;
        let (failures, mut minimised) = (self.failures, self.minimised);
        let mut prepared = None;
        let mut broken = false;
        for (name, _, test) in tests {
            let after = if BASIC.contains(name) { end } else { self.next + 1 };
            let label = format!("{label}: {}: {name}", sample.name);
            self.case(bench.selected.name(), &label, after, &mut || {
                if broken {
                    return Err(Verdict::Skip);
                }
                let prepared = prepared.get_or_insert_with(|| bench.prepare(&source));
                source.allowed = vendor.allowed(bench.selected.name(), &label).or(usual);
                let verdict = one(bench, &source, prepared, name, *test);
                broken = BASIC.contains(name) && matches!(verdict, Err(Verdict::Fail(_)));
                match verdict {
                    Err(Verdict::Fail(reason)) if minimised < MOST_MINIMISED => {
                        minimised += 1;
                        explained(bench, sample, (name, *test), reason, &saved)
                    }
                    other => other,
                }
            });
        }
        saved.settle(self.failures > failures || has_crashed)?;
        self.minimised = minimised;
        self.is_mine = before;
        Ok(())
    }
}

/// A failure with the smallest model that fails as well.
fn explained(
    bench: &Bench,
    sample: &Sample,
    (name, test): (&str, Test),
    reason: String,
    saved: &Saved,
) -> Step<Option<Duration>> {
    // What smaller models have to tell is no part of the case.
    let noted = bench.notes.take();
    let again = |source: &Source| one(bench, source, &bench.prepare(source), name, test).err();
    let found = minimise::smallest(bench, sample, &again).or_else(fail)?;
    let smallest = found.as_ref().map_or(&sample.model, |smaller| &smaller.model);
    saved.replace(smallest).or_else(fail)?;
    let text = Source::write(smallest, &bench.folder).and_then(|source| source.text(bench));
    // Later cases of the sample read its file again.
    Source::write(&sample.model, &bench.folder).or_else(fail)?;
    bench.notes.restore(noted);
    // The reason is what counts, whatever the model's text is.
    let model = text.unwrap_or_else(|error| format!("it has no text: {}", error.message));
    Err(Verdict::FailOn { reason, model })
}

/// The samples whose models core, or the backend itself, knows.
fn valid(bench: &Bench, samples: Vec<Sample>) -> Result<Vec<Sample>> {
    let mut valid = Vec::new();
    for sample in samples {
        if Source::write(&sample.model, &bench.folder)?.is_valid(bench) {
            valid.push(sample);
        }
    }
    Ok(valid)
}

/// One case of a model that may not have come as far as the partition.
fn one(bench: &Bench, source: &Source, prepared: &Step<Prepared>, name: &str, test: Test) -> Step<Option<Duration>> {
    match prepared {
        Err(verdict) if name == "check" || name == "results" => Err(verdict.clone()),
        Err(_) => Err(Verdict::Skip),
        Ok(prepared) if prepared.taken.is_empty() && name != "check" && name != "results" => Err(Verdict::Skip),
        Ok(prepared) => match test(bench, source, prepared) {
            Err(Verdict::Unsupported(_)) if !TELLING.contains(&name) => Err(Verdict::Skip),
            other => other,
        },
    }
}

/// A pattern must match models that were made from it: the backend is asked about some, whatever it says then.
fn matches(bench: &Bench, pattern: &Pattern, samples: &[Sample]) -> Step {
    if samples.is_empty() {
        return Err(Verdict::Unsupported(format!("the kit has no model for {}", one_line(&pattern.text))));
    }
    let mut compared = false;
    for sample in samples {
        let source = Source::write(&sample.model, &bench.folder).or_else(fail)?;
        let prepared = match bench.prepare(&source) {
            Ok(prepared) => prepared,
            Err(Verdict::Fail(reason)) => return fail(reason),
            Err(_) => continue,
        };
        // An earlier pattern may have taken the nodes.
        if prepared.tried.iter().any(|(name, _)| *name == pattern.name) || !prepared.taken.is_empty() {
            return Ok(());
        }
        compared |= sample.model.ops.iter().all(|op| prepared.ops.contains(op));
    }
    match compared {
        true => fail(format!("no model made from it is matched by {}", one_line(&pattern.text))),
        false => Err(Verdict::Unsupported("the compiler's own passes rewrite every model made from it".into())),
    }
}

/// A case of the vendor is every case of a model in one; the first that does not pass decides.
fn vendor(bench: &Bench, folder: &Path, case: &VendorCase) -> Step<Option<Duration>> {
    let source = case.source(folder, &bench.folder, &bench.selected.registered.description.operators).or_else(fail)?;
    let prepared = bench.prepare(&source)?;
    let mut time = None;
    for (name, _, test) in TESTS {
        match test(bench, &source, &prepared) {
            Ok(found) => time = time.or(found),
            Err(Verdict::Fail(reason)) => return fail(format!("{name}: {reason}")),
            Err(Verdict::Unsupported(reason)) if *name == "check" => return Err(Verdict::Unsupported(reason)),
            Err(Verdict::Unsupported(reason)) if *name == "run" => {
                return Err(Verdict::Unsupported(format!("{NOT_HERE}: {reason}")));
            }
            Err(_) => {}
        }
    }
    Ok(time)
}
