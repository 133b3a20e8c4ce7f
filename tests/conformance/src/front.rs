//! What stands in front of a pattern's nodes where a backend's regions may not start with them.

use crate::onnx::Fill;
use crate::recipes::{self, Operand, Recipe, Wish};

/// Operators between the one that a region starts with and the pattern, the last first. Windows want rows and columns, so
/// what has none of its own comes from a mean.
const BETWEEN: [&[&str]; 3] = [&["GlobalAveragePool"], &[], &["Flatten", "GlobalAveragePool"]];

/// Nodes that give what is wished for from an input of the model, which is the first operand of the last of them: the
/// others are what they read, in turn. `None` where no operator in `starts` can be among them.
pub(crate) fn nodes<'a>(starts: &'a [String], wish: &Wish) -> Option<Vec<(&'a str, Recipe)>> {
    let ways = starts.iter().flat_map(|start| BETWEEN.iter().map(move |between| (start, between)));
    ways.into_iter().find_map(|(start, between)| way(between.iter().copied().chain([start.as_str()]), wish))
}

fn way<'a>(ops: impl Iterator<Item = &'a str>, wish: &Wish) -> Option<Vec<(&'a str, Recipe)>> {
    let mut wish = wish.clone();
    let mut nodes = Vec::new();
    for op in ops {
        let recipe = recipes::find(op, &wish, false)?;
        wish = first(&recipe)?.clone();
        nodes.push((op, recipe));
    }
    Some(nodes)
}

/// The first operand of a recipe, if it may have any values.
pub(crate) fn first(recipe: &Recipe) -> Option<&Wish> {
    match recipe.operands.first() {
        Some(Operand::Tensor(wish, Fill::Any | Fill::Finite)) => Some(wish),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::DType;

    use super::*;

    /// Operators, the last first, and the shape of the input.
    type Way = (&'static [&'static str], &'static [usize]);

    #[test]
    fn there_is_a_way_from_a_start_to_a_tensor() {
        let cases: [(&[&str], &[usize], Option<Way>); 5] = [
            (&["Conv"], &[1, 8, 6, 6], Some((&["Conv"], &[1, 3, 6, 6]))),
            (&["Conv"], &[1, 8, 1, 1], Some((&["GlobalAveragePool", "Conv"], &[1, 3, 5, 4]))),
            (&["Conv"], &[1, 7], Some((&["Flatten", "GlobalAveragePool", "Conv"], &[1, 3, 5, 4]))),
            (&["Conv", "MatMul"], &[2, 3, 8], Some((&["MatMul"], &[2, 3, 6]))),
            (&["Foo", "Conv"], &[5], None),
        ];
        for (starts, shape, expected) in cases {
            let starts: Vec<_> = starts.iter().map(ToString::to_string).collect();
            let found = nodes(&starts, &Wish { dtype: DType::F32, shape: shape.to_vec() });
            let found = found.map(|nodes| {
                let input = nodes.last().and_then(|(_, recipe)| first(recipe)).map(|wish| wish.shape.clone());
                (nodes.iter().map(|&(op, _)| op).collect::<Vec<_>>(), input.unwrap_or_default())
            });
            assert_eq!(found, expected.map(|(ops, input)| (ops.to_vec(), input.to_vec())), "{starts:?} {shape:?}");
        }
    }
}
