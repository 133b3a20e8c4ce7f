//! Compares the types of outputs with their declared types.

use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Declared, Graph, Model};

/// A warning for each output whose computed type differs from the declared one, which its readers may
/// rely on.
pub(crate) fn undeclared(model: &Model) -> Vec<Diagnostic> {
    model.entries.iter().flat_map(|graph| of_graph(graph, model.entries.len() > 1)).collect()
}

fn of_graph(graph: &Graph, named: bool) -> Vec<Diagnostic> {
    let place = if named { format!(" of entry '{}'", graph.name) } else { String::new() };
    let outputs = graph.outputs.iter().zip(&graph.declared).filter_map(|(&id, declared)| {
        let (value, ty) = (graph.value(id), graph.value(id).ty.as_ref()?);
        // The model says nothing of what a sequence or an optional holds, or that it is a tensor.
        let fits = match &value.list {
            Some(_) => *declared == Declared::default(),
            None => declared.allows(ty),
        };
        if fits {
            return None;
        }
        let found = value.list.as_ref().map_or_else(|| ty.to_string(), ToString::to_string);
        let same = value.list.is_none() && declared.dtype.is_none_or(|dtype| dtype == ty.dtype);
        let code = if same { Code::ShapeMismatch } else { Code::TypeMismatch };
        let message = format!("output '{}'{place} is declared as {declared} in the model, and is {found}", value.name);
        Some(Diagnostic::new(code, message).hint("The output is what is computed; correct its declared type"))
    });
    outputs.collect()
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::{DType, Dim};

    use super::*;
    use crate::ir::{ElementShape, ListType, TensorType};

    #[test]
    fn only_what_contradicts_is_told() {
        let symbol = Dim::Symbolic("batch".into());
        let ty = TensorType { dtype: DType::F32, shape: vec![symbol, Dim::Fixed(2)] };
        let declared = |dtype, shape: Option<&[Option<usize>]>| Declared { dtype, shape: shape.map(<[_]>::to_vec) };
        let cases = [
            (declared(None, None), None),
            (declared(Some(DType::F32), None), None),
            (declared(Some(DType::F32), Some(&[None, None])), None),
            (declared(None, Some(&[Some(7), Some(2)])), None),
            (declared(Some(DType::F32), Some(&[None, Some(3)])), Some("[B202] output 'y' is declared as f32[?,3]")),
            (declared(Some(DType::F32), Some(&[Some(2)])), Some("[B202] output 'y' is declared as f32[2]")),
            (declared(Some(DType::I64), None), Some("[B201] output 'y' is declared as i64")),
        ];
        for (declared, expected) in cases {
            let mut graph = Graph { name: "main".into(), declared: vec![declared.clone()], ..Graph::default() };
            let output = graph.add_value("y", Some(ty.clone()));
            graph.outputs.push(output);
            let found: Vec<_> = undeclared(&Model { entries: vec![graph], ..Model::default() });
            let rest = " in the model, and is f32[batch,2]. The output is what is computed; correct its declared type";
            let expected: Vec<_> = expected.map(|start| format!("{start}{rest}")).into_iter().collect();
            assert_eq!(found.iter().map(Diagnostic::to_string).collect::<Vec<_>>(), expected, "{declared:?}");
        }
    }

    #[test]
    fn a_tensor_is_no_sequence() {
        let list = |declared: Declared| {
            let mut graph = Graph { name: "main".into(), declared: vec![declared], ..Graph::default() };
            let output = graph.add_value("y", Some(ListType::handle()));
            graph.values[output.0].list = Some(ListType::sequence(DType::F32, ElementShape::Any));
            graph.outputs.push(output);
            let found = undeclared(&Model { entries: vec![graph], ..Model::default() });
            found.iter().map(Diagnostic::to_string).collect::<Vec<_>>()
        };
        assert_eq!(list(Declared::default()), [] as [&str; 0]);
        assert_eq!(
            list(Declared { dtype: Some(DType::U64), shape: Some(vec![]) }),
            [
                "[B201] output 'y' is declared as u64[] in the model, and is seq(f32). The output is what is computed; correct its declared type"
            ]
        );
    }

    #[test]
    fn entries_are_named_where_there_are_several() {
        let entry = |name: &str| {
            let declared = Declared { dtype: None, shape: Some(vec![]) };
            let mut graph = Graph { name: name.into(), declared: vec![declared], ..Graph::default() };
            let output = graph.add_value("y", Some(TensorType { dtype: DType::F32, shape: vec![Dim::Fixed(1)] }));
            graph.outputs.push(output);
            graph
        };
        let found = undeclared(&Model { entries: vec![entry("a"), entry("b")], ..Model::default() });
        let messages: Vec<_> = found.iter().map(|warning| warning.message.as_str()).collect();
        assert_eq!(
            messages,
            ["a", "b"]
                .map(|name| format!("output 'y' of entry '{name}' is declared as [] in the model, and is f32[1]"))
        );
    }
}
