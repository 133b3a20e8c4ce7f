//! A timeline as a file that Perfetto and `chrome://tracing` open: the trace event format of Chrome, in JSON.

use std::path::Path;
use std::time::Instant;

use byoc_core::atomic_file;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::{Span, SpanKind};
use serde_json::{Map, Value, json};

/// Writes the spans, each on the track of its place. Times are counted from the first of them.
pub fn write(path: &Path, spans: &[Span]) -> Result<()> {
    let text = serde_json::to_vec(&events(spans));
    let text = text.map_err(|error| Diagnostic::new(Code::Io, format!("cannot write a trace: {error}")))?;
    atomic_file::write(path, &text)
}

/// The object of the file.
fn events(spans: &[Span]) -> Value {
    let first = spans.iter().map(|span| span.start).min();
    let mut places: Vec<&str> = Vec::new();
    let mut events = Vec::with_capacity(spans.len());
    let mut spans: Vec<&Span> = spans.iter().collect();
    // Who contains others comes first.
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.time)));
    for span in spans {
        let track = places.iter().position(|place| *place == span.place).unwrap_or_else(|| {
            places.push(&span.place);
            places.len() - 1
        });
        events.push(event(span, track, first.unwrap_or(span.start)));
    }
    let named = places.iter().enumerate().map(|(track, place)| {
        json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": track + 1, "args": { "name": place } })
    });
    let program = json!({ "name": "process_name", "ph": "M", "pid": 1, "args": { "name": "byoc" } });
    let all: Vec<Value> = [program].into_iter().chain(named).chain(events).collect();
    json!({ "displayTimeUnit": "ms", "traceEvents": all })
}

fn event(span: &Span, track: usize, first: Instant) -> Value {
    let kind = match span.kind {
        SpanKind::Stage => "stage",
        SpanKind::Region => "region",
        SpanKind::Step => "step",
        SpanKind::Copy => "copy",
    };
    let details: Map<String, Value> =
        span.details.iter().map(|(name, value)| ((*name).to_owned(), value.as_str().into())).collect();
    // In microseconds; whole nanoseconds are kept.
    let micros = |nanos: u128| nanos as f64 / 1e3;
    json!({
        "name": span.name,
        "cat": kind,
        "ph": "X",
        "ts": micros(span.start.duration_since(first).as_nanos()),
        "dur": micros(span.time.as_nanos()),
        "pid": 1,
        "tid": track + 1,
        "args": details,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn places_are_tracks_and_times_count_from_the_first() {
        let start = Instant::now();
        let span = |place: &str, kind, name: &str, after: u64, micros: u64| Span {
            place: place.into(),
            kind,
            name: name.into(),
            details: vec![("backend", "gpu".into())],
            start: start + Duration::from_micros(after),
            time: Duration::from_micros(micros),
        };
        let spans = [
            span("host", SpanKind::Step, "conv", 10, 5),
            span("host", SpanKind::Region, "r0", 10, 8),
            span("cuda:0", SpanKind::Copy, "x", 30, 1),
        ];
        let found = events(&spans);
        let expected = json!({ "displayTimeUnit": "ms", "traceEvents": [
            { "name": "process_name", "ph": "M", "pid": 1, "args": { "name": "byoc" } },
            { "name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": { "name": "host" } },
            { "name": "thread_name", "ph": "M", "pid": 1, "tid": 2, "args": { "name": "cuda:0" } },
            { "name": "r0", "cat": "region", "ph": "X", "ts": 0.0, "dur": 8.0, "pid": 1, "tid": 1, "args": { "backend": "gpu" } },
            { "name": "conv", "cat": "step", "ph": "X", "ts": 0.0, "dur": 5.0, "pid": 1, "tid": 1, "args": { "backend": "gpu" } },
            { "name": "x", "cat": "copy", "ph": "X", "ts": 20.0, "dur": 1.0, "pid": 1, "tid": 2, "args": { "backend": "gpu" } },
        ] });
        assert_eq!(found, expected);
    }
}
