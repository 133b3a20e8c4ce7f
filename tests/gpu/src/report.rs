//! The report of the suite: a line for each check, tables of measurements, and the same as JSON.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program's only purpose")]

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// The result of all that can fail here.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A failure with a message.
pub(crate) fn failure<T>(message: impl Into<String>) -> Result<T> {
    Err(message.into().into())
}

/// An error for what is not as it must be.
pub(crate) fn ensure(holds: bool, message: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { failure(message()) }
}

/// What was found so far.
pub(crate) struct Report {
    json: bool,
    checks: Vec<Value>,
    figures: Map<String, Value>,
    failures: usize,
}

impl Report {
    /// A report that prints its lines as they come; with `json`, to the standard error.
    pub(crate) fn new(json: bool) -> Report {
        Report { json, checks: Vec::new(), figures: Map::new(), failures: 0 }
    }

    /// How many checks failed.
    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    /// A line of its own.
    pub(crate) fn note(&self, text: &str) {
        if self.json { eprintln!("{text}") } else { println!("{text}") }
    }

    /// A check: what it found, or why it failed.
    pub(crate) fn check(&mut self, name: &str, found: Result<String>) {
        let (word, text) = match &found {
            Ok(details) => ("ok   ", details.clone()),
            Err(reason) => ("FAIL ", reason.to_string()),
        };
        self.failures += usize::from(found.is_err());
        self.note(format!("{word} {name:<34} {text}").trim_end());
        self.checks.push(json!({ "name": name, "ok": found.is_ok(), "text": text }));
    }

    /// Does some work; a panic in it is a failed check of that name, and what was found before stays.
    pub(crate) fn guard(&mut self, name: &str, work: impl FnOnce(&mut Report)) {
        // A report is whole between any two of its own calls, none of which calls anything of the work's.
        if let Err(cause) = panic::catch_unwind(AssertUnwindSafe(|| work(&mut *self))) {
            self.check(name, failure(format!("panicked: {}", message(&*cause))));
        }
    }

    /// A measured value, for JSON.
    pub(crate) fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.insert(name.to_owned(), value.into());
    }

    /// A table in Markdown; with JSON also as a list of rows.
    pub(crate) fn table(&mut self, title: &str, columns: &[&str], rows: &[Vec<String>]) {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let head: Vec<_> = columns.iter().map(|name| (*name).to_owned()).collect();
        let rule: Vec<_> = columns.iter().map(|_| "---".to_owned()).collect();
        let body: String = rows.iter().map(|row| line(row)).collect();
        self.note(&format!("\n### {title}\n\n{}{}{body}", line(&head), line(&rule)));
        let row = |row: &Vec<String>| -> Map<String, Value> {
            head.iter().cloned().zip(row.iter().map(|cell| json!(cell))).collect()
        };
        self.figure(title, rows.iter().map(row).collect::<Vec<_>>());
    }

    /// Prints the last line, and writes the JSON if there is a path.
    pub(crate) fn end(&self, time: Duration) {
        let (count, failures, seconds) = (self.checks.len(), self.failures, time.as_secs_f64());
        self.note(&format!("\n{seconds:.1} s\n{count} checks, {failures} failed"));
        if self.json {
            println!("{:#}", json!({ "figures": self.figures, "checks": self.checks, "failures": self.failures }));
        }
    }
}

/// What a panic said.
fn message(cause: &(dyn Any + Send)) -> &str {
    let formatted = cause.downcast_ref::<String>().map(String::as_str);
    formatted.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failed_check() {
        let mut report = Report::new(true);
        report.guard("part", |report| {
            report.check("one", Ok("fine".into()));
            let none: [u8; 0] = [];
            report.check("two", Ok(none[report.failures()].to_string()));
        });
        report.guard("other", |report| report.check("three", Ok(String::new())));
        let text = "panicked: index out of bounds: the len is 0 but the index is 0";
        let expected = [
            json!({ "name": "one", "ok": true, "text": "fine" }),
            json!({ "name": "part", "ok": false, "text": text }),
            json!({ "name": "three", "ok": true, "text": "" }),
        ];
        assert_eq!(report.checks, expected);
        assert_eq!(report.failures(), 1);
    }

    #[test]
    fn failures_are_counted() {
        let mut report = Report::new(true);
        report.check("one", Ok("fine".into()));
        report.check("two", failure("not so"));
        assert_eq!(report.failures(), 1);
        let expected = [
            json!({ "name": "one", "ok": true, "text": "fine" }),
            json!({ "name": "two", "ok": false, "text": "not so" }),
        ];
        assert_eq!(report.checks, expected);
    }
}
