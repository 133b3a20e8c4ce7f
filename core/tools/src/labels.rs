//! Names of the classes that a model tells apart, one a line.

use std::path::{Path, PathBuf};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::{FileKind, Wanted, mistaken_for};

use crate::file;
use crate::outputs::Summary;
use crate::text::count;

/// The labels of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    path: PathBuf,
    lines: Vec<String>,
}

impl Labels {
    /// Reads the file: the label of class 0 is its first line. Lines are taken as they are, but for white space around them.
    pub fn read(path: &Path) -> Result<Labels> {
        file::open(path)?;
        match FileKind::of_file(path)? {
            FileKind::Text | FileKind::Empty => {}
            kind => return Err(mistaken_for(path, kind, Wanted::Text)),
        }
        let text = std::fs::read_to_string(path).map_err(|error| Diagnostic::io(path, "read", &error))?;
        let text = text.trim_start_matches('\u{feff}');
        Ok(Labels { path: path.to_owned(), lines: text.lines().map(|line| line.trim().to_owned()).collect() })
    }

    /// Gives the largest elements of outputs their labels: of those whose last dimension has as many elements as there are labels.
    ///
    /// Errors where there is no such output.
    pub fn apply(&self, summaries: &mut [Summary]) -> Result<()> {
        let mut found = false;
        for summary in summaries.iter_mut() {
            if summary.shape.last().and_then(|&size| usize::try_from(size).ok()) != Some(self.lines.len()) {
                continue;
            }
            found = true;
            for top in &mut summary.top {
                top.label = top.position.last().and_then(|&class| self.lines.get(class)).cloned();
            }
        }
        if found { Ok(()) } else { Err(self.wrong_number(summaries)) }
    }

    fn wrong_number(&self, summaries: &[Summary]) -> Diagnostic {
        let size = |summary: &Summary| match summary.shape.last() {
            Some(size) => format!("{size} in the last dimension of output '{}'", summary.name),
            None => format!("1 in output '{}'", summary.name),
        };
        let sizes: Vec<_> = summaries.iter().map(size).collect();
        let (path, lines) = (self.path.display(), count(self.lines.len(), "label"));
        let message = format!("'{path}' has {lines}, and there are {}", sizes.join(" and "));
        Diagnostic::new(Code::BadInput, message).hint("Use the labels of this model: one a line, the first for class 0")
    }
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::DType;

    use super::*;
    use crate::tensor::Tensor;

    fn summary(shape: &[i64]) -> Summary {
        let elements: i64 = shape.iter().product();
        let bytes = (0..elements).flat_map(|value| (value as f32).to_le_bytes()).collect();
        Summary::of("y", &Tensor::new(DType::F32, shape.to_vec(), bytes).expect("a tensor"), 2)
    }

    #[test]
    fn classes_get_the_names_of_their_lines() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("labels.txt");
        std::fs::write(&path, "\u{feff}n01440764 tench\r\nn01443537 goldfish\n\nlast\n").expect("written");
        let labels = Labels::read(&path).expect("labels");
        let mut summaries = [summary(&[2, 4]), summary(&[3])];
        labels.apply(&mut summaries).expect("4 labels for 4 classes");
        let names = |summary: &Summary| summary.top.iter().map(|top| top.label.clone()).collect::<Vec<_>>();
        assert_eq!(names(&summaries[0]), [Some("last".to_owned()), Some(String::new())]);
        assert_eq!(names(&summaries[1]), [None, None]);
        let error = labels.apply(&mut [summary(&[1, 5]), summary(&[])]).expect_err("another number");
        let message = format!(
            "'{}' has 4 labels, and there are 5 in the last dimension of output 'y' and 1 in output 'y'",
            path.display()
        );
        assert_eq!((error.code, error.message), (Code::BadInput, message));
        std::fs::write(&path, b"\x93NUMPY").expect("written");
        let message = format!("'{}' is not a text file: it is an .npy file with an array", path.display());
        assert_eq!(Labels::read(&path).expect_err("an array").message, message);
    }
}
