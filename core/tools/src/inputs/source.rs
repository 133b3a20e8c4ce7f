//! Files with values of inputs: what each holds is told by its contents.

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::file_kind::{FileKind, Wanted, mistaken_for};
use byoc_core::onnx::read_tensor;
use byoc_core::runtime::PortInfo;
use byoc_plugin_api::{DType, closest};
use bytes::Bytes;

use super::{Inputs, OpenSizes, bad, listed, test_data};
use crate::lists;
use crate::npy::{self, Array};
use crate::tensor::Tensor;
use crate::{file, npz};

/// A file with values of inputs, or a folder of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The input that it is for; what the file says, or the only one, where it is `None`.
    pub name: Option<String>,
    /// Where it is.
    pub place: Place,
}

/// Where values are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A file: `.npz`, `.npy`, a tensor of ONNX or an image. Or a folder of ONNX's test data.
    Path(PathBuf),
    /// A file of these kinds on standard input.
    Stdin,
}

/// A value that a source gives.
pub(super) struct Part {
    /// The port, by its index.
    pub(super) port: usize,
    /// Which tensor of a sequence it is; `None` for all of a value.
    pub(super) element: Option<usize>,
    pub(super) tensor: Tensor,
}

impl Source {
    /// A file, which tells by itself which inputs it is for.
    pub fn file(path: impl Into<PathBuf>) -> Source {
        Source { name: None, place: Place::Path(path.into()) }
    }

    /// A folder of ONNX's test data, if that is what it is.
    pub fn test_data(&self) -> Option<&Path> {
        match &self.place {
            Place::Path(path) if path.is_dir() => Some(path),
            Place::Path(_) | Place::Stdin => None,
        }
    }

    /// The files that are read.
    pub fn files(&self) -> Vec<PathBuf> {
        match (&self.place, self.test_data()) {
            (_, Some(folder)) => test_data::files(folder),
            (Place::Path(path), None) => vec![path.clone()],
            (Place::Stdin, None) => Vec::new(),
        }
    }
}

/// Reads sources for the ports of an entry.
pub(super) struct Reading<'a> {
    ports: &'a [PortInfo],
    inputs: &'a Inputs,
    #[cfg_attr(not(feature = "dataset"), allow(dead_code, reason = "only images use it"))]
    open_sizes: &'a OpenSizes,
    #[cfg_attr(not(feature = "dataset"), allow(dead_code, reason = "only images use it"))]
    warn: &'a mut dyn FnMut(Diagnostic),
    images: usize,
}

/// The contents of a file that is read in one go, and the path that messages have it by.
struct Contents<'a> {
    path: &'a Path,
    bytes: Bytes,
}

impl<'a> Reading<'a> {
    pub(super) fn new(
        ports: &'a [PortInfo],
        inputs: &'a Inputs,
        open_sizes: &'a OpenSizes,
        warn: &'a mut dyn FnMut(Diagnostic),
    ) -> Result<Reading<'a>> {
        if inputs.sources.iter().filter(|source| source.place == Place::Stdin).count() > 1 {
            return Err(bad("standard input is read for two inputs".into()).hint("Give it once, as an .npz file"));
        }
        Ok(Reading { ports, inputs, open_sizes, warn, images: 0 })
    }

    /// Errors where the flags for images are given without one.
    pub(super) fn finish(self) -> Result<()> {
        if self.images == 0 && !(self.inputs.mean.is_empty() && self.inputs.std.is_empty()) {
            let message = "--input-mean and --input-std are for images, and no input is one";
            return Err(Diagnostic::new(Code::Usage, message).hint("Leave them out: arrays are taken as they are"));
        }
        Ok(())
    }

    /// The values of one source.
    pub(super) fn read(&mut self, source: &Source) -> Result<Vec<Part>> {
        let name = source.name.as_deref();
        if let Some(folder) = source.test_data() {
            if let Some(name) = name {
                let message =
                    format!("'{}' is a folder, which gives all inputs and not '{name}' only", folder.display());
                return Err(bad(message).hint("Leave the name out, or name a file of the folder"));
            }
            let tensors = test_data::inputs(folder, self.ports)?;
            return tensors
                .into_iter()
                .enumerate()
                .map(|(port, (file, tensor))| self.part(port, None, tensor, &file))
                .collect();
        }
        match &source.place {
            Place::Path(path) => {
                // Errors where it is not a regular file.
                let opened = file::open(path)?;
                match FileKind::of_file(path)? {
                    FileKind::Npz => self.arrays(path, name, npz::read(path)?),
                    FileKind::Npy => self.array(path, name, npy::open(path)?),
                    kind => {
                        let bytes = read_to_end(opened).map_err(|error| Diagnostic::io(path, "read", &error))?;
                        self.contents(name, kind, &Contents { path, bytes })
                    }
                }
            }
            Place::Stdin => {
                let path = Path::new("standard input");
                let bytes =
                    read_to_end(std::io::stdin().lock()).map_err(|error| Diagnostic::io(path, "read", &error))?;
                match FileKind::of(&bytes) {
                    FileKind::Npz => self.arrays(path, name, npz::read_from(path, Cursor::new(bytes))?),
                    FileKind::Npy => {
                        let array = npy::read(&bytes).map_err(|cause| bad(format!("'{}': {cause}", path.display())))?;
                        self.array(path, name, array)
                    }
                    kind => self.contents(name, kind, &Contents { path, bytes }),
                }
            }
        }
    }

    /// Arrays with names of their own; where the source has a name, the array of that name or the only one.
    fn arrays(&self, path: &Path, name: Option<&str>, mut arrays: Vec<(String, Array)>) -> Result<Vec<Part>> {
        if let Some(name) = name {
            let found = arrays.iter().position(|(own, _)| own == name).or((arrays.len() == 1).then_some(0));
            let names = || arrays.iter().map(|(own, _)| own.as_str()).collect::<Vec<_>>().join(", ");
            let at = found.ok_or_else(|| {
                bad(format!("'{}' has no array '{name}'", path.display())).hint(format!("Its arrays are: {}", names()))
            })?;
            return self.array(path, Some(name), arrays.swap_remove(at).1);
        }
        let part = |(name, array): (String, Array)| {
            let (port, element) = find(self.ports, &name, path)?;
            let tensor = typed(&name, self.dtype(port), array, path)?;
            Ok(Part { port, element, tensor })
        };
        arrays.into_iter().map(part).collect()
    }

    fn array(&self, path: &Path, name: Option<&str>, array: Array) -> Result<Vec<Part>> {
        let (port, element) = self.port(path, name, "an array")?;
        let title = name.unwrap_or(&self.ports[port].name);
        let tensor = typed(title, self.dtype(port), array, path)?;
        Ok(vec![Part { port, element, tensor }])
    }

    /// A file that holds one tensor.
    fn contents(&mut self, name: Option<&str>, kind: FileKind, contents: &Contents<'_>) -> Result<Vec<Part>> {
        let path = contents.path;
        match kind {
            FileKind::Tensor => {
                let read = read_tensor(path, contents.bytes.clone())?;
                // Its own name counts where it is that of an input: others call it as they like.
                let own = Some(read.name.as_str()).filter(|own| lists::place(self.ports, own).is_some());
                let (port, element) = self.port(path, name.or(own), "a tensor")?;
                let tensor = test_data::tensor(path, read)?;
                Ok(vec![self.part(port, element, tensor, path)?])
            }
            FileKind::Image => {
                let (port, element) = self.port(path, name, "an image")?;
                let tensor = self.image(&self.ports[port].clone(), contents)?;
                Ok(vec![Part { port, element, tensor }])
            }
            FileKind::Sequence => Err(test_data::is_sequence(path)),
            kind => Err(mistaken_for(path, kind, Wanted::Values)),
        }
    }

    /// The port of that name; without a name, the only one.
    fn port(&self, path: &Path, name: Option<&str>, what: &str) -> Result<(usize, Option<usize>)> {
        if let Some(name) = name {
            return find(self.ports, name, path);
        }
        if self.ports.len() == 1 {
            return Ok((0, None));
        }
        let path = path.display();
        Err(match self.ports.first() {
            Some(first) => {
                let message = format!("'{path}' is {what}, and does not say for which input");
                let (name, all) = (&first.name, listed(self.ports));
                bad(message).hint(format!("Name it, as in --input {name}={path}. The inputs are: {all}"))
            }
            None => bad(format!("'{path}' is {what}, and the entry takes no inputs")).hint("Leave it out"),
        })
    }

    /// A tensor that has its own type.
    fn part(&self, port: usize, element: Option<usize>, tensor: Tensor, path: &Path) -> Result<Part> {
        let (name, dtype) = (&self.ports[port].name, self.dtype(port));
        if tensor.dtype() != dtype {
            let found = tensor.dtype();
            let message = format!("input '{name}' is {found} in '{}', the entry takes {dtype}", path.display());
            return Err(bad(message).hint("Write it with that type"));
        }
        Ok(Part { port, element, tensor })
    }

    fn dtype(&self, port: usize) -> DType {
        let port = &self.ports[port];
        port.list.as_ref().map_or(port.dtype, |list| list.dtype)
    }

    #[cfg(feature = "dataset")]
    fn image(&mut self, port: &PortInfo, contents: &Contents<'_>) -> Result<Tensor> {
        use byoc_core::calibrate::Input;

        use crate::dataset::images::{Images, Normalisation, decode};

        let Contents { path, bytes } = contents;
        let image = decode(path, bytes)?;
        // How many channels there are is not up to the image: its pixels can be read as one or as three.
        let own = [Some(1), None, Some(image.height() as usize), Some(image.width() as usize)];
        let size = |(axis, known): (usize, Option<usize>)| known.or_else(|| own.get(axis).copied().flatten());
        let shape: Option<Vec<_>> = self.sizes(port).into_iter().enumerate().map(size).collect();
        let shape = shape.ok_or_else(|| {
            let (name, shape) = (&port.name, crate::text::shape(&port.shape));
            let message = format!("'{}' is an image, and a size of input '{name}' {shape} is open", path.display());
            let fits = format!("--shape {name}:1x3x{}x{}", image.height(), image.width());
            bad(message).hint(format!("Images are for an input 1x3xHxW or 1x1xHxW, such as {fits} makes it"))
        })?;
        let input = Input { name: port.name.clone(), dtype: port.dtype, shape };
        let normalisation = Normalisation { mean: self.inputs.mean.clone(), std: self.inputs.std.clone() };
        let images = Images::new(path, std::slice::from_ref(&input), &normalisation)?;
        self.images += 1;
        if !images.fits(&image) {
            (self.warn)(images.stretched(path));
        }
        let elements = images.elements(path, image)?;
        let shape = input.shape.iter().map(|&size| size as i64).collect();
        Tensor::new(port.dtype, shape, elements)
            .ok_or_else(|| bad(format!("input '{}' does not fit the image '{}'", port.name, path.display())))
    }

    #[cfg(not(feature = "dataset"))]
    fn image(&mut self, _port: &PortInfo, contents: &Contents<'_>) -> Result<Tensor> {
        let message = format!("'{}' is an image, which this build does not read", contents.path.display());
        Err(bad(message).hint("Give the pixels as an .npy file"))
    }

    /// The sizes of a port, as far as the entry or the user tells them.
    #[cfg(feature = "dataset")]
    fn sizes(&self, port: &PortInfo) -> Vec<Option<usize>> {
        let OpenSizes { shapes, dims } = self.open_sizes;
        let chosen = shapes.iter().find(|(name, shape)| *name == port.name && shape.len() == port.shape.len());
        if let Some((_, shape)) = chosen {
            return shape.iter().copied().map(Some).collect();
        }
        let symbols = dims.iter().cloned().collect();
        let known = |dim: &byoc_plugin_api::Dim| {
            let sizes = byoc_core::dim::eval_shape(std::slice::from_ref(dim), &symbols).ok()?;
            sizes.first().copied()
        };
        port.shape.iter().map(known).collect()
    }
}

fn read_to_end(mut from: impl Read) -> std::io::Result<Bytes> {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

/// The port of that name, or the port of whose sequence it is an element, and which.
fn find(ports: &[PortInfo], name: &str, path: &Path) -> Result<(usize, Option<usize>)> {
    if let Some(place) = lists::place(ports, name) {
        return Ok(place);
    }
    let error = bad(format!("there is no input '{name}', which '{}' gives", path.display()));
    let names = || ports.iter().map(|port| port.name.as_str());
    let list = names().collect::<Vec<_>>().join(", ");
    Err(match closest(name, names()) {
        Some(near) => error.hint(format!("Did you mean '{near}'? The inputs are: {list}")),
        None if ports.is_empty() => error.hint("The entry takes no inputs"),
        None => error.hint(format!("The inputs are: {list}")),
    })
}

fn typed(name: &str, dtype: DType, array: Array, path: &Path) -> Result<Tensor> {
    array.into_tensor(dtype).map_err(|found| {
        let message = format!("input '{name}' is {found} in '{}', the entry takes {dtype}", path.display());
        bad(message).hint(npy::conversion(&found, dtype))
    })
}
