//! Results of runs as tables: outputs and times.

use std::time::Duration;

use byoc_core::runtime::DeviceUse;
use byoc_tools::execution::Profile;
use byoc_tools::outputs::Summary;

use super::{Table, count, duration, shape, short, size};

/// The summaries as a table, with a table of the largest elements below where they are wanted.
pub(crate) fn outputs(summaries: &[Summary]) -> String {
    let mut table = Table::new(&["output", "type", "shape", ">min", ">max", ">mean", "first values"]);
    let number = |value: Option<f64>| value.map_or_else(|| "-".into(), short);
    for summary in summaries {
        let odd = match summary.non_finite {
            0 => String::new(),
            count => format!("  ({count} not finite)"),
        };
        table.row([
            summary.name.clone(),
            summary.dtype.clone(),
            shape(&summary.shape),
            number(summary.min),
            number(summary.max),
            number(summary.mean),
            format!("{}{odd}", summary.first_text),
        ]);
    }
    let mut text = table.text();
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

/// The times as a table: regions in their order, then what was copied between memories.
pub(crate) fn profile(profile: &Profile) -> String {
    let times = profile.regions.iter().map(|region| region.time);
    let total: Duration = times.chain(profile.copies.iter().map(|copy| copy.time)).sum();
    let cells = |time: Duration| {
        let share = if total.is_zero() { 0.0 } else { 100.0 * time.as_secs_f64() / total.as_secs_f64() };
        [duration(time), format!("{share:.1}%")]
    };
    let mut table = Table::new(&["region", "backend", ">time", ">share"]);
    for region in &profile.regions {
        let [duration, share] = cells(region.time);
        table.row([&region.symbol, &region.backend, &duration, &share]);
    }
    let mut text = table.text();
    if !profile.copies.is_empty() {
        let mut table = Table::new(&["copy of", "from", "to", ">size", ">time", ">share"]);
        for copy in &profile.copies {
            let [duration, share] = cells(copy.time);
            table.row([&copy.value, &copy.from, &copy.to, &size(copy.bytes), &duration, &share]);
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
    use byoc_core::runtime::{CopyTime, RegionTime};
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
                        y       f32   [3]      1  2.5  1.75  1 2.5 NaN  (1 not finite)\n\
                        \n\
                        largest of y  value\n\
                        [1]             2.5\n";
        assert_eq!(outputs(&[Summary::of("y", &found, 1)]), expected);
    }

    #[test]
    fn the_profile_shows_shares() {
        let region = |(symbol, millis): (&str, u64)| RegionTime {
            symbol: symbol.into(),
            backend: "gpu".into(),
            time: Duration::from_millis(millis),
        };
        let (value, from, to) = ("x".into(), "host".into(), "cuda:0".into());
        let both = Profile {
            regions: [("r0", 2), ("r1", 4)].map(region).into(),
            copies: vec![CopyTime { value, from, to, bytes: 2000, time: Duration::from_millis(2) }],
        };
        let expected = "region  backend     time  share\n\
                        r0      gpu      2.00 ms  25.0%\n\
                        r1      gpu      4.00 ms  50.0%\n\
                        \n\
                        copy of  from  to         size     time  share\n\
                        x        host  cuda:0  2.0 KiB  2.00 ms  25.0%\n";
        assert_eq!(profile(&both), expected);
        let on_host = Profile { regions: vec![region(("r0", 0))], copies: Vec::new() };
        assert_eq!(profile(&on_host), "region  backend     time  share\nr0      gpu      0.00 µs   0.0%\n");
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
