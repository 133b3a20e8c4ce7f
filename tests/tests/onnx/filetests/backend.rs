//! A backend that does what a test file says: which operators it takes, how they become regions, what it claims of each
//! constant and what stands in its code.
//!
//! ```text
//! backend npu ops=Conv,Relu merge check_merged max_inputs=1 starts_with=Conv most=4 refuses=failed domain=gpu host run_time_sizes types=i4
//! claim npu w* packed nk/1 f32[4] seed 7 | host
//! code npu u8[7] seed 9 + w + 3..1027 of w
//! ```
//!
//! A claim is for the constants whose name fits the first pattern; what stands behind `|` is claimed where the constant is
//! stored in another form as well. Claims are `host`, `embedded`, `unused`, `none`, or `packed` with a layout, an optional
//! alignment `@64`, a type and contents. What no line is about is claimed as `host`.

use std::collections::HashMap;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use byoc_core::compile::wildcard;
use byoc_plugin_api::{
    Backend, BoundConstants, Claims, Constant, DType, Description, DeviceConstants, DeviceExecutable, DeviceRuntime,
    DomainHandles, Environment, Error, Executable, Generated, HostRuntime, Job, Options, Packed, Pattern, Refusal,
    RefusalCode, Region, Runtime,
};

use byoc_tests::tensor::Tensor;

use super::case::Case;
use super::contents;

/// A backend of a test file.
#[derive(Default)]
pub(crate) struct Scripted {
    description: Description,
    ops: Vec<String>,
    /// Patterns, asked before those of the operators.
    patterns: Vec<Pattern>,
    /// Most nodes of a candidate, and how more are refused.
    most: Option<usize>,
    refuses: Option<RefusalCode>,
    /// (pattern of names, claim, claim where the constant is stored in another form as well).
    claims: Vec<(String, Claim, Option<Claim>)>,
    /// What its code is made of beside its name.
    code: Vec<Part>,
    /// How often `check` was called.
    asked: AtomicUsize,
}

enum Claim {
    Host,
    Embedded,
    Unused,
    None,
    Packed(Packed, Vec<u8>),
}

/// A piece of code.
enum Part {
    Bytes(Vec<u8>),
    /// The bytes of the model's constant of that name, or some of them.
    Constant(String, Option<std::ops::Range<usize>>),
}

impl Scripted {
    /// The backend of the line `backend`, whose claims and code are other lines of the case.
    pub(crate) fn parse(line: &str, case: &Case) -> Result<Scripted, String> {
        let mut words = line.split_whitespace();
        let name = words.next().ok_or("a backend has a name")?.to_owned();
        let description =
            Description { name: name.clone(), version: "1.0".into(), code_version: 1, ..Description::default() };
        let mut backend = Scripted { description, ..Scripted::default() };
        for word in words {
            backend.set(word)?;
        }
        let own =
            |line: &str| line.split_once(' ').filter(|(owner, _)| *owner == name).map(|(_, rest)| rest.to_owned());
        for line in case.all("operator").filter_map(own) {
            let operator =
                serde_json::from_str(&line).map_err(|error| format!("'{line}' is not an operator: {error}"))?;
            backend.description.operators.push(operator);
        }
        for line in case.all("pattern").filter_map(own) {
            let (name, text) = line.split_once(' ').ok_or("a pattern has a name and a text")?;
            backend.patterns.push(Pattern::new(name, text));
        }
        for line in case.all("claim").filter_map(own) {
            let (pattern, claims) = line.split_once(' ').ok_or("a claim is for constants and says what")?;
            let (first, shared) =
                claims.split_once('|').map_or((claims, None), |(first, shared)| (first, Some(shared)));
            backend.claims.push((pattern.to_owned(), claim(first)?, shared.map(claim).transpose()?));
        }
        for line in case.all("code").filter_map(own) {
            backend.code = line.split('+').map(str::trim).map(part).collect::<Result<_, _>>()?;
        }
        Ok(backend)
    }

    fn set(&mut self, word: &str) -> Result<(), String> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
        let number = || value.parse::<usize>().map_err(|_| format!("'{word}' has no number"));
        let Description { regions, .. } = &mut self.description;
        match key {
            "ops" => self.ops = list(),
            "merge" => regions.merge = true,
            "side_by_side" => regions.side_by_side = true,
            "max_nodes" => regions.max_nodes = Some(number()?),
            "max_outputs" => regions.max_outputs = Some(number()?),
            "max_bytes" => regions.max_bytes = Some(number()? as u64),
            "check_merged" => regions.check_merged = true,
            "max_inputs" => regions.max_inputs = Some(number()?),
            "starts_with" => regions.starts_with = list(),
            "most" => self.most = Some(number()?),
            "refuses" => {
                self.refuses = Some(if value == "crashed" { RefusalCode::Crashed } else { RefusalCode::Failed })
            }
            "types" => {
                let known = |name: &String| DType::from_name(name).ok_or_else(|| format!("there is no type '{name}'"));
                self.description.types = list().iter().map(known).collect::<Result<_, _>>()?;
            }
            "domain" => self.description.domain = Some(value.to_owned()),
            "host" => self.description.host = true,
            "size_inputs" => regions.size_inputs = true,
            "run_time_sizes" => self.description.run_time_sizes = true,
            other => return Err(format!("a backend has no '{other}'")),
        }
        Ok(())
    }

    /// How often the backend was asked about a candidate.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.description.name
    }
}

fn claim(text: &str) -> Result<Claim, String> {
    let text = text.trim();
    Ok(match text {
        "host" => Claim::Host,
        "embedded" => Claim::Embedded,
        "unused" => Claim::Unused,
        "none" => Claim::None,
        _ => {
            let packed = text.strip_prefix("packed ").ok_or_else(|| format!("'{text}' is not a claim"))?;
            let (layout, rest) = packed.split_once(' ').ok_or("a packed claim has a layout and contents")?;
            let alignment = rest.strip_prefix('@').and_then(|rest| rest.split_once(' '));
            let (alignment, constant) = alignment.unwrap_or(("1", rest));
            let (ty, bytes) = contents::constant(constant)?;
            let shape = ty.fixed_shape().ok_or("packed bytes have a fixed shape")?;
            let alignment = alignment.parse().map_err(|_| format!("'{alignment}' is not an alignment"))?;
            Claim::Packed(Packed::new(layout, ty.dtype, &shape).aligned(alignment), bytes)
        }
    })
}

fn part(text: &str) -> Result<Part, String> {
    if text.contains('[') {
        return Ok(Part::Bytes(contents::constant(text)?.1));
    }
    let Some((range, name)) = text.split_once(" of ") else { return Ok(Part::Constant(text.to_owned(), None)) };
    let bounds = range.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    Ok(Part::Constant(name.to_owned(), Some(bounds.ok_or_else(|| format!("'{range}' is not a range"))?)))
}

impl Backend for Scripted {
    fn describe(&self) -> Description {
        self.description.clone()
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        let of_operators = self.ops.iter().map(|op| Pattern::new(op, format!("({op} ...)")));
        Ok(self.patterns.iter().cloned().chain(of_operators).collect())
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.most {
            Some(most) if candidate.nodes.len() > most => {
                let code = self.refuses.unwrap_or(RefusalCode::Other);
                Err(Refusal::new(code, format!("{} nodes, at most {most}", candidate.nodes.len())))
            }
            _ => Ok(()),
        }
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        let Job { region, constants, .. } = *job;
        code.write_all(self.name().as_bytes())?;
        let ids: HashMap<_, _> =
            region.constants.iter().map(|found| (region.values[found.value].name.as_str(), found.id)).collect();
        for part in &self.code {
            match part {
                Part::Bytes(bytes) => code.write_all(bytes)?,
                Part::Constant(name, range) => {
                    // Of a region that does not read the constant nothing is written.
                    let Some(view) = ids.get(name.as_str()).and_then(|id| constants.get(*id)) else { continue };
                    let tensor = Tensor::of(view);
                    let bytes = tensor.bytes.as_slice();
                    code.write_all(range.clone().map_or(bytes, |range| &bytes[range]))?;
                }
            }
        }
        Ok(Generated::default())
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        let region = job.region;
        if region.constants.is_empty() {
            return Err(Error::new("asked about a region without constants"));
        }
        for constant in &region.constants {
            let name = &region.values[constant.value].name;
            let line = self.claims.iter().find(|(pattern, ..)| wildcard(pattern, name));
            let claim = line.map_or(&Claim::Host, |(_, claim, shared)| match shared {
                Some(shared) if constant.shared => shared,
                _ => claim,
            });
            apply(claim, constant, claims)?;
        }
        Ok(())
    }

    fn runtime(&self) -> Runtime<'_> {
        match self.description.domain {
            None => Runtime::Host(self),
            Some(_) => Runtime::Device(self),
        }
    }
}

impl HostRuntime for Scripted {
    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        Err(Error::new("a test's backend runs nothing"))
    }
}

impl DeviceRuntime for Scripted {
    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &DeviceConstants<'a>,
        _: &Environment,
        _: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        Err(Error::new("a test's backend runs nothing"))
    }
}

fn apply(claim: &Claim, constant: &Constant, claims: &mut Claims<'_>) -> Result<(), Error> {
    match claim {
        Claim::Host => claims.host(constant.id),
        Claim::Embedded => claims.embedded(constant.id),
        Claim::Unused => claims.unused(constant.id),
        Claim::None => Ok(()),
        Claim::Packed(packed, bytes) => Ok(claims.packed(constant.id, packed.clone())?.write_all(bytes)?),
    }
}
