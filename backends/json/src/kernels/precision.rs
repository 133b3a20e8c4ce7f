//! How exactly products of bf16 compute what is f32.

use serde::{Deserialize, Serialize};

/// How products of f32 are computed on a processor that is faster at products of bf16, which it adds up in f32: by matrix units (AMX), or
/// by dot products (AVX512-BF16) for [`Math::Bf16`]; on others they are products of f32 always. A number of f32 is a sum of three of bf16,
/// its pieces, and of the products of two numbers' pieces those are added up that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Math {
    /// As f32, by multiply-adds.
    #[default]
    F32,
    /// Three pieces of each number, six products: as exact as f32.
    Bf16x6,
    /// Two pieces, three products: sixteen bits of precision.
    Bf16x3,
    /// Rounded to bf16, one product: eight bits of precision.
    Bf16,
}

impl Math {
    /// All, the default first.
    const ALL: [Math; 4] = [Math::F32, Math::Bf16x6, Math::Bf16x3, Math::Bf16];

    /// Their names, as options have them.
    pub const NAMES: [&str; 4] = ["f32", "bf16x6", "bf16x3", "bf16"];

    /// The one of that name; f32 for any other.
    pub fn from_name(name: &str) -> Math {
        Math::ALL.into_iter().find(|math| math.name() == name).unwrap_or_default()
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Math::NAMES[self as usize]
    }

    /// Its name, where it is computed by products of bf16.
    pub(crate) fn on_units(self) -> Option<&'static str> {
        (!self.is_f32()).then(|| self.name())
    }

    /// Numbers of bf16 as whose sum a number is computed; one that is computed as f32 is one too.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn pieces(self) -> usize {
        match self {
            Math::F32 | Math::Bf16 => 1,
            Math::Bf16x3 => 2,
            Math::Bf16x6 => 3,
        }
    }

    /// Whether it is computed as f32.
    pub(crate) fn is_f32(&self) -> bool {
        *self == Math::F32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_programs_have_the_same_names() {
        for (math, name) in Math::ALL.into_iter().zip(Math::NAMES) {
            assert_eq!((Math::from_name(name), math.name()), (math, name));
            assert_eq!(serde_json::to_value(math).expect("JSON"), name);
        }
    }
}
