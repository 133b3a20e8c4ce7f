//! A folder with a file for each sample: images and arrays, in the order of their names.

use std::path::{Path, PathBuf};

use byoc_core::calibrate::{Input, Samples};
use byoc_core::diagnostic::{Diagnostic, Result};

use super::images::{Images, Normalisation};
use super::{arrays, bad};
use crate::npz;

/// A file that is a sample.
pub(super) struct Sample {
    name: String,
    pub(super) path: PathBuf,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Image,
    Npy,
    Npz,
}

impl Kind {
    fn of(path: &Path) -> Option<Kind> {
        match path.extension()?.to_str()?.to_lowercase().as_str() {
            "png" | "jpg" | "jpeg" | "bmp" => Some(Kind::Image),
            "npy" => Some(Kind::Npy),
            "npz" => Some(Kind::Npz),
            _ => None,
        }
    }
}

impl Sample {
    pub(super) fn is_image(&self) -> bool {
        self.kind == Kind::Image
    }
}

/// The samples in a folder, sorted by name. Other files and folders are not looked at.
pub(super) fn list(dir: &Path) -> Result<Vec<Sample>> {
    let failed = |error: std::io::Error| Diagnostic::io(dir, "read the folder", &error);
    let mut samples = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if let Some(kind) = Kind::of(&path).filter(|_| path.is_file()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            samples.push(Sample { name, path, kind });
        }
    }
    if samples.is_empty() {
        return Err(bad(format!("the data set '{}' has no samples", dir.display())).hint(
            "A sample is a file that ends in .png, .jpg, .jpeg, .bmp, .npy or .npz; folders in it are not searched",
        ));
    }
    samples.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
    Ok(samples)
}

/// The samples of a folder for one model.
pub(super) struct Directory<'a> {
    samples: &'a [Sample],
    inputs: Vec<Input>,
    images: Option<Images>,
}

impl<'a> Directory<'a> {
    /// Looks at the size of each image, so that other files are reported before the model runs.
    pub(super) fn open(
        dir: &Path,
        samples: &'a [Sample],
        inputs: &[Input],
        normalisation: &Normalisation,
        warn: &mut dyn FnMut(Diagnostic),
    ) -> Result<Directory<'a>> {
        let files: Vec<_> =
            samples.iter().filter(|sample| sample.is_image()).map(|sample| sample.path.as_path()).collect();
        let images = match files.first() {
            Some(first) => Some(Images::new(first, inputs, normalisation)?),
            None => None,
        };
        if let Some(images) = &images
            && let Some(warning) = images.check(dir, &files)?
        {
            warn(warning);
        }
        Ok(Directory { samples, inputs: inputs.to_vec(), images })
    }
}

impl Samples for Directory<'_> {
    fn count(&self) -> usize {
        self.samples.len()
    }

    fn name(&self, sample: usize) -> String {
        self.samples[sample].name.clone()
    }

    fn load(&self, sample: usize) -> Result<Vec<Vec<u8>>> {
        let Sample { path, kind, .. } = &self.samples[sample];
        let arrays = match kind {
            Kind::Image => return self.images.iter().map(|images| images.load(path)).collect(),
            Kind::Npy => vec![arrays::read_npy(path, &self.inputs)?],
            Kind::Npz => arrays::by_name(path, npz::read(path)?, &self.inputs)?,
        };
        arrays.into_iter().zip(&self.inputs).map(|(array, input)| arrays::sample(path, array, input)).collect()
    }

    fn declared(&self, _input: usize) -> Option<(f32, f32)> {
        self.images.as_ref().map(Images::range)
    }
}
