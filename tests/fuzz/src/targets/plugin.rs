//! Answers of a backend: a backend answers from the input, and is used by a compile and a run.

use std::cell::RefCell;
use std::io::Write;

use byoc_core::plugin::{Registry, SearchPath};
use byoc_plugin_api::{
    Attribute, AttributeKind, Backend, BoundConstants, Candidate, Claim, Claims, CodeFile, CustomAttribute, DType,
    Description, DeviceConstants, DeviceExecutable, DeviceRuntime, Dim, DomainHandles, Environment, Error, Executable,
    Generated, HostRuntime, Job, Operator, Options, OutputRule, OutputType, Packed, Pattern, Refusal, Region, Runtime,
    TensorView, TensorViewMut, Tool, registered,
};
use serde::{Deserialize, Serialize};

use crate::{Target, json, models, run};

pub(crate) const TARGET: Target =
    Target { name: "plugin", seeds, run: |input| take(input).is_some(), mutate: json::bytes };

/// All answers.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Answers {
    /// Which of the models is compiled.
    model: usize,
    description: Description,
    patterns: Vec<Pattern>,
    refusal: Option<Refusal>,
    types: Vec<OutputType>,
    code: String,
    notes: Vec<String>,
    learnt: String,
    claims: Vec<Answer>,
    failure: Option<Error>,
    file: CodeFile,
    tools: Vec<Tool>,
    candidates: Vec<(String, String)>,
}

/// A claim for the constant at that place in the region's list, and how many bytes follow it.
#[derive(Clone, Serialize, Deserialize)]
struct Answer {
    constant: usize,
    claim: Claim,
    bytes: usize,
}

/// The backend. It is asked by the thread that has the input.
struct Parrot;

thread_local! {
    static ANSWERS: RefCell<Answers> = RefCell::default();
}

fn answers() -> Answers {
    ANSWERS.with_borrow(Answers::clone)
}

impl Backend for Parrot {
    fn describe(&self) -> Description {
        answers().description
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(answers().patterns)
    }

    fn check(&self, _: &Region, _: &Options) -> Result<(), Refusal> {
        answers().refusal.map_or(Ok(()), Err)
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        code.write_all(answers().code.as_bytes())?;
        let Answers { notes, learnt, .. } = answers();
        job.log(notes.concat());
        Ok(Generated { notes, learnt: learnt.into_bytes() })
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        let Answers { claims: all, failure, .. } = answers();
        for Answer { constant, claim, bytes } in all {
            let Some(constant) = job.region.constants.get(constant) else { continue };
            claims.sink().claim(constant.id, &claim)?;
            if bytes > 0 {
                claims.sink().write(&vec![7; bytes.min(run::MOST)])?;
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn runtime(&self) -> Runtime<'_> {
        match answers().description.domain {
            None => Runtime::Host(self),
            Some(_) => Runtime::Device(self),
        }
    }

    fn open(&self, _: &[u8]) -> Result<CodeFile, Error> {
        Ok(answers().file)
    }

    fn infer(&self, _: &Region, _: &Options) -> Result<Vec<OutputType>, Error> {
        Ok(answers().types)
    }

    fn tools(&self, _: &Options) -> Result<Vec<Tool>, Error> {
        Ok(answers().tools)
    }

    fn candidates(&self, _: &[u8], _: &Options) -> Result<Vec<Candidate>, Error> {
        let candidate = |(name, code): (String, String)| Candidate { name, code: code.into_bytes() };
        Ok(answers().candidates.into_iter().map(candidate).collect())
    }
}

impl HostRuntime for Parrot {
    fn load<'a>(
        &self,
        _: &'a [u8],
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        for constant in constants.iter() {
            constant.view.for_each_element(|element| drop(std::hint::black_box(element.to_vec())));
        }
        Ok(Box::new(Parrot))
    }
}

impl DeviceRuntime for Parrot {
    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &DeviceConstants<'a>,
        _: &Environment,
        _: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        Err(answers().failure.unwrap_or_else(|| Error::new("nothing runs on this device")))
    }
}

impl Executable for Parrot {
    fn run(&mut self, _: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        outputs.iter_mut().filter_map(TensorViewMut::as_mut_bytes).for_each(|bytes| bytes.fill(0));
        answers().failure.map_or(Ok(()), Err)
    }
}

fn take(input: &[u8]) -> Option<()> {
    let answers: Answers = serde_json::from_slice(input).ok()?;
    let mut all = models::all();
    all.push(models::custom());
    let (name, model) = (answers.description.name.clone(), all[answers.model % all.len()].finish());
    ANSWERS.set(answers);
    let backends = [&[&Parrot as &dyn Backend][..], &registered()].concat();
    let registry = Registry::discover(&SearchPath::default(), &backends, None).ok()?;
    let parrot = registry.get(&name).ok()?;
    let _ = (parrot.backend.open(&[0; 64]), parrot.tools(&[]), parrot.candidates(b"code", &Options::default()));
    let artifact = models::compiled(&model, &registry, &[&name, "json"]).ok()?;
    run::artifact(&artifact, &registry).ok()
}

fn seeds() -> Vec<Vec<u8>> {
    let claims = [Claim::Host, Claim::Embedded, Claim::Unused, packed()];
    let seed = |(index, claim): (usize, Claim)| {
        let description = Description { name: "parrot".into(), candidates: true, ..Description::default() };
        let bytes = if matches!(claim, Claim::Packed(_)) { 48 } else { 0 };
        let answers = Answers {
            model: index * 4,
            description,
            patterns: vec![
                Pattern::new("product", "(Add (MatMul|Gemm ?x ?w:const ?b?) ?c:const)"),
                Pattern::new("conv", "(Relu (Conv ?x ?w:const ?b:const?))"),
                Pattern::new("any", "(Relu|Softmax|Transpose|LayerNormalization ?x ...)"),
            ],
            code: "code".into(),
            claims: (0..4).map(|constant| Answer { constant, claim: claim.clone(), bytes }).collect(),
            tools: vec![Tool { name: "tool".into(), ..Tool::default() }],
            candidates: vec![("first".into(), "code".into()), ("second".into(), "other".into())],
            ..Answers::default()
        };
        serde_json::to_vec(&answers).expect("JSON")
    };
    claims.into_iter().enumerate().map(seed).chain([ruled(), asked()]).collect()
}

/// An operator whose types follow rules.
fn ruled() -> Vec<u8> {
    own_operator(vec![OutputRule::broadcast()], Vec::new())
}

/// An operator whose types the backend is asked for.
fn asked() -> Vec<u8> {
    let shape = vec![Dim::Symbolic("batch*2".into()), 8.into()];
    own_operator(Vec::new(), vec![OutputType { dtype: DType::F32, shape }])
}

fn own_operator(outputs: Vec<OutputRule>, types: Vec<OutputType>) -> Vec<u8> {
    let table = CustomAttribute::required("table", AttributeKind::Tensor);
    let by = CustomAttribute::with_default("by", Attribute::Float(2.0));
    let (domain, name, attributes) = ("com.acme".into(), "Op".into(), vec![table, by]);
    let operator = Operator { domain, name, inputs: 2, attributes, outputs, ..Operator::default() };
    let description = Description { name: "parrot".into(), operators: vec![operator], ..Description::default() };
    let answers = Answers {
        model: models::all().len(),
        description,
        patterns: vec![Pattern::new("op", "(com.acme::Op ?x ?w:const)")],
        types,
        code: "code".into(),
        claims: vec![Answer { constant: 0, claim: Claim::Host, bytes: 0 }],
        ..Answers::default()
    };
    serde_json::to_vec(&answers).expect("JSON")
}

fn packed() -> Claim {
    Claim::Packed(Packed::new("panels/1", byoc_plugin_api::DType::F32, &[3, 4]).aligned(64))
}
