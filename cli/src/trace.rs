//! What a compile does, and when, for `--trace`.

use std::time::Instant;

use byoc_core::compile::{Observer, Stage};
use byoc_core::diagnostic::Diagnostic;
use byoc_core::runtime::{Span, SpanKind};

/// Where stages are drawn.
const PLACE: &str = "compiler";

/// Notes when each stage begins and ends, and the steps within it; passes all on to another observer.
pub(crate) struct Traced<'a, O> {
    inner: &'a mut O,
    spans: Vec<Span>,
    stage: Option<(String, Instant)>,
    step: Option<(String, Instant)>,
}

impl<'a, O: Observer> Traced<'a, O> {
    /// Begins with no stage.
    pub(crate) fn new(inner: &'a mut O) -> Self {
        Traced { inner, spans: Vec::new(), stage: None, step: None }
    }

    /// All that was noted; what is under way ends now.
    pub(crate) fn spans(mut self) -> Vec<Span> {
        self.end(true);
        self.spans
    }

    /// Ends the step, and the stage if it ends, too.
    fn end(&mut self, stage: bool) {
        let now = Instant::now();
        let span = |(name, start): (String, Instant), kind| Span {
            place: PLACE.into(),
            kind,
            name,
            details: Vec::new(),
            start,
            time: now.duration_since(start),
        };
        self.spans.extend(self.step.take().map(|step| span(step, SpanKind::Step)));
        if stage {
            self.spans.extend(self.stage.take().map(|stage| span(stage, SpanKind::Stage)));
        }
    }
}

impl<O: Observer> Observer for Traced<'_, O> {
    fn stage(&mut self, stage: Stage) {
        self.end(true);
        self.stage = Some((stage.name().to_owned(), Instant::now()));
        self.inner.stage(stage);
    }

    fn progress(&mut self, done: usize, total: usize, next: &str) {
        self.end(false);
        if !next.is_empty() {
            self.step = Some((next.to_owned(), Instant::now()));
        }
        self.inner.progress(done, total, next);
    }

    fn log(&mut self, backend: &str, line: &str) {
        self.inner.log(backend, line);
    }

    fn dump(&mut self, stage: Stage, text: &dyn Fn() -> String) {
        self.inner.dump(stage, text);
    }

    fn warning(&mut self, warning: &Diagnostic) {
        self.inner.warning(warning);
    }
}

#[cfg(test)]
mod tests {
    use byoc_core::compile::Silent;

    use super::*;

    #[test]
    fn steps_are_within_their_stages() {
        let mut silent = Silent;
        let mut traced = Traced::new(&mut silent);
        traced.stage(Stage::Onnx);
        traced.stage(Stage::Codegen);
        traced.progress(0, 2, "r0");
        traced.progress(1, 2, "r1");
        let spans = traced.spans();
        let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["onnx", "r0", "r1", "codegen"]);
        let (r0, codegen) = (&spans[1], &spans[3]);
        assert!(codegen.start <= r0.start && r0.start + r0.time <= codegen.start + codegen.time);
    }
}
