//! Brings the graph of a case to its stage and says what came out: the text of the stage, warnings, or the error.

use std::fmt::Write;

use byoc_core::artifact::{Artifact, Ledger};
use byoc_core::compile::{self, Observer, Request, Stage};
use byoc_core::diagnostic::Diagnostic;
use byoc_core::ir::{self, Model};
use byoc_core::partition;
use byoc_core::plugin::{Origin, Registered, Selected, embedded};
use byoc_plugin_api::{ABI_VERSION, Backend, Options};
use byoc_tests::{engine, places};

use super::backend::Scripted;
use super::case::Case;
use super::onnx;

/// What comes of a case.
pub(crate) fn run(case: &Case) -> Result<String, String> {
    const BACKENDS: [&str; 3] = ["backend", "claim", "code"];
    match case.stage.as_str() {
        "import" => import(case),
        "infer" => stages(case, Stage::Passes, &["declared", "backend", "operator"]),
        "fold" => stages(case, Stage::Passes, &["fold"]),
        "partition" => partitioned(case),
        "claims" => stages(case, Stage::Codegen, &BACKENDS),
        "settle" => stages(case, Stage::Ownership, &[&BACKENDS[..], &["allow-duplicates", "fold"]].concat()),
        "ledger" => ledger(case),
        other => Err(format!("there is no stage '{other}'")),
    }
}

/// Collects what a stage has to show.
struct Collector {
    stage: Stage,
    text: String,
    warnings: String,
}

impl Collector {
    fn new(stage: Stage) -> Collector {
        Collector { stage, text: String::new(), warnings: String::new() }
    }

    fn finish(self, outcome: Result<(), Diagnostic>) -> String {
        match outcome {
            Ok(()) => self.text + &self.warnings,
            Err(error) => format!("{}error: {error}\n", self.warnings),
        }
    }
}

/// The model of a text form, which can be read and gives the same text again; `None` where the text is of something else, or
/// has constants whose bytes it does not show.
fn reads_back(text: &str) -> Option<Model> {
    if !text.starts_with("entry ") || text.contains(" #") {
        return None;
    }
    let model = ir::read(text, &|_, _| None).unwrap_or_else(|error| panic!("{error} in\n{text}"));
    assert_eq!(ir::print(&model), text);
    Some(model)
}

impl Observer for Collector {
    fn dump(&mut self, stage: Stage, text: &dyn Fn() -> String) {
        if stage == self.stage {
            self.text = text();
        }
    }

    fn warning(&mut self, warning: &Diagnostic) {
        let _ = writeln!(self.warnings, "warning: {warning}");
    }
}

/// Writes each entry as an ONNX file and imports them.
fn import(case: &Case) -> Result<String, String> {
    case.only(&["opset", "shape", "dim", "backend", "operator"])?;
    let opset =
        case.all("opset").next().map_or(Ok(21), |version| version.parse().map_err(|_| "an opset is a number"))?;
    let folder = places::temporary();
    let write = |graph| {
        let path = folder.path().join(format!("{}.onnx", case.model.entries.len()));
        places::write(folder.path(), path.to_str().unwrap_or_default(), onnx::file(&case.model, graph, opset))
    };
    let sources = case.model.entries.iter().map(|graph| (graph.name.clone(), write(graph))).collect();
    let mut request = Request::new(sources, request(case)?.0.backends);
    for setting in case.all("shape") {
        let (name, sizes) = setting.split_once(' ').ok_or("a shape is of an input")?;
        let sizes = sizes.split('x').map(|size| size.parse().map_err(|_| format!("'{size}' is not a size")));
        request.import.shapes.push((name.to_owned(), sizes.collect::<Result<_, _>>()?));
    }
    for setting in case.all("dim") {
        let (name, size) = setting.rsplit_once(' ').ok_or("a dim has a size")?;
        request.import.dims.push((name.to_owned(), size.parse().map_err(|_| format!("'{size}' is not a size"))?));
    }
    let mut collector = Collector::new(Stage::Onnx);
    let outcome = compile::compile_until(&request, Stage::Onnx, &mut collector);
    reads_back(&collector.text);
    Ok(collector.finish(outcome))
}

fn stages(case: &Case, last: Stage, settings: &[&str]) -> Result<String, String> {
    case.only(settings)?;
    let (mut request, _) = request(case)?;
    let mut collector = Collector::new(last);
    let outcome = compile::compile_until(&request, last, &mut collector);
    if let Some(model) = reads_back(&collector.text) {
        request.model = Some(model);
        let mut again = Collector::new(last);
        compile::compile_until(&request, last, &mut again).map_err(|error| format!("once more: {error}"))?;
        assert_eq!(again.text, collector.text, "what is done once more changes nothing");
    }
    Ok(collector.finish(outcome))
}

/// The regions, then who refused which node, and how often backends were asked.
fn partitioned(case: &Case) -> Result<String, String> {
    case.only(&["backend", "operator", "pattern", "asked", "fold"])?;
    let (request, scripted) = request(case)?;
    let mut collector = Collector::new(Stage::Partition);
    let outcome = compile::partitioned(&request, &mut collector);
    let mut refused = String::new();
    let outcome = outcome.map(|partitioned| {
        for row in partition::explain(&partitioned, &request.backends) {
            for (backend, reason) in row.refused {
                let _ = writeln!(refused, "{backend} refuses {}: {reason}", row.node);
            }
        }
    });
    if case.has("asked") {
        scripted
            .iter()
            .for_each(|backend| refused += &format!("{} was asked {} times\n", backend.name(), backend.asked()));
    }
    Ok(collector.finish(outcome) + &refused)
}

/// The whole file: its ledger's sums and rows, which must be what the compile has reported.
fn ledger(case: &Case) -> Result<String, String> {
    case.only(&["backend", "claim", "code", "allow-duplicates", "fold"])?;
    let (request, _) = request(case)?;
    let folder = places::temporary();
    let path = folder.path().join("m.byoc");
    let report = match compile::compile(&request, &path, &mut Collector::new(Stage::Artifact)) {
        Ok(report) => report,
        Err(error) => return Ok(format!("error: {error}\n")),
    };
    let artifact = Artifact::open(&path).map_err(|error| error.to_string())?;
    artifact.verify_digests().map_err(|error| error.to_string())?;
    let rows = artifact.ledger().map_err(|error| error.to_string())?;
    if Ledger::of(artifact.manifest(), rows) != report.ledger {
        return Err("the ledger of the file is not that of the report".into());
    }
    let totals = report.ledger.totals;
    let mut text = format!("{totals:?}, saved: {}\n", totals.saved()).replace("Totals { ", "").replace(" }", "");
    for row in report.ledger.rows {
        let _ = write!(text, "{} {} {:?}", row.id, row.names.join(" "), row.fate);
        let _ = write!(text, ", {} B, {} B in the model", row.bytes, row.model_bytes);
        let mut add = |what: &str, value: String| {
            if !value.is_empty() {
                let _ = write!(text, ", {what} {value}");
            }
        };
        add("transposed", row.transposed.join(" "));
        add("in", row.stored.map(|stored| format!("const/{stored}")).unwrap_or_default());
        add("owned by", row.owner.unwrap_or_default());
        add("read by", row.readers.join(" "));
        add("compiled into", row.compiled_in.join(" "));
        add("note:", row.note.unwrap_or_default());
        text.push('\n');
    }
    Ok(text)
}

/// The request of a case, and the backends that its file describes.
fn request(case: &Case) -> Result<(Request, Vec<&'static Scripted>), String> {
    let (mut backends, mut scripted) = (Vec::new(), Vec::new());
    for line in case.all("backend") {
        if line == "json" {
            backends.push(json());
            continue;
        }
        let backend: &'static Scripted = Box::leak(Box::new(Scripted::parse(line, case)?));
        let registered = Registered {
            description: backend.describe(),
            origin: Origin::Embedded,
            abi_version: ABI_VERSION,
            backend: embedded(backend).map_err(|error| error.to_string())?,
        };
        backends.push(Selected { registered, options: Options::default() });
        scripted.push(backend);
    }
    let mut request = Request::new(Vec::new(), backends);
    request.model = Some(case.model.clone());
    request.folding_backend = (case.stage == "fold" || case.has("fold")).then(json);
    request.allow_duplicates = case.has("allow-duplicates");
    Ok((request, scripted))
}

fn json() -> Selected {
    engine::embedded().select(&["json".to_owned()], &[]).expect("json is embedded").remove(0)
}
