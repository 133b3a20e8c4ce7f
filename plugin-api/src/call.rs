//! What a host asks of a backend before anything runs: the list of methods. A call has a name, a request as JSON, and
//! constants and byte strings that are lent; its answer is bytes, items that each say what the bytes behind it are, and
//! events. The list is used in a plugin, and in a host for backends that are linked into it; `host/backend.rs` makes the calls.

#![cfg_attr(not(feature = "host"), allow(unreachable_pub, reason = "hosts are given these types"))]

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{BufWriter, Write};

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::constants::{Claim, ClaimSink, Claims, Constants};
use crate::error::Error;
use crate::job::{Event, Generated, Job};
use crate::options::Options;
use crate::region::{ConstantId, Region};
use crate::runtime::Runtime;

/// A call of a backend's method.
pub struct Call<'a> {
    /// The method's name.
    pub method: &'a str,
    /// A `Request` as JSON.
    pub request: &'a [u8],
    /// Those of the request's region.
    pub constants: &'a Constants<'a>,
    /// The code of a region and what code generation has learnt, or a file.
    pub blobs: &'a [&'a [u8]],
}

/// A part of an answer.
pub enum Part<'a> {
    /// What the bytes behind it are, as JSON.
    Item(&'a [u8]),
    /// Bytes: an answer in JSON, or those of the last item.
    Bytes(&'a [u8]),
    /// An [`Event`] as JSON: no part of the answer.
    Event(&'a [u8]),
}

/// Takes an answer while it is made.
pub type Answer<'a> = dyn FnMut(Part<'_>) -> Result<(), Error> + 'a;

/// What a method is asked about. Fields that it has no use for are left out.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Request<'a> {
    /// The backend's options.
    #[serde(default)]
    pub(crate) options: Cow<'a, Options>,
    /// The candidate, or the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) region: Option<Cow<'a, Region>>,
}

/// An item of `constant_updater`; the bytes behind it are those of a packed constant.
#[derive(Serialize, Deserialize)]
pub(crate) struct ClaimItem {
    /// The region's id of the constant.
    pub(crate) id: ConstantId,
    /// Where its bytes live.
    pub(crate) claim: Claim,
}

/// An item of `candidates`; the bytes behind it are its code.
#[derive(Serialize, Deserialize)]
pub(crate) struct CandidateItem {
    /// What tells it from the others.
    pub(crate) name: String,
}

/// Makes a call of a method.
type Method = fn(&dyn Backend, &Call<'_>, &Request<'_>, &mut Answer<'_>) -> Result<(), Error>;

/// Every method. Those behind `constant_updater` are abilities that a backend may lack.
const METHODS: &[(&str, Method)] = &[
    ("describe", |backend, _, _, answer| {
        let description = backend.describe();
        match (backend.runtime(), &description.domain) {
            (Runtime::Host(_), None) | (Runtime::Device(_), Some(_)) => json(answer, &description),
            (Runtime::Host(_), Some(domain)) => Err(Error::new(format!(
                "its description names the domain '{domain}', and its runtime is Runtime::Host"
            ))),
            (Runtime::Device(_), None) => {
                Err(Error::new("its description names no domain, and its runtime is Runtime::Device"))
            }
        }
    }),
    ("patterns", |backend, _, request, answer| json(answer, &backend.patterns(&request.options)?)),
    ("check", |backend, _, request, answer| match backend.check(request.region()?, &request.options) {
        Ok(()) => Ok(()),
        Err(refusal) => json(answer, &refusal),
    }),
    ("codegen", |backend, call, request, answer| {
        let answer = RefCell::new(answer);
        let events = |event| emit(&answer, &event);
        // Small writes are gathered: each call across the border would cost the host a system call.
        let mut code = BufWriter::with_capacity(1 << 16, Bytes(&answer));
        let generated = backend.codegen(&job(call, request)?.with_events(&events), &mut code)?;
        code.flush()?;
        drop(code);
        if generated == Generated::default() {
            return Ok(());
        }
        let answer = answer.into_inner();
        item(answer, &generated)?;
        answer(Part::Bytes(&generated.learnt))
    }),
    ("constant_updater", |backend, call, request, answer| {
        let answer = RefCell::new(answer);
        let events = |event| emit(&answer, &event);
        let mut sink = Bytes(&answer);
        let job = job(call, request)?.with_events(&events);
        backend.constant_updater(&job, call.blob(0), call.blob(1), &mut Claims::new(&mut sink))
    }),
    ("open", |backend, call, _, answer| json(answer, &backend.open(call.blob(0))?)),
    ("tools", |backend, _, request, answer| json(answer, &backend.tools(&request.options)?)),
    ("candidates", |backend, call, request, answer| {
        for candidate in backend.candidates(call.blob(0), &request.options)? {
            item(answer, &CandidateItem { name: candidate.name })?;
            answer(Part::Bytes(&candidate.code))?;
        }
        Ok(())
    }),
    ("infer", |backend, _, request, answer| json(answer, &backend.infer(request.region()?, &request.options)?)),
];

/// Makes a call. False where the method is one of a later version.
pub(crate) fn make(backend: &dyn Backend, call: &Call<'_>, answer: &mut Answer<'_>) -> Result<bool, Error> {
    let Some((_, method)) = METHODS.iter().find(|(name, _)| *name == call.method) else { return Ok(false) };
    let request: Request<'_> = serde_json::from_slice(call.request)?;
    if let Some(region) = &request.region {
        region.validate()?;
    }
    method(backend, call, &request, answer).map(|()| true)
}

impl<'a> Call<'a> {
    /// The blob of that index; empty where there is none.
    fn blob(&self, index: usize) -> &'a [u8] {
        self.blobs.get(index).copied().unwrap_or_default()
    }
}

/// What a backend is asked to compile.
fn job<'a>(call: &'a Call<'_>, request: &'a Request<'_>) -> Result<Job<'a>, Error> {
    Ok(Job::new(request.region()?, call.constants, &request.options))
}

impl Request<'_> {
    fn region(&self) -> Result<&Region, Error> {
        self.region.as_deref().ok_or_else(|| Error::new("the request has no region"))
    }
}

/// The whole of an answer.
fn json(answer: &mut Answer<'_>, value: &impl Serialize) -> Result<(), Error> {
    answer(Part::Bytes(&serde_json::to_vec(value)?))
}

fn item(answer: &mut Answer<'_>, value: &impl Serialize) -> Result<(), Error> {
    answer(Part::Item(&serde_json::to_vec(value)?))
}

/// Passes an event on. Whether anybody takes it is no business of the backend's: what follows in the answer fails as well
/// where the host is gone.
fn emit(answer: &RefCell<&mut Answer<'_>>, event: &Event) {
    if let (Ok(json), Ok(mut answer)) = (serde_json::to_vec(event), answer.try_borrow_mut()) {
        let _ = answer(Part::Event(&json));
    }
}

/// An answer of bytes that a backend writes itself.
struct Bytes<'a, 'b, 'c>(&'a RefCell<&'b mut Answer<'c>>);

impl Bytes<'_, '_, '_> {
    fn put(&self, part: Part<'_>) -> Result<(), Error> {
        self.0.borrow_mut()(part)
    }
}

impl Write for Bytes<'_, '_, '_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.put(Part::Bytes(bytes)).map_err(|error| std::io::Error::other(error.message))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ClaimSink for Bytes<'_, '_, '_> {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        self.put(Part::Item(&serde_json::to_vec(&ClaimItem { id, claim: claim.clone() })?))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.put(Part::Bytes(bytes))
    }
}
