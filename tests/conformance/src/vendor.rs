//! What a vendor adds: models of its own, and failures that it knows of, in TOML files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use byoc_core::compile::wildcard;
use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_plugin_api::{Allowance, Attribute, DType, Operator, to_hex};
use serde::Deserialize;

use crate::bench::Source;
use crate::data;
use crate::onnx::{Fill, Model};
use crate::report::{Case, Report, Tag};

/// How the reason begins for which a case cannot be asked on this machine, whatever the backend says.
pub(crate) const NOT_HERE: &str = "it cannot be asked here";

/// A file as it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    case: Vec<VendorCase>,
    #[serde(default)]
    expect: Vec<Expectation>,
}

/// A case of the vendor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VendorCase {
    pub(crate) name: String,
    /// The only backend to try it on.
    pub(crate) backend: Option<String>,
    /// A model file, from the folder of this file.
    model: Option<PathBuf>,
    /// Sizes of symbolic dimensions.
    #[serde(default)]
    dims: BTreeMap<String, usize>,
    /// An operator, in place of a model file.
    op: Option<String>,
    #[serde(default)]
    domain: String,
    #[serde(default)]
    inputs: Vec<Operand>,
    #[serde(default)]
    attributes: BTreeMap<String, toml::Value>,
    tolerance: Option<Difference>,
    /// What is to come of it.
    #[serde(default)]
    expect: Expected,
    reason: Option<String>,
}

/// An input of the operator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operand {
    dtype: DType,
    shape: Vec<usize>,
    /// Whether it is part of the model.
    #[serde(default)]
    constant: bool,
    /// The elements; makes it part of the model.
    values: Option<Vec<f64>>,
    /// Integers from 0 up to and without this.
    below: Option<i64>,
}

/// An attribute that is a tensor.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Elements {
    dtype: DType,
    shape: Vec<usize>,
    values: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    #[serde(default)]
    absolute: f64,
    #[serde(default)]
    relative: f64,
    /// The least ratio of signal to noise of the whole tensor in dB, in place of the other two.
    noise_db: Option<f64>,
}

impl Difference {
    fn allowed(&self) -> Allowance {
        let Difference { absolute, relative, noise_db } = *self;
        noise_db.map_or(Allowance::Elements { absolute, relative }, Allowance::NoiseDb)
    }
}

/// What is to come of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Expected {
    #[default]
    Pass,
    Fail,
    Unsupported,
}

/// What is to come of cases of that name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    /// The name of the case; `*` stands for any characters.
    case: String,
    /// The only backend it is about.
    backend: Option<String>,
    result: Option<Expected>,
    /// What difference is allowed in its results.
    tolerance: Option<Difference>,
    reason: Option<String>,
}

impl Expectation {
    fn is_for(&self, backend: &str, case: &str) -> bool {
        self.backend.as_ref().is_none_or(|name| name == backend) && (self.case == case || wildcard(&self.case, case))
    }
}

/// The vendor's files.
#[derive(Clone, Debug, Default)]
pub struct Vendor {
    /// Each case with the folder of its file.
    pub(crate) cases: Vec<(PathBuf, VendorCase)>,
    /// What is expected of these.
    of_cases: Vec<Expectation>,
    /// What is expected of others.
    expectations: Vec<Expectation>,
}

impl Vendor {
    /// Reads files, and every `.toml` file of folders. Errors name the file and the place in it.
    pub fn read(places: &[PathBuf]) -> Result<Vendor> {
        let mut vendor = Vendor::default();
        for place in places {
            let mut files = vec![place.clone()];
            if place.is_dir() {
                let entries =
                    std::fs::read_dir(place).map_err(|error| Diagnostic::io(place, "list the folder", &error))?;
                files = entries.flatten().map(|entry| entry.path()).filter(|path| is_toml(path)).collect();
                files.sort();
            }
            for file in files {
                vendor.read_file(&file)?;
            }
        }
        Ok(vendor)
    }

    fn read_file(&mut self, path: &Path) -> Result<()> {
        let text = std::fs::read_to_string(path).map_err(|error| Diagnostic::io(path, "read", &error))?;
        let bad = |cause: String| {
            Diagnostic::new(Code::Usage, format!("'{}' is not a file of cases: {cause}", path.display()))
                .hint("`docs/writing-a-backend.md` shows one")
        };
        let file: File = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            bad(format!("line {line}: {}", error.message().replace('\n', " ")))
        })?;
        let unclear = file.case.iter().find(|case| case.model.is_some() == case.op.is_some());
        if let Some(case) = unclear {
            return Err(bad(format!("case '{}' needs either a model or an op", case.name)));
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        for case in file.case {
            self.of_cases.push(Expectation {
                case: case.name.clone(),
                backend: case.backend.clone(),
                result: Some(case.expect),
                tolerance: None,
                reason: case.reason.clone(),
            });
            self.cases.push((folder.clone(), case));
        }
        self.expectations.extend(file.expect);
        Ok(())
    }

    /// What difference is allowed in the results of a case, where that is said.
    pub(crate) fn allowed(&self, backend: &str, case: &str) -> Option<Allowance> {
        let said = self.expectations.iter().filter(|it| it.is_for(backend, case)).find_map(|it| it.tolerance);
        said.map(|difference| difference.allowed())
    }

    /// Whether a case of that name is the vendor's own.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.cases.iter().any(|(_, case)| case.name == name)
    }

    /// Names of cases that something is expected of, and that there are none of.
    pub(crate) fn unmet(&self, report: &Report) -> Vec<String> {
        let names = || report.cases.iter().map(|case| (&case.backend, &case.name));
        let skipped = || report.skipped.iter().map(|(backend, name)| (backend, name));
        let is_met = |it: &&Expectation| names().chain(skipped()).any(|(backend, name)| it.is_for(backend, name));
        self.expectations.iter().filter(|it| !is_met(it)).map(|it| it.case.clone()).collect()
    }

    /// What came of a case in the light of what was to come of it.
    pub(crate) fn settle(&self, case: Case) -> Case {
        let is_for = |it: &&Expectation| it.result.is_some() && it.is_for(&case.backend, &case.name);
        let Some(expectation) = self.of_cases.iter().chain(&self.expectations).find(is_for) else { return case };
        let Some(expected) = expectation.result else { return case };
        let found = case.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let why = expectation.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let (result, reason) = match (expected, case.result) {
            (Expected::Pass, Tag::Unsupported) if case.reason.as_ref().is_some_and(|it| it.starts_with(NOT_HERE)) => {
                return case;
            }
            (Expected::Pass, Tag::Unsupported) => {
                (Tag::Fail, format!("expected to pass{why}, and it is unsupported{found}"))
            }
            (Expected::Pass, _) => return case,
            (Expected::Fail, Tag::Fail) => (Tag::ExpectedFailure, format!("as expected{why}{found}")),
            (Expected::Fail, tag) => (Tag::Fail, format!("expected to fail{why}, but the result is {tag}{found}")),
            (Expected::Unsupported, Tag::Unsupported) => (Tag::Pass, format!("unsupported, as expected{why}{found}")),
            (Expected::Unsupported, tag) => {
                (Tag::Fail, format!("expected to be unsupported{why}, but the result is {tag}{found}"))
            }
        };
        Case { result, reason: Some(reason), ..case }
    }
}

fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

impl VendorCase {
    /// The model of the case. `from` is the folder of its file, `folder` one to write into.
    pub(crate) fn source(&self, from: &Path, folder: &Path, own: &[Operator]) -> Result<Source> {
        let allowed = self.tolerance.as_ref().map(Difference::allowed);
        let dims = self.dims.iter().map(|(name, &size)| (name.clone(), size)).collect();
        let source = match &self.model {
            Some(model) => Source { path: from.join(model), ..Source::default() },
            None => Source::write(&self.write(own)?, folder)?,
        };
        Ok(Source { dims, allowed, ..source })
    }

    /// The model of one node, of the version that the backend's own operator has first.
    fn write(&self, own: &[Operator]) -> Result<Model> {
        let bad = |cause: String| Diagnostic::new(Code::Usage, format!("case '{}': {cause}", self.name));
        let mut model = Model::default();
        let mut names = Vec::new();
        for (index, operand) in self.inputs.iter().enumerate() {
            let name = format!("x{index}");
            let fill = operand.below.map_or(Fill::Any, Fill::Below);
            let shape: Vec<_> = operand.shape.iter().map(|&size| size as i64).collect();
            match &operand.values {
                Some(values) if values.len() != operand.shape.iter().product::<usize>() => {
                    return Err(bad(format!("input {index} of shape {shape:?} has {} values", values.len())));
                }
                Some(values) => model.constant(&name, data::tensor(operand.dtype, &shape, values.iter().copied())),
                None if operand.constant => model.constant(&name, data::random(operand.dtype, &shape, fill, &name)),
                None => model.input(&name, operand.dtype, &operand.shape, fill, false),
            }
            names.push(name);
        }
        let attributes = self.attributes.iter().map(|(name, value)| {
            let found =
                attribute(value).ok_or_else(|| bad(format!("attribute '{name}' is not an attribute of ONNX")))?;
            Ok((name.clone(), found))
        });
        let attributes = attributes.collect::<Result<Vec<_>>>()?;
        let op = self.op.as_deref().unwrap_or_default();
        let brought = own.iter().find(|own| own.domain == self.domain && own.name == op);
        let of_core = || byoc_core::ops::find(&self.domain, op).map_or(1, |def| def.since.into());
        model.import(&self.domain, brought.map_or_else(of_core, |own| own.since));
        model.node((&self.domain, op), names, vec!["y".into()], &attributes);
        let dtype = self.inputs.first().map_or(DType::F32, |operand| operand.dtype);
        model.output("y", dtype);
        Ok(model)
    }
}

fn attribute(value: &toml::Value) -> Option<Attribute> {
    let float = |value: &toml::Value| value.as_float().or(value.as_integer().map(|int| int as f64));
    Some(match value {
        toml::Value::Integer(value) => Attribute::Int(*value),
        toml::Value::Float(value) => Attribute::Float(*value as f32),
        toml::Value::String(value) => Attribute::String(value.clone()),
        toml::Value::Array(list) if list.iter().all(toml::Value::is_integer) => {
            Attribute::Ints(list.iter().filter_map(toml::Value::as_integer).collect())
        }
        toml::Value::Array(list) if list.iter().all(|value| float(value).is_some()) => {
            Attribute::Floats(list.iter().filter_map(float).map(|value| value as f32).collect())
        }
        toml::Value::Array(list) if list.iter().all(toml::Value::is_str) => {
            Attribute::Strings(list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect())
        }
        toml::Value::Table(table) => {
            let tensor: Elements = toml::Value::Table(table.clone()).try_into().ok()?;
            let shape: Vec<_> = tensor.shape.iter().map(|&size| size as i64).collect();
            (tensor.values.len() == tensor.shape.iter().product::<usize>()).then_some(())?;
            let bytes = data::tensor(tensor.dtype, &shape, tensor.values).bytes;
            Attribute::Tensor { dtype: tensor.dtype, shape: tensor.shape, hex: to_hex(&bytes) }
        }
        _ => return None,
    })
}
