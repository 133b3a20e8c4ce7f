//! Every region of an entry by itself, on values that a reference has computed: an error in one neither hides one in another nor
//! causes it. No more values are kept than are still to be read.

use std::collections::{BTreeMap, HashMap};

use byoc_core::artifact::manifest::{Control, Entry, Manifest, Region};
use byoc_core::artifact::{Artifact, NodeSummary};
use byoc_core::diagnostic::Result;
use byoc_core::dim;
use byoc_core::runtime::SingleCalls;
use byoc_plugin_api::Dim;
use serde::Serialize;

use crate::compare::{Comparison, Tolerance, Tolerances};
use crate::lists::Given;
use crate::outputs;
use crate::tensor::Tensor;

/// Computes values of the model by other means.
pub trait Reference {
    /// Whether the model has a value of that name.
    fn has(&self, value: &str) -> bool;

    /// The names of what a node gives, as it has them in ONNX, none for what is not used; nothing where the model has no such node.
    fn outputs_of(&self, node: &str) -> Vec<Option<String>>;

    /// The values of these names, from others.
    fn compute(&mut self, inputs: &[(&str, &Given)], outputs: &[&str]) -> Result<Vec<(String, Tensor)>>;
}

/// A region, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// Its symbol.
    #[serde(rename = "region")]
    pub symbol: String,
    /// Its backend.
    pub backend: String,
    /// The operators that it stands for.
    pub nodes: Vec<NodeSummary>,
    /// Each of its outputs beside the reference; empty where they are not compared.
    pub outputs: Vec<Comparison>,
    /// Why it is not compared, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_compared: Option<String>,
    /// What it was given, if it is the first that differs and this was wanted.
    #[serde(skip)]
    pub inputs: Vec<(String, Tensor)>,
}

impl Checked {
    fn new(region: &Region, artifact: &Artifact) -> Result<Checked> {
        Ok(Checked {
            symbol: region.symbol.clone(),
            backend: region.backend.clone(),
            nodes: artifact.nodes_of(region)?.to_vec(),
            outputs: Vec::new(),
            not_compared: None,
            inputs: Vec::new(),
        })
    }

    /// Whether all of its outputs are what was expected, as far as they are compared.
    pub fn holds(&self) -> bool {
        self.outputs.iter().all(Comparison::holds)
    }
}

/// What is checked.
pub struct Request<'a> {
    /// The artifact.
    pub artifact: &'a Artifact,
    /// The entry.
    pub entry: &'a Entry,
    /// How far values may be apart.
    pub tolerances: &'a Tolerances,
    /// Whether the inputs of the first region that differs are kept.
    pub keep_inputs: bool,
}

/// Runs every region of the entry on the reference's values, in the order in which the entry runs them. `inputs` are those of the
/// entry; `progress` is called as [`Observer::progress`](byoc_core::compile::Observer::progress).
pub fn check(
    request: &Request<'_>,
    calls: &mut SingleCalls<'_>,
    reference: &mut dyn Reference,
    inputs: Vec<Given>,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Vec<Checked>> {
    let (manifest, entry) = (request.artifact.manifest(), request.entry);
    let steps = steps(entry);
    let mut values = Values::new(request, reference, &steps);
    for (port, given) in entry.inputs.iter().zip(inputs) {
        values.keep(port.value, given);
    }
    let mut checked = Vec::new();
    let mut differs = false;
    for (position, step) in steps.iter().enumerate() {
        match step {
            Step::Control(control) => values.control(control, reference)?,
            Step::Call(index) => {
                let region = &manifest.regions[entry.calls[*index].region];
                progress(position, steps.len(), &region.symbol);
                let mut row = values.call(*index, region, calls, reference)?;
                if request.keep_inputs && !differs && !row.holds() {
                    row.inputs = values.inputs_of(*index);
                }
                differs |= !row.holds();
                checked.push(row);
            }
        }
        values.release(position);
    }
    let bodies = manifest.with_bodies(entry).into_iter().skip(1);
    for call in bodies.flat_map(|body| &body.calls) {
        checked.push(of_body(&manifest.regions[call.region], request.artifact)?);
    }
    request.tolerances.check(values.compared.iter().map(String::as_str))?;
    Ok(checked)
}

fn of_body(region: &Region, artifact: &Artifact) -> Result<Checked> {
    let reason = "it is in a body of control flow: each iteration has values of its own";
    Ok(Checked { not_compared: Some(reason.into()), ..Checked::new(region, artifact)? })
}

/// What runs one after the other.
#[derive(Clone, Copy)]
enum Step<'a> {
    /// The call of that index.
    Call(usize),
    Control(&'a Control),
}

fn steps(entry: &Entry) -> Vec<Step<'_>> {
    let mut control = entry.control.iter().peekable();
    let mut steps = Vec::new();
    for index in 0..=entry.calls.len() {
        while let Some(control) = control.next_if(|control| control.before <= index) {
            steps.push(Step::Control(control));
        }
        if index < entry.calls.len() {
            steps.push(Step::Call(index));
        }
    }
    steps
}

/// The values of the reference that are still to be read.
struct Values<'a> {
    request: &'a Request<'a>,
    /// The name of each value in the model.
    names: Vec<String>,
    /// The last step that reads each value.
    last: HashMap<usize, usize>,
    here: BTreeMap<usize, Given>,
    /// Why a value has none.
    missing: HashMap<usize, String>,
    /// Sizes of symbols.
    sizes: HashMap<String, usize>,
    /// The values that were compared.
    compared: Vec<String>,
}

impl<'a> Values<'a> {
    fn new(request: &'a Request<'a>, reference: &dyn Reference, steps: &[Step<'_>]) -> Values<'a> {
        let (manifest, entry) = (request.artifact.manifest(), request.entry);
        let mut last = HashMap::new();
        for (position, step) in steps.iter().enumerate() {
            let read = match step {
                Step::Call(index) => &entry.calls[*index].inputs,
                Step::Control(control) => &control.inputs,
            };
            last.extend(read.iter().map(|&value| (value, position)));
        }
        let (here, missing, sizes) = (BTreeMap::new(), HashMap::new(), HashMap::new());
        let names = names(manifest, entry, reference);
        Values { request, names, last, here, missing, sizes, compared: Vec::new() }
    }

    /// Keeps a value for those that read it, and what its shape tells.
    fn keep(&mut self, value: usize, given: Given) {
        let ty = &self.request.entry.values[value];
        match (&ty.list, &given) {
            (None, Given::Tensor(tensor)) => {
                for (size, &found) in ty.shape.iter().zip(tensor.shape()) {
                    if let (Dim::Symbolic(text), Ok(found)) = (size, usize::try_from(found)) {
                        // What one value does not tell, another one may.
                        let _ = dim::bind(text, found, &mut self.sizes);
                    }
                }
                if self.last.contains_key(&value) {
                    self.here.insert(value, given);
                }
            }
            _ => drop(self.missing.insert(value, "it is a sequence or an optional".into())),
        }
    }

    fn release(&mut self, position: usize) {
        let last = &self.last;
        self.here.retain(|value, _| last.get(value).is_some_and(|&last| last > position));
    }

    /// Why these values cannot all be given, if they cannot.
    fn lacking(&self, values: &[usize]) -> Option<String> {
        let constants = &self.request.entry.constants;
        let lacks = |value: &&usize| !self.here.contains_key(value) && constants.iter().all(|it| it.value != **value);
        values.iter().find(lacks).map(|value| {
            let why = self.missing.get(value).map_or("nothing computes it", String::as_str);
            format!("it reads '{}', of which there is no reference: {why}", self.names[*value])
        })
    }

    /// Those of the values that are here, by name.
    fn given(&self, values: &[usize]) -> Vec<(&str, &Given)> {
        let named = |value: &usize| Some((self.names[*value].as_str(), self.here.get(value)?));
        values.iter().filter_map(named).collect()
    }

    /// The tensors that a call reads.
    fn inputs_of(&self, index: usize) -> Vec<(String, Tensor)> {
        let tensor = |(name, given): (&str, &Given)| match given {
            Given::Tensor(tensor) => Some((name.to_owned(), tensor.clone())),
            _ => None,
        };
        self.given(&self.request.entry.calls[index].inputs).into_iter().filter_map(tensor).collect()
    }

    /// The reference's values of what a step gives; the reason where there are none.
    fn expected(
        &self,
        inputs: &[usize],
        outputs: &[usize],
        reference: &mut dyn Reference,
    ) -> Result<std::result::Result<Vec<(String, Tensor)>, String>> {
        if let Some(reason) = self.lacking(inputs) {
            return Ok(Err(reason));
        }
        if let Some(list) = outputs.iter().find(|value| self.request.entry.values[**value].list.is_some()) {
            return Ok(Err(format!("'{}' is a sequence or an optional", self.names[*list])));
        }
        let names: Vec<&str> = outputs.iter().map(|&value| self.names[value].as_str()).collect();
        if let Some(name) = names.iter().find(|name| !reference.has(name)) {
            return Ok(Err(format!("the model has no value '{name}'")));
        }
        reference.compute(&self.given(inputs), &names).map(Ok)
    }

    fn miss(&mut self, outputs: &[usize], reason: &str) {
        self.missing.extend(outputs.iter().map(|&value| (value, reason.to_owned())));
    }

    fn control(&mut self, control: &Control, reference: &mut dyn Reference) -> Result<()> {
        let outputs: Vec<usize> = control.outputs.iter().flatten().copied().collect();
        let found = self.expected(&control.inputs, &outputs, reference);
        match found.map_err(|error| error.within(format!("'{}' by reference kernels", control.name)))? {
            Ok(tensors) => {
                outputs.into_iter().zip(tensors).for_each(|(value, (_, it))| self.keep(value, Given::Tensor(it)));
            }
            Err(reason) => self.miss(&outputs, &reason),
        }
        Ok(())
    }

    fn call(
        &mut self,
        index: usize,
        region: &Region,
        calls: &mut SingleCalls<'_>,
        reference: &mut dyn Reference,
    ) -> Result<Checked> {
        let entry = self.request.entry;
        let call = &entry.calls[index];
        let mut row = Checked::new(region, self.request.artifact)?;
        let expected = self.expected(&call.inputs, &call.outputs, reference);
        let expected =
            match expected.map_err(|error| error.within(format!("region {} by reference kernels", region.symbol)))? {
                Ok(expected) => expected,
                Err(reason) => {
                    self.miss(&call.outputs, &reason);
                    row.not_compared = Some(reason);
                    return Ok(row);
                }
            };
        let mut session = calls.load(entry, index, &self.sizes)?;
        let given: Vec<&Given> = call.inputs.iter().filter_map(|value| self.here.get(value)).collect();
        let handles = given.iter().map(|given| given.give(&mut session)).collect::<Result<Vec<_>>>()?;
        let views = given.iter().zip(&handles).map(|(given, handles)| given.view(handles));
        session.run(&views.collect::<Result<Vec<_>>>()?)?;
        let found = outputs::collect(&session)?;
        drop(session);
        let all = Tolerance { declared: region.precision, ..self.request.tolerances.all };
        let tolerances = Tolerances { all, ..self.request.tolerances.clone() };
        for ((name, expected), (_, found)) in expected.iter().zip(&found) {
            row.outputs.push(Comparison::of(name, found, expected, tolerances.of(name)));
            self.compared.push(name.clone());
        }
        for (&value, (_, tensor)) in call.outputs.iter().zip(expected) {
            self.keep(value, Given::Tensor(tensor));
        }
        Ok(row)
    }
}

/// The name of each value of an entry in the model.
fn names(manifest: &Manifest, entry: &Entry, reference: &dyn Reference) -> Vec<String> {
    let mut names = vec![String::new(); entry.values.len()];
    for control in &entry.control {
        for (value, name) in control.outputs.iter().zip(reference.outputs_of(&control.name)) {
            if let (&Some(value), Some(name)) = (value, name) {
                names[value] = name;
            }
        }
    }
    for call in &entry.calls {
        let region = &manifest.regions[call.region];
        let own = call.inputs.iter().zip(&region.inputs).chain(call.outputs.iter().zip(&region.outputs));
        own.for_each(|(&value, info)| names[value].clone_from(&info.name));
    }
    for port in entry.inputs.iter().chain(&entry.outputs) {
        names[port.value].clone_from(&port.name);
    }
    names
}
