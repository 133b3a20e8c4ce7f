//! What is found: a line for each check as it comes, rows of tables, and the tables at the end. As text, or as JSON lines,
//! which is also how the processes of the suite tell each other.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the program's only purpose")]

use std::any::Any;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use byoc_core::diagnostic::Diagnostic;
use byoc_plugin_api::Error;
use serde_json::{Value, json};

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

/// A table that grows row by row.
struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// What was found so far.
pub(crate) struct Report {
    json: bool,
    checks: usize,
    failures: usize,
    tables: Vec<Table>,
}

impl Report {
    /// A report that prints its lines as they come: text, or JSON.
    pub(crate) fn new(json: bool) -> Report {
        Report { json, checks: 0, failures: 0, tables: Vec::new() }
    }

    /// How many checks failed.
    pub(crate) fn failures(&self) -> usize {
        self.failures
    }

    /// A line of its own.
    pub(crate) fn note(&self, text: &str) {
        if self.json { line(&json!({ "note": text })) } else { println!("{text}") }
    }

    /// A check: what it found, or why it failed.
    pub(crate) fn check(&mut self, name: &str, found: Result<String>) {
        match found {
            Ok(text) => self.checked(name, true, &text),
            Err(reason) => self.checked(name, false, &told(&*reason)),
        }
    }

    fn checked(&mut self, name: &str, ok: bool, text: &str) {
        self.checks += 1;
        self.failures += usize::from(!ok);
        if self.json {
            return line(&json!({ "check": name, "ok": ok, "text": text }));
        }
        let word = if ok { "ok   " } else { "FAIL " };
        println!("{}", format!("{word} {name:<34} {text}").trim_end());
    }

    /// Does some work; a panic in it is a failed check of that name, and what was found before stays.
    pub(crate) fn guard(&mut self, name: &str, work: impl FnOnce(&mut Report)) {
        // A report is whole between any two of its own calls, none of which calls anything of the work's.
        if let Err(cause) = panic::catch_unwind(AssertUnwindSafe(|| work(&mut *self))) {
            self.check(name, failure(format!("panicked: {}", message(&*cause))));
        }
    }

    /// A measured value, for JSON.
    pub(crate) fn figure(&self, name: &str, value: impl Into<Value>) {
        if self.json {
            line(&json!({ "figure": name, "value": value.into() }));
        }
    }

    /// A row of the table of that title.
    pub(crate) fn row(&mut self, title: &str, columns: &[&str], cells: Vec<String>) {
        let columns = columns.iter().map(|&name| name.to_owned()).collect();
        self.add(title.to_owned(), columns, cells);
    }

    fn add(&mut self, title: String, columns: Vec<String>, cells: Vec<String>) {
        if self.json {
            line(&json!({ "row": title, "columns": columns, "cells": cells }));
        }
        match self.tables.iter_mut().find(|table| table.title == title) {
            Some(table) => table.rows.push(cells),
            None => self.tables.push(Table { title, columns, rows: vec![cells] }),
        }
    }

    /// Takes over a line that another process of the suite printed as JSON; false for any other line.
    pub(crate) fn take_over(&mut self, text: &str) -> bool {
        let Ok(value) = serde_json::from_str::<Value>(text) else { return false };
        let word = |key: &str| value[key].as_str().map(str::to_owned);
        let words = |key: &str| -> Option<Vec<String>> {
            value[key].as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
        };
        if let (Some(name), Some(ok), Some(text)) = (word("check"), value["ok"].as_bool(), word("text")) {
            self.checked(&name, ok, &text);
        } else if let (Some(title), Some(columns), Some(cells)) = (word("row"), words("columns"), words("cells")) {
            self.add(title, columns, cells);
        } else if let Some(text) = word("note") {
            self.note(&text);
        } else if let Some(name) = word("figure") {
            self.figure(&name, value["value"].clone());
        } else {
            return false;
        }
        true
    }

    /// Prints the tables, and the last line.
    pub(crate) fn end(&self, time: Duration) {
        let (checks, failures, seconds) = (self.checks, self.failures, time.as_secs_f64());
        if self.json {
            return line(&json!({ "checks": checks, "failures": failures }));
        }
        let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        for Table { title, columns, rows } in &self.tables {
            let rule: Vec<_> = columns.iter().map(|_| "---".to_owned()).collect();
            let body: String = rows.iter().map(|cells| row(cells)).collect();
            println!("\n### {title}\n\n{}{}{body}", row(columns), row(&rule));
        }
        println!("\n{seconds:.1} s\n{checks} checks, {failures} failed");
    }
}

/// Prints a value as one line, at once.
fn line(value: &Value) {
    let mut out = std::io::stdout().lock();
    // Nobody reads what cannot be written.
    let _ = writeln!(out, "{value}").and_then(|()| out.flush());
}

/// An error with its remedy, if it has one.
fn told(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let hint = error.downcast_ref::<Diagnostic>().and_then(|error| error.hint.as_deref());
    let hint = hint.or_else(|| error.downcast_ref::<Error>().and_then(|error| error.hint.as_deref()));
    let text = error.to_string();
    match hint {
        Some(hint) if !text.contains(hint) => format!("{text} ({hint})"),
        _ => text,
    }
}

/// Says on the standard error why this process does nothing.
pub(crate) fn complain(error: &(dyn std::error::Error + Send + Sync + 'static)) {
    eprintln!("{}", told(error));
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
        assert_eq!((report.checks, report.failures()), (3, 1));
    }

    #[test]
    fn what_another_process_says_is_taken_over() {
        let mut report = Report::new(true);
        let rows = |cells: &str| format!(r#"{{"row":"times","columns":["name","ms"],"cells":{cells}}}"#);
        for line in [
            r#"{"check":"one","ok":true,"text":"fine"}"#,
            r#"{"check":"two","ok":false,"text":"not so"}"#,
            r#"{"note":"a line"}"#,
            r#"{"figure":"seed","value":7}"#,
            &rows(r#"["a","1"]"#),
            &rows(r#"["b","2"]"#),
        ] {
            assert!(report.take_over(line), "{line}");
        }
        assert!(!report.take_over("CUDA says something") && !report.take_over(r#"{"checks":3}"#));
        assert_eq!((report.checks, report.failures), (2, 1));
        let [table] = &report.tables[..] else { panic!("{} tables", report.tables.len()) };
        assert_eq!(
            (&*table.title, table.columns.len(), &table.rows[1][..]),
            ("times", 2, &["b".into(), "2".into()][..])
        );
    }

    #[test]
    fn remedies_are_told() {
        let error = Error::new("there is no library").hint("Install it");
        assert_eq!(told(&error), "there is no library (Install it)");
        assert_eq!(told(&*failure::<()>("plain").unwrap_err()), "plain");
    }
}
