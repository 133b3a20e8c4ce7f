//! The texts of a session: an element of a tensor of strings is a handle into this table.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use byoc_plugin_api::{Error, Handle, Texts};

use super::handles::Handles;
use crate::memory;

/// What a text takes beside its bytes: its counters, its places in the tables, and the rest of a block of memory.
const OVERHEAD: usize = 96;

/// The texts that the caller has given, and those that the run has made. Handle 0 is the empty text.
#[derive(Debug, Default)]
pub(crate) struct TextTable(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    texts: Handles<Arc<str>>,
    /// What was made, by its text: a loop that makes the same texts in each iteration takes no more memory.
    known: HashMap<Arc<str>, Handle>,
    /// Bytes of what was given, and of what was made.
    given: usize,
    made: usize,
}

impl State {
    /// A text of its own, where there is memory for it beside the others.
    fn copy(&self, text: &str) -> Result<(Arc<str>, usize), Error> {
        let bytes = text.len().saturating_add(OVERHEAD);
        let all = bytes.saturating_add(self.given).saturating_add(self.made);
        let short = |shortage: memory::Shortage| shortage.error("the texts of a run");
        memory::check(all).map_err(short)?;
        // A failed allocation of the text itself would end the process.
        drop(memory::room::<u8>(bytes).map_err(short)?);
        Ok((Arc::from(text), bytes))
    }
}

impl TextTable {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a text that the caller gives. It stays until the caller takes back what it has given.
    pub(crate) fn give(&self, text: &str) -> Result<Handle, Error> {
        let mut state = self.state();
        let (text, bytes) = state.copy(text)?;
        state.given += bytes;
        Ok(Handle(state.texts.give(text) + 1))
    }

    /// Takes back what the caller has given.
    pub(crate) fn take_back(&self) {
        let mut state = self.state();
        state.texts.forget_given();
        state.given = 0;
    }

    /// A run begins: what the one before has made is gone.
    pub(crate) fn begin_run(&self) {
        let mut state = self.state();
        state.texts.forget_made();
        state.known.clear();
        state.made = 0;
    }
}

impl Texts for TextTable {
    fn get(&self, handle: Handle) -> Result<Arc<str>, Error> {
        let Some(index) = handle.0.checked_sub(1) else { return Ok(Arc::default()) };
        let state = self.state();
        let found = state.texts.get(index);
        found.cloned().ok_or_else(|| Error::new(format!("the handle {} stands for no text", handle.0)))
    }

    fn add(&self, text: &str) -> Result<Handle, Error> {
        if text.is_empty() {
            return Ok(Handle::default());
        }
        let mut state = self.state();
        if let Some(known) = state.known.get(text) {
            return Ok(*known);
        }
        let (text, bytes) = state.copy(text)?;
        state.made += bytes;
        let handle = Handle(state.texts.make(Arc::clone(&text)) + 1);
        state.known.insert(text, handle);
        Ok(handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_makes_goes_and_what_is_given_stays() {
        let table = TextTable::default();
        let (given, made) = (table.give("given").expect("room"), table.add("made").expect("room"));
        let text = |handle| table.get(handle).map(|text| text.to_string()).map_err(|error| error.message);
        assert_eq!([text(given), text(made)], [Ok("given".into()), Ok("made".into())]);
        assert_eq!((table.add("").expect("room"), text(Handle(0))), (Handle(0), Ok(String::new())));
        table.begin_run();
        assert_eq!(text(made), Err("the handle 1 stands for no text".into()));
        assert_eq!(text(given), Ok("given".into()));
        table.take_back();
        for handle in [given, made, Handle(7), Handle(u64::MAX), Handle(1 << 63)] {
            assert_eq!(text(handle), Err(format!("the handle {} stands for no text", handle.0)));
        }
    }
}
