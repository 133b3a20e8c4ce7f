//! Transpositions through shared memory: a block loads a tile of an operand along its contiguous axes, and writes the result
//! along those of the result, so that both are read and written in whole sectors.

use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::Dim;

use super::access::widened;
use super::render::mentions;
use super::shape::{Shape, THREADS};
use super::{Item, Level, Line, Loop, Stop, Term, Writer};
use crate::index::{Coordinate, ONE, joined, product, spread};
use crate::ir::{Id, Value, stored};

/// The most shared memory of a body: half of what a kernel may have without asking, since one with sizes of the run has two.
const SHARED: usize = 24 << 10;

/// The least rows and columns for which tiles are worth it: a sector has as many elements of 16 bits. Sizes that are known late
/// may be 1.
const LEAST: usize = 16;

/// The coordinates of an operand that is read, and bytes of an element.
pub(super) type Read = (Coordinate, usize);

/// A result in tiles, and its coordinates.
pub(super) struct Tiled {
    pub(super) shape: Shape,
    pub(super) at: Vec<Coordinate>,
}

impl Tiled {
    /// Tiles for a result of which an operand with as many elements is contiguous along other axes; `reads` are the coordinates
    /// of operands, with a counter for each axis of the result.
    pub(super) fn of(result: &Value, reads: &[Read]) -> Result<Option<Tiled>, Stop> {
        let sizes = &result.shape;
        let axes: Vec<usize> = (0..sizes.len()).filter(|&axis| sizes[axis] != ONE).collect();
        for (read, bytes) in reads {
            let order: Vec<usize> = read.iter().map(|digit| digit.atom).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let whole = read.iter().all(|digit| digit.divisor == ONE && sizes.get(digit.atom) == Some(&digit.size));
            if !whole || sorted != axes || order.last() == axes.last() {
                continue;
            }
            let (rows, columns) = (run(&order, &axes), run(&axes, &order));
            let size = |run: &[usize]| product(run.iter().map(|&axis| &sizes[axis]));
            let (Dim::Fixed(row_count), Dim::Fixed(column_count)) = (size(&rows)?, size(&columns)?) else { continue };
            let least = row_count.min(column_count);
            if least < LEAST {
                continue;
            }
            let outer: Vec<usize> =
                axes.iter().copied().filter(|axis| !rows.contains(axis) && !columns.contains(axis)).collect();
            let mut at = vec![Vec::new(); sizes.len()];
            for (atom, run) in [&outer, &rows, &columns].into_iter().enumerate() {
                let own: Vec<Dim> = run.iter().map(|&axis| sizes[axis].clone()).collect();
                run.iter().zip(spread(atom, &own)?).for_each(|(&axis, coordinate)| at[axis] = coordinate);
            }
            // Two warps, or one, for a row of a tile.
            let is_wide = result.dtype.unpacked_bytes().max(*bytes) >= 4;
            let side = if is_wide || least <= 32 { 32 } else { 64 };
            let shape = Shape::Tiles { outer: size(&outer)?, rows: row_count, columns: column_count, side };
            return Ok(Some(Tiled { shape, at }));
        }
        Ok(None)
    }
}

/// The longest run of last axes of `order` that follow each other in `other`, too.
fn run(order: &[usize], other: &[usize]) -> Vec<usize> {
    let place = |axis: usize| other.iter().position(|&known| known == axis);
    let mut start = order.len().saturating_sub(1);
    while start > 0 && place(order[start - 1]).map(|place| place + 1) == place(order[start]) {
        start -= 1;
    }
    order[start..].to_vec()
}

impl Writer<'_> {
    /// Notes a read in a trial.
    pub(super) fn note_read(&mut self, id: Id, at: &[Coordinate]) -> Result<(), Stop> {
        if matches!(self.shape, Shape::Probe(_)) && self.guards.is_empty() {
            self.reads.push((joined(at.concat())?, self.values[id].dtype.unpacked_bytes()));
        }
        Ok(())
    }

    /// In a kernel of tiles, loads a tile of an operand that is contiguous along the rows; the element of it.
    pub(super) fn stage(
        &mut self,
        id: Id,
        place: BufferRef,
        strides: Option<&[i64]>,
        at: &[Coordinate],
    ) -> Result<Option<Term>, Stop> {
        let &Shape::Tiles { side, .. } = self.shape else { return Ok(None) };
        if !self.guards.is_empty() {
            return Ok(None);
        }
        let digits = joined(at.concat())?;
        let along_rows = digits.last().is_some_and(|digit| digit.atom == 1 && digit.divisor == ONE);
        // An index that is computed for each element is not there yet.
        let is_early = digits.iter().all(|digit| digit.atom <= 2 || self.atoms[digit.atom].level == Level::Row);
        let dtype = self.values[id].dtype;
        // One word more in each row, so that a column is in different banks.
        let size = dtype.unpacked_bytes();
        let width = side + 4_usize.div_ceil(size);
        let bytes = side * width * size;
        if !along_rows
            || !is_early
            || !digits.iter().any(|digit| digit.atom == 2)
            || self.tiles.iter().sum::<usize>() + bytes > SHARED
        {
            return Ok(None);
        }
        let tile = format!("tile{}", self.tiles.len());
        self.tiles.push(bytes);
        self.loops.push(Loop { along_rows: true, ..Loop::default() });
        let (offset, _) = self.offset(id, strides, at)?;
        let from = self.parameter(id, place, false);
        if let Some(current) = self.loops.last_mut() {
            current.each.push(Line::Do(format!("{tile}[c - left][r - top] = {from}[{}];", offset.text)));
        }
        self.body.push(Item::Line(Line::Do(format!("__shared__ {} {tile}[{side}][{width}];", stored(dtype)))));
        self.close();
        self.body.push(Item::Line(Line::Do("__syncthreads();".into())));
        Ok(Some(Term { text: widened(dtype, &format!("{tile}[c - left][r - top]")), level: Level::Element }))
    }

    /// The first row and column of a block's tile, and its place along all other axes.
    pub(super) fn tile_head(text: &str, rows: usize, columns: usize, side: usize) -> String {
        let (across, down) = (columns.div_ceil(side), rows.div_ceil(side));
        let outer = if mentions(text, "o") {
            format!("  const ix o = ix(blockIdx.x) / {across} / {down};\n")
        } else {
            String::new()
        };
        format!(
            "  const ix left = ix(blockIdx.x) % {across} * {side};\n\
             \x20 const ix top = ix(blockIdx.x) / {across} % {down} * {side};\n{outer}"
        )
    }

    /// The loop over the elements of a tile that a thread has, and its end.
    pub(super) fn tile_loop(along_rows: bool, rows: usize, columns: usize, side: usize) -> (String, &'static str) {
        let (lines, steps) = (THREADS as usize / side, side * side / THREADS as usize);
        let (row, column) = (("r", "top"), ("c", "left"));
        let ((inner, first), (outer, second)) = if along_rows { (row, column) } else { (column, row) };
        let head = format!(
            "#pragma unroll\n  for (int k = 0; k < {steps}; ++k) {{\n\
             \x20   const ix {inner} = {first} + ix(threadIdx.x) % {side};\n\
             \x20   const ix {outer} = {second} + ix(threadIdx.x) / {side} + k * {lines};\n\
             \x20   if (r >= {rows} || c >= {columns}) continue;\n"
        );
        (head, "  }\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_that_stay_together() {
        // NHWC of NCHW: rows are the pixels, columns the channels.
        let (result, operand) = ([0, 1, 2, 3], [0, 3, 1, 2]);
        assert_eq!((run(&operand, &result), run(&result, &operand)), (vec![1, 2], vec![3]));
        // NCHW of NHWC.
        let (result, operand) = ([0, 1, 2, 3], [0, 2, 3, 1]);
        assert_eq!((run(&operand, &result), run(&result, &operand)), (vec![1], vec![2, 3]));
        let (result, operand) = ([0, 1, 2], [2, 1, 0]);
        assert_eq!((run(&operand, &result), run(&result, &operand)), (vec![0], vec![2]));
    }
}
