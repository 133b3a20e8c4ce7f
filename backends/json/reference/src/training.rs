//! Steps of optimisers of `ai.onnx.preview.training`: the rate, how many steps were made, and for each tensor its gradient and
//! its state.

use byoc_plugin_api::{DType, Error};
use ndarray::ArrayD;

use super::array::Array;
use super::call::{Call, Outputs};
use super::types::Types;
use super::{I64, Kernel, kernel};

/// The operators of this file.
#[rustfmt::skip]
pub(super) const KERNELS: &[Kernel] = &[
    kernel("ai.onnx.preview.training.Adagrad", adagrad, &[REAL, I64, REAL]),
    kernel("ai.onnx.preview.training.Adam", adam, &[REAL, I64, REAL]),
    kernel("ai.onnx.preview.training.Momentum", momentum, &[REAL, I64, REAL]),
];

const REAL: Types = Types::of(&[DType::F32, DType::F64]);

/// A step over each tensor: `update` takes the elements of tensor, gradient and states at one place, and gives the new ones of tensor
/// and states, in that order.
fn step<const STATES: usize>(
    call: &Call<'_, '_>,
    update: impl Fn(f64, f64, [f64; STATES]) -> (f64, [f64; STATES]),
) -> Outputs {
    let tensors = call.inputs().count().saturating_sub(2);
    let count = tensors / (2 + STATES);
    if count == 0 || !tensors.is_multiple_of(2 + STATES) {
        return Err(Error::new(format!("{} has {tensors} tensors, expected {} for each", call.node.op, 2 + STATES)));
    }
    let mut outputs: Vec<Vec<Array<'static>>> = vec![Vec::new(); 1 + STATES];
    for index in 0..count {
        let group: Vec<&Array<'_>> =
            (0..2 + STATES).map(|part| call.input(2 + part * count + index)).collect::<Result<_, _>>()?;
        if group.iter().any(|other| other.shape() != group[0].shape() || other.dtype() != group[0].dtype()) {
            return Err(Error::new(format!("tensor {index} of {} and its gradient or its state differ", call.node.op)));
        }
        let parts: Vec<ArrayD<f64>> = group.iter().map(|part| part.to_f64()).collect();
        let mut made = vec![parts[0].clone(); 1 + STATES];
        let lists: Vec<&[f64]> = parts.iter().map(|part| part.as_slice().unwrap_or_default()).collect();
        for (place, (x, gradient)) in lists[0].iter().zip(lists[1]).enumerate() {
            let states = std::array::from_fn(|state| lists[2 + state][place]);
            let (x, states) = update(*x, *gradient, states);
            for (to, value) in made.iter_mut().zip(std::iter::once(x).chain(states)) {
                to.as_slice_mut().unwrap_or_default()[place] = value;
            }
        }
        outputs.iter_mut().zip(made).for_each(|(list, made)| list.push(Array::from_f64(group[0].dtype(), made)));
    }
    Ok(outputs.concat())
}

/// The rate, and how many steps were made.
fn head(call: &Call<'_, '_>) -> Result<(f64, f64), Error> {
    let scalar = |index: usize| {
        let value = call.input(index)?.to_f64().first().copied();
        value.ok_or_else(|| Error::new(format!("input {index} of {} has no element", call.node.op)))
    };
    Ok((scalar(0)?, scalar(1)?))
}

fn number(call: &Call<'_, '_>, name: &str, default: f32) -> f64 {
    f64::from(call.node.float(name, default))
}

/// `Adagrad`: the rate by the root of the sum of squares of all gradients.
fn adagrad(call: &Call<'_, '_>) -> Outputs {
    let (rate, steps) = head(call)?;
    let (decay, epsilon, norm) =
        (number(call, "decay_factor", 0.0), number(call, "epsilon", 1e-6), number(call, "norm_coefficient", 0.0));
    let rate = rate / (1.0 + steps * decay);
    step(call, |x, gradient, [squares]| {
        let gradient = norm * x + gradient;
        let squares = squares + gradient * gradient;
        (x - rate * gradient / (squares.sqrt() + epsilon), [squares])
    })
}

/// `Adam`: means of the gradients and of their squares, both corrected for the first steps.
fn adam(call: &Call<'_, '_>) -> Outputs {
    let (rate, steps) = head(call)?;
    let (alpha, beta, epsilon) =
        (number(call, "alpha", 0.9), number(call, "beta", 0.999), number(call, "epsilon", 1e-6));
    let (norm, after) = (number(call, "norm_coefficient", 0.0), number(call, "norm_coefficient_post", 0.0));
    let rate = if steps > 0.0 { rate * (1.0 - beta.powf(steps)).sqrt() / (1.0 - alpha.powf(steps)) } else { rate };
    step(call, |x, gradient, [mean, squares]| {
        let gradient = norm * x + gradient;
        let mean = alpha * mean + (1.0 - alpha) * gradient;
        let squares = beta * squares + (1.0 - beta) * gradient * gradient;
        ((1.0 - after) * (x - rate * mean / (squares.sqrt() + epsilon)), [mean, squares])
    })
}

/// `Momentum`, plain or Nesterov's.
fn momentum(call: &Call<'_, '_>) -> Outputs {
    let (rate, steps) = head(call)?;
    let (alpha, beta, norm) =
        (number(call, "alpha", 0.0), number(call, "beta", 0.0), number(call, "norm_coefficient", 0.0));
    let beta = if steps > 0.0 { beta } else { 1.0 };
    let nesterov = match call.node.string("mode", "standard") {
        "standard" => false,
        "nesterov" => true,
        other => return Err(Error::new(format!("there is no mode '{other}'"))),
    };
    step(call, |x, gradient, [momentum]| {
        let gradient = norm * x + gradient;
        let momentum = alpha * momentum + beta * gradient;
        let way = if nesterov { gradient + alpha * momentum } else { momentum };
        (x - rate * way, [momentum])
    })
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Attribute;

    use crate::testing::{all, first, tensor, text};

    #[test]
    fn each_tensor_has_its_own_step() {
        let one = |value: f32| tensor(&[1], &[value]);
        let head = || (tensor(&[], &[0.5f32]), tensor(&[], &[0i64]));
        let attributes = |mode: &str| {
            let number = |name, value| (name, Attribute::Float(value));
            [number("alpha", 0.5), number("beta", 0.25), number("norm_coefficient", 0.0), ("mode", text(mode))]
        };
        let run = |mode: &str| {
            let (rate, steps) = head();
            let inputs = vec![rate, steps, one(1.0), one(2.0), one(4.0), one(8.0), one(2.0), one(0.0)];
            let found = all("ai.onnx.preview.training.Momentum", &attributes(mode), inputs).expect("runs");
            found.iter().map(|found| found.to_f64()[[0]]).collect::<Vec<_>>()
        };
        // Before the first step, beta does not count.
        assert_eq!(run("standard"), [1.0 - 0.5 * 5.0, 2.0 - 0.5 * 8.0, 5.0, 8.0]);
        assert_eq!(run("nesterov"), [1.0 - 0.5 * (4.0 + 2.5), 2.0 - 0.5 * (8.0 + 4.0), 5.0, 8.0]);
        let (rate, steps) = head();
        let adagrad = [("epsilon", Attribute::Float(0.0))];
        assert_eq!(
            first("ai.onnx.preview.training.Adagrad", &adagrad, vec![rate, steps, one(1.0), one(3.0), one(16.0)]).1,
            [f64::from(1.0f32 - 0.5 * 0.6)]
        );
        let (rate, steps) = head();
        let error =
            all("ai.onnx.preview.training.Adam", &[], vec![rate, steps, one(1.0), one(1.0), one(1.0)]).map(drop);
        let message = "ai.onnx.preview.training.Adam has 3 tensors, expected 4 for each";
        assert_eq!(error.expect_err("a state is missing").message, message);
    }
}
