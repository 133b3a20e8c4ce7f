//! A region on the device: what the host asks of it, all of it checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use byoc_plugin_api::{
    DType, DeviceConstants, DeviceExecutable, DevicePlan, DeviceTensor, DomainHandles, Error, Options,
    contiguous_strides,
};

use crate::codegen::{Kernel, Program};
use crate::kernels;
use crate::log::{bug, panic_if};
use crate::memory::ALIGNMENT;
use crate::run::{Place, Prepared, Wrong};
use crate::sim::{self, Sim};

/// A loaded region.
pub(crate) struct Loaded {
    domain: usize,
    number: usize,
    program: Program,
    /// With the indices of their values.
    constants: Vec<(usize, Place)>,
    plan: DevicePlan,
    wrong: Wrong,
    /// The call that panics.
    panic: String,
    kernel: &'static Kernel,
    /// The shape of every value, from the last plan.
    planned: Option<Vec<Vec<i64>>>,
    prepared: Option<Arc<Prepared>>,
}

impl Loaded {
    pub(crate) fn load(
        code: &[u8],
        constants: &DeviceConstants<'_>,
        options: &Options,
        domain: &DomainHandles,
    ) -> Result<Loaded, Error> {
        panic_if(options.text("panic"), "load_on");
        let (program, domain) = (Program::read(code)?, sim::number_of(domain)?);
        let place = |&(id, value): &_| {
            let constant = constants.host(id)?;
            let view = constant.bound.view;
            if view.dtype() != DType::F32 {
                return Err(Error::new(format!("constant {id} is {}, and f32 was claimed", view.dtype())));
            }
            let (shape, strides) = (view.shape().to_vec(), view.strides().to_vec());
            Ok((value, Place { address: constant.address, shape, strides }))
        };
        let constants: Vec<_> = program.constants.iter().map(place).collect::<Result<_, Error>>()?;
        let kernel = program.kernel()?;
        if let Some(reason) = kernel.broken {
            return Err(Error::new(reason));
        }
        let wrong = if kernel.wrong { Wrong::Result } else { Wrong::named(options.text("wrong")) };
        let scratch = u64::try_from(options.int("scratch")).unwrap_or(0).max(wrong.scratch());
        let (records, recordings_last) = (!options.bool("unrecordable"), !options.bool("brief"));
        let plan = DevicePlan { scratch, records, recordings_last };
        let number = sim::with(domain, |sim| {
            sim.log.line(&format!("load {}", program.symbol));
            sim.idle("load")?;
            constants.iter().try_for_each(|(_, place)| place.within(&sim.memory))?;
            Ok(sim.take_in())
        })?;
        Ok(Loaded {
            domain,
            number,
            program,
            constants,
            plan,
            wrong,
            panic: options.text("panic").into(),
            kernel,
            planned: None,
            prepared: None,
        })
    }

    /// A call for the domain, with its line.
    fn with<T>(&self, verb: &str, call: impl FnOnce(&mut Sim) -> Result<T, Error>) -> Result<T, Error> {
        sim::with(self.domain, |sim| {
            sim.log.line(&format!("{verb} {}", self.program.symbol));
            call(sim)
        })
    }

    /// The shape of every value, given those of the inputs and the outputs.
    fn shapes(&self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<Vec<Vec<i64>>, Error> {
        let program = &self.program;
        if (inputs.len(), outputs.len()) != (program.inputs.len(), program.outputs.len()) {
            return Err(Error::new(format!("there are {} inputs and {} outputs", inputs.len(), outputs.len())));
        }
        if let Some(tensor) = inputs.iter().chain(outputs).find(|tensor| tensor.dtype != DType::F32) {
            return Err(Error::new(format!("a tensor is {}, and only f32 is taken", tensor.dtype)));
        }
        let mut shapes: Vec<Option<Vec<i64>>> = vec![None; program.values];
        for (&value, tensor) in program.inputs.iter().zip(inputs) {
            shapes[value] = Some(tensor.shape.to_vec());
        }
        for (value, place) in &self.constants {
            shapes[*value] = Some(place.shape.clone());
        }
        for call in &program.calls {
            let operands: Option<Vec<_>> = call.operands.iter().map(|&operand| shapes[operand].as_deref()).collect();
            let operands = operands.ok_or_else(|| Error::new("damaged code: a value is used before it is made"))?;
            shapes[call.result] = Some(kernels::shape(&call.op, &operands)?);
        }
        for (index, (&value, tensor)) in program.outputs.iter().zip(outputs).enumerate() {
            if shapes[value].as_deref() != Some(tensor.shape) {
                let (made, given) = (shapes[value].as_deref().unwrap_or_default(), tensor.shape);
                return Err(Error::new(format!("output {index} has shape {made:?}, and {given:?} was given")));
            }
        }
        Ok(shapes.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// Checks addresses: aligned, of memory that is there, and inputs and outputs apart from what is written.
    fn addresses(
        &self,
        sim: &Sim,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        scratch: u64,
    ) -> Result<(), Error> {
        let range = |what: &str, index: usize, tensor: &DeviceTensor<'_>| {
            (format!("{what} {index}"), tensor.address, (kernels::count(tensor.shape) * 4) as u64)
        };
        let mut read: Vec<_> = inputs.iter().enumerate().map(|(index, tensor)| range("input", index, tensor)).collect();
        let constants = self.constants.iter().enumerate();
        let mut written: Vec<_> =
            outputs.iter().enumerate().map(|(index, tensor)| range("output", index, tensor)).collect();
        written.push(("scratch memory".into(), scratch, self.plan.scratch));
        for (what, address, bytes) in read.iter().chain(&written).filter(|(.., bytes)| *bytes > 0) {
            if !address.is_multiple_of(ALIGNMENT) {
                return Err(Error::new(format!(
                    "{what} at {} is not aligned to {ALIGNMENT}",
                    sim.memory.name(*address)
                )));
            }
            let there = sim.memory.bytes(*address, *bytes as usize);
            there.map_err(|error| Error::new(format!("{what}: {error}")))?;
        }
        read.extend(constants.map(|(index, (_, place))| {
            let (from, bytes) = place.reach();
            (format!("constant {index}"), from, bytes as u64)
        }));
        for (at, (what, from, bytes)) in written.iter().enumerate() {
            let others = read.iter().chain(&written[..at]).filter(|(.., other)| *bytes > 0 && *other > 0);
            if let Some((other, ..)) =
                others.into_iter().find(|(_, begin, size)| from < &(begin + size) && *begin < from + bytes)
            {
                return Err(Error::new(format!("{what} overlaps {other}")));
            }
        }
        Ok(())
    }
}

impl DeviceExecutable for Loaded {
    fn plan(&mut self, inputs: &[DeviceTensor<'_>], outputs: &[DeviceTensor<'_>]) -> Result<DevicePlan, Error> {
        panic_if(&self.panic, "plan");
        self.with("plan", |sim| sim.idle("plan"))?;
        if inputs.iter().chain(outputs).any(|tensor| tensor.address != 0) {
            return Err(Error::new("tensors have addresses, and nothing is planned yet"));
        }
        if let Some(before) = self.prepared.take() {
            before.is_past.store(true, Ordering::Relaxed);
        }
        self.planned = Some(self.shapes(inputs, outputs)?);
        Ok(self.plan.clone())
    }

    fn prepare(
        &mut self,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
        scratch: u64,
    ) -> Result<(), Error> {
        panic_if(&self.panic, "prepare");
        self.with("prepare", |sim| {
            sim.idle("prepare")?;
            self.addresses(sim, inputs, outputs, scratch)
        })?;
        let shapes = self.shapes(inputs, outputs)?;
        if self.planned.as_ref() != Some(&shapes) {
            return Err(Error::new("these shapes were not planned last"));
        }
        let mut places: Vec<Option<Place>> = vec![None; self.program.values];
        for (value, place) in &self.constants {
            places[*value] = Some(place.clone());
        }
        let program = &self.program;
        let tensors = program.inputs.iter().zip(inputs).chain(program.outputs.iter().zip(outputs));
        for (&value, tensor) in tensors {
            let (shape, strides) = (tensor.shape.to_vec(), contiguous_strides(tensor.shape));
            places[value] = Some(Place { address: tensor.address, shape, strides });
        }
        let prepared = Prepared {
            symbol: program.symbol.clone(),
            region: self.number,
            calls: program.calls.clone(),
            shapes,
            places,
            inputs: program.inputs.clone(),
            outputs: program.outputs.clone(),
            scratch: (scratch, self.plan.scratch as usize),
            wrong: self.wrong,
            kernel: self.kernel,
            lasts: self.plan.recordings_last,
            is_past: AtomicBool::new(false),
        };
        sim::with(self.domain, |sim| prepared.prepare(&mut sim.memory))?;
        self.prepared = Some(Arc::new(prepared));
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        panic_if(&self.panic, "run");
        self.with("run", |sim| {
            sim.there()?;
            let prepared = self.prepared.as_ref().ok_or_else(|| Error::new("nothing was prepared"))?;
            if sim.is_recording() && !self.plan.records {
                return Err(Error::new("it cannot be recorded, as its plan says"));
            }
            match self.wrong {
                Wrong::Recording if sim.is_recording() => Err(Error::new("it cannot be recorded after all")),
                Wrong::Queue => sim.run_now(prepared),
                _ => {
                    sim.run(prepared);
                    Ok(())
                }
            }
        })
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        panic_if(&self.panic, "free");
        if let Err(error) = self.with("free", |sim| sim.let_go(self.number)) {
            bug(&format!("free {}: {error}", self.program.symbol));
        }
    }
}
