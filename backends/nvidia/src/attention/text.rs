//! Generates the source of an attention kernel: its sizes as constants, the mask, the shared code, and the entry point.

use std::fmt::Write;

use byoc_dim::{self as dim, DimError};
use byoc_plugin_api::{DType, Dim};

use super::{Effect, Layout, Mask, Spec};
use crate::build::GeneratedKernel;
use crate::program::{Argument, BufferRef, Launch};

/// Fewest blocks that keep a device busy: most have about as many multiprocessors.
const ENOUGH: usize = 128;

/// Tile sizes.
struct Tiles {
    /// Queries of a block.
    rows: usize,
    /// Keys of a tile.
    keys: usize,
    threads: u32,
    shared: u32,
}

/// The kernel called `name`, whose arguments are Q, K, V, the mask if there is one, and the result.
///
/// # Errors
///
/// When the number of tiles overflows.
pub fn generate(spec: &Spec, name: &str, at: &[BufferRef]) -> Result<GeneratedKernel, DimError> {
    let tiles = Tiles::of(spec);
    let symbolic = [&spec.queries, &spec.keys].into_iter().filter(|dim| dim.fixed().is_none());
    let mut arguments: Vec<_> = at.iter().map(|&place| Argument::Pointer(place)).collect();
    arguments.extend(symbolic.map(|dim| Argument::Size(dim.clone())));
    let blocks = dim::ceil_div(&spec.queries, &Dim::Fixed(tiles.rows))?;
    let launch = Launch {
        cubin: 0,
        kernel: name.to_owned(),
        grid: [blocks, Dim::Fixed(spec.heads), spec.batch.clone()],
        block: [tiles.threads, 1, 1],
        persistent: false,
        waits: true,
        shared: tiles.shared,
        arguments,
        nodes: Vec::new(),
        only: None,
    };
    let body = if spec.dtype == DType::F32 { include_str!("plain.cuh") } else { include_str!("tensor.cuh") };
    let mut text = format!("namespace {name}_parts {{\n\n");
    text += &constants(spec, &tiles);
    text += include_str!("shared.cuh");
    text += &masked(spec, &tiles);
    text += body;
    let shared = tiles.shared;
    let _ = write!(text, "static_assert(SHARED == {shared}, \"the launch gives as much\");\n\n");
    text += "}\n\n";
    text += &entry(spec, name);
    Ok(GeneratedKernel { text, launch })
}

impl Tiles {
    fn of(spec: &Spec) -> Tiles {
        let large = spec.size.max(spec.value_size) > 128;
        if spec.dtype == DType::F32 {
            let (rows, keys) = if large { (rows(spec).min(32), 16) } else { (rows(spec), 32) };
            let (stride, values) = (spec.size + 4, spec.value_size.next_multiple_of(32) + 4);
            let shared = size_of::<f32>() * (rows * (stride + keys + 4) + keys * (stride + values));
            return Tiles { rows, keys, threads: 128, shared: shared as u32 };
        }
        let (rows, keys) = (rows(spec), if large { 32 } else { 64 });
        let [stride, values] = [spec.size, spec.value_size].map(|size| size.next_multiple_of(16) + 8);
        let shared = spec.dtype.unpacked_bytes() * (rows * stride.max(values) + 2 * keys * (stride + values));
        Tiles { rows, keys, threads: 2 * rows as u32, shared: shared as u32 }
    }

    /// How many blocks a multiprocessor is to have at a time. Four warps for each of its schedulers hide each other's waits,
    /// where their 128 registers are enough: for small heads whose scores are only multiplied.
    fn blocks(&self, spec: &Spec) -> u32 {
        let is_small = spec.dtype != DType::F32 && spec.size.max(spec.value_size) <= 64;
        let is_plain = spec.mask.is_none() && spec.softcap == 0.0;
        if is_small && is_plain { 512 / self.threads } else { 1 }
    }
}

/// Queries of a block: fewer where there would be few blocks otherwise.
fn rows(spec: &Spec) -> usize {
    let blocks = |rows: usize| {
        let (queries, batch) = (spec.queries.fixed()?, spec.batch.fixed()?);
        Some(queries.div_ceil(rows) * spec.heads * batch)
    };
    match blocks(64) {
        Some(blocks) if blocks < ENOUGH / 2 => 16,
        Some(blocks) if blocks < ENOUGH => 32,
        _ => 64,
    }
}

fn constants(spec: &Spec, tiles: &Tiles) -> String {
    let natural = spec.softcap > 0.0 || spec.mask.as_ref().is_some_and(|mask| !mask.only_hides());
    let (scale, log2_e) = (f64::from(spec.scale), std::f64::consts::LOG2_E);
    // Without finite numbers to add, scores stay as they come, and the unit in which 2 to their power is the weight has the
    // scale in it: one multiplication with an addition makes a weight. A negative scale would turn their order around.
    let folded = !natural && scale > 0.0;
    let (scale, unit) = match (natural, folded) {
        (true, _) => (scale, log2_e),
        (_, true) => (1.0, scale * log2_e),
        _ => (scale * log2_e, 1.0),
    };
    let row = |layout: &Layout, size: usize| match layout {
        Layout::HeadsFirst => size,
        Layout::RowsFirst { width, .. } => *width,
    };
    let mut text = format!("using T = {};\n", kind(spec.dtype));
    let mask = spec.mask.as_ref().map_or("u8", |mask| match mask.effect {
        Effect::Added(dtype) => kind(dtype),
        Effect::Fills { .. } => "u8",
    });
    let _ = writeln!(text, "using Mask = {mask};");
    let _ = writeln!(text, "constexpr int ROWS = {}, KEYS = {};", tiles.rows, tiles.keys);
    let _ = writeln!(text, "constexpr int SIZE = {}, VALUE_SIZE = {};", spec.size, spec.value_size);
    let _ = writeln!(text, "constexpr bool CAUSAL = {};", spec.causal);
    if spec.dtype != DType::F32 {
        let whole = spec.keys.fixed().is_some_and(|keys| keys % tiles.keys == 0);
        let _ = writeln!(text, "constexpr bool FOLDED = {folded}, WHOLE_TILES = {whole};");
    }
    let numbers = [("SCALE", scale as f32), ("UNIT", unit as f32), ("SOFTCAP", spec.softcap)];
    for (name, number) in numbers {
        let _ = writeln!(text, "constexpr float {name} = {};", float(number));
    }
    let (size, values) = (spec.size, spec.value_size);
    let strides = [("Q", &spec.q, size), ("K", &spec.k, size), ("V", &spec.v, values), ("Y", &spec.y, values)];
    for (name, layout, size) in strides {
        let _ = writeln!(text, "constexpr i64 {name}_ROW = {};", row(layout, size));
    }
    text + "\n"
}

/// The function that applies the mask to a score.
fn masked(spec: &Spec, tiles: &Tiles) -> String {
    let mut text = "\n// What a query's score for a key is when the mask has been applied.\n".to_owned();
    text += "__device__ __forceinline__ float masked(\n";
    text += "    float score, const Mask* mask, int row, int key, int queries, int keys) {\n";
    let whole = |dim: &Dim, tile: usize| dim.fixed().is_some_and(|size| size % tile == 0);
    if !whole(&spec.keys, tiles.keys) {
        text += "  if (key >= keys) return -infinite();\n";
    }
    if spec.causal {
        text += "  if (key > row) return -infinite();\n";
    }
    if let Some(mask) = &spec.mask {
        let [_, _, queries, keys] = &mask.shape;
        if !is_one(queries) && !whole(&spec.queries, tiles.rows) {
            text += "  // Rows behind the last query are computed and not written.\n";
            text += "  if (row >= queries) return score;\n";
        }
        if mask.short {
            let _ = writeln!(text, "  if (key >= {keys}) return -infinite();");
        }
        let row = (!is_one(queries)).then(|| format!("i64(row) * {}", size_of_mask(mask, spec, 3)));
        let at: Vec<_> = row.into_iter().chain((!is_one(keys)).then(|| "key".to_owned())).collect();
        let at = if at.is_empty() { "0".to_owned() } else { at.join(" + ") };
        let _ = writeln!(text, "  const Mask found = mask[{at}];");
        text += &match mask.effect {
            Effect::Added(DType::F32) => "  return score + found;\n".to_owned(),
            Effect::Added(_) => "  return score + to_float(found);\n".to_owned(),
            Effect::Fills { hides, fill } => {
                let condition = if hides { "found" } else { "!found" };
                format!("  return {condition} ? {} : score;\n", float(fill))
            }
        };
    } else {
        text += "  return score;\n";
    }
    text + "}\n\n"
}

/// The entry point, outside of the namespace.
fn entry(spec: &Spec, name: &str) -> String {
    let parts = format!("{name}_parts");
    let threads = Tiles::of(spec).threads;
    let pointer = |what: &str, name: &str| format!("{what}* {name}").replace('@', &format!("{parts}::"));
    let mut parameters: Vec<_> = ["q", "k", "v"].iter().map(|name| pointer("const @T", name)).collect();
    parameters.extend(spec.mask.is_some().then(|| pointer("const @Mask", "mask")));
    parameters.push(pointer("@T", "y"));
    let mut known = String::new();
    for (size, dim) in [("queries", &spec.queries), ("keys", &spec.keys)] {
        match dim.fixed() {
            Some(number) => {
                let _ = writeln!(known, "  constexpr i64 {size} = {number};");
            }
            None => parameters.push(format!("i64 {size}")),
        }
    }
    let group = spec.heads / spec.kv_heads;
    let blocks = Tiles::of(spec).blocks(spec);
    let mut text = format!("extern \"C\" __global__ void __launch_bounds__({threads}, {blocks}) {name}(\n");
    let _ = writeln!(text, "    {}) {{\n  BYOC_SHARED(shared);\n  wait_for_earlier_kernels();", parameters.join(", "));
    text += &known;
    let _ = writeln!(text, "  const i64 batch = blockIdx.z, head = blockIdx.y, kv_head = head / {group};");
    let at = |name: &str, layout: &Layout, heads: usize, size: usize| {
        let (head, rows) = match name {
            "q" | "y" => ("head", "queries"),
            _ => ("kv_head", "keys"),
        };
        match layout {
            Layout::HeadsFirst => format!("{name} + (batch * {heads} + {head}) * {rows} * {size}"),
            Layout::RowsFirst { width, start } => {
                format!("{name} + batch * {rows} * {width} + {start} + {head} * {size}")
            }
        }
    };
    let (size, values) = (spec.size, spec.value_size);
    let mask = spec.mask.as_ref().map_or_else(|| "nullptr".to_owned(), |mask| mask_at(mask, spec));
    let places = [
        at("q", &spec.q, spec.heads, size),
        at("k", &spec.k, spec.kv_heads, size),
        at("v", &spec.v, spec.kv_heads, values),
        mask,
        at("y", &spec.y, spec.heads, values),
    ];
    let _ = writeln!(
        text,
        "  {parts}::attend(\n      shared,\n      {},\n      int(queries), int(keys));\n}}",
        places.join(",\n      ")
    );
    text
}

/// The address of the mask of a head.
fn mask_at(mask: &Mask, spec: &Spec) -> String {
    let [batch, heads, ..] = &mask.shape;
    let plane = format!("{} * {}", size_of_mask(mask, spec, 2), size_of_mask(mask, spec, 3));
    let own_head = !is_one(heads);
    match (is_one(batch), own_head) {
        (true, false) => "mask".to_owned(),
        (true, true) => format!("mask + head * {plane}"),
        (false, false) => format!("mask + batch * {plane}"),
        (false, true) => format!("mask + (batch * {} + head) * {plane}", spec.heads),
    }
}

/// A size of the mask as C++: a number, or a parameter of the kernel.
fn size_of_mask(mask: &Mask, spec: &Spec, axis: usize) -> String {
    match &mask.shape[axis] {
        Dim::Fixed(size) => size.to_string(),
        dim if axis == 2 && *dim == spec.queries => "queries".into(),
        _ => "keys".into(),
    }
}

fn is_one(dim: &Dim) -> bool {
    *dim == Dim::Fixed(1)
}

/// The name of a type in the prelude.
fn kind(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        _ => "float",
    }
}

/// A number as C++ reads it back to the bit.
fn float(number: f32) -> String {
    if number == f32::NEG_INFINITY { "-infinite()".into() } else { format!("{number:e}f") }
}

impl Mask {
    /// Whether it only hides: its fill is minus infinity.
    fn only_hides(&self) -> bool {
        matches!(self.effect, Effect::Fills { fill: f32::NEG_INFINITY, .. })
    }
}
