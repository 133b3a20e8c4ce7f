//! Reading and writing of fields: one description of a record for both directions, and a reader that trusts nothing.

use byoc_plugin_api::Error;

/// What is wrong with a file, and where.
#[derive(Debug)]
pub(crate) struct Damage {
    /// Bytes from the start of the file.
    pub(crate) offset: usize,
    /// One line, without a full stop.
    pub(crate) cause: String,
}

impl Damage {
    pub(crate) fn new(offset: usize, cause: impl Into<String>) -> Self {
        Damage { offset, cause: cause.into() }
    }

    /// The error that users see; `place` names the layer.
    pub(crate) fn into_error(self, place: &str) -> Error {
        Error::new(format!("damaged kmodel: {place} at offset {}: {}", self.offset, self.cause))
    }
}

/// Reads one part of a file from front to back.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A reader of `bytes`, which start at `offset` of the file.
    pub(crate) fn new(bytes: &'a [u8], offset: usize) -> Self {
        Reader { bytes, offset }
    }

    /// Offset of the reader from the start of the file.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// The next bytes, all or none.
    pub(crate) fn take(&mut self, length: u64, what: &str) -> Result<&'a [u8], Damage> {
        let left = self.bytes.len();
        let split = usize::try_from(length).ok().and_then(|length| self.bytes.split_at_checked(length));
        let (taken, rest) = split
            .ok_or_else(|| Damage::new(self.offset, format!("'{what}' takes {length} bytes and {left} are left")))?;
        self.bytes = rest;
        self.offset += taken.len();
        Ok(taken)
    }

    /// The next bytes, of a number known when the program is compiled.
    pub(crate) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Damage> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64, what)?);
        Ok(array)
    }

    /// `count` records of `size` bytes each; nothing is allocated before the bytes are known to be there.
    pub(crate) fn list<T: Field>(&mut self, count: u64, size: u64, what: &str) -> Result<Vec<T>, Damage> {
        let offset = self.offset;
        let mut part = Reader::new(self.take(count.saturating_mul(size), what)?, offset);
        (0..count).map(|_| T::read(&mut part, what)).collect()
    }
}

/// A type that a body can hold.
pub(crate) trait Field: Sized {
    fn read(reader: &mut Reader<'_>, name: &str) -> Result<Self, Damage>;
    fn write(&self, out: &mut Vec<u8>);
}

impl Field for u32 {
    fn read(reader: &mut Reader<'_>, name: &str) -> Result<Self, Damage> {
        reader.array(name).map(u32::from_le_bytes)
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }
}

impl Field for i32 {
    fn read(reader: &mut Reader<'_>, name: &str) -> Result<Self, Damage> {
        reader.array(name).map(i32::from_le_bytes)
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }
}

impl Field for f32 {
    fn read(reader: &mut Reader<'_>, name: &str) -> Result<Self, Damage> {
        reader.array(name).map(f32::from_le_bytes)
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }
}

impl Field for u64 {
    fn read(reader: &mut Reader<'_>, name: &str) -> Result<Self, Damage> {
        reader.array(name).map(u64::from_le_bytes)
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }
}

impl<const N: usize> Field for [u8; N] {
    fn read(reader: &mut Reader<'_>, name: &str) -> Result<Self, Damage> {
        reader.array(name)
    }
    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self);
    }
}

/// A struct whose fields are stored in declaration order.
macro_rules! record {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $kind:ty,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name { $($(#[$doc])* pub $field: $kind,)* }

        impl $crate::kmodel::fields::Field for $name {
            fn read(
                reader: &mut $crate::kmodel::fields::Reader<'_>,
                _: &str,
            ) -> Result<Self, $crate::kmodel::fields::Damage> {
                Ok($name { $($field: $crate::kmodel::fields::Field::read(reader, stringify!($field))?,)* })
            }
            fn write(&self, out: &mut Vec<u8>) {
                $($crate::kmodel::fields::Field::write(&self.$field, out);)*
            }
        }
    };
}
pub(crate) use record;
