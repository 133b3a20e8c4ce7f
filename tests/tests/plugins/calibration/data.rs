//! Compiling for the backend that writes down what it is told, and reading what it wrote.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use byoc_core::artifact::Artifact;
use byoc_core::calibrate::{Dataset, Input, Samples};
use byoc_core::compile::{self, Request, Silent};
use byoc_core::diagnostic::{Diagnostic, Result};
use byoc_core::plugin::{Isolation, Registry, SearchPath};
use byoc_json_backend as _;
use byoc_plugin_api::{Observed, Region};
use byoc_tests::folder::Folder;
use byoc_tests::places;
use byoc_tests::program::{self, Outcome};

/// The plugin's path.
pub(crate) fn calibrated() -> String {
    places::plugin("calibrated").to_str().expect("a plain path").to_owned()
}

/// Compiles `model.onnx` for `calibrated`, and for the embedded backend what it leaves over.
pub(crate) fn compile(folder: &Folder, arguments: &[&str]) -> Outcome {
    let plugin = calibrated();
    let always = ["compile", "model.onnx", "-o", "model.byoc", "--plugin", &plugin, "--backend", "calibrated,json"];
    folder.byoc(&[&always[..], arguments].concat())
}

/// The regions of `model.byoc` as `calibrated` was given them.
pub(crate) fn regions(folder: &Folder) -> Vec<Region> {
    let artifact = Artifact::open(&folder.path().join("model.byoc")).expect("opens");
    let watched = artifact.manifest().regions.iter().filter(|region| region.backend == "calibrated");
    let code = watched.map(|region| artifact.section(&region.code).expect("the region has code"));
    code.map(|code| serde_json::from_slice(&code).expect("a region")).collect()
}

/// What was observed of the value of that name.
#[track_caller]
pub(crate) fn observed<'a>(region: &'a Region, name: &str) -> &'a Observed {
    let value = region.values.iter().position(|value| value.name == name).expect("a value of that name");
    region.observed(value).expect("it was observed")
}

/// A data set of ones that counts how often a sample is asked for.
#[derive(Default)]
pub(crate) struct Counting {
    loads: Rc<Cell<usize>>,
}

impl Counting {
    pub(crate) const SAMPLES: usize = 3;

    pub(crate) fn loads(&self) -> Rc<Cell<usize>> {
        self.loads.clone()
    }
}

impl Dataset for Counting {
    fn name(&self) -> String {
        "counting".into()
    }

    fn open(&self, inputs: &[Input], _: &mut dyn FnMut(Diagnostic)) -> Result<Box<dyn Samples + '_>> {
        let elements = inputs.iter().map(|input| input.shape.iter().product()).collect();
        Ok(Box::new(Ones { elements, loads: self.loads.clone() }))
    }
}

struct Ones {
    elements: Vec<usize>,
    loads: Rc<Cell<usize>>,
}

impl Samples for Ones {
    fn count(&self) -> usize {
        Counting::SAMPLES
    }

    fn name(&self, sample: usize) -> String {
        sample.to_string()
    }

    /// Ones, and twos in the last sample.
    fn load(&self, sample: usize) -> Result<Vec<Vec<u8>>> {
        self.loads.set(self.loads.get() + 1);
        let element = if sample + 1 == Counting::SAMPLES { 2f32 } else { 1.0 };
        Ok(self.elements.iter().map(|&count| element.to_le_bytes().repeat(count)).collect())
    }
}

/// Compiles `model.onnx` for `calibrated` and, where that is another, for `host`, which runs the model over the data set. Only
/// plugins are in other processes; when one crashes its nodes go to the next backend.
pub(crate) fn compile_in_process(
    folder: &Folder,
    dataset: Counting,
    host: &str,
    settings: &[(&str, &str)],
) -> Result<()> {
    let isolation = Isolation {
        program: program::path().to_owned(),
        arguments: vec!["__worker".into()],
        time: Duration::from_secs(60),
        memory: 0,
        output: 0,
        runs: false,
    };
    let files = vec![places::plugin("calibrated"), places::plugin("hostile")];
    let search = SearchPath { files, ..SearchPath::default() };
    let registry = Registry::discover(&search, &byoc_plugin_api::registered(), Some(&isolation))?;
    let settings: Vec<_> = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let backends = registry.select(&["calibrated".into(), host.into()], &settings)?;
    let request = Request {
        calibration: Some(Box::new(dataset)),
        folding_backend: backends.last().cloned(),
        fallback_on_crash: true,
        ..Request::new(vec![("main".into(), folder.path().join("model.onnx"))], backends)
    };
    compile::compile(&request, &folder.path().join("model.byoc"), &mut Silent).map(drop)
}
