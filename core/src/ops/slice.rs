//! Slice, after ONNX: Slice 13 (bounds are inputs).

use byoc_plugin_api::Dim;

use super::infer::{INDEX, Infer, axes_in, bad, mismatch};
use crate::constants::View;
use crate::diagnostic::Result;
use crate::dim::Expr;
use crate::ir::Node;

/// A bound this large means "to the end" even where the size is symbolic.
const TO_THE_END: i64 = i32::MAX as i64;

/// Longer steps than this lead out of every tensor.
const LONGEST_STEP: u64 = 1 << 48;

/// Slice.
pub(super) fn slice(infer: &mut Infer<'_>) -> Result<()> {
    let x = infer.input(0)?;
    let (starts, ends) = (infer.sizes(1, "starts")?, infer.sizes(2, "ends")?);
    let axes = infer.optional_numbers(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = infer.optional_numbers(4, "steps")?.unwrap_or_else(|| vec![1; starts.len()]);
    infer.typed(1, INDEX)?;
    if [ends.len(), axes.len(), steps.len()].iter().any(|&count| count != starts.len()) {
        return Err(mismatch(format!(
            "there are {} starts, {} ends, {} axes and {} steps, expected as many of each",
            starts.len(),
            ends.len(),
            axes.len(),
            steps.len()
        )));
    }
    let axes = axes_in(&axes, x.shape.len())?;
    let mut shape = x.shape.clone();
    for (index, &axis) in axes.iter().enumerate() {
        let bounds =
            Bounds { size: Expr::of(&x.shape[axis])?, start: &starts[index], end: &ends[index], step: steps[index] };
        shape[axis] = bounds.length()?;
    }
    infer.set(0, x.dtype, shape);
    Ok(())
}

/// One axis of a slice.
struct Bounds<'a> {
    size: Expr,
    start: &'a Expr,
    end: &'a Expr,
    step: i64,
}

impl Bounds<'_> {
    fn length(&self) -> Result<Dim> {
        if self.step == 0 {
            return Err(bad("input 4 (steps) holds 0"));
        }
        let numbers = (self.size.as_constant(), self.start.as_constant(), self.end.as_constant());
        if let (Some(size), Some(start), Some(end)) = numbers {
            let (first, last) = clamp(size, start, end, self.step);
            return Ok(Expr::from(steps_between(first, last, self.step)).to_dim()?);
        }
        let (zero, one) = (Expr::from(0), Expr::from(1));
        let forward = self.step > 0;
        // The range in which a bound may be: a negative step starts on the last element and ends before the first.
        let low = if forward { zero.clone() } else { Expr::from(-1) };
        let high = if forward { self.size.clone() } else { self.size.minus(&one)? };
        let start = self.clamped(self.start, if forward { &low } else { &zero }, &high)?;
        let end = self.clamped(self.end, &low, &high)?;
        let (from, to) = if forward { (&start, &end) } else { (&end, &start) };
        // Beyond every size, so that a step that leads out of all of them does not overflow.
        let step = Expr::from(self.step.unsigned_abs().min(LONGEST_STEP) as i64);
        let count = to.minus(from)?.ceil_div(&step)?;
        // Clamping keeps the order of the bounds, so their order before it is enough to know the sign.
        let ordered = forward
            && counts_from_front(self.start)
            && counts_from_front(self.end)
            && self.end.is_at_least(self.start)?;
        Ok(if ordered { count.to_dim()? } else { count.larger(&zero)?.to_dim()? })
    }

    /// A negative bound counts from the end.
    fn clamped(&self, bound: &Expr, low: &Expr, high: &Expr) -> Result<Expr> {
        match bound.as_constant() {
            Some(value) if value >= TO_THE_END => Ok(high.clone()),
            // An axis of no element has no place for a start that goes backwards: `high` takes precedence.
            Some(value) if value <= -TO_THE_END => Ok(low.smaller(high)?),
            Some(value) if value < 0 => Ok(bound.plus(&self.size)?.larger(low)?.smaller(high)?),
            None if !counts_from_front(bound) => {
                let (zero, one) = (Expr::from(0), Expr::from(1));
                // 1 where the bound turns out to be negative, else 0.
                let negative = bound.scale(-1)?.larger(&zero)?.smaller(&one)?;
                Ok(bound.plus(&self.size.times(&negative)?)?.larger(low)?.smaller(high)?)
            }
            _ => Ok(bound.larger(low)?.smaller(high)?),
        }
    }
}

/// Whether a bound is certain not to be negative.
fn counts_from_front(bound: &Expr) -> bool {
    bound.lower_bound().is_some_and(|least| least >= 0)
}

/// Start and end as ONNX clamps them: backwards, a start before the first element is the first. (NumPy takes nothing.)
fn clamp(size: i64, start: i64, end: i64, step: i64) -> (i64, i64) {
    let from_front = |bound: i64| if bound < 0 { bound.saturating_add(size) } else { bound };
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    (from_front(start).max(0).min(high), from_front(end).max(low).min(high))
}

fn steps_between(first: i64, last: i64, step: i64) -> i64 {
    // Both bounds are within the size by now, so the difference cannot overflow.
    let (span, step) = if step > 0 { (last - first, step as u64) } else { (first - last, step.unsigned_abs()) };
    if span <= 0 { 0 } else { (span as u64).div_ceil(step) as i64 }
}

/// The part of the view between the bounds, whichever way the steps go.
pub(super) fn slice_view(node: &Node, view: &View, shape: &[usize], elements: &[Option<Vec<i64>>]) -> Option<View> {
    let list = |index: usize| elements.get(index)?.clone();
    let (starts, ends) = (list(1)?, list(2)?);
    // A list that is there but not known says nothing; only an absent one has the default.
    let optional = |index: usize, default: Vec<i64>| {
        if node.input(index).is_some() { list(index) } else { Some(default) }
    };
    let axes = optional(3, (0..starts.len() as i64).collect())?;
    let steps = optional(4, vec![1; starts.len()])?;
    let axes = axes_in(&axes, view.shape.len()).ok()?;
    let (mut strides, mut offset) = (view.strides.clone(), i64::try_from(view.offset).ok()?);
    for (index, &axis) in axes.iter().enumerate() {
        let (step, size) = (*steps.get(index)?, i64::try_from(view.shape[axis]).ok()?);
        if step == 0 {
            return None;
        }
        let (first, last) = clamp(size, *starts.get(index)?, *ends.get(index)?, step);
        if usize::try_from(steps_between(first, last, step)).ok()? != *shape.get(axis)? {
            return None;
        }
        if shape[axis] == 0 {
            // No element is read, so the offset stays where it is, inside the base.
            continue;
        }
        offset = offset.checked_add(first.checked_mul(view.strides[axis])?)?;
        // With one element the stride is never used, and a huge step must not overflow it.
        strides[axis] = if shape[axis] == 1 { 0 } else { view.strides[axis].checked_mul(step)? };
    }
    Some(View { shape: shape.to_vec(), strides, offset: usize::try_from(offset).ok()? })
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Dim;

    use super::{Bounds, TO_THE_END};
    use crate::constants::View;
    use crate::dim::{self, Expr};
    use crate::ops::find;
    use crate::ops::testing::{Case, check};

    const SLICES: &[Case] = &[
        ("Slice", "", "f32[20,10,5] i64[2]=0,0 i64[2]=3,10 i64[2]=0,1 i64[2]=1,1", "f32[3,10,5]"),
        ("Slice", "", "f32[20,10] i64[1]=-3 i64[1]=9223372036854775807 i64[1]=-1", "f32[20,3]"),
        ("Slice", "", "f32[20,10] i32[2]=20,10 i32[2]=0,1 - i32[2]=-1,-3", "f32[19,3]"),
        ("Slice", "", "f32[5] i64[1]=-1 i64[1]=-9223372036854775808 i64[1]=0 i64[1]=-1", "f32[5]"),
        ("Slice", "", "f32[5] i64[1]=4 i64[1]=1", "f32[0]"),
        ("Slice", "", "f32[5] i64[1]=7 i64[1]=9", "f32[0]"),
        ("Slice", "", "f32[5] i64[1]=0 i64[1]=5 i64[1]=0 i64[1]=9223372036854775807", "f32[1]"),
        ("Slice", "", "f32[5] i64[1]=4 i64[1]=-9 i64[1]=0 i64[1]=-9223372036854775808", "f32[1]"),
        ("Slice", "", "f32[0] i64[1]=-1 i64[1]=-9 i64[1]=0 i64[1]=-1", "f32[0]"),
        ("Slice", "", "f32[3] i64[1]=-9 i64[1]=-9 i64[1]=0 i64[1]=-1", "f32[1]"),
        ("Slice", "", "f32[n] i64[1]=0 i64[1]=-9223372036854775807 i64[1]=0 i64[1]=-1", "f32[min(0, n - 1) + 1]"),
        (
            "Slice",
            "",
            "f32[n] i64[1]=-9223372036854775808 i64[1]=-9223372036854775808 i64[1]=0 i64[1]=-1",
            "f32[min(0, n - 1) + 1]",
        ),
        (
            "Slice",
            "",
            "f32[n] i64[1]=-9223372036854775808 i64[1]=2 i64[1]=0 i64[1]=-2",
            "f32[max(0, floor((min(0, n - 1) - min(n - 1, 2) + 1)/2))]",
        ),
        ("Slice", "", "f32[n+1] i64[1]=-9 i64[1]=-9223372036854775807 i64[1]=0 i64[1]=-1", "f32[max(0, n - 8) + 1]"),
        (
            "Slice",
            "",
            "f32[n+1] i64[1]=0 i64[1]=9223372036854775807 i64[1]=0 i64[1]=9223372036854775807",
            "f32[floor(n/281474976710656) + 1]",
        ),
        ("Slice", "", "f32[b,s] i64[1]=0 i64[1]=9223372036854775807 i64[1]=1", "f32[b,s]"),
        ("Slice", "", "f32[b,s] i64[1]=0 i64[1]=-1 i64[1]=1", "f32[b,max(0, s - 1)]"),
        ("Slice", "", "f32[1,512] i64[1]=0 i64[1]=seq i64[1]=1", "f32[1,min(512, seq)]"),
        ("Slice", "", "f32[9] i64[1]=0 i64[1]=n-2", "f32[min(9, max(0, n + min(1, max(0, -n + 2))*9 - 2))]"),
        ("Slice", "", "f32[b,s] i64[1]=-1 i64[1]=-9223372036854775808 i64[1]=1 i64[1]=-1", "f32[b,s]"),
        ("Slice", "", "f32[5] i64[1]=0 i64[1]=5 i64[1]=0 i64[1]=0", "[B106] input 4 (steps) holds 0"),
        (
            "Slice",
            "",
            "f32[5] i64[1]=0 i64[2]=5,5",
            "[B202] there are 1 starts, 2 ends, 1 axes and 1 steps, expected as many of each",
        ),
        ("Slice", "", "f32[5] i64[1]=0 i64[1]=5 i64[1]=1", "[B106] axis 1 is out of range for 1 dimensions"),
        ("Slice", "", "f32[5] i64[1] i64[1]=5", "f32[n_size0]"),
        ("Slice", "", "i64[4]=1,2,batch,4 i64[1]=3 i64[1]=1 i64[1]=0 i64[1]=-1", "i64[2] = 4,batch"),
    ];

    #[test]
    fn slices() {
        check(SLICES);
    }

    #[test]
    fn a_symbolic_size_is_cut_as_the_number_that_it_becomes() {
        let bounds = [i64::MIN, -TO_THE_END, -7, -3, -2, -1, 0, 1, 2, 3, 7, TO_THE_END, i64::MAX];
        for (start, end) in bounds.into_iter().flat_map(|start| bounds.map(|end| (start, end))) {
            for step in [i64::MIN, -3, -2, -1, 1, 2, 3, i64::MAX] {
                let length = |size| Bounds { size, start: &start.into(), end: &end.into(), step }.length();
                let symbolic = length(Expr::symbol("n")).expect("a size");
                for size in 0..6 {
                    let found = dim::eval_shape(std::slice::from_ref(&symbolic), &[("n".to_owned(), size)].into());
                    let expected = length((size as i64).into()).expect("a size");
                    let case = format!("{symbolic} of {start}:{end}:{step}, n = {size}");
                    assert_eq!(Dim::Fixed(found.expect("a size")[0]), expected, "{case}");
                }
            }
        }
    }

    #[test]
    fn views_follow_the_steps() {
        let node = crate::ir::Node {
            name: "n".into(),
            op: "Slice".into(),
            inputs: vec![Some(crate::ir::ValueId(0)); 5],
            outputs: vec![],
            attributes: Default::default(),
            ..crate::ir::Node::default()
        };
        let rule = find("", "Slice").and_then(|def| def.view).expect("a rule");
        let lists = |starts: i64, ends: i64, axis: i64, step: i64| {
            [None, Some(vec![starts]), Some(vec![ends]), Some(vec![axis]), Some(vec![step])]
        };
        let view = View::contiguous(&[4, 6]);
        let found = rule(&node, &view, &[4, 2], &lists(1, 5, 1, 2)).expect("a view");
        assert_eq!((found.offset, found.strides), (1, vec![6, 2]));
        let found = rule(&node, &view, &[3, 6], &lists(-1, 0, 0, -1)).expect("a view");
        assert_eq!((found.offset, found.strides), (18, vec![-6, 1]));
        let found = rule(&node, &view, &[0, 6], &lists(9, 9, 0, 1)).expect("a view");
        assert_eq!((found.offset, found.shape), (0, vec![0, 6]));
        assert!(rule(&node, &view, &[3, 6], &lists(0, 2, 0, 1)).is_none());
    }
}
