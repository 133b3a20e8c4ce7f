//! Constants as a backend meets them: looked at during `codegen`, claimed by `constant_updater`, bound at `load`.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::Error;
use crate::packed_group::Part;
use crate::region::ConstantId;
use crate::tensor::TensorView;

/// When a backend looks at the bytes of constants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstantAccess {
    /// While code is generated, and at load.
    #[default]
    Both,
    /// While code is generated only: nothing is bound at load.
    Codegen,
    /// At load only: during code generation views have a type and a shape but no data.
    Load,
}

/// A backend's answer, for one constant of its region, to "where do these bytes live?".
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Claim {
    /// Core keeps the original bytes and hands a view of them at load. Whoever else reads the constant shares them.
    /// The code must hold for whatever elements are bound: `byoc swap` replaces them without asking the backend.
    Host,
    /// Core keeps the bytes written after this claim instead of the original.
    Packed(Packed),
    /// The bytes are inside the code; core drops the original unless another region reads it.
    Embedded,
    /// The region does not need the bytes.
    Unused,
}

/// How packed bytes are to be read. Made by [`Packed::new`]; later versions may have more fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Packed {
    /// Names the layout and its version, such as `acme-panels/2`. `load` is given it back and must check it.
    pub layout: String,
    /// Alignment of the first byte, a power of two; 0 for core's default.
    #[serde(default)]
    pub alignment: u64,
    /// Element type of the packed bytes.
    pub dtype: DType,
    /// Shape of the packed bytes, row-major; with `dtype` it says how many bytes there are.
    pub shape: Vec<usize>,
    /// Processor features without which the layout is of no use, by the names of Rust's `is_x86_feature_detected!`, such
    /// as `avx512f`. They stand in the artifact; a machine that lacks one is told so before anything is loaded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_features: Vec<String>,
    /// The tensors that the bytes are made of, where they are a [group](Packed::group): for people, and checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

impl Packed {
    /// A layout for every processor, aligned as core likes it.
    pub fn new(layout: impl Into<String>, dtype: DType, shape: &[usize]) -> Packed {
        Packed {
            layout: layout.into(),
            alignment: 0,
            dtype,
            shape: shape.to_vec(),
            cpu_features: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// The same, with the first byte at a multiple of `alignment`.
    pub fn aligned(self, alignment: u64) -> Packed {
        Packed { alignment, ..self }
    }

    /// The same, for processors that have these features.
    pub fn for_features(self, features: &[&str]) -> Packed {
        Packed { cpu_features: features.iter().map(|&name| name.to_owned()).collect(), ..self }
    }
}

/// The constants of a region while code is generated.
pub struct Constants<'a> {
    entries: Vec<(ConstantId, TensorView<'a>)>,
}

impl<'a> Constants<'a> {
    /// A list of constants, in the order of [`crate::Region::constants`].
    pub fn new(entries: Vec<(ConstantId, TensorView<'a>)>) -> Self {
        Constants { entries }
    }

    /// The constant of that id.
    pub fn get(&self, id: ConstantId) -> Option<&TensorView<'a>> {
        // The host numbers constants in order.
        let place = self.entries.binary_search_by_key(&id, |(known, _)| *known).ok();
        let place = place.or_else(|| self.entries.iter().position(|(known, _)| *known == id))?;
        Some(&self.entries[place].1)
    }

    /// Every constant with its id.
    pub fn iter(&self) -> impl Iterator<Item = (ConstantId, &TensorView<'a>)> {
        self.entries.iter().map(|(id, view)| (*id, view))
    }
}

/// Where claims go. Core implements it; a backend calls the methods of [`Claims`].
pub trait ClaimSink {
    /// Takes a claim. Bytes of a packed constant follow by [`ClaimSink::write`], up to the next claim.
    fn claim(&mut self, id: ConstantId, claim: &Claim) -> Result<(), Error>;
    /// Takes the next bytes of the constant that was claimed as packed last.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error>;
}

/// What `constant_updater` fills: exactly one claim for each constant of the region.
pub struct Claims<'a> {
    sink: &'a mut dyn ClaimSink,
}

impl<'a> Claims<'a> {
    /// Claims that go to `sink`.
    pub fn new(sink: &'a mut dyn ClaimSink) -> Self {
        Claims { sink }
    }

    /// The sink itself, for a host that passes claims on.
    #[cfg(feature = "host")]
    pub fn sink(&mut self) -> &mut dyn ClaimSink {
        self.sink
    }

    /// Claims [`Claim::Host`].
    pub fn host(&mut self, id: ConstantId) -> Result<(), Error> {
        self.sink.claim(id, &Claim::Host)
    }

    /// Claims [`Claim::Embedded`].
    pub fn embedded(&mut self, id: ConstantId) -> Result<(), Error> {
        self.sink.claim(id, &Claim::Embedded)
    }

    /// Claims [`Claim::Unused`].
    pub fn unused(&mut self, id: ConstantId) -> Result<(), Error> {
        self.sink.claim(id, &Claim::Unused)
    }

    /// Claims [`Claim::Packed`]; the returned writer takes the bytes, in as many pieces as is handy. They go straight
    /// to disk, so a backend never needs more memory than one piece.
    pub fn packed(&mut self, id: ConstantId, packed: Packed) -> Result<PackedWriter<'_>, Error> {
        self.sink.claim(id, &Claim::Packed(packed))?;
        Ok(PackedWriter { sink: self.sink })
    }
}

/// Takes the bytes of one packed constant.
pub struct PackedWriter<'a> {
    sink: &'a mut dyn ClaimSink,
}

impl std::io::Write for PackedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.sink.write(bytes).map_err(|error| std::io::Error::other(error.message))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A constant at load: the original (claimed as `Host`) or packed bytes.
#[derive(Clone, Copy)]
pub struct BoundConstant<'a> {
    /// The id it was claimed by.
    pub id: ConstantId,
    /// The layout tag of packed bytes; `None` for the original.
    pub layout: Option<&'a str>,
    /// The bytes, valid as long as the executable.
    pub view: TensorView<'a>,
}

impl<'a> BoundConstant<'a> {
    /// The original bytes, if they are.
    pub(crate) fn original(&self) -> Result<TensorView<'a>, Error> {
        match self.layout {
            None => Ok(self.view),
            Some(layout) => {
                Err(Error::new(format!("constant {} is packed as '{layout}', expected the original", self.id)))
            }
        }
    }

    /// The packed bytes, if they have that layout.
    pub(crate) fn packed_as(&self, layout: &str) -> Result<TensorView<'a>, Error> {
        if self.layout == Some(layout) {
            return Ok(self.view);
        }
        let found = self.layout.unwrap_or("the original");
        Err(Error::new(format!("constant {} is packed as '{found}', expected '{layout}'", self.id))
            .hint("Compile the model again with this version of the backend"))
    }
}

/// The constants bound to a region at load, by id.
pub struct BoundConstants<'a> {
    entries: Vec<BoundConstant<'a>>,
}

impl<'a> BoundConstants<'a> {
    /// A list of bound constants.
    pub fn new(entries: Vec<BoundConstant<'a>>) -> Self {
        BoundConstants { entries }
    }

    /// Every bound constant.
    pub fn iter(&self) -> impl Iterator<Item = &BoundConstant<'a>> {
        self.entries.iter()
    }

    /// The original bytes of a constant that was claimed as `Host`.
    pub fn host(&self, id: ConstantId) -> Result<TensorView<'a>, Error> {
        self.find(id)?.original()
    }

    /// The bytes of a constant that was claimed as `Packed` with this layout. A different layout is an error, never a
    /// wrong result.
    pub fn packed(&self, id: ConstantId, layout: &str) -> Result<TensorView<'a>, Error> {
        self.find(id)?.packed_as(layout)
    }

    fn find(&self, id: ConstantId) -> Result<&BoundConstant<'a>, Error> {
        let place = self.entries.binary_search_by_key(&id, |bound| bound.id).ok();
        let place = place.or_else(|| self.entries.iter().position(|bound| bound.id == id));
        place.map(|place| &self.entries[place]).ok_or_else(|| Error::new(format!("constant {id} is not bound")))
    }
}
