//! A plugin that misbehaves on demand: it multiplies by a constant of the same shape, and does one thing wrong, see
//! [`Fault`].

#[path = "../../../src/fault.rs"]
#[allow(dead_code, unreachable_pub, reason = "the test uses the rest of the list")]
mod fault;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use byoc_plugin_api::{
    Backend, BoundConstants, Claims, ConstantAccess, ConstantId, DType, Description, Environment, Error, Executable,
    Generated, HostRuntime, Job, Options, Packed, Pattern, Refusal, RefusalCode, Region, RegionPolicy, Runtime,
    TensorView, TensorViewMut,
};
use fault::Fault;

struct Hostile;

impl Backend for Hostile {
    fn describe(&self) -> Description {
        panic_if(Fault::PanicInDescribe);
        segfault_if(Fault::SegfaultInDescribe);
        let name = if has(Fault::BadName) { "../Hostile One" } else { "hostile" };
        Description {
            name: name.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Misbehaves on demand".into(),
            host: false,
            regions: RegionPolicy::default(),
            constant_access: ConstantAccess::Both,
            options: vec![],
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        panic_if(Fault::PanicInPatterns);
        let text = if has(Fault::BadPattern) { "(Mul ?x ?w:const" } else { "(Mul ?x ?w:const)" };
        Ok(vec![Pattern::new("scale", text)])
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        panic_if(Fault::PanicInCheck);
        segfault_if(Fault::SegfaultInCheck);
        let first = &candidate.values[0];
        if candidate.values.iter().any(|value| value.dtype != DType::F32) {
            return Err(Refusal::new(RefusalCode::Type, "only f32 is taken"));
        }
        match candidate.values.iter().all(|value| value.shape == first.shape) {
            true => Ok(()),
            false => Err(Refusal::new(RefusalCode::Shape, "the factor must have the shape of the input")),
        }
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        write_code(job, code).map(|()| Generated::default())
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        let id = job.region.constants[0].id;
        let packed = Packed::new("hostile/1", DType::U8, &[8]);
        match Fault::chosen() {
            Some(Fault::AbortInConstantUpdater) => std::process::abort(),
            Some(Fault::ClaimsNothing) => Ok(()),
            Some(Fault::ClaimsTwice) => claims.host(id).and_then(|()| claims.unused(id)),
            Some(Fault::ClaimsUnknown) => claims.host(ConstantId(4711)),
            Some(Fault::PacksWithoutLayout) => claims.packed(id, Packed::new("", DType::U8, &[8])).map(drop),
            Some(Fault::PacksTooLittle) => Ok(claims.packed(id, packed)?.write_all(&[1; 7])?),
            Some(Fault::PacksTooMuch) => {
                let _ = claims.packed(id, packed)?.write_all(&[1; 9]);
                Ok(())
            }
            Some(Fault::PacksEndlessly) => {
                write_endlessly(&mut claims.packed(id, Packed::new("hostile/1", DType::U8, &[1 << 50]))?)
            }
            Some(Fault::PacksMisaligned) => claims.packed(id, packed.aligned(8192)).map(drop),
            Some(Fault::PanicInConstantUpdater) => {
                claims.packed(id, packed)?.write_all(&[1; 4])?;
                panic!("as the fault wants it");
            }
            _ => claims.host(id),
        }
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

impl HostRuntime for Hostile {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        panic_if(Fault::PanicInLoad);
        if has(Fault::FailsInLoad) {
            return Err(Error::new("the device is busy").hint("Try again later"));
        }
        let id = std::str::from_utf8(code).ok().and_then(|text| text.trim().parse().ok());
        let id = ConstantId(id.ok_or_else(|| Error::new("damaged code"))?);
        Ok(Box::new(Scale { by: constants.host(id)?.to_vec::<f32>()? }))
    }
}

/// Whether this process has worked for long.
static WORKED: AtomicBool = AtomicBool::new(false);

/// Writes the id of the constant, or does what the fault wants.
fn write_code(job: &Job<'_>, code: &mut dyn Write) -> Result<(), Error> {
    let Job { region, constants, .. } = *job;
    writeln!(code, "{}", region.constants[0].id)?;
    code.flush()?;
    panic_if(Fault::PanicInCodegen);
    segfault_if(Fault::SegfaultInCodegen);
    match Fault::chosen() {
        Some(Fault::RefusesLate) => Err(Error::new("no more than 3 dimensions are supported")),
        Some(Fault::FailsWithHint) => {
            Err(Error::new("the kernel does not fit").at(&region.nodes[0].name).hint("Lower hostile.size"))
        }
        Some(Fault::HangsInCodegen) => loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        },
        Some(Fault::WorksLong) if !WORKED.swap(true, Ordering::Relaxed) => {
            for step in 0..20 {
                job.progress(step, 20, "long work");
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            Ok(())
        }
        Some(Fault::TakesAllMemory) => {
            // In pieces, so that it is the limit that ends it and not a size that no allocator takes.
            let mut taken: Vec<Vec<u8>> = Vec::new();
            while taken.len() < 4096 {
                taken.push(vec![1; 32 << 20]);
            }
            Err(Error::new("there was enough memory"))
        }
        Some(Fault::WritesEndlessCode) => write_endlessly(code),
        Some(Fault::PrintsInCodegen) => Ok(std::io::stdout().write_all(b"a plugin's own words\n")?),
        Some(Fault::FailsInColour) => Err(Error::new("\u{1b}[31mfirst line\r\nsecond line\u{7}")),
        Some(fault @ (Fault::EmbedsHost | Fault::EmbedsPart)) => {
            let constant = constants.get(region.constants[0].id);
            let bytes = constant.and_then(TensorView::as_bytes).unwrap_or_default();
            let start = if fault == Fault::EmbedsPart { bytes.len() / 4 } else { 0 };
            Ok(code.write_all(&bytes[start..])?)
        }
        _ => Ok(()),
    }
}

struct Scale {
    by: Vec<f32>,
}

impl Executable for Scale {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        panic_if(Fault::PanicInRun);
        if has(Fault::FailsInRun) {
            return Err(Error::new("the device is gone"));
        }
        let (Some(x), Some(y)) = (inputs[0].as_slice::<f32>(), outputs[0].as_mut_slice::<f32>()) else {
            return Err(Error::new("expected tensors of f32"));
        };
        for ((y, x), by) in y.iter_mut().zip(x).zip(&self.by) {
            *y = x * by;
        }
        Ok(())
    }
}

impl Drop for Scale {
    fn drop(&mut self) {
        panic_if(Fault::PanicInDrop);
    }
}

fn has(fault: Fault) -> bool {
    Fault::chosen() == Some(fault)
}

/// Writes more than any disk holds, unless it is told to stop.
fn write_endlessly(out: &mut dyn Write) -> Result<(), Error> {
    let block = vec![7; 1 << 20];
    loop {
        out.write_all(&block)?;
    }
}

/// Ends the process as a wild pointer does.
fn segfault_if(fault: Fault) {
    if has(fault) {
        let wild = std::ptr::without_provenance_mut::<u8>(8);
        // SAFETY: none: this is the fault.
        unsafe { wild.write_volatile(1) };
    }
}

/// Runs when the library is opened.
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    if has(Fault::ExitsInConstructor) {
        std::process::exit(0);
    }
}

fn panic_if(fault: Fault) {
    assert!(!has(fault), "as the fault wants it");
}

byoc_plugin_api::register_backend!(Hostile);
byoc_plugin_api::export_plugin!();
