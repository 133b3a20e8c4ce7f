//! Errors as the user sees them: a code, one line that names the thing and the cause, and a remedy.
//! The one list of codes is here; `docs/errors.md` is generated from it.

use std::fmt;
use std::path::{Path, PathBuf};

use byoc_dim::{DimError, DimErrorKind};
use byoc_plugin_api::closest;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $id:literal, exit $exit:literal;)*) => {
        /// What went wrong, as a stable code. The text of each variant is what `docs/errors.md` prints.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $name,)* }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Code] = &[$(Code::$name,)*];

            /// The code as printed, such as `B101`.
            pub fn id(self) -> &'static str {
                match self { $(Code::$name => $id,)* }
            }

            /// The exit code of a command that ends with this error.
            pub fn exit(self) -> u8 {
                match self { $(Code::$name => $exit,)* }
            }

            /// What the code means, in a sentence or two.
            pub fn explanation(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc, "\n",)+),)* }
            }
        }
    };
}

codes! {
    /// The file is not an ONNX model, or it is cut short.
    NotOnnx = "B101", exit 1;
    /// The model uses an operator, or a version of one, that neither this build nor a backend of the list knows.
    UnknownOperator = "B102", exit 1;
    /// A tensor of the model is damaged: its bytes and its shape disagree, or its type is not supported.
    BadTensor = "B103", exit 1;
    /// An external-data reference leaves the model's folder, or its file is missing, too short or no regular file.
    ExternalData = "B104", exit 1;
    /// The model's graph is not well formed: a value is missing, defined twice, or part of a cycle.
    BadGraph = "B105", exit 1;
    /// A node has an attribute, an input or an output that its operator does not allow.
    BadNode = "B106", exit 1;
    /// Element types do not fit an operator, or an output is of another one than its model declares.
    TypeMismatch = "B201", exit 1;
    /// Shapes do not fit an operator, or an output has another one than its model declares.
    ShapeMismatch = "B202", exit 1;
    /// A shape must be known before the run, and depends on data.
    ShapeUnknown = "B203", exit 1;
    /// `--shape` or `--dim` does not fit the model.
    ShapeOption = "B204", exit 2;
    /// Constant folding failed in the host backend.
    Folding = "B205", exit 1;
    /// A plugin file cannot be opened, or is not a plugin.
    NotAPlugin = "B301", exit 3;
    /// A plugin and this host do not speak a common ABI version.
    AbiMismatch = "B302", exit 3;
    /// No backend of that name was found.
    UnknownBackend = "B303", exit 3;
    /// A backend does not have that option, or not with that value.
    BadOption = "B304", exit 2;
    /// A plugin broke a rule of the contract.
    PluginContract = "B305", exit 3;
    /// A backend failed while it described itself, checked or compiled a region.
    BackendFailed = "B306", exit 1;
    /// A backend's process ended or did not answer while it compiled a region.
    BackendCrashed = "B307", exit 5;
    /// `BYOC_PLUGIN_ALLOW` is set and does not name the digest of a plugin file.
    PluginNotAllowed = "B308", exit 3;
    /// A backend's note about the code of a region. A warning, never an error.
    BackendNote = "B309", exit 1;
    /// No backend of the list takes a node, and no host backend of the list knows it.
    NoBackend = "B401", exit 4;
    /// The placement breaks `--require`, `--no-fallback` or `--max-host-nodes`, or a backend's option `require-whole-model`.
    PlacementPolicy = "B402", exit 4;
    /// A backend of the list takes no node of the model. A warning, never an error.
    UnusedBackend = "B403", exit 4;
    /// A constant of a region has no claim, two claims, or a claim names an unknown constant.
    BadClaim = "B501", exit 1;
    /// A region's code holds the bytes of a constant that the file stores as well.
    DuplicateConstant = "B502", exit 1;
    /// Two compiles of the same input gave different bytes.
    NotReproducible = "B503", exit 1;
    /// A constant cannot be swapped: the artifact does not hold its original bytes, or the new ones do not fit.
    CannotSwap = "B504", exit 1;
    /// A file cannot be read or written.
    Io = "B601", exit 1;
    /// The file is not an artifact, or it is damaged; or a file was cut short by another program while it was in use.
    DamagedArtifact = "B602", exit 1;
    /// The artifact was written in a format that this build does not read.
    ArtifactVersion = "B603", exit 1;
    /// The artifact needs something that this machine or this command line does not have.
    MissingRequirement = "B604", exit 3;
    /// A file that the artifact takes constants from is not there, or is not the one it was compiled from.
    ConstantSource = "B605", exit 1;
    /// A backend cannot read a file of its own format, or the code of a region: it is damaged, or of a version that the
    /// backend does not know.
    CodeFile = "B606", exit 1;
    /// An input's name, type or shape is not what the entry takes, or a data set cannot be read as samples of the inputs.
    BadInput = "B701", exit 2;
    /// The artifact or the model has no entry, region or value of that name.
    UnknownName = "B702", exit 2;
    /// A region failed while it ran.
    RunFailed = "B703", exit 1;
    /// A backend chooses number ranges from samples of the inputs, and the compile was given no data set (`--dataset`).
    NeedsDataset = "B704", exit 2;
    /// The model cannot be run over the data set to see which values its tensors take.
    Calibration = "B705", exit 1;
    /// A device has too little memory, or work on it failed.
    Device = "B706", exit 1;
    /// Results differ by more than the tolerance.
    Mismatch = "B801", exit 6;
    /// The command line is not valid.
    Usage = "B901", exit 2;
    /// A program that calls byoc has ended a compile. Nothing is written.
    Interrupted = "B902", exit 130;
}

/// An error: code, one line, remedy. `message` names the thing and the cause and has no full stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// The kind of error.
    pub code: Code,
    /// One line.
    pub message: String,
    /// What the user can do about it.
    pub hint: Option<String>,
}

/// The result type of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Diagnostic>;

/// The remedy for an unknown name: the nearest known one, or all of them.
pub(crate) fn in_place_of<'a>(word: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    match closest(word, names.clone()) {
        Some(near) => format!("Did you mean '{near}'?"),
        None => format!("There is {}", names.collect::<Vec<_>>().join(", ")),
    }
}

impl Diagnostic {
    /// An error without a remedy.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Diagnostic { code, message: message.into(), hint: None }
    }

    /// Adds what the user can do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts the place before the message: `place: message`.
    pub fn within(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// An I/O error on `path`.
    pub fn io(path: &std::path::Path, doing: &str, error: &std::io::Error) -> Self {
        let error_of_path = Diagnostic::new(Code::Io, format!("cannot {doing} '{}': {error}", path.display()));
        if error.kind() != std::io::ErrorKind::NotFound {
            return error_of_path;
        }
        match near(path).map(|near| format!("Did you mean '{}'?", near.display())).or_else(|| beside(path)) {
            Some(hint) => error_of_path.hint(hint),
            None => error_of_path,
        }
    }
}

/// The directory of a file, which need not exist; `.` for a bare name.
pub fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Which files of the same kind are where one is not; or that the folder is not there.
fn beside(path: &Path) -> Option<String> {
    const SHOWN: usize = 3;
    let extension = path.extension()?;
    let folder = dir_of(path);
    let Ok(entries) = std::fs::read_dir(folder) else {
        return (!folder.exists()).then(|| format!("There is no folder '{}'", folder.display()));
    };
    let same = |path: &PathBuf| path.extension() == Some(extension) && path.is_file();
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(same).collect();
    names.sort();
    let shown: Vec<_> = names.iter().take(SHOWN).filter_map(|path| path.file_name()?.to_str()).collect();
    let more = if names.len() > SHOWN { " and others" } else { "" };
    (!shown.is_empty()).then(|| format!("In its folder there is {}{more}", shown.join(", ")))
}

/// A file beside a path that is not there whose name is a slip of the finger away.
fn near(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    // In a short name two slips make any other name of it.
    let slips = (name.chars().count() / 4).clamp(1, 2);
    let parent = path.parent()?;
    let names =
        std::fs::read_dir(dir_of(path)).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let near = names
        .map(|other| (strsim::levenshtein(name, &other), other))
        .filter(|(found, _)| (1..=slips).contains(found))
        .min()?;
    Some(parent.join(near.1))
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.code.id(), self.message)?;
        match &self.hint {
            Some(hint) => write!(f, ". {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

impl From<DimError> for Diagnostic {
    fn from(error: DimError) -> Self {
        let code = match error.kind {
            DimErrorKind::Invalid => Code::ShapeMismatch,
            DimErrorKind::Unknown => Code::ShapeUnknown,
            DimErrorKind::Contradiction => Code::BadInput,
        };
        Diagnostic { code, message: error.message, hint: error.hint }
    }
}

#[cfg(test)]
mod tests {
    use super::Code;
    use std::collections::HashSet;

    #[test]
    fn ids_are_unique_and_explained() {
        let ids: HashSet<_> = Code::ALL.iter().map(|code| code.id()).collect();
        assert_eq!(ids.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| code.explanation().len() > 20));
    }
}
