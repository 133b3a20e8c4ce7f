//! Recurrent layers. What the gates get from the input is one product for all steps; then each step multiplies the states
//! of its sequences by one matrix for all gates.
//!
//! Every gate is padded to whole vectors, in the packed matrices and in the scratch, so that no gate begins within a
//! panel and the functions of the gates have no rest.

mod cells;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::gemm::{Bias, Epilogue, GemmParams, gemm_packed, gemm_scratch_len, pack_b, packed_b_len};
use super::layout::BLOCK;
use super::parallel::{SharedMut, Threads, part};
use super::sizes::product;
use super::weights::PackedWeights;
use cells::{Gates, Part};
use std::ops::Range;

/// Names the layout of [`pack_gates`]: [gates][ceil(N / 16)][K][16], columns past N zero.
pub const GATES_LAYOUT: &str = "recurrent/n16k/1";

/// Which equations a layer has, with ONNX's usual activation functions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Gates: input, output, forget, cell.
    Lstm,
    /// Gates: update, reset, hidden.
    Gru {
        /// Whether the reset gate is applied behind the product with the state.
        linear_before_reset: bool,
    },
    /// One gate.
    Rnn {
        /// Its function.
        act: Activation,
    },
}

impl Cell {
    /// Gates of a step.
    pub fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru { .. } => 3,
            Cell::Rnn { .. } => 1,
        }
    }
}

/// The sizes and orders of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct RecurrentParams {
    /// The equations.
    pub cell: Cell,
    /// Steps of the longest sequence.
    pub steps: usize,
    /// Sequences.
    pub batch: usize,
    /// Directions: the second one starts at the end.
    pub directions: usize,
    /// Elements of an input.
    pub input: usize,
    /// Elements of a state.
    pub hidden: usize,
    /// Whether the first direction, too, starts at the end.
    pub backwards: bool,
    /// Whether tensors begin with the sequences: x as [batch, step, element], y as [batch, step, direction, element], states
    /// as [batch, direction, element]. Otherwise x is [step, batch, element], y [step, direction, batch, element], and
    /// states [direction, batch, element].
    pub by_batch: bool,
}

/// What a layer reads.
#[derive(Clone, Copy, Debug)]
pub struct RecurrentInputs<'a> {
    /// The sequences.
    pub x: &'a [f32],
    /// Weights of the input, of all directions, by [`pack_gates`].
    pub weights: &'a [f32],
    /// Those of the state.
    pub recurrence: &'a [f32],
    /// [directions, 2, gates, hidden]: beside the input's product, and beside the state's.
    pub bias: Option<&'a [f32]>,
    /// Steps of each sequence; all where absent.
    pub lengths: Option<&'a [i32]>,
    /// The states before the first step; 0 where absent.
    pub hidden: Option<&'a [f32]>,
    /// The cells of an LSTM then.
    pub cell: Option<&'a [f32]>,
}

/// What a layer writes, as far as it is wanted.
#[derive(Debug)]
pub struct RecurrentOutputs<'a> {
    /// The state behind each step, 0 behind the end of a sequence.
    pub y: Option<&'a mut [f32]>,
    /// The last states.
    pub hidden: Option<&'a mut [f32]>,
    /// The last cells of an LSTM.
    pub cell: Option<&'a mut [f32]>,
}

/// f32 values of packed weights: `gates` matrices of [n, k], those of all directions; `None` if they cannot be counted.
pub fn packed_gates_len(gates: usize, k: usize, n: usize) -> Option<usize> {
    packed_b_len(k, n)?.checked_mul(gates)
}

/// Packs `gates` matrices [n, k] one after another, each as the right side [k, n] of a product.
///
/// # Panics
/// If a length is wrong.
pub fn pack_gates(gates: usize, k: usize, n: usize, weights: &[f32], out: &mut [f32]) {
    assert_eq!(Some(out.len()), packed_gates_len(gates, k, n));
    assert_eq!(Some(weights.len()), product(&[gates, k, n]));
    let (from, to) = (weights.chunks_exact((k * n).max(1)), out.chunks_exact_mut((out.len() / gates.max(1)).max(1)));
    from.zip(to).for_each(|(gate, out)| pack_b(k, n, gate, [1, k], out));
}

/// Below this many multiply-adds of all states a second thread costs more than it saves.
const MIN_WORK: usize = 1 << 18;

impl RecurrentParams {
    /// Elements of a state, in whole vectors.
    fn padded(&self) -> usize {
        self.hidden.next_multiple_of(BLOCK)
    }

    /// Elements of all gates of a step.
    fn width(&self) -> usize {
        self.cell.gates() * self.padded()
    }

    /// The product with the input, for one direction.
    fn input_product(&self) -> GemmParams {
        GemmParams::dense(self.steps * self.batch, self.width(), self.input)
    }

    /// The product of `rows` states with some gates.
    fn state_product(&self, rows: usize, gates: usize) -> GemmParams {
        let mut p = GemmParams::dense(rows, gates * self.padded(), self.hidden);
        (p.a, p.c_row) = ([self.padded(), 1], self.width());
        p
    }

    /// How many threads have work.
    fn workers(&self, threads: usize) -> usize {
        let work = [self.steps, self.batch, self.directions, self.width(), self.hidden];
        let enough = work.iter().fold(1usize, |work, &size| work.saturating_mul(size)) >= MIN_WORK;
        if enough { threads.min(self.directions.saturating_mul(self.batch)).max(1) } else { 1 }
    }

    /// Into how many parts the sequences of a direction are cut.
    fn parts(&self, threads: usize) -> usize {
        self.workers(threads).div_ceil(self.directions.max(1)).min(self.batch).max(1)
    }

    /// Values of each part of the scratch; `None` if they cannot be counted.
    fn spaces(&self, threads: usize) -> Option<[usize; 5]> {
        let padded = self.hidden.checked_next_multiple_of(BLOCK)?;
        let width = product(&[self.cell.gates(), padded])?;
        let rows = product(&[self.directions, self.batch])?;
        let gates = product(&[rows, self.steps, width])?;
        let bias = product(&[self.directions, width.checked_add(padded)?])?;
        let state = product(&[rows, 2, padded])?;
        let inner = product(&[rows, width.checked_add(padded)?])?;
        let parts = self.parts(threads);
        let product_rows = self.batch.div_ceil(parts);
        let steps = gemm_scratch_len(&self.state_product(product_rows, self.cell.gates()), threads)?;
        let products =
            steps.checked_mul(parts * self.directions)?.max(gemm_scratch_len(&self.input_product(), threads)?);
        Some([gates, bias, state, inner, products])
    }

    /// f32 values of scratch that [`recurrent`] needs on this many threads; `None` if they cannot be counted.
    pub fn scratch_len(&self, threads: usize) -> Option<usize> {
        self.spaces(threads)?.iter().try_fold(0usize, |sum, &space| sum.checked_add(space))
    }

    /// Which row of x holds a step of a sequence.
    fn row(&self, step: usize, sequence: usize) -> usize {
        if self.by_batch { sequence * self.steps + step } else { step * self.batch + sequence }
    }

    /// Where y holds it.
    fn place(&self, step: usize, direction: usize, sequence: usize) -> usize {
        let place = match self.by_batch {
            true => (sequence * self.steps + step) * self.directions + direction,
            false => (step * self.directions + direction) * self.batch + sequence,
        };
        place * self.hidden
    }

    /// Where a state of a tensor is.
    fn state_place(&self, direction: usize, sequence: usize) -> usize {
        let place = match self.by_batch {
            true => sequence * self.directions + direction,
            false => direction * self.batch + sequence,
        };
        place * self.hidden
    }

    fn check(&self, inputs: &RecurrentInputs<'_>, outputs: &RecurrentOutputs<'_>) {
        let gates = self.directions * self.cell.gates();
        let len = |sizes: &[usize]| product(sizes).expect("a tensor that can be counted");
        let state = len(&[self.directions, self.batch, self.hidden]);
        assert_eq!(inputs.x.len(), len(&[self.steps, self.batch, self.input]));
        assert_eq!(Some(inputs.weights.len()), packed_gates_len(gates, self.input, self.hidden));
        assert_eq!(Some(inputs.recurrence.len()), packed_gates_len(gates, self.hidden, self.hidden));
        assert!(inputs.bias.is_none_or(|bias| bias.len() == len(&[2, gates, self.hidden])));
        assert!([inputs.hidden, inputs.cell].iter().flatten().all(|given| given.len() == state));
        let is_length = |&length: &i32| usize::try_from(length).is_ok_and(|length| length <= self.steps);
        assert!(inputs.lengths.is_none_or(|given| given.len() == self.batch && given.iter().all(is_length)));
        assert!(outputs.y.as_ref().is_none_or(|y| y.len() == len(&[self.steps, state])));
        assert!([&outputs.hidden, &outputs.cell].into_iter().flatten().all(|wanted| wanted.len() == state));
    }
}

/// Runs a layer.
///
/// # Panics
/// If a length is wrong, or the scratch is shorter than [`RecurrentParams::scratch_len`].
pub fn recurrent(
    threads: &Threads,
    p: &RecurrentParams,
    inputs: &RecurrentInputs<'_>,
    outputs: RecurrentOutputs<'_>,
    scratch: &mut [f32],
) {
    p.check(inputs, &outputs);
    let [gates, bias, state, inner, _] = p.spaces(threads.count()).expect("a scratch that can be counted");
    let (gates, scratch) = scratch.split_at_mut(gates);
    let (bias, scratch) = scratch.split_at_mut(bias);
    let (state, scratch) = scratch.split_at_mut(state);
    let (inner, scratch) = scratch.split_at_mut(inner);
    let (width, padded, rows) = (p.width(), p.padded(), p.steps * p.batch);
    if rows > 0 {
        let per_direction = p.cell.gates() * packed_b_len(p.input, p.hidden).unwrap_or(0);
        for direction in 0..p.directions {
            let bias = &mut bias[direction * (width + padded)..][..width + padded];
            add_bias(p, inputs.bias, direction, bias);
            let e = Epilogue { bias: Bias::PerCol(&bias[..width]), ..Epilogue::default() };
            let weights = &inputs.weights[direction * per_direction..][..per_direction];
            let gates = &mut gates[direction * rows * width..][..rows * width];
            gemm_packed(threads, &p.input_product(), inputs.x, PackedWeights::F32(weights), gates, &e, scratch);
        }
    }
    let (hidden, cell) = state.split_at_mut(state.len() / 2);
    spread(p, inputs.hidden, hidden);
    spread(p, inputs.cell, cell);
    let y = outputs.y.map(|y| {
        if inputs.lengths.is_some() {
            y.fill(0.0);
        }
        SharedMut::new(y)
    });
    let layer = Layer { threads, p, inputs, gates, bias };
    layer.run_all([hidden, cell, inner, scratch], y);
    gather(p, hidden, outputs.hidden);
    gather(p, cell, outputs.cell);
}

/// What is added to the gates of a direction: beside the input's product, then beside the state's part of a GRU's hidden
/// gate, which the reset gate is multiplied with.
fn add_bias(p: &RecurrentParams, bias: Option<&[f32]>, direction: usize, out: &mut [f32]) {
    out.fill(0.0);
    let Some(bias) = bias else { return };
    let gates = p.cell.gates();
    let (size, padded, from) = (p.hidden, p.padded(), direction * 2 * gates * p.hidden);
    for gate in 0..gates {
        let apart = gate == 2 && p.cell == Cell::Gru { linear_before_reset: true };
        for j in 0..size {
            let (of_input, of_state) = (bias[from + gate * size + j], bias[from + (gates + gate) * size + j]);
            out[gate * padded + j] = of_input + if apart { 0.0 } else { of_state };
            if apart {
                out[gates * padded + j] = of_state;
            }
        }
    }
}

/// Copies states to padded rows.
fn spread(p: &RecurrentParams, from: Option<&[f32]>, to: &mut [f32]) {
    to.fill(0.0);
    let Some(from) = from else { return };
    for row in 0..p.directions * p.batch {
        let place = p.state_place(row / p.batch, row % p.batch);
        to[row * p.padded()..][..p.hidden].copy_from_slice(&from[place..][..p.hidden]);
    }
}

/// Copies padded rows to states.
fn gather(p: &RecurrentParams, from: &[f32], to: Option<&mut [f32]>) {
    let Some(to) = to else { return };
    for row in 0..p.directions * p.batch {
        let place = p.state_place(row / p.batch, row % p.batch);
        to[place..][..p.hidden].copy_from_slice(&from[row * p.padded()..][..p.hidden]);
    }
}

/// A layer behind the product with its input.
struct Layer<'a> {
    threads: &'a Threads,
    p: &'a RecurrentParams,
    inputs: &'a RecurrentInputs<'a>,
    /// What the gates get from the input, of each direction: a row for each of x.
    gates: &'a [f32],
    /// By [`add_bias`], of each direction.
    bias: &'a [f32],
}

/// What belongs to some sequences of a direction.
struct Space<'s> {
    hidden: &'s mut [f32],
    cell: &'s mut [f32],
    /// What the gates get from the states, then the states that the reset gate was applied to.
    inner: &'s mut [f32],
    scratch: &'s mut [f32],
    y: Option<SharedMut<'s, f32>>,
}

impl Layer<'_> {
    /// All steps of all sequences, which are cut into parts for the threads.
    fn run_all(&self, spaces: [&mut [f32]; 4], y: Option<SharedMut<'_, f32>>) {
        let (p, threads) = (self.p, self.threads.count());
        let (padded, inner_width) = (p.padded(), p.width() + p.padded());
        let (tasks, parts) = (p.workers(threads), p.parts(threads));
        let units = p.directions * parts;
        let each = gemm_scratch_len(&p.state_product(p.batch.div_ceil(parts), p.cell.gates()), threads).unwrap_or(0);
        let [hidden, cell, inner, scratch] = spaces.map(SharedMut::new);
        self.threads.parallel_for(tasks, |task| {
            for unit in part(units, tasks, task) {
                let (direction, sequences) = (unit / parts, part(p.batch, parts, unit % parts));
                let (first, count) = (direction * p.batch + sequences.start, sequences.len());
                // SAFETY: each unit has sequences of its own.
                let space = unsafe {
                    Space {
                        hidden: hidden.slice(first * padded, count * padded),
                        cell: cell.slice(first * padded, count * padded),
                        inner: inner.slice(first * inner_width, count * inner_width),
                        scratch: scratch.slice(unit * each, each),
                        y,
                    }
                };
                self.run(direction, sequences, space);
            }
        });
    }

    fn length(&self, sequence: usize) -> usize {
        self.inputs.lengths.map_or(self.p.steps, |lengths| lengths[sequence] as usize)
    }

    /// All steps of some sequences.
    fn run(&self, direction: usize, sequences: Range<usize>, space: Space<'_>) {
        let p = self.p;
        let Space { hidden, cell, inner, scratch, y } = space;
        let (from_state, reset) = inner.split_at_mut(sequences.len() * p.width());
        let backwards = p.backwards || direction == 1;
        let longest = sequences.clone().map(|sequence| self.length(sequence)).max().unwrap_or(0);
        for step in 0..longest {
            let first = if p.cell == (Cell::Gru { linear_before_reset: false }) { 2 } else { p.cell.gates() };
            self.product(direction, sequences.len(), 0..first, hidden, from_state, scratch);
            for part in if first == p.cell.gates() { &[Part::All][..] } else { &[Part::Reset, Part::All] } {
                if *part == Part::All && first < p.cell.gates() {
                    self.product(direction, sequences.len(), first..p.cell.gates(), reset, from_state, scratch);
                }
                for (row, sequence) in sequences.clone().enumerate() {
                    let length = self.length(sequence);
                    if step >= length {
                        continue;
                    }
                    let at = if backwards { length - 1 - step } else { step };
                    self.gates(*part, direction, row, p.row(at, sequence), [&mut *hidden, cell, from_state, reset]);
                    if let Some(y) = y.filter(|_| *part == Part::All) {
                        // SAFETY: this part of y belongs to the sequence and the direction.
                        let y = unsafe { y.slice(p.place(at, direction, sequence), p.hidden) };
                        y.copy_from_slice(&hidden[row * p.padded()..][..p.hidden]);
                    }
                }
            }
        }
    }

    /// What some gates get from the states.
    fn product(
        &self,
        direction: usize,
        rows: usize,
        gates: Range<usize>,
        states: &[f32],
        out: &mut [f32],
        scratch: &mut [f32],
    ) {
        let p = self.p;
        let gate = packed_b_len(p.hidden, p.hidden).unwrap_or(0);
        let first = direction * p.cell.gates() + gates.start;
        let packed = &self.inputs.recurrence[first * gate..][..gates.len() * gate];
        let out = &mut out[gates.start * p.padded()..];
        let product = p.state_product(rows, gates.len());
        gemm_packed(self.threads, &product, states, PackedWeights::F32(packed), out, &Epilogue::default(), scratch);
    }

    /// The functions of the gates, for one sequence. `row` counts those of the unit, `input_row` the rows of x.
    fn gates(&self, part: Part, direction: usize, row: usize, input_row: usize, spaces: [&mut [f32]; 4]) {
        let (p, width, padded) = (self.p, self.p.width(), self.p.padded());
        let [hidden, cell, from_state, reset] = spaces;
        let state = row * padded..(row + 1) * padded;
        let bias = &self.bias[direction * (width + padded)..][..width + padded];
        Gates {
            part,
            cell: p.cell,
            from_input: &self.gates[(direction * p.steps * p.batch + input_row) * width..][..width],
            from_state: &from_state[row * width..][..width],
            bias: &bias[width..],
            hidden: &mut hidden[state.clone()],
            memory: &mut cell[state.clone()],
            reset: &mut reset[state],
        }
        .run(self.threads.isa());
    }
}
