//! The report of a measurement in words: no line is wider than 80 columns.

use byoc_tools::process_memory::PeakMemory;
use byoc_tools::statistics::{Percentile, Statistics};

use super::record::Record;
use crate::execution;
use crate::report::{self, Table, count, duration, seconds, size};

/// All of it.
pub(super) fn text(record: &Record<'_>) -> String {
    let Record { args, measured, .. } = record;
    let mut text = String::new();
    if measured.interrupted {
        text += &format!("interrupted after {}\n", count(measured.samples.len(), "run"));
    }
    if let Some(sorted) = measured.sorted() {
        let all = sorted.statistics();
        text += &match args.streams {
            1 => one(&all),
            streams => several((0..streams.into()).map(|stream| measured.of_stream(stream)), &all),
        };
        text += &percentiles(&record.percentiles(&sorted));
        let rate = rate(measured.runs_per_second());
        let at_once = if args.streams > 1 {
            format!(", {} at once", count(args.streams.into(), "session"))
        } else {
            String::new()
        };
        text += &format!("throughput {rate} runs/s over {}{at_once}\n", duration(measured.elapsed));
    }
    text += &format!("load {}, first run {}\n", duration(record.load_time), duration(measured.first));
    text += &memory(record.memory.as_ref(), record.arena);
    text += &execution::made_up(&args.execution, &record.made_up);
    text += &report::devices(&record.devices);
    if args.profile {
        text += &format!("\n{}", report::profile(&measured.profile));
        text += &record.ceilings.map_or_else(String::new, |most| report::ceilings(&measured.profile, most));
    }
    text
}

fn one(all: &Statistics) -> String {
    let mut table = Table::new(&[">runs", ">mean", ">stddev", ">median", ">p90", ">p95", ">p99", ">min", ">max"]);
    let Statistics { runs, mean, stddev, median, p90, p95, p99, min, max } = *all;
    let times = [mean, stddev, median, p90, p95, p99, min, max].map(seconds);
    table.row([runs.to_string()].into_iter().chain(times));
    table.text()
}

/// A row for each session, and one for all runs.
fn several(streams: impl Iterator<Item = Option<Statistics>>, all: &Statistics) -> String {
    let mut table = Table::new(&["stream", ">runs", ">mean", ">stddev", ">median", ">p95", ">p99", ">min", ">max"]);
    let mut row = |name: String, of: Option<Statistics>| {
        let times = of.map(|it| [it.mean, it.stddev, it.median, it.p95, it.p99, it.min, it.max].map(seconds));
        let runs = of.map_or(0, |it| it.runs).to_string();
        table.row([name, runs].into_iter().chain(times.into_iter().flatten()));
    };
    streams.enumerate().for_each(|(index, of)| row(index.to_string(), of));
    row("all".to_owned(), Some(*all));
    table.text()
}

fn percentiles(percentiles: &[Percentile]) -> String {
    percentiles.iter().map(|it| format!("p{} {}\n", it.percent, seconds(it.seconds))).collect()
}

/// Runs in a second, with three digits where they are few.
fn rate(runs: f64) -> String {
    match runs {
        r if r >= 100.0 => format!("{r:.0}"),
        r if r >= 10.0 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

fn memory(memory: Option<&PeakMemory>, arena: u64) -> String {
    match memory {
        Some(PeakMemory { peak, mapped, arena, other }) => format!(
            "peak memory {}: mapped file {}, values between regions {},\n  other {} (program, code and values inside regions, inputs, outputs)\n",
            size(*peak),
            size(*mapped),
            size(*arena),
            size(*other)
        ),
        None => format!("peak memory not known, values between regions {}\n", size(arena)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDEST: Statistics = Statistics {
        runs: 123_456,
        mean: 0.0123,
        stddev: 0.00123,
        median: 0.0123,
        p90: 0.0123,
        p95: 0.0123,
        p99: 0.0123,
        min: 0.0123,
        max: 0.0123,
    };

    #[test]
    fn tables_fit_into_80_columns() {
        let text = one(&WIDEST);
        let expected = "  runs     mean   stddev   median      p90      p95      p99      min      max\n\
                        123456  12.3 ms  1.23 ms  12.3 ms  12.3 ms  12.3 ms  12.3 ms  12.3 ms  12.3 ms\n";
        assert_eq!(text, expected);
        let text = several([Some(WIDEST), None].into_iter(), &WIDEST);
        let expected = "stream    runs     mean   stddev   median      p95      p99      min      max\n\
                        0       123456  12.3 ms  1.23 ms  12.3 ms  12.3 ms  12.3 ms  12.3 ms  12.3 ms\n\
                        1            0\n\
                        all     123456  12.3 ms  1.23 ms  12.3 ms  12.3 ms  12.3 ms  12.3 ms  12.3 ms\n";
        assert_eq!(text, expected);
        let memory = memory(Some(&PeakMemory { peak: 1 << 40, mapped: 1 << 39, arena: 1 << 39, other: 999 << 20 }), 0);
        assert_eq!(
            memory,
            "peak memory 1.0 TiB: mapped file 512.0 GiB, values between regions 512.0 GiB,\n  other 999.0 MiB (program, code and values inside regions, inputs, outputs)\n"
        );
        assert!(text.lines().chain(expected.lines()).chain(memory.lines()).all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([rate(1234.5), rate(12.34), rate(0.1234)], ["1234", "12.3", "0.12"]);
        let asked = [Percentile { percent: 99.9, seconds: 0.5 }, Percentile { percent: 50.0, seconds: 1.0 }];
        assert_eq!(percentiles(&asked), "p99.9 500 ms\np50 1.00 s\n");
    }
}
