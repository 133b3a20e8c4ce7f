//! Sequences and optionals as files have them: the tensors of a sequence `x` are arrays `x.0`, `x.1` and so on, or an array `x` of which
//! each slice along its first axis is one; what an optional `x` holds is an array `x`, or there is none.

use std::collections::BTreeMap;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::runtime::{ListView, PortInfo, Session};
use byoc_plugin_api::{DType, TensorView};

use crate::tensor::Tensor;

/// A value of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// A tensor.
    Tensor(Tensor),
    /// An optional that holds nothing.
    Nothing,
    /// An optional that holds a tensor.
    Optional(Tensor),
    /// A sequence, also one that an optional holds.
    Sequence(Vec<Tensor>),
}

/// The handles that a session has for a value, in their bytes: of the texts of a tensor, or of a list; `None` for a tensor of numbers, which
/// is given as it is.
pub type Handles = Option<Vec<u8>>;

impl Given {
    /// Gives a session what it takes by handles.
    pub fn give(&self, session: &mut Session) -> Result<Handles> {
        let (tensors, list): (&[Tensor], _) = match self {
            Given::Tensor(tensor) => return texts(session, tensor),
            Given::Nothing => (&[], None),
            Given::Optional(tensor) => (std::slice::from_ref(tensor), None),
            Given::Sequence(tensors) => (tensors, Some(())),
        };
        let handles = tensors.iter().map(|tensor| texts(session, tensor)).collect::<Result<Vec<_>>>()?;
        let mut views = tensors.iter().zip(&handles).map(|(tensor, handles)| view(tensor, handles));
        let list = match list {
            Some(()) => ListView::Sequence(views.collect::<Result<_>>()?),
            None => views.next().transpose()?.map_or(ListView::Nothing, ListView::Tensor),
        };
        Ok(Some(session.give_list(&list)?.to_le_bytes().to_vec()))
    }

    /// The value as a run takes it.
    pub fn view<'a>(&'a self, handles: &'a Handles) -> Result<TensorView<'a>> {
        match (self, handles) {
            (Given::Tensor(tensor), _) => view(tensor, handles),
            (_, Some(handle)) => {
                TensorView::from_bytes(handle, DType::U64, &[], &[]).map_err(|error| bad(error.message))
            }
            (_, None) => Err(bad("a list was not given to its session".into())),
        }
    }
}

/// Gives a session the texts of a tensor.
fn texts(session: &mut Session, tensor: &Tensor) -> Result<Handles> {
    if tensor.dtype() != DType::String {
        return Ok(None);
    }
    let mut handles = Vec::with_capacity(tensor.elements() * size_of::<u64>());
    for text in tensor.texts() {
        handles.extend(session.give_text(text)?.0.to_le_bytes());
    }
    Ok(Some(handles))
}

fn view<'a>(tensor: &'a Tensor, handles: &'a Handles) -> Result<TensorView<'a>> {
    handles.as_ref().map_or_else(|| tensor.view(), |handles| tensor.with_handles(handles))
}

/// What files have for one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts {
    whole: Option<Tensor>,
    elements: BTreeMap<usize, Tensor>,
}

impl Parts {
    /// Adds an array: element `index`, or all of it. `false` where it is there already.
    pub(crate) fn add(&mut self, index: Option<usize>, tensor: Tensor) -> bool {
        match index {
            Some(index) => self.elements.insert(index, tensor).is_none(),
            None => self.whole.replace(tensor).is_none(),
        }
    }

    /// The list of that port; `None` where no file has anything for it.
    pub(crate) fn list(self, port: &PortInfo) -> Result<Option<Given>> {
        let name = &port.name;
        let Some(list) = &port.list else { return Ok(None) };
        let Parts { whole, elements } = self;
        if whole.is_some() && !elements.is_empty() {
            return Err(bad(format!("input '{name}' is given as a whole and as '{name}.0' and so on")));
        }
        if let Some(whole) = whole {
            return match list.sequence {
                true => slices(name, &whole).map(|tensors| Some(Given::Sequence(tensors))),
                false => Ok(Some(Given::Optional(whole))),
            };
        }
        if let Some(missing) = (0..elements.len()).find(|index| !elements.contains_key(index)) {
            let last = elements.keys().last().copied().unwrap_or(0);
            return Err(bad(format!("input '{name}' has '{name}.{last}' and no '{name}.{missing}'"))
                .hint("The tensors of a sequence are counted from 0"));
        }
        match elements.is_empty() {
            true => Ok(list.optional.then_some(Given::Nothing)),
            false => Ok(Some(Given::Sequence(elements.into_values().collect()))),
        }
    }
}

/// The port that an array is for, and which element of its sequence it is, if it is one.
pub(crate) fn place(ports: &[PortInfo], name: &str) -> Option<(usize, Option<usize>)> {
    if let Some(index) = ports.iter().position(|port| port.name == name) {
        return Some((index, None));
    }
    let (name, number) = name.rsplit_once('.')?;
    let of = |port: &PortInfo| port.name == name && port.list.as_ref().is_some_and(|list| list.sequence);
    Some((ports.iter().position(of)?, Some(number.parse().ok()?)))
}

/// What an array of that name is called among the outputs: those of a sequence count, what an optional holds has the name of the output.
pub(crate) fn element_name(port: &str, index: usize) -> String {
    format!("{port}.{index}")
}

/// The slices of a tensor along its first axis.
fn slices(name: &str, whole: &Tensor) -> Result<Vec<Tensor>> {
    let Some((&count, shape)) = whole.shape().split_first() else {
        return Err(bad(format!("input '{name}' is a sequence, and what is given is one number"))
            .hint(format!("Give its tensors as '{name}.0', '{name}.1' and so on")));
    };
    if whole.dtype().shares_bytes() || whole.dtype() == DType::String {
        return Err(bad(format!("input '{name}' is a sequence of {}, and is given as one array", whole.dtype()))
            .hint(format!("Give its tensors as '{name}.0', '{name}.1' and so on")));
    }
    let count = usize::try_from(count).unwrap_or(0);
    let size = whole.bytes().len() / count.max(1);
    let slice = |index: usize| {
        let bytes = whole.bytes().get(index * size..)?.get(..size)?.to_vec();
        Tensor::new(whole.dtype(), shape.to_vec(), bytes)
    };
    (0..count).map(|index| slice(index).ok_or_else(|| bad(format!("input '{name}' is not complete")))).collect()
}

fn bad(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadInput, message)
}

#[cfg(test)]
mod tests {
    use byoc_core::artifact::manifest::ListType;

    use super::*;

    fn port(optional: bool, sequence: bool) -> PortInfo {
        let list = Some(ListType { optional, sequence, dtype: DType::U8, shape: None });
        PortInfo { name: "x".into(), dtype: DType::U64, shape: Vec::new(), list }
    }

    fn tensor(shape: &[i64], bytes: &[u8]) -> Tensor {
        Tensor::new(DType::U8, shape.to_vec(), bytes.to_vec()).expect("as many bytes")
    }

    #[test]
    fn arrays_make_a_list() {
        let list = |port: &PortInfo, arrays: &[(Option<usize>, Tensor)]| {
            let mut parts = Parts::default();
            arrays.iter().for_each(|(index, tensor)| assert!(parts.add(*index, tensor.clone())));
            parts.list(port).map_err(|error| error.message)
        };
        let (one, two) = (tensor(&[2], &[1, 2]), tensor(&[], &[3]));
        let both = vec![one.clone(), two.clone()];
        let sequence = port(false, true);
        assert_eq!(list(&sequence, &[(Some(1), two.clone()), (Some(0), one.clone())]), Ok(Some(Given::Sequence(both))));
        assert_eq!(list(&sequence, &[]), Ok(None));
        assert_eq!(list(&port(true, true), &[]), Ok(Some(Given::Nothing)));
        assert_eq!(list(&port(true, false), &[(None, one.clone())]), Ok(Some(Given::Optional(one.clone()))));
        let rows = tensor(&[2, 2], &[1, 2, 3, 4]);
        let cut = vec![one.clone(), tensor(&[2], &[3, 4])];
        assert_eq!(list(&sequence, &[(None, rows)]), Ok(Some(Given::Sequence(cut))));
        assert_eq!(list(&sequence, &[(None, tensor(&[0, 5], &[]))]), Ok(Some(Given::Sequence(Vec::new()))));
        let errors = [
            (vec![(Some(0), one.clone()), (Some(2), one.clone())], "input 'x' has 'x.2' and no 'x.1'"),
            (vec![(None, one.clone()), (Some(0), one)], "input 'x' is given as a whole and as 'x.0' and so on"),
            (vec![(None, two)], "input 'x' is a sequence, and what is given is one number"),
        ];
        for (arrays, message) in errors {
            assert_eq!(list(&sequence, &arrays), Err(message.into()));
        }
    }

    #[test]
    fn names_tell_the_port_and_the_element() {
        let ports = [port(false, true)];
        let places = ["x", "x.0", "x.12", "x.y", "y.0", "x.-1"].map(|name| place(&ports, name));
        assert_eq!(places, [Some((0, None)), Some((0, Some(0))), Some((0, Some(12))), None, None, None]);
        assert_eq!(place(&[port(true, false)], "x.0"), None, "an optional that holds a tensor has no elements");
    }
}
