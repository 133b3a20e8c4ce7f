//! The kit finds bugs: those that can be planted into the backends of `tests/plugins/mutants`. `tests/golden/mutants.txt` has all of
//! them with the first case that fails. A run tries a sample of them; one that takes everything compares the table, with
//! `UPDATE_GOLDEN=1` it writes it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use byoc_conformance::{Choice, Settings};
use byoc_plugin_api::OptionKind;
use byoc_tests::golden::golden;
use byoc_tests::{engine, places, sample};

/// How many are tried where not all are asked for.
const SAMPLE: usize = 8;
/// What stands in the table for a bug that no case finds.
const MISSED: &str = "not found";

/// Backend and bug.
type Planted = (String, String);

/// Every bug of every backend, `none` among them.
fn planted() -> Vec<Planted> {
    let registry = engine::from_files(vec![places::plugin("mutants")]);
    let of_backend = |registered: &byoc_core::plugin::Registered| {
        let description = &registered.description;
        let OptionKind::Choice(bugs) = &description.options[0].kind else { panic!("a list of bugs") };
        bugs.iter().map(|bug| (description.name.clone(), bug.clone())).collect::<Vec<_>>()
    };
    registry.backends.iter().flat_map(of_backend).collect()
}

/// The first case that fails with a bug.
fn found_by((backend, bug): &Planted) -> Option<String> {
    let settings = Settings {
        plugin: places::plugin("mutants"),
        backends: vec![backend.clone()],
        options: vec![(format!("{backend}.bug"), bug.clone())],
        choice: Choice { fail_fast: true, ..Choice::default() },
        ..super::settings()
    };
    let report = byoc_conformance::run(&settings).expect("the settings are good");
    report.failures().next().map(|case| case.name.clone())
}

/// A line of the table for each of these.
fn lines(planted: &[Planted]) -> Vec<String> {
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(vec![String::new(); planted.len()]));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(row) = planted.get(at) else { break };
                    let found = found_by(row);
                    let found = found.unwrap_or_else(|| if row.1 == "none" { "-".into() } else { MISSED.into() });
                    lines.lock().expect("nobody panics with it")[at] = format!("{} | {} | {found}", row.0, row.1);
                }
            });
        }
    });
    lines.into_inner().expect("nobody panics with it")
}

#[test]
fn planted_bugs_are_found() {
    let all = planted();
    if sample::is_all() {
        let lines = lines(&all);
        golden("mutants.txt", &format!("backend | planted bug | first case that fails\n{}\n", lines.join("\n")));
    }
    let table = String::from_utf8(places::read(&places::checkout().join("tests/golden/mutants.txt"))).expect("text");
    let rows: Vec<&str> = table.lines().skip(1).collect();
    let names: Vec<_> = all.iter().map(|(backend, bug)| format!("{backend} | {bug} | ")).collect();
    assert!(
        rows.len() == names.len() && rows.iter().zip(&names).all(|(row, name)| row.starts_with(name)),
        "BYOC_SAMPLE=all"
    );
    let is_right = |row: &&&str| row.contains(" | none | ");
    assert!(rows.iter().filter(is_right).all(|row| row.ends_with(" | -")), "what is right passes");
    let bugs = rows.len() - rows.iter().filter(is_right).count();
    let missed = rows.iter().filter(|row| row.ends_with(MISSED)).count();
    assert!(missed * 20 <= bugs, "{missed} of {bugs} are not found, and one in twenty may be");

    if sample::is_all() {
        return;
    }
    let some = sample::every(all.len() / SAMPLE, 0..all.len());
    let chosen: Vec<_> = some.iter().map(|&at| all[at].clone()).collect();
    for (line, &at) in lines(&chosen).iter().zip(&some) {
        assert_eq!(line, rows[at], "{:?}", sample::taken());
    }
}
