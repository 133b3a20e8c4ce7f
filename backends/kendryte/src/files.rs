//! Describes a kmodel for `inspect` and for runs: layers, memory, and its trailer.

mod later;

use byoc_plugin_api::{CodeFile, DType, Dim, Error, FileFormat, Table, Value};

use crate::kmodel::access::{Access, Memory};
use crate::kmodel::arguments::{Arguments, Pooling};
use crate::kmodel::bodies::{AddPadding, Binary, Dequantize, Quantize, QuantizedAdd, RemovePadding, Shape, Vector};
use crate::kmodel::layout::ROW;
use crate::kmodel::{Kmodel, Layer, Operation, VERSION};
use crate::simulator::{Input, input_of};
use crate::trailer::{ChannelScale, Named, Trailer};

/// The files that the backend reads.
pub(crate) fn formats() -> Vec<FileFormat> {
    vec![FileFormat {
        extension: "kmodel".into(),
        summary: "A network for the Kendryte K210, kmodel v3; of v4 and v5 only the contents are shown".into(),
    }]
}

/// Reads a kmodel, or the code of a region. Versions 4 and 5 are described and do not run.
pub(crate) fn open(code: &[u8]) -> Result<CodeFile, Error> {
    if let Some(later) = later::open(code) {
        return later;
    }
    let (file, trailer) = Trailer::split(code)?;
    let kmodel = Kmodel::parse(file)?;
    let mut tables = vec![overview(&kmodel, file.len()), layers(&kmodel)];
    let problems = kmodel.check();
    if !problems.is_empty() {
        let rows = problems.iter().map(|problem| {
            vec![format!("{:?}", problem.severity).to_lowercase(), problem.place.clone(), problem.message.clone()]
        });
        tables.push(table("rules that it breaks", &["severity", "where", "what"], rows.collect()));
    }
    let (input, outputs) = match &trailer {
        Some(trailer) => {
            tables.extend(channels(trailer));
            tables.push(scales(trailer));
            (value(&trailer.input.value), trailer.outputs.iter().map(value).collect())
        }
        None => (own_input(&kmodel), own_outputs(&kmodel)),
    };
    Ok(CodeFile {
        format: format!("kmodel v{VERSION}"),
        file_bytes: file.len() as u64,
        inputs: vec![input],
        outputs,
        tables,
    })
}

fn table(title: &str, columns: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table { title: title.into(), columns: columns.iter().map(|&column| column.to_owned()).collect(), rows }
}

fn value(named: &Named) -> Value {
    Value {
        name: named.name.clone(),
        dtype: named.dtype,
        shape: named.shape.iter().map(|&size| Dim::Fixed(size)).collect(),
    }
}

fn overview(kmodel: &Kmodel, file_bytes: usize) -> Table {
    let accesses: Vec<_> = kmodel.layers.iter().flat_map(Layer::accesses).collect();
    let rows = accesses.iter().filter(|access| access.memory == Memory::Kpu).map(|access| access.end() / ROW as u64);
    let facts = [
        ("file", format!("{file_bytes} bytes")),
        ("layers", kmodel.layers.len().to_string()),
        ("main memory", format!("{} bytes", kmodel.main_memory)),
        ("KPU RAM", format!("rows 0 to {}, {ROW} bytes each", rows.max().unwrap_or(0))),
    ];
    table("memory", &["what", "how much"], facts.into_iter().map(|(what, size)| vec![what.into(), size]).collect())
}

fn layers(kmodel: &Kmodel) -> Table {
    let rows = kmodel.layers.iter().enumerate().map(|(index, layer)| {
        let accesses = layer.accesses();
        let side = |write: bool| {
            let side: Vec<_> = accesses.iter().filter(|access| access.write == write).map(stretch).collect();
            side.join(", ")
        };
        vec![index.to_string(), layer.operation.name().into(), detail(&layer.operation), side(false), side(true)]
    });
    table("layers", &[">#", "type", "what", "reads", "writes"], rows.collect())
}

/// A stretch of memory in few words.
fn stretch(access: &Access) -> String {
    match access.memory {
        Memory::Main => format!("main {}..{}", access.start, access.end()),
        Memory::Kpu => format!("KPU {}..{}", access.start / ROW as u64, access.end().div_ceil(ROW as u64)),
    }
}

/// What a layer does, beside its name; empty where the name says it all.
fn detail(operation: &Operation) -> String {
    match operation {
        Operation::Conv(conv) => convolution(&conv.arguments),
        Operation::FullyConnected(body) => format!("{} to {}", body.sizes.input_channels, body.sizes.output_channels),
        Operation::QuantizedMaxPool(pool) | Operation::AveragePool(pool, _) => format!(
            "windows of {}x{}, {}x{} apart, {} to {}",
            pool.kernel_height,
            pool.kernel_width,
            pool.stride_height,
            pool.stride_width,
            image(&pool.input_shape),
            image(&pool.output_shape)
        ),
        Operation::Quantize(Quantize { quantization, count, .. })
        | Operation::Dequantize(Dequantize { quantization, count, .. }) => {
            format!("{count} elements, scale {}, bias {}", quantization.scale, quantization.bias)
        }
        Operation::ResizeNearest(body) | Operation::QuantizedResizeNearest(body) => {
            let to = Shape { width: body.output_width, height: body.output_height, channels: body.shape.channels };
            format!("{} to {}", image(&body.shape), image(&to))
        }
        Operation::Upload(body) => image(&body.shape),
        Operation::Concat(body) | Operation::QuantizedConcat(body) => format!("{} parts", body.inputs.len()),
        Operation::GlobalAveragePool(body) => format!("{} maps of {} pixels", body.channels, body.kernel_size),
        Operation::AddPadding(AddPadding { channels, .. })
        | Operation::RemovePadding(RemovePadding { channels, .. }) => {
            format!("{channels} bytes")
        }
        Operation::Add(Binary { count, .. })
        | Operation::QuantizedAdd(QuantizedAdd { count, .. })
        | Operation::Softmax(Vector { count, .. })
        | Operation::Logistic(Vector { count, .. })
        | Operation::L2Normalization(Vector { count, .. }) => format!("{count} elements"),
        Operation::Requantize(body) => format!("{} elements", body.count),
        _ => String::new(),
    }
}

fn convolution(arguments: &Arguments) -> String {
    let size = arguments.kernel.size();
    let input = Shape { width: arguments.width, height: arguments.height, channels: arguments.input_channels };
    let (width, height) = (arguments.output_width(), arguments.output_height());
    let output = Shape { width, height, channels: arguments.output_channels };
    let kind = if arguments.depthwise { "depthwise " } else { "" };
    let pooling = match arguments.pooling {
        Pooling::None => "",
        Pooling::Max2 => ", maximum of 2x2",
        Pooling::Mean2 => ", mean of 2x2",
        Pooling::Max4 => ", maximum of 4x4",
        Pooling::Mean4 => ", mean of 4x4",
        Pooling::LeftTop2 => ", upper left of 2x2",
        Pooling::RightTop2 => ", upper right of 2x2",
        Pooling::LeftTop4 => ", upper left of 4x4",
        Pooling::Mean2Stride1 => ", mean of 2x2 at stride 1",
        Pooling::Max2Stride1 => ", maximum of 2x2 at stride 1",
    };
    let loads = if arguments.loads == 1 { String::new() } else { format!(", {} weight loads", arguments.loads) };
    format!("{kind}{size}x{size}, {} to {}{pooling}{loads}", image(&input), image(&output))
}

/// Channels, rows and columns.
fn image(shape: &Shape) -> String {
    format!("{}x{}x{}", shape.channels, shape.height, shape.width)
}

/// What the bytes of an image mean whose channels differ.
fn channels(trailer: &Trailer) -> Option<Table> {
    let row = |(channel, scale): (usize, &ChannelScale)| {
        vec![channel.to_string(), scale.scale.to_string(), scale.bias.to_string()]
    };
    let rows: Vec<_> = trailer.input.channels.iter().enumerate().map(row).collect();
    let title = format!("bytes of '{}' are pixels: real = byte * scale + bias", trailer.input.value.name);
    (!rows.is_empty()).then(|| table(&title, &[">channel", ">scale", ">bias"], rows))
}

fn scales(trailer: &Trailer) -> Table {
    let rows = trailer.scales.iter().map(|row| {
        vec![
            row.value.clone(),
            row.least.to_string(),
            row.greatest.to_string(),
            row.scale.to_string(),
            row.zero_point.to_string(),
            match row.sqnr {
                _ if row.given => "the model's".into(),
                Some(sqnr) => format!("{sqnr:.1}"),
                None => "exact".into(),
            },
        ]
    });
    let columns = ["value", ">least", ">greatest", ">scale", ">zero point", ">SQNR (dB)"];
    table("bytes of values: real = (byte - zero point) * scale", &columns, rows.collect())
}

/// The input as the file itself has it.
fn own_input(kmodel: &Kmodel) -> Value {
    let (dtype, shape) = match input_of(kmodel) {
        Input::Bytes { channels, height, width } => (DType::U8, vec![1, channels, height, width]),
        Input::Floats(count) => (DType::F32, vec![1, count]),
    };
    value(&Named { name: "input".into(), dtype, shape })
}

/// The outputs as the layers that write them have them; bytes where none does.
fn own_outputs(kmodel: &Kmodel) -> Vec<Value> {
    let output = |(index, output): (usize, &crate::kmodel::Output)| {
        let start = u64::from(output.address);
        let writes = |access: &Access| access.memory == Memory::Main && access.write && access.start == start;
        let written = kmodel.layers.iter().rev().flat_map(Layer::accesses).find(writes);
        let floats = written.is_some_and(|access| access.element == 4) && output.size.is_multiple_of(4);
        let size = output.size as usize;
        let (dtype, count) = if floats { (DType::F32, size / 4) } else { (DType::U8, size) };
        value(&Named { name: format!("output{index}"), dtype, shape: vec![1, count] })
    };
    kmodel.outputs.iter().enumerate().map(output).collect()
}
