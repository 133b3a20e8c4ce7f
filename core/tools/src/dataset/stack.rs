//! One file with all samples, stacked along the first dimension of each array.

use std::path::Path;

use super::{arrays, bad};
use crate::npz;
use byoc_core::calibrate::{Input, Samples};
use byoc_core::diagnostic::Result;

/// The samples of a file.
pub(super) struct Stack {
    count: usize,
    /// The elements of all samples, one array for each input.
    arrays: Vec<Vec<u8>>,
}

impl Stack {
    /// Reads the file as samples of these inputs.
    pub(super) fn open(path: &Path, inputs: &[Input]) -> Result<Stack> {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        let found = match extension.as_deref() {
            Some("npz") => arrays::by_name(path, npz::read(path)?, inputs)?,
            Some("npy") => vec![arrays::read_npy(path, inputs)?],
            _ => {
                let message = format!("the data set '{}' is not a folder, .npz or .npy file", path.display());
                return Err(bad(message).hint("Put single samples, such as images, into a folder"));
            }
        };
        let samples = found.into_iter().zip(inputs).map(|(array, input)| arrays::samples(path, array, input));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        let count = samples.first().map_or(0, |(count, _)| *count);
        if let Some(other) = samples.iter().position(|(other, _)| *other != count) {
            let message = format!(
                "'{}' has {count} samples of input '{}' and {} of '{}'",
                path.display(),
                inputs[0].name,
                samples[other].0,
                inputs[other].name
            );
            return Err(bad(message).hint("A sample is a tensor for each input"));
        }
        Ok(Stack { count, arrays: samples.into_iter().map(|(_, elements)| elements).collect() })
    }
}

impl Samples for Stack {
    fn count(&self) -> usize {
        self.count
    }

    fn name(&self, sample: usize) -> String {
        sample.to_string()
    }

    fn load(&self, sample: usize) -> Result<Vec<Vec<u8>>> {
        let cut = |array: &Vec<u8>| {
            let size = array.len() / self.count.max(1);
            array[sample * size..(sample + 1) * size].to_vec()
        };
        Ok(self.arrays.iter().map(cut).collect())
    }
}
