//! Floats in JSON without loss, for `#[serde(with = "...")]`: JSON has no infinities and no NaN, so those three are written as
//! texts. Code of backends may use it too.

#![allow(missing_docs, clippy::missing_errors_doc, reason = "serde asks for these names and knows what they do")]

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
        Number::Text(text) => text.parse().map_err(|_| E::custom(format!("'{text}' is not a number"))),
    }
}

pub fn serialize<S: Serializer>(value: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    write(*value).serialize(serializer)
}

pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    read(Number::deserialize(deserializer)?)
}

/// Lists of floats.
pub mod list {
    use super::*;

    pub fn serialize<S: Serializer>(values: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|&value| write(value)))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f32>, D::Error> {
        Vec::<Number>::deserialize(deserializer)?.into_iter().map(read).collect()
    }
}
