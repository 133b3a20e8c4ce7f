//! The functions of the abilities `byoc.tools` and `byoc.candidates`.

use super::{Answer, backend, guard, parse};
use crate::abi::{self, Sink, Slice};
use crate::error::Error;
use crate::tuning_tables::{CandidateSink, CandidatesTable, ToolsTable};

pub(super) const TOOLS: &ToolsTable = &ToolsTable { struct_size: size_of::<ToolsTable>(), tools };

pub(super) const CANDIDATES: &CandidatesTable =
    &CandidatesTable { struct_size: size_of::<CandidatesTable>(), candidates };

extern "C" fn tools(index: usize, options: Slice, mut out: Sink, error: Sink) -> i32 {
    guard(error, || {
        serde_json::to_writer(&mut out, &backend(index)?.tools(&parse(options)?)?)?;
        Ok(Answer::Done)
    })
}

extern "C" fn candidates(index: usize, code: Slice, options: Slice, candidates: CandidateSink, error: Sink) -> i32 {
    guard(error, || {
        // SAFETY: the host lends the bytes for the length of the call.
        let code = unsafe { code.bytes() };
        for candidate in backend(index)?.candidates(code, &parse(options)?)? {
            let (name, code) = (Slice::new(candidate.name.as_bytes()), Slice::new(&candidate.code));
            if (candidates.take)(candidates.context, name, code) != abi::OK {
                return Err(Error::new("the host takes no more candidates"));
            }
        }
        Ok(Answer::Done)
    })
}
