//! Evaluates the symbolic sizes of a program for given shapes: grids, size arguments, and the offsets of scratch buffers.
//! Nothing here calls CUDA.

use std::collections::HashMap;

use byoc_dim::{self as dim, DimError};
use byoc_dim::{Lifetime, plan_arena};
use byoc_plugin_api::{DEVICE_ALIGNMENT, DType, DeviceTensor, Dim, Error};

use crate::program::{Argument, BufferRef, Launch, Limit, Program, SizeRange, Tensor, Variant};

/// The most blocks along x, and along y and z.
const MOST_BLOCKS: [u64; 3] = [i32::MAX as u64, 65535, 65535];

/// A variant with its sizes evaluated.
pub(super) struct Sizes {
    /// The launches, in order.
    pub(super) work: Vec<SizedLaunch>,
    /// The offset of each scratch buffer.
    pub(super) offsets: Vec<u64>,
    /// Bytes of scratch memory.
    pub(super) scratch: u64,
}

/// A launch.
pub(super) struct SizedLaunch {
    /// Its position among the launches of the variant.
    pub(super) launch: usize,
    pub(super) grid: [u32; 3],
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) arguments: Vec<Value>,
}

/// An argument whose sizes are numbers.
pub(super) enum Value {
    Pointer(BufferRef),
    Size(i64),
    Map(Map),
    Made { arguments: Vec<Value>, bytes: u32 },
}

/// A tensor map.
pub(super) struct Map {
    pub(super) at: BufferRef,
    pub(super) dtype: DType,
    pub(super) sizes: Vec<u64>,
    pub(super) strides: Vec<u64>,
    pub(super) block: Vec<u32>,
    pub(super) swizzle: u32,
}

/// The sizes of symbols.
type Symbols = HashMap<String, usize>;

impl Sizes {
    /// The sizes for tensors of these shapes, on a device of so many multiprocessors.
    pub(super) fn of(
        program: &Program,
        variant: &Variant,
        multiprocessors: u32,
        inputs: &[DeviceTensor<'_>],
        outputs: &[DeviceTensor<'_>],
    ) -> Result<Sizes, Error> {
        let symbols = bind(&program.inputs, inputs)?;
        check("output", &program.outputs, outputs, &symbols)?;
        program.limits.iter().try_for_each(|limit| within(limit, &symbols))?;
        let (offsets, scratch) = lay_out(variant, &symbols)?;
        let mut work = Vec::with_capacity(variant.launches.len());
        for (position, launch) in variant.launches.iter().enumerate() {
            let named =
                |cause: Error| Error { message: format!("kernel {}: {}", launch.kernel, cause.message), ..cause };
            if let Some(grid) = grid(launch, multiprocessors, &symbols).map_err(named)? {
                let arguments = launch.arguments.iter().map(|argument| Value::of(argument, &symbols));
                let arguments = arguments.collect::<Result<_, Error>>().map_err(named)?;
                work.push(SizedLaunch {
                    launch: position,
                    grid,
                    block: launch.block,
                    shared: launch.shared,
                    arguments,
                });
            }
        }
        Ok(Sizes { work, offsets, scratch })
    }
}

/// Solves the symbols from the shapes of the inputs, and checks the shapes.
fn bind(expected: &[Tensor], inputs: &[DeviceTensor<'_>]) -> Result<Symbols, Error> {
    let mut symbols = Symbols::new();
    let pairs = expected.iter().zip(inputs).flat_map(|(tensor, input)| tensor.shape.iter().zip(input.shape));
    let mut open: Vec<(&str, usize)> = pairs
        .filter_map(|(dim, &size)| match dim {
            Dim::Symbolic(text) => Some((text.as_str(), usize::try_from(size).ok()?)),
            Dim::Fixed(_) => None,
        })
        .collect();
    // A size with several unknown symbols waits until other sizes determine them.
    loop {
        let before = open.len();
        let mut left = Vec::new();
        for (text, size) in open {
            if !dim::bind(text, size, &mut symbols)? {
                left.push((text, size));
            }
        }
        if left.is_empty() || left.len() == before {
            break;
        }
        open = left;
    }
    check("input", expected, inputs, &symbols)?;
    Ok(symbols)
}

/// Checks the types and shapes of all tensors of a kind.
fn check(kind: &str, expected: &[Tensor], found: &[DeviceTensor<'_>], symbols: &Symbols) -> Result<(), Error> {
    if expected.len() != found.len() {
        return Err(Error::new(format!("it has {} {kind}s, not {}", expected.len(), found.len())));
    }
    for (number, (tensor, found)) in expected.iter().zip(found).enumerate() {
        let shape = dim::eval_shape(&tensor.shape, symbols)?;
        let same = shape.len() == found.shape.len()
            && shape.iter().zip(found.shape).all(|(&size, &found)| i64::try_from(size) == Ok(found));
        if tensor.dtype != found.dtype || !same {
            let (dtype, wanted) = (tensor.dtype, &tensor.shape);
            let wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
            let message =
                format!("{kind} {number} is {} {:?}, not {dtype} [{}]", found.dtype, found.shape, wanted.join(", "));
            return Err(Error::new(message));
        }
    }
    Ok(())
}

fn size(dim: &Dim, symbols: &Symbols) -> Result<u64, DimError> {
    match dim {
        Dim::Fixed(size) => Ok(*size as u64),
        Dim::Symbolic(text) => Ok(dim::eval(text, symbols)? as u64),
    }
}

/// Checks a limit of the kernels.
fn within(limit: &Limit, symbols: &Symbols) -> Result<(), Error> {
    let Limit { of, elements, most } = limit;
    let found = size(elements, symbols)?;
    if found > *most {
        let error = Error::new(format!("{of} has {found} elements, but its kernels support at most {most}"));
        return Err(error.hint("Use a smaller batch"));
    }
    Ok(())
}

/// Assigns offsets to the scratch buffers, and their total size. Each is live from its first to its last launch; live ones
/// do not overlap.
fn lay_out(variant: &Variant, symbols: &Symbols) -> Result<(Vec<u64>, u64), Error> {
    let mut uses: Vec<Option<(usize, usize)>> = vec![None; variant.scratch.len()];
    for (step, launch) in variant.launches.iter().enumerate() {
        for place in launch.places() {
            if let BufferRef::Scratch(piece) = place {
                let first = uses[piece].map_or(step, |(first, _)| first);
                uses[piece] = Some((first, step));
            }
        }
    }
    let mut lifetimes = Vec::with_capacity(uses.len());
    let mut sum = 0u64;
    for (dim, used) in variant.scratch.iter().zip(&uses) {
        let bytes = if used.is_some() { size(dim, symbols)? } else { 0 };
        // Keeps the sums below from overflowing.
        sum = bytes
            .checked_next_multiple_of(DEVICE_ALIGNMENT as u64)
            .and_then(|bytes| sum.checked_add(bytes))
            .unwrap_or(u64::MAX);
        let (first, last) = used.unwrap_or_default();
        lifetimes.push(Lifetime { size: usize::try_from(bytes).unwrap_or(usize::MAX), first, last });
    }
    if sum > i64::MAX as u64 {
        return Err(Error::new("its scratch memory is too large"));
    }
    let plan = plan_arena(&lifetimes, DEVICE_ALIGNMENT);
    Ok((plan.offsets.iter().map(|&offset| offset as u64).collect(), plan.size as u64))
}

/// The grid; `None` if it is empty, or if the launch is for other sizes.
fn grid(launch: &Launch, multiprocessors: u32, symbols: &Symbols) -> Result<Option<[u32; 3]>, Error> {
    if let Some(SizeRange { of, least, most }) = &launch.only
        && !(*least..=*most).contains(&size(of, symbols)?)
    {
        return Ok(None);
    }
    let [x, y, z] = &launch.grid;
    let mut blocks = [size(x, symbols)?, size(y, symbols)?, size(z, symbols)?];
    if launch.persistent {
        blocks[0] = blocks[0].min(u64::from(multiprocessors));
    }
    if blocks.contains(&0) {
        return Ok(None);
    }
    if blocks.iter().zip(MOST_BLOCKS).any(|(&blocks, most)| blocks > most) {
        let [x, y, z] = blocks;
        let error = Error::new(format!("a grid of {x} x {y} x {z} blocks is more than a device takes"));
        return Err(error.hint("Use a smaller batch"));
    }
    Ok(Some(blocks.map(|blocks| blocks as u32)))
}

impl Value {
    fn of(argument: &Argument, symbols: &Symbols) -> Result<Value, Error> {
        let sizes = |dims: &[Dim]| dims.iter().map(|dim| size(dim, symbols)).collect::<Result<Vec<_>, _>>();
        Ok(match argument {
            Argument::Pointer(place) => Value::Pointer(*place),
            Argument::Size(dim) => {
                let size = i64::try_from(size(dim, symbols)?);
                Value::Size(size.map_err(|_| Error::new(format!("the size {dim} is too large")))?)
            }
            Argument::TensorMap(map) => {
                let (sizes, strides) = (sizes(&map.sizes)?, sizes(&map.strides)?);
                let (block, swizzle) = (map.block.clone(), map.swizzle);
                Value::Map(Map { at: map.at, dtype: map.dtype, sizes, strides, block, swizzle })
            }
            Argument::Made(made) => {
                let arguments = made.arguments.iter().map(|argument| Value::of(argument, symbols));
                Value::Made { arguments: arguments.collect::<Result<_, Error>>()?, bytes: made.bytes }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A persistent kernel has no more blocks than run at the same time.
    #[test]
    fn blocks_that_stay() {
        let launched = |persistent: bool, multiprocessors: u32| {
            let grid = [Dim::Symbolic("n".into()), Dim::Fixed(2), Dim::Fixed(1)];
            let (kernel, block, arguments) = ("k".into(), [8, 1, 1], Vec::new());
            let launch = Launch { kernel, grid, persistent, block, arguments, ..old() };
            grid_of(&launch, multiprocessors, 100)
        };
        assert_eq!(
            [launched(false, 78), launched(true, 78), launched(true, 132)],
            [[100, 2, 1], [78, 2, 1], [100, 2, 1]]
        );
        assert!(!old().persistent);
    }

    /// Of launches that do the same work, the one for the size.
    #[test]
    fn launches_for_some_sizes() {
        let of = || Dim::Symbolic("2*n".into());
        let only = |least: u64, most: u64| Launch { only: Some(SizeRange { of: of(), least, most }), ..old() };
        let launches = [only(0, 256), only(257, 2048), only(2049, u64::MAX), old()];
        let launched = |n: usize| {
            let symbols = Symbols::from([("n".to_owned(), n)]);
            launches.each_ref().map(|launch| grid(launch, 78, &symbols).expect("it is a grid").is_some())
        };
        assert_eq!(launched(1), [true, false, false, true]);
        assert_eq!(launched(128), [true, false, false, true]);
        assert_eq!(launched(129), [false, true, false, true]);
        assert_eq!(launched(1024), [false, true, false, true]);
        assert_eq!(launched(1025), [false, false, true, true]);
    }

    fn old() -> Launch {
        serde_json::from_str(OLD).expect("it is a launch")
    }

    /// A launch as it was written before there were persistent kernels.
    const OLD: &str = r#"{"cubin": 0, "kernel": "k", "grid": [1, 1, 1], "block": [8, 1, 1], "arguments": []}"#;

    fn grid_of(launch: &Launch, multiprocessors: u32, n: usize) -> [u32; 3] {
        let symbols = Symbols::from([("n".to_owned(), n)]);
        grid(launch, multiprocessors, &symbols).expect("it is a grid").expect("there is work")
    }
}
