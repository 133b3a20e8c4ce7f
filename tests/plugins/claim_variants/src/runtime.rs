//! Code and constants to an executable: plain loops over f32; f16 is rounded to wherever it is stored.

use byoc_plugin_api::{BoundConstants, DType, Environment, Error, Executable, HostRuntime, TensorView, TensorViewMut};
use half::f16;

use crate::Variant;
use crate::constants::{panel_order, panel_width, restore};
use crate::program::{Placement, Program, Role, Variable};

/// The elements of a variable.
enum Memory<'a> {
    Borrowed(&'a [f32]),
    Own(Vec<f32>),
}

struct Loaded<'a> {
    program: Program,
    /// Parallel to the program's variables.
    memory: Vec<Memory<'a>>,
}

/// An operand of a kernel: elements and shape.
type Operand<'a> = (&'a [f32], &'a [usize]);

impl HostRuntime for Variant {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        environment: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        let options = &environment.options;
        let (program, mut data) = Program::split(code)?;
        let mut memory = Vec::with_capacity(program.variables.len());
        for variable in &program.variables {
            let Role::Constant(id, placement) = variable.role else {
                memory.push(Memory::Own(vec![0.0; variable.len()]));
                continue;
            };
            memory.push(match placement {
                Placement::Host => host(constants.host(id)?)?,
                Placement::Packed => {
                    let expected = [options.text("expect"), options.text("layout")];
                    let layout = expected.into_iter().find(|layout| !layout.is_empty()).unwrap_or_default();
                    Memory::Own(unpack(&constants.packed(id, layout)?, variable, layout)?)
                }
                Placement::Embedded | Placement::Quantised => Memory::Own(embedded(&mut data, variable, placement)?),
            });
        }
        Ok(Box::new(Loaded { program, memory }))
    }
}

fn host(view: TensorView<'_>) -> Result<Memory<'_>, Error> {
    match view.as_slice::<f32>() {
        Some(slice) => Ok(Memory::Borrowed(slice)),
        None => Ok(Memory::Own(floats(&view)?)),
    }
}

/// The elements of a view as f32.
fn floats(view: &TensorView<'_>) -> Result<Vec<f32>, Error> {
    match view.dtype() {
        DType::F16 => Ok(view.to_vec::<f16>()?.into_iter().map(f32::from).collect()),
        _ => view.to_vec(),
    }
}

fn unpack(view: &TensorView<'_>, variable: &Variable, layout: &str) -> Result<Vec<f32>, Error> {
    let (&[rows, columns], Some(width)) = (variable.shape.as_slice(), panel_width(layout)) else {
        return Err(Error::new(format!("no matrix is packed as '{layout}'")));
    };
    let mut values = vec![0.0; variable.len()];
    for (place, value) in panel_order(rows, columns, width).zip(view.to_vec::<f32>()?) {
        values[place] = value;
    }
    Ok(values)
}

/// Takes the next constant from the code's data.
fn embedded(data: &mut &[u8], variable: &Variable, placement: Placement) -> Result<Vec<f32>, Error> {
    let len = variable.len();
    let (values, taken) = match placement {
        Placement::Quantised => (restore(data, len), len + 4),
        _ => {
            let bytes = data.get(..len * 4).map(|bytes| bytes.as_chunks::<4>().0);
            (bytes.map(|bytes| bytes.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()), len * 4)
        }
    };
    *data = data.get(taken..).unwrap_or_default();
    values.ok_or_else(|| Error::new("damaged code: a constant is cut short"))
}

impl Memory<'_> {
    fn values(&self) -> &[f32] {
        match self {
            Memory::Borrowed(values) => values,
            Memory::Own(values) => values,
        }
    }
}

impl Executable for Loaded<'_> {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let Loaded { program, memory } = self;
        for (variable, memory) in program.variables.iter().zip(memory.iter_mut()) {
            if let Role::Input(index) = variable.role {
                let input = inputs.get(index).ok_or_else(|| Error::new(format!("input {index} is missing")))?;
                *memory = Memory::Own(floats(input)?);
            }
        }
        for call in &program.calls {
            let mut result = vec![0.0; program.variables[call.result].len()];
            let operand = |&index: &usize| (memory[index].values(), program.variables[index].shape.as_slice());
            let operands: Vec<Operand<'_>> = call.operands.iter().map(operand).collect();
            let variable = &program.variables[call.result];
            kernel(&call.kernel, &mut result, &variable.shape, &operands)?;
            if variable.dtype == DType::F16 {
                result.iter_mut().for_each(|value| *value = f16::from_f32(*value).into());
            }
            memory[call.result] = Memory::Own(result);
        }
        for (variable, memory) in program.variables.iter().zip(memory.iter()) {
            if let Role::Output(index) = variable.role {
                let output = outputs.get_mut(index).and_then(TensorViewMut::as_mut_bytes);
                let output = output.ok_or_else(|| Error::new(format!("output {index} cannot be written")))?;
                let size = variable.dtype.unpacked_bytes();
                for (bytes, &value) in output.chunks_exact_mut(size).zip(memory.values()) {
                    match variable.dtype {
                        DType::F16 => bytes.copy_from_slice(&f16::from_f32(value).to_le_bytes()),
                        _ => bytes.copy_from_slice(&value.to_le_bytes()),
                    }
                }
            }
        }
        Ok(())
    }
}

fn kernel(name: &str, result: &mut [f32], shape: &[usize], operands: &[Operand<'_>]) -> Result<(), Error> {
    match (name, operands) {
        ("MatMul", &[x, w]) => matmul(result, x.0, w),
        ("Add", &[x, y]) => elementwise(result, shape, x, y, |x, y| x + y),
        ("Mul", &[x, y]) => elementwise(result, shape, x, y, |x, y| x * y),
        ("Div", &[x, y]) => elementwise(result, shape, x, y, |x, y| x / y),
        ("Erf", &[x]) => elementwise(result, shape, x, x, |x, _| erf(x)),
        ("Copy", &[x]) => elementwise(result, shape, x, x, |x, _| x),
        _ => return Err(Error::new(format!("damaged code: {name} of {} operands", operands.len()))),
    }
    Ok(())
}

fn matmul(result: &mut [f32], x: &[f32], (w, shape): Operand<'_>) {
    let (&[depth, columns], false) = (shape, result.is_empty()) else { return };
    for (result, x) in result.chunks_exact_mut(columns).zip(x.chunks_exact(depth.max(1))) {
        for (x, w) in x.iter().zip(w.chunks_exact(columns)) {
            result.iter_mut().zip(w).for_each(|(result, w)| *result += x * w);
        }
    }
}

/// Combines two operands that are broadcast to `shape`.
fn elementwise(result: &mut [f32], shape: &[usize], x: Operand<'_>, y: Operand<'_>, combine: fn(f32, f32) -> f32) {
    for (place, result) in result.iter_mut().enumerate() {
        *result = combine(x.0[broadcast(place, shape, x.1)], y.0[broadcast(place, shape, y.1)]);
    }
}

/// The row-major place in an operand of shape `operand` that stands for `place` in a result of shape `shape`.
fn broadcast(mut place: usize, shape: &[usize], operand: &[usize]) -> usize {
    let (mut found, mut stride) = (0, 1);
    for (axis, &size) in shape.iter().enumerate().rev() {
        let own = (axis + operand.len()).checked_sub(shape.len()).map_or(1, |axis| operand[axis]);
        found += if own == 1 { 0 } else { place % size * stride };
        stride *= own;
        place /= size;
    }
    found
}

/// The error function, by formula 7.1.26 of Abramowitz and Stegun, "Handbook of Mathematical Functions".
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let series = [1.061_405_4, -1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6];
    let sum = series.into_iter().fold(0.0, |sum, factor| (sum + factor) * t);
    (1.0 - sum * (-x * x).exp()).copysign(x)
}
