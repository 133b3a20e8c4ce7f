//! What the machine has: device, driver, libraries, free memory.

use std::path::Path;

use byoc_core::plugin::{Origin, Registered};
use byoc_core::runtime::Device;

use crate::bed::Bed;
use crate::report::{Report, Result};

pub(super) fn run(bed: &Bed, report: &mut Report) {
    for file in &bed.plugins {
        report.check("plugin", plugin(bed, file));
    }
    match Device::open(&bed.device, &bed.registry, &|backend| backend.run_options(&[])) {
        Ok(device) => {
            let info = device.info();
            report.figure("libraries", info.libraries.clone());
            report.check("device", Ok(format!("{}: {}", bed.device, info.title)));
            for (index, library) in info.libraries.iter().enumerate() {
                report.check(&format!("library {}", index + 1), Ok(library.clone()));
            }
        }
        Err(error) => report.check("device", Err(error.into())),
    }
    let memory = bed.gpu().memory().map(|(free, all)| format!("{free} of {all} bytes free"));
    report.check("memory", memory);
}

fn plugin(bed: &Bed, file: &Path) -> Result<String> {
    let of_file = |backend: &&Registered| backend.origin == Origin::File(file.to_owned());
    let backends = bed.registry.backends.iter().filter(of_file);
    let names = backends.map(|found| format!("{} {}", found.description.name, found.description.version));
    let (file, bytes) = (file.display(), std::fs::metadata(file)?.len());
    Ok(format!("{} ({file}, {bytes} bytes)", names.collect::<Vec<_>>().join(", ")))
}
