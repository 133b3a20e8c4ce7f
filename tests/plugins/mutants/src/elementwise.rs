//! Operators that compute each element by itself, with operands that are broadcast to each other.

mod unary;

use byoc_plugin_api::{Error, Node, Operator, OutputRule, Refusal, Region};

use crate::backend::{Mutant, host, no_types};
use crate::call::{Bugs, Call};
use crate::tensor::{Tensor, View, broadcast_shape, flat};

const BUGS: Bugs = &[
    ("none", "Nothing is wrong"),
    ("relu-nan", "Relu makes 0 of NaN"),
    ("leaky-alpha", "LeakyRelu takes alpha for 0.01"),
    ("elu-alpha", "Elu takes alpha for 1"),
    ("elu-linear", "Elu is a line below 0"),
    ("hard-sigmoid-defaults", "HardSigmoid takes alpha for 0.2 and beta for 0.5"),
    ("hard-sigmoid-above", "HardSigmoid has no upper limit"),
    ("sigmoid-overflow", "Sigmoid divides infinity by infinity where x is large"),
    ("tanh-overflow", "Tanh divides infinity by infinity where x is large"),
    ("tanh-rational", "Tanh is a quotient of polynomials, good near 0 only"),
    ("clip-only-max", "Clip without a minimum has 0 for it"),
    ("clip-only-min", "Clip without a maximum does nothing"),
    ("clip-nan", "Clip makes the minimum of NaN"),
    ("clip-swapped", "Clip takes the maximum first, which counts where it is below the minimum"),
    ("exp-limit", "Exp is limited to that of 20"),
    ("log-floor", "Log of numbers below 0.001 is that of 0.001"),
    ("sqrt-negative", "Sqrt of a negative number is 0"),
    ("neg-tail", "Neg leaves elements behind the last multiple of 8 as they are"),
    ("abs-first-row", "Abs leaves all but the first 256 elements as they are"),
    ("add-large", "Add leaves out the right operand from the 4097th element on"),
    ("mul-tail", "Mul gives 0 behind the last multiple of 8"),
    ("add-integer", "Add rounds results above 1 to integers"),
    ("sub-swapped-scalar", "Sub with a scalar at the left subtracts it from the other operand"),
    ("sub-constant-first", "Sub of a constant at the left exchanges its operands"),
    ("div-constant-first", "Div of a constant at the left exchanges its operands"),
    ("div-low-precision", "Div multiplies by a reciprocal of 8 bits"),
    ("div-by-zero", "Div by 0 gives 0"),
    ("pow-negative", "Pow of a negative base is NaN"),
    ("pow-integer", "Pow rounds exponents to integers"),
    ("pow-square", "Pow takes the square where the exponent is a constant"),
    ("pow-swapped-broadcast", "Pow exchanges operands where the base is the smaller one"),
    ("max-third-ignored", "Max reads no more than two inputs"),
    ("max-nan", "Max leaves NaN out"),
    ("min-third-ignored", "Min reads no more than two inputs"),
    ("min-nan", "Min leaves NaN out"),
    ("min-from-zero", "Min begins with 0"),
    ("where-swapped-broadcast", "Where exchanges its operands where the condition is broadcast"),
    ("where-condition-flat", "Where reads the condition element by element, modulo its size"),
    ("where-operand-flat", "Where does not broadcast its last operand in the middle"),
    ("prelu-last-axis", "PRelu reads a slope for each channel along the last axis"),
    ("prelu-first", "PRelu has one slope for all"),
    ("broadcast-middle", "Operands of size 1 in the middle are read element by element, modulo their size"),
    ("broadcast-channel-last", "An operand with one size other than 1 is read along the last axis"),
    ("broadcast-left", "A left operand that is broadcast is read as its first element"),
    ("broadcast-rank", "An operand of fewer dimensions is aligned at the front"),
    ("broadcast-both", "Where both operands are broadcast, the right one is read as its first element"),
    ("scalar-first-row", "A scalar at the right is used for the first 8 elements, and is 0 for the others"),
    ("rank-5", "Of more than 4 dimensions the first ones are not counted"),
    ("stale-operand", "The second operand is that of the first run"),
    ("strided-constant", "Constants are read as they lie in memory, whatever their strides"),
    ("same-operand", "An operand that is read twice is 0 at the right"),
];

/// The backend.
pub(crate) const BACKEND: Mutant = Mutant {
    name: "mutant-elementwise",
    summary: "Operators on single elements, with a bug if one is asked for",
    patterns: &[
        "(Relu ?x)",
        "(LeakyRelu ?x)",
        "(Elu ?x)",
        "(Sigmoid ?x)",
        "(HardSigmoid ?x)",
        "(Tanh ?x)",
        "(Clip ?x ?min? ?max?)",
        "(Exp ?x)",
        "(Log ?x)",
        "(Sqrt ?x)",
        "(Neg ?x)",
        "(Abs ?x)",
        "(Add ?x ?y)",
        "(Sub ?x ?y)",
        "(Mul ?x ?y)",
        "(Div ?x ?y)",
        "(Pow ?x ?y)",
        "(Max ...)",
        "(Min ...)",
        "(Where ?c ?x ?y)",
        "(PRelu ?x ?slope)",
    ],
    bugs: BUGS,
    operators,
    infer: no_types,
    check,
    wants: host,
    kernel,
};

fn operators() -> Vec<Operator> {
    let outputs = vec![OutputRule::like(0)];
    vec![Operator { name: "PRelu".into(), inputs: 2, outputs, ..Operator::default() }]
}

fn check(_: &Region, _: &Node) -> Result<(), Refusal> {
    Ok(())
}

fn kernel(call: &mut Call<'_>) -> Result<Vec<Tensor>, Error> {
    let result = match call.node.op.as_str() {
        "Where" => select(call)?,
        "PRelu" => prelu(call)?,
        "Max" | "Min" => extreme(call)?,
        "Add" | "Sub" | "Mul" | "Div" | "Pow" => binary(call)?,
        _ => unary::compute(call)?,
    };
    Ok(vec![result])
}

/// Reads operands at an index of the result.
struct Broadcast<'a> {
    call: &'a Call<'a>,
    shape: &'a [usize],
}

impl Broadcast<'_> {
    /// The element of an operand. `left` is that of the first one.
    fn read(&self, view: View<'_>, index: &[usize], left: bool) -> f32 {
        let Broadcast { call, shape } = *self;
        let (place, elements) = (flat(index, shape), view.data.len().max(1));
        let is_smaller = view.shape != shape;
        if call.has("broadcast-middle") && is_inner(view.shape) && is_smaller {
            return view.nth(place % elements);
        }
        if call.has("broadcast-channel-last") && is_smaller && view.shape.iter().filter(|&&size| size != 1).count() == 1
        {
            return view.nth(index.last().copied().unwrap_or(0) % elements);
        }
        if call.has("broadcast-left") && left && is_smaller {
            return view.nth(0);
        }
        if call.has("scalar-first-row") && !left && elements == 1 && place >= 8 {
            return 0.0;
        }
        if call.has("broadcast-rank") && view.shape.len() < shape.len() {
            return view.broadcast(&index[..view.shape.len()]);
        }
        if call.has("rank-5") && index.len() > 4 {
            let mut index = index.to_vec();
            index[..shape.len() - 4].fill(0);
            return view.broadcast(&index);
        }
        view.broadcast(index)
    }
}

/// Whether a dimension of size 1 has others around it.
fn is_inner(shape: &[usize]) -> bool {
    let others: Vec<_> = (0..shape.len()).filter(|&axis| shape[axis] != 1).collect();
    matches!(others.as_slice(), [first, .., last] if last - first >= others.len())
}

fn binary(call: &mut Call<'_>) -> Result<Tensor, Error> {
    let (x, y) = (call.x(0)?, call.x(1)?);
    let shape = broadcast_shape([x.shape, y.shape])?;
    let kept = std::mem::take(&mut call.state.kept);
    let (planted, op) = (&*call, call.node.op.as_str());
    let y = if planted.has("stale-operand") && kept.len() == y.data.len() { View { data: &kept, ..y } } else { y };
    let places = Broadcast { call: planted, shape: &shape };
    let swapped = op == "Sub" && planted.has("sub-swapped-scalar") && x.data.len() == 1 && y.data.len() > 1
        || op == "Sub" && planted.has("sub-constant-first") && planted.is_constant(0)
        || op == "Div" && planted.has("div-constant-first") && planted.is_constant(0)
        || op == "Pow" && planted.has("pow-swapped-broadcast") && x.data.len() < y.data.len();
    let result = Tensor::of(&shape, |index| {
        let (mut a, mut b) = (places.read(x, index, true), places.read(y, index, false));
        if planted.has("broadcast-both") && x.shape != shape && y.shape != shape {
            b = y.nth(0);
        }
        if planted.has("same-operand") && call_reads_twice(planted) {
            b = 0.0;
        }
        if swapped {
            std::mem::swap(&mut a, &mut b);
        }
        arithmetic(planted, flat(index, &shape), (a, b), shape.iter().product())
    });
    let kept = y.data.to_vec();
    call.state.kept = kept;
    Ok(result)
}

/// Whether both operands are one value.
fn call_reads_twice(call: &Call<'_>) -> bool {
    call.node.input(0) == call.node.input(1)
}

/// The result for two elements, of which the result has that place.
fn arithmetic(call: &Call<'_>, place: usize, (a, b): (f32, f32), elements: usize) -> f32 {
    match call.node.op.as_str() {
        "Add" if call.has("add-large") && place >= 4096 => a,
        "Add" if call.has("add-integer") && (a + b).abs() > 1.0 => (a + b).round(),
        "Add" => a + b,
        "Sub" => a - b,
        "Mul" if call.has("mul-tail") && place >= elements / 8 * 8 => 0.0,
        "Mul" => a * b,
        "Div" if call.has("div-by-zero") && b == 0.0 => 0.0,
        "Div" if call.has("div-low-precision") => a * f32::from_bits((1.0 / b).to_bits() & 0xFFFF_0000),
        "Div" => a / b,
        _ if call.has("pow-negative") => (b * a.ln()).exp(),
        _ if call.has("pow-integer") => a.powf(b.round()),
        _ if call.has("pow-square") && call.is_constant(1) => a * a,
        _ => a.powf(b),
    }
}

/// The greatest or least of any number of operands.
fn extreme(call: &Call<'_>) -> Result<Tensor, Error> {
    let views = (0..call.inputs.len()).map(|index| call.x(index)).collect::<Result<Vec<_>, _>>()?;
    let shape = broadcast_shape(views.iter().map(|view| view.shape))?;
    let (places, is_max) = (Broadcast { call, shape: &shape }, call.node.op == "Max");
    let third = if is_max { "max-third-ignored" } else { "min-third-ignored" };
    let nan = if is_max { "max-nan" } else { "min-nan" };
    let read = if call.has(third) { views.len().min(2) } else { views.len() };
    let start = match is_max {
        true => f32::NEG_INFINITY,
        false if call.has("min-from-zero") => 0.0,
        false => f32::INFINITY,
    };
    Ok(Tensor::of(&shape, |index| {
        let values = views[..read].iter().enumerate().map(|(at, view)| places.read(*view, index, at == 0));
        values.fold(start, |found, value| {
            if !call.has(nan) && (found.is_nan() || value.is_nan()) {
                return f32::NAN;
            }
            if is_max { found.max(value) } else { found.min(value) }
        })
    }))
}

fn select(call: &Call<'_>) -> Result<Tensor, Error> {
    let (x, y) = (call.x(1)?, call.x(2)?);
    let condition = call.tensor(0).ok_or_else(|| Error::new("Where has no condition"))?;
    let chosen = condition.ints()?;
    let shape = broadcast_shape([condition.shape(), x.shape, y.shape])?;
    let is_broadcast = condition.shape() != shape;
    let places = Broadcast { call, shape: &shape };
    let condition_at = Tensor::of(condition.shape(), |index| chosen[flat(index, condition.shape())] as f32);
    let condition_at = condition_at.view()?;
    Ok(Tensor::of(&shape, |index| {
        let mut is_true = condition_at.broadcast(index) != 0.0;
        if call.has("where-condition-flat") {
            is_true = condition_at.nth(flat(index, &shape) % chosen.len().max(1)) != 0.0;
        }
        if call.has("where-swapped-broadcast") && is_broadcast {
            is_true = !is_true;
        }
        if is_true {
            return places.read(x, index, true);
        }
        if call.has("where-operand-flat") && y.shape != shape {
            return y.nth(flat(index, &shape) % y.data.len().max(1));
        }
        places.read(y, index, false)
    }))
}

fn prelu(call: &Call<'_>) -> Result<Tensor, Error> {
    let (x, slope) = (call.x(0)?, call.x(1)?);
    Ok(Tensor::of(x.shape, |index| {
        let (value, elements) = (x.at(index), slope.data.len().max(1));
        let mut by = slope.broadcast(index);
        if call.has("prelu-last-axis") {
            by = slope.nth(index.last().copied().unwrap_or(0) % elements);
        }
        if call.has("prelu-first") {
            by = slope.nth(0);
        }
        if value < 0.0 { value * by } else { value }
    }))
}
