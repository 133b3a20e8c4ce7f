//! Answers of a worker: a process that writes the frames of the input for any request is used by a compile.

use std::path::PathBuf;
use std::time::Duration;

use byoc_core::plugin::{Isolation, Registry, SearchPath};
use byoc_plugin_api::{ABI_VERSION, Claim, Description, Pattern, registered};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{Target, json as text, models, run};

pub(crate) const TARGET: Target =
    Target { name: "worker", seeds, run: |input| take(input).is_some(), mutate: text::bytes };

/// Longest time that a worker may be silent: it never is.
const SILENCE: Duration = Duration::from_secs(5);

/// The worker: it says all that it has to say at once, and listens until the host hangs up.
const PROGRAM: &str = "cat \"$0\" >&0; exec cat >/dev/null";

/// A frame of no kind: what comes last, so that the host does not wait for more.
const END: [u8; 5] = [9, 0, 0, 0, 0];

/// Which of the models is compiled, and what the worker says.
#[derive(Serialize, Deserialize)]
struct Answers {
    model: usize,
    frames: Vec<Frame>,
}

/// A frame: a message, bytes, or an end with a status and an error; with a length that need not be that of its contents.
#[derive(Serialize, Deserialize)]
struct Frame {
    kind: u8,
    contents: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length: Option<u32>,
}

impl Frame {
    fn write(&self, out: &mut Vec<u8>) {
        let bytes = match (&self.contents, self.kind) {
            (Value::String(text), 1) => text.clone().into_bytes(),
            (Value::Array(end), 2) => {
                let status = end.first().and_then(Value::as_i64).unwrap_or_default() as i32;
                let error = end.get(1).and_then(Value::as_str).unwrap_or_default();
                [&status.to_le_bytes(), error.as_bytes()].concat()
            }
            (message, _) => message.to_string().into_bytes(),
        };
        out.push(self.kind);
        out.extend_from_slice(&self.length.unwrap_or(bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&bytes);
    }
}

fn take(input: &[u8]) -> Option<()> {
    let answers: Answers = serde_json::from_slice(input).ok()?;
    let mut wire = Vec::new();
    answers.frames.iter().for_each(|frame| frame.write(&mut wire));
    wire.extend_from_slice(&END);
    let path = models::place("frames");
    std::fs::write(&path, wire).ok()?;
    let isolation = Isolation {
        program: PathBuf::from("/bin/sh"),
        arguments: ["-c".into(), PROGRAM.into(), path.into_os_string()].into(),
        time: SILENCE,
        memory: 0,
        output: 1 << 24,
        runs: false,
    };
    // Only the worker opens it.
    let search = SearchPath { files: vec![models::place("plugin.so")], ..SearchPath::default() };
    let registry = Registry::discover(&search, &registered(), Some(&isolation)).ok()?;
    let name = registry.backends.first()?.description.name.clone();
    let all = models::all();
    let model = all[answers.model % all.len()].finish();
    let artifact = models::compiled(&model, &registry, &[&name, "json"]).ok()?;
    run::check(&artifact).ok().map(drop)
}

fn seeds() -> Vec<Vec<u8>> {
    let claims = [Claim::Host, Claim::Embedded, Claim::Unused];
    claims.iter().enumerate().map(|(index, claim)| serde_json::to_vec(&seed(index, claim)).expect("JSON")).collect()
}

fn seed(model: usize, claim: &Claim) -> Answers {
    let description = Description { name: "parrot".into(), ..Description::default() };
    let patterns = [Pattern::new("product", "(Gemm|MatMul ?x ?w:const ?c?)")];
    let frame = |kind, contents| Frame { kind, contents, length: None };
    let answer = |value: Value| frame(1, value.to_string().into());
    let end = || frame(2, json!([0, ""]));
    let identity =
        json!({"name": "parrot", "version": "1", "abi_version": ABI_VERSION, "backends": 1, "manifest": null});
    // To being opened, `describe`, `patterns`, `check` and `codegen`.
    let mut frames = vec![frame(0, json!({"Ok": identity})), end()];
    frames.extend([
        answer(json!(description)),
        end(),
        answer(json!(patterns)),
        end(),
        end(),
        answer("code".into()),
        end(),
    ]);
    // A product has a weight, and a bias or none.
    let constants = if model < 2 { 1 } else { 2 };
    frames.extend((0..constants).map(|id| frame(0, json!({"id": id, "claim": claim}))));
    frames.push(end());
    Answers { model, frames }
}
