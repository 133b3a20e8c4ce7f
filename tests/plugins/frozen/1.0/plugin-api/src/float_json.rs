//! Floats in JSON without loss: JSON has no infinities and no NaN, so those three are written as texts.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f32),
    Text(String),
}

fn write(value: f32) -> Number {
    if value.is_finite() { Number::Finite(value) } else { Number::Text(value.to_string()) }
}

fn read<E: serde::de::Error>(number: Number) -> Result<f32, E> {
    match number {
        Number::Finite(value) => Ok(value),
        Number::Text(text) => text.parse().map_err(|_| E::custom(format!("'{text}' is no number"))),
    }
}

pub(crate) fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    write(*value).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    read(Number::deserialize(deserializer)?)
}

pub(crate) mod list {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|&value| write(value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
        Vec::<Number>::deserialize(deserializer)?.into_iter().map(read).collect()
    }
}
