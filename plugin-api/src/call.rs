//! What a host asks of a backend before anything runs: the list of methods. A call has a name, a request as JSON, and
//! constants and bytes that are lent; its answer is bytes, and items that each say what the bytes behind it are. The list is
//! gone through in a plugin, and in a host for backends that are linked into it; `host/backend.rs` makes the calls.

#![cfg_attr(not(feature = "host"), allow(unreachable_pub, reason = "hosts are given these types"))]

use std::borrow::Cow;
use std::io::{BufWriter, Write};

use serde::{Deserialize, Serialize};

use crate::backend::Backend;
use crate::constants::{Claim, ClaimSink, Claims, Constants};
use crate::error::Error;
use crate::options::Options;
use crate::region::{ConstantId, Region};

/// A call of a backend's method.
pub struct Call<'a> {
    /// The method's name.
    pub method: &'a str,
    /// A `Request` as JSON.
    pub request: &'a [u8],
    /// Those of the request's region.
    pub constants: &'a Constants<'a>,
    /// The code of a region, or a file.
    pub bytes: &'a [u8],
}

/// A part of an answer.
pub enum Part<'a> {
    /// What the bytes behind it are, as JSON.
    Item(&'a [u8]),
    /// Bytes: an answer in JSON, or those of the last item.
    Bytes(&'a [u8]),
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
    ("describe", |backend, _, _, answer| json(answer, &backend.describe())),
    ("patterns", |backend, _, request, answer| json(answer, &backend.patterns(&request.options)?)),
    ("check", |backend, _, request, answer| match backend.check(request.region()?, &request.options) {
        Ok(()) => Ok(()),
        Err(refusal) => json(answer, &refusal),
    }),
    ("codegen", |backend, call, request, answer| {
        // Small writes are gathered: each call across the border would cost the host a system call.
        let mut code = BufWriter::with_capacity(1 << 16, Bytes(answer));
        backend.codegen(request.region()?, call.constants, &request.options, &mut code)?;
        Ok(code.flush()?)
    }),
    ("constant_updater", |backend, call, request, answer| {
        let mut sink = Bytes(answer);
        let mut claims = Claims::new(&mut sink);
        backend.constant_updater(request.region()?, call.constants, call.bytes, &request.options, &mut claims)
    }),
    ("open", |backend, call, _, answer| json(answer, &backend.open(call.bytes)?)),
    ("tools", |backend, _, request, answer| json(answer, &backend.tools(&request.options)?)),
    ("candidates", |backend, call, request, answer| {
        for candidate in backend.candidates(call.bytes, &request.options)? {
            item(answer, &CandidateItem { name: candidate.name })?;
            answer(Part::Bytes(&candidate.code))?;
        }
        Ok(())
    }),
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

/// An answer of bytes that a backend writes itself.
struct Bytes<'a, 'b>(&'a mut Answer<'b>);

impl Write for Bytes<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0(Part::Bytes(bytes)).map_err(|error| std::io::Error::other(error.message))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl ClaimSink for Bytes<'_, '_> {
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error> {
        item(self.0, &ClaimItem { id, claim: claim.clone() })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.0(Part::Bytes(bytes))
    }
}
