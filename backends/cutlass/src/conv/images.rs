//! Generates all kernels over NHWC images but convolutions, and the conversions to and from NHWC. Each instantiates a
//! template with its sizes; the batch size is an argument.

use byoc_dim::{self as dim, DimError};
use byoc_nvidia::build::PRELUDE;
use byoc_plugin_api::{DType, Dim};

use super::net::{Act, Conv, Image, Pair, Window};

const TEMPLATES: &str = include_str!("images.cuh");

/// Threads of a block, for one item per thread.
const THREADS: u32 = 256;

/// A kernel and its launch. Its parameters are its inputs, its output, and `count`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// The kernel's name, unique for its sizes.
    pub(crate) kernel: String,
    pub(crate) text: String,
    pub(crate) grid: [Dim; 3],
    pub(crate) block: [u32; 3],
    /// Items, if there is one thread per item.
    pub(crate) count: Option<Dim>,
}

/// A source of these kernels.
pub(crate) fn source<'a>(kernels: impl Iterator<Item = &'a str>) -> String {
    let kernels: String = kernels.collect();
    format!("{PRELUDE}{TEMPLATES}\n{kernels}")
}

/// The type of an element, as the templates have it.
fn element(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "f16",
        DType::BF16 => "bf16",
        _ => "float",
    }
}

/// A kernel whose body calls a template. Its inputs are named by `reads`.
fn text(kernel: &str, dtype: DType, reads: &[&str], count: bool, ahead: &str, call: &str) -> String {
    let element = element(dtype);
    let reads: String = reads.iter().map(|name| format!("const {element} *{name}, ")).collect();
    let count = if count { ", i64 count" } else { "" };
    format!(
        "{ahead}extern \"C\" __global__ void __launch_bounds__({THREADS}) {kernel}({reads}{element} *y{count}) {{\n  \
         {call};\n}}\n"
    )
}

/// A kernel with one thread for each of an image's `items`.
fn each(
    (kernel, dtype): (String, DType),
    reads: &[&str],
    (batch, items): (&Dim, usize),
    ahead: &str,
    template: &str,
) -> Result<Call, DimError> {
    let arguments: String = reads.iter().map(|name| format!("{name}, ")).collect();
    let text = text(&kernel, dtype, reads, true, ahead, &format!("{template}({arguments}y, count)"));
    let count = dim::mul(batch, &items.into())?;
    let grid = [dim::ceil_div(&count, &(THREADS as usize).into())?, 1.into(), 1.into()];
    Ok(Call { kernel, text, grid, block: [THREADS, 1, 1], count: Some(count) })
}

/// Packs of 16 bytes of an image.
fn packs(image: &Image, dtype: DType) -> usize {
    image.pixels() * image.pitch / (16 / dtype.unpacked_bytes())
}

/// From [N, C, H, W] to NHWC.
pub(crate) fn to_nhwc(image: &Image, dtype: DType) -> Result<Call, DimError> {
    let (pixels, element) = (image.pixels(), element(dtype));
    let Image { batch, channels, pitch, .. } = image;
    let sizes = format!("{element}, {channels}, {pixels}, {pitch}");
    if *pitch <= 16 / dtype.unpacked_bytes() {
        let kernel = format!("few_to_nhwc_{element}_{channels}_{pixels}_{pitch}");
        return each((kernel, dtype), &["x"], (batch, pixels), "", &format!("few_to_nhwc<{sizes}>"));
    }
    squares("to_nhwc", image, dtype, *pitch)
}

/// From NHWC to [N, C, H, W].
pub(crate) fn to_nchw(image: &Image, dtype: DType) -> Result<Call, DimError> {
    squares("to_nchw", image, dtype, image.channels)
}

fn squares(template: &str, image: &Image, dtype: DType, channels: usize) -> Result<Call, DimError> {
    let (pixels, element) = (image.pixels(), element(dtype));
    let sizes = format!("{}_{pixels}_{}", image.channels, image.pitch);
    let kernel = format!("{template}_{element}_{sizes}");
    let call = format!("{template}<{element}, {}>(x, y)", sizes.replace('_', ", "));
    let text = text(&kernel, dtype, &["x"], false, "", &call);
    let grid = [dim::mul(&image.batch, &pixels.div_ceil(32).into())?, channels.div_ceil(32).into(), 1.into()];
    Ok(Call { kernel, text, grid, block: [32, 8, 1], count: None })
}

/// The template argument for a window that makes `y` of `x`, and a part of a name.
fn window(window: &Window, x: &Image, y: &Image) -> [String; 2] {
    let Window { kernel, strides, dilations, pads } = window;
    let sizes = [[x.height, x.width], [y.height, y.width], *kernel, *strides, *pads, *dilations];
    let sizes: Vec<_> = sizes.as_flattened().iter().map(usize::to_string).collect();
    [format!("Window<{}>", sizes.join(", ")), sizes.join("_")]
}

/// Maximum pooling.
pub(crate) fn max_pool(of: &Window, x: &Image, y: &Image, dtype: DType) -> Result<Call, DimError> {
    let ([win, name], element, pitch) = (window(of, x, y), element(dtype), x.pitch);
    let kernel = format!("max_pool_{element}_{pitch}_{name}");
    let template = format!("max_pool<{element}, {win}, {pitch}>");
    each((kernel, dtype), &["x"], (&y.batch, packs(y, dtype)), "", &template)
}

/// The mean of each window, as [`super::net::Op::AveragePool`] says.
pub(crate) fn average_pool(
    of: &Window,
    padded: Option<[usize; 2]>,
    (x, y): (&Image, &Image),
    dtype: DType,
) -> Result<Call, DimError> {
    let ([win, name], element, pitch) = (window(of, x, y), element(dtype), x.pitch);
    let [bottom, right] = padded.unwrap_or_default();
    let kernel = match padded {
        Some(_) => format!("average_pool_{element}_{pitch}_{name}_{bottom}_{right}"),
        None => format!("average_pool_{element}_{pitch}_{name}"),
    };
    let template = format!("average_pool<{element}, {win}, {pitch}, {}, {bottom}, {right}>", padded.is_some());
    each((kernel, dtype), &["x"], (&y.batch, packs(y, dtype)), "", &template)
}

/// The mean of each channel.
pub(crate) fn global_average(x: &Image, dtype: DType) -> Result<Call, DimError> {
    let (element, pixels, pitch) = (element(dtype), x.pixels(), x.pitch);
    let kernel = format!("global_average_{element}_{pixels}_{pitch}");
    let call = format!("global_average<{element}, {pixels}, {pitch}>(x, y)");
    let text = text(&kernel, dtype, &["x"], false, "", &call);
    let across = (pitch / (16 / dtype.unpacked_bytes())).div_ceil(32);
    let grid = [dim::mul(&x.batch, &across.into())?, 1.into(), 1.into()];
    Ok(Call { kernel, text, grid, block: [32, 8, 1], count: None })
}

/// A struct with a function, named after the kernel that uses it.
fn function(kernel: &str, parameters: &str, text: &str) -> String {
    format!("struct of_{kernel} {{\n  __device__ static float of({parameters}) {{ return {text}; }}\n}};\n")
}

/// A function of each element.
pub(crate) fn map(act: Act, x: &Image, dtype: DType) -> Result<Call, DimError> {
    let kernel = format!("map_{}_{}", element(dtype), act.name());
    let ahead = function(&kernel, "float x", &act.text());
    let template = format!("map_one<{}, of_{kernel}>", element(dtype));
    each((kernel, dtype), &["x"], (&x.batch, packs(x, dtype)), &ahead, &template)
}

/// A function of the elements of two images.
pub(crate) fn pair(pair: Pair, a: &Image, b: &Image, dtype: DType) -> Result<Call, DimError> {
    let (element, each_pixel) = (element(dtype), b.pixels() != a.pixels());
    let kernel = match each_pixel {
        true => format!("map_{element}_{}_{}_{}", pair.name(), a.pixels(), a.pitch),
        false => format!("map_{element}_{}", pair.name()),
    };
    let (pixels, pitch) = if each_pixel { (a.pixels(), a.pitch) } else { (1, 16 / dtype.unpacked_bytes()) };
    let ahead = function(&kernel, "float x, float y", pair.text());
    let template = format!("map_two<{element}, of_{kernel}, {pixels}, {pitch}, {each_pixel}>");
    each((kernel, dtype), &["a", "b"], (&a.batch, packs(a, dtype)), &ahead, &template)
}

/// Copies one input of a concatenation to its channels.
pub(crate) fn place(x: &Image, y: &Image, first: usize, dtype: DType) -> Result<Call, DimError> {
    let (element, from, pitch) = (element(dtype), x.pitch, y.pitch);
    let kernel = format!("place_{element}_{from}_{pitch}_{first}");
    let template = format!("place<{element}, {from}, {pitch}, {first}>");
    each((kernel, dtype), &["x"], (&x.batch, packs(x, dtype)), "", &template)
}

/// A depthwise convolution.
pub(crate) fn depthwise(conv: &Conv, x: &Image, y: &Image, dtype: DType) -> Result<Call, DimError> {
    let ([win, name], element, pitch) = (window(&conv.window, x, y), element(dtype), x.pitch);
    let (act, text) = conv.before.map_or(("".into(), "x".into()), |act| (format!("_{}", act.name()), act.text()));
    let kernel = format!("depthwise_{element}_{pitch}_{name}{act}");
    let ahead = function(&kernel, "float x", &text);
    let template = format!("depthwise<{element}, of_{kernel}, {win}, {pitch}>");
    each((kernel, dtype), &["x", "weights"], (&y.batch, packs(y, dtype)), &ahead, &template)
}
