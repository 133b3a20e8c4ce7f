//! What the machine has: device, driver, libraries, free memory.

use byoc_core::runtime::Device;

use crate::bed::{BACKEND, Bed};
use crate::report::{Report, Result};

pub(super) fn run(bed: &Bed, report: &mut Report) {
    report.check("plugin", plugin(bed));
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

fn plugin(bed: &Bed) -> Result<String> {
    let backend = bed.registry.get(BACKEND)?;
    let (file, bytes) = (bed.plugin.display(), std::fs::metadata(&bed.plugin)?.len());
    Ok(format!("{BACKEND} {} ({file}, {bytes} bytes)", backend.description.version))
}
