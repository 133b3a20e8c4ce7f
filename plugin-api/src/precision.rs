//! How near to exact the results of a backend are that computes with fewer bits than a model has: what it declares, and
//! what that allows a region.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::region::Region;

/// What a backend promises of the results of some operators. End a literal with `..Precision::default()`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Precision {
    /// The operators, as `Conv` or `com.acme::Scale`; all where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ops: Vec<String>,
    /// The element types of their results; all floats where none is named. Names that a reader does not know are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "known_types")]
    pub dtypes: Vec<DType>,
    /// The greatest difference in proportion to the exact value, beside [`Precision::absolute`].
    #[serde(default, skip_serializing_if = "is_zero")]
    pub relative: f64,
    /// The greatest difference in the values' own unit: `|a - b| <= absolute + relative * |b|`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub absolute: f64,
    /// In place of the other two: the least ratio of signal to noise of a whole tensor, in dB,
    /// `10 * log10(sum(b * b) / sum((a - b) * (a - b)))`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_db: Option<f64>,
}

/// How far the results of a region, or of several, may be off.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowance {
    /// Of every element.
    Elements {
        /// In the values' own unit.
        absolute: f64,
        /// In proportion to the exact value.
        relative: f64,
    },
    /// Of the whole tensor: the least ratio of signal to noise, in dB.
    NoiseDb(f64),
}

/// A tensor of fewer elements has no mean to speak of.
const FEW: usize = 32;

/// The most that a ratio of signal to noise is said to be: no float is nearer.
const MOST_DB: f64 = 300.0;

/// Those that this version knows. A row that is about others alone is about nothing here: no arithmetic gives texts.
fn known_types<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<DType>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let known: Vec<_> = names.iter().filter_map(|name| DType::from_name(name)).collect();
    Ok(if known.is_empty() && !names.is_empty() { vec![DType::String] } else { known })
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Precision {
    /// Whether it is about results of that type of that operator.
    fn is_about(&self, domain: &str, op: &str, dtype: DType) -> bool {
        let is_op = |name: &String| match name.split_once("::") {
            Some((of, name)) => of == domain && name == op,
            None => domain.is_empty() && name == op,
        };
        let is_type = if self.dtypes.is_empty() { dtype.is_float() } else { self.dtypes.contains(&dtype) };
        is_type && (self.ops.is_empty() || self.ops.iter().any(is_op))
    }

    /// Whether it says something that can be kept to: a number that is finite, none below 0, and no more than 300 dB.
    pub fn is_valid(&self) -> bool {
        let says_something = self.noise_db.is_some() || self.relative > 0.0 || self.absolute > 0.0;
        let is_fraction = |value: f64| value.is_finite() && value >= 0.0;
        let is_ratio = |value: f64| (0.0..=MOST_DB).contains(&value);
        says_something && is_fraction(self.relative) && is_fraction(self.absolute) && self.noise_db.is_none_or(is_ratio)
    }

    /// What it allows.
    pub fn allowance(&self) -> Allowance {
        match self.noise_db {
            Some(least) => Allowance::NoiseDb(least),
            None => Allowance::Elements { absolute: self.absolute, relative: self.relative },
        }
    }

    /// What these declarations, of which the first that fits a node counts, allow the results of a region: the errors of its
    /// nodes add up. `None` where none fits any node.
    pub fn of_region(declared: &[Precision], region: &Region) -> Option<Allowance> {
        let of_node = |node: &crate::region::Node| {
            let dtype = node.outputs.iter().flatten().next().map(|&value| region.values[value].dtype)?;
            declared.iter().find(|it| it.is_about(&node.domain, &node.op, dtype)).map(Precision::allowance)
        };
        region.nodes.iter().filter_map(of_node).reduce(Allowance::and)
    }
}

impl Allowance {
    /// That of two computations, one behind the other. Differences add up, and so does the power of noise, which a difference
    /// in proportion to the values is as well.
    pub fn and(self, other: Allowance) -> Allowance {
        match (self, other) {
            (
                Allowance::Elements { absolute, relative },
                Allowance::Elements { absolute: more_absolute, relative: more_relative },
            ) => Allowance::Elements {
                absolute: (absolute + more_absolute).min(f64::MAX),
                relative: (relative + more_relative).min(f64::MAX),
            },
            (left, right) => {
                let power = left.noise_power() + right.noise_power();
                Allowance::NoiseDb((-10.0 * power.log10()).clamp(0.0, MOST_DB))
            }
        }
    }

    /// That of a tensor of so many elements. Noise is a mean, and few elements may be far from it: a tensor of fewer than 32 may be
    /// nearer to the noise, by as much as 32 times the power for a single one.
    pub fn of_elements(self, count: usize) -> Allowance {
        match self {
            Allowance::NoiseDb(least) if count < FEW => {
                Allowance::NoiseDb((least - 10.0 * (FEW as f64 / count.max(1) as f64).log10()).max(0.0))
            }
            other => other,
        }
    }

    /// Power of noise over that of the signal.
    fn noise_power(self) -> f64 {
        match self {
            Allowance::Elements { relative, .. } => relative * relative,
            Allowance::NoiseDb(least) => 10f64.powf(-least / 10.0),
        }
    }
}

impl std::fmt::Display for Allowance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Allowance::Elements { absolute, relative } => {
                write!(f, "{relative} of each value and {absolute} beside it")
            }
            Allowance::NoiseDb(least) => write!(f, "{least:.1} dB above the noise"),
        }
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let types: Vec<_> = self.dtypes.iter().map(ToString::to_string).collect();
        let types = if types.is_empty() { String::new() } else { format!(" of {}", types.join(", ")) };
        let ops = if self.ops.is_empty() { "all operators".to_owned() } else { self.ops.join(", ") };
        write!(f, "{ops}{types}: {}", self.allowance())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{Node, Value};

    fn region(ops: &[&str]) -> Region {
        let value = Value { name: "v".into(), dtype: DType::F32, shape: Vec::new() };
        let node = |op: &&str| Node { op: (*op).to_owned(), outputs: vec![Some(0)], ..Node::default() };
        Region { values: vec![value], nodes: ops.iter().map(node).collect(), ..Region::default() }
    }

    #[test]
    fn errors_of_nodes_add_up_and_the_first_row_counts() {
        let row = |ops: &[&str], relative| Precision {
            ops: ops.iter().map(|&op| op.to_owned()).collect(),
            relative,
            absolute: 0.5,
            ..Precision::default()
        };
        let declared = [row(&["Conv"], 0.25), row(&["Conv", "Gemm"], 1.0)];
        let allowed = |ops: &[&str]| Precision::of_region(&declared, &region(ops));
        assert_eq!(allowed(&["Relu"]), None);
        let elements = |relative, absolute| Some(Allowance::Elements { relative, absolute });
        assert_eq!(allowed(&["Conv", "Relu"]), elements(0.25, 0.5));
        assert_eq!(allowed(&["Conv", "Gemm", "Conv"]), elements(1.5, 1.5));
        let integers = [Precision { dtypes: vec![DType::I8], ..row(&[], 1.0) }];
        assert_eq!(Precision::of_region(&integers, &region(&["Conv"])), None);
    }

    #[test]
    fn noise_adds_up_by_its_power() {
        let noise = Allowance::NoiseDb;
        let Allowance::NoiseDb(both) = noise(40.0).and(noise(40.0)) else { panic!("noise") };
        assert!((both - 36.99).abs() < 0.01, "{both}");
        let Allowance::NoiseDb(both) = noise(80.0).and(Allowance::Elements { absolute: 1.0, relative: 0.01 }) else {
            panic!("noise")
        };
        assert!((both - 40.0).abs() < 0.01, "{both}");
    }

    #[test]
    fn few_elements_have_no_mean() {
        let of = |count| match Allowance::NoiseDb(40.0).of_elements(count) {
            Allowance::NoiseDb(least) => (least * 100.0).round() / 100.0,
            Allowance::Elements { .. } => panic!("noise"),
        };
        assert_eq!([of(0), of(1), of(16), of(32), of(1000)], [24.95, 24.95, 36.99, 40.0, 40.0]);
        let elements = Allowance::Elements { absolute: 1.0, relative: 0.5 };
        assert_eq!(elements.of_elements(1), elements);
    }

    #[test]
    fn a_row_says_something() {
        assert!(!Precision::default().is_valid());
        assert!(Precision { absolute: 0.5, ..Precision::default() }.is_valid());
        assert!(!Precision { noise_db: Some(301.0), ..Precision::default() }.is_valid());
    }

    #[test]
    fn it_is_a_line_for_people() {
        let conv = Precision { ops: vec!["Conv".into()], relative: 0.01, absolute: 0.001, ..Precision::default() };
        assert_eq!(conv.to_string(), "Conv: 0.01 of each value and 0.001 beside it");
        let noise = Precision { dtypes: vec![DType::F32, DType::F16], noise_db: Some(40.0), ..Precision::default() };
        assert_eq!(noise.to_string(), "all operators of f32, f16: 40.0 dB above the noise");
    }
}
