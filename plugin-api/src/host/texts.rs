//! A table of texts as a plugin is lent it.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::{self, Slice};
use crate::dtype::Handle;
use crate::error::Error;
use crate::strings_table::TextTable;
use crate::texts::Texts;

/// The table, with the texts that the plugin was given in this run.
pub(super) struct LentTexts {
    texts: Arc<dyn Texts>,
    given: Mutex<HashMap<Handle, Arc<str>>>,
    /// Why the last call failed, which the plugin cannot know.
    failed: Mutex<Option<Error>>,
}

impl LentTexts {
    pub(super) fn new(texts: Arc<dyn Texts>) -> LentTexts {
        LentTexts { texts, given: Mutex::default(), failed: Mutex::default() }
    }

    /// What crosses the border. It is good as long as this stays where it is.
    pub(super) fn table(&self) -> TextTable {
        TextTable { context: std::ptr::from_ref(self).cast_mut().cast(), get, add }
    }

    /// A run begins or ends: the plugin has given back what it was lent. Says why a call of the run has failed.
    pub(super) fn release(&self) -> Option<Error> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn answer(&self, answer: Result<(), Error>) -> i32 {
        let Err(error) = answer else { return abi::OK };
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        abi::FAILED
    }
}

extern "C" fn get(context: *mut c_void, handle: u64, text: *mut Slice) -> i32 {
    // SAFETY: `context` is what the executable keeps until it is freed; all of it may be shared between threads.
    let lent = unsafe { &*context.cast::<LentTexts>() };
    lent.answer((|| {
        if text.is_null() {
            return Err(Error::new("the plugin asks for a text without a place for it"));
        }
        let found = lent.texts.get(Handle(handle))?;
        let mut given = lent.given.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = given.entry(Handle(handle)).or_insert(found);
        // SAFETY: the plugin gives a valid place, and the text stays where it is until the run ends.
        unsafe { *text = Slice::new(kept.as_bytes()) };
        Ok(())
    })())
}

extern "C" fn add(context: *mut c_void, text: Slice, handle: *mut u64) -> i32 {
    // SAFETY: as in `get`.
    let lent = unsafe { &*context.cast::<LentTexts>() };
    lent.answer((|| {
        if handle.is_null() {
            return Err(Error::new("the plugin adds a text without a place for its handle"));
        }
        // SAFETY: the plugin lends the bytes for this call.
        let text = std::str::from_utf8(unsafe { text.bytes() });
        let text = text.map_err(|_| Error::new("the plugin made a text that is not UTF-8"))?;
        let made = lent.texts.add(text)?;
        // SAFETY: the plugin gives a valid place.
        unsafe { *handle = made.0 };
        Ok(())
    })())
}
