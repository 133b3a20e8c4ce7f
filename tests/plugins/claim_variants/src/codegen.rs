//! Region to code: the source, and the data of constants that live in it.

use std::io::Write;

use byoc_plugin_api::{Constant, Error, Generated, Job, Options, Region};

use crate::Variant;
use crate::constants::quantise;
use crate::program::{Call, Placement, Program, Role, Variable};

pub(crate) fn codegen(variant: &Variant, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
    let Job { region, constants, options, .. } = *job;
    let program = program(variant, region, options)?;
    let mut data = Vec::new();
    for variable in &program.variables {
        let Role::Constant(id, placement @ (Placement::Embedded | Placement::Quantised)) = variable.role else {
            continue;
        };
        let view = constants.get(id).ok_or_else(|| Error::new(format!("constant {id} was not given")))?;
        let values = view.to_vec::<f32>()?;
        match placement {
            Placement::Quantised => data.extend(quantise(&values)),
            _ => data.extend(values.iter().flat_map(|value| value.to_le_bytes())),
        }
    }
    code.write_all(&program.join(&data))?;
    Ok(Generated::default())
}

fn program(variant: &Variant, region: &Region, options: &Options) -> Result<Program, Error> {
    let mut program = Program { symbol: region.symbol.clone(), variables: Vec::new(), calls: Vec::new() };
    let mut indices = vec![None; region.values.len()];
    for node in &region.nodes {
        let inputs: Vec<_> = node.inputs.iter().flatten().copied().collect();
        let (kernel, inputs) = match (node.op.as_str(), inputs.as_slice()) {
            ("Where", [_, chosen, _]) => ("Copy", vec![*chosen]),
            ("Gemm", _) => ("MatMul", inputs),
            (op, _) => (op, inputs),
        };
        let mut index = |value: usize| -> Result<usize, Error> {
            if indices[value].is_none() {
                indices[value] = Some(program.variables.len());
                program.variables.push(variable(variant, region, value, options)?);
            }
            indices[value].ok_or_else(|| Error::new("a value has no variable"))
        };
        let operands = inputs.into_iter().map(&mut index).collect::<Result<_, _>>()?;
        let result = node.output(0).ok_or_else(|| Error::new("nobody wants the result").at(&node.name))?;
        program.calls.push(Call { kernel: kernel.to_owned(), result: index(result)?, operands });
    }
    Ok(program)
}

fn variable(variant: &Variant, region: &Region, value: usize, options: &Options) -> Result<Variable, Error> {
    let place = |list: &[usize]| list.iter().position(|&known| known == value);
    let role = match (region.constant(value), place(&region.inputs), place(&region.outputs)) {
        (Some(constant), ..) => Role::Constant(constant.id, placement(variant, constant, options)),
        (_, Some(input), _) => Role::Input(input),
        (.., Some(output)) => Role::Output(output),
        _ => Role::Local(value),
    };
    let value = &region.values[value];
    let shape = value.fixed_shape().ok_or_else(|| Error::new(format!("'{}' has no fixed size", value.name)))?;
    Ok(Variable { role, dtype: value.dtype, shape })
}

/// Where a constant that the code reads is to be.
fn placement(variant: &Variant, constant: &Constant, options: &Options) -> Placement {
    match variant.placement {
        Placement::Embedded if options.text("precision") == "i8" => Placement::Quantised,
        Placement::Packed if constant.shared && options.bool("honour") => Placement::Host,
        placement => placement,
    }
}
