//! Types of what operators on sequences and optionals give: of a list what is known of its tensors, of a tensor that is taken out of one
//! its shape, whose sizes the run tells where the tensors of the list differ in them.

use byoc_plugin_api::{DType, Dim};

use crate::diagnostic::{Code, Diagnostic, Result};
use crate::dim;
use crate::ir::{ElementShape, ListType, Node, TensorType};
use crate::ops::{self, Infer, PartialType, Scalar, Size, lists};

/// Whether the node is one that reads or makes lists, or hands one on.
pub(super) fn takes(node: &Node, given: &[Option<ListType>]) -> bool {
    let identity = node.domain.is_empty() && node.op == "Identity" && given.first().is_some_and(Option::is_some);
    lists::find(&node.domain, &node.op).is_some() || identity
}

/// Fails where a node of another operator reads a list.
pub(super) fn none_given(node: &Node, given: &[Option<ListType>]) -> Result<()> {
    let list = given.iter().enumerate().find_map(|(index, list)| Some((index, list.as_ref()?)));
    match list {
        Some((index, list)) => {
            let name = node.qualified_op();
            let cause = format!("input {index} is {list}, and {name} takes tensors");
            Err(Diagnostic::new(Code::TypeMismatch, cause))
        }
        None => Ok(()),
    }
}

/// Whether a size is the same number wherever it is read: one that only a node tells is another one in each iteration.
pub(super) fn stays(infer: &Infer<'_>) -> impl Fn(&Dim) -> bool + use<> {
    let taken = infer.taken.cloned().unwrap_or_default();
    move |size| dim::symbols(std::slice::from_ref(size)).all(|symbol| taken.contains(&symbol))
}

/// What a node gives.
enum Made {
    Tensor(PartialType),
    List(ListType),
}

/// Gives the output of the node its type; what it holds, if it is a list.
pub(super) fn infer(infer: &mut Infer<'_>, given: &[Option<ListType>]) -> Result<Vec<Option<ListType>>> {
    if infer.outputs.len() != 1 {
        return Err(bad(format!("has {} outputs, expected 1", infer.outputs.len())));
    }
    let rule = Rule { infer: &*infer, given };
    let made = match infer.node.op.as_str() {
        "SequenceEmpty" => Made::List(rule.empty()?),
        "SequenceConstruct" => Made::List(rule.construct()?),
        "SequenceInsert" => Made::List(rule.insert()?),
        "SequenceErase" => Made::List(rule.erase()?),
        "SequenceAt" => Made::Tensor(rule.at()?),
        "SequenceLength" => Made::Tensor(rule.length()?),
        "ConcatFromSequence" => Made::Tensor(rule.concat()?),
        "SplitToSequence" => Made::List(rule.split()?),
        "OptionalHasElement" => Made::Tensor(PartialType { dtype: DType::Bool, shape: Vec::new() }),
        "OptionalGetElement" => rule.element()?,
        "Optional" => Made::List(rule.optional()?),
        _ => Made::List(rule.list(0)?.clone()),
    };
    let (ty, list) = match made {
        Made::Tensor(ty) => (infer.closed(ty), None),
        Made::List(list) => (ListType::handle(), Some(list)),
    };
    infer.outputs[0] = Some(ty);
    Ok(vec![list])
}

struct Rule<'a, 'n> {
    infer: &'a Infer<'n>,
    given: &'a [Option<ListType>],
}

impl Rule<'_, '_> {
    fn list(&self, index: usize) -> Result<&ListType> {
        let list = self.given.get(index).and_then(Option::as_ref);
        list.ok_or_else(|| match self.infer.inputs.get(index) {
            Some(Some(ty)) => mismatch(format!("input {index} is {ty}, expected a sequence")),
            _ => absent(index),
        })
    }

    fn sequence(&self, index: usize) -> Result<&ListType> {
        let list = self.list(index)?;
        match list.sequence && !list.optional {
            true => Ok(list),
            false => Err(mismatch(format!("input {index} is {list}, expected a sequence"))),
        }
    }

    fn tensor(&self, index: usize) -> Result<TensorType> {
        if let Some(list) = self.given.get(index).and_then(Option::as_ref) {
            return Err(mismatch(format!("input {index} is {list}, expected a tensor")));
        }
        self.infer.inputs.get(index).cloned().flatten().ok_or_else(|| absent(index))
    }

    /// Errors where an input that is there is not one integer.
    fn position(&self, index: usize) -> Result<()> {
        if self.infer.inputs.get(index).is_none_or(Option::is_none) {
            return Ok(());
        }
        let ty = self.tensor(index)?;
        let one = ty.shape.iter().all(|size| size.fixed().is_none_or(|size| size == 1));
        match matches!(ty.dtype, DType::I32 | DType::I64) && one {
            true => Ok(()),
            false => Err(mismatch(format!("input {index} (the position) is {ty}, expected one integer"))),
        }
    }

    fn shape_of(&self, ty: &TensorType) -> ElementShape {
        ElementShape::of(ty, stays(self.infer))
    }

    fn empty(&self) -> Result<ListType> {
        let number = self.infer.node.int("dtype", 1);
        match ops::cast::from_onnx(number) {
            Some(dtype) => Ok(ListType::sequence(dtype, ElementShape::Never)),
            None => Err(bad(format!("attribute 'dtype' is {number}, which is not an element type that byoc has"))),
        }
    }

    fn construct(&self) -> Result<ListType> {
        let first = self.tensor(0)?;
        let mut shape = ElementShape::Never;
        for index in 0..self.infer.inputs.len() {
            let ty = self.tensor(index)?;
            if ty.dtype != first.dtype {
                return Err(mismatch(format!("input {index} is {ty}, and input 0 is {first}")));
            }
            shape = shape.join(&self.shape_of(&ty));
        }
        Ok(ListType::sequence(first.dtype, shape))
    }

    fn insert(&self) -> Result<ListType> {
        let (list, ty) = (self.sequence(0)?, self.tensor(1)?);
        self.position(2)?;
        if ty.dtype != list.dtype {
            return Err(mismatch(format!("input 1 is {ty}, and input 0 is {list}")));
        }
        Ok(ListType { shape: list.shape.join(&self.shape_of(&ty)), ..list.clone() })
    }

    fn erase(&self) -> Result<ListType> {
        self.position(1)?;
        self.sequence(0).cloned()
    }

    fn at(&self) -> Result<PartialType> {
        let list = self.sequence(0)?;
        self.position(1)?;
        self.element_of(list)
    }

    /// A tensor of a list.
    fn element_of(&self, list: &ListType) -> Result<PartialType> {
        let shape = self.sizes(list)?.iter().enumerate().map(|(axis, size)| opened(size, axis)).collect();
        Ok(PartialType { dtype: list.dtype, shape })
    }

    fn sizes<'l>(&self, list: &'l ListType) -> Result<&'l [Option<Dim>]> {
        match &list.shape {
            ElementShape::Sizes(sizes) => Ok(sizes),
            ElementShape::Never => Err(Diagnostic::new(
                Code::ShapeUnknown,
                format!("input 0 is {list}: there is no tensor in it whose shape is known"),
            )),
            ElementShape::Any => {
                let cause =
                    format!("input 0 is {list}: how many dimensions its tensors have is known only at run time");
                Err(Diagnostic::new(Code::ShapeUnknown, cause)
                    .hint("Where it is an input of the model, give the shape of its tensors with --shape"))
            }
        }
    }

    fn length(&self) -> Result<PartialType> {
        self.sequence(0)?;
        Ok(PartialType { dtype: DType::I64, shape: Vec::new() })
    }

    fn concat(&self) -> Result<PartialType> {
        let list = self.sequence(0)?;
        let sizes = self.sizes(list)?;
        whole_bytes(list.dtype)?;
        let stack = flag(self.infer.node, "new_axis", 0)?;
        let rank = sizes.len() + usize::from(stack);
        let axis = self.axis("axis", rank)?;
        let mut shape: Vec<_> = sizes.iter().enumerate().map(|(axis, size)| opened(size, axis)).collect();
        match stack {
            true => shape.insert(axis, Size::Open(rank)),
            false => shape[axis] = Size::Open(rank),
        }
        Ok(PartialType { dtype: list.dtype, shape })
    }

    fn split(&self) -> Result<ListType> {
        let ty = self.tensor(0)?;
        whole_bytes(ty.dtype)?;
        let axis = self.axis("axis", ty.shape.len())?;
        let keeps = flag(self.infer.node, "keepdims", 1)?;
        let ElementShape::Sizes(mut sizes) = self.shape_of(&ty) else { return Err(absent(0)) };
        if self.infer.inputs.get(1).is_none_or(Option::is_none) {
            match keeps {
                true => sizes[axis] = Some(Dim::Fixed(1)),
                false => drop(sizes.remove(axis)),
            }
            return Ok(ListType::sequence(ty.dtype, ElementShape::Sizes(sizes)));
        }
        let parts = self.tensor(1)?;
        if !matches!(parts.dtype, DType::I32 | DType::I64) || parts.shape.len() > 1 {
            return Err(mismatch(format!("input 1 (split) is {parts}, expected an integer or a list of them")));
        }
        // Parts of one size, but the last one may be smaller; a list says the size of each.
        let known: Option<Vec<i64>> =
            self.infer.elements[1].as_ref().and_then(|all| all.iter().map(Scalar::as_i64).collect());
        let whole = ty.shape[axis].fixed();
        let same = known.and_then(|known| {
            let first = usize::try_from(*known.first()?).ok().filter(|&first| first > 0)?;
            let even = parts.shape.is_empty() && whole? % first == 0;
            let equal = !parts.shape.is_empty() && known.iter().all(|&size| size == first as i64);
            (even || equal).then_some(Dim::Fixed(first))
        });
        sizes[axis] = same;
        Ok(ListType::sequence(ty.dtype, ElementShape::Sizes(sizes)))
    }

    fn element(&self) -> Result<Made> {
        let Some(list) = self.given.first().and_then(Option::as_ref) else {
            let TensorType { dtype, shape } = self.tensor(0)?;
            return Ok(Made::Tensor(PartialType { dtype, shape: shape.into_iter().map(Size::Known).collect() }));
        };
        match list.sequence {
            true => Ok(Made::List(ListType { optional: false, ..list.clone() })),
            false => self.element_of(list).map(Made::Tensor),
        }
    }

    fn optional(&self) -> Result<ListType> {
        if let Some(list) = self.given.first().and_then(Option::as_ref) {
            return Ok(ListType { optional: true, ..list.clone() });
        }
        if self.infer.inputs.first().is_some_and(Option::is_some) {
            let ty = self.tensor(0)?;
            let shape = self.shape_of(&ty);
            return Ok(ListType { optional: true, sequence: false, dtype: ty.dtype, shape });
        }
        let text = self.infer.node.string("type", "");
        let list = ListType::read(text).ok().flatten().map(|(list, _)| list);
        let list = list.ok_or_else(|| bad("attribute 'type' is missing, and there is no input".into()))?;
        // It holds nothing, whatever it could.
        Ok(ListType { optional: true, shape: ElementShape::Never, ..list })
    }

    fn axis(&self, name: &str, rank: usize) -> Result<usize> {
        let axis = self.infer.node.int(name, 0);
        let from_front = if axis < 0 { axis + rank as i64 } else { axis };
        let found = usize::try_from(from_front).ok().filter(|&axis| axis < rank);
        found.ok_or_else(|| bad(format!("attribute '{name}' is {axis}, which is out of range for {rank} dimensions")))
    }
}

/// A size of a tensor of a list: the run tells it where the tensors differ in it.
fn opened(size: &Option<Dim>, axis: usize) -> Size {
    size.clone().map_or(Size::Open(axis), Size::Known)
}

fn flag(node: &Node, name: &str, default: i64) -> Result<bool> {
    match node.int(name, default) {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(bad(format!("attribute '{name}' is {other}, expected 0 or 1"))),
    }
}

/// Fails where a tensor may begin within a byte of another one.
fn whole_bytes(dtype: DType) -> Result<()> {
    if !dtype.shares_bytes() {
        return Ok(());
    }
    let cause = format!("elements of {dtype} share bytes: they are not cut into tensors, nor put together of them");
    Err(mismatch(cause).hint("Cast them to i8 or u8 before, and back behind it"))
}

fn absent(index: usize) -> Diagnostic {
    bad(format!("input {index} is absent, but the operator needs it"))
}

fn bad(cause: String) -> Diagnostic {
    Diagnostic::new(Code::BadNode, cause)
}

fn mismatch(cause: String) -> Diagnostic {
    Diagnostic::new(Code::TypeMismatch, cause)
}
