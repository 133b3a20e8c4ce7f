//! The function of the ability `byoc.events`: the host's place for events is kept for [`log`](crate::log) and
//! [`progress`](crate::progress).

use crate::events::keep;
use crate::events_table::{EventSink, EventsTable};

pub(super) const TABLE: &EventsTable = &EventsTable { struct_size: size_of::<EventsTable>(), lend };

extern "C" fn lend(events: EventSink) {
    keep(events);
}
