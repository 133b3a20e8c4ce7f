//! The lists that backends answer with, judged: what they use on this machine, other code for a region, and the steps of a run.

use std::collections::HashSet;

use super::answer::one_line;
use crate::backend::{Candidate, Tool};
use crate::error::Error;
use crate::runtime::StepTime;

/// Most tools of a backend.
const MOST_TOOLS: usize = 256;

/// Most candidates for a region, the first one included.
const MOST_CANDIDATES: usize = 256;

/// Most bytes of all candidates for a region, names included.
const MOST_BYTES: usize = 1 << 30;

/// Most steps of a run, and nodes of all of them.
const MOST_STEPS: usize = 1 << 20;

/// The answer of [`crate::Executable::steps`] with each of its texts in one line. Errors where there are too many, or a time is negative or not finite.
pub(super) fn checked_steps(steps: Vec<StepTime>) -> Result<Vec<StepTime>, Error> {
    let nodes = steps.iter().map(|step| step.nodes.len() + step.indices.len()).sum::<usize>();
    if steps.len().saturating_add(nodes) > MOST_STEPS {
        return Err(Error::new(format!("it tells more than {MOST_STEPS} steps and nodes")));
    }
    let is_time = |seconds: f64| (0.0..=1e9).contains(&seconds);
    if let Some(step) = steps.iter().find(|step| !is_time(step.start) || !is_time(step.seconds)) {
        return Err(Error::new(format!("the time of its step '{}' is not a time", one_line(&step.kernel))));
    }
    let clean = |step: StepTime| StepTime {
        kernel: one_line(&step.kernel),
        nodes: step.nodes.iter().map(|node| one_line(node)).collect(),
        ..step
    };
    Ok(steps.into_iter().map(clean).collect())
}

/// Errors where a region has more candidates than anybody tries, or they have more bytes than memory should hold.
pub(super) fn few_candidates(candidates: usize, bytes: usize) -> Result<(), Error> {
    if candidates > MOST_CANDIDATES {
        return Err(Error::new(format!("it has more than {MOST_CANDIDATES} candidates")));
    }
    if bytes > MOST_BYTES {
        return Err(Error::new(format!("its candidates have more than {MOST_BYTES} bytes")));
    }
    Ok(())
}

/// The answer of [`crate::Backend::tools`] with each of its texts in one line. Errors where there are too many, one has
/// no name, or two have the same.
pub(super) fn checked_tools(tools: Vec<Tool>) -> Result<Vec<Tool>, Error> {
    if tools.len() > MOST_TOOLS {
        return Err(Error::new(format!("it names more than {MOST_TOOLS} tools")));
    }
    let clean = |tool: Tool| Tool {
        name: one_line(&tool.name),
        found: tool.found.as_deref().map(one_line),
        hint: tool.hint.as_deref().map(one_line),
        needed_for: one_line(&tool.needed_for),
    };
    let tools: Vec<_> = tools.into_iter().map(clean).collect();
    distinct("tool", tools.iter().map(|tool| tool.name.as_str()))?;
    Ok(tools)
}

/// The answer of [`crate::Backend::candidates`] for that code, with names of one line. Errors where there are too many,
/// one has no name, two have the same, or the first one is other code.
pub fn checked_candidates(candidates: Vec<Candidate>, code: &[u8]) -> Result<Vec<Candidate>, Error> {
    let size = |candidate: &Candidate| candidate.name.len().saturating_add(candidate.code.len());
    let bytes = candidates.iter().fold(0usize, |bytes, candidate| bytes.saturating_add(size(candidate)));
    few_candidates(candidates.len(), bytes)?;
    let clean = |candidate: Candidate| Candidate { name: one_line(&candidate.name), ..candidate };
    let candidates: Vec<_> = candidates.into_iter().map(clean).collect();
    distinct("candidate", candidates.iter().map(|candidate| candidate.name.as_str()))?;
    match candidates.first() {
        Some(first) if first.code != code => {
            Err(Error::new(format!("its first candidate, '{}', is not the code it was asked about", first.name)))
        }
        _ => Ok(candidates),
    }
}

fn distinct<'a>(kind: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut known = HashSet::new();
    for name in names {
        if name.is_empty() {
            return Err(Error::new(format!("a {kind} has no name")));
        }
        if !known.insert(name) {
            return Err(Error::new(format!("two {kind}s are called '{name}'")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str) -> Tool {
        Tool { name: name.into(), needed_for: "compiling".into(), ..Tool::default() }
    }

    fn candidate(name: &str, code: &[u8]) -> Candidate {
        Candidate { name: name.into(), code: code.to_vec() }
    }

    #[test]
    fn texts_are_one_line_each() {
        let told =
            Tool { found: Some("12.9\nin /opt".into()), hint: Some("\u{1b}[1minstall".into()), ..tool("nvrtc\r") };
        let tools = checked_tools(vec![told]).expect("sound");
        let [Tool { name, found, hint, .. }] = tools.as_slice() else { panic!("one") };
        assert_eq!((name.as_str(), found.as_deref()), ("nvrtc", Some("12.9 in /opt")));
        assert_eq!(hint.as_deref(), Some("[1minstall"));
        let candidates = checked_candidates(vec![candidate("64x64\n", b"code")], b"code").expect("sound");
        assert_eq!(candidates, [candidate("64x64", b"code")]);
        assert_eq!(checked_candidates(Vec::new(), b"code"), Ok(Vec::new()));
    }

    #[test]
    fn steps_have_times_and_texts_of_one_line() {
        let step = |kernel: &str, start, seconds| StepTime {
            kernel: kernel.into(),
            nodes: vec!["a\nb".into()],
            indices: vec![1],
            start,
            seconds,
            ..StepTime::default()
        };
        let steps = checked_steps(vec![step("conv\n", 0.0, 1.0)]).expect("sound");
        assert_eq!((steps[0].kernel.as_str(), steps[0].nodes[0].as_str()), ("conv", "a b"));
        for (start, seconds) in [(-1.0, 0.0), (0.0, f64::NAN), (f64::INFINITY, 0.0)] {
            let error = checked_steps(vec![step("conv", start, seconds)]).expect_err("no time");
            assert_eq!(error.message, "the time of its step 'conv' is not a time");
        }
        let error = checked_steps(vec![step("conv", 0.0, 0.0); 1 << 20]).expect_err("too many");
        assert_eq!(error.message, "it tells more than 1048576 steps and nodes");
    }

    #[test]
    fn contradictions_are_errors() {
        let message = |result: Result<Vec<Tool>, Error>| result.expect_err("wrong").message;
        assert_eq!(message(checked_tools(vec![tool("\n")])), "a tool has no name");
        assert_eq!(message(checked_tools(vec![tool("a"), tool("a\n")])), "two tools are called 'a'");
        assert_eq!(message(checked_tools(vec![tool("a"); 257])), "it names more than 256 tools");
        let message = |candidates| checked_candidates(candidates, b"code").expect_err("wrong").message;
        assert_eq!(message(vec![candidate("", b"code")]), "a candidate has no name");
        assert_eq!(message(vec![candidate("a", b"code"), candidate("a", b"b")]), "two candidates are called 'a'");
        assert_eq!(message(vec![candidate("a", b"code"); 257]), "it has more than 256 candidates");
        assert_eq!(
            message(vec![candidate("b", b"b"), candidate("a", b"code")]),
            "its first candidate, 'b', is not the code it was asked about"
        );
    }
}
