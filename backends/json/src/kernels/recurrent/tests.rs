//! The kernel against the equations in double precision.

use super::*;
use crate::kernels::isa::Isa;
use crate::tests::harness::noise;

/// The equations in double precision, a gate at a time.
struct Plain<'a> {
    p: &'a RecurrentParams,
    x: &'a [f32],
    weights: &'a [f32],
    recurrence: &'a [f32],
    bias: &'a [f32],
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

impl Plain<'_> {
    /// What element `j` of a gate gets from the input, and from the state.
    fn gate(&self, direction: usize, gate: usize, j: usize, row: usize, hidden: &[f64]) -> [f64; 2] {
        let (p, gates) = (self.p, self.p.cell.gates());
        let filter = (direction * gates + gate) * p.hidden + j;
        let x = (0..p.input).map(|i| f64::from(self.x[row * p.input + i] * self.weights[filter * p.input + i]));
        let h = (0..p.hidden).map(|i| hidden[i] * f64::from(self.recurrence[filter * p.hidden + i]));
        let bias = |part: usize| f64::from(self.bias[((2 * direction + part) * gates + gate) * p.hidden + j]);
        [x.sum::<f64>() + bias(0), h.sum::<f64>() + bias(1)]
    }

    /// The state and the cell behind one step.
    fn step(&self, direction: usize, row: usize, state: &mut [Vec<f64>; 2]) {
        let [before, cells] = state.clone();
        let parts = |gate: usize, j: usize, hidden: &[f64]| self.gate(direction, gate, j, row, hidden);
        let sum = |gate: usize, j: usize| parts(gate, j, &before).iter().sum::<f64>();
        let reset: Vec<f64> = match self.p.cell {
            Cell::Gru { .. } => (0..self.p.hidden).map(|j| sigmoid(sum(1, j))).collect(),
            _ => Vec::new(),
        };
        let left: Vec<f64> = reset.iter().zip(&before).map(|(reset, h)| reset * h).collect();
        for j in 0..self.p.hidden {
            state[0][j] = match self.p.cell {
                Cell::Lstm => {
                    state[1][j] = sigmoid(sum(2, j)) * cells[j] + sigmoid(sum(0, j)) * sum(3, j).tanh();
                    sigmoid(sum(1, j)) * state[1][j].tanh()
                }
                Cell::Gru { linear_before_reset } => {
                    let candidate = if linear_before_reset {
                        let [x, h] = parts(2, j, &before);
                        x + reset[j] * h
                    } else {
                        parts(2, j, &left).iter().sum()
                    };
                    let update = sigmoid(sum(0, j));
                    (1.0 - update) * candidate.tanh() + update * before[j]
                }
                Cell::Rnn { .. } => sum(0, j).max(0.0),
            };
        }
    }
}

/// Compares all outputs of the kernel with those of the equations.
fn check(p: &RecurrentParams, lengths: Option<&[i32]>, isa: Isa) {
    let gates = p.cell.gates() * p.directions;
    let state = p.directions * p.batch * p.hidden;
    let sizes =
        [p.steps * p.batch * p.input, gates * p.hidden * p.input, gates * p.hidden * p.hidden, 2 * gates * p.hidden];
    let [x, weights, recurrence, bias] = [0, 1, 2, 3].map(|i| noise(sizes[i], i as u64));
    let (hidden, cell) = (noise(state, 5), noise(state, 6));
    let plain = Plain { p, x: &x, weights: &weights, recurrence: &recurrence, bias: &bias };
    let [mut y, mut last] = [vec![0.0; p.steps * state], vec![0.0; 2 * state]];
    for (direction, sequence) in (0..p.directions).flat_map(|d| (0..p.batch).map(move |b| (d, b))) {
        let at = p.state_place(direction, sequence);
        let mut now = [&hidden, &cell].map(|start| start[at..][..p.hidden].iter().map(|&v| f64::from(v)).collect());
        let length = lengths.map_or(p.steps, |lengths| lengths[sequence] as usize);
        for step in 0..length {
            let step = if p.backwards || direction == 1 { length - 1 - step } else { step };
            plain.step(direction, p.row(step, sequence), &mut now);
            y[p.place(step, direction, sequence)..][..p.hidden].copy_from_slice(&now[0]);
        }
        last[at..][..p.hidden].copy_from_slice(&now[0]);
        last[state + at..][..p.hidden].copy_from_slice(&now[1]);
    }
    let [mut w, mut r] =
        [p.input, p.hidden].map(|k| vec![0.0; packed_gates_len(gates, k, p.hidden).expect("countable")]);
    pack_gates(gates, p.input, p.hidden, &weights, &mut w);
    pack_gates(gates, p.hidden, p.hidden, &recurrence, &mut r);
    let (bias, hidden, cell) = (Some(&*bias), Some(&*hidden), Some(&*cell));
    let inputs = RecurrentInputs { x: &x, weights: &w, recurrence: &r, bias, lengths, hidden, cell };
    let (mut found, mut found_last) = (vec![f32::NAN; y.len()], vec![f32::NAN; 2 * state]);
    let (h, c) = found_last.split_at_mut(state);
    let outputs = RecurrentOutputs { y: Some(&mut found), hidden: Some(h), cell: Some(c) };
    let threads = Threads::with_isa(2, isa);
    recurrent(&threads, p, &inputs, outputs, &mut vec![f32::NAN; p.scratch_len(2).expect("countable")]);
    let counts = if p.cell == Cell::Lstm { 2 * state } else { state };
    let pairs = found.iter().zip(&y).chain(found_last[..counts].iter().zip(&last));
    for (at, (found, expected)) in pairs.enumerate() {
        let error = (f64::from(*found) - expected).abs();
        assert!(error <= 1e-4 * expected.abs().max(1.0), "{isa:?} {p:?} {lengths:?} [{at}]: {found} {expected}");
    }
}

#[test]
fn equations_at_odd_sizes() {
    let gru = |linear_before_reset| Cell::Gru { linear_before_reset };
    for cell in [Cell::Lstm, gru(false), gru(true), Cell::Rnn { act: Activation::Relu }] {
        for (steps, batch, input, hidden) in [(1, 1, 1, 1), (5, 3, 7, 17), (4, 2, 16, 32), (0, 2, 3, 4)] {
            for (directions, backwards, by_batch) in [(1, false, false), (2, false, true), (1, true, true)] {
                let p = RecurrentParams { cell, steps, batch, directions, input, hidden, backwards, by_batch };
                let lengths = [0, steps as i32, steps as i32 / 2];
                for &isa in Isa::available() {
                    check(&p, None, isa);
                    check(&p, Some(&lengths[3 - batch..]), isa);
                }
            }
        }
    }
}

#[test]
fn a_layer_with_work_for_two_threads() {
    let p = RecurrentParams {
        cell: Cell::Lstm,
        steps: 9,
        batch: 3,
        directions: 1,
        input: 20,
        hidden: 100,
        backwards: false,
        by_batch: false,
    };
    for directions in [1, 2] {
        check(&RecurrentParams { directions, ..p.clone() }, None, Isa::detect());
        check(
            &RecurrentParams { directions, batch: 1, cell: Cell::Gru { linear_before_reset: false }, ..p.clone() },
            None,
            Isa::detect(),
        );
    }
}
