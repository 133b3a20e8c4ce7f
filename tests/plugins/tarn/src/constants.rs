//! The constant_updater: weights are packed, the bias stays as it is.

use byoc_plugin_api::{Claims, Error, Job};

use crate::codegen::{elements, form, weights};
use crate::packing::Matrix;

pub(crate) fn constant_updater(job: &Job<'_>, claims: &mut Claims<'_>) -> Result<(), Error> {
    let (weights, shape) = weights(job.region)?;
    for constant in &job.region.constants {
        if constant.id != weights {
            claims.host(constant.id)?;
            continue;
        }
        let is_filters = shape.len() == 4;
        let (rows, columns) = match is_filters {
            true => (shape[1..].iter().product(), shape[0]),
            false => (shape[0], shape[1]),
        };
        let matrix = Matrix::of(elements(job)?, rows, columns, is_filters);
        matrix.pack(weights, form(job)?, claims)?;
    }
    Ok(())
}
