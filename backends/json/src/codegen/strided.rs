//! Where the elements of a value are in an earlier one: views, transpositions and cuts only count them in another order, so what
//! reads with strides can read the earlier value.

use super::graph::{Graph, Search};
use super::lower::{axis, movement};
use crate::program::{Op, Side, Step};

/// The longest chain of steps that is read through.
const LONGEST: usize = 16;

/// A value that another one is read from.
struct Source {
    value: usize,
    /// What its elements are multiplied by on the way.
    factor: f64,
    /// The step that gives it, by which its elements are in an earlier value.
    step: Option<usize>,
}

/// The elements of a tensor among those of a source: that of index 0, and how far the next of each axis is.
struct Strided {
    start: usize,
    sizes: Vec<usize>,
    strides: Vec<usize>,
}

impl Search<'_, '_> {
    /// Where the heads `[batch, head, row, column]` of a value of known sizes are (`turned`: it is `[batch, head, column, row]`): the
    /// earliest value that has them as the kernel reads them. Factors on the way go into the scale, if there is one.
    pub(super) fn strided_heads(&self, value: usize, turned: bool, scale: Option<&mut f64>) -> Option<(usize, Side)> {
        let chain = self.sources(value, scale.is_some());
        let (source, side) = (0..chain.len()).rev().find_map(|depth| {
            let whole = Strided::contiguous(self.graph.fixed_shape(chain[depth].value)?)?;
            let elements = whole.sizes.iter().product();
            let mut between = chain[..depth].iter().rev();
            let mut heads = between.try_fold(whole, |inner, link| inner.through(self.graph, link))?;
            if turned && heads.sizes.len() == 4 {
                heads.sizes.swap(2, 3);
                heads.strides.swap(2, 3);
            }
            Some((&chain[depth], heads.side(elements)?))
        })?;
        if let Some(scale) = scale {
            *scale *= source.factor;
        }
        Some((source.value, side))
    }

    /// The values that the elements of a value can be read from: itself and those before, without factors where there is a scale.
    fn sources(&self, value: usize, scaled: bool) -> Vec<Source> {
        let (mut chain, mut value, mut factor) = (Vec::new(), value, 1.0);
        while chain.len() <= LONGEST {
            let (unscaled, by) = if scaled { self.unscaled(value) } else { (value, 1.0) };
            factor *= by;
            let step = self.producer(unscaled).filter(|(_, step)| only_moves(step));
            chain.push(Source { value: unscaled, factor, step: step.map(|(index, _)| index) });
            let Some(input) = step.and_then(|(_, step)| step.input(0)) else { break };
            value = input;
        }
        chain
    }
}

fn only_moves(step: &Step) -> bool {
    matches!(step.op, Op::View | Op::Slice { .. }) || matches!(step.onnx(), Some("Transpose" | "Slice" | "Split"))
}

impl Strided {
    /// All elements of a contiguous tensor; `None` where there are none.
    fn contiguous(sizes: Vec<usize>) -> Option<Strided> {
        sizes.iter().try_fold(1usize, |all, &size| all.checked_mul(size)).filter(|&all| all > 0)?;
        let mut strides = vec![1; sizes.len()];
        for axis in (1..sizes.len()).rev() {
            strides[axis - 1] = strides[axis] * sizes[axis];
        }
        Some(Strided { start: 0, sizes, strides })
    }

    /// The elements of what a step makes of these.
    fn through(self, graph: &Graph<'_>, link: &Source) -> Option<Strided> {
        let step = &graph.steps[link.step?];
        let (sizes, rank) = (graph.fixed_shape(link.value)?, self.sizes.len());
        match (&step.op, step.onnx()) {
            (Op::View, _) => self.seen_as(sizes),
            (Op::Slice { starts, steps }, _) => self.cut(starts, steps, sizes),
            (_, Some("Transpose")) => {
                let perm = movement::permutation(step, rank)?;
                let order = |of: &[usize]| perm.iter().map(|&axis| of[axis]).collect();
                Some(Strided { start: self.start, sizes: order(&self.sizes), strides: order(&self.strides) })
            }
            (_, Some("Slice")) => {
                let (starts, steps) = movement::cut(graph, step, rank)?;
                self.cut(&starts, &steps, sizes)
            }
            (_, Some("Split")) => {
                let axis = axis(step.int("axis", 0), rank)?;
                let before = step.outputs.iter().take_while(|&&output| output != Some(link.value));
                let size = |output: &Option<usize>| graph.shape((*output)?).get(axis)?.fixed();
                let mut starts = vec![0; rank];
                starts[axis] = i64::try_from(before.map(size).sum::<Option<usize>>()?).ok()?;
                self.cut(&starts, &vec![1; rank], sizes)
            }
            _ => None,
        }
    }

    /// Every so many elements of each axis.
    fn cut(mut self, starts: &[i64], steps: &[i64], sizes: Vec<usize>) -> Option<Strided> {
        if [starts.len(), steps.len(), sizes.len()] != [self.sizes.len(); 3] {
            return None;
        }
        for axis in 0..sizes.len() {
            let first = if starts[axis] < 0 {
                starts[axis].checked_add_unsigned(self.sizes[axis] as u64)?
            } else {
                starts[axis]
            };
            let (first, step) = (usize::try_from(first).ok()?, usize::try_from(steps[axis]).ok()?);
            let last = step.checked_mul(sizes[axis].checked_sub(1)?)?.checked_add(first)?;
            if step == 0 || last >= self.sizes[axis] {
                return None;
            }
            self.start += first * self.strides[axis];
            self.strides[axis] = self.strides[axis].checked_mul(step)?;
        }
        Some(Strided { sizes, ..self })
    }

    /// The same elements with other axes, where each of them is a part of one of these or several that follow on each other.
    fn seen_as(self, sizes: Vec<usize>) -> Option<Strided> {
        let real = self.sizes.iter().zip(&self.strides).filter(|(size, _)| **size != 1);
        let mut inner: Vec<(usize, usize)> = real.map(|(&size, &stride)| (size, stride)).collect();
        let mut strides = vec![1; sizes.len()];
        for axis in (0..sizes.len()).rev().filter(|&axis| sizes[axis] != 1) {
            let (mut size, stride) = inner.pop()?;
            // An axis over several ones, the outer of which steps over the whole inner one.
            while size < sizes[axis] {
                let (outer, _) = inner.pop().filter(|&(_, apart)| apart == size * stride)?;
                size *= outer;
            }
            if !size.is_multiple_of(sizes[axis]) {
                return None;
            }
            strides[axis] = stride;
            if size > sizes[axis] {
                inner.push((size / sizes[axis], stride * sizes[axis]));
            }
        }
        inner.is_empty().then_some(Strided { start: self.start, sizes, strides })
    }

    /// These heads among so many elements, as the kernel reads them.
    fn side(&self, elements: usize) -> Option<Side> {
        let (&[batch, heads, rows, columns], &[of_batch, of_head, of_row, of_column]) =
            (&self.sizes[..], &self.strides[..])
        else {
            return None;
        };
        let follows = |size: usize, stride: usize, expected: usize| size == 1 || stride == expected;
        if !follows(columns, of_column, 1) {
            return None;
        }
        let whole = batch * heads * rows * columns == elements;
        let heads_first = follows(batch, of_batch, heads * rows * columns)
            && follows(heads, of_head, rows * columns)
            && follows(rows, of_row, columns);
        if whole && heads_first {
            return Some(Side::HeadsFirst);
        }
        let width = match (rows, batch) {
            (1, 1) => elements,
            (1, _) => of_batch,
            _ => of_row,
        };
        let rows_first = follows(heads, of_head, columns) && follows(batch, of_batch, rows.checked_mul(width)?);
        let all = batch.checked_mul(rows)?.checked_mul(width)? == elements;
        let inside = self.start.checked_add(heads * columns)? <= width;
        (rows_first && all && inside).then_some(Side::RowsFirst { width, start: self.start })
    }
}
