//! The functions of the ability `byoc.strings`: a table of texts that the host lends.

use std::ffi::c_void;
use std::sync::Arc;

use super::{Loaded, guard};
use crate::abi::{self, Sink, Slice};
use crate::dtype::Handle;
use crate::error::Error;
use crate::strings_table::{StringsTable, TextTable};
use crate::texts::Texts;

pub(super) const TABLE: &StringsTable = &StringsTable { struct_size: size_of::<StringsTable>(), lend };

/// The host's table.
struct HostTexts(TextTable);

// SAFETY: by contract the functions may be called from any thread.
unsafe impl Send for HostTexts {}
// SAFETY: see above.
unsafe impl Sync for HostTexts {}

impl Texts for HostTexts {
    fn get(&self, handle: Handle) -> Result<Arc<str>, Error> {
        let mut text = Slice::new(&[]);
        if (self.0.get)(self.0.context, handle.0, &mut text) != abi::OK {
            return Err(Error::new(format!("the handle {} stands for no text", handle.0)));
        }
        // SAFETY: the host lends the bytes until the run ends; here they are copied.
        let text = std::str::from_utf8(unsafe { text.bytes() });
        text.map(Arc::from).map_err(|_| Error::new("the host gave a text that is not UTF-8"))
    }

    fn add(&self, text: &str) -> Result<Handle, Error> {
        let mut handle = 0;
        match (self.0.add)(self.0.context, Slice::new(text.as_bytes()), &mut handle) {
            abi::OK => Ok(Handle(handle)),
            _ => Err(Error::new("the host takes no more texts")),
        }
    }
}

extern "C" fn lend(executable: *mut c_void, texts: TextTable, error: Sink) -> i32 {
    guard(error, || {
        // SAFETY: the handle came from `load`, is not freed yet, and the host makes one call at a time.
        let loaded = unsafe { &mut *executable.cast::<Loaded>() };
        loaded.executable.call(|executable| executable.lend(Arc::new(HostTexts(texts))))
    })
}
