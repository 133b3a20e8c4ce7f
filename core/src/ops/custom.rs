//! Types of a custom operator's outputs: by the rules that its backend declares, or by asking the backend.

use std::collections::BTreeMap;

use byoc_plugin_api::{
    Attribute, AttributeKind, Constant, ConstantId, DTypeRule, Dim, INLINE_BYTES, Node, OutputRule, OutputType, Region,
    SCHEMA, ShapeRule, Value, closest, to_hex,
};

use super::infer::{Infer, bad};
use super::run_time::{PartialType, Size};
use super::{cast, elements};
use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim::Expr;
use crate::ir::{CustomOperator, TensorType, ValueId};

/// Most outputs of a node, and most dimensions of one.
const MOST: usize = 4096;

impl Infer<'_> {
    /// Gives each output its type. What is known of the elements of inputs is handed to the backend; those of outputs are not
    /// known.
    pub(crate) fn apply_custom(&mut self, custom: &CustomOperator) -> Result<()> {
        check_counts(custom, self.inputs.iter().map(Option::is_some), self.outputs.len())?;
        let mut open = Open::default();
        let types = if custom.operator.outputs.is_empty() {
            asked(custom, self, &mut open)?.into_iter().map(Some).collect()
        } else {
            // What nobody reads needs no type, so a rule that does not fit does not matter there.
            let wanted = self.node.outputs.iter().zip(&custom.operator.outputs);
            let ty = |(output, rule): (&Option<ValueId>, &OutputRule)| {
                output.map(|_| self.by_rule(custom, rule, &mut open)).transpose()
            };
            wanted.map(ty).collect::<Result<Vec<_>>>()?
        };
        let closed = |ty: Option<PartialType>| ty.map(|ty| self.closed(ty));
        self.outputs = types.into_iter().map(closed).collect();
        Ok(())
    }

    fn by_rule(&self, custom: &CustomOperator, rule: &OutputRule, open: &mut Open) -> Result<PartialType> {
        let later = |what: &str| {
            let cause =
                format!("the rule of backend '{}' for its {what} is of a later version of byoc", custom.backend);
            Err(Diagnostic::new(Code::UnknownOperator, cause).hint("Update byoc"))
        };
        let dtype = match &rule.dtype {
            DTypeRule::Input(index) => self.input(*index)?.dtype,
            DTypeRule::Fixed(dtype) => *dtype,
            DTypeRule::Attribute(name) => {
                let code = self.optional_int(name)?.ok_or_else(|| bad(format!("attribute '{name}' is missing")))?;
                let unknown =
                    || bad(format!("attribute '{name}' is {code}, which is not an element type that byoc has"));
                cast::from_onnx(code).ok_or_else(unknown)?
            }
            DTypeRule::Later(_) => return later("element type"),
        };
        let shape = match &rule.shape {
            ShapeRule::Input(index) => self.input(*index)?.shape,
            ShapeRule::Broadcast => self.broadcast(0)?,
            ShapeRule::Fixed(sizes) => sizes.iter().map(|&size| Dim::Fixed(size)).collect(),
            ShapeRule::Attribute(name) => {
                let sizes = self.ints(name)?.ok_or_else(|| bad(format!("attribute '{name}' is missing")))?;
                let size = |&size: &i64| {
                    let size =
                        usize::try_from(size).map_err(|_| bad(format!("attribute '{name}' has the size {size}")));
                    size.map(Dim::Fixed)
                };
                sizes.iter().map(size).collect::<Result<_>>()?
            }
            // The handshake has seen that the rank is small.
            ShapeRule::RunTime(rank) => {
                return Ok(PartialType { dtype, shape: (0..*rank).map(|_| open.next()).collect() });
            }
            ShapeRule::Later(_) => return later("shape"),
        };
        Ok(PartialType { dtype, shape: shape.into_iter().map(Size::Known).collect() })
    }
}

/// Numbers for the sizes of a node that only the run tells.
#[derive(Default)]
struct Open {
    /// Of each what the backend calls it; empty where nothing.
    names: Vec<String>,
}

impl Open {
    fn next(&mut self) -> Size {
        self.names.push(String::new());
        Size::Open(self.names.len() - 1)
    }

    /// That of a text which begins with `?`.
    fn named(&mut self, name: &str) -> Size {
        let number = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        Size::Open(number)
    }
}

/// Fails where a node has other numbers of inputs or outputs than its operator; `present` says of each input whether it is
/// there.
pub(crate) fn check_counts(
    custom: &CustomOperator,
    present: impl ExactSizeIterator<Item = bool>,
    outputs: usize,
) -> Result<()> {
    let (least, most) = (custom.operator.inputs, custom.operator.most_inputs());
    let count = present.len();
    if most.is_some_and(|most| count > most) || count < least {
        let range = match most {
            None => format!("at least {least}"),
            Some(most) if most == least => format!("{least}"),
            Some(most) => format!("{least} to {most}"),
        };
        return Err(bad(format!("has {count} inputs, expected {range}")));
    }
    if let Some(absent) = present.take(least).position(|present| !present) {
        return Err(bad(format!("input {absent} is absent, but the operator needs it")));
    }
    let most = if custom.operator.outputs.is_empty() { MOST } else { custom.operator.outputs.len() };
    if outputs > most {
        return Err(bad(format!("has {outputs} outputs, expected at most {most}")));
    }
    Ok(())
}

/// The types that the backend tells.
fn asked(custom: &CustomOperator, infer: &Infer<'_>, open: &mut Open) -> Result<Vec<PartialType>> {
    let backend = &custom.backend;
    let unknown = |ty: &&TensorType| ty.dtype.is_asked_for() && !custom.types.contains(&ty.dtype);
    if let Some(ty) = infer.inputs.iter().flatten().find(unknown) {
        let cause = format!("backend '{backend}' brings the operator, and does not know the type of an input, {ty}");
        return Err(Diagnostic::new(Code::TypeMismatch, cause));
    }
    let types = custom.source.infer(&candidate(infer), &custom.options).map_err(|error| {
        if error.crashed {
            let cause =
                format!("backend '{backend}' {} while it was asked for the types of its outputs", error.message);
            return Diagnostic::new(Code::BackendCrashed, cause).hint("Report this to the backend's maker");
        }
        let message = format!("backend '{backend}' cannot tell the types of its outputs: {}", error.message);
        Diagnostic { code: Code::BadNode, message, hint: error.hint }
    })?;
    let broken = |cause: String| {
        let message = format!("backend '{backend}' breaks the plugin contract: {cause}");
        Diagnostic::new(Code::PluginContract, message).hint("Report this to the plugin's maker")
    };
    let wanted = infer.outputs.len();
    if types.len() < wanted {
        return Err(broken(format!("it tells the types of {} outputs, and the node has {wanted}", types.len())));
    }
    let inputs = infer.inputs.iter().flatten().flat_map(|ty| &ty.shape);
    let known: Vec<String> = inputs.filter_map(|dim| Expr::of(dim).ok()).flat_map(|expr| expr.symbols()).collect();
    let types = types.into_iter().take(wanted).enumerate();
    types.map(|(index, ty)| sound(index, ty, &known, open).map_err(broken)).collect()
}

/// The answer for an output in normal form: its sizes are numbers, follow from those of the inputs, or are open.
fn sound(index: usize, ty: OutputType, known: &[String], open: &mut Open) -> std::result::Result<PartialType, String> {
    if ty.shape.len() > MOST {
        return Err(format!("output {index} has more than {MOST} dimensions"));
    }
    let mut size = |dim: &Dim| {
        if let Dim::Symbolic(text) = dim
            && text.starts_with('?')
        {
            return Ok(open.named(text));
        }
        let expr = Expr::of(dim).map_err(|error| format!("output {index} has the size '{dim}': {error}"))?;
        match expr.symbols().into_iter().find(|symbol| !known.contains(symbol)) {
            Some(symbol) => Err(format!("output {index} has the size '{dim}', and no input has '{symbol}'")),
            None => {
                expr.to_dim().map(Size::Known).map_err(|error| format!("output {index} has the size '{dim}': {error}"))
            }
        }
    };
    Ok(PartialType { dtype: ty.dtype, shape: ty.shape.iter().map(&mut size).collect::<std::result::Result<_, _>>()? })
}

/// The node by itself, without values for its outputs.
fn candidate(infer: &Infer<'_>) -> Region {
    let mut region = Region { schema: SCHEMA.into(), symbol: infer.node.name.clone(), ..Region::default() };
    let mut inputs = Vec::with_capacity(infer.inputs.len());
    for (position, ty) in infer.inputs.iter().enumerate() {
        let Some(TensorType { dtype, shape }) = ty.clone() else {
            inputs.push(None);
            continue;
        };
        let value = region.values.len();
        inputs.push(Some(value));
        region.values.push(Value { name: format!("input {position}"), dtype, shape });
        let known = infer.elements[position].as_ref();
        match known.and_then(|known| elements::to_bytes(dtype, known)).filter(|bytes| bytes.len() <= INLINE_BYTES) {
            Some(bytes) => {
                let id = ConstantId(region.constants.len() as u64);
                region.constants.push(Constant { id, value, inline: Some(to_hex(&bytes)), shared: false });
            }
            None => region.inputs.push(value),
        }
    }
    let node = infer.node;
    region.nodes.push(Node {
        name: node.name.clone(),
        op: node.op.clone(),
        domain: node.domain.clone(),
        version: node.version,
        inputs,
        outputs: vec![None; node.outputs.len()],
        attributes: node.attributes.clone(),
    });
    region
}

/// Fails where an attribute is not one of the operator's, or is of another kind, or one that it needs is missing; writes
/// defaults out.
pub(crate) fn complete(custom: &CustomOperator, attributes: &mut BTreeMap<String, Attribute>) -> Result<()> {
    let known = &custom.operator.attributes;
    for (name, value) in attributes.iter() {
        let Some(attribute) = known.iter().find(|attribute| attribute.name == *name) else {
            let names = known.iter().map(|attribute| attribute.name.as_str());
            let near = closest(name, names).map(|near| format!("Did you mean '{near}'?"));
            let error = bad(format!("attribute '{name}' is not known to backend '{}'", custom.backend));
            return Err(error.hint(near.unwrap_or_else(|| "Take it out, or update the backend".into())));
        };
        if AttributeKind::of(value) != attribute.kind {
            return Err(bad(format!("attribute '{name}' must be {}", attribute.kind.described())));
        }
    }
    for attribute in known {
        match &attribute.default {
            _ if attributes.contains_key(&attribute.name) => {}
            Some(default) => drop(attributes.insert(attribute.name.clone(), default.clone())),
            None if attribute.required => return Err(bad(format!("attribute '{}' is missing", attribute.name))),
            None => {}
        }
    }
    Ok(())
}
