//! Results of runs as tables: outputs and devices.

use byoc_core::runtime::DeviceUse;
use byoc_tools::outputs::Summary;

use super::{Table, count, format, shape, short, size};

/// The summaries as a table, with a table of the largest elements below where they are wanted.
pub(crate) fn outputs(summaries: &[Summary]) -> String {
    let mut table = Table::new(&["output", "type", "shape", ">min", ">max", ">mean", "first values"]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), short);
    for summary in summaries {
        table.row([
            summary.name.clone(),
            summary.dtype.clone(),
            shape(&summary.shape),
            number(summary.min),
            number(summary.max),
            number(summary.mean),
            summary.first_text.clone(),
        ]);
    }
    let mut text = table.text();
    for Summary { name, non_finite, .. } in summaries.iter().filter(|summary| summary.non_finite > 0) {
        text += &format!("{name}: {}, and left out of min, max and mean\n", format::not_finite(*non_finite));
    }
    for summary in summaries.iter().filter(|summary| !summary.top.is_empty()) {
        let title = format!("largest of {}", summary.name);
        let with_labels = summary.top.iter().any(|top| top.label.is_some());
        let headings: [&str; 3] = [&title, ">value", "label"];
        let mut table = Table::new(if with_labels { &headings } else { &headings[..2] });
        for top in &summary.top {
            let cells = [shape(&top.position), short(top.value)];
            table.row(cells.into_iter().chain(with_labels.then(|| top.label.clone().unwrap_or_default())));
        }
        text += &format!("\n{}", table.text());
    }
    text
}

/// An entry's use of devices, a line each.
pub(crate) fn devices(devices: &[DeviceUse]) -> String {
    let line = |it: &DeviceUse| {
        let (constants, arena) = (size(it.constant_bytes as u64), size(it.arena_bytes as u64));
        let recordings = match it.recordings {
            0 => String::new(),
            number => format!(", {} replayed", count(number, "recording")),
        };
        let unrecorded: String =
            it.unrecorded.iter().map(|why| format!("{}: not recorded: {why}\n", it.device)).collect();
        format!("{}: constants {constants}, values and scratch {arena}{recordings}\n{unrecorded}", it.device)
    };
    devices.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::DType;
    use byoc_tools::tensor::Tensor;

    use super::*;

    fn floats(values: &[f32]) -> Tensor {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Tensor::new(DType::F32, vec![values.len() as i64], bytes).expect("a tensor")
    }

    #[test]
    fn outputs_are_a_line_each() {
        let found = floats(&[1.0, 2.5, f32::NAN]);
        let expected = "output  type  shape  min  max  mean  first values\n\
                        y       f32   [3]      1  2.5  1.75  1 2.5 NaN\n\
                        y: 1 element is NaN or infinite, and left out of min, max and mean\n\
                        \n\
                        largest of y  value\n\
                        [1]             2.5\n";
        assert_eq!(outputs(&[Summary::of("y", &found, 1)]), expected);
    }

    #[test]
    fn devices_are_a_line_each_with_why_nothing_is_replayed() {
        let mut device = DeviceUse {
            device: "cuda:0".parse().expect("a device"),
            constant_bytes: 1_000_000,
            arena_bytes: 4096,
            recordings: 1,
            unrecorded: Vec::new(),
        };
        let line = "cuda:0: constants 976.6 KiB, values and scratch 4.0 KiB";
        assert_eq!(super::devices(std::slice::from_ref(&device)), format!("{line}, 1 recording replayed\n"));
        device.recordings = 0;
        device.unrecorded.push("the queue is busy".into());
        let expected = format!("{line}\ncuda:0: not recorded: the queue is busy\n");
        assert_eq!(super::devices(&[device]), expected);
    }
}
