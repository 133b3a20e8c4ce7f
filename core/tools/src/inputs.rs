//! The inputs of a run: by name from files, the rest filled where the user asks for it.

mod sizes;
mod source;
pub(crate) mod test_data;

use std::collections::HashMap;

use byoc_core::diagnostic::{Code, Diagnostic, Result};
use byoc_core::dim;
use byoc_core::runtime::PortInfo;
use byoc_plugin_api::DType;

use crate::fill::{Fill, Range, fill};
use crate::lists::{self, Given, Parts};
use crate::tensor::{Tensor, byte_length};
use crate::text;

use self::source::{Part, Reading};
pub use self::source::{Place, Source};
pub use self::test_data::expected_outputs;

/// Where the values of inputs come from.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Files.
    pub sources: Vec<Source>,
    /// How inputs without a file are filled; without it a missing input is an error.
    pub fill: Option<Fill>,
    /// The seed of random values; the same seed and input name give the same values.
    pub seed: u64,
    /// Ranges of random values, each for the input of that name; `None` is for all others.
    pub ranges: Vec<(Option<String>, Range)>,
    /// What is taken from each pixel of an image, where 0 is black and 1 is white: one number or one a channel; empty for 0.
    pub mean: Vec<f32>,
    /// What each pixel is divided by after that; empty for 1.
    pub std: Vec<f32>,
}

/// Sizes that are left open by a model or an artifact, and are known now.
#[derive(Clone, Debug, Default)]
pub struct OpenSizes {
    /// Shapes of inputs, by name.
    pub shapes: Vec<(String, Vec<usize>)>,
    /// Sizes of symbolic dimensions, by name.
    pub dims: Vec<(String, usize)>,
}

impl OpenSizes {
    /// Whether nothing is given.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty() && self.dims.is_empty()
    }
}

impl Inputs {
    /// Every input at random.
    pub fn random() -> Inputs {
        Inputs { fill: Some(Fill::Random), ..Inputs::default() }
    }
}

/// The inputs of a run.
#[derive(Clone, Debug)]
pub struct Gathered {
    /// One value for each port, in their order.
    pub values: Vec<Given>,
    /// Names of those that no file gives, and that are filled therefore.
    pub made_up: Vec<String>,
}

/// Gathers the value of each port. `warn` is called with what a user should know of them.
pub fn gather(
    ports: &[PortInfo],
    inputs: &Inputs,
    open_sizes: &OpenSizes,
    warn: &mut dyn FnMut(Diagnostic),
) -> Result<Gathered> {
    let mut given: Vec<Option<Tensor>> = vec![None; ports.len()];
    let mut parts = vec![Parts::default(); ports.len()];
    let mut reading = Reading::new(ports, inputs, open_sizes, warn)?;
    for source in &inputs.sources {
        for Part { port: index, element, tensor } in reading.read(source)? {
            let port = &ports[index];
            let new = match port.list {
                Some(_) => parts[index].add(element, tensor),
                None => given[index].replace(tensor).is_none(),
            };
            if !new {
                let name = element.map_or_else(|| port.name.clone(), |at| lists::element_name(&port.name, at));
                return Err(bad(format!("input '{name}' is given twice")).hint("Leave one of them out"));
            }
        }
    }
    reading.finish()?;
    check_ranges(ports, inputs)?;
    let symbols = sizes::symbols(ports, &given, open_sizes)?;
    let filling = Filling { inputs, symbols: &symbols, open_sizes };
    let mut made_up = Vec::new();
    let value = |(port, (given, parts)): (&PortInfo, (Option<Tensor>, Parts))| {
        let given = given.map(Given::Tensor).map_or_else(|| parts.list(port), |given| Ok(Some(given)))?;
        match (given, inputs.fill) {
            // An optional is made up like other inputs, if nothing says that it holds nothing.
            (Some(given), mode) if mode.is_none() || given != Given::Nothing => Ok(given),
            (_, Some(mode)) => {
                made_up.push(port.name.clone());
                filling.value(port, mode)
            }
            (_, None) => Err(missing(ports, port)),
        }
    };
    let values = ports.iter().zip(given.into_iter().zip(parts)).map(value).collect::<Result<_>>()?;
    Ok(Gathered { values, made_up })
}

/// Errors where a range is for nothing that is made up at random.
fn check_ranges(ports: &[PortInfo], inputs: &Inputs) -> Result<()> {
    if inputs.ranges.is_empty() {
        return Ok(());
    }
    if inputs.fill != Some(Fill::Random) {
        let message = "--fill-range is for random values, and the inputs are not filled with any";
        return Err(Diagnostic::new(Code::Usage, message).hint("Leave it out, or give --fill random"));
    }
    for name in inputs.ranges.iter().filter_map(|(name, _)| name.as_ref()) {
        if !ports.iter().any(|port| port.name == *name) {
            let names: Vec<_> = ports.iter().map(|port| port.name.as_str()).collect();
            let error = bad(format!("there is no input '{name}', which --fill-range names"));
            return Err(error.hint(format!("The inputs are: {}", names.join(", "))));
        }
    }
    Ok(())
}

/// The ports with their types, in words.
fn listed(ports: &[PortInfo]) -> String {
    let ty = |port: &PortInfo| match &port.list {
        Some(list) => list.to_string(),
        None => format!("{}{}", port.dtype, text::shape(&port.shape)),
    };
    let all: Vec<_> = ports.iter().map(|port| format!("{}: {}", port.name, ty(port))).collect();
    all.join(", ")
}

fn missing(ports: &[PortInfo], port: &PortInfo) -> Diagnostic {
    let name = &port.name;
    let how = match &port.list {
        Some(_) => format!("Give its tensors as '{name}.0', '{name}.1' and so on"),
        None => "Give it with --input".to_owned(),
    };
    bad(format!("input '{name}' is not given"))
        .hint(format!("{how}, or make it up with --fill random. The inputs are: {}", listed(ports)))
}

/// How many tensors a sequence gets that is made up.
const MADE_UP: usize = 3;

/// What values are made up from.
struct Filling<'a> {
    inputs: &'a Inputs,
    symbols: &'a HashMap<String, usize>,
    open_sizes: &'a OpenSizes,
}

impl Filling<'_> {
    fn value(&self, port: &PortInfo, mode: Fill) -> Result<Given> {
        let PortInfo { name, dtype, shape, list } = port;
        let mode = self.ranged(mode, name, list.as_ref().map_or(*dtype, |list| list.dtype))?;
        let chosen = self.open_sizes.shapes.iter().find(|(chosen, _)| chosen == name).map(|(_, shape)| shape.clone());
        let Some(list) = list else {
            let shape = match chosen {
                Some(shape) => shape,
                None => dim::eval_shape(shape, self.symbols).map_err(|_| unknown_size(port, self.symbols))?,
            };
            return self.tensor(name, *dtype, &shape, mode).map(Given::Tensor);
        };
        let declared = || list.shape.as_ref()?.iter().map(|size| size.as_ref()?.fixed()).collect();
        let unknown = || {
            bad(format!("input '{name}' is {list}, and cannot be filled: the shape of its tensors is open"))
                .hint(format!("Give their shape, as in --shape {name}:2x3"))
        };
        let shape: Vec<usize> = chosen.or_else(declared).ok_or_else(unknown)?;
        let tensor = |index: usize| self.tensor(&lists::element_name(name, index), list.dtype, &shape, mode);
        match list.sequence {
            true => (0..MADE_UP).map(tensor).collect::<Result<_>>().map(Given::Sequence),
            false => tensor(0).map(Given::Optional),
        }
    }

    /// The same, with the range that the user gives for the input, or for all.
    fn ranged(&self, mode: Fill, name: &str, dtype: DType) -> Result<Fill> {
        let of = |wanted: Option<&str>| self.inputs.ranges.iter().find(|(own, _)| own.as_deref() == wanted);
        match of(Some(name)).or_else(|| of(None).filter(|_| dtype != DType::String)) {
            None => Ok(mode),
            Some((_, range)) if range.fits(dtype) => Ok(Fill::Within(*range)),
            Some((_, Range { low, high })) => {
                let error = bad(format!("input '{name}' is {dtype}, which has no values from {low} to {high}"));
                Err(error.hint(format!("Give a range for it, as in --fill-range {name}=0,1")))
            }
        }
    }

    fn tensor(&self, name: &str, dtype: DType, shape: &[usize], mode: Fill) -> Result<Tensor> {
        let text = text::shape(shape);
        let unfit = || bad(format!("input '{name}' of shape {text} does not fit in memory"));
        let sizes: Option<Vec<i64>> = shape.iter().map(|&size| i64::try_from(size).ok()).collect();
        sizes.as_ref().and_then(|sizes| byte_length(dtype, sizes)).ok_or_else(unfit)?;
        let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size));
        let bytes = fill(mode, self.inputs.seed, name, dtype, elements.unwrap_or(0))
            .map_err(|shortage| shortage.diagnostic(Code::BadInput, format!("input '{name}' {dtype}{text}")))?;
        sizes.and_then(|sizes| Tensor::new(dtype, sizes, bytes)).ok_or_else(unfit)
    }
}

/// `known` are the sizes that are given: it is one of the others that is missing.
fn unknown_size(port: &PortInfo, known: &HashMap<String, usize>) -> Diagnostic {
    let symbol = dim::symbols(&port.shape).find(|symbol| !known.contains_key(symbol)).unwrap_or_default();
    let shape = text::shape(&port.shape);
    bad(format!("input '{}' of shape {shape} cannot be filled: the size '{symbol}' is open", port.name))
        .hint(format!("Set it, as in --dim '{symbol}=1'"))
}

fn bad(message: String) -> Diagnostic {
    Diagnostic::new(Code::BadInput, message)
}

#[cfg(test)]
mod tests {
    use byoc_plugin_api::Dim;

    use super::*;
    use crate::npz;

    fn ports() -> Vec<PortInfo> {
        let port =
            |name: &str, dtype, shape: &[Dim]| PortInfo { name: name.into(), dtype, shape: shape.to_vec(), list: None };
        let batch = Dim::Symbolic("batch".into());
        vec![port("ids", DType::I64, &[batch.clone(), Dim::Fixed(4)]), port("mask", DType::F32, &[batch])]
    }

    fn sizes(dim: &[(&str, usize)], shape: &[(&str, &[usize])]) -> OpenSizes {
        OpenSizes {
            dims: dim.iter().map(|(name, size)| ((*name).into(), *size)).collect(),
            shapes: shape.iter().map(|(name, shape)| ((*name).into(), shape.to_vec())).collect(),
        }
    }

    #[test]
    fn open_sizes_come_from_flags_and_from_files() {
        let shapes = |inputs: &Inputs, open: &OpenSizes| {
            gather(&ports(), inputs, open, &mut |warning| panic!("{warning}"))
                .expect("filled")
                .values
                .iter()
                .map(|given| match given {
                    Given::Tensor(tensor) => tensor.shape().to_vec(),
                    other => panic!("{other:?} is not a tensor"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(shapes(&Inputs::random(), &sizes(&[("batch", 2)], &[])), [vec![2, 4], vec![2]]);
        assert_eq!(shapes(&Inputs::random(), &sizes(&[], &[("mask", &[3])])), [vec![3, 4], vec![3]]);
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("in.npz");
        let mask = Tensor::new(DType::F32, vec![5], vec![0; 20]).expect("a tensor");
        npz::write(&path, &[("mask".into(), mask)]).expect("written");
        let inputs = Inputs { sources: vec![Source::file(path)], ..Inputs::random() };
        assert_eq!(shapes(&inputs, &OpenSizes::default()), [vec![5, 4], vec![5]]);
    }

    #[test]
    fn what_is_made_up_has_a_range_and_is_told() {
        let range = |low, high| Range { low, high };
        let inputs = Inputs { ranges: vec![(Some("ids".into()), range(5.0, 9.0))], ..Inputs::random() };
        let gathered = gather(&ports(), &inputs, &sizes(&[("batch", 64)], &[]), &mut |warning| panic!("{warning}"));
        let Gathered { values, made_up } = gathered.expect("filled");
        assert_eq!(made_up, ["ids", "mask"]);
        let [Given::Tensor(ids), Given::Tensor(mask)] = &values[..] else { panic!("{values:?}") };
        assert!(ids.numbers().all(|number| (5.0..=9.0).contains(&number.value())));
        assert!(mask.numbers().all(|number| (0.0..1.0).contains(&number.value())));
        let error = |inputs: &Inputs| {
            let error = gather(&ports(), inputs, &sizes(&[("batch", 1)], &[]), &mut |warning| panic!("{warning}"));
            error.expect_err("a mistake").to_string()
        };
        let cases = [
            (
                Inputs { fill: Some(Fill::Zeros), ..inputs.clone() },
                "[B901] --fill-range is for random values, and the inputs are not filled with any. Leave it out, or give --fill \
                 random",
            ),
            (
                Inputs { ranges: vec![(Some("id".into()), range(0.0, 1.0))], ..Inputs::random() },
                "[B701] there is no input 'id', which --fill-range names. The inputs are: ids, mask",
            ),
            (
                Inputs { ranges: vec![(None, range(0.1, 0.9))], ..Inputs::random() },
                "[B701] input 'ids' is i64, which has no values from 0.1 to 0.9. Give a range for it, as in --fill-range ids=0,1",
            ),
        ];
        for (inputs, text) in cases {
            assert_eq!(error(&inputs), text);
        }
    }

    #[test]
    fn sizes_that_contradict_each_other_name_what_told_them() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("in.npz");
        let ids = Tensor::new(DType::I64, vec![2, 4], vec![0; 64]).expect("a tensor");
        let mask = Tensor::new(DType::F32, vec![3], vec![0; 12]).expect("a tensor");
        npz::write(&path, &[("ids".into(), ids), ("mask".into(), mask)]).expect("written");
        let inputs = Inputs { sources: vec![Source::file(path)], ..Inputs::default() };
        let error = |dims: &[(&str, usize)]| {
            gather(&ports(), &inputs, &sizes(dims, &[]), &mut |warning| panic!("{warning}"))
                .expect_err("they do")
                .to_string()
        };
        let text = "[B701] input 'mask': the size 'batch' is 3, and 2 by input 'ids'. Give sizes that agree";
        assert_eq!(error(&[]), text);
        let text = "[B701] input 'ids': the size 'batch' is 2, and 3 by --dim. Give sizes that agree";
        assert_eq!(error(&[("batch", 3)]), text);
        let both = gather(&ports(), &inputs, &sizes(&[], &[("mask", &[5])]), &mut |warning| panic!("{warning}"));
        let text = "[B701] input 'mask' is [3] in its file, and [5] by --shape. Give sizes that agree";
        assert_eq!(both.expect_err("they do").to_string(), text);
    }

    #[test]
    fn mistakes_name_the_input_and_what_there_is() {
        let error = |inputs: &Inputs, open: &OpenSizes| {
            let error = gather(&ports(), inputs, open, &mut |warning| panic!("{warning}")).expect_err("a mistake");
            (error.message, error.hint.unwrap_or_default())
        };
        let none = OpenSizes::default();
        let (message, hint) = error(&Inputs::random(), &none);
        assert_eq!(message, "input 'ids' of shape [batch,4] cannot be filled: the size 'batch' is open");
        assert_eq!(hint, "Set it, as in --dim 'batch=1'");
        // Of several open sizes, one that is not given.
        let size = |name: &str| Dim::Symbolic(name.into());
        let table = PortInfo { name: "t".into(), dtype: DType::F32, shape: vec![size("B"), size("S + 1")], list: None };
        let given = sizes(&[("B", 2)], &[]);
        let left = gather(&[table], &Inputs::random(), &given, &mut |warning| panic!("{warning}")).expect_err("open");
        assert_eq!(left.message, "input 't' of shape [B,S + 1] cannot be filled: the size 'S' is open");
        assert_eq!(left.hint.as_deref(), Some("Set it, as in --dim 'S=1'"));
        let (message, hint) = error(&Inputs::default(), &none);
        assert_eq!(message, "input 'ids' is not given");
        assert!(hint.ends_with("The inputs are: ids: i64[batch,4], mask: f32[batch]"), "{hint}");
        let (message, hint) = error(&Inputs::random(), &sizes(&[("bach", 1)], &[]));
        assert_eq!(
            (message.as_str(), hint.as_str()),
            ("the entry has no dimension 'bach'", "Its dimensions are: batch")
        );
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("in.npz");
        let tensor = || Tensor::new(DType::I32, vec![1], vec![0; 4]).expect("a tensor");
        for (name, expected, remedy) in [
            (
                "musk",
                format!("there is no input 'musk', which '{}' gives", path.display()),
                "Did you mean 'mask'? The inputs are: ids, mask",
            ),
            (
                "mask",
                format!("input 'mask' is i32 in '{}', the entry takes f32", path.display()),
                "Convert it with NumPy's astype('float32')",
            ),
        ] {
            npz::write(&path, &[(name.into(), tensor())]).expect("written");
            let inputs = Inputs { sources: vec![Source::file(path.clone())], ..Inputs::default() };
            assert_eq!(error(&inputs, &none), (expected, remedy.to_owned()));
        }
    }
}
