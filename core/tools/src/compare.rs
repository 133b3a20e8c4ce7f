//! Whether two tensors are equal within a tolerance: |a-b| <= atol + rtol*|b|, NaN equals NaN, integers exactly.

mod likeness;

use std::collections::BTreeMap;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_plugin_api::{Allowance, DType, closest};
use serde::Serialize;

pub use self::likeness::Likeness;
use crate::tensor::{Number, Tensor};
use crate::text;

/// How far an output may be from what is expected; what is not given depends on the element type.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Absolute.
    pub atol: Option<f64>,
    /// Relative to the expected value.
    pub rtol: Option<f64>,
    /// In place of the two, for floats: how far all of an output must be above what it differs by, in dB. Where a value is rounded to
    /// 8 bits on the way, one that is rounded otherwise is a level apart, however exact the rest is.
    pub snr: Option<f64>,
    /// In place of the two, for floats: the least cosine of the angle between an output and what is expected, both as vectors.
    pub min_cosine: Option<f64>,
    /// Where none of the others is given: what the backends declare that computed the output.
    pub declared: Option<Allowance>,
}

/// What decides whether an output is what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// Each element: |a-b| <= atol + rtol*|b|.
    Elements {
        /// Absolute.
        atol: f64,
        /// Relative to the expected value.
        rtol: f64,
    },
    /// All elements are the same: they are no floats.
    Equal,
    /// The signal-to-noise ratio in dB is at least this.
    Snr(f64),
    /// The cosine is at least this.
    Cosine(f64),
}

impl Tolerance {
    /// What decides for an output of that type. The defaults are a few units in the last place of the type, with room for sums
    /// that are added up in another order.
    pub fn criterion(self, dtype: DType) -> Criterion {
        let (atol, rtol): (f64, f64) = match dtype {
            DType::F32 | DType::F64 | DType::C64 | DType::C128 => (1e-5, 1e-3),
            DType::F16 => (1e-3, 1e-2),
            DType::BF16 => (1e-2, 5e-2),
            _ => (0.0, 0.0),
        };
        match (self.snr, self.min_cosine) {
            (Some(snr), _) if dtype.is_float() => Criterion::Snr(snr),
            (None, Some(cosine)) if dtype.is_float() => Criterion::Cosine(cosine),
            (None, None) if dtype.is_float() && self.atol.is_none() && self.rtol.is_none() => match self.declared {
                Some(Allowance::NoiseDb(least)) => Criterion::Snr(least),
                Some(Allowance::Elements { absolute, relative }) => {
                    Criterion::Elements { atol: atol.max(absolute), rtol: rtol.max(relative) }
                }
                None => Criterion::Elements { atol, rtol },
            },
            _ if atol == 0.0 => Criterion::Equal,
            _ => Criterion::Elements { atol: self.atol.unwrap_or(atol), rtol: self.rtol.unwrap_or(rtol) },
        }
    }
}

/// The tolerances of several outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tolerances {
    /// Those of all outputs.
    pub all: Tolerance,
    /// Those of single outputs, by name; each has what it says before what all have.
    pub of_output: BTreeMap<String, Tolerance>,
    /// What backends declare of outputs, by name, where nothing else is given.
    pub declared: BTreeMap<String, Allowance>,
}

impl Tolerances {
    /// That of an output.
    pub fn of(&self, output: &str) -> Tolerance {
        let all = Tolerance { declared: self.declared.get(output).copied().or(self.all.declared), ..self.all };
        let Some(own) = self.of_output.get(output) else { return all };
        Tolerance { atol: own.atol.or(all.atol), rtol: own.rtol.or(all.rtol), ..all }
    }

    /// Errors where one is for an output that is not among these.
    pub fn check<'a>(&self, outputs: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        let unknown = self.of_output.keys().find(|name| !outputs.clone().any(|output| output == *name));
        unknown.map_or(Ok(()), |name| {
            let error = Diagnostic::new(Code::UnknownName, format!("there is no output '{name}' to have a tolerance"));
            Err(error.hint(match closest(name, outputs.clone()) {
                Some(near) => format!("Did you mean '{near}'?"),
                None => format!("The outputs are: {}", outputs.collect::<Vec<_>>().join(", ")),
            }))
        })
    }
}

/// The result of comparing one output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The output.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Its shape.
    pub shape: Vec<i64>,
    /// Whether its elements were compared: there is a reference of its type and shape. If not, all numbers below are 0.
    pub compared: bool,
    /// Largest |a-b| over the elements where both are finite.
    pub max_abs: f64,
    /// Largest |a-b|/|b| over the elements where both are finite and b is not 0.
    pub max_rel: f64,
    /// What decides.
    pub criterion: Criterion,
    /// How alike the two are, of floats of the same shape.
    #[serde(flatten)]
    pub likeness: Option<Likeness>,
    /// Elements that are too far apart.
    pub mismatches: usize,
    /// Elements that are NaN or infinite, and the same in the reference.
    pub non_finite: usize,
    /// Elements that are NaN or infinite in one of the two, and something else in the other. The numbers above leave them out.
    pub non_finite_in_one: usize,
    /// What is wrong, where something is.
    pub problem: Option<String>,
}

impl Comparison {
    /// Compares what came out with what was expected.
    pub fn of(name: &str, found: &Tensor, expected: &Tensor, tolerance: Tolerance) -> Comparison {
        let declared = tolerance.declared.map(|declared| declared.of_elements(found.elements()));
        let tolerance = Tolerance { declared, ..tolerance };
        let mut comparison = Comparison {
            name: name.to_owned(),
            dtype: found.dtype().to_string(),
            shape: found.shape().to_vec(),
            compared: true,
            max_abs: 0.0,
            max_rel: 0.0,
            criterion: tolerance.criterion(found.dtype()),
            likeness: None,
            mismatches: 0,
            non_finite: 0,
            non_finite_in_one: 0,
            problem: None,
        };
        if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
            let ty = |tensor: &Tensor| format!("{}{}", tensor.dtype(), text::shape(tensor.shape()));
            let what = if found.dtype() == expected.dtype() { "shape" } else { "type" };
            comparison.compared = false;
            comparison.problem = Some(format!("{what} {}, expected {}", ty(found), ty(expected)));
            return comparison;
        }
        let (atol, rtol) = match comparison.criterion {
            Criterion::Elements { atol, rtol } => (atol, rtol),
            Criterion::Equal => (0.0, 0.0),
            // What is no number has to be none in both.
            Criterion::Snr(_) | Criterion::Cosine(_) => (f64::INFINITY, 0.0),
        };
        let mut first = None;
        for (index, (a, b)) in found.numbers().zip(expected.numbers()).enumerate() {
            if !comparison.element(a, b, atol, rtol) {
                comparison.mismatches += 1;
                first.get_or_insert((index, a, b));
            }
        }
        for (index, (a, b)) in found.texts().into_iter().zip(expected.texts()).enumerate().filter(|(_, (a, b))| a != b)
        {
            comparison.mismatches += 1;
            let at = text::shape(&found.position(index));
            comparison.problem.get_or_insert_with(|| format!("differ, first {at}: {a:?}, expected {b:?}"));
        }
        if let Some(problem) = &mut comparison.problem {
            *problem = format!("{} of {} {problem}", comparison.mismatches, found.elements());
        }
        if let Some((index, a, b)) = first {
            let at = text::shape(&found.position(index));
            let (count, all) = (comparison.mismatches, found.numbers().len());
            comparison.problem = Some(format!("{count} of {all} differ, first {at}: {a}, expected {b}"));
        }
        comparison.likeness = found.dtype().is_float().then(|| Likeness::of(found, expected));
        if let (Some(likeness), None) = (&comparison.likeness, &comparison.problem) {
            comparison.problem = likeness.problem(comparison.criterion);
        }
        comparison
    }

    /// An output that the reference does not have.
    pub fn without_reference(name: &str, found: &Tensor) -> Comparison {
        let own = Comparison::of(name, found, found, Tolerance::default());
        let problem = Some("the reference has no such output".into());
        Comparison { problem, compared: false, likeness: None, non_finite: 0, ..own }
    }

    /// Whether the output is what was expected.
    pub fn holds(&self) -> bool {
        self.problem.is_none()
    }

    /// Takes one element into account; whether it is near enough.
    fn element(&mut self, a: Number, b: Number, atol: f64, rtol: f64) -> bool {
        if a == b {
            self.non_finite += usize::from(!a.value().is_finite());
            return true;
        }
        let (Number::Single(_) | Number::Double(_), a, b) = (a, a.value(), b.value()) else {
            self.max_abs = self.max_abs.max((a.value() - b.value()).abs());
            return false;
        };
        if !(a.is_finite() && b.is_finite()) {
            let same = a.is_nan() && b.is_nan();
            self.non_finite += usize::from(same);
            self.non_finite_in_one += usize::from(!same);
            return same;
        }
        let apart = (a - b).abs();
        self.max_abs = self.max_abs.max(apart);
        if b != 0.0 {
            self.max_rel = self.max_rel.max(apart / b.abs());
        }
        apart <= atol + rtol * b.abs()
    }
}

/// Compares each output with the expected one of its name.
pub fn compare_all(
    found: &[(String, Tensor)],
    expected: &[(String, Tensor)],
    tolerances: &Tolerances,
) -> Result<Vec<Comparison>> {
    tolerances.check(found.iter().map(|(name, _)| name.as_str()))?;
    if let Some((name, _)) = expected.iter().find(|(name, _)| !found.iter().any(|(other, _)| other == name)) {
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
        let message = format!("there is no output '{name}', which the reference has");
        return Err(Diagnostic::new(Code::UnknownName, message).hint(format!("The outputs are: {}", names.join(", "))));
    }
    let compare = |(name, tensor): &(String, Tensor)| match expected.iter().find(|(other, _)| other == name) {
        Some((_, expected)) => Comparison::of(name, tensor, expected, tolerances.of(name)),
        None => Comparison::without_reference(name, tensor),
    };
    Ok(found.iter().map(compare).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new(DType::F32, vec![values.len() as i64], bytes).expect("a tensor")
    }

    fn compare(found: &[f32], expected: &[f32], atol: f64, rtol: f64) -> Comparison {
        let tolerance = Tolerance { atol: Some(atol), rtol: Some(rtol), ..Tolerance::default() };
        Comparison::of("y", &floats(found), &floats(expected), tolerance)
    }

    #[test]
    fn the_rule_is_absolute_plus_relative_to_the_expected() {
        let inf = f32::INFINITY;
        let cases: [(f32, f32, f64, f64, bool); 8] = [
            (1.0, 1.5, 0.5, 0.0, true),
            (1.0, 1.5, 0.25, 0.0, false),
            (1.0, 2.0, 0.0, 0.5, true),
            (2.0, 1.0, 0.0, 0.5, false),
            (f32::NAN, f32::NAN, 0.0, 0.0, true),
            (f32::NAN, 1.0, 9.0, 9.0, false),
            (inf, inf, 0.0, 0.0, true),
            (inf, -inf, 9.0, 9.0, false),
        ];
        for (found, expected, atol, rtol, holds) in cases {
            assert_eq!(compare(&[found], &[expected], atol, rtol).holds(), holds, "{found} {expected}");
        }
    }

    #[test]
    fn the_worst_and_the_first_mismatch_are_told() {
        let comparison = compare(&[1.0, 2.5, 4.0], &[1.0, 2.0, 3.0], 0.1, 0.0);
        assert_eq!((comparison.max_abs, comparison.max_rel, comparison.mismatches), (1.0, 1.0 / 3.0, 2));
        assert_eq!(comparison.problem.as_deref(), Some("2 of 3 differ, first [1]: 2.5, expected 2"));
    }

    #[test]
    fn integers_are_exact_and_shapes_are_part_of_it() {
        let ints = |value: i64| Tensor::new(DType::I64, vec![], value.to_le_bytes().to_vec()).expect("a tensor");
        let big = 1 << 60;
        let loose = Tolerance { atol: Some(9.0), rtol: Some(9.0), ..Tolerance::default() };
        assert!(Comparison::of("y", &ints(big), &ints(big), loose).holds());
        assert!(!Comparison::of("y", &ints(big), &ints(big + 1), loose).holds());
        let other = Comparison::of("y", &floats(&[1.0]), &floats(&[1.0, 2.0]), loose);
        assert_eq!((other.problem.as_deref(), other.compared), (Some("shape f32[1], expected f32[2]"), false));
        let other = Comparison::of("y", &floats(&[1.0]), &ints(1), loose);
        assert_eq!(other.problem.as_deref(), Some("type f32[1], expected i64[]"));
    }

    #[test]
    fn elements_that_are_no_numbers_in_both_are_counted() {
        let comparison = compare(&[f32::NAN, f32::INFINITY, 1.0], &[f32::NAN, f32::INFINITY, 1.0], 0.0, 0.0);
        assert_eq!((comparison.holds(), comparison.non_finite, comparison.non_finite_in_one), (true, 2, 0));
        let infinite = f32::INFINITY;
        let comparison = compare(&[f32::NAN, 2.0, infinite, 3.0], &[1.0, infinite, -infinite, 3.0], 0.0, 0.0);
        assert_eq!((comparison.holds(), comparison.non_finite, comparison.non_finite_in_one), (false, 0, 3));
    }

    #[test]
    fn noise_and_angle_are_those_of_the_output() {
        let problem = |found: &[f32], tolerance: Tolerance| {
            Comparison::of("y", &floats(found), &floats(&[10.0, 0.0, f32::NAN]), tolerance).problem
        };
        let snr = |least| Tolerance { snr: Some(least), ..Tolerance::default() };
        assert_eq!(problem(&[9.0, 0.0, f32::NAN], snr(20.0)), None);
        assert_eq!(problem(&[9.0, 0.0, f32::NAN], snr(20.5)), Some("20.0 dB above the noise, expected 20.5".into()));
        assert_eq!(problem(&[10.0, 0.0, f32::NAN], snr(1e9)), None);
        let lost = "1 of 3 differ, first [2]: 0, expected NaN";
        assert_eq!(problem(&[10.0, 0.0, 0.0], snr(1.0)), Some(lost.into()));
        let cosine = |least| Tolerance { min_cosine: Some(least), ..Tolerance::default() };
        assert_eq!(problem(&[5.0, 0.0, f32::NAN], cosine(1.0)), None);
        assert_eq!(problem(&[3.0, 4.0, f32::NAN], cosine(0.7)), Some("cosine 0.600000, expected 0.7".into()));
        assert_eq!(problem(&[10.0, 0.0, 0.0], cosine(0.5)), Some(lost.into()));
    }

    #[test]
    fn an_output_may_have_a_tolerance_of_its_own() {
        let own = Tolerance { atol: Some(0.5), ..Tolerance::default() };
        let all = Tolerance { rtol: Some(0.25), ..Tolerance::default() };
        let tolerances = Tolerances { all, of_output: [("y".to_owned(), own)].into(), ..Tolerances::default() };
        assert_eq!(tolerances.of("y").criterion(DType::F32), Criterion::Elements { atol: 0.5, rtol: 0.25 });
        assert_eq!(tolerances.of("z").criterion(DType::F32), Criterion::Elements { atol: 1e-5, rtol: 0.25 });
        assert_eq!(tolerances.of("y").criterion(DType::I64), Criterion::Equal);
        let outputs =
            |names: &'static [&'static str]| tolerances.check(names.iter().copied()).map_err(|it| it.to_string());
        assert_eq!(outputs(&["x", "y"]), Ok(()));
        let message = "[B702] there is no output 'y' to have a tolerance. The outputs are: out";
        assert_eq!(outputs(&["out"]), Err(message.into()));
    }
}
