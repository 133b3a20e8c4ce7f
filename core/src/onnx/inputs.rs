//! The types of a model's inputs, with the user's shapes and dimensions.

use std::collections::{BTreeMap, BTreeSet};

use byoc_plugin_api::{DType, Dim};

use super::ImportOptions;
use super::names::identifier;
use super::proto::{ValueInfoProto, tensor_shape_proto::dimension::Value as DimValue, type_proto};
use super::{list_type, tensor};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::Expr;
use crate::ir::{self, ElementShape, ListType, TensorType};

/// Most elements of an input: a byte each would fill what a program can address, 47 bits on usual processors.
const MOST_ELEMENTS: usize = 1 << 47;

/// The user's options, and which of them some entry could use.
pub(super) struct ShapeOptions<'a> {
    options: &'a ImportOptions,
    inputs: BTreeSet<String>,
    dims: BTreeSet<String>,
}

/// An input with its type.
pub(super) struct Input {
    pub(super) name: String,
    pub(super) ty: TensorType,
    /// What it holds, if it is a sequence or an optional.
    pub(super) list: Option<ListType>,
}

/// An input as the model declares it.
struct Declared {
    name: String,
    dtype: DType,
    /// `None` if the model does not declare the rank.
    shape: Option<Vec<Size>>,
    list: Option<ListType>,
}

/// A dimension as the model declares it.
enum Size {
    Fixed(usize),
    Named(String),
    Unknown,
}

/// The symbolic dimensions of one graph by name, each with its size where the user gives one. Any text can be a name.
#[derive(Default)]
struct Symbols(BTreeMap<String, Option<usize>>);

impl<'a> ShapeOptions<'a> {
    /// No option is used yet.
    pub(super) fn new(options: &'a ImportOptions) -> Self {
        ShapeOptions { options, inputs: BTreeSet::new(), dims: BTreeSet::new() }
    }

    /// The types of one graph's inputs, in their order.
    pub(super) fn types(&mut self, inputs: &[ValueInfoProto]) -> Result<Vec<Input>> {
        let mut declared = inputs.iter().map(declared).collect::<Result<Vec<_>>>()?;
        let mut symbols = Symbols::new(&declared);
        for input in &mut declared {
            symbols.name_unknown(input);
        }
        self.inputs.extend(declared.iter().map(|input| input.name.clone()));
        self.dims.extend(symbols.0.keys().cloned());
        for (name, size) in &self.options.dims {
            symbols.bind(name, *size)?;
        }
        for (name, shape) in &self.options.shapes {
            for input in declared.iter_mut().filter(|input| input.name == *name) {
                override_shape(input, shape, &mut symbols)?;
            }
        }
        declared.into_iter().map(|input| symbols.resolve(input)).collect()
    }

    /// Fails if an option fits no entry.
    pub(super) fn check_all_used(&self) -> Result<()> {
        let list = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        for (name, _) in &self.options.shapes {
            if !self.inputs.contains(name) {
                let error = option_error(format!("the model has no input '{name}'"));
                return Err(error.hint(format!("Its inputs are: {}", list(&self.inputs))));
            }
        }
        for (name, _) in &self.options.dims {
            if !self.dims.contains(name) {
                let error = option_error(format!("the model has no dimension '{name}'"));
                return Err(if self.dims.is_empty() {
                    error.hint("All dimensions of its inputs are fixed")
                } else {
                    error.hint(format!("Its dimensions are: {}", list(&self.dims)))
                });
            }
        }
        Ok(())
    }
}

impl Symbols {
    fn new(inputs: &[Declared]) -> Symbols {
        let dims = inputs.iter().filter_map(|input| input.shape.as_ref()).flatten();
        let name = |dim: &Size| {
            if let Size::Named(name) = dim { Some((name.clone(), None)) } else { None }
        };
        Symbols(dims.filter_map(name).collect())
    }

    /// Gives the dimensions of `input` that have no name one.
    fn name_unknown(&mut self, input: &mut Declared) {
        for (axis, dim) in input.shape.iter_mut().flatten().enumerate() {
            if let Size::Unknown = dim {
                let mut name = identifier(&format!("{}_d{axis}", input.name));
                while self.0.contains_key(&name) {
                    name.push('_');
                }
                self.0.insert(name.clone(), None);
                *dim = Size::Named(name);
            }
        }
    }

    /// Sets the size of a dimension; does nothing if there is no such dimension.
    fn bind(&mut self, name: &str, size: usize) -> Result<()> {
        let Some(known) = self.0.get_mut(name) else {
            return Ok(());
        };
        match known.replace(size) {
            Some(other) if other != size => {
                Err(option_error(format!("dimension '{name}' is set to {other} and to {size}")))
            }
            _ => Ok(()),
        }
    }

    fn resolve(&self, input: Declared) -> Result<Input> {
        let Declared { name, dtype, shape, list } = input;
        let Some(shape) = shape else {
            let error = Diagnostic::new(Code::ShapeUnknown, format!("input '{name}' has no shape in the model"));
            return Err(error.hint(format!("Give it one, as in: --shape {name}:1x3x224x224")));
        };
        let mut product = 1;
        let mut dims = Vec::with_capacity(shape.len());
        for dim in shape {
            let dim = match dim {
                Size::Fixed(size) => Dim::Fixed(size),
                Size::Named(symbol) => match self.0.get(&symbol) {
                    Some(Some(size)) => Dim::Fixed(*size),
                    _ => Expr::symbol(&symbol).to_dim()?,
                },
                // Each has a name by now.
                Size::Unknown => Expr::symbol(&name).to_dim()?,
            };
            product = tensor::checked_size(product, dim.fixed().unwrap_or(1))
                .filter(|&product| product <= MOST_ELEMENTS)
                .ok_or_else(|| Diagnostic::new(Code::BadGraph, format!("input '{name}': its shape is too large")))?;
            dims.push(dim);
        }
        Ok(Input { name, ty: TensorType { dtype, shape: dims }, list })
    }
}

/// Puts the user's shape in place of the declared one. A named dimension gets its size everywhere.
fn override_shape(input: &mut Declared, shape: &[usize], symbols: &mut Symbols) -> Result<()> {
    let name = &input.name;
    if let Some(list) = &mut input.list {
        return override_elements(name, list, shape);
    }
    let Some(declared) = &input.shape else {
        input.shape = Some(shape.iter().map(|&size| Size::Fixed(size)).collect());
        return Ok(());
    };
    if declared.len() != shape.len() {
        let (has, given) = (declared.len(), shape.len());
        let error =
            option_error(format!("input '{name}' has {has} dimensions in the model, and {given} in the given shape"));
        return Err(error.hint("`byoc inspect MODEL` shows the shapes of its inputs"));
    }
    for (axis, (dim, &given)) in declared.iter().zip(shape).enumerate() {
        match dim {
            Size::Fixed(size) if *size != given => {
                let cause = format!("dimension {axis} is {size} in the model, {given} is given");
                let hint = "A size that the model fixes stays as it is; export the model with a name in its place";
                return Err(option_error(format!("input '{name}': {cause}")).hint(hint));
            }
            Size::Named(text) => symbols.bind(text, given)?,
            Size::Fixed(_) | Size::Unknown => {}
        }
    }
    Ok(())
}

/// The user's shape is that of every tensor in a list.
fn override_elements(name: &str, list: &mut ListType, shape: &[usize]) -> Result<()> {
    let given = ElementShape::Sizes(shape.iter().map(|&size| Some(Dim::Fixed(size))).collect());
    let fits = match &list.shape {
        ElementShape::Sizes(declared) => {
            let allows = |(declared, given): (&Option<Dim>, &usize)| {
                declared.as_ref().and_then(Dim::fixed).is_none_or(|size| size == *given)
            };
            declared.len() == shape.len() && declared.iter().zip(shape).all(allows)
        }
        ElementShape::Never | ElementShape::Any => true,
    };
    if !fits {
        let given: Vec<_> = shape.iter().map(usize::to_string).collect();
        let message = format!("input '{name}' is {list} in the model, [{}] is given", given.join(","));
        return Err(option_error(message).hint("`byoc inspect MODEL` shows the shapes of its inputs"));
    }
    list.shape = given;
    Ok(())
}

fn declared(info: &ValueInfoProto) -> Result<Declared> {
    let name = info.name.clone().unwrap_or_default();
    let what = format!("input '{name}'");
    if let Some(list) = list_type::read(&what, info.r#type.as_ref())? {
        let TensorType { dtype, .. } = ListType::handle();
        return Ok(Declared { name, dtype, shape: Some(Vec::new()), list: Some(list) });
    }
    let value = info.r#type.as_ref().and_then(|ty| ty.value.as_ref());
    let Some(type_proto::Value::TensorType(tensor)) = value else {
        return Err(Diagnostic::new(Code::BadGraph, format!("{what} has no type in the model")));
    };
    let dtype = tensor::dtype(&what, tensor.elem_type.unwrap_or(0))?;
    let size = |(axis, dim): (usize, &Option<DimValue>)| match dim {
        // So some exporters write a size that is not known.
        Some(DimValue::DimValue(-1)) => Ok(Size::Unknown),
        Some(DimValue::DimValue(size)) => usize::try_from(*size)
            .map(Size::Fixed)
            .map_err(|_| Diagnostic::new(Code::BadGraph, format!("{what}: dimension {axis} is {size}"))),
        // And so others write each of them: it is not one name for all.
        Some(DimValue::DimParam(text)) if !text.is_empty() && text != "?" => Ok(Size::Named(text.clone())),
        _ => Ok(Size::Unknown),
    };
    let shape = match &tensor.shape {
        None => None,
        Some(shape) => {
            let dims: Vec<_> = shape.dim.iter().map(|dim| dim.value.clone()).collect();
            Some(dims.iter().enumerate().map(size).collect::<Result<Vec<_>>>()?)
        }
    };
    Ok(Declared { name, dtype, shape, list: None })
}

/// The declared type of an output. A wrong one is not an error: the computed type is used.
pub(super) fn declared_output(info: &ValueInfoProto) -> ir::Declared {
    let Some(type_proto::Value::TensorType(tensor)) = info.r#type.as_ref().and_then(|ty| ty.value.as_ref()) else {
        return ir::Declared::default();
    };
    let size = |dim: &Option<DimValue>| match dim {
        Some(DimValue::DimValue(size)) => usize::try_from(*size).ok(),
        Some(DimValue::DimParam(_)) | None => None,
    };
    ir::Declared {
        dtype: tensor::dtype("", tensor.elem_type.unwrap_or(0)).ok(),
        shape: tensor.shape.as_ref().map(|shape| shape.dim.iter().map(|dim| size(&dim.value)).collect()),
    }
}

fn option_error(message: String) -> Diagnostic {
    Diagnostic::new(Code::ShapeOption, message)
}
