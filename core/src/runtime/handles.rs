//! What a run holds that is no tensor of numbers: a tensor has a handle in its place, by which it is found here.

/// Marks a handle of what the caller has given.
const GIVEN: u64 = 1 << 63;

/// Things that are told by handles: those that the caller has given stay until they are taken back, those that a run has made until
/// the next run. A handle may come from anywhere, so one that stands for nothing is no error of the program.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    given: Vec<T>,
    made: Vec<T>,
}

impl<T> Default for Handles<T> {
    fn default() -> Handles<T> {
        Handles { given: Vec::new(), made: Vec::new() }
    }
}

impl<T> Handles<T> {
    /// Adds what the caller gives.
    pub(crate) fn give(&mut self, thing: T) -> u64 {
        self.given.push(thing);
        GIVEN | (self.given.len() - 1) as u64
    }

    /// Adds what a run makes.
    pub(crate) fn make(&mut self, thing: T) -> u64 {
        self.made.push(thing);
        (self.made.len() - 1) as u64
    }

    /// What the handle stands for.
    pub(crate) fn get(&self, handle: u64) -> Option<&T> {
        let (things, index) = if handle & GIVEN == 0 { (&self.made, handle) } else { (&self.given, handle & !GIVEN) };
        things.get(usize::try_from(index).ok()?)
    }

    /// How many things the run has made so far.
    pub(crate) fn made(&self) -> usize {
        self.made.len()
    }

    /// Forgets what was made behind the first so many things, but for what these handles stand for, which become those of the same
    /// things in their new places.
    pub(crate) fn keep(&mut self, first: usize, handles: &mut [u64])
    where
        T: Clone,
    {
        let is_later = |handle: u64| handle & GIVEN == 0 && handle >= first as u64;
        let things: Vec<_> =
            handles.iter().map(|&handle| is_later(handle).then(|| self.get(handle).cloned()).flatten()).collect();
        self.made.truncate(first);
        for (handle, thing) in handles.iter_mut().zip(things) {
            if let Some(thing) = thing {
                *handle = self.make(thing);
            }
        }
    }

    /// A run begins: what the one before has made is gone.
    pub(crate) fn forget_made(&mut self) {
        self.made.clear();
    }

    /// Takes back what the caller has given.
    pub(crate) fn forget_given(&mut self) {
        self.given.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_stays_and_what_is_made_goes() {
        let mut handles = Handles::default();
        let (given, made) = (handles.give("given"), handles.make("made"));
        assert_eq!((handles.get(given), handles.get(made)), (Some(&"given"), Some(&"made")));
        handles.forget_made();
        assert_eq!((handles.get(given), handles.get(made)), (Some(&"given"), None));
        let kept = [0, 1, 2, 3].map(|made: u64| handles.make(["a", "b", "c", "d"][made as usize]));
        let mut later = [kept[3], given, kept[0], 99];
        handles.keep(2, &mut later);
        assert_eq!(later.map(|handle| handles.get(handle).copied()), [Some("d"), Some("given"), Some("a"), None]);
        assert_eq!(handles.made(), 3);
        handles.forget_made();
        handles.forget_given();
        assert_eq!([given, made, u64::MAX, 7].map(|handle| handles.get(handle)), [None; 4]);
    }
}
