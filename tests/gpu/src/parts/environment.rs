//! Describes the machine: device, driver, libraries, free memory.

use std::path::Path;

use byoc_core::plugin::{Origin, Registered};
use byoc_core::runtime::Device;

use crate::fixture::Fixture;
use crate::report::{Report, Result};

pub(super) fn run(fixture: &Fixture, report: &mut Report) {
    for file in &fixture.plugins {
        report.check("plugin", plugin(fixture, file));
    }
    match Device::open(&fixture.device, &fixture.registry, &|backend| backend.run_options(&[])) {
        Ok(device) => {
            let info = device.info();
            report.figure("libraries", info.libraries.clone());
            report.check("device", Ok(format!("{}: {}", fixture.device, info.title)));
            for (index, library) in info.libraries.iter().enumerate() {
                report.check(&format!("library {}", index + 1), Ok(library.clone()));
            }
        }
        Err(error) => report.check("device", Err(error.into())),
    }
    let memory = fixture.gpu().memory().map(|(free, all)| format!("{free} of {all} bytes free"));
    report.check("memory", memory);
}

fn plugin(fixture: &Fixture, file: &Path) -> Result<String> {
    let of_file = |backend: &&Registered| backend.origin == Origin::File(file.to_owned());
    let backends = fixture.registry.backends.iter().filter(of_file);
    let names = backends.map(|found| format!("{} {}", found.description.name, found.description.version));
    let (file, bytes) = (file.display(), std::fs::metadata(file)?.len());
    Ok(format!("{} ({file}, {bytes} bytes)", names.collect::<Vec<_>>().join(", ")))
}
