//! Runs that write outputs to memory of the caller's.

use byoc_plugin_api::{DType, TensorView};

use super::Session;
use super::state::copy;
use super::work::Run;
use crate::buffer::ALIGNMENT;
use crate::diagnostic::{Code, Diagnostic, Result};

/// Memory of the caller's for an output, row-major, of the type and the shape that the output will have.
pub struct OutputBuffer<'a> {
    /// The memory.
    pub bytes: &'a mut [u8],
    /// The type of the elements.
    pub dtype: DType,
    /// Their shape.
    pub shape: &'a [i64],
}

/// A session for whose outputs memory of the caller's is lent until this is dropped, however the run ends.
struct Lending<'a> {
    session: &'a mut Session,
}

impl Drop for Lending<'_> {
    fn drop(&mut self) {
        if let Some(state) = &mut self.session.state {
            state.take_back();
        }
    }
}

impl Session {
    /// As [`Session::run`], where outputs are written to memory of the caller's, given in the order of [`Session::outputs`]; those
    /// without stay in the session's. A region on the host writes right there if the memory is aligned to 64 bytes and no
    /// device is used; all else is copied. [`Session::output`] is an error for them until the next run.
    ///
    /// Errors where the type or the shape is another than the output's, in front of the run if they are known then.
    pub fn run_into(&mut self, inputs: &[TensorView<'_>], outputs: &mut [Option<OutputBuffer<'_>>]) -> Result<()> {
        if self.later.is_some() {
            let ports = self.outputs();
            let ports = ports.iter().map(|port| (port.name.as_str(), port.dtype, port.list.is_some()));
            let ports: Vec<_> = ports.collect();
            count(ports.len(), outputs)?;
            self.run(inputs)?;
            for ((port, given), index) in ports.into_iter().zip(outputs.iter()).zip(0..) {
                let Some(given) = given else { continue };
                check(port, given, self.output_here(index)?.shape())?;
            }
            return self.fill(outputs);
        }
        count(self.entry.outputs.len(), outputs)?;
        self.tables.begin_run();
        self.check_lists(inputs)?;
        self.forget_last_run();
        self.in_turn(0, &mut |session| session.ready(inputs))?;
        for (index, given) in outputs.iter().enumerate() {
            let (Some(given), Some(state)) = (given, &self.state) else { continue };
            let port = &self.entry.outputs[index];
            let value = &self.entry.values[port.value];
            check((&port.name, value.dtype, value.list.is_some()), given, &state.plan.shapes[port.value])?;
        }
        let Lending { session } = &mut self.lend(outputs);
        session.in_turn(0, &mut |session| session.work(inputs, Run::Full))?;
        session.fill(outputs)
    }

    /// Lends the memory of outputs that are checked already to the next run, where that can write to it.
    fn lend(&mut self, outputs: &mut [Option<OutputBuffer<'_>>]) -> Lending<'_> {
        let ports = &self.entry.outputs;
        for (port, given) in ports.iter().zip(outputs) {
            let (Some(given), Some(state)) = (given, &mut self.state) else { continue };
            let data = given.bytes.as_mut_ptr();
            let alone = ports.iter().filter(|other| other.value == port.value).count() == 1;
            if data.addr().is_multiple_of(ALIGNMENT) && alone && state.may_lend(port.value) {
                // SAFETY: it is aligned and as large as the output, which was checked, and the caller has it borrowed
                // exclusively; it is taken back when what is returned here is dropped.
                unsafe { state.lend(port.value, data) };
            }
        }
        Lending { session: self }
    }

    /// Copies what the run did not write to the caller's memory by itself, which was checked.
    fn fill(&mut self, outputs: &mut [Option<OutputBuffer<'_>>]) -> Result<()> {
        for (index, given) in outputs.iter_mut().enumerate() {
            let Some(given) = given else { continue };
            let view = self.output_here(index)?;
            if view.as_ptr() != given.bytes.as_ptr() {
                // SAFETY: it has room for the output, as was just checked.
                unsafe { copy(&view, given.bytes.as_mut_ptr()) };
            }
        }
        let given = outputs.iter().enumerate().filter_map(|(index, given)| given.is_some().then_some(index));
        self.elsewhere.extend(given);
        Ok(())
    }
}

/// Errors where another number of outputs is given than there are.
fn count(outputs: usize, given: &[Option<OutputBuffer<'_>>]) -> Result<()> {
    if outputs == given.len() {
        return Ok(());
    }
    let message = format!("memory is given for {} outputs, the entry has {outputs}", given.len());
    Err(Diagnostic::new(Code::BadInput, message))
}

/// Errors where the memory does not fit an output of that shape, given by its name, its type, and whether it is a sequence or an optional.
fn check((name, dtype, list): (&str, DType, bool), given: &OutputBuffer<'_>, shape: &[i64]) -> Result<()> {
    let bad = |message: String| Err(Diagnostic::new(Code::BadInput, format!("output '{name}' {message}")));
    if dtype == DType::String || list {
        return bad("has no memory of the caller's: its type is not one of numbers".to_owned());
    }
    if (given.dtype, given.shape) != (dtype, shape) {
        return bad(format!("is {dtype}{shape:?}, and the memory for it is {}{:?}", given.dtype, given.shape));
    }
    let count = shape.iter().try_fold(1usize, |count, &size| count.checked_mul(usize::try_from(size).ok()?));
    match count.and_then(|count| dtype.bytes_for(count)) == Some(given.bytes.len()) {
        true => Ok(()),
        false => bad(format!("does not fit memory of {} bytes", given.bytes.len())),
    }
}
