//! Writes one fused kernel: requests elements from its result back to memory, and places each statement at the level of the
//! thread or row, of the pack, or of the element.

mod access;
mod fold;
mod indices;
mod moves;
mod render;
mod shape;
mod tiles;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use byoc_dim::DimError;
use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::Dim;

use crate::index::Coordinate;
use crate::ir::{Def, Id, Value, computed};
pub(crate) use shape::{Kernel, make};
use shape::{Shape, Team};

/// Why a kernel cannot be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    /// It is not supported.
    Refused(String),
    /// Another kernel has to store this value first.
    First(Id),
    /// This value has to be stored, which is not planned yet.
    Store(Id),
    /// A row has to be reduced: of which value, and at which coordinates.
    Rows(Id, Vec<Coordinate>),
}

impl From<DimError> for Stop {
    fn from(error: DimError) -> Stop {
        Stop::Refused(error.to_string())
    }
}

/// The values that are stored in memory.
#[derive(Debug, Default)]
pub(crate) struct Materialised {
    /// The buffers of values that are stored.
    pub(crate) kept: BTreeMap<Id, BufferRef>,
    /// Those that a kernel has stored already.
    pub(crate) done: BTreeSet<Id>,
}

/// The loop level of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Once for each row; in a kernel without rows, once for each thread.
    Row,
    /// Once for each pack of elements.
    Pack,
    /// Once for each element.
    Element,
}

/// A C++ expression and its level. `$7$` is a placeholder for the name of statement 7.
#[derive(Clone, Debug)]
struct Term {
    text: String,
    level: Level,
}

/// A loop counter of the kernel, or a computed index.
#[derive(Clone, Debug)]
struct Atom {
    /// C++ for the first element of a pack.
    text: String,
    level: Level,
    size: Dim,
}

#[derive(Clone, Debug)]
enum Line {
    /// A variable: its number, type, first letter, and value.
    Let(usize, String, char, String),
    Do(String),
}

/// The lines of a loop over columns.
#[derive(Debug, Default)]
struct Loop {
    before: Vec<Line>,
    each: Vec<Line>,
    after: Vec<Line>,
    known: HashMap<Key, (usize, Level)>,
    indices: HashMap<String, Term>,
    /// Whether threads next to each other have neighbours along the rows of a tile, not along its columns.
    along_rows: bool,
}

#[derive(Debug)]
enum Item {
    Line(Line),
    Loop(Loop),
}

/// A pointer parameter of a kernel.
#[derive(Clone, Debug)]
struct Parameter {
    place: BufferRef,
    ty: &'static str,
    written: bool,
}

/// An element: value, coordinates, and the conditions under which it is read.
type Key = (Id, Vec<Coordinate>, String);

/// A kernel while it is written.
pub(crate) struct Writer<'a> {
    values: &'a [Value],
    memory: &'a Materialised,
    shape: &'a Shape,
    atoms: Vec<Atom>,
    /// The statements of a row, and the loops between them.
    body: Vec<Item>,
    /// The loops being written, the innermost last.
    loops: Vec<Loop>,
    statements: usize,
    /// Elements computed for the row.
    known: HashMap<Key, Term>,
    indices: HashMap<String, Term>,
    /// Elements computed by earlier loops.
    earlier: HashMap<Key, usize>,
    /// Statements whose values stay in registers from loop to loop.
    promoted: HashSet<usize>,
    /// Conditions under which memory is read.
    guards: Vec<Term>,
    /// The pointer parameters.
    places: Vec<Parameter>,
    /// The parameters of the sizes with a name.
    sizes: Vec<Dim>,
    /// Values that are computed here.
    touched: BTreeSet<Id>,
    /// Values that are written here.
    written: Vec<Id>,
    /// The reductions, in order.
    folds: Vec<(Id, Vec<Coordinate>)>,
    /// Whether indices have 64 bits. Otherwise they have as many as the sizes of the run need.
    long: bool,
    /// Counts of accesses: those that cannot use a pack, along columns, and along rows.
    scattered: usize,
    along: [usize; 2],
    /// What is read, in a trial.
    reads: Vec<tiles::Read>,
    /// The tiles of operands in shared memory: bytes of each.
    tiles: Vec<usize>,
}

impl<'a> Writer<'a> {
    /// The element of a value at coordinates.
    fn pull(&mut self, id: Id, at: &[Coordinate]) -> Result<Term, Stop> {
        if let Some(known) = self.recall(id, at) {
            return Ok(known);
        }
        let value = &self.values[id];
        let place = self.memory.kept.get(&id).copied();
        match (&value.def, place) {
            (Def::Input(input), _) => self.read(id, BufferRef::Input(*input), None, at),
            (Def::Memory(place, strides), _) => self.read(id, *place, Some(strides), at),
            (_, Some(place)) if self.memory.done.contains(&id) => self.read(id, place, None, at),
            (_, Some(place)) => self.take_along(id, place, at),
            _ => self.compute(id, at),
        }
    }

    /// The element of a value that is to be stored: computed and stored here, if this kernel computes all of its elements.
    fn take_along(&mut self, id: Id, place: BufferRef, at: &[Coordinate]) -> Result<Term, Stop> {
        if !self.guards.is_empty() || !self.covers(at)? {
            return Err(Stop::First(id));
        }
        if matches!(self.shape, Shape::Probe(_)) {
            return self.compute(id, at);
        }
        let term = self.compute(id, at)?;
        if !self.written.contains(&id) {
            self.written.push(id);
            self.write(id, place, at, &term)?;
        }
        Ok(term)
    }

    fn compute(&mut self, id: Id, at: &[Coordinate]) -> Result<Term, Stop> {
        self.touched.insert(id);
        let values = self.values;
        let value = &values[id];
        let text = match &value.def {
            Def::Each(expression, operands) => {
                let mut level = Level::Row;
                let mut texts = Vec::new();
                for &operand in operands {
                    let from = self.broadcast(at, &value.shape, &values[operand].shape)?;
                    let term = self.pull(operand, &from)?;
                    level = level.max(term.level);
                    texts.push(term.text);
                }
                Term { text: expression.text(&texts), level }
            }
            Def::Move(how, operands) => return self.moved(id, how, operands, at),
            Def::Fold(..) => return self.fold(id, at),
            Def::Standalone(..) if self.memory.kept.contains_key(&id) => return Err(Stop::First(id)),
            Def::Standalone(..) => return Err(Stop::Store(id)),
            Def::Memory(..) | Def::Input(_) => return Err(Stop::Refused("memory is computed".into())),
        };
        Ok(self.keep(id, at, text))
    }

    fn key(&self, id: Id, at: &[Coordinate]) -> Key {
        let guards: Vec<_> = self.guards.iter().map(|guard| guard.text.as_str()).collect();
        (id, at.to_vec(), guards.join("&"))
    }

    /// An element that is computed already.
    fn recall(&mut self, id: Id, at: &[Coordinate]) -> Option<Term> {
        let key = self.key(id, at);
        if let Some(term) = self.known.get(&key) {
            return Some(term.clone());
        }
        if let Some(&(number, level)) = self.loops.last().and_then(|current| current.known.get(&key)) {
            return Some(Term { text: format!("${number}$"), level });
        }
        let number = *self.earlier.get(&key).filter(|_| self.shape.keeps_rows() && !self.loops.is_empty())?;
        self.promoted.insert(number);
        Some(Term { text: format!("${number}$"), level: Level::Element })
    }

    /// Names the expression of an element.
    fn keep(&mut self, id: Id, at: &[Coordinate], value: Term) -> Term {
        let key = self.key(id, at);
        let ty = computed(self.values[id].dtype);
        let (term, number) = self.bind(value.level, ty, 't', &value.text);
        match (term.level, self.loops.last_mut()) {
            (Level::Pack | Level::Element, Some(current)) => drop(current.known.insert(key, (number, term.level))),
            _ => drop(self.known.insert(key, term.clone())),
        }
        term
    }

    /// Adds a statement that names an expression, at its level.
    fn bind(&mut self, level: Level, ty: &str, letter: char, text: &str) -> (Term, usize) {
        let number = self.statements;
        self.statements += 1;
        let line = Line::Let(number, ty.to_owned(), letter, text.to_owned());
        match (level, self.loops.last_mut()) {
            (Level::Pack, Some(current)) => current.before.push(line),
            (Level::Element, Some(current)) => current.each.push(line),
            _ => self.body.push(Item::Line(line)),
        }
        (Term { text: format!("${number}$"), level }, number)
    }

    /// Ends the innermost loop.
    fn close(&mut self) {
        let Some(done) = self.loops.pop() else { return };
        for (key, &(number, level)) in &done.known {
            if level == Level::Element {
                self.earlier.entry(key.clone()).or_insert(number);
            }
        }
        self.body.push(Item::Loop(done));
    }

    /// The elements of a pack.
    fn pack(&self) -> usize {
        self.shape.pack()
    }

    /// Whether an operand is loaded by tiles.
    fn has_tiles(&self) -> bool {
        !self.tiles.is_empty()
    }

    fn team(&self) -> Option<&Team> {
        match self.shape {
            Shape::Rows { team, .. } => Some(team),
            _ => None,
        }
    }
}
