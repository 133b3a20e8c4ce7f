//! Every measured run, for files.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use byoc_core::atomic_file;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use serde_json::json;

/// A measured run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The session, by its index.
    pub stream: usize,
    /// Which of its measured runs it is, from 0 on.
    pub run: usize,
    /// When it began, since the first run of all.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
}

/// How samples are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A line for each, below one with the names of the columns.
    Csv,
    /// An object with an array of them.
    Json,
}

impl Format {
    /// The format that the end of the file's name asks for.
    pub fn of(path: &Path) -> Result<Format> {
        let name = path.to_string_lossy().to_lowercase();
        if name.ends_with(".csv") {
            return Ok(Format::Csv);
        }
        if name.ends_with(".json") {
            return Ok(Format::Json);
        }
        let message = format!("'{}' does not end with .csv or .json", path.display());
        Err(Diagnostic::new(Code::Usage, message).hint("The end of the name says how samples are written"))
    }

    /// Writes the samples, with times in seconds.
    pub fn write(self, path: &Path, samples: &[Sample]) -> Result<()> {
        let text = match self {
            Format::Csv => csv(samples),
            Format::Json => {
                let sample = |sample: &Sample| {
                    json!({
                        "stream": sample.stream,
                        "run": sample.run,
                        "start_seconds": sample.start.as_secs_f64(),
                        "seconds": sample.time.as_secs_f64(),
                    })
                };
                let samples: Vec<_> = samples.iter().map(sample).collect();
                format!("{}\n", json!({ "schema": 1, "samples": samples }))
            }
        };
        atomic_file::write(path, text.as_bytes())
    }
}

fn csv(samples: &[Sample]) -> String {
    let mut text = "stream,run,start_seconds,seconds\n".to_owned();
    for Sample { stream, run, start, time } in samples {
        // Memory takes all of it.
        let _ = writeln!(text, "{stream},{run},{:.9},{:.9}", start.as_secs_f64(), time.as_secs_f64());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_the_name_says() {
        let dir = tempfile::tempdir().expect("folder");
        let sample = Sample { stream: 1, run: 2, start: Duration::from_millis(1500), time: Duration::from_nanos(250) };
        let written = |name: &str| {
            let path = dir.path().join(name);
            Format::of(&path).and_then(|format| format.write(&path, &[sample])).expect("written");
            std::fs::read_to_string(path).expect("text")
        };
        assert_eq!(written("a.csv"), "stream,run,start_seconds,seconds\n1,2,1.500000000,0.000000250\n");
        let json = r#"{"schema":1,"samples":[{"stream":1,"run":2,"start_seconds":1.5,"seconds":2.5e-7}]}"#;
        assert_eq!(written("a.JSON"), format!("{json}\n"));
        let error = Format::of(Path::new("a.txt")).expect_err("no format");
        assert_eq!(error.message, "'a.txt' does not end with .csv or .json");
    }
}
