//! kmodel v4 and v5, which nncase 0.2 and 1.x write: what is in such a file, to look at. Nothing here runs them.
//!
//! v4 has one list of nodes with a body each; those of the accelerator have the same 96 bytes of arguments as v3. v5 has modules for
//! a virtual machine or a chip, each with functions and named sections. Layouts were read off files and off public readers.

use byoc_plugin_api::{CodeFile, DType, Dim, Error, Table, Value};

use super::{convolution, table};
use crate::kmodel::arguments::{Arguments, WORDS};
use crate::kmodel::fields::{Damage, Field, Reader};

/// What versions 4 and later start with, before the version.
const MARK: u32 = 0x4b4d_444c;

/// Bytes of a v5 header since nncase 1.0.0; the betas have one word less, and other layouts.
const HEADER: u32 = 32;

/// The node of v4 that is a convolution on the accelerator.
const KPU_CONV: u32 = 0x2002;

/// Bytes in front of its arguments: where its output goes, batches, and a word of nothing.
const BEFORE_ARGUMENTS: u64 = 24;

/// Arguments with an address in their upper half, which v4 uses for how many bytes are in front of a table.
const SKIPS: [usize; 3] = [4, 5, 7];

/// Most dimensions of a tensor.
const MOST_RANK: u32 = 16;

/// The contents of a file of version 4 or 5; none where it is of another one.
pub(super) fn open(file: &[u8]) -> Option<Result<CodeFile, Error>> {
    let mut reader = Reader::new(file, 0);
    let mut word = || u32::read(&mut reader, "header").ok();
    if word()? != MARK {
        return None;
    }
    let (version, first) = (word()?, word());
    let found = match version {
        4 => v4(file, reader),
        5 if first.is_some_and(|size| size >= HEADER) => v5(file),
        _ => return None,
    };
    Some(found.map_err(|damage| damage.into_error(&format!("version {version}"))))
}

/// A stretch of a memory that holds a tensor.
struct Place {
    memory: u32,
    dtype: u32,
    start: u32,
    bytes: u32,
}

impl Field for Place {
    fn read(reader: &mut Reader<'_>, name: &str) -> Result<Self, Damage> {
        let mut word = || u32::read(reader, name);
        Ok(Place { memory: word()?, dtype: word()?, start: word()?, bytes: word()? })
    }
    fn write(&self, out: &mut Vec<u8>) {
        [self.memory, self.dtype, self.start, self.bytes].iter().for_each(|word| word.write(out));
    }
}

impl Place {
    fn dtype(&self) -> DType {
        if self.dtype == 0 { DType::F32 } else { DType::U8 }
    }

    fn text(&self) -> String {
        let memory = ["constants", "main", "KPU"].get(self.memory as usize).copied().unwrap_or("unknown");
        format!("{memory} {}..{}", self.start, u64::from(self.start) + u64::from(self.bytes))
    }
}

fn row(what: &str, much: impl ToString) -> Vec<String> {
    vec![what.to_owned(), much.to_string()]
}

/// `reader` is behind the version and the flags.
fn v4(file: &[u8], mut reader: Reader<'_>) -> Result<CodeFile, Damage> {
    let mut word = |name: &str| u32::read(&mut reader, name);
    let (target, constants, main_memory) = (word("target")?, word("constants")?, word("main_mem")?);
    let (nodes, inputs, outputs, _) = (word("nodes")?, word("inputs")?, word("outputs")?, word("reserved")?);
    let input_places: Vec<Place> = reader.list(inputs.into(), 16, "inputs")?;
    let shapes: Vec<[u8; 16]> = reader.list(inputs.into(), 16, "input shapes")?;
    let output_places: Vec<Place> = reader.list(outputs.into(), 16, "outputs")?;
    reader.take(constants.into(), "constants")?;
    let headers: Vec<[u8; 8]> = reader.list(nodes.into(), 8, "nodes")?;
    let mut rows = Vec::with_capacity(headers.len());
    for (index, header) in headers.iter().enumerate() {
        let [opcode, size] = words(header);
        let offset = reader.offset();
        let body = reader.take(size.into(), &format!("node {index}"))?;
        let what = if opcode == KPU_CONV { arguments(body, offset)? } else { String::new() };
        rows.push(vec![index.to_string(), v4_name(opcode), what, size.to_string()]);
    }
    let target = ["CPU", "K210"].get(target as usize).map_or_else(|| target.to_string(), |&name| name.to_owned());
    let memory = vec![
        row("file", format!("{} bytes", file.len())),
        row("target", target),
        row("constants", format!("{constants} bytes")),
        row("main memory", format!("{main_memory} bytes")),
        row("nodes", nodes),
    ];
    let ends =
        input_places.iter().map(|place| ("input", place)).chain(output_places.iter().map(|place| ("output", place)));
    let places = ends.map(|(what, place)| row(what, place.text())).collect();
    let shape = |bytes: &[u8; 16]| words::<4, 16>(bytes).map(|size| Dim::Fixed(size as usize)).to_vec();
    let input = |(index, (place, bytes)): (usize, (&Place, &[u8; 16]))| Value {
        name: format!("input{index}"),
        dtype: place.dtype(),
        shape: shape(bytes),
    };
    let output = |(index, place): (usize, &Place)| {
        let count = place.bytes as usize / if place.dtype == 0 { 4 } else { 1 };
        Value { name: format!("output{index}"), dtype: place.dtype(), shape: vec![Dim::Fixed(count)] }
    };
    Ok(CodeFile {
        format: "kmodel v4".into(),
        file_bytes: file.len() as u64,
        inputs: input_places.iter().zip(&shapes).enumerate().map(input).collect(),
        outputs: output_places.iter().enumerate().map(output).collect(),
        tables: vec![
            table("memory", &["what", "how much"], memory),
            table("inputs and outputs", &["what", "where"], places),
            table("nodes", &[">#", "type", "what", ">bytes"], rows),
        ],
    })
}

/// Numbers of 32 bits.
fn words<const N: usize, const BYTES: usize>(bytes: &[u8; BYTES]) -> [u32; N] {
    let (words, _) = bytes.as_chunks::<4>();
    std::array::from_fn(|index| words.get(index).map_or(0, |word| u32::from_le_bytes(*word)))
}

/// A convolution in words.
fn arguments(body: &[u8], offset: usize) -> Result<String, Damage> {
    let mut reader = Reader::new(body, offset);
    reader.take(BEFORE_ARGUMENTS, "output")?;
    let mut numbers = [0; WORDS];
    for (index, number) in numbers.iter_mut().enumerate() {
        *number = u64::read(&mut reader, "arguments")?;
        if SKIPS.contains(&index) {
            *number &= u64::from(u32::MAX);
        }
    }
    Ok(Arguments::unpack(&numbers).map_or_else(|cause| cause, |arguments| convolution(&arguments)))
}

fn v4_name(opcode: u32) -> String {
    const NEUTRAL: [&str; 21] = [
        "binary",
        "concat",
        "conv2d",
        "dequantize",
        "matmul",
        "pad",
        "quantize",
        "reduce",
        "reduce_window2d",
        "memory_copy",
        "resize_image",
        "softmax",
        "transpose",
        "strided_slice",
        "unary",
        "quantized_conv2d",
        "quantized_matmul",
        "quantized_binary",
        "table_lookup1d",
        "conv2d_transpose",
        "nnil_unary_method",
    ];
    let special = [
        (0x1001, "cpu_conv2d"),
        (0x1002, "cpu_depthwise_conv2d"),
        (0x1003, "cpu_reduce_window2d"),
        (0x1004, "cpu_quantized_conv2d"),
        (0x1005, "cpu_quantized_depthwise_conv2d"),
        (0x2001, "kpu_upload"),
        (KPU_CONV, "kpu_conv2d"),
    ];
    let named = special.iter().find(|(code, _)| *code == opcode).map(|(_, name)| *name);
    let named = named.or_else(|| NEUTRAL.get(opcode as usize).copied());
    named.map_or_else(|| format!("opcode {opcode:#x}"), str::to_owned)
}

/// A module of v5.
struct Module {
    kind: String,
    tables: Vec<Table>,
    functions: Vec<Function>,
}

/// A function of a module.
struct Function {
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    /// Bytes of its code.
    text: u32,
}

fn v5(file: &[u8]) -> Result<CodeFile, Damage> {
    let mut reader = Reader::new(file, 0);
    let mut header = [0; 8];
    for number in &mut header {
        *number = u32::read(&mut reader, "header")?;
    }
    let [_, _, size, _, alignment, count, entry_module, entry_function] = header;
    reader.take(u64::from(size.saturating_sub(HEADER)), "header")?;
    let mut modules = Vec::new();
    for index in 0..count {
        modules.push(module(&mut reader, index)?);
    }
    let mut facts = vec![
        row("file", format!("{} bytes", file.len())),
        row("alignment", alignment),
        row("entry", format!("function {entry_function} of module {entry_module}")),
    ];
    facts.extend(modules.iter().enumerate().map(|(index, module)| row(&format!("module {index}"), &module.kind)));
    let entry = modules.get(entry_module as usize).and_then(|module| module.functions.get(entry_function as usize));
    let (inputs, outputs) = entry.map(|entry| (entry.inputs.clone(), entry.outputs.clone())).unwrap_or_default();
    let mut tables = vec![table("modules", &["what", "how much"], facts)];
    tables.extend(modules.into_iter().flat_map(|module| module.tables));
    Ok(CodeFile { format: "kmodel v5".into(), file_bytes: file.len() as u64, inputs, outputs, tables })
}

/// A name of 16 bytes, filled up with zeros.
fn name(reader: &mut Reader<'_>, what: &str) -> Result<String, Damage> {
    let bytes: [u8; 16] = reader.array(what)?;
    let text: String = bytes.iter().take_while(|byte| **byte != 0).map(|&byte| char::from(byte)).collect();
    Ok(text.escape_debug().to_string())
}

fn module(reader: &mut Reader<'_>, index: u32) -> Result<Module, Damage> {
    let start = reader.offset();
    let kind = name(reader, "module type")?;
    let mut word = |name: &str| u32::read(reader, name);
    let (version, header_size, size) = (word("version")?, word("header_size")?, word("size")?);
    let (pools, shared, sections) = (word("mempools")?, word("shared_mempools")?, word("sections")?);
    let (count, _) = (word("functions")?, word("reserved")?);
    // The rest of the module is all that is read of it.
    let rest = (u64::from(size)).saturating_sub((reader.offset() - start) as u64);
    let mut inside = Reader::new(reader.take(rest, &format!("module {index}"))?, start + 48);
    inside.take(u64::from(header_size.saturating_sub(48)), "module header")?;
    let mut memory = vec![row("version", version), row("size", format!("{size} bytes"))];
    let pool_list: Vec<[u8; 8]> = inside.list(u64::from(pools) + u64::from(shared), 8, "mempools")?;
    for (number, pool) in pool_list.iter().enumerate() {
        let [location, bytes] = words(pool);
        let shared = if number < pools as usize { "" } else { ", shared" };
        memory.push(row(&format!("{}{shared}", location_name(location as u8)), format!("{bytes} bytes")));
    }
    let mut functions = Vec::new();
    let mut code = Vec::new();
    for number in 0..count {
        let function = function(&mut inside, number)?;
        code.push(vec![number.to_string(), function.text.to_string()]);
        functions.push(function);
    }
    let mut parts = Vec::new();
    for _ in 0..sections {
        let name = name(&mut inside, "section name")?;
        let mut word = |what: &str| u32::read(&mut inside, what);
        let (_, body_start, bytes, _) = (word("flags")?, word("body_start")?, word("body_size")?, word("reserved")?);
        parts.push(vec![name, bytes.to_string(), body_start.to_string()]);
    }
    let title = |what: &str| format!("module {index} ({kind}): {what}");
    let tables = vec![
        table(&title("memory"), &["what", "how much"], memory),
        table(&title("functions"), &[">#", ">bytes of code"], code),
        table(&title("sections"), &["name", ">bytes", ">from"], parts),
    ];
    Ok(Module { kind, tables, functions })
}

fn function(reader: &mut Reader<'_>, number: u32) -> Result<Function, Damage> {
    let start = reader.offset();
    let mut word = |name: &str| u32::read(reader, name);
    let (header_size, size, _, _) = (word("header_size")?, word("size")?, word("input_pool")?, word("output_pool")?);
    let (inputs, outputs, _, text) = (word("inputs")?, word("outputs")?, word("entrypoint")?, word("text_size")?);
    let read = (reader.offset() - start) as u64;
    let mut inside =
        Reader::new(reader.take(u64::from(size).saturating_sub(read), &format!("function {number}"))?, start + 32);
    inside.take(u64::from(header_size.saturating_sub(32)), "function header")?;
    let mut values = |count: u32, kind: &str| {
        let places: Vec<[u8; 12]> = inside.list(count.into(), 12, kind)?;
        let mut values = Vec::with_capacity(places.len());
        for (index, place) in places.iter().enumerate() {
            let rank = u32::read(&mut inside, "rank")?;
            if rank > MOST_RANK {
                return Err(Damage::new(inside.offset(), format!("a tensor of rank {rank}, more than {MOST_RANK}")));
            }
            let sizes: Vec<u32> = inside.list(rank.into(), 4, "shape")?;
            let shape = sizes.into_iter().map(|size| Dim::Fixed(size as usize)).collect();
            values.push(Value { name: format!("{kind}{index}"), dtype: v5_dtype(place[1]), shape });
        }
        Ok(values)
    };
    Ok(Function { inputs: values(inputs, "input")?, outputs: values(outputs, "output")?, text })
}

fn location_name(location: u8) -> String {
    const NAMES: [&str; 5] = ["input", "output", "rdata", "data", "shared data"];
    match location {
        64 => "KPU".into(),
        other => NAMES.get(usize::from(other)).map_or_else(|| format!("location {other}"), |&name| name.into()),
    }
}

/// By number; an unknown one is shown as bytes.
fn v5_dtype(number: u8) -> DType {
    const TYPES: [DType; 12] = [
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
        DType::F16,
        DType::F32,
        DType::F64,
        DType::BF16,
    ];
    TYPES.get(usize::from(number)).copied().unwrap_or(DType::U8)
}
