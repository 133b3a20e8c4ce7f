//! Types of values that hold tensors and are none themselves: sequences and optionals. Such a value is a handle in memory, by which
//! the runtime finds the tensors.

use byoc_plugin_api::{DType, Dim};

use super::TensorType;

/// What a sequence or an optional holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListType {
    /// Whether it may hold nothing at all.
    pub optional: bool,
    /// Whether it is a sequence of tensors; otherwise it is one tensor.
    pub sequence: bool,
    /// Element type of the tensors.
    pub dtype: DType,
    /// The shape of the tensors.
    pub shape: ElementShape,
}

/// What is known of the shapes of the tensors in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ElementShape {
    /// There is no tensor in it.
    Never,
    /// All have that many dimensions; a size is `None` where they may differ in it.
    Sizes(Vec<Option<Dim>>),
    /// They may differ in the number of their dimensions.
    Any,
}

impl ListType {
    /// The type of the value that stands for it.
    pub fn handle() -> TensorType {
        TensorType { dtype: DType::U64, shape: Vec::new() }
    }

    /// A sequence of such tensors.
    pub fn sequence(dtype: DType, shape: ElementShape) -> ListType {
        ListType { optional: false, sequence: true, dtype, shape }
    }

    /// The type of what may be either: `None` where one is a sequence and the other is not, or their elements are of different types.
    pub fn join(&self, other: &ListType) -> Option<ListType> {
        let fits = (self.sequence, self.dtype) == (other.sequence, other.dtype);
        fits.then(|| ListType {
            optional: self.optional || other.optional,
            shape: self.shape.join(&other.shape),
            ..self.clone()
        })
    }
}

impl ListType {
    /// Reads the text form at the beginning of `text`, and gives what is behind it; `None` where there is another type.
    pub fn read(text: &str) -> Result<Option<(ListType, &str)>, String> {
        let within = |text: &'_ str, word: &str| text.strip_prefix(word).map(|inner| text.len() - inner.len());
        let optional = within(text, "optional(");
        let inner = &text[optional.unwrap_or(0)..];
        let sequence = within(inner, "seq(");
        if optional.is_none() && sequence.is_none() {
            return Ok(None);
        }
        let inner = &inner[sequence.unwrap_or(0)..];
        // Sizes may be sums in parentheses.
        let sizes = inner.find(['[', ')']).filter(|&at| inner[at..].starts_with('['));
        let end = match sizes {
            Some(_) => inner.find(']').map(|end| end + 1),
            None => inner.find(')'),
        };
        let closed = if optional.is_some() && sequence.is_some() { "))" } else { ")" };
        let (element, rest) = inner.split_at(end.unwrap_or(inner.len()));
        let rest = rest.strip_prefix(closed).ok_or_else(|| format!("expected '{closed}' in '{text}'"))?;
        let (name, sizes) = element.split_once('[').map_or((element, None), |(name, sizes)| (name, Some(sizes)));
        let dtype = DType::from_name(name).ok_or_else(|| format!("'{name}' is not an element type"))?;
        let size = |text: &str| match text.trim() {
            "?" => None,
            text => Some(text.parse().map_or_else(|_| Dim::Symbolic(text.to_owned()), Dim::Fixed)),
        };
        let shape = match sizes.map(|sizes| sizes.trim_end_matches(']')) {
            None => ElementShape::Any,
            Some("") => ElementShape::Sizes(Vec::new()),
            Some("-") => ElementShape::Never,
            Some(sizes) => ElementShape::Sizes(sizes.split(',').map(size).collect()),
        };
        let list = ListType { optional: optional.is_some(), sequence: sequence.is_some(), dtype, shape };
        Ok(Some((list, rest)))
    }
}

impl ElementShape {
    /// That of one tensor: `stays` tells which sizes are the same wherever the list is read.
    pub fn of(ty: &TensorType, stays: impl Fn(&Dim) -> bool) -> ElementShape {
        ElementShape::Sizes(ty.shape.iter().map(|size| Some(size.clone()).filter(&stays)).collect())
    }

    /// What is known of tensors that are of either shape.
    pub fn join(&self, other: &ElementShape) -> ElementShape {
        match (self, other) {
            (ElementShape::Never, shape) | (shape, ElementShape::Never) => shape.clone(),
            (ElementShape::Sizes(one), ElementShape::Sizes(other)) if one.len() == other.len() => {
                let same = |(one, other): (&Option<Dim>, &Option<Dim>)| one.clone().filter(|_| one == other);
                ElementShape::Sizes(one.iter().zip(other).map(same).collect())
            }
            _ => ElementShape::Any,
        }
    }
}

impl std::fmt::Display for ListType {
    /// `seq(f32[3,?])`, `optional(f32)` where not even the number of dimensions is known, `seq(f32[-])` of an empty sequence.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = |size: &Option<Dim>| size.as_ref().map_or_else(|| "?".into(), Dim::to_string);
        let shape = match &self.shape {
            ElementShape::Never => "[-]".to_owned(),
            ElementShape::Sizes(sizes) => format!("[{}]", sizes.iter().map(size).collect::<Vec<_>>().join(",")),
            ElementShape::Any => String::new(),
        };
        let mut text = format!("{}{shape}", self.dtype);
        for (holds, word) in [(self.sequence, "seq"), (self.optional, "optional")] {
            if holds {
                text = format!("{word}({text})");
            }
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(sizes: &[Option<usize>]) -> ElementShape {
        ElementShape::Sizes(sizes.iter().map(|size| size.map(Dim::Fixed)).collect())
    }

    #[test]
    fn joined_types_keep_what_both_know() {
        let list = |optional, shape| ListType { optional, ..ListType::sequence(DType::F32, shape) };
        let sum = ElementShape::Sizes(vec![Some(Dim::Symbolic("(n+1)/2".into()))]);
        let cases = [
            (sum.clone(), sum, "optional(seq(f32[(n+1)/2]))"),
            (ElementShape::Never, sizes(&[Some(3), None]), "optional(seq(f32[3,?]))"),
            (sizes(&[Some(3), Some(4)]), sizes(&[Some(3), Some(5)]), "optional(seq(f32[3,?]))"),
            (sizes(&[]), sizes(&[]), "optional(seq(f32[]))"),
            (sizes(&[Some(3)]), sizes(&[]), "optional(seq(f32))"),
            (ElementShape::Any, ElementShape::Never, "optional(seq(f32))"),
            (ElementShape::Never, ElementShape::Never, "optional(seq(f32[-]))"),
        ];
        for (one, other, joined) in cases {
            let (one, other) = (list(false, one), list(true, other));
            let found = one.join(&other).expect("both are sequences");
            assert_eq!(found.to_string(), joined);
            assert_eq!(ListType::read(&format!("{joined} = x")), Ok(Some((found, " = x"))));
            assert_eq!(other.join(&one), one.join(&other));
        }
        let one = list(false, ElementShape::Any);
        assert_eq!(one.join(&ListType { sequence: false, ..one.clone() }), None);
        assert_eq!(one.join(&ListType { dtype: DType::I64, ..one.clone() }), None);
    }
}
