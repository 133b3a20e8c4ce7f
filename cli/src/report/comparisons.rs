//! Comparisons with a reference as tables: outputs, and regions.

use byoc_tools::compare::{Comparison, Criterion};
use byoc_tools::regions::Checked;
use byoc_tools::text::db;

use super::{Table, Tone, count, format, shape};

/// Most nodes of a region that are listed.
const NODES: usize = 20;

/// The comparisons: what decides and how it ends, the statistics, and what is wrong in a line each.
pub(crate) fn comparisons(comparisons: &[Comparison]) -> String {
    let mut results = Table::new(&["output", "type", "shape", "within", "result"]).tone("result", tone);
    let mut numbers = Table::new(&["output", ">max abs", ">max rel", ">cosine", ">SNR dB", ">top-1", ">top-5"]);
    for comparison in comparisons {
        let Comparison { name, dtype, shape: sizes, max_abs, max_rel, criterion, likeness, .. } = comparison;
        let result = if comparison.holds() { "ok" } else { "differs" };
        results.row([name.clone(), dtype.clone(), shape(sizes), within(*criterion), result.into()]);
        let none = || "-".to_owned();
        let share = |share: Option<f64>| share.map_or_else(none, |share| format!("{:.1}%", 100.0 * share));
        let [cosine, snr] = match likeness {
            // What is no number has neither.
            Some(_) if comparison.non_finite_in_one > 0 => [none(), none()],
            Some(likeness) => [format!("{:.6}", likeness.cosine), format!("{:.1}", likeness.snr)],
            None => [none(), none()],
        };
        let [top_1, top_5] = [likeness.and_then(|it| it.top_1), likeness.and_then(|it| it.top_5)].map(share);
        let [max_abs, max_rel] = [max_abs, max_rel].map(|&value| error(comparison, value));
        numbers.row([name.clone(), max_abs, max_rel, cosine, snr, top_1, top_5]);
    }
    let wrong = comparisons.iter().filter_map(|it| Some(format!("{}: {}\n", it.name, it.problem.as_ref()?)));
    let told: String = wrong.chain(comparisons.iter().filter_map(not_finite)).collect();
    let space = if told.is_empty() { "" } else { "\n" };
    format!("{}\n{}{space}{told}", results.text(), numbers.text())
}

/// An error with three digits; a dash where there was nothing to compare, and infinite where one of the two is no number.
fn error(comparison: &Comparison, value: f64) -> String {
    match (comparison.compared, comparison.non_finite_in_one) {
        (false, _) => "-".into(),
        (true, 0) => scientific(value, 2),
        (true, _) => "inf".into(),
    }
}

fn scientific(value: f64, digits: usize) -> String {
    if value == 0.0 { "0".into() } else { format!("{value:.digits$e}") }
}

/// Elements that agree without being numbers, which statistics leave out.
fn not_finite(comparison: &Comparison) -> Option<String> {
    let Comparison { name, non_finite, .. } = comparison;
    (*non_finite > 0).then(|| format!("{name}: {}, as in the reference\n", format::not_finite(*non_finite)))
}

/// The comparisons in a line each: how they end, and by how much.
pub(crate) fn comparisons_in_short(comparisons: &[Comparison]) -> String {
    let mut table = Table::new(&["output", "result", ">max abs", ">max rel"]).tone("result", tone);
    for comparison in comparisons {
        let result = if comparison.holds() { "ok" } else { "differs" };
        let [max_abs, max_rel] = [comparison.max_abs, comparison.max_rel].map(|value| error(comparison, value));
        table.row([&comparison.name, result, &max_abs, &max_rel]);
    }
    table.text()
}

fn tone(result: &str) -> Option<Tone> {
    match result {
        "ok" => Some(Tone::Good),
        "differs" => Some(Tone::Bad),
        _ => Some(Tone::Warning),
    }
}

/// What decides, in a few characters.
fn within(criterion: Criterion) -> String {
    match criterion {
        Criterion::Elements { atol, rtol } => format!("{}+{}*|b|", tolerance(atol), tolerance(rtol)),
        Criterion::Equal => "equal".into(),
        Criterion::Snr(least) => format!("SNR >= {} dB", db(least)),
        Criterion::Cosine(least) => format!("cosine >= {least}"),
    }
}

/// A tolerance as people write it: `0.1`, `1`, `1e-5`.
fn tolerance(value: f64) -> String {
    if value == 0.0 || (0.01..1e4).contains(&value) { value.to_string() } else { format!("{value:e}") }
}

/// The regions with the worst of their outputs, then why some are not compared.
pub(crate) fn checked_regions(checked: &[Checked]) -> String {
    let headings = ["region", "backend", ">max abs", ">max rel", "within", "result"];
    let mut table = Table::new(&headings).tone("result", tone);
    for row in checked {
        let worst = |of: fn(&Comparison) -> f64| {
            let compared = row.outputs.iter().filter(|output| output.compared);
            let worst = compared
                .max_by(|a, b| (a.non_finite_in_one > 0).cmp(&(b.non_finite_in_one > 0)).then(of(a).total_cmp(&of(b))));
            worst.map_or_else(|| "-".into(), |output| error(output, of(output)))
        };
        let result = match (&row.not_compared, row.holds()) {
            (Some(_), _) => "not compared",
            (None, true) => "ok",
            (None, false) => "differs",
        };
        let decisive = row.outputs.iter().find(|output| !output.holds()).or(row.outputs.first());
        let within = decisive.map_or_else(|| "-".into(), |output| within(output.criterion));
        let (abs, rel) = (worst(|it| it.max_abs), worst(|it| it.max_rel));
        table.row([&row.symbol, &row.backend, &abs, &rel, &within, result]);
    }
    let left_out: Vec<_> = checked.iter().filter_map(|row| Some((row, row.not_compared.as_ref()?))).collect();
    let compared = checked.len() - left_out.len();
    let mut text = table.text();
    if !left_out.is_empty() {
        text += &format!("\n{compared} of {} compared\n", count(checked.len(), "region"));
        text += &left_out.iter().map(|(row, reason)| format!("{}:\n  {reason}\n", row.symbol)).collect::<String>();
    }
    text
}

/// The first region that differs: its nodes, its outputs, what else there is to know, a line each, and the command that writes it as a
/// model.
pub(crate) fn culprit(culprit: &Checked, known: &[String], repro: &str) -> String {
    let Checked { symbol, backend, nodes, outputs, .. } = culprit;
    let mut table = Table::new(&["node", "operator"]);
    nodes.iter().take(NODES).for_each(|node| table.row([&node.name, &node.op]));
    let more = match nodes.len().checked_sub(NODES).filter(|&more| more > 0) {
        Some(more) => format!("and {}; --json has all\n", count(more, "more node")),
        None => String::new(),
    };
    let known: String = known.iter().map(|sentence| format!("\n{sentence}\n")).collect();
    format!(
        "\nThe first that differs is {symbol} of {backend}, {}\n\n{}{more}\n{}{known}\nTo write it as a model of its own:\n{repro}\n",
        count(nodes.len(), "node"),
        table.text(),
        comparisons(outputs),
    )
}

#[cfg(test)]
mod tests {
    use byoc_core::artifact::NodeSummary;
    use byoc_plugin_api::DType;
    use byoc_tools::compare::Tolerance;
    use byoc_tools::tensor::Tensor;

    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new(DType::F32, vec![values.len() as i64], bytes).expect("a tensor")
    }

    fn compared(found: &[f32]) -> Comparison {
        let tolerance = Tolerance { atol: Some(0.1), rtol: Some(0.0), ..Tolerance::default() };
        Comparison::of("y", &floats(found), &floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), tolerance)
    }

    const OUTPUTS: &str = "\
output  type  shape  within     result
y       f32   [6]    0.1+0*|b|  differs

output  max abs  max rel    cosine  SNR dB   top-1   top-5
y        1.00e0  3.33e-1  0.994628    18.6  100.0%  100.0%

y: 2 of 6 differ, first [1]: 2.5, expected 2
";

    #[test]
    fn what_decides_is_told_with_the_statistics() {
        let whole = compared(&[1.0, 2.5, 4.0, 4.0, 5.0, 6.0]);
        assert_eq!(comparisons(&[whole]), OUTPUTS);
        let good = "\
output  type  shape  within     result
y       f32   [6]    0.1+0*|b|  ok

output  max abs  max rel    cosine  SNR dB   top-1   top-5
y             0        0  1.000000     inf  100.0%  100.0%
";
        assert_eq!(comparisons(&[compared(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]), good);
    }

    #[test]
    fn what_was_not_compared_has_no_numbers_and_what_is_no_number_is_told() {
        let other = Comparison::of("y", &floats(&[1.0]), &floats(&[1.0, 2.0]), Tolerance::default());
        let expected = "\
output  type  shape  within         result
y       f32   [1]    1e-5+1e-3*|b|  differs

output  max abs  max rel  cosine  SNR dB  top-1  top-5
y             -        -       -       -      -      -

y: shape f32[1], expected f32[2]
";
        assert_eq!(comparisons(&[other]), expected);
        let nan = floats(&[f32::NAN, 1.0]);
        let same = comparisons(&[Comparison::of("y", &nan, &nan, Tolerance::default())]);
        assert!(same.ends_with("\n\ny: 1 element is NaN or infinite, as in the reference\n"), "{same}");
        let lost = comparisons(&[Comparison::of("y", &nan, &floats(&[1.0, 1.0]), Tolerance::default())]);
        let expected = "\
output  max abs  max rel  cosine  SNR dB  top-1  top-5
y           inf      inf       -       -      -      -

y: 1 of 2 differ, first [0]: NaN, expected 1
";
        assert!(lost.ends_with(expected), "{lost}");
    }

    #[test]
    fn regions_are_a_line_each_and_the_first_that_differs_is_shown() {
        let node = NodeSummary { name: "make_y".into(), op: "Relu".into() };
        let row = |symbol: &str, outputs: Vec<Comparison>, not_compared: Option<&str>| Checked {
            symbol: symbol.into(),
            backend: "gpu".into(),
            nodes: vec![node.clone()],
            outputs,
            not_compared: not_compared.map(str::to_owned),
            inputs: Vec::new(),
        };
        let wrong = row("byoc_main_gpu_1", vec![compared(&[1.0, 2.5, 4.0, 4.0, 5.0, 6.0])], None);
        let rows = [
            row("byoc_main_gpu_0", vec![compared(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])], None),
            wrong.clone(),
            row("byoc_main_gpu_2", Vec::new(), Some("it is in a body")),
        ];
        let expected = "\
region           backend  max abs  max rel  within     result
byoc_main_gpu_0  gpu            0        0  0.1+0*|b|  ok
byoc_main_gpu_1  gpu       1.00e0  3.33e-1  0.1+0*|b|  differs
byoc_main_gpu_2  gpu            -        -  -          not compared

2 of 3 regions compared
byoc_main_gpu_2:
  it is in a body
";
        assert_eq!(checked_regions(&rows), expected);
        let expected = format!(
            "\nThe first that differs is byoc_main_gpu_1 of gpu, 1 node\n\nnode    operator\nmake_y  Relu\n\n{OUTPUTS}\n\
             To write it as a model of its own:\nbyoc repro m.onnx\n"
        );
        assert_eq!(culprit(&wrong, &[], "byoc repro m.onnx"), expected);
    }
}
