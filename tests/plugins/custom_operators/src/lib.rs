//! A backend with operators of its own. `com.acme.Swirl` multiplies each row by a constant and puts a table behind it, so
//! that its shape follows from an attribute: the backend tells it. `com.acme.Twist` multiplies by its attribute
//! `by`; what its output is, is declared. `com.acme.Pick` gives the elements above 0: how many, only the run tells.

use std::io::Write;

use byoc_plugin_api::{
    Attribute, AttributeKind, Backend, BoundConstants, Claims, ConstantAccess, ConstantId, CustomAttribute, DType,
    Description, Dim, Environment, Error, Executable, Generated, HostRuntime, Job, Node, Operator, OptionSpec, Options,
    OutputRule, OutputType, Pattern, Refusal, RefusalCode, Region, Runtime, SizedOutputs, TensorView, TensorViewMut,
    from_hex,
};
use serde::{Deserialize, Serialize};

struct Acme;

/// The code of a region.
#[derive(Serialize, Deserialize)]
enum Code {
    Swirl {
        scales: ConstantId,
        table: Vec<f32>,
    },
    Twist {
        by: f32,
    },
    /// What it does wrong, if anything.
    Pick {
        fault: String,
    },
    /// A Twist of what a `DequantizeLinear` makes.
    Dequantized {
        by: f32,
        scale: ConstantId,
        zero: Option<ConstantId>,
    },
}

/// The numbers in the attribute `table`.
fn table(node: &Node) -> Result<Vec<f32>, Error> {
    match node.attributes.get("table") {
        Some(Attribute::Tensor { dtype: DType::F32, shape, hex }) if shape.len() == 1 => {
            let bytes = from_hex(hex).unwrap_or_default();
            Ok(bytes.as_chunks().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect())
        }
        _ => Err(Error::new("the table is a list of f32")),
    }
}

impl Backend for Acme {
    fn describe(&self) -> Description {
        Description {
            name: "acme".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            code_version: 1,
            summary: "Operators of its own".into(),
            constant_access: ConstantAccess::Load,
            options: vec![
                OptionSpec::text("infer", "", "What the types of outputs are said to be"),
                OptionSpec::text("codegen", "", "abort: the process ends while it generates code"),
                OptionSpec::text("pick", "", "What Pick does wrong: rank, size, huge, none, other or twice"),
            ],
            operators: vec![
                Operator {
                    domain: "com.acme".into(),
                    name: "Swirl".into(),
                    until: Some(2),
                    inputs: 2,
                    attributes: vec![CustomAttribute::required("table", AttributeKind::Tensor)],
                    ..Operator::default()
                },
                Operator {
                    domain: "com.acme".into(),
                    name: "Twist".into(),
                    attributes: vec![CustomAttribute::with_default("by", Attribute::Float(2.0))],
                    outputs: vec![OutputRule::like(0)],
                    ..Operator::default()
                },
                Operator { domain: "com.acme".into(), name: "Pick".into(), ..Operator::default() },
            ],
            run_time_sizes: true,
            ..Description::default()
        }
    }

    fn patterns(&self, _: &Options) -> Result<Vec<Pattern>, Error> {
        let swirl = Pattern::new("swirl", "(com.acme::Swirl ?x ?scales:const)");
        let quantised = Pattern::new("twist_of_quantised", "(com.acme::Twist ?x:q8)");
        let twist = Pattern::new("twist", "(com.acme::Twist ?x)");
        Ok(vec![swirl, quantised, twist, Pattern::new("pick", "(com.acme::Pick ?x)")])
    }

    fn infer(&self, candidate: &Region, options: &Options) -> Result<Vec<OutputType>, Error> {
        match options.text("infer") {
            "" => {}
            "panic" => panic!("no types today"),
            "abort" => std::process::abort(),
            "none" => return Ok(Vec::new()),
            size => return Ok(vec![OutputType { dtype: DType::F32, shape: vec![Dim::Symbolic(size.into())] }]),
        }
        let node = &candidate.nodes[0];
        let input = |index| node.input(index).map(|value| &candidate.values[value]);
        if node.op == "Pick" {
            return Ok(vec![OutputType { dtype: DType::F32, shape: vec![Dim::Symbolic("?picked".into())] }]);
        }
        let (Some(x), Some(scales)) = (input(0), input(1)) else { return Err(Error::new("it has two inputs")) };
        let Some((columns, rows)) = x.shape.split_last() else { return Err(Error::new("input 0 has no rows")) };
        if scales.shape != [columns.clone()] {
            return Err(Error::new("input 1 has another size than a row of input 0")
                .hint("Export the operator with one scale for each element of a row"));
        }
        let more = table(node)?.len();
        let width = match columns {
            Dim::Fixed(size) => Dim::Fixed(size + more),
            Dim::Symbolic(text) => Dim::Symbolic(format!("({text}) + {more}")),
        };
        Ok(vec![OutputType { dtype: x.dtype, shape: [rows, &[width]].concat() }])
    }

    fn check(&self, candidate: &Region, _: &Options) -> Result<(), Refusal> {
        if candidate.inputs.is_empty() {
            return Err(Refusal::new(RefusalCode::ConstantNeeded, "input 0 is a constant"));
        }
        if let Some(quantized) = candidate.quantized.first() {
            return match quantized.axis {
                None => Ok(()),
                Some(axis) => {
                    Err(Refusal::new(RefusalCode::Shape, format!("there are several scales along dimension {axis}")))
                }
            };
        }
        match candidate.values.iter().find(|value| value.dtype != DType::F32) {
            Some(value) => Err(Refusal::new(RefusalCode::Type, format!("'{}' is {}", value.name, value.dtype))),
            None => Ok(()),
        }
    }

    fn codegen(&self, job: &Job<'_>, code: &mut dyn Write) -> Result<Generated, Error> {
        if job.options.text("codegen") == "abort" {
            std::process::abort();
        }
        let region = job.region;
        let node = region.nodes.last().ok_or_else(|| Error::new("a region has nodes"))?;
        let by = node.float("by", f32::NAN);
        let id = |value| region.constant(value).map(|constant| constant.id);
        let scales = region.quantized.first().and_then(|it| Some((id(it.scale)?, it.zero_point.and_then(id))));
        let made = match (node.op.as_str(), scales) {
            ("Pick", _) => Code::Pick { fault: job.options.text("pick").into() },
            ("Swirl", _) => Code::Swirl { scales: region.constants[0].id, table: table(node)? },
            (_, Some((scale, zero))) => Code::Dequantized { by, scale, zero },
            (_, None) => Code::Twist { by },
        };
        code.write_all(&serde_json::to_vec(&made)?)?;
        Ok(Generated::default())
    }

    fn constant_updater(&self, job: &Job<'_>, _: &[u8], _: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
        job.region.constants.iter().try_for_each(|constant| claims.host(constant.id))
    }

    fn runtime(&self) -> Runtime<'_> {
        Runtime::Host(self)
    }
}

impl HostRuntime for Acme {
    fn load<'a>(
        &self,
        code: &'a [u8],
        constants: &BoundConstants<'a>,
        _: &Environment,
    ) -> Result<Box<dyn Executable + 'a>, Error> {
        Ok(match serde_json::from_slice(code)? {
            Code::Swirl { scales, table } => {
                Box::new(Swirl { scales: constants.host(scales)?.to_vec::<f32>()?, table })
            }
            Code::Twist { by } => Box::new(Twist { by }),
            Code::Pick { fault } => Box::new(Pick { fault }),
            Code::Dequantized { by, scale, zero } => {
                let scale = constants.host(scale)?.to_vec::<f32>()?[0];
                let zero = zero
                    .map(|zero| Ok::<_, Error>(constants.host(zero)?.as_bytes().ok_or_else(contiguous)?[0]))
                    .transpose()?;
                Box::new(Dequantized { by: by * scale, zero: zero.unwrap_or(0) })
            }
        })
    }
}

/// The one input and output of a region.
fn ports<'a>(
    inputs: &'a [TensorView<'_>],
    outputs: &'a mut [TensorViewMut<'_>],
) -> Result<(&'a [f32], &'a mut [f32]), Error> {
    let ([x], [y]) = (inputs, outputs) else { return Err(Error::new("one input and one output are expected")) };
    match (x.as_slice(), y.as_mut_slice()) {
        (Some(x), Some(y)) => Ok((x, y)),
        _ => Err(Error::new("expected tensors of f32")),
    }
}

struct Swirl {
    scales: Vec<f32>,
    table: Vec<f32>,
}

impl Executable for Swirl {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let (x, y) = ports(inputs, outputs)?;
        let (columns, width) = (self.scales.len(), self.scales.len() + self.table.len());
        for (x, y) in x.chunks_exact(columns.max(1)).zip(y.chunks_exact_mut(width.max(1))) {
            y[columns..].copy_from_slice(&self.table);
            for ((y, x), scale) in y.iter_mut().zip(x).zip(&self.scales) {
                *y = x * scale;
            }
        }
        Ok(())
    }
}

struct Twist {
    by: f32,
}

impl Executable for Twist {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let (x, y) = ports(inputs, outputs)?;
        y.iter_mut().zip(x).for_each(|(y, x)| *y = x * self.by);
        Ok(())
    }
}

struct Pick {
    fault: String,
}

impl Executable for Pick {
    fn run(&mut self, _: &[TensorView<'_>], _: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        Err(Error::new("the size of the output is told by the run"))
    }

    fn run_sized(&mut self, inputs: &[TensorView<'_>], outputs: &mut dyn SizedOutputs) -> Result<(), Error> {
        let x = inputs.first().and_then(TensorView::as_slice::<f32>).ok_or_else(contiguous)?;
        let picked: Vec<f32> = x.iter().copied().filter(|x| *x > 0.0).collect();
        let count = picked.len() as i64;
        let shape = match self.fault.as_str() {
            "rank" => vec![count, 1],
            "size" => vec![-1],
            "huge" => vec![i64::MAX],
            _ => vec![count],
        };
        match self.fault.as_str() {
            "none" => return Ok(()),
            "other" => outputs.allocate(1, &shape).map(|_| ())?,
            "twice" => outputs.allocate(0, &shape).map(|_| ())?,
            _ => {}
        }
        let mut y = outputs.allocate(0, &shape)?;
        y.as_mut_slice::<f32>().ok_or_else(contiguous)?.copy_from_slice(&picked);
        Ok(())
    }
}

fn contiguous() -> Error {
    Error::new("expected a tensor that is contiguous")
}

struct Dequantized {
    by: f32,
    zero: u8,
}

impl Executable for Dequantized {
    fn run(&mut self, inputs: &[TensorView<'_>], outputs: &mut [TensorViewMut<'_>]) -> Result<(), Error> {
        let ([x], [y]) = (inputs, outputs) else { return Err(Error::new("one input and one output are expected")) };
        let wide = |byte: u8| if x.dtype() == DType::I8 { i32::from(byte as i8) } else { i32::from(byte) };
        let y = y.as_mut_slice::<f32>().ok_or_else(|| Error::new("expected an output of f32"))?;
        for (y, &x) in y.iter_mut().zip(x.as_bytes().ok_or_else(contiguous)?) {
            *y = (wide(x) - wide(self.zero)) as f32 * self.by;
        }
        Ok(())
    }
}

byoc_plugin_api::register_backend!(Acme);
byoc_plugin_api::export_plugin!();
