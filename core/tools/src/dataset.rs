//! The data set of a compile: samples of the inputs, from a folder with a file each or from one file with all of them.

mod arrays;
mod directory;
pub(crate) mod images;
mod pixels;
mod stack;

use std::path::{Path, PathBuf};

use self::directory::Directory;
use self::images::Normalisation;
use self::stack::Stack;
use crate::file;
use byoc_core::calibrate::{Dataset, Input, Samples};
use byoc_core::diagnostic::{Code, Diagnostic, Result};

/// Where the samples are, and how images become tensors.
pub struct Files {
    path: PathBuf,
    place: Place,
    normalisation: Normalisation,
}

enum Place {
    Directory(Vec<directory::Sample>),
    Stack,
}

impl Files {
    /// What there is at `path`; nothing is read yet. `mean` and `std` are the user's, empty where none is given.
    pub fn find(path: &Path, mean: &[f32], std: &[f32]) -> Result<Files> {
        let about = std::fs::metadata(path).map_err(|error| Diagnostic::io(path, "open", &error))?;
        let place = match about.is_dir() {
            true => Place::Directory(directory::list(path)?),
            false => file::open(path).map(|_| Place::Stack)?,
        };
        if !mean.iter().all(|it| it.is_finite()) || !std.iter().all(|it| it.is_finite() && *it > 0.0) {
            let message = "the mean and the deviation of pixels are numbers, the deviation one above 0";
            return Err(Diagnostic::new(Code::Usage, message));
        }
        let normalisation = Normalisation { mean: mean.to_vec(), std: std.to_vec() };
        if normalisation.is_given() && !place.has_images() {
            let message =
                format!("--input-mean and --input-std are for images, and the data set '{}' has none", path.display());
            return Err(Diagnostic::new(Code::Usage, message).hint("Leave them out: arrays are taken as they are"));
        }
        Ok(Files { path: path.to_owned(), place, normalisation })
    }
}

/// The files of the data set at `path`; none where there is no data set.
pub fn files(path: &Path) -> Vec<PathBuf> {
    match directory::list(path) {
        Ok(samples) => samples.into_iter().map(|sample| sample.path).collect(),
        Err(_) => vec![path.to_owned()],
    }
}

impl Place {
    fn has_images(&self) -> bool {
        match self {
            Place::Directory(samples) => samples.iter().any(directory::Sample::is_image),
            Place::Stack => false,
        }
    }
}

impl Dataset for Files {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn open(&self, inputs: &[Input], warn: &mut dyn FnMut(Diagnostic)) -> Result<Box<dyn Samples + '_>> {
        Ok(match &self.place {
            Place::Directory(samples) => {
                Box::new(Directory::open(&self.path, samples, inputs, &self.normalisation, warn)?)
            }
            Place::Stack => Box::new(Stack::open(&self.path, inputs)?),
        })
    }
}

/// An error of the data.
fn bad(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadInput, message)
}
