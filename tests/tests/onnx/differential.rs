//! Random graphs, run by byoc and by onnxruntime without optimisation, which must give the same. The graphs are the same
//! on every machine, and a usual run takes a sample of them: `BYOC_DIFFERENTIAL_SEED` runs one of them and shows it,
//! `BYOC_DIFFERENTIAL_GRAPHS` more or fewer of the plain ones, and `BYOC_DIFFERENTIAL_FIRST` other ones.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use byoc_tests::trial::{Needed, Trial, trial};
use byoc_tests::{engine, sample};

mod accepted;
mod builder;
mod compare;
mod graph;
mod judge;
mod minimise;
mod operators;
mod oracle;
mod random;
mod values;
mod wrap;

use builder::Builder;
use graph::Case;
use judge::{Judge, Manner, Verdict};
use oracle::Oracle;
use random::Random;
use wrap::Wrap;

/// Plain graphs of a whole run.
const GRAPHS: u64 = 3000;

/// A sample has every so many-th of all graphs.
const STEP: usize = 3;

/// Seeds of rare graphs that a long run found, which every run has as well.
const RARE: [(u64, &str); 9] = [
    (108701, "a lone query of causal attention with a past"),
    (109136, "a slice that starts far before the first element of an axis that is empty at times"),
    (113958, "a transposed matrix of no columns"),
    (103025, "products over nothing"),
    (100406, "attention that sees nothing"),
    (102283, "the logarithm of nearly nothing"),
    (110579, "a division by what rounding left"),
    (117628, "1 by a zero of either sign"),
    (112272, "the softplus of a large f16"),
];

/// Threads that compile and run; onnxruntime answers one after the other.
const THREADS: usize = 2;

/// The most graphs in a hundred that byoc may refuse, and that onnxruntime may.
const MOST_REFUSED: usize = 5;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("random_graphs_give_what_onnxruntime_gives", random_graphs),
        trial("every_operator_is_drawn_or_has_a_reason", every_operator),
    ]
}

/// The lists of operators that are drawn.
fn families() -> impl Iterator<Item = &'static operators::Family> {
    [operators::FAMILIES, operators::LATER, operators::LAYERS, operators::EVERY].into_iter().flatten()
}

fn every_operator() -> Needed<()> {
    let drawn: Vec<&str> = families().flat_map(|family| family.operators).copied().collect();
    let (missing, idle) = operators::not_drawn(&drawn);
    assert!(missing.is_empty(), "byoc has these operators, and no graph does: {missing:?}");
    assert!(idle.is_empty(), "these are drawn or unknown, and have a reason not to be: {idle:?}");
    // A sample does not run all graphs, and what they are made of is seen without.
    let graphs = usual().map(|seed| graph_of(seed).0);
    let met: BTreeSet<&str> = graphs.flat_map(|case| case.nodes.into_iter().map(|node| node.op)).collect();
    let never: Vec<_> = drawn.iter().filter(|op| !met.contains(*op)).collect();
    assert!(never.is_empty(), "no graph has these: {never:?}");
    Ok(())
}

/// What became of all graphs.
#[derive(Default)]
struct Tally {
    same: usize,
    elements: usize,
    oracle: BTreeMap<String, usize>,
    refused: BTreeMap<String, usize>,
    accepted: BTreeMap<&'static str, usize>,
    drawn: BTreeMap<&'static str, usize>,
    faults: Vec<String>,
}

fn random_graphs() -> Needed<()> {
    let judge = Judge { oracle: Oracle::start()?, registry: engine::embedded() };
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let one = number("BYOC_DIFFERENTIAL_SEED");
    let others = (number("BYOC_DIFFERENTIAL_FIRST"), number("BYOC_DIFFERENTIAL_GRAPHS"));
    let whole = one.is_none() && others == (None, None) && sample::is_all();
    let seeds: Vec<u64> = match (one, others) {
        (Some(seed), _) => vec![seed],
        (None, (None, None)) => {
            let rare = RARE.iter().map(|(seed, _)| *seed);
            sample::every(STEP, usual()).into_iter().chain(rare).collect()
        }
        (None, (first, count)) => {
            let first = first.unwrap_or(0);
            (first..first + count.unwrap_or(GRAPHS)).collect()
        }
    };
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    // A panic of the compiler is a finding that is shown with its graph.
    if one.is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(&seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_one(&judge, seed, &tally, one.is_some());
                }
            });
        }
    });
    drop(std::panic::take_hook());
    finish(tally.into_inner().unwrap_or_else(PoisonError::into_inner), seeds.len(), whole);
    Ok(())
}

/// The seeds of the graphs that a whole run has, but for the rare ones.
fn usual() -> impl Iterator<Item = u64> {
    let later = operators::LATER_SEEDS.start..operators::LAYER_SEEDS.end;
    (0..GRAPHS).chain(later).chain(operators::EVERY_SEEDS).chain(wrap::SEEDS)
}

/// The graph of a seed, and how byoc compiles it.
fn graph_of(seed: u64) -> (Case, Manner) {
    let mut random = Random::new(seed);
    let nodes = 1 + random.below(14);
    let manner = match random.below(10) {
        0..6 => Manner::Usual,
        6..8 => Manner::Unfused,
        _ => Manner::Reference,
    };
    let mut builder = Builder::new(random);
    if operators::LATER_SEEDS.contains(&seed) {
        builder.later = &[operators::LATER];
    } else if operators::LAYER_SEEDS.contains(&seed) {
        builder.later = &[operators::LATER, operators::LAYERS];
    } else if seed >= operators::EVERY_SEEDS.start {
        builder.draws_every_operator();
    }
    while builder.nodes() < nodes {
        operators::draw(&mut builder);
    }
    let wrap = (wrap::SEEDS.start..operators::EVERY_SEEDS.start).contains(&seed).then(|| Wrap::of(seed));
    (Case { wrap, ..builder.finish() }, manner)
}

fn try_one(judge: &Judge, seed: u64, tally: &Mutex<Tally>, show: bool) {
    let (case, manner) = graph_of(seed);
    let verdict = judge.verdict(&case, manner);
    let tally = || tally.lock().unwrap_or_else(PoisonError::into_inner);
    if show {
        tally().faults.push(format!("{case}\n{manner:?}: {verdict:?}"));
    }
    if matches!(verdict, Verdict::Same(_) | Verdict::Refused(_)) {
        for node in &case.nodes {
            *tally().drawn.entry(node.op).or_default() += 1;
        }
    }
    match verdict {
        Verdict::Same(elements) => {
            let mut tally = tally();
            tally.same += 1;
            tally.elements += elements;
        }
        Verdict::OracleRefuses(reason) => *tally().oracle.entry(general(&reason)).or_default() += 1,
        Verdict::Refused(error) => {
            let reason = format!("[{}] {}", error.code.id(), error.message);
            *tally().refused.entry(general(&reason)).or_default() += 1;
        }
        Verdict::Breaks(_) | Verdict::Differs(_) => {
            let (case, verdict) = minimise::minimise(judge, &case, manner, verdict);
            let fault = match &verdict {
                Verdict::Differs(difference) => {
                    if let Some(entry) = accepted::accepted(&case, difference) {
                        *tally().accepted.entry(entry.reason).or_default() += 1;
                        return;
                    }
                    let (found, expected) = (values::show(&difference.found), values::show(&difference.expected));
                    let place = format!("output {} of run {}", case.outputs[difference.output], difference.run);
                    format!("{place} {}\n  byoc        {found}\n  onnxruntime {expected}", difference.what)
                }
                Verdict::Breaks(what) => what.clone(),
                other => format!("{other:?}"),
            };
            tally().faults.push(format!("seed {seed}, {manner:?}\n{case}\n{fault}"));
        }
    }
}

/// A reason without the names and numbers of one graph.
fn general(reason: &str) -> String {
    let line = reason.lines().next().unwrap_or_default();
    let mut text = String::new();
    for part in line.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
        let has_digit = part.chars().any(|c| c.is_ascii_digit());
        let code = part.starts_with('B') && part.len() == 5;
        match part.chars().last().filter(|c| !c.is_alphanumeric() && *c != '_') {
            Some(end) if has_digit && !code => text.extend(['#', end]),
            None if has_digit => text.push('#'),
            _ => text.push_str(part),
        }
    }
    text.chars().take(150).collect()
}

/// Says what became of all graphs, and fails where byoc is at fault.
fn finish(tally: Tally, count: usize, whole: bool) {
    let total = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
    let mut text = format!("{count} graphs: {} the same, in {} elements\n", tally.same, tally.elements);
    for (what, counts) in [("onnxruntime refuses", &tally.oracle), ("byoc refuses", &tally.refused)] {
        text += &format!("{what} {}\n", total(counts));
        text.extend(counts.iter().map(|(reason, count)| format!("  {count} {reason}\n")));
    }
    text.extend(tally.accepted.iter().map(|(reason, count)| format!("accepted {count}: {reason}\n")));
    let missing: Vec<_> =
        families().flat_map(|family| family.operators).filter(|op| !tally.drawn.contains_key(*op)).collect();
    let unused =
        accepted::all().filter(|entry| !accepted::need_not_be_met(entry) && !tally.accepted.contains_key(entry.reason));
    let unused: Vec<_> = unused.map(|entry| entry.reason).collect();
    text.extend(tally.faults.iter().map(|fault| format!("\n{fault}\n")));
    assert!(tally.faults.is_empty(), "{text}\n{} faults", tally.faults.len());
    assert!(!whole || missing.is_empty(), "{text}\nnever drawn: {missing:?}");
    assert!(!whole || unused.is_empty(), "{text}\naccepted, and not met: {unused:?}");
    for counts in [&tally.oracle, &tally.refused] {
        assert!(!whole || total(counts) * 100 <= MOST_REFUSED * count, "{text}\ntoo many are refused");
    }
    if std::env::var_os("BYOC_DIFFERENTIAL_VERBOSE").is_some() {
        panic!("{text}");
    }
}
