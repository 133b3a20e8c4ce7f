//! The outputs of a run: summed up for people, and copied out for files and comparisons.

use byoc_core::diagnostic::{Code, Result};
use byoc_core::runtime::{PortInfo, Session};
use byoc_tools::tensor::{Number, Tensor};
use serde::Serialize;

use crate::report::{self, Table};

/// How many elements of an output are shown.
const SHOWN: usize = 5;

/// What is told of one output.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    name: String,
    dtype: String,
    shape: Vec<i64>,
    /// Over the elements that are numbers; none where there is no such element.
    min: Option<f64>,
    max: Option<f64>,
    mean: Option<f64>,
    /// Elements that are not numbers or infinite.
    non_finite: usize,
    first: Vec<serde_json::Value>,
    #[serde(skip)]
    first_text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    top: Vec<Top>,
}

/// One of the largest elements.
#[derive(Debug, Serialize)]
pub(crate) struct Top {
    position: Vec<usize>,
    value: f64,
}

/// Copies of the outputs of the last run, by name.
pub(crate) fn collect(session: &Session) -> Result<Vec<(String, Tensor)>> {
    let copy = |(index, port): (usize, PortInfo)| {
        let view = session.output(index)?;
        let title = || format!("the copy of output '{}' {}{}", port.name, port.dtype, report::shape(view.shape()));
        let tensor = Tensor::copy(&view).map_err(|shortage| shortage.diagnostic(Code::RunFailed, title()))?;
        Ok((port.name, tensor))
    };
    session.outputs().into_iter().enumerate().map(copy).collect()
}

impl Summary {
    /// Looks at every element; `top` is how many of the largest are wanted.
    pub(crate) fn of(name: &str, tensor: &Tensor, top: usize) -> Summary {
        let (mut count, mut sum) = (0usize, 0.0);
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        tensor.each_value(|value| {
            if value.is_finite() {
                count += 1;
                sum += value;
                (min, max) = (min.min(value), max.max(value));
            }
        });
        let of_numbers = |value: f64| (count > 0).then_some(value);
        let first: Vec<_> = tensor.numbers().take(SHOWN).collect();
        let texts: Vec<_> = first.iter().map(Number::to_string).collect();
        let more = if tensor.numbers().len() > SHOWN { " ..." } else { "" };
        Summary {
            name: name.to_owned(),
            dtype: tensor.dtype().to_string(),
            shape: tensor.shape().to_vec(),
            min: of_numbers(min),
            max: of_numbers(max),
            mean: of_numbers(sum / count as f64),
            non_finite: tensor.numbers().len() - count,
            first: first.iter().map(|number| number.json()).collect(),
            first_text: format!("{}{more}", texts.join(" ")),
            top: largest(tensor, top),
        }
    }
}

/// The `count` largest elements, the largest first; of equal ones the first first.
fn largest(tensor: &Tensor, count: usize) -> Vec<Top> {
    if count == 0 {
        return Vec::new();
    }
    // Never many more than are wanted: there may be more elements than memory for a list of them.
    let mut found: Vec<(usize, f64)> = Vec::new();
    let keep_largest = |found: &mut Vec<(usize, f64)>| {
        found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        found.truncate(count);
    };
    for (index, value) in tensor.numbers().map(Number::value).enumerate().filter(|(_, value)| !value.is_nan()) {
        found.push((index, value));
        if found.len() / 2 > count {
            keep_largest(&mut found);
        }
    }
    keep_largest(&mut found);
    found.into_iter().map(|(index, value)| Top { position: tensor.position(index), value }).collect()
}

/// The summaries as a table, with a table of the largest elements below where they are wanted.
pub(crate) fn table(summaries: &[Summary]) -> String {
    let mut table = Table::new(&["output", "type", "shape", ">min", ">max", ">mean", "first values"]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), report::short);
    for summary in summaries {
        let odd = match summary.non_finite {
            0 => String::new(),
            count => format!("  ({count} not finite)"),
        };
        table.row([
            summary.name.clone(),
            summary.dtype.clone(),
            report::shape(&summary.shape),
            number(summary.min),
            number(summary.max),
            number(summary.mean),
            format!("{}{odd}", summary.first_text),
        ]);
    }
    let mut text = table.text();
    for summary in summaries.iter().filter(|summary| !summary.top.is_empty()) {
        let mut table = Table::new(&[&format!("largest of {}", summary.name), ">value"]);
        for top in &summary.top {
            table.row([report::shape(&top.position), report::short(top.value)]);
        }
        text += &format!("\n{}", table.text());
    }
    text
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::DType;

    use super::*;

    #[test]
    fn a_summary_leaves_out_what_is_no_number() {
        let values = [1f32, f32::NAN, 3.0, f32::INFINITY, -1.0, 2.0];
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let tensor = Tensor::new(DType::F32, vec![2, 3], bytes).expect("a tensor");
        let summary = Summary::of("y", &tensor, 2);
        assert_eq!(
            (summary.min, summary.max, summary.mean, summary.non_finite),
            (Some(-1.0), Some(3.0), Some(1.25), 2)
        );
        assert_eq!(summary.first_text, "1 NaN 3 inf -1 ...");
        let top: Vec<_> = summary.top.iter().map(|top| top.position.clone()).collect();
        assert_eq!(top, [[1, 0], [0, 2]]);
        let text = table(&[Summary::of("y", &tensor, 0)]);
        let expected = "output  type  shape  min  max  mean  first values\n\
                        y       f32   [2,3]   -1    3  1.25  1 NaN 3 inf -1 ...  (2 not finite)\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_empty_output_has_no_numbers() {
        let tensor = Tensor::new(DType::I64, vec![0], vec![]).expect("a tensor");
        let summary = Summary::of("y", &tensor, 3);
        assert_eq!((summary.min, summary.mean, summary.first_text.as_str()), (None, None, ""));
    }
}
