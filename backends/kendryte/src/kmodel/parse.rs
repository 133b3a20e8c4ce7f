//! Reads a kmodel from untrusted bytes.

use std::ops::Range;

use byoc_plugin_api::Error;

use super::conv::Conv;
use super::fields::{Damage, Field, Reader};
use super::{EIGHT_BIT_WEIGHTS, Kmodel, Layer, Operation, Output, VERSION, type_name};

/// 'KMDL' as the C compilers of the SDKs store it: what versions 4 to 7 start with.
const LATER_VERSIONS: u32 = 0x4b4d_444c;

/// Bytes that may be missing at the end of a file: the padding of the last body (kmodel v3, section 2).
const MISSING_PADDING: usize = 7;

/// Most layers, outputs and stretches of memory that are read and written, together. What they are compared with is all
/// others, and a K210 has 6 MiB for them.
const MOST_PLACES: usize = 16_384;

/// The numbers that a file starts with, and where its bodies are.
pub(crate) struct Outline {
    max_start_address: u32,
    main_memory: u32,
    outputs: Vec<Output>,
    /// For each layer its type and where its body is in the file.
    pub(crate) bodies: Vec<(u32, Range<usize>)>,
}

/// Layer `index` in the words of an error.
pub(crate) fn place(index: usize, kind: u32) -> String {
    format!("layer {index} ({})", type_name(kind))
}

impl Kmodel {
    /// Reads a kmodel v3. Errors name the offset, the layer and the cause; that of another version names it and
    /// the tool that reads it.
    pub fn parse(file: &[u8]) -> Result<Self, Error> {
        let outline = outline(file)?;
        let mut layers = Vec::with_capacity(outline.bodies.len());
        for (index, (kind, body)) in outline.bodies.iter().enumerate() {
            let layer = read_layer(*kind, file, body).map_err(|damage| damage.into_error(&place(index, *kind)))?;
            layers.push(layer);
        }
        let Outline { max_start_address, main_memory, outputs, .. } = outline;
        let places = layers.iter().map(|layer: &Layer| 1 + layer.accesses().len()).sum::<usize>() + outputs.len();
        if places > MOST_PLACES {
            let cause = format!("{places} layers, outputs and stretches of memory, more than {MOST_PLACES}");
            return Err(Damage::new(12, cause).into_error("header"));
        }
        Ok(Kmodel { max_start_address, main_memory, outputs, layers })
    }
}

/// Reads everything in front of the bodies, and finds them.
pub(crate) fn outline(file: &[u8]) -> Result<Outline, Error> {
    check_version(file)?;
    let header = |damage: Damage| damage.into_error("header");
    let mut reader = Reader::new(file, 0);
    let mut numbers = [0; 7];
    for (number, name) in numbers.iter_mut().zip(["version", "flags", "arch", "layers", "start", "memory", "outputs"]) {
        *number = u32::read(&mut reader, name).map_err(header)?;
    }
    let [_, flags, arch, layers, max_start_address, main_memory, outputs] = numbers;
    if arch != 0 {
        return Err(Damage::new(8, format!("arch is {arch}, only 0 (K210) is known")).into_error("header"));
    }
    if flags & EIGHT_BIT_WEIGHTS == 0 {
        return Err(Error::new("the kmodel has 16-bit weights, only 8-bit weights are supported")
            .hint("compile the model again with 8-bit weights"));
    }
    if flags != EIGHT_BIT_WEIGHTS {
        return Err(Damage::new(4, format!("flags are {flags:#x}, only 0x1 is known")).into_error("header"));
    }
    let outputs = reader.list(u64::from(outputs), 8, "outputs").map_err(header)?;
    let headers: Vec<LayerHeader> = reader.list(u64::from(layers), 8, "layer headers").map_err(header)?;
    let bodies = locate(&headers, reader.offset(), file.len())?;
    Ok(Outline { max_start_address, main_memory, outputs, bodies })
}

/// The bodies are back to back from `start`.
fn locate(headers: &[LayerHeader], start: usize, length: usize) -> Result<Vec<(u32, Range<usize>)>, Error> {
    let mut at = start;
    let mut bodies = Vec::with_capacity(headers.len());
    for (index, header) in headers.iter().enumerate() {
        let mut end = at.saturating_add(header.size as usize);
        if index + 1 == headers.len() && end > length && end - length <= MISSING_PADDING && at <= length {
            end = length;
        }
        if end > length {
            let cause = format!("the body takes {} bytes and {} are left", header.size, length.saturating_sub(at));
            return Err(Damage::new(at, cause).into_error(&place(index, header.kind)));
        }
        bodies.push((header.kind, at..end));
        at = end;
    }
    Ok(bodies)
}

fn check_version(file: &[u8]) -> Result<(), Error> {
    let word = |at: usize| {
        let bytes = file.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map(u32::from_le_bytes)
    };
    let other = |version: u32, hint: &str| {
        Err(Error::new(format!("the file is a kmodel of version {version}, only version {VERSION} is supported"))
            .hint(hint))
    };
    match (word(0), word(4)) {
        (Some(VERSION), _) => Ok(()),
        (Some(1), _) => other(1, "the SDK reads it with kpu_model_load_from_buffer"),
        (Some(LATER_VERSIONS), Some(4)) => other(4, "nncase 0.2 reads it, and so does MaixPy built with V4 support"),
        (Some(LATER_VERSIONS), Some(5)) => other(5, "the nncase 1.x that wrote it reads it"),
        (Some(LATER_VERSIONS), Some(version @ (6 | 7))) => other(version, "nncase 2.x reads it, for the K230"),
        (Some(LATER_VERSIONS), Some(version)) => other(version, "look for an nncase that wrote this version"),
        (Some(first), _) => Err(Error::new(format!(
            "the file is not a kmodel: it starts with {first:#010x}, a kmodel of version 3 with 0x00000003"
        ))),
        (None, _) => Err(Error::new(format!("the file is not a kmodel: it has {} bytes", file.len()))),
    }
}

struct LayerHeader {
    kind: u32,
    size: u32,
}

impl Field for LayerHeader {
    fn read(reader: &mut Reader<'_>, _: &str) -> Result<Self, Damage> {
        Ok(LayerHeader { kind: Field::read(reader, "type")?, size: Field::read(reader, "body_size")? })
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.kind.write(out);
        self.size.write(out);
    }
}

impl Field for Output {
    fn read(reader: &mut Reader<'_>, _: &str) -> Result<Self, Damage> {
        Ok(Output { address: Field::read(reader, "address")?, size: Field::read(reader, "size")? })
    }
    fn write(&self, out: &mut Vec<u8>) {
        self.address.write(out);
        self.size.write(out);
    }
}

fn read_layer(kind: u32, file: &[u8], body: &Range<usize>) -> Result<Layer, Damage> {
    let bytes = &file[body.clone()];
    if type_is_kept(kind) {
        return Ok(Layer { flags: 0, operation: Operation::Other(kind, bytes.to_vec()) });
    }
    let mut reader = Reader::new(bytes, body.start);
    let flags = Field::read(&mut reader, "flags")?;
    let operation = match kind {
        10240 => Operation::Conv(Box::new(Conv::read(&mut reader, file, body)?)),
        _ => read_operation(kind, &mut reader)?,
    };
    Ok(Layer { flags, operation })
}

/// Whether the bytes of this type are kept as they are.
fn type_is_kept(kind: u32) -> bool {
    !matches!(kind, 1 | 2 | 5 | 8 | 9 | 11..=18 | 20..=25 | 10240..=10243)
}

fn read_operation(kind: u32, reader: &mut Reader<'_>) -> Result<Operation, Damage> {
    fn body<T: Field>(reader: &mut Reader<'_>) -> Result<T, Damage> {
        T::read(reader, "body")
    }
    Ok(match kind {
        1 => Operation::Add(body(reader)?),
        2 => Operation::QuantizedAdd(body(reader)?),
        5 => Operation::GlobalAveragePool(body(reader)?),
        8 => Operation::QuantizedMaxPool(body(reader)?),
        9 => Operation::AveragePool(body(reader)?, Field::read(reader, "act")?),
        11 => Operation::Quantize(body(reader)?),
        12 => Operation::Dequantize(body(reader)?),
        13 => Operation::Requantize(Box::new(body(reader)?)),
        14 => Operation::L2Normalization(body(reader)?),
        15 => Operation::Softmax(body(reader)?),
        16 => Operation::Concat(body(reader)?),
        17 => Operation::QuantizedConcat(body(reader)?),
        18 => Operation::FullyConnected(body(reader)?),
        20 => Operation::Flatten(body(reader)?),
        21 => Operation::QuantizedFlatten(body(reader)?),
        22 => Operation::ResizeNearest(body(reader)?),
        23 => Operation::QuantizedResizeNearest(body(reader)?),
        24 => Operation::ChannelwiseDequantize(body(reader)?),
        25 => Operation::Logistic(body(reader)?),
        10241 => Operation::AddPadding(body(reader)?),
        10242 => Operation::RemovePadding(body(reader)?),
        10243 => Operation::Upload(body(reader)?),
        _ => return Err(Damage::new(reader.offset(), "this type has no description")),
    })
}
