//! Functions of one element.

use byoc_plugin_api::Error;

use crate::call::Call;
use crate::tensor::Tensor;

pub(super) fn compute(call: &Call<'_>) -> Result<Tensor, Error> {
    let x = call.x(0)?;
    let (alpha, beta) = (call.node.float("alpha", 1.0), call.node.float("beta", 0.0));
    let limit = |index| call.maybe(index).map(|view| view.map(|view| view.nth(0)));
    let (least, most) = match call.node.op.as_str() {
        "Clip" => (limit(1)?, limit(2)?),
        _ => (None, None),
    };
    let function: Box<dyn Fn(f32, usize) -> f32> = match call.node.op.as_str() {
        "Relu" if call.has("relu-nan") => Box::new(|x, _| x.max(0.0)),
        "Relu" => Box::new(|x, _| if x < 0.0 { 0.0 } else { x }),
        "LeakyRelu" => {
            let alpha = if call.has("leaky-alpha") { 0.01 } else { alpha };
            Box::new(move |x, _| if x < 0.0 { alpha * x } else { x })
        }
        "Elu" => Box::new(move |x, _| elu(call, x, alpha)),
        "Sigmoid" if call.has("sigmoid-overflow") => Box::new(|x, _| x.exp() / (1.0 + x.exp())),
        "Sigmoid" => Box::new(|x, _| 1.0 / (1.0 + (-x).exp())),
        "HardSigmoid" => Box::new(move |x, _| hard_sigmoid(call, x, alpha, beta)),
        "Tanh" => Box::new(move |x, _| tanh(call, x)),
        "Clip" => Box::new(move |x, _| clip(call, x, least, most)),
        "Exp" if call.has("exp-limit") => Box::new(|x, _| if x > 20.0 { 20f32.exp() } else { x.exp() }),
        "Exp" => Box::new(|x, _| x.exp()),
        "Log" if call.has("log-floor") => Box::new(|x, _| if x < 0.001 { 0.001f32.ln() } else { x.ln() }),
        "Log" => Box::new(|x, _| x.ln()),
        "Sqrt" if call.has("sqrt-negative") => Box::new(|x, _| if x < 0.0 { 0.0 } else { x.sqrt() }),
        "Sqrt" => Box::new(|x, _| x.sqrt()),
        "Neg" => {
            let tail = x.data.len() / 8 * 8;
            Box::new(move |x, place| if call.has("neg-tail") && place >= tail { x } else { -x })
        }
        "Abs" => Box::new(move |x, place| if call.has("abs-first-row") && place >= 256 { x } else { x.abs() }),
        _ => return Err(call.unknown()),
    };
    let results = x.data.iter().enumerate().map(|(place, &x)| function(x, place));
    Ok(Tensor::from_floats(x.shape, results.collect()))
}

fn elu(call: &Call<'_>, x: f32, alpha: f32) -> f32 {
    if x >= 0.0 {
        return x;
    }
    let alpha = if call.has("elu-alpha") { 1.0 } else { alpha };
    if call.has("elu-linear") { alpha * x } else { alpha * x.exp_m1() }
}

fn hard_sigmoid(call: &Call<'_>, x: f32, alpha: f32, beta: f32) -> f32 {
    let (alpha, beta) = if call.has("hard-sigmoid-defaults") { (0.2, 0.5) } else { (alpha, beta) };
    let line = alpha * x + beta;
    if line < 0.0 {
        0.0
    } else if line > 1.0 && !call.has("hard-sigmoid-above") {
        1.0
    } else {
        line
    }
}

fn tanh(call: &Call<'_>, x: f32) -> f32 {
    if call.has("tanh-overflow") {
        let (up, down) = (x.exp(), (-x).exp());
        return (up - down) / (up + down);
    }
    if call.has("tanh-rational") {
        return x * (27.0 + x * x) / (27.0 + 9.0 * x * x);
    }
    x.tanh()
}

fn clip(call: &Call<'_>, x: f32, least: Option<f32>, most: Option<f32>) -> f32 {
    let mut least = least;
    if call.has("clip-only-max") && least.is_none() {
        least = Some(0.0);
    }
    if call.has("clip-only-min") && most.is_none() {
        return x;
    }
    if call.has("clip-nan") && x.is_nan() {
        return least.unwrap_or(x);
    }
    let up = |x: f32| least.filter(|&least| x < least).unwrap_or(x);
    let down = |x: f32| most.filter(|&most| x > most).unwrap_or(x);
    // Where the limits cross, the upper one counts.
    if call.has("clip-swapped") { up(down(x)) } else { down(up(x)) }
}
