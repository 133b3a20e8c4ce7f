//! Floats in code without loss: JSON has no infinities and no NaN, so those three are written as texts.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Float {
    Finite(f32),
    Text(String),
}

impl From<f32> for Float {
    fn from(value: f32) -> Self {
        if value.is_finite() { Float::Finite(value) } else { Float::Text(value.to_string()) }
    }
}

impl Float {
    fn read<E: serde::de::Error>(self) -> Result<f32, E> {
        match self {
            Float::Finite(value) => Ok(value),
            Float::Text(text) => text.parse().map_err(|_| E::custom(format!("'{text}' is no number"))),
        }
    }
}

pub(crate) fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    Float::from(*value).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    Float::deserialize(deserializer)?.read()
}

/// A float that may be absent.
pub(crate) mod option {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(value: &Option<f32>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(Float::from).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f32>, D::Error> {
        Option::<Float>::deserialize(deserializer)?.map(Float::read).transpose()
    }
}
