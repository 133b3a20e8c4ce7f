//! The sizes that a model or an artifact leaves open: what the command line and files tell of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::dim::{self, Expr};
use byoc_core::runtime::PortInfo;
use byoc_plugin_api::Dim;

use super::{OpenSizes, bad};
use crate::tensor::Tensor;
use crate::text;

/// The sizes of symbolic dimensions: from `--dim`, and from tensors of files and `--shape`.
pub(super) fn symbols(
    ports: &[PortInfo],
    given: &[Option<Tensor>],
    open_sizes: &OpenSizes,
) -> Result<HashMap<String, usize>> {
    let known = known_symbols(ports)?;
    let mut symbols = HashMap::new();
    for (name, size) in &open_sizes.dims {
        if !known.contains(name) {
            let error = Diagnostic::new(Code::ShapeOption, format!("the entry has no dimension '{name}'"));
            return Err(match known.is_empty() {
                true => error.hint("All dimensions of its inputs are fixed"),
                false => error.hint(format!("Its dimensions are: {}", known.join(", "))),
            });
        }
        symbols.insert(name.clone(), *size);
    }
    for (name, _) in &open_sizes.shapes {
        if !ports.iter().any(|port| port.name == *name) {
            let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
            let error = Diagnostic::new(Code::ShapeOption, format!("there is no input '{name}'"));
            return Err(error.hint(format!("The inputs are: {}", names.join(", "))));
        }
    }
    let mut open = Vec::new();
    for (port, given) in ports.iter().zip(given) {
        let from_file: Option<Vec<usize>> =
            given.as_ref().map(|tensor| tensor.shape().iter().map(|&size| size as usize).collect());
        let from_flag = open_sizes.shapes.iter().find(|(name, _)| *name == port.name).map(|(_, shape)| shape.clone());
        if let (Some(file), Some(flag)) = (&from_file, &from_flag)
            && file != flag
        {
            let (name, file, flag) = (&port.name, text::shape(file), text::shape(flag));
            return Err(bad(format!("input '{name}' is {file} in its file, and {flag} by --shape"))
                .hint("Give sizes that agree"));
        }
        let shape: Option<Vec<usize>> = from_file.or(from_flag);
        open.extend(port.shape.iter().zip(shape.into_iter().flatten()).map(|(dim, size)| (port, dim, size)));
    }
    bind_all(open, &mut symbols)?;
    Ok(symbols)
}

/// Solves for symbols. A sum of two symbols can be taken apart once another size has told one of them.
fn bind_all(mut open: Vec<(&PortInfo, &Dim, usize)>, symbols: &mut HashMap<String, usize>) -> Result<()> {
    let mut origins = Origins(symbols.keys().map(|name| (name.clone(), "--dim".to_owned())).collect());
    loop {
        let mut left = Vec::new();
        let before = open.len();
        for (port, dim, size) in open {
            let Dim::Symbolic(text) = dim else { continue };
            let place = format!("input '{}'", port.name);
            origins.check(text, size, symbols).map_err(|error| error.within(&place))?;
            if !dim::bind(text, size, symbols).map_err(|error| Diagnostic::from(error).within(&place))? {
                left.push((port, dim, size));
            }
            origins.add(symbols, &place);
        }
        if left.is_empty() || left.len() == before {
            return Ok(());
        }
        open = left;
    }
}

/// What has told the size of each symbol.
struct Origins(BTreeMap<String, String>);

impl Origins {
    /// What is new among `symbols` was told by `origin`.
    fn add(&mut self, symbols: &HashMap<String, usize>, origin: &str) {
        for name in symbols.keys().filter(|name| !self.0.contains_key(*name)).cloned().collect::<Vec<_>>() {
            self.0.insert(name, origin.to_owned());
        }
    }

    /// Errors where what is known makes another size of `text` than `size`, and names what has told it.
    fn check(&self, text: &str, size: usize, symbols: &HashMap<String, usize>) -> Result<()> {
        let Ok(known) = dim::eval(text, symbols) else { return Ok(()) };
        if known == size {
            return Ok(());
        }
        let dim = Dim::Symbolic(text.to_owned());
        let origins: BTreeSet<_> =
            dim::symbols(std::slice::from_ref(&dim)).filter_map(|name| self.0.get(&name).cloned()).collect();
        let origins = origins.into_iter().collect::<Vec<_>>().join(" and ");
        Err(bad(format!("the size '{text}' is {size}, and {known} by {origins}")).hint("Give sizes that agree"))
    }
}

fn known_symbols(ports: &[PortInfo]) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for dim in ports.iter().flat_map(|port| &port.shape) {
        names.extend(Expr::of(dim)?.symbols());
    }
    names.sort();
    names.dedup();
    Ok(names)
}
