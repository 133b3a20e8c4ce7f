//! The run tower: opens an artifact's entry and the devices that it runs on, binds every region to its backend, and runs
//! it.

mod bind;
mod copies;
mod device;
mod handles;
mod open;
mod plan;
mod resident;
mod session;
mod stages;
mod steps;
mod texts;
mod variants;

pub use bind::backend as region_backend;
pub use copies::{PlannedCopy, planned_copies};
pub use device::{Device, DeviceName, OpenedDomain, UnopenedDomain, open_domain};
pub use open::{Opened, open_by_content, open_file, open_region};
pub use session::{
    CopyTime, DeviceArray, DeviceUse, Input, ListView, LoadOptions, MadeList, OutputBuffer, PortIndex, PortInfo,
    Queueing, RegionTime, Session, SingleCalls, SingleRegion, Span, SpanKind, StepTime, Trial, Work, select_entry,
};
pub use variants::{
    Best, PassedOver, Wanted, backends, is_about_the_machine, load_best, none_can_be_loaded, settings_for,
    unused_device,
};
