//! A linked backend that panics in each of its calls, and one that is spoken to as a plugin is.

use super::*;
use crate::constants::{Claim, ClaimSink};
use crate::dlpack;
use crate::domain::{DevicePlan, DeviceTensor, DomainInfo};
use crate::region::ConstantId;

/// Panics in the call of that name.
struct Panicking(&'static str);

impl Panicking {
    fn at(&self, call: &str) {
        assert!(self.0 != call, "in {call}\nand more");
    }
}

impl Backend for Panicking {
    fn describe(&self) -> Description {
        self.at("describe");
        Description { name: "panicking".into(), ..Description::default() }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        self.at("patterns");
        Ok(Vec::new())
    }

    fn check(&self, _: &Region, _: &Options) -> Result<(), Refusal> {
        self.at("check");
        Ok(())
    }

    fn codegen(&self, _: &Region, _: &Constants<'_>, _: &Options, _: &mut dyn Write) -> Result<(), Error> {
        self.at("codegen");
        Ok(())
    }

    fn constant_updater(
        &self,
        _: &Region,
        _: &Constants<'_>,
        _: &[u8],
        _: &Options,
        _: &mut Claims<'_>,
    ) -> Result<(), Error> {
        self.at("constant_updater");
        Ok(())
    }

    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        self.at("load");
        Ok(Box::new(Panicking(self.0)))
    }

    fn open(&self, _: &[u8]) -> Result<CodeFile, Error> {
        self.at("open");
        Ok(CodeFile::default())
    }

    fn open_domain(&self, _: u32, _: &Options) -> Result<Box<dyn Domain>, Error> {
        self.at("open_domain");
        Ok(Box::new(Panicking(self.0)))
    }

    fn load_on<'a>(
        &self,
        _: &'a [u8],
        _: &DeviceConstants<'a>,
        _: &Environment,
        _: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        self.at("load_on");
        Ok(Box::new(Panicking(self.0)))
    }

    fn tools(&self, _: &Options) -> Result<Vec<Tool>, Error> {
        self.at("tools");
        Ok(Vec::new())
    }

    fn candidates(&self, _: &[u8], _: &Options) -> Result<Vec<Candidate>, Error> {
        self.at("candidates");
        Ok(Vec::new())
    }
}

impl Drop for Panicking {
    fn drop(&mut self) {
        self.at("drop");
    }
}

impl Executable for Panicking {
    fn run(&mut self, _: &[TensorView<'_>], _: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        self.at("run");
        Ok(())
    }
}

impl DeviceExecutable for Panicking {
    fn plan(&mut self, _: &[DeviceTensor<'_>], _: &[DeviceTensor<'_>]) -> Result<DevicePlan, Error> {
        self.at("plan");
        Ok(DevicePlan::default())
    }

    fn prepare(&mut self, _: &[DeviceTensor<'_>], _: &[DeviceTensor<'_>], _: u64) -> Result<(), Error> {
        self.at("prepare");
        Ok(())
    }

    fn run(&mut self) -> Result<(), Error> {
        self.at("run");
        Ok(())
    }
}

impl Domain for Panicking {
    fn info(&self) -> DomainInfo {
        self.at("info");
        DomainInfo::default()
    }

    fn handles(&self) -> DomainHandles {
        self.at("handles");
        DomainHandles { device: dlpack::CPU, context: std::ptr::null_mut(), queue: std::ptr::null_mut() }
    }

    fn allocate(&mut self, _: u64) -> Result<u64, Error> {
        self.at("allocate");
        Ok(256)
    }

    unsafe fn release(&mut self, _: u64) {
        self.at("release");
    }

    fn allocate_host(&mut self, _: usize) -> Result<*mut u8, Error> {
        self.at("allocate_host");
        Ok(std::ptr::without_provenance_mut(64))
    }

    unsafe fn release_host(&mut self, _: *mut u8) {
        self.at("release_host");
    }

    unsafe fn upload(&mut self, _: u64, _: *const u8, _: usize) -> Result<(), Error> {
        self.at("upload");
        Ok(())
    }

    unsafe fn download(&mut self, _: *mut u8, _: u64, _: usize) -> Result<(), Error> {
        self.at("download");
        Ok(())
    }

    unsafe fn copy(&mut self, _: u64, _: u64, _: usize) -> Result<(), Error> {
        self.at("copy");
        Ok(())
    }

    fn synchronize(&mut self) -> Result<(), Error> {
        self.at("synchronize");
        Ok(())
    }

    fn mark(&mut self, _: u32) -> Result<(), Error> {
        self.at("mark");
        Ok(())
    }

    fn elapsed(&mut self, _: u32, _: u32) -> Result<f64, Error> {
        self.at("elapsed");
        Ok(0.0)
    }

    fn begin_recording(&mut self) -> Result<(), Error> {
        self.at("begin_recording");
        Ok(())
    }

    fn end_recording(&mut self) -> Result<u64, Error> {
        self.at("end_recording");
        Ok(0)
    }

    fn replay(&mut self, _: u64) -> Result<(), Error> {
        self.at("replay");
        Ok(())
    }

    fn forget(&mut self, _: u64) {
        self.at("forget");
    }
}

fn linked(call: &'static str) -> LoadedBackend {
    LoadedBackend::linked(Box::leak(Box::new(Panicking(call)))).expect("it says what it is")
}

fn environment() -> Environment {
    Environment { threads: 1, options: Options::default() }
}

/// Claims that nobody wants.
struct Nowhere;

impl ClaimSink for Nowhere {
    fn claim(&mut self, _: ConstantId, _: &Claim) -> Result<(), Error> {
        Ok(())
    }

    fn write(&mut self, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// The error of a call, without the place that follows where the hook of another test is there.
#[track_caller]
fn message<T>(result: Result<T, Error>) -> String {
    let message = result.err().expect("a panic is an error").message;
    assert!(!message.contains('\n'), "{message}");
    message.split(" (").next().unwrap_or_default().to_owned()
}

#[test]
fn a_panic_in_any_call_is_an_error_of_one_line() {
    let panicked = |call: &str| format!("backend panicked: in {call} and more");
    let described = LoadedBackend::linked(Box::leak(Box::new(Panicking("describe"))));
    assert_eq!(message(described), panicked("describe"));
    let (options, region) = (Options::default(), Region::default());
    assert_eq!(message(linked("patterns").patterns(&options)), panicked("patterns"));
    let refusal = linked("check").check(&region, &options).expect_err("a refusal");
    assert!(refusal.code == RefusalCode::Failed && refusal.message.starts_with(&panicked("check")), "{refusal:?}");
    let constants = Constants::new(Vec::new());
    let written = linked("codegen").codegen(&region, &constants, &options, &mut Vec::new());
    assert_eq!(message(written), panicked("codegen"));
    let mut sink = Nowhere;
    let claimed =
        linked("constant_updater").constant_updater(&region, &constants, b"", &options, &mut Claims::new(&mut sink));
    assert_eq!(message(claimed), panicked("constant_updater"));
    let bound = BoundConstants::new(Vec::new());
    assert_eq!(message(linked("load").load(b"", &bound, &environment())), panicked("load"));
    assert_eq!(message(linked("open").open(b"")), panicked("open"));
    assert_eq!(message(linked("tools").tools(&options)), panicked("tools"));
    assert_eq!(message(linked("candidates").candidates(b"", &options)), panicked("candidates"));
    for call in ["open_domain", "info", "handles"] {
        assert_eq!(message(linked(call).open_domain(0, &options)), panicked(call));
    }
    let backend = linked("drop");
    drop(backend.load(b"", &bound, &environment()).expect("loaded"));
    drop(backend.open_domain(0, &options).expect("opened"));
}

#[test]
fn what_has_panicked_is_not_called_again() {
    let bound = BoundConstants::new(Vec::new());
    let backend = linked("run");
    let mut executable = backend.load(b"", &bound, &environment()).expect("loaded");
    assert_eq!(message(executable.run(&[], &mut [])), "backend panicked: in run and more");
    let again = "it failed before and is not called again: backend panicked: in run and more";
    for _ in 0..2 {
        assert_eq!(message(executable.run(&[], &mut [])), again);
    }
}

#[test]
fn devices_are_guarded_in_the_same_way() {
    let options = Options::default();
    let constants = DeviceConstants::new(Vec::new());
    for call in ["load_on", "plan", "prepare", "run"] {
        let handles = Panicking("").handles();
        let done = linked(call).load_on(b"", &constants, &environment(), &handles).and_then(|mut region| {
            region.plan(&[], &[])?;
            region.prepare(&[], &[], 0)?;
            region.run()
        });
        assert_eq!(message(done), format!("backend panicked: in {call} and more"));
    }
    let calls = [
        "allocate",
        "allocate_host",
        "upload",
        "download",
        "copy",
        "synchronize",
        "mark",
        "elapsed",
        "begin_recording",
        "end_recording",
        "replay",
    ];
    for call in calls {
        let mut domain = linked(call).open_domain(0, &options).expect("opened");
        assert_eq!(message(every_call(domain.as_mut())), format!("backend panicked: in {call} and more"));
        let again = format!("it failed before and is not called again: backend panicked: in {call} and more");
        assert_eq!(message(every_call(domain.as_mut())), again);
    }
    // Whoever gives something back is not told, and what comes after is.
    for call in ["release", "release_host", "forget"] {
        let mut domain = linked(call).open_domain(0, &options).expect("opened");
        let _ = every_call(domain.as_mut());
        let again = format!("it failed before and is not called again: backend panicked: in {call} and more");
        assert_eq!(message(domain.synchronize()), again);
    }
}

fn every_call(domain: &mut dyn Domain) -> Result<(), Error> {
    domain.allocate(1)?;
    domain.allocate_host(1)?;
    let mut byte = 0u8;
    // SAFETY: this domain looks at none of the addresses.
    unsafe {
        domain.upload(0, &raw const byte, 1)?;
        domain.download(&raw mut byte, 0, 1)?;
        domain.copy(0, 0, 1)?;
        domain.release(0);
        domain.release_host(&raw mut byte);
    }
    domain.forget(0);
    domain.synchronize()?;
    domain.mark(0)?;
    domain.elapsed(0, 0)?;
    domain.begin_recording()?;
    domain.end_recording()?;
    domain.replay(0)
}
