//! Where the time of runs went, as tables: steps, their sums, regions, copies; the longest first.

use std::time::Duration;

use byoc_core::runtime::{RegionTime, StepTime, Work};
use byoc_tools::ceilings::Ceilings;
use byoc_tools::execution::Profile;

use super::{Table, count, duration, size};

/// Most steps that are listed.
const STEPS: usize = 40;

/// Most nodes of a step that are named.
const NODES: usize = 3;

/// A row of the first table.
struct Row<'a> {
    step: &'a str,
    node: String,
    backend: &'a str,
    time: Duration,
    work: Work,
}

/// What a table shows of times: rates only where some step tells its work.
struct Cells {
    total: Duration,
    rates: bool,
}

impl Cells {
    /// The head of a table.
    fn head(&self, first: &[&'static str]) -> Vec<&'static str> {
        let rates: &[_] = if self.rates { &[">Gop/s", ">GB/s"] } else { &[] };
        [first, &[">time"], rates, &[">share"]].concat()
    }

    /// The cells of a time of this work.
    fn row(&self, time: Duration, work: Work) -> Vec<String> {
        let rates = [work.operations, work.bytes].map(|work| rate(work, time));
        let rates = if self.rates { &rates[..] } else { &[] };
        [&[duration(time)], rates, &[self.share(time)]].concat()
    }

    fn share(&self, time: Duration) -> String {
        let share = if self.total.is_zero() { 0.0 } else { 100.0 * time.as_secs_f64() / self.total.as_secs_f64() };
        format!("{share:.1}%")
    }
}

/// 10^9 a second, where it is told.
fn rate(work: u64, time: Duration) -> String {
    match work as f64 / time.as_secs_f64() / 1e9 {
        rate if !rate.is_finite() || work == 0 => "-".into(),
        rate if rate < 10.0 => format!("{rate:.2}"),
        rate if rate < 100.0 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

/// The tables. Shares are of all that regions and copies took.
pub(crate) fn profile(profile: &Profile) -> String {
    let mut text = String::new();
    let steps = rows(profile);
    let rates = steps.iter().any(|step| step.work != Work::default());
    let of_steps = Cells { total: profile.total(), rates };
    let cells = |time: Duration| [duration(time), of_steps.share(time)];
    if !steps.is_empty() {
        let mut table = Table::new(&of_steps.head(&["step", "node", "backend"]));
        for row in steps.iter().take(STEPS) {
            let names = [row.step, &row.node, row.backend].map(str::to_owned);
            table.row(names.into_iter().chain(of_steps.row(row.time, row.work)));
        }
        text += &table.text();
        if let Some(rest) = steps.get(STEPS..).filter(|rest| !rest.is_empty()) {
            let [time, share] = cells(rest.iter().map(|row| row.time).sum());
            text += &format!("and {}, {time}, {share}; --json has all\n", count(rest.len(), "more step"));
        }
        let mut table = Table::new(&of_steps.head(&["operator", "backend", ">steps"]));
        for sum in profile.operators() {
            let names = [sum.operator, sum.backend, sum.steps.to_string()];
            table.row(names.into_iter().chain(of_steps.row(sum.time, sum.work)));
        }
        for (backend, rest) in rests(profile) {
            let names = ["(rest of the regions)", backend, "-"].map(str::to_owned);
            table.row(names.into_iter().chain(of_steps.row(rest, Work::default())));
        }
        text += &format!("\n{}", table.text());
        let mut table = Table::new(&["backend", ">regions", ">time", ">share"]);
        for sum in profile.backends() {
            let [time, share] = cells(sum.time);
            table.row([&sum.backend, &sum.regions.to_string(), &time, &share]);
        }
        text += &format!("\n{}\n", table.text());
    }
    let mut regions: Vec<_> = profile.regions.iter().collect();
    regions.sort_by_key(|region| std::cmp::Reverse(region.time));
    let mut table = Table::new(&["region", "backend", ">time", ">share"]);
    for region in regions {
        let [time, share] = cells(region.time);
        table.row([&region.symbol, &region.backend, &time, &share]);
    }
    text += &table.text();
    if !profile.copies.is_empty() {
        let mut table = Table::new(&["copy of", "from", "to", ">size", ">time", ">share"]);
        for copy in &profile.copies {
            let [time, share] = cells(copy.time);
            table.row([&copy.value, &copy.from, &copy.to, &size(copy.bytes), &time, &share]);
        }
        text += &format!("\n{}", table.text());
    }
    text
}

/// What rates are held against, where some are shown.
pub(crate) fn ceilings(profile: &Profile, most: Ceilings) -> String {
    if profile.steps().iter().all(|(_, step)| step.work == Work::default()) {
        return String::new();
    }
    let Ceilings { threads, operations_per_second, bytes_per_second } = most;
    let [operations, bytes] =
        [operations_per_second, bytes_per_second].map(|most| rate(most as u64, Duration::from_secs(1)));
    let threads = count(threads, "thread");
    format!("\nceilings of {threads}: {operations} Gop/s of f32, {bytes} GB/s from memory\n")
}

/// Every step, and for each region with steps what none of them took; the longest first.
fn rows<'a>(profile: &'a Profile) -> Vec<Row<'a>> {
    let of_step = |(region, step): (&'a RegionTime, &'a StepTime)| Row {
        step: &step.kernel,
        node: nodes(&step.nodes),
        backend: &region.backend,
        time: step.time,
        work: step.work,
    };
    let mut rows: Vec<Row<'a>> = profile.steps().into_iter().map(of_step).collect();
    let regions = profile.regions.iter().filter_map(|region| Some((region, rest(region)?)));
    rows.extend(regions.map(|(region, time)| Row {
        step: "(rest of the region)",
        node: region.symbol.clone(),
        backend: &region.backend,
        time,
        work: Work::default(),
    }));
    // A stable sort: equal times stay in the order of the run.
    rows.sort_by_key(|row| std::cmp::Reverse(row.time));
    rows
}

/// What a region took beside its steps, where it tells them.
fn rest(region: &RegionTime) -> Option<Duration> {
    let steps = region.steps.iter().map(|step| step.time).sum();
    region.time.checked_sub(steps).filter(|rest| !region.steps.is_empty() && !rest.is_zero())
}

/// The same by backend.
fn rests(profile: &Profile) -> Vec<(&str, Duration)> {
    let mut sums: Vec<(&str, Duration)> = Vec::new();
    for (region, rest) in profile.regions.iter().filter_map(|region| Some((region, rest(region)?))) {
        match sums.iter_mut().find(|(backend, _)| *backend == region.backend) {
            Some((_, sum)) => *sum += rest,
            None => sums.push((&region.backend, rest)),
        }
    }
    sums
}

/// The nodes that a step computes together.
fn nodes(nodes: &[String]) -> String {
    let shown = nodes[..nodes.len().min(NODES)].join(", ");
    match nodes.len() {
        0 => "-".into(),
        all if all > NODES => format!("{shown} +{}", all - NODES),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use byoc_core::runtime::CopyTime;

    use super::*;

    fn step(kernel: &str, operator: &str, nodes: &[&str], millis: u64) -> StepTime {
        StepTime {
            kernel: kernel.into(),
            operator: operator.into(),
            nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
            time: Duration::from_millis(millis),
            work: Work::default(),
        }
    }

    fn region(symbol: &str, millis: u64, steps: Vec<StepTime>) -> RegionTime {
        RegionTime { symbol: symbol.into(), backend: "gpu".into(), time: Duration::from_millis(millis), steps }
    }

    #[test]
    fn the_longest_comes_first_and_sums_follow() {
        let steps = vec![step("unary", "Relu", &["r"], 1), step("conv", "Conv", &["block/Conv", "relu"], 3)];
        let copy = CopyTime {
            value: "x".into(),
            from: "host".into(),
            to: "cuda:0".into(),
            bytes: 2000,
            time: Duration::from_millis(3),
        };
        let regions = vec![region("r0", 2, Vec::new()), region("r1", 5, steps)];
        let both = Profile { regions, copies: vec![copy], spans: Vec::new() };
        let expected = "\
step                  node              backend     time  share
conv                  block/Conv, relu  gpu      3.00 ms  30.0%
unary                 r                 gpu      1.00 ms  10.0%
(rest of the region)  r1                gpu      1.00 ms  10.0%

operator               backend  steps     time  share
Conv                   gpu          1  3.00 ms  30.0%
Relu                   gpu          1  1.00 ms  10.0%
(rest of the regions)  gpu          -  1.00 ms  10.0%

backend  regions     time  share
gpu            2  7.00 ms  70.0%

region  backend     time  share
r1      gpu      5.00 ms  50.0%
r0      gpu      2.00 ms  20.0%

copy of  from  to         size     time  share
x        host  cuda:0  2.0 KiB  3.00 ms  30.0%
";
        assert_eq!(profile(&both), expected);
        let on_host = Profile { regions: vec![region("r0", 0, Vec::new())], ..Profile::default() };
        assert_eq!(profile(&on_host), "region  backend     time  share\nr0      gpu      0.00 µs   0.0%\n");
    }

    #[test]
    fn rates_are_shown_where_work_is_told() {
        let conv =
            StepTime { work: Work { operations: 345_600_000, bytes: 12_000_000 }, ..step("conv", "Conv", &["c"], 3) };
        let relu = StepTime { work: Work { operations: 0, bytes: 250_000_000 }, ..step("unary", "Relu", &["r"], 1) };
        let told = Profile { regions: vec![region("r0", 5, vec![conv, relu])], ..Profile::default() };
        let expected = "\
step                  node  backend     time  Gop/s  GB/s  share
conv                  c     gpu      3.00 ms    115  4.00  60.0%
unary                 r     gpu      1.00 ms      -   250  20.0%
(rest of the region)  r0    gpu      1.00 ms      -     -  20.0%

operator               backend  steps     time  Gop/s  GB/s  share
Conv                   gpu          1  3.00 ms    115  4.00  60.0%
Relu                   gpu          1  1.00 ms      -   250  20.0%
(rest of the regions)  gpu          -  1.00 ms      -     -  20.0%
";
        let text = profile(&told);
        assert_eq!(text.split_once("\nbackend").map(|(tables, _)| tables), Some(expected));
        assert_eq!([rate(1, Duration::ZERO), rate(55_500_000, Duration::from_millis(1))], ["-", "55.5"]);
    }

    #[test]
    fn ceilings_are_shown_beside_rates() {
        let most = Ceilings { threads: 2, operations_per_second: 262.4e9, bytes_per_second: 40.25e9 };
        let told = StepTime { work: Work { operations: 1, bytes: 0 }, ..step("conv", "Conv", &["c"], 3) };
        let told = Profile { regions: vec![region("r0", 5, vec![told])], ..Profile::default() };
        let expected = "\nceilings of 2 threads: 262 Gop/s of f32, 40.2 GB/s from memory\n";
        assert_eq!(ceilings(&told, most), expected);
        let untold =
            Profile { regions: vec![region("r0", 5, vec![step("conv", "Conv", &["c"], 3)])], ..Profile::default() };
        assert_eq!(ceilings(&untold, most), "");
    }

    #[test]
    fn of_many_steps_the_longest_are_listed() {
        let steps = (0..50).map(|index| step("unary", "Relu", &["a", "b", "c", "d"], index)).collect();
        let many = Profile { regions: vec![region("r0", 1225, steps)], ..Profile::default() };
        let text = profile(&many);
        assert!(text.contains("\nunary  a, b, c +1  gpu "), "{text}");
        assert!(text.contains("\nand 10 more steps, 45.0 ms, 3.7%; --json has all\n"), "{text}");
    }
}
