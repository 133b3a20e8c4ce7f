//! Types of tensors and attributes of nodes, short to write.

use std::collections::BTreeMap;

use crate::dtype::DType;
use crate::region::{Attribute, Dim};

/// An element type and a shape. It is made of a text such as `f32[n,64]` or `[n,64]`, of a list of sizes, or of both
/// parts: `(DType::F16, [2, 3])`. Without an element type it has the one of the [`RegionBuilder`](super::RegionBuilder).
#[derive(Clone, Debug, PartialEq)]
pub struct Type {
    /// The element type, where it was said.
    pub dtype: Option<DType>,
    /// The sizes. A text that is not a number is the one of a symbolic size: `n`, `n*4`.
    pub shape: Vec<Dim>,
}

impl Type {
    /// The sizes, which must be known.
    #[track_caller]
    pub fn sizes(&self) -> Vec<usize> {
        let sizes = self.shape.iter().map(Dim::fixed).collect::<Option<_>>();
        sizes.unwrap_or_else(|| panic!("a tensor with elements has fixed sizes, and not {:?}", self.shape))
    }
}

impl From<&str> for Type {
    #[track_caller]
    fn from(text: &str) -> Type {
        let parts = text.strip_suffix(']').and_then(|text| text.split_once('['));
        let (name, sizes) = parts.unwrap_or_else(|| panic!("'{text}' is not a type, such as f32[n,64]"));
        let dtype = DType::all().find(|dtype| dtype.name() == name);
        assert!(dtype.is_some() || name.is_empty(), "'{name}' of '{text}' is not an element type");
        let size = |size: &str| size.parse().map_or_else(|_| Dim::Symbolic(size.into()), Dim::Fixed);
        Type { dtype, shape: sizes.split(',').filter(|size| !size.is_empty()).map(size).collect() }
    }
}

impl From<&[Dim]> for Type {
    fn from(shape: &[Dim]) -> Type {
        Type { dtype: None, shape: shape.to_vec() }
    }
}

impl From<&[usize]> for Type {
    fn from(sizes: &[usize]) -> Type {
        Type { dtype: None, shape: sizes.iter().copied().map(Dim::Fixed).collect() }
    }
}

/// The other forms of the two lists above.
macro_rules! lists {
    ($($element:ty),*) => {$(
        impl From<Vec<$element>> for Type {
            fn from(shape: Vec<$element>) -> Type {
                Type::from(shape.as_slice())
            }
        }
        impl From<&Vec<$element>> for Type {
            fn from(shape: &Vec<$element>) -> Type {
                Type::from(shape.as_slice())
            }
        }
        impl<const N: usize> From<[$element; N]> for Type {
            fn from(shape: [$element; N]) -> Type {
                Type::from(shape.as_slice())
            }
        }
    )*};
}
lists!(Dim, usize);

impl<S: Into<Type>> From<(DType, S)> for Type {
    fn from((dtype, shape): (DType, S)) -> Type {
        Type { dtype: Some(dtype), shape: shape.into().shape }
    }
}

/// What is made into the attributes of a node: a list, or a text such as `axis=1 pads=[1,1] alpha=0.5 mode=edge`, in which
/// a number with a point is a float.
pub trait Attributes {
    /// The attributes by name.
    fn named(self) -> BTreeMap<String, Attribute>;
}

impl Attributes for &[(&str, Attribute)] {
    fn named(self) -> BTreeMap<String, Attribute> {
        self.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }
}

impl<const N: usize> Attributes for &[(&str, Attribute); N] {
    fn named(self) -> BTreeMap<String, Attribute> {
        self.as_slice().named()
    }
}

impl Attributes for &Vec<(&str, Attribute)> {
    fn named(self) -> BTreeMap<String, Attribute> {
        self.as_slice().named()
    }
}

impl Attributes for &str {
    #[track_caller]
    fn named(self) -> BTreeMap<String, Attribute> {
        self.split_whitespace().map(attribute).collect()
    }
}

fn attribute(text: &str) -> (String, Attribute) {
    let (name, value) = text.split_once('=').unwrap_or_else(|| panic!("'{text}' is not an attribute, such as axis=1"));
    let list = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let attribute = if let Some(list) = list {
        let number =
            |number: &str| number.parse().unwrap_or_else(|_| panic!("'{number}' of '{text}' is not an integer"));
        Attribute::Ints(list.split(',').filter(|number| !number.is_empty()).map(number).collect())
    } else if let Ok(number) = value.parse() {
        Attribute::Int(number)
    } else {
        value.parse().map_or_else(|_| Attribute::String(value.into()), Attribute::Float)
    };
    (name.to_owned(), attribute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_attributes_are_read() {
        let shape = vec![Dim::Symbolic("n*4".into()), Dim::Fixed(64)];
        assert_eq!(Type::from("f16[n*4,64]"), Type { dtype: Some(DType::F16), shape: shape.clone() });
        assert_eq!(Type::from("[n*4,64]"), Type::from(shape));
        assert_eq!(Type::from((DType::I64, [2, 3])), Type::from("i64[2,3]"));
        assert_eq!(Type::from("bool[]"), Type { dtype: Some(DType::Bool), shape: vec![] });
        let named = "axis=-1 pads=[1,2] alpha=0.5 mode=edge".named();
        let expected = [
            ("alpha", Attribute::Float(0.5)),
            ("axis", Attribute::Int(-1)),
            ("mode", Attribute::String("edge".into())),
            ("pads", Attribute::Ints(vec![1, 2])),
        ];
        assert_eq!(named, expected.named());
    }

    #[test]
    #[should_panic(expected = "'f33' of 'f33[2]' is not an element type")]
    fn an_unknown_element_type_is_named() {
        let _ = Type::from("f33[2]");
    }
}
