//! A domain as the host calls it.

use byoc_plugin_api::{Domain, DomainHandles, DomainInfo, Error, Options};

use crate::host::HostPlace;
use crate::log::{Log, bug, panic_if};
use crate::memory::Memory;
use crate::sim::{self, Sim, Work};

/// An open domain.
pub(crate) struct Opened {
    number: usize,
    ordinal: u32,
    info: DomainInfo,
    /// The call that panics.
    panic: String,
}

impl Opened {
    pub(crate) fn open(ordinal: u32, options: &Options) -> Result<Opened, Error> {
        panic_if(options.text("panic"), "open_domain");
        let log = Log::of_environment();
        log.line(&format!("open {ordinal}"));
        if options.bool("off") {
            return Err(Error::new("the simulator is switched off").hint("Leave out simdev.off"));
        }
        let total = u64::try_from(options.int("memory")).unwrap_or(0);
        let memory = Memory::new(ordinal, total).ok_or_else(|| {
            Error::new(format!("the simulator has no device sim:{ordinal}")).hint("It has sim:0 and sim:1")
        })?;
        let info = DomainInfo {
            title: "a simulated device".into(),
            memory: total,
            records: options.bool("records"),
            libraries: vec![concat!("simdev ", env!("CARGO_PKG_VERSION"), ", within the plugin").into()],
        };
        Ok(Opened {
            number: sim::enter(Sim::new(log, memory, options.text("fault"))),
            ordinal,
            info,
            panic: options.text("panic").into(),
        })
    }

    fn with<T>(&self, call: impl FnOnce(&mut Sim) -> Result<T, Error>) -> Result<T, Error> {
        sim::with(self.number, call)
    }

    /// A call that gives no answer, with its line.
    fn quietly(&self, what: &str, call: impl FnOnce(&mut Sim) -> Result<(), Error>) {
        if let Err(error) = self.with(call) {
            bug(&format!("{what}: {error}"));
        }
    }

    /// A copy that is queued, with its line.
    fn copied(&self, line: impl FnOnce(&Sim) -> String, what: &str, work: Work) -> Result<(), Error> {
        self.with(|sim| {
            sim.log.line(&line(sim));
            sim.idle(what)?;
            sim.queue(work);
            Ok(())
        })
    }

    fn records(&self) -> Result<(), Error> {
        match self.info.records {
            true => Ok(()),
            false => Err(Error::new("this domain records nothing")),
        }
    }
}

impl Domain for Opened {
    fn info(&self) -> DomainInfo {
        panic_if(&self.panic, "info");
        self.info.clone()
    }

    fn handles(&self) -> DomainHandles {
        panic_if(&self.panic, "handles");
        sim::handles(self.number, self.ordinal)
    }

    fn allocate(&mut self, bytes: u64) -> Result<u64, Error> {
        panic_if(&self.panic, "allocate");
        self.with(|sim| {
            let allocated = sim.idle("allocate").and_then(|()| sim.memory.allocate(bytes));
            match &allocated {
                Ok((_, number)) => sim.log.line(&format!("allocate {bytes} -> @{number}")),
                Err(_) => sim.log.line(&format!("allocate {bytes}")),
            }
            Ok(allocated?.0)
        })
    }

    unsafe fn release(&mut self, address: u64) {
        panic_if(&self.panic, "release");
        self.quietly("release", |sim| {
            let number = sim.memory.release(address)?;
            sim.log.line(&format!("release @{number}"));
            // Gives no answer; who ends the recording is told.
            let _ = sim.idle("release");
            Ok(())
        });
    }

    fn allocate_host(&mut self, bytes: usize) -> Result<*mut u8, Error> {
        panic_if(&self.panic, "allocate_host");
        self.with(|sim| {
            sim.idle("allocate_host")?;
            if bytes == 0 {
                return Err(Error::new("0 bytes were asked for"));
            }
            let (address, number) = sim.host.allocate(bytes);
            sim.log.line(&format!("allocate_host {bytes} -> h{number}"));
            Ok(address)
        })
    }

    unsafe fn release_host(&mut self, address: *mut u8) {
        panic_if(&self.panic, "release_host");
        self.quietly("release_host", |sim| {
            let number = sim.host.release(address);
            let number = number.ok_or_else(|| Error::new("there is no page-locked memory at that address"))?;
            sim.log.line(&format!("release_host h{number}"));
            let _ = sim.idle("release_host");
            Ok(())
        });
    }

    unsafe fn upload(&mut self, to: u64, from: *const u8, bytes: usize) -> Result<(), Error> {
        panic_if(&self.panic, "upload");
        let work = Work::Upload { to, from: HostPlace::of(from), bytes };
        self.copied(|sim| format!("upload {bytes} to {}", sim.memory.name(to)), "upload", work)
    }

    unsafe fn download(&mut self, to: *mut u8, from: u64, bytes: usize) -> Result<(), Error> {
        panic_if(&self.panic, "download");
        let work = Work::Download { to: HostPlace::of(to), from, bytes };
        self.copied(|sim| format!("download {bytes} from {}", sim.memory.name(from)), "download", work)
    }

    unsafe fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), Error> {
        panic_if(&self.panic, "copy");
        let line = |sim: &Sim| format!("copy {bytes} from {} to {}", sim.memory.name(from), sim.memory.name(to));
        self.copied(line, "copy", Work::Copy { to, from, bytes })
    }

    fn synchronize(&mut self) -> Result<(), Error> {
        panic_if(&self.panic, "synchronize");
        self.with(|sim| {
            sim.log.line("synchronize");
            sim.idle("synchronize")?;
            sim.synchronize()
        })
    }

    fn mark(&mut self, number: u32) -> Result<(), Error> {
        panic_if(&self.panic, "mark");
        self.copied(|_| format!("mark {number}"), "mark", Work::Mark(number))
    }

    fn elapsed(&mut self, from: u32, to: u32) -> Result<f64, Error> {
        panic_if(&self.panic, "elapsed");
        self.with(|sim| {
            sim.log.line(&format!("elapsed {from} {to}"));
            sim.elapsed(from, to)
        })
    }

    fn begin_recording(&mut self) -> Result<(), Error> {
        panic_if(&self.panic, "begin_recording");
        self.records()?;
        self.with(|sim| {
            sim.log.line("begin");
            sim.begin_recording()
        })
    }

    fn end_recording(&mut self) -> Result<u64, Error> {
        panic_if(&self.panic, "end_recording");
        self.records()?;
        self.with(|sim| {
            let ended = sim.end_recording();
            match &ended {
                Ok(number) => sim.log.line(&format!("end -> {number}")),
                Err(_) => sim.log.line("end"),
            }
            ended
        })
    }

    fn replay(&mut self, recording: u64) -> Result<(), Error> {
        panic_if(&self.panic, "replay");
        self.records()?;
        self.with(|sim| {
            sim.log.line(&format!("replay {recording}"));
            sim.replay(recording)
        })
    }

    fn forget(&mut self, recording: u64) {
        panic_if(&self.panic, "forget");
        self.quietly("forget", |sim| {
            sim.log.line(&format!("forget {recording}"));
            sim.forget(recording);
            Ok(())
        });
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        panic_if(&self.panic, "close");
        self.quietly("close", |sim| {
            sim.log.line("close");
            if sim.regions() > 0 {
                return Err(Error::new(format!("{} regions are still loaded", sim.regions())));
            }
            // Nobody is left to tell.
            let _ = sim.synchronize();
            Ok(())
        });
        sim::leave(self.number);
    }
}
