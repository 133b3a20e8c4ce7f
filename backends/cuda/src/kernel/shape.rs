//! Chooses the loops of a kernel, its mapping to threads and its vector width, by what its result needs.

use std::collections::{BTreeSet, HashMap, HashSet};

use byoc_dim as dim;
use byoc_nvidia::program::{Argument, BufferRef, Launch};
use byoc_plugin_api::{DType, Dim};

use super::tiles::{Read, Tiled};
use super::{Atom, Level, Loop, Materialised, Stop, Writer};
use crate::index::{Coordinate, ONE, divides, joined, product, spread, times};
use crate::ir::{Def, Id, Value};

/// Threads of a block of an elementwise kernel.
pub(super) const THREADS: u32 = 256;
/// Threads of a block of a kernel with rows, the preferred first.
const GROUPED: [u32; 3] = [128, 64, 32];
/// Fewest blocks that keep a device busy: most have about as many multiprocessors.
const ENOUGH: usize = 128;
/// The most elements of a row that a thread keeps in registers, half as many in `f64`.
const KEPT: usize = 32;

/// The loops of a kernel.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A trial: a counter for each axis of the result, to see what it needs.
    Probe(Vec<Dim>),
    /// One counter for all elements.
    Map { total: Dim, pack: usize },
    /// Tiles through shared memory, for operands that are contiguous along other axes than the result: counters for the axes
    /// along which they are, for those along which the result is, and for all others.
    Tiles { outer: Dim, rows: usize, columns: usize, side: usize },
    /// One counter for rows and one for the columns that are reduced.
    Rows { rows: Dim, columns: Dim, team: Team, pack: usize, keeps: bool },
}

/// The threads that share a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Team {
    /// Neighbouring lanes of a warp; a single one if memory is contiguous along rows.
    Lanes(u32),
    /// A block.
    Block(u32),
}

/// A kernel that is written.
pub(crate) struct Kernel {
    pub(crate) text: String,
    pub(crate) launch: Launch,
    /// The values that it writes.
    pub(crate) written: Vec<Id>,
    /// The values that it computes.
    pub(crate) touched: BTreeSet<Id>,
}

impl Shape {
    /// Elements of a pack.
    pub(super) fn pack(&self) -> usize {
        match self {
            Shape::Probe(_) | Shape::Tiles { .. } => 1,
            Shape::Map { pack, .. } | Shape::Rows { pack, .. } => *pack,
        }
    }

    /// The counter of packs.
    pub(super) fn packed(&self) -> Option<usize> {
        match self {
            Shape::Probe(_) | Shape::Tiles { .. } => None,
            Shape::Map { .. } => Some(0),
            Shape::Rows { .. } => Some(1),
        }
    }

    /// The counters, and whether a result has to depend on each.
    pub(super) fn counters(&self) -> Vec<(usize, bool)> {
        match self {
            Shape::Probe(_) => Vec::new(),
            Shape::Map { .. } => vec![(0, true)],
            Shape::Tiles { .. } => vec![(0, true), (1, true), (2, true)],
            Shape::Rows { .. } => vec![(0, true), (1, false)],
        }
    }

    /// Whether threads keep their elements of a row in registers.
    pub(super) fn keeps_rows(&self) -> bool {
        matches!(self, Shape::Rows { keeps: true, .. })
    }

    fn atoms(&self) -> Vec<Atom> {
        let atom = |text: &str, level, size: &Dim| Atom { text: text.to_owned(), level, size: size.clone() };
        match self {
            Shape::Probe(sizes) => sizes.iter().map(|size| atom("i", Level::Element, size)).collect(),
            Shape::Map { total, .. } => vec![atom("i", Level::Pack, total)],
            Shape::Tiles { outer, rows, columns, .. } => vec![
                atom("o", Level::Row, outer),
                atom("r", Level::Element, &Dim::Fixed(*rows)),
                atom("c", Level::Element, &Dim::Fixed(*columns)),
            ],
            Shape::Rows { rows, columns, .. } => {
                vec![atom("row", Level::Row, rows), atom("c", Level::Pack, columns)]
            }
        }
    }
}

impl Team {
    pub(super) fn lanes(&self) -> u32 {
        match *self {
            Team::Lanes(lanes) | Team::Block(lanes) => lanes,
        }
    }

    /// C++ for a reduction over the team.
    pub(super) fn together(&self, function: &str, own: &str) -> String {
        match self {
            Team::Lanes(1) => own.to_owned(),
            Team::Lanes(lanes) => format!("of_lanes<{function}, {lanes}>({own})"),
            Team::Block(threads) => format!("of_block<{function}, {threads}>({own})"),
        }
    }

    /// The threads of a block: fewer where there would be few blocks otherwise.
    fn threads(&self, rows: &Dim) -> u32 {
        let lanes = match *self {
            Team::Block(threads) => return threads,
            Team::Lanes(lanes) => lanes as usize,
        };
        let [most, .., least] = GROUPED;
        let Some(rows) = rows.fixed() else { return most };
        let enough = |threads: &u32| (rows * lanes).div_ceil(*threads as usize) >= ENOUGH;
        GROUPED.into_iter().find(enough).unwrap_or(least)
    }

    /// The team for rows of that length of which a thread may keep so many elements, and whether it keeps them.
    fn of(columns: &Dim, pack: usize, kept: usize) -> (Team, bool) {
        let Some(columns) = columns.fixed().filter(|&columns| columns > 0) else {
            return (Team::Lanes(32), false);
        };
        let packs = columns.div_ceil(pack);
        if packs.div_ceil(32) * pack <= kept {
            return (Team::Lanes(packs.next_power_of_two().min(32) as u32), true);
        }
        let fits = |threads: &usize| packs.div_ceil(*threads) * pack <= kept;
        match [128, 256, 512, 1024].into_iter().find(fits) {
            Some(threads) => (Team::Block(threads as u32), true),
            None => (Team::Block(512), false),
        }
    }
}

/// Writes the kernel whose result is a value.
///
/// # Errors
///
/// When other values have to be stored first.
pub(crate) fn make(
    values: &[Value],
    memory: &Materialised,
    root: Id,
    place: BufferRef,
    name: &str,
) -> Result<Kernel, Stop> {
    let job = Job { values, memory, root, place };
    match job.probe() {
        Ok(reads) => {
            if let Some(Tiled { shape, at }) = Tiled::of(&values[root], &reads)? {
                let writer = job.write(&shape, &at, false)?;
                if writer.has_tiles() {
                    return job.finish(writer, &shape, name);
                }
            }
            let shape = job.map()?;
            job.finish(job.write(&shape, &spread(0, &values[root].shape)?, false)?, &shape, name)
        }
        Err(Stop::Rows(fold, at)) => {
            let rows = job.rows(fold, &at)?;
            let shape = job.teamed(&rows)?;
            job.finish(job.write_rows(&shape, &rows)?, &shape, name)
        }
        Err(other) => Err(other),
    }
}

/// The kernel to write.
struct Job<'a> {
    values: &'a [Value],
    memory: &'a Materialised,
    root: Id,
    place: BufferRef,
}

/// The rows and columns of a result.
struct Rows {
    rows: Dim,
    columns: Dim,
    /// The columns of the result: `None` if it has one element per row.
    rest: Vec<Dim>,
    /// The coordinates of the result.
    at: Vec<Coordinate>,
}

impl<'a> Job<'a> {
    fn writer<'w>(&'w self, shape: &'w Shape) -> Writer<'w> {
        Writer {
            values: self.values,
            memory: self.memory,
            shape,
            atoms: shape.atoms(),
            body: Vec::new(),
            loops: Vec::new(),
            statements: 0,
            known: HashMap::new(),
            indices: HashMap::new(),
            earlier: HashMap::new(),
            promoted: HashSet::new(),
            guards: Vec::new(),
            places: Vec::new(),
            sizes: Vec::new(),
            touched: BTreeSet::new(),
            written: Vec::new(),
            folds: Vec::new(),
            long: false,
            scattered: 0,
            along: [0; 2],
            reads: Vec::new(),
            tiles: Vec::new(),
        }
    }

    /// Its reads, if the result needs no rows.
    fn probe(&self) -> Result<Vec<Read>, Stop> {
        let sizes = &self.values[self.root].shape;
        let shape = Shape::Probe(sizes.clone());
        let mut writer = self.writer(&shape);
        writer.loops.push(Loop::default());
        let own = |(atom, size): (usize, &Dim)| {
            let digit = crate::index::Digit { atom, divisor: ONE, size: size.clone() };
            if *size == ONE { Vec::new() } else { vec![digit] }
        };
        let at: Vec<Coordinate> = sizes.iter().enumerate().map(own).collect();
        writer.compute(self.root, &at)?;
        Ok(writer.reads)
    }

    /// The rows of the result, for a reduction at these coordinates.
    fn rows(&self, fold: Id, at: &[Coordinate]) -> Result<Rows, Stop> {
        let Def::Fold(_, operand, axes) = &self.values[fold].def else { return Err(Stop::Store(fold)) };
        let sizes = &self.values[self.root].shape;
        let digits = joined(at.concat())?;
        let own = |atom: usize| digits.iter().position(|digit| digit.atom == atom);
        let whole = digits.iter().all(|digit| {
            let same = sizes.get(digit.atom).is_some_and(|size| *size == digit.size);
            same && digit.divisor == ONE && digits.iter().filter(|other| other.atom == digit.atom).count() == 1
        });
        let columns = axes.iter().map(|&axis| &self.values[*operand].shape[axis]);
        let columns = product(columns)?;
        let rest: Vec<Dim> = (0..sizes.len())
            .filter(|&axis| own(axis).is_none() && sizes[axis] != ONE)
            .map(|axis| sizes[axis].clone())
            .collect();
        if !whole || (!rest.is_empty() && product(&rest)? != columns) {
            return Err(Stop::Store(fold));
        }
        let outer: Vec<Dim> = digits.iter().map(|digit| digit.size.clone()).collect();
        let (row, mut column) = (spread(0, &outer)?, spread(1, &rest)?.into_iter());
        let coordinate = |(axis, size): (usize, &Dim)| match own(axis) {
            Some(position) => row[position].clone(),
            None if *size == ONE => Vec::new(),
            None => column.next().unwrap_or_default(),
        };
        let at = sizes.iter().enumerate().map(coordinate).collect();
        Ok(Rows { rows: product(&outer)?, columns, rest, at })
    }

    /// Sizes of packs, the preferred first.
    fn packs(&self, size: &Dim) -> Vec<usize> {
        let bytes = self.values[self.root].dtype.unpacked_bytes();
        let most = (16 / bytes).min(8);
        let empty = *size == Dim::Fixed(0);
        [8, 4, 2].into_iter().filter(|&pack| pack <= most && !empty && divides(pack, size)).chain([1]).collect()
    }

    fn map(&self) -> Result<Shape, Stop> {
        let total = product(&self.values[self.root].shape)?;
        for pack in self.packs(&total) {
            let shape = Shape::Map { total: total.clone(), pack };
            let tried = self.write(&shape, &spread(0, &self.values[self.root].shape)?, false)?;
            if pack == 1 || tried.scattered == 0 {
                return Ok(shape);
            }
        }
        Err(Stop::Refused("no pack is small enough".into()))
    }

    /// The team for a row: lanes along the columns, unless memory is contiguous along the rows.
    fn teamed(&self, rows: &Rows) -> Result<Shape, Stop> {
        let shape = |pack: usize, alone: bool, kept: usize| {
            let (team, keeps) = if alone { (Team::Lanes(1), false) } else { Team::of(&rows.columns, pack, kept) };
            Shape::Rows { rows: rows.rows.clone(), columns: rows.columns.clone(), team, pack, keeps }
        };
        let plain = shape(1, false, KEPT);
        let Writer { along: [along_rows, along_columns], touched, .. } = self.write_rows(&plain, rows)?;
        if along_columns == 0 && along_rows > 0 {
            return Ok(shape(1, true, 0));
        }
        let wide = touched.iter().any(|&id| self.values[id].dtype == DType::F64);
        let kept = if wide { KEPT / 2 } else { KEPT };
        for pack in self.packs(&rows.columns) {
            let shape = shape(pack, false, kept);
            if pack == 1 || self.write_rows(&shape, rows)?.scattered == 0 {
                return Ok(shape);
            }
        }
        Ok(shape(1, false, kept))
    }

    /// Reductions first, so that their elements stay in registers for what follows.
    fn write_rows<'w>(&'w self, shape: &'w Shape, rows: &Rows) -> Result<Writer<'w>, Stop> {
        let order = self.write(shape, &rows.at, rows.rest.is_empty())?.folds;
        let mut writer = self.writer(shape);
        for (fold, at) in order {
            if fold != self.root {
                writer.pull(fold, &at)?;
            }
        }
        self.result(&mut writer, &rows.at, rows.rest.is_empty())?;
        Ok(writer)
    }

    fn write<'w>(&'w self, shape: &'w Shape, at: &[Coordinate], of_row: bool) -> Result<Writer<'w>, Stop> {
        let mut writer = self.writer(shape);
        self.result(&mut writer, at, of_row)?;
        Ok(writer)
    }

    /// Computes and writes the result.
    fn result(&self, writer: &mut Writer<'_>, at: &[Coordinate], of_row: bool) -> Result<(), Stop> {
        if !of_row {
            writer.loops.push(Loop::default());
        }
        let term = writer.compute(self.root, at)?;
        writer.written.push(self.root);
        writer.write(self.root, self.place, at, &term)?;
        if !of_row {
            writer.close();
        }
        Ok(())
    }

    fn finish(&self, mut writer: Writer<'_>, shape: &Shape, name: &str) -> Result<Kernel, Stop> {
        let (blocks, threads) = match shape {
            Shape::Probe(_) => return Err(Stop::Refused("a kernel without loops".into())),
            Shape::Map { total, pack } => (dim::ceil_div(total, &Dim::Fixed(THREADS as usize * pack))?, THREADS),
            Shape::Tiles { outer, rows, columns, side } => {
                (times(outer, &Dim::Fixed(rows.div_ceil(*side) * columns.div_ceil(*side)))?, THREADS)
            }
            Shape::Rows { rows, team, .. } => {
                let threads = team.threads(rows);
                (dim::ceil_div(rows, &Dim::Fixed((threads / team.lanes()) as usize))?, threads)
            }
        };
        let text = writer.render(name, threads);
        let pointers = writer.places.iter().map(|parameter| Argument::Pointer(parameter.place));
        let arguments = pointers.chain(writer.sizes.iter().cloned().map(Argument::Size)).collect();
        let launch = Launch {
            cubin: 0,
            kernel: name.to_owned(),
            grid: [blocks, ONE, ONE],
            block: [threads, 1, 1],
            persistent: false,
            waits: true,
            shared: 0,
            arguments,
            nodes: Vec::new(),
            only: None,
        };
        Ok(Kernel { text, launch, written: writer.written, touched: writer.touched })
    }
}
