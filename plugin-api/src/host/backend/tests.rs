//! A linked backend that panics in each of its calls, and one that is spoken to as a plugin is.

use super::*;
use crate::constants::{Claim, ClaimSink};
use crate::dlpack;
use crate::domain::{DevicePlan, DeviceTensor, DomainInfo};
use crate::job::Event;
use crate::region::ConstantId;

/// Panics in the call of that name, which is one of a device's where that is true.
struct Panicking(&'static str, bool);

impl Panicking {
    fn at(&self, call: &str) {
        assert!(self.0 != call, "in {call}\nand more");
    }
}

impl Backend for Panicking {
    fn describe(&self) -> Description {
        self.at("describe");
        Description { name: "panicking".into(), domain: self.1.then(|| "test".into()), ..Description::default() }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        self.at("patterns");
        Ok(Vec::new())
    }

    fn check(&self, _: &Region, _: &Options) -> Result<(), Refusal> {
        self.at("check");
        Ok(())
    }

    fn codegen(&self, _: &Job<'_>, _: &mut dyn Write) -> Result<Generated, Error> {
        self.at("codegen");
        Ok(Generated::default())
    }

    fn constant_updater(&self, _: &Job<'_>, _: &[u8], _: &[u8], _: &mut Claims<'_>) -> Result<(), Error> {
        self.at("constant_updater");
        Ok(())
    }

    fn runtime(&self) -> Runtime<'_> {
        match self.1 {
            false => Runtime::Host(self),
            true => Runtime::Device(self),
        }
    }

    fn open(&self, _: &[u8]) -> Result<CodeFile, Error> {
        self.at("open");
        Ok(CodeFile::default())
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

impl HostRuntime for Panicking {
    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        self.at("load");
        Ok(Box::new(Panicking(self.0, self.1)))
    }
}

impl DeviceRuntime for Panicking {
    fn open_domain(&self, _: u32, _: &Options) -> Result<Box<dyn Domain>, Error> {
        self.at("open_domain");
        Ok(Box::new(Panicking(self.0, self.1)))
    }

    fn load<'a>(
        &self,
        _: &'a [u8],
        _: &DeviceConstants<'a>,
        _: &Environment,
        _: &DomainHandles,
    ) -> Result<Box<dyn DeviceExecutable + 'a>, Error> {
        self.at("load");
        Ok(Box::new(Panicking(self.0, self.1)))
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
    LoadedBackend::linked(Box::leak(Box::new(Panicking(call, false)))).expect("it says what it is")
}

fn on_device(call: &'static str) -> LoadedBackend {
    LoadedBackend::linked(Box::leak(Box::new(Panicking(call, true)))).expect("it says what it is")
}

fn load(backend: &LoadedBackend) -> Result<Box<dyn Executable + 'static>, Error> {
    backend.runtime().host()?.load(b"", &BoundConstants::new(Vec::new()), &environment())
}

fn open_domain(backend: &LoadedBackend) -> Result<Box<dyn Domain>, Error> {
    backend.runtime().device()?.open_domain(0, &Options::default())
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
    let described = LoadedBackend::linked(Box::leak(Box::new(Panicking("describe", false))));
    assert_eq!(message(described), panicked("describe"));
    let (options, region) = (Options::default(), Region::default());
    assert_eq!(message(linked("patterns").patterns(&options)), panicked("patterns"));
    let refusal = linked("check").check(&region, &options).expect_err("a refusal");
    assert!(refusal.code == RefusalCode::Panicked && refusal.message.starts_with(&panicked("check")), "{refusal:?}");
    let constants = Constants::new(Vec::new());
    let job = Job::new(&region, &constants, &options);
    let written = linked("codegen").codegen(&job, &mut Vec::new());
    assert_eq!(message(written), panicked("codegen"));
    let mut sink = Nowhere;
    let claimed = linked("constant_updater").constant_updater(&job, b"", b"", &mut Claims::new(&mut sink));
    assert_eq!(message(claimed), panicked("constant_updater"));
    assert_eq!(message(load(&linked("load"))), panicked("load"));
    assert_eq!(message(linked("open").open(b"")), panicked("open"));
    assert_eq!(message(linked("tools").tools(&options)), panicked("tools"));
    assert_eq!(message(linked("candidates").candidates(b"", &options)), panicked("candidates"));
    for call in ["open_domain", "info", "handles"] {
        assert_eq!(message(open_domain(&on_device(call))), panicked(call));
    }
    drop(load(&linked("drop")).expect("loaded"));
    drop(open_domain(&on_device("drop")).expect("opened"));
}

#[test]
fn what_has_panicked_is_not_called_again() {
    let mut executable = load(&linked("run")).expect("loaded");
    assert_eq!(message(executable.run(&[], &mut [])), "backend panicked: in run and more");
    let again = "it failed before and is not called again: backend panicked: in run and more";
    for _ in 0..2 {
        assert_eq!(message(executable.run(&[], &mut [])), again);
    }
}

#[test]
fn devices_are_guarded_in_the_same_way() {
    let constants = DeviceConstants::new(Vec::new());
    for call in ["load", "plan", "prepare", "run"] {
        let handles = Panicking("", true).handles();
        let backend = on_device(call);
        let device = backend.runtime().device().expect("a device");
        let done = device.load(b"", &constants, &environment(), &handles).and_then(|mut region| {
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
        let mut domain = open_domain(&on_device(call)).expect("opened");
        assert_eq!(message(every_call(domain.as_mut())), format!("backend panicked: in {call} and more"));
        let again = format!("it failed before and is not called again: backend panicked: in {call} and more");
        assert_eq!(message(every_call(domain.as_mut())), again);
    }
    // Whoever gives something back is not told, and what comes after is.
    for call in ["release", "release_host", "forget"] {
        let mut domain = open_domain(&on_device(call)).expect("opened");
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

#[test]
fn where_a_backend_runs_is_said_once() {
    struct Torn(bool, Panicking);
    impl Backend for Torn {
        fn describe(&self) -> Description {
            Description { name: "torn".into(), domain: (!self.0).then(|| "test".into()), ..Description::default() }
        }

        fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
            Ok(Vec::new())
        }

        fn check(&self, _: &Region, _: &Options) -> Result<(), Refusal> {
            Ok(())
        }

        fn codegen(&self, _: &Job<'_>, _: &mut dyn Write) -> Result<Generated, Error> {
            Ok(Generated::default())
        }

        fn constant_updater(&self, _: &Job<'_>, _: &[u8], _: &[u8], _: &mut Claims<'_>) -> Result<(), Error> {
            Ok(())
        }

        fn runtime(&self) -> Runtime<'_> {
            match self.0 {
                false => Runtime::Host(&self.1),
                true => Runtime::Device(&self.1),
            }
        }
    }
    let said = |device| message(LoadedBackend::linked(Box::leak(Box::new(Torn(device, Panicking("", device))))));
    assert_eq!(said(false), "its description names the domain 'test', and its runtime is Runtime::Host");
    assert_eq!(said(true), "its description names no domain, and its runtime is Runtime::Device");
}

/// Writes code, and says what there is to say beside it.
struct Talkative(Panicking);

impl Backend for Talkative {
    fn describe(&self) -> Description {
        Description { name: "talkative".into(), ..Description::default() }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        Ok(Vec::new())
    }

    fn check(&self, _: &Region, _: &Options) -> Result<(), Refusal> {
        Ok(())
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        job.log("one\ntwo");
        code.write_all(b"co")?;
        job.progress(1, 2, "the\nrest");
        code.write_all(b"de")?;
        Ok(Generated { notes: vec!["\tone\ntwo".into()], learnt: vec![7, 0, 9] })
    }

    fn constant_updater(
        &self,
        job: &Job<'_>,
        code: &[u8],
        learnt: &[u8],
        claims: &mut Claims<'_>,
    ) -> Result<(), Error> {
        assert_eq!((code, learnt), (&b"code"[..], &[7, 0, 9][..]));
        claims.host(ConstantId(5))?;
        job.log("done");
        Ok(())
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(&self.0)
    }
}

#[test]
fn what_codegen_says_beside_the_code_reaches_the_host() {
    let backend =
        LoadedBackend::linked(Box::leak(Box::new(Talkative(Panicking("", false))))).expect("it says what it is");
    for backend in [backend.under_newer_host(), backend] {
        let (region, constants, options) = (Region::default(), Constants::new(Vec::new()), Options::default());
        let events = std::cell::RefCell::new(Vec::new());
        let tell = |event| events.borrow_mut().push(event);
        let job = Job::new(&region, &constants, &options).with_events(&tell);
        let mut code = Vec::new();
        let generated = backend.codegen(&job, &mut code).expect("code");
        assert_eq!((code.as_slice(), generated.learnt.as_slice()), (&b"code"[..], &[7, 0, 9][..]));
        assert_eq!(generated.notes, ["one two"]);
        let mut sink = Nowhere;
        backend
            .constant_updater(&job, &code, &generated.learnt, &mut Claims::new(&mut sink))
            .expect("the constant is claimed");
        let expected = [
            Event::Log("one two".into()),
            Event::Progress { done: 1, total: 2, next: "the rest".into() },
            Event::Log("done".into()),
        ];
        assert_eq!(events.into_inner(), expected);
    }
}
