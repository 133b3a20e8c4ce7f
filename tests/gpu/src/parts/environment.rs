//! Describes the machine: device, driver, libraries, free memory.

use std::path::Path;

use byoc_core::plugin::{Origin, Registered};
use byoc_nvidia::locate::{self, CudaSearchPath, Library};
use byoc_plugin_api::Domain as _;

use crate::fixture::Fixture;
use crate::report::{Report, Result};

pub(super) fn run(fixture: &Fixture, report: &mut Report) {
    for file in &fixture.plugins {
        report.check("plugin", plugin(fixture, file));
    }
    let info = fixture.gpu().domain.info();
    report.figure("device", fixture.title.as_str());
    report.figure("stand_in", fixture.is_stand_in());
    report.check("device", Ok(format!("{}: {}", fixture.device, info.title)));
    if fixture.is_stand_in() {
        let name = &fixture.title;
        report.note(&format!(
            "'{name}' is not a GPU: it computes on the CPU, and its times and sizes say nothing of one"
        ));
    }
    libraries(report);
    let memory = fixture.gpu().memory().map(|(free, all)| format!("{free} of {all} bytes free"));
    report.check("memory", memory);
}

/// The libraries that are used, those that only some parts need among them.
fn libraries(report: &mut Report) {
    let search_path = CudaSearchPath::of_process(None);
    let driver = match locate::driver(&search_path) {
        Ok(driver) => driver,
        Err(error) => return report.check("driver", Err(error.into())),
    };
    for library in [Library::Driver, Library::CublasLt, Library::Nvrtc] {
        match locate::library(library, &search_path, &driver) {
            Ok(found) => report.check("library", Ok(found.to_string())),
            Err(error) => report.note(&format!("note  {error}")),
        }
    }
}

fn plugin(fixture: &Fixture, file: &Path) -> Result<String> {
    let of_file = |backend: &&Registered| backend.origin == Origin::File(file.to_owned());
    let backends = fixture.registry.backends.iter().filter(of_file);
    let names = backends.map(|found| format!("{} {}", found.description.name, found.description.version));
    let (file, bytes) = (file.display(), std::fs::metadata(file)?.len());
    Ok(format!("{} ({file}, {bytes} bytes)", names.collect::<Vec<_>>().join(", ")))
}
