//! The list of cases, in order, and how each is run: the same plugin gives the same list, so a number names a case.

use std::path::Path;
use std::time::{Duration, Instant};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::plugin::Selected;
use byoc_plugin_api::{Expr, Pattern};

use crate::bench::{Bench, Prepared, Source};
use crate::models::{self, Kind, Sample};
use crate::report::{Case, Step, Tag, Verdict, fail, one_line};
use crate::stream::Event;
use crate::vendor::VendorCase;
use crate::{Settings, Share, claims, damage, files, plugin, results, usage};

/// A case of a model.
type Test = fn(&Bench, &Source, &Prepared) -> Step<Option<Duration>>;

/// The cases of a model, in order: name, the kinds of sample that have it, and what it does.
const TESTS: &[(&str, &[Kind], Test)] = &[
    ("check", EVERY, |b, s, p| claims::check(b, s, p).map(|()| None)),
    ("codegen", EVERY, |b, s, p| claims::codegen(b, s, p).map(|()| None)),
    ("claims", WHOLE, |b, s, p| claims::claims(b, s, p).map(|()| None)),
    ("run", FIXED, |b, s, p| results::run(b, s, p).map(Some)),
    ("artifact", WHOLE, |b, s, p| results::artifact(b, s, p).map(|()| None)),
    ("special", THOROUGH, |b, s, p| results::special(b, s, p).map(|()| None)),
    ("layouts", THOROUGH, |b, s, p| results::layouts(b, s, p).map(|()| None)),
    ("shared", THOROUGH, |b, s, p| results::shared(b, s, p).map(|()| None)),
    ("together", THOROUGH, |b, s, p| results::together(b, s, p).map(|()| None)),
    ("newer host", THOROUGH, |b, s, p| claims::newer_host(b, s, p).map(|()| None)),
    ("open", THOROUGH, |b, s, p| files::open(b, s, p).map(|()| None)),
    ("damaged code", THOROUGH, |b, s, p| damage::code(b, s, p).map(|()| None)),
    ("damaged constants", THOROUGH, |b, s, p| damage::constants(b, s, p).map(|()| None)),
];

const EVERY: &[Kind] = &[Kind::Thorough, Kind::Plain, Kind::Symbolic];
const WHOLE: &[Kind] = &[Kind::Thorough, Kind::Symbolic];
const FIXED: &[Kind] = &[Kind::Thorough, Kind::Plain];
const THOROUGH: &[Kind] = &[Kind::Thorough];

/// Cases whose "unsupported" is worth a line; the others would say it again.
const TELLING: &[&str] = &["check", "run", "shared"];
/// Cases that the rest of a model rests on: where one fails, the others would fail for the same reason.
const BASIC: &[&str] = &["check", "codegen", "claims", "run"];

/// Runs every case from number `from` on and tells of each.
pub(crate) fn run(settings: &Settings, from: usize, tell: &mut dyn FnMut(Event)) -> Result<()> {
    let Share { index, count } = settings.share;
    let mut runner = Runner { next: 0, from, share: settings.share, is_mine: index == 0, samples: 0, tell };
    if count == 0 || index >= count {
        return Err(Diagnostic::new(Code::Usage, format!("there is no share {index} of {count}")));
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
        let bench = Bench::new(&registry, &name, &settings.options, settings.reference.clone(), folder.path())?;
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
    share: Share,
    /// Whether what comes next belongs to this share.
    is_mine: bool,
    /// Samples so far.
    samples: usize,
    tell: &'a mut dyn FnMut(Event),
}

impl Runner<'_> {
    /// A case; `after` is the number of the case to go on with should this one crash.
    fn case(&mut self, backend: &str, name: &str, after: usize, test: &mut dyn FnMut() -> Step<Option<Duration>>) {
        let index = self.next;
        self.next += 1;
        if index < self.from || !self.is_mine {
            return;
        }
        (self.tell)(Event::Start { after, backend: backend.to_owned(), name: name.to_owned() });
        let before = usage::reset_peak();
        let start = Instant::now();
        let verdict = test().map_or_else(|verdict| verdict, Verdict::Pass);
        let seconds = start.elapsed().as_secs_f64();
        let peak_bytes = usage::peak().zip(before).map(|(peak, before)| peak.saturating_sub(before));
        let (result, reason, time) = match verdict {
            Verdict::Skip => return (self.tell)(Event::Skip),
            Verdict::Pass(time) => (Tag::Pass, None, time),
            Verdict::Fail(reason) => (Tag::Fail, Some(one_line(&reason)), None),
            Verdict::Unsupported(reason) => (Tag::Unsupported, Some(one_line(&reason)), None),
        };
        let (backend, name) = (backend.to_owned(), name.to_owned());
        let seconds_per_call = time.map(|time| time.as_secs_f64());
        (self.tell)(Event::End(Case { backend, name, result, reason, seconds, seconds_per_call, peak_bytes }));
    }

    /// A case without which nothing can follow. What it does is done even if the case was run before, or is another share's.
    fn essential(&mut self, backend: &str, name: &str, test: &mut dyn FnMut() -> Step<Option<Duration>>) {
        if self.next < self.from || !self.is_mine {
            self.next += 1;
            let _ = test();
        } else {
            self.case(backend, name, usize::MAX, test);
        }
    }

    fn backend(&mut self, settings: &Settings, bench: &Bench) -> Result<()> {
        let Selected { registered, .. } = &bench.selected;
        let name = registered.description.name.as_str();
        let plain = |step: Step| step.map(|()| None);
        let next = self.next + 1;
        self.case(name, "describe", next, &mut || plain(plugin::describe(&settings.plugin, &bench.selected)));
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
        for (folder, case) in &settings.vendor.cases {
            if case.backend.as_ref().is_none_or(|only| only == name) {
                let next = self.next + 1;
                self.case(name, &case.name, next, &mut || vendor(bench, folder, case));
            }
        }
        Ok(())
    }

    fn pattern(&mut self, bench: &Bench, label: &str, pattern: &Pattern, expr: &Expr) -> Result<()> {
        let backend = bench.selected.name();
        let mut samples = Vec::new();
        for sample in models::samples(expr, &bench.selected.registered.description) {
            if Source::write(&sample.model, &bench.folder)?.is_valid(bench) {
                samples.push(sample);
            }
        }
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
        let Share { index, count } = self.share;
        let is_mine = self.samples % count == index;
        self.samples += 1;
        if end <= self.from || !is_mine {
            self.next = end;
            return Ok(());
        }
        let before = std::mem::replace(&mut self.is_mine, true);
        let source = Source::write(&sample.model, &bench.folder)?;
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
                let verdict = one(bench, &source, prepared, name, *test);
                broken = BASIC.contains(name) && matches!(verdict, Err(Verdict::Fail(_)));
                verdict
            });
        }
        self.is_mine = before;
        Ok(())
    }
}

/// One case of a model that may not have come as far as the partition.
fn one(bench: &Bench, source: &Source, prepared: &Step<Prepared>, name: &str, test: Test) -> Step<Option<Duration>> {
    match prepared {
        Err(verdict) if name == "check" => Err(verdict.clone()),
        Err(_) => Err(Verdict::Skip),
        Ok(prepared) if prepared.taken.is_empty() && name != "check" => Err(Verdict::Skip),
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
            Err(Verdict::Unsupported(reason)) if TELLING.contains(name) => return Err(Verdict::Unsupported(reason)),
            Err(_) => {}
        }
    }
    Ok(time)
}
