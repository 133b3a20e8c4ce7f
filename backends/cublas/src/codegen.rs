//! Generates the code of a region: the fused GEMM as JSON, whose operands are indices of inputs or ids of constants. It has
//! no weights; unknown sizes are symbolic.

use std::io::Write;

use byoc_nvidia::claims::Learnt;
use byoc_nvidia::product::Product;
use byoc_plugin_api::{ConstantId, DType, Error, Generated, Job, Region};
use serde::{Deserialize, Serialize};

use crate::patterns;

/// The option for the precision of f32 products.
pub(crate) const MATH: &str = "math";

/// The code of a region.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Program {
    /// The precision of f32. Other types have one precision only.
    pub(crate) math: Math,
    pub(crate) product: Product<Source>,
}

/// The source of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// The input of that index.
    Input(usize),
    /// A constant.
    Constant(ConstantId),
}

/// The precision to which f32 is rounded before it is multiplied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Math {
    /// Nothing.
    F32,
    /// TF32: 10 bits of mantissa instead of 23.
    Tf32,
}

impl Program {
    /// Reads a program, which is untrusted.
    ///
    /// # Errors
    ///
    /// When it is not a program, and when cublasLt does not multiply its element type: a call would access memory out of
    /// bounds.
    pub(crate) fn read(code: &[u8]) -> Result<Program, Error> {
        let damaged = |cause: String| Error::new(format!("damaged code: {cause}"));
        let program: Program = serde_json::from_slice(code).map_err(|cause| damaged(cause.to_string()))?;
        match program.product.dtype {
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Ok(program),
            dtype => Err(damaged(format!("cublasLt does not multiply {dtype}"))),
        }
    }
}

pub(crate) fn codegen(job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
    let Job { region, options, .. } = *job;
    let matched = patterns::read(region, options).map_err(|refusal| Error::new(refusal.to_string()))?;
    let added = [matched.product.c.as_ref().map(|c| c.from), matched.product.bias];
    let factors = [matched.product.x.from, matched.product.w.from];
    let operands: Vec<_> = factors.into_iter().chain(added.into_iter().flatten()).collect();
    let learnt = Learnt::of(region, &operands, &matched.numbers);
    let product = matched.product.with(|&value| source(region, value))?;
    let math = if options.text(MATH) == "tf32" { Math::Tf32 } else { Math::F32 };
    serde_json::to_writer_pretty(&mut *code, &Program { math, product })?;
    code.write_all(b"\n")?;
    Generated::learnt(&learnt)
}

fn source(region: &Region, value: usize) -> Result<Source, Error> {
    if let Some(constant) = region.constant(value) {
        return Ok(Source::Constant(constant.id));
    }
    let position = region.inputs.iter().position(|&input| input == value);
    position.map(Source::Input).ok_or_else(|| Error::new(format!("value {value} is neither an input nor a constant")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(dtype: &str) -> Result<Program, Error> {
        let factor = r#"{"from": {"input": 0}, "shape": [2, 2], "read": "matrix"}"#;
        let product = format!(
            r#"{{"node": "n", "dtype": "{dtype}", "x": {factor}, "w": {factor}, "alpha": 1.0, "c": null, "bias": null,
                "activation": "none", "y": [2, 2]}}"#
        );
        Program::read(format!(r#"{{"math": "f32", "product": {product}}}"#).as_bytes())
    }

    #[test]
    fn only_what_is_multiplied() {
        for dtype in ["f16", "bf16", "f32", "f64"] {
            read(dtype).expect("a program");
        }
        for dtype in ["u8", "i64", "bool"] {
            let said = read(dtype).expect_err("no program").message;
            assert_eq!(said, format!("damaged code: cublasLt does not multiply {dtype}"));
        }
        assert!(Program::read(b"{").expect_err("cut").message.starts_with("damaged code: EOF while"));
    }
}
