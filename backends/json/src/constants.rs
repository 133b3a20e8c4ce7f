//! The constant_updater: one claim for each constant, as the program wants it.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use byoc_plugin_api::{Claims, ConstantId, Constants, DType, Error, Job, Packed, bf16, f16};
use half::vec::HalfFloatVecExt;

use crate::program::{Program, Source};

mod integer;
mod matrix;
mod parts;
mod recipe;

pub(crate) use integer::Form;
pub(crate) use parts::{Numbers, Part};
pub(crate) use recipe::{Recipe, Values};

/// Claims every constant of the region: what the program reads at load is kept by core, what it holds is embedded, what
/// carries a derived constant is packed, and the rest is not needed.
pub(crate) fn constant_updater(job: &Job<'_>, code: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
    let program = Program::parse(code)?;
    let mut host: HashSet<ConstantId> = HashSet::new();
    let mut embedded: HashSet<ConstantId> = HashSet::new();
    let mut packed: HashMap<ConstantId, (&Recipe, DType)> = HashMap::new();
    for constant in &program.constants {
        match &constant.source {
            Source::Host(id) => drop(host.insert(*id)),
            Source::Inline { id, .. } => drop(embedded.insert(*id)),
            Source::Derived { recipe, carrier: Some(id), stored } => {
                packed.insert(*id, (recipe, stored.unwrap_or(recipe.dtype())));
            }
            Source::Derived { recipe, carrier: None, stored: _ } => host.extend(recipe.sources()),
        }
    }
    for constant in &job.region.constants {
        let id = constant.id;
        match packed.get(&id) {
            _ if host.contains(&id) => claims.host(id)?,
            Some(&(recipe, dtype)) => pack(recipe, dtype, id, job.constants, claims)?,
            None if embedded.contains(&id) => claims.embedded(id)?,
            None => claims.unused(id)?,
        }
    }
    Ok(())
}

/// Claims the result of a recipe, stored as `dtype`, in the place of constant `id`.
fn pack(
    recipe: &Recipe,
    dtype: DType,
    id: ConstantId,
    constants: &Constants<'_>,
    claims: &mut Claims<'_>,
) -> Result<(), Error> {
    let view =
        |id: ConstantId| constants.get(id).copied().ok_or_else(|| Error::new(format!("constant {id} was not given")));
    let len = recipe.len().ok_or_else(|| Error::new("a recipe that no kernel takes"))?;
    let packed = Packed::new(recipe.layout(), dtype, &[len]).aligned(64);
    if matches!(recipe, Recipe::Matrix { .. }) {
        let mut writer = claims.packed(id, packed)?;
        return recipe.compute_matrix(&view, dtype, &mut |bytes| Ok(writer.write_all(bytes)?));
    }
    if dtype == DType::I8 {
        let mut values = vec![0i8; len];
        recipe.compute(&view, Values::I8(&mut values))?;
        let bytes: Vec<u8> = values.into_iter().map(|value| value as u8).collect();
        claims.packed(id, packed)?.write_all(&bytes)?;
        return Ok(());
    }
    let mut values = vec![0f32; len];
    recipe.compute(&view, Values::F32(&mut values))?;
    let mut writer = claims.packed(id, packed)?;
    // Converted piece by piece, so that the bytes are not held twice.
    let mut piece = Vec::with_capacity(1 << 16);
    for values in values.chunks(1 << 14) {
        piece.clear();
        store(dtype, values, &mut piece);
        writer.write_all(&piece)?;
    }
    Ok(())
}

/// Appends the bytes of elements that were computed as f32 and are stored as `dtype`: f32, or a type of 16 bits.
pub(crate) fn store(dtype: DType, values: &[f32], bytes: &mut Vec<u8>) {
    match dtype {
        DType::F16 => append(&Vec::<f16>::from_f32_slice(values), f16::to_le_bytes, bytes),
        DType::BF16 => append(&Vec::<bf16>::from_f32_slice(values), bf16::to_le_bytes, bytes),
        _ => append(values, f32::to_le_bytes, bytes),
    }
}

/// Element by element, so that the compiler makes one copy of it.
fn append<T: Copy, const N: usize>(elements: &[T], to_bytes: impl Fn(T) -> [u8; N], bytes: &mut Vec<u8>) {
    let start = bytes.len();
    bytes.resize(start + elements.len() * N, 0);
    for (to, &element) in bytes[start..].as_chunks_mut().0.iter_mut().zip(elements) {
        *to = to_bytes(element);
    }
}
