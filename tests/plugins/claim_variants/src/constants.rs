//! The constant_updater: the claims that follow from the code; and the forms in which weights are kept.

use std::io::Write;

use byoc_plugin_api::{Claims, ConstantId, Constants, DType, Error, Job, Options, Packed};

use crate::program::{Placement, Program};

pub(crate) fn constant_updater(job: &Job<'_>, code: &[u8], claims: &mut Claims<'_>) -> Result<(), Error> {
    let Job { region, constants, options, .. } = *job;
    let (program, _) = Program::split(code)?;
    for constant in &region.constants {
        let id = constant.id;
        match program.placement(id) {
            Some(Placement::Host) => claims.host(id)?,
            Some(Placement::Embedded | Placement::Quantised) => claims.embedded(id)?,
            Some(Placement::Packed) => pack(id, constants, options, claims)?,
            // A condition that decided what the code does.
            None if region.values[constant.value].dtype == DType::Bool => claims.embedded(id)?,
            None => claims.unused(id)?,
        }
    }
    Ok(())
}

fn pack(id: ConstantId, constants: &Constants<'_>, options: &Options, claims: &mut Claims<'_>) -> Result<(), Error> {
    let (layout, feature) = (options.text("layout"), options.text("feature"));
    let view = constants.get(id).ok_or_else(|| Error::new(format!("constant {id} was not given")))?;
    let (&[rows, columns], Some(width)) = (view.shape(), panel_width(layout)) else {
        return Err(Error::new(format!("constant {id} cannot be packed as '{layout}'")));
    };
    let (rows, columns) = (rows as usize, columns as usize);
    let packed = Packed::new(layout, DType::F32, &[columns / width, rows, width]);
    let packed = if feature.is_empty() { packed } else { packed.for_features(&[feature]) };
    let values = view.to_vec::<f32>()?;
    let panels = panel_order(rows, columns, width).flat_map(|place| values[place].to_le_bytes());
    Ok(claims.packed(id, packed)?.write_all(&panels.collect::<Vec<_>>())?)
}

/// The number of columns in a panel, of a layout such as `panels-8/1`.
pub(crate) fn panel_width(layout: &str) -> Option<usize> {
    let width = layout.strip_prefix("panels-")?.strip_suffix("/1")?.parse().ok()?;
    (width > 0).then_some(width)
}

/// The row-major places of a matrix's elements in the order in which panels hold them.
pub(crate) fn panel_order(rows: usize, columns: usize, width: usize) -> impl Iterator<Item = usize> {
    (0..columns / width).flat_map(move |panel| {
        (0..rows).flat_map(move |row| (0..width).map(move |column| row * columns + panel * width + column))
    })
}

/// A scale, and a byte for each value.
pub(crate) fn quantise(values: &[f32]) -> Vec<u8> {
    let scale = values.iter().fold(0f32, |most, value| most.max(value.abs())) / 127.0;
    let byte = |value: &f32| (value / scale).round() as i8 as u8;
    scale.to_le_bytes().into_iter().chain(values.iter().map(byte)).collect()
}

/// What [`quantise`] made of `len` values, back to values.
pub(crate) fn restore(data: &[u8], len: usize) -> Option<Vec<f32>> {
    let (scale, bytes) = data.split_first_chunk()?;
    let scale = f32::from_le_bytes(*scale);
    Some(bytes.get(..len)?.iter().map(|&byte| f32::from(byte as i8) * scale).collect())
}
