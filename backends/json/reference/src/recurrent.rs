//! Recurrent layers: `LSTM`, `GRU` and `RNN`, by the equations of ONNX's operator descriptions, and onnxruntime's `DynamicQuantizeLSTM`.

mod activation;
mod factor;

use byoc_plugin_api::{Error, Node};
use ndarray::{Array2, Array3, Array4, ArrayD, ArrayView3, Axis, Ix3, s};

use super::array::{Array, count};
use super::call::{Call, Outputs};
use super::quantize::Levels;
use super::{BYTE, FLOAT, Kernel, SAME, Types, kernel};
use activation::Activation;
use factor::{Factor, Weights};

const I32: Types = Types::of(&[byoc_plugin_api::DType::I32]);
const INPUTS: &[Types] = &[FLOAT, SAME, SAME, SAME, I32, SAME];

const F32: Types = Types::of(&[byoc_plugin_api::DType::F32]);
const QUANTISED: &[Types] = &[F32, BYTE, BYTE, SAME, I32, SAME, SAME, SAME, SAME, BYTE, SAME, BYTE];
/// Whether it is the LSTM whose weights are integers: in code, its name has its domain before it.
fn is_dynamic(node: &Node) -> bool {
    node.op.ends_with("DynamicQuantizeLSTM")
}

/// The operators of this file.
pub(super) const KERNELS: &[Kernel] = &[
    kernel("GRU", recurrent, INPUTS),
    kernel("LSTM", recurrent, INPUTS),
    kernel("RNN", recurrent, INPUTS),
    kernel("com.microsoft.DynamicQuantizeLSTM", recurrent, QUANTISED),
];

/// Which equations a layer has.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// `clips_cell`: whether the cell is clipped before its activation, which it is not in onnxruntime.
    Lstm {
        input_forget: bool,
        clips_cell: bool,
    },
    Gru {
        linear_before_reset: bool,
    },
    Rnn,
}

impl Kind {
    fn of(call: &Call<'_, '_>) -> Kind {
        match call.node.op.as_str() {
            _ if is_dynamic(call.node) => Kind::lstm(call, false),
            "LSTM" => Kind::lstm(call, true),
            "GRU" => Kind::Gru { linear_before_reset: call.node.int("linear_before_reset", 0) != 0 },
            _ => Kind::Rnn,
        }
    }

    fn lstm(call: &Call<'_, '_>, clips_cell: bool) -> Kind {
        Kind::Lstm { input_forget: call.node.int("input_forget", 0) != 0, clips_cell }
    }

    fn gates(self) -> usize {
        match self {
            Kind::Lstm { .. } => 4,
            Kind::Gru { .. } => 3,
            Kind::Rnn => 1,
        }
    }

    /// Activation functions of a direction.
    fn functions(self) -> usize {
        match self {
            Kind::Lstm { .. } => 3,
            Kind::Gru { .. } => 2,
            Kind::Rnn => 1,
        }
    }
}

/// One direction of a layer.
struct Layer<'a> {
    kind: Kind,
    functions: &'a [Activation],
    clip: f64,
    /// What the input is multiplied by.
    weights: Factor<'a>,
    /// What the hidden state is.
    recurrence: Factor<'a>,
    /// One number for each gate and hidden element: what is added to the input's part, and to the hidden state's.
    bias: [Vec<f64>; 2],
    /// Of the input, the output and the forget gate.
    peepholes: Vec<f64>,
}

/// What a layer hands from a step to the next, a row for each sequence.
struct State {
    hidden: Array2<f64>,
    cell: Array2<f64>,
}

impl Layer<'_> {
    fn activate(&self, function: usize, x: f64) -> f64 {
        self.functions[function].apply(x.clamp(-self.clip, self.clip))
    }

    /// One step of those sequences that are not at their end. The levels are those of the input and of the state.
    fn step(&self, x: &Array2<f64>, levels: [Option<Levels>; 2], state: &mut State, active: &[bool]) {
        let from_input = self.weights.product(x, levels[0]);
        let from_hidden = self.recurrence.product(&state.hidden, levels[1]);
        let size = state.hidden.ncols();
        let reset = match self.kind {
            Kind::Gru { linear_before_reset: false } => Some(self.reset(&from_input, &from_hidden, &state.hidden)),
            _ => None,
        };
        for (row, _) in active.iter().enumerate().filter(|(_, active)| **active) {
            for j in 0..size {
                let input = |gate: usize| from_input[[row, gate * size + j]] + self.bias[0][gate * size + j];
                let hidden = |gate: usize| from_hidden[[row, gate * size + j]] + self.bias[1][gate * size + j];
                let gate = |gate: usize| input(gate) + hidden(gate);
                state.hidden[[row, j]] = match self.kind {
                    Kind::Lstm { input_forget, clips_cell } => {
                        let before = state.cell[[row, j]];
                        let peephole = |gate: usize| self.peepholes[gate * size + j];
                        let opened = self.activate(0, gate(0) + peephole(0) * before);
                        let kept = match input_forget {
                            true => 1.0 - opened,
                            false => self.activate(0, gate(2) + peephole(2) * before),
                        };
                        let cell = kept * before + opened * self.activate(1, gate(3));
                        state.cell[[row, j]] = cell;
                        let shown = if clips_cell { self.activate(2, cell) } else { self.functions[2].apply(cell) };
                        self.activate(0, gate(1) + peephole(1) * cell) * shown
                    }
                    Kind::Gru { .. } => {
                        let update = self.activate(0, gate(0));
                        let candidate = match &reset {
                            Some(reset) => input(2) + reset[[row, j]] + self.bias[1][2 * size + j],
                            None => input(2) + self.activate(0, gate(1)) * hidden(2),
                        };
                        (1.0 - update) * self.activate(1, candidate) + update * state.hidden[[row, j]]
                    }
                    Kind::Rnn => self.activate(0, gate(0)),
                };
            }
        }
    }

    /// The hidden gate's part of a hidden state that the reset gate was applied to.
    fn reset(&self, from_input: &Array2<f64>, from_hidden: &Array2<f64>, hidden: &Array2<f64>) -> Array2<f64> {
        let size = hidden.ncols();
        let mut left = hidden.clone();
        left.indexed_iter_mut().for_each(|((row, j), value)| {
            let place = size + j;
            let bias = self.bias[0][place] + self.bias[1][place];
            *value *= self.activate(0, from_input[[row, place]] + from_hidden[[row, place]] + bias);
        });
        self.recurrence.from(2 * size).product(&left, None)
    }
}

/// An input of that rank.
fn ranked<D: ndarray::Dimension>(call: &Call<'_, '_>, index: usize) -> Result<ndarray::Array<f64, D>, Error> {
    let array = call.input(index)?;
    let shape = array.shape().to_vec();
    let fixed = array.to_f64().into_dimensionality::<D>();
    fixed.map_err(|_| Error::new(format!("input {index} of {} has the shape {shape:?}", call.node.op)))
}

/// An optional input, or zeros, of that shape.
fn shaped_or_zeros<D: ndarray::Dimension>(
    call: &Call<'_, '_>,
    index: usize,
    shape: D,
) -> Result<ndarray::Array<f64, D>, Error> {
    if call.optional(index).is_none() {
        count(shape.slice())?;
        return Ok(ndarray::Array::zeros(shape));
    }
    let array = ranked::<D>(call, index)?;
    if array.raw_dim() == shape {
        return Ok(array);
    }
    let (found, wanted) = (array.shape(), shape.slice());
    Err(Error::new(format!("input {index} of {} has the shape {found:?}, expected {wanted:?}", call.node.op)))
}

/// Sizes of a layer.
#[derive(Clone, Copy)]
struct Sizes {
    steps: usize,
    batch: usize,
    directions: usize,
    hidden: usize,
}

/// How many steps each sequence has.
fn lengths(call: &Call<'_, '_>, sizes: Sizes) -> Result<Vec<usize>, Error> {
    let Some(lengths) = call.ints(4) else { return Ok(vec![sizes.steps; sizes.batch]) };
    if lengths.len() != sizes.batch {
        return Err(Error::new(format!("sequence_lens of {} does not have one element a sequence", call.node.op)));
    }
    lengths.iter().map(|&length| checked_length(length, sizes.steps)).collect()
}

/// The steps of a sequence: no more than there are.
pub fn checked_length(length: i64, steps: usize) -> Result<usize, Error> {
    let checked = usize::try_from(length).ok().filter(|&length| length <= steps);
    checked.ok_or_else(|| Error::new(format!("a sequence of {length} steps, where there are {steps}")))
}

/// The weights for the input and those for the hidden state.
fn weights(call: &Call<'_, '_>) -> Result<[Weights; 2], Error> {
    if is_dynamic(call.node) {
        return Ok([Weights::quantised(call, 1, 8)?, Weights::quantised(call, 2, 10)?]);
    }
    Ok([Weights::real(ranked::<Ix3>(call, 1)?), Weights::real(ranked::<Ix3>(call, 2)?)])
}

/// The largest input of an activation; infinity where there is no limit.
fn clip(node: &Node) -> Result<f64, Error> {
    match node.attributes.get("clip") {
        Some(byoc_plugin_api::Attribute::Float(clip)) if *clip >= 0.0 => Ok(f64::from(*clip)),
        Some(_) => Err(Error::new(format!("the clip of {} is not a number from 0 on", node.op))),
        None => Ok(f64::INFINITY),
    }
}

/// Fails where the attributes of a `DynamicQuantizeLSTM` are not those of an LSTM with so many directions.
pub fn check(node: &Node, directions: usize) -> Result<(), Error> {
    activation::all(node, 3 * directions)?;
    clip(node).map(drop)
}

/// All operators of this file.
fn recurrent(call: &Call<'_, '_>) -> Outputs {
    let kind = Kind::of(call);
    let by_batch = call.node.int("layout", 0) != 0;
    let (mut x, [weights, recurrence]) = (ranked::<Ix3>(call, 0)?, weights(call)?);
    if by_batch {
        x.swap_axes(0, 1);
    }
    let (steps, batch, columns) = x.dim();
    let (directions, rows, hidden) = recurrence.rows.dim();
    let sizes = Sizes { steps, batch, directions, hidden };
    let gates = kind.gates().checked_mul(hidden);
    if !matches!(directions, 1 | 2) || Some(rows) != gates || weights.rows.dim() != (directions, rows, columns) {
        let shapes = (x.shape(), weights.rows.shape(), recurrence.rows.shape());
        return Err(Error::new(format!("{} of {:?} by {:?} and {:?}", call.node.op, shapes.0, shapes.1, shapes.2)));
    }
    let bias = shaped_or_zeros(call, 3, ndarray::Dim([directions, 2 * rows]))?;
    let peepholes = shaped_or_zeros(call, 7, ndarray::Dim([directions, 3 * hidden]))?;
    let functions = activation::all(call.node, kind.functions() * directions)?;
    let clip = clip(call.node)?;
    let (mut state, lengths) =
        ([initial(call, 5, sizes, by_batch)?, initial(call, 6, sizes, by_batch)?], lengths(call, sizes)?);
    let mut y = Wanted::new(call, sizes, by_batch)?;
    for direction in 0..directions {
        let part = |list: &Array2<f64>, range: std::ops::Range<usize>| list.slice(s![direction, range]).to_vec();
        let layer = Layer {
            kind,
            functions: &functions[direction * kind.functions()..][..kind.functions()],
            clip,
            weights: weights.of(direction),
            recurrence: recurrence.of(direction),
            bias: [part(&bias, 0..rows), part(&bias, rows..2 * rows)],
            peepholes: part(&peepholes, 0..3 * hidden),
        };
        let backwards = direction == 1 || call.node.string("direction", "forward") == "reverse";
        let last = run(&layer, &x.view(), &lengths, backwards, &mut state, direction, &mut y);
        state[0].index_axis_mut(Axis(0), direction).assign(&last.hidden);
        state[1].index_axis_mut(Axis(0), direction).assign(&last.cell);
    }
    let dtype = call.input(0)?.dtype();
    let [last, cell] = state.map(|mut state| {
        if by_batch {
            state.swap_axes(0, 1);
        }
        Array::from_f64(dtype, state.as_standard_layout().into_owned().into_dyn())
    });
    Ok(vec![Array::from_f64(dtype, y.finished(by_batch)), last, cell])
}

/// The state of all sequences before the first step: a layer for each direction.
fn initial(call: &Call<'_, '_>, index: usize, sizes: Sizes, by_batch: bool) -> Result<Array3<f64>, Error> {
    let Sizes { batch, directions, hidden, .. } = sizes;
    let shape = if by_batch { [batch, directions, hidden] } else { [directions, batch, hidden] };
    let mut state = shaped_or_zeros(call, index, ndarray::Dim(shape))?;
    if by_batch {
        state.swap_axes(0, 1);
    }
    Ok(state)
}

/// Output 0, where it is wanted: the hidden state after each step.
struct Wanted(Option<Array4<f64>>);

impl Wanted {
    fn new(call: &Call<'_, '_>, sizes: Sizes, by_batch: bool) -> Result<Wanted, Error> {
        let Sizes { steps, batch, directions, hidden } = sizes;
        if call.node.outputs.first() == Some(&None) {
            return Ok(Wanted(None));
        }
        call.count(&if by_batch { [batch, steps, directions, hidden] } else { [steps, directions, batch, hidden] })?;
        Ok(Wanted(Some(Array4::zeros((steps, directions, batch, hidden)))))
    }

    fn finished(self, by_batch: bool) -> ArrayD<f64> {
        let y = self.0.unwrap_or_default();
        let y = if by_batch { y.permuted_axes([2, 0, 1, 3]) } else { y };
        y.as_standard_layout().into_owned().into_dyn()
    }
}

/// Runs one direction over all sequences; backwards, each from its own end. What is behind a sequence's end stays 0.
fn run(
    layer: &Layer<'_>,
    x: &ArrayView3<'_, f64>,
    lengths: &[usize],
    backwards: bool,
    initial: &mut [Array3<f64>; 2],
    direction: usize,
    y: &mut Wanted,
) -> State {
    let [hidden, cell] = initial.each_ref().map(|state| state.index_axis(Axis(0), direction).to_owned());
    let mut state = State { hidden, cell };
    let longest = lengths.iter().copied().max().unwrap_or(0);
    let levels = layer.weights.levels(x.slice(s![..longest, .., ..]).iter().copied());
    for step in 0..longest {
        let place = |&length: &usize| (step < length).then(|| if backwards { length - 1 - step } else { step });
        let places: Vec<Option<usize>> = lengths.iter().map(place).collect();
        let mut now = Array2::zeros((lengths.len(), x.dim().2));
        for (row, place) in places.iter().enumerate() {
            if let Some(place) = place {
                now.row_mut(row).assign(&x.slice(s![*place, row, ..]));
            }
        }
        let active: Vec<bool> = places.iter().map(Option::is_some).collect();
        let levels = [levels, layer.recurrence.levels(held(&state, step, lengths, y.0.is_some()))];
        layer.step(&now, levels, &mut state, &active);
        let Some(y) = &mut y.0 else { continue };
        for (row, place) in places.iter().enumerate() {
            if let Some(place) = place {
                y.slice_mut(s![*place, direction, row, ..]).assign(&state.hidden.row(row));
            }
        }
    }
    state
}

/// The elements of the state whose range decides how it is quantised. Where every state is an output, onnxruntime reads those of the
/// step before, in which there is nothing of a sequence behind its end.
fn held<'a>(state: &'a State, step: usize, lengths: &'a [usize], all: bool) -> impl Iterator<Item = f64> {
    let rows = state.hidden.rows().into_iter().zip(lengths);
    rows.filter(move |(_, length)| !all || step <= **length).flat_map(|(row, _)| row).copied()
}

#[cfg(test)]
mod tests;
