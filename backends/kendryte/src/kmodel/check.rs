//! The invariants of a kmodel: errors that prevent a run, and rules of the hardware.

use std::fmt;

use super::access::{Access, Memory};
use super::arguments::{Arguments, Pooling};
use super::conv::Conv;
use super::layout::{ROW, ROWS};
use super::parse::place;
use super::range::ranges;
use super::tables::LOWEST;
use super::{Kmodel, Layer, Operation};

/// Bytes of general memory that a K210 has for code, model and main memory (kmodel v3, section 3: limits).
pub const GENERAL_MEMORY: u32 = 6 << 20;

/// Most bits that an activation segment may shift by: higher ones are not known to work (kmodel v3, section 12).
const MOST_SHIFT: u8 = 20;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A rule that our compiler keeps is not kept; the file may still run, and files of other compilers do.
    Rule,
    /// The file cannot run.
    Broken,
}

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// The layer, or `header`.
    pub place: String,
    /// One line: what was found, and what would be right.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Problems of one place.
struct Report<'a> {
    place: String,
    problems: &'a mut Vec<Problem>,
}

impl Report<'_> {
    fn add(&mut self, severity: Severity, found: bool, message: impl FnOnce() -> String) {
        if found {
            self.problems.push(Problem { severity, place: self.place.clone(), message: message() });
        }
    }
    fn broken(&mut self, found: bool, message: impl FnOnce() -> String) {
        self.add(Severity::Broken, found, message);
    }
    fn rule(&mut self, found: bool, message: impl FnOnce() -> String) {
        self.add(Severity::Rule, found, message);
    }
}

impl Kmodel {
    /// All invariants that do not hold, in the order of the file.
    pub fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.check_header(&mut Report { place: "header".into(), problems: &mut problems });
        let mut written = Written::default();
        for (index, layer) in self.layers.iter().enumerate() {
            let place = place(index, layer.operation.kind());
            let mut report = Report { place, problems: &mut problems };
            check_layer(layer, &mut report);
            let accesses = layer.accesses();
            self.check_bounds(&accesses, &mut report);
            check_overlap(layer, &accesses, &mut report);
            let inputs = accesses.iter().filter(|access| !access.write);
            for access in inputs.filter(|_| index > 0).filter(|access| !written.covers(&needed(layer, access))) {
                report.rule(true, || format!("reads {} before all of it is written", stretch(access)));
            }
            written.add(accesses, index == 0);
        }
        let mut report = Report { place: "header".into(), problems: &mut problems };
        for (index, output) in self.outputs.iter().enumerate() {
            let access = self.output_access(index);
            let unwritten = access.is_some_and(|access| !written.covers(&access));
            report.rule(unwritten, || format!("output {index} at {} is not written by any layer", output.address));
        }
        problems
    }

    fn output_access(&self, index: usize) -> Option<Access> {
        let output = self.outputs.get(index)?;
        let (start, bytes) = (u64::from(output.address), u64::from(output.size));
        Some(Access { memory: Memory::Main, write: false, start, bytes, element: 1 })
    }

    fn check_header(&self, report: &mut Report<'_>) {
        let memory = self.main_memory;
        report.broken(memory > GENERAL_MEMORY, || {
            format!("{memory} bytes of main memory, a K210 has {GENERAL_MEMORY} for everything")
        });
        report.rule(self.outputs.is_empty(), || "there is no output".into());
        for (index, output) in self.outputs.iter().enumerate() {
            let end = u64::from(output.address) + u64::from(output.size);
            report.broken(end > u64::from(memory), || format!("output {index} ends at {end}, main memory at {memory}"));
        }
        match self.layers.first().map(|layer| &layer.operation) {
            Some(Operation::Conv(_) | Operation::FullyConnected(_)) => {}
            Some(other) => report.broken(true, || {
                format!("the first layer is {}, only K210_CONV and FULLY_CONNECTED take an input", other.name())
            }),
            None => report.broken(true, || "there is no layer".into()),
        }
    }

    fn check_bounds(&self, accesses: &[Access], report: &mut Report<'_>) {
        for access in accesses {
            let limit = match access.memory {
                Memory::Main => u64::from(self.main_memory),
                Memory::Kpu => u64::from(ROWS) * ROW as u64,
            };
            report.broken(access.end() > limit, || {
                format!("{} {}, which ends at {limit}", if access.write { "writes" } else { "reads" }, stretch(access))
            });
            report.rule(!access.start.is_multiple_of(access.element), || {
                format!("{} is not aligned to {}", stretch(access), access.element)
            });
        }
    }
}

/// The part of a read on which the result depends: a sum of bytes reads whole words, whatever is behind its elements.
fn needed(layer: &Layer, access: &Access) -> Access {
    match &layer.operation {
        Operation::QuantizedAdd(sum) => Access { bytes: access.bytes.min(u64::from(sum.count)), ..access.clone() },
        _ => access.clone(),
    }
}

/// An access in words.
fn stretch(access: &Access) -> String {
    match access.memory {
        Memory::Main => format!("{} to {} of main memory", access.start, access.end()),
        Memory::Kpu => format!("rows {} to {} of KPU RAM", access.start / ROW as u64, access.end() / ROW as u64),
    }
}

/// Stretches of memory that hold something.
#[derive(Default)]
struct Written(Vec<Access>);

impl Written {
    /// Also the input of the first layer, which the caller puts there.
    fn add(&mut self, accesses: Vec<Access>, first: bool) {
        self.0.extend(accesses.into_iter().filter(|access| access.write || first));
    }

    fn covers(&self, access: &Access) -> bool {
        let mut parts: Vec<_> = self.0.iter().filter(|part| part.overlaps(access)).collect();
        parts.sort_by_key(|part| part.start);
        let reached = parts
            .iter()
            .fold(access.start, |reached, part| if part.start <= reached { reached.max(part.end()) } else { reached });
        access.bytes == 0 || reached >= access.end()
    }
}

/// A layer may replace its input, element for element; otherwise what it reads and writes must not overlap.
fn check_overlap(layer: &Layer, accesses: &[Access], report: &mut Report<'_>) {
    let in_place = matches!(
        layer.operation,
        Operation::Add(_)
            | Operation::QuantizedAdd(_)
            | Operation::Requantize(_)
            | Operation::L2Normalization(_)
            | Operation::Softmax(_)
            | Operation::Logistic(_)
    );
    for output in accesses.iter().filter(|access| access.write) {
        for input in accesses.iter().filter(|access| !access.write && access.overlaps(output)) {
            report.rule(!in_place || input.start != output.start, || {
                format!("reads {} and writes {}, which overlap", stretch(input), stretch(output))
            });
        }
    }
}

fn check_layer(layer: &Layer, report: &mut Report<'_>) {
    match &layer.operation {
        Operation::Conv(conv) => {
            check_arguments(&conv.arguments, report);
            check_loads(&conv.arguments, report);
            check_tables(conv, report);
            let padded = conv.output.is_multiple_of(8);
            report.rule(!padded, || format!("writes to address {}, which is not a multiple of 8", conv.output));
        }
        Operation::Other(..) => report.broken(true, || "no public reader executes this type".into()),
        Operation::QuantizedMaxPool(pool) | Operation::AveragePool(pool, _) => {
            let window = |kernel: u32, padding: u32, size: u32| {
                kernel == 0 || padding >= kernel || u64::from(kernel) > u64::from(size) + 2 * u64::from(padding)
            };
            let wrong = window(pool.kernel_width, pool.padding_width, pool.input_shape.width)
                || window(pool.kernel_height, pool.padding_height, pool.input_shape.height);
            report.broken(wrong, || "its windows do not fit the padded input".into());
        }
        Operation::ResizeNearest(resize) | Operation::QuantizedResizeNearest(resize) => {
            let empty = resize.shape.width == 0 || resize.shape.height == 0;
            report.broken(empty, || "its input is empty".into());
        }
        Operation::FullyConnected(body) => {
            let sizes = &body.sizes;
            let (inputs, outputs) = (u64::from(sizes.input_channels), u64::from(sizes.output_channels));
            let right = body.bias.len() as u64 == outputs && body.weights.len() as u64 == inputs * outputs;
            report.broken(!right, || format!("{} weights for {inputs} x {outputs}", body.weights.len()));
        }
        _ => {}
    }
}

fn check_arguments(arguments: &Arguments, report: &mut Report<'_>) {
    let Arguments { width, height, input_channels, output_channels, .. } = *arguments;
    if let Err(error) = arguments.pack() {
        report.broken(true, || error.message);
    }
    report.broken(arguments.depthwise && input_channels != output_channels, || {
        format!("depthwise with {input_channels} channels in and {output_channels} out")
    });
    report.rule(arguments.depthwise && arguments.pooling != Pooling::None, || {
        format!("depthwise with pooling ({:?}), which no compiler emits", arguments.pooling)
    });
    report.rule(!(4..=512).contains(&width) || !(4..=256).contains(&height), || {
        format!("the input is {width} x {height}, the limits are 4..512 x 4..256")
    });
    report.rule(arguments.output_width() < 4 || arguments.output_height() < 4, || {
        format!("the output is {} x {}, at least 4 x 4", arguments.output_width(), arguments.output_height())
    });
}

/// Weight loads (kmodel v3, layer arguments 2 and 5).
fn check_loads(arguments: &Arguments, report: &mut Report<'_>) {
    let Arguments { loads, channels_per_load, output_channels, load_bytes, .. } = *arguments;
    let needed = output_channels.div_ceil(channels_per_load.max(1));
    report.rule(loads != needed, || {
        format!("{loads} weight loads of {channels_per_load} channels, {output_channels} channels need {needed}")
    });
    let bytes = u64::from(channels_per_load) * arguments.channel_weights();
    report.rule(u64::from(load_bytes) != bytes, || {
        format!("weight loads of {load_bytes} bytes, {channels_per_load} channels have {bytes}")
    });
}

/// Lengths, activation segments and the 36 bits of sums (kmodel v3, section 4).
fn check_tables(conv: &Conv, report: &mut Report<'_>) {
    if let Err(error) = conv.check_lengths() {
        report.broken(true, || error.message);
    }
    let segments = &conv.activation;
    report.rule(segments[0].start != LOWEST, || {
        format!("the activation starts at {}, sums at {LOWEST}", segments[0].start)
    });
    report.rule(!segments.is_sorted_by_key(|segment| segment.start), || {
        "the activation segments are not in rising order".into()
    });
    for (number, segment) in segments.iter().enumerate() {
        let shift = segment.shift;
        report.broken(shift > 63, || format!("activation segment {number} shifts by {shift}, at most 63"));
    }
    let most = segments.iter().map(|segment| segment.shift).filter(|shift| *shift <= 63).max().unwrap_or_default();
    report.rule(most > MOST_SHIFT, || format!("the activation shifts by {most}, more than {MOST_SHIFT}"));
    let channels = 0..conv.arguments.output_channels as usize;
    if let Some(channel) = channels.into_iter().find(|&channel| ranges(conv, channel).is_some_and(|all| !all.fit())) {
        report.rule(true, || format!("sums of output channel {channel} can exceed 36 bits"));
    }
}
