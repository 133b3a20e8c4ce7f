//! The format: one line of JSON.

use byoc_plugin_api::{CodeFile, Error};
use serde::{Deserialize, Serialize};

/// The only version.
pub(crate) const VERSION: i64 = 1;

/// What the line says.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct File {
    /// The version of the format.
    pub(crate) version: i64,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) shape: Vec<usize>,
    /// The bits of the factors, for the last elements of the tensor: JSON has no NaN.
    pub(crate) by: Vec<u32>,
    /// What `open` is to say, true or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<CodeFile>,
    /// Where to go wrong: in `open`, by a crash or a panic, in `load` or in `run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}

impl File {
    pub(crate) fn factors(&self) -> impl Iterator<Item = f32> + Clone + '_ {
        self.by.iter().map(|&bits| f32::from_bits(bits))
    }

    /// Reads a file, or code, and tells how many of its bytes are the file.
    pub(crate) fn read(bytes: &[u8]) -> Result<(File, usize), Error> {
        let end = bytes.iter().position(|&byte| byte == b'\n').ok_or_else(|| Error::new("it is cut short"))?;
        let file: File = serde_json::from_slice(&bytes[..end]).map_err(|_| Error::new("it is not a line of JSON"))?;
        match file.fault.as_deref() {
            Some("crash") => std::process::abort(),
            Some("panic") => panic!("as asked"),
            _ => {}
        }
        match file.version {
            VERSION => Ok((file, end + 1)),
            0 => Err(Error::new("it does not say which version it has")),
            other => Err(Error::new(format!("it is of version {other}")).hint("Install a newer file-format")),
        }
    }
}
