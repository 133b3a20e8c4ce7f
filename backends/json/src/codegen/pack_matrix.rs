//! Constant right sides of matrix products go into the panels that the kernel reads, once, at compile time; at run time it
//! would pack them for every product. Steps that take rows of the same matrix by index, as the embedding does that a language
//! model ends with too, take them out of the panels. Panels of floats may be stored in 16 bits, or in 8.

use std::collections::{HashMap, HashSet};

use byoc_plugin_api::{ConstantId, DType, TensorView, bf16, f16};

use super::graph::{Edges, Graph};
use super::settle::is_as_large;
use super::widen::{is_narrow, stays_finite};
use crate::constants::Recipe;
use crate::kernels::{fits_int8, int8_len};
use crate::program::{Op, Step};

/// `narrow` is the type that f32 becomes; what is of 16 bits becomes i8 only.
pub(super) fn run(graph: &mut Graph<'_>, narrow: Option<DType>) {
    let edges = graph.edges();
    let same_bytes = same_bytes(graph);
    let mut refused = HashSet::new();
    for index in 0..graph.steps.len() {
        let Some((matrix, recipe)) = right_side(graph, &graph.steps[index]) else { continue };
        // Every reader of the bytes reads them so, or they would be stored twice.
        let values = same_bytes.get(&matrix.start).map_or(&[][..], |values| values);
        let start = matrix.start;
        let found = if refused.contains(&start) { None } else { readers(graph, &edges, values, &matrix) };
        let Some(readers) = found else {
            refused.insert(start);
            continue;
        };
        let recipe = rounded(graph, in_order(graph, values, &matrix, recipe), narrow);
        let Some(packed) = graph.derive(recipe) else { continue };
        for (reader, op) in readers {
            let step = &mut graph.steps[reader];
            step.inputs[if matches!(op, Op::Columns { .. }) { 0 } else { 1 }] = Some(packed);
            step.op = op;
        }
    }
}

/// A matrix B of K rows and N columns in the memory of the compiler: constants that are views of one another are one matrix.
#[derive(PartialEq)]
struct Matrix {
    start: *const u8,
    dtype: DType,
    k: usize,
    n: usize,
    /// Row and column stride.
    strides: [i64; 2],
}

impl Matrix {
    /// The one that a constant holds, or its transposition.
    fn of(view: &TensorView<'_>, transposed: bool) -> Option<Matrix> {
        let (&[rows, columns], &[row, column]) = (view.shape(), view.strides()) else { return None };
        let (start, dtype) = (view.as_ptr(), view.dtype());
        let (k, n, strides) = match transposed {
            true => (columns, rows, [column, row]),
            false => (rows, columns, [row, column]),
        };
        Some(Matrix { start, dtype, k: usize::try_from(k).ok()?, n: usize::try_from(n).ok()?, strides })
    }
}

/// The values of constants by where their bytes are.
fn same_bytes(graph: &Graph<'_>) -> HashMap<*const u8, Vec<usize>> {
    let mut values: HashMap<*const u8, Vec<usize>> = HashMap::new();
    let constants = graph.region.constants.iter().map(|constant| constant.value);
    for value in constants.chain(graph.widened.iter().map(|&(value, _)| value)) {
        if let Some((_, view)) = data(graph, value) {
            values.entry(view.as_ptr()).or_default().push(value);
        }
    }
    values
}

/// A constant whose bytes may be looked at.
fn data<'g>(graph: &Graph<'g>, value: usize) -> Option<(ConstantId, &'g TensorView<'g>)> {
    let id = graph.constant(value)?.id;
    Some((id, graph.view_by_id(id).filter(|view| view.has_data())?))
}

/// The steps that read a matrix, and what each becomes; `None` if one cannot read it packed.
fn readers(graph: &Graph<'_>, edges: &Edges, values: &[usize], matrix: &Matrix) -> Option<Vec<(usize, Op)>> {
    let stays = |value: usize| graph.outputs.contains(&value) || graph.constant(value).is_none_or(|it| it.shared);
    if values.iter().any(|&value| stays(value)) {
        return None;
    }
    let mut readers: Vec<usize> = values.iter().flat_map(|&value| edges.readers(value)).collect();
    readers.sort_unstable();
    readers.dedup();
    readers.into_iter().map(|reader| Some((reader, packed(graph, &graph.steps[reader], values, matrix)?))).collect()
}

/// What a step is that reads the matrix in panels.
fn packed(graph: &Graph<'_>, step: &Step, values: &[usize], matrix: &Matrix) -> Option<Op> {
    let places = step.inputs.iter().flatten().filter(|value| values.contains(value)).count();
    let size = [matrix.k, matrix.n];
    match &step.op {
        Op::Gemm(gemm) if places == 1 && right_side(graph, step)?.0 == *matrix => {
            let mut gemm = gemm.clone();
            (gemm.packed, gemm.trans_b) = (Some(size), false);
            Some(Op::Gemm(gemm))
        }
        Op::Gather { axis: 0 } if places == 1 => {
            let (_, view) = data(graph, step.input(0)?)?;
            (Matrix::of(view, true)? == *matrix).then_some(Op::Columns { packed: size })
        }
        _ => None,
    }
}

/// How the matrix is packed from the constant whose elements lie in the order of its own shape, where there is such a one: from
/// another they would be copied first.
fn in_order(graph: &Graph<'_>, values: &[usize], matrix: &Matrix, recipe: Recipe) -> Recipe {
    let Recipe::Matrix { k, n, dtype, .. } = recipe else { return recipe };
    let from = |&value: &usize| {
        let (id, view) = data(graph, value).filter(|(_, view)| view.is_contiguous())?;
        let transposed = [false, true].into_iter().find(|&way| Matrix::of(view, way).as_ref() == Some(matrix))?;
        let recipe = Recipe::Matrix { matrix: id, transposed, k, n, dtype };
        (!graph.constant(value)?.shared && is_as_large(graph, id, &recipe)).then_some(recipe)
    };
    values.iter().find_map(from).unwrap_or(recipe)
}

/// The recipe with a result of that type, which rounds; not where a finite number would become infinite, nor to 8 bits where one is not
/// finite or the sums need more than 32.
fn rounded(graph: &Graph<'_>, recipe: Recipe, narrow: Option<DType>) -> Recipe {
    let Recipe::Matrix { matrix, transposed, k, n, dtype } = recipe else { return recipe };
    let fits = |narrow: &DType| match narrow {
        DType::I8 => int8_len(k, n).is_some() && all(graph, matrix, fits_int8),
        _ if dtype != DType::F32 => false,
        &narrow => all(graph, matrix, |value| stays_finite(value, narrow)),
    };
    Recipe::Matrix { matrix, transposed, k, n, dtype: narrow.filter(fits).unwrap_or(dtype) }
}

/// Whether something holds for every element of a constant of floats.
fn all(graph: &Graph<'_>, constant: ConstantId, holds: impl Fn(f32) -> bool) -> bool {
    let Some(view) = graph.view_by_id(constant) else { return false };
    let mut all = true;
    view.for_each_element(|element| {
        let value = match (view.dtype(), element) {
            (DType::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
            (DType::F16, &[a, b]) => f16::from_le_bytes([a, b]).to_f32(),
            (DType::BF16, &[a, b]) => bf16::from_le_bytes([a, b]).to_f32(),
            _ => f32::NAN,
        };
        all &= holds(value);
    });
    all
}

/// The right side of a product, and how it is packed, if it is a constant that is to be.
fn right_side(graph: &Graph<'_>, step: &Step) -> Option<(Matrix, Recipe)> {
    let Op::Gemm(gemm) = &step.op else { return None };
    let b = step.input(1)?;
    graph.constant(b).filter(|constant| !constant.shared && constant.inline.is_none())?;
    let (id, view) = data(graph, b)?;
    let matrix = Matrix::of(view, gemm.trans_b)?;
    let dtype = if is_narrow(view.dtype()) { view.dtype() } else { DType::F32 };
    let recipe = Recipe::Matrix { matrix: id, transposed: gemm.trans_b, k: matrix.k, n: matrix.n, dtype };
    is_as_large(graph, id, &recipe).then_some((matrix, recipe))
}
