//! Reductions over rows.

use byoc_plugin_api::DType;

use super::{Item, Level, Line, Loop, Stop, Term, Writer};
use crate::index::{Coordinate, joined, product, regroup, spread};
use crate::ir::{Def, Fold, Id, computed, number, wide};

impl Writer<'_> {
    /// The result of a reduction: a loop over the columns, if the rows of this kernel are those of the reduction.
    pub(super) fn fold(&mut self, id: Id, at: &[Coordinate]) -> Result<Term, Stop> {
        let values = self.values;
        let Def::Fold(kind, operand, axes) = &values[id].def else { return Err(Stop::Store(id)) };
        if !self.guards.is_empty() {
            return Err(Stop::Store(id));
        }
        let (Some(team), super::Shape::Rows { rows, columns, .. }) = (self.team().cloned(), self.shape) else {
            return Err(if matches!(self.shape, super::Shape::Probe(_)) {
                Stop::Rows(id, at.to_vec())
            } else {
                Stop::Store(id)
            });
        };
        let shape = &values[*operand].shape;
        let reduced: Vec<_> = axes.iter().map(|&axis| shape[axis].clone()).collect();
        let own = spread(0, std::slice::from_ref(rows))?.concat();
        if joined(at.concat())? != joined(own)? || product(&reduced)? != *columns {
            return Err(Stop::Store(id));
        }
        let along = spread(1, std::slice::from_ref(columns))?.concat();
        let along = regroup(along, &reduced, &mut |_, _| Err(Stop::Store(id)))?;
        let mut from = at.to_vec();
        axes.iter().zip(&along).for_each(|(&axis, coordinate)| from[axis] = coordinate.clone());
        self.count(shape);

        self.loops.push(Loop::default());
        let element = self.pull(*operand, &from)?;
        let position = self.coordinate(&along.concat())?;
        let Folding { ty, start, function, element, result } =
            folding(*kind, values[*operand].dtype, values[id].dtype, &element.text, &position.text);
        let sum = self.statements;
        self.statements += 1;
        self.body.push(Item::Line(Line::Let(sum, format!("mutable {ty}"), 'r', start)));
        if let Some(current) = self.loops.last_mut() {
            current.each.push(Line::Do(format!("${sum}$ = {function}::of(${sum}$, {element});")));
        }
        self.close();
        self.folds.push((id, at.to_vec()));
        let all = team.together(&function, &format!("${sum}$"));
        Ok(self.keep(id, at, Term { text: result.replace("{}", &all), level: Level::Row }))
    }
}

/// A reduction in C++.
struct Folding {
    /// The accumulator's initial value.
    ty: String,
    start: String,
    function: String,
    /// The element that is accumulated.
    element: String,
    /// The result, of the accumulator `{}`.
    result: String,
}

fn folding(kind: Fold, dtype: DType, result: DType, element: &str, position: &str) -> Folding {
    let ty = if dtype.is_float() { computed(dtype) } else { "i64" };
    let element = if dtype.is_float() { element.to_owned() } else { format!("i64({element})") };
    let result = if dtype.is_float() { "{}".into() } else { format!("{}({{}})", computed(result)) };
    let function = match kind {
        Fold::Sum => "Sum".to_owned(),
        Fold::Max => "Max".to_owned(),
        Fold::ArgMax(last) => format!("ArgMax<{last}>"),
    };
    match kind {
        Fold::Sum => Folding { ty: ty.into(), start: format!("{ty}(0)"), function, element, result },
        Fold::Max => Folding { ty: ty.into(), start: least(dtype), function, element, result },
        Fold::ArgMax(_) => Folding {
            start: format!("Best<{ty}>{{{ty}(0), -1}}"),
            ty: format!("Best<{ty}>"),
            function,
            element: format!("Best<{ty}>{{{element}, {position}}}"),
            result: "{}.at".into(),
        },
    }
}

/// The lowest number of a type.
fn least(dtype: DType) -> String {
    match dtype {
        DType::I8 => "i64(-128)".into(),
        DType::I16 => "i64(-32768)".into(),
        DType::I32 => "i64(-2147483647 - 1)".into(),
        DType::I64 => "i64(u64(1) << 63)".into(),
        dtype if dtype.is_float() => number(f64::NEG_INFINITY, wide(dtype)),
        _ => "i64(0)".into(),
    }
}
