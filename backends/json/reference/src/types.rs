//! Sets of element types, and the rule for the types of an operator's inputs.

use byoc_plugin_api::DType;

/// A set of element types. [`Types::SAME`] stands for "that of input 0".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types(u32);

impl Types {
    /// The type of the node's first input.
    pub const SAME: Types = Types(1 << 31);
    /// `bool`.
    pub const BOOL: Types = Types::of(&[DType::Bool]);
    /// `i64`.
    pub const I64: Types = Types::of(&[DType::I64]);
    /// The two types of indices.
    pub const INDEX: Types = Types::of(&[DType::I32, DType::I64]);
    /// Every floating-point type.
    pub const FLOAT: Types = Types::of(&[DType::F32, DType::F64, DType::F16, DType::BF16]);
    /// Signed integers.
    pub const SIGNED: Types = Types::of(&[DType::I8, DType::I16, DType::I32, DType::I64]);
    /// Integers that Rust has.
    pub const INTEGER: Types = Types::SIGNED.or(Types::of(&[DType::U8, DType::U16, DType::U32, DType::U64]));
    /// Integers of 32 and 64 bits.
    pub const WIDE: Types = Types::of(&[DType::I32, DType::I64, DType::U32, DType::U64]);
    /// Integers of 8 bits.
    pub const BYTE: Types = Types::of(&[DType::I8, DType::U8]);
    /// Floats of 8 bits that have a mantissa.
    pub const FLOAT8: Types = Types::of(&[DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ]);
    /// Types that Rust has not: what is stored in them is not calculated in them.
    pub const SMALL: Types =
        Types::FLOAT8.or(Types::of(&[DType::F8E8M0, DType::F4E2M1, DType::I4, DType::U4, DType::I2, DType::U2]));
    /// Complex numbers and texts: what is moved, and not calculated.
    pub const OPAQUE: Types = Types::of(&[DType::C64, DType::C128, DType::String]);
    /// Texts.
    pub const STRING: Types = Types::of(&[DType::String]);
    /// Everything but booleans.
    pub const NUMBER: Types = Types::FLOAT.or(Types::INTEGER);
    /// Every number that Rust has, and booleans.
    pub const ANY: Types = Types::NUMBER.or(Types::BOOL);

    /// The set of these types.
    pub const fn of(types: &[DType]) -> Types {
        let mut bits = 0;
        let mut i = 0;
        while i < types.len() {
            bits |= 1 << types[i] as u32;
            i += 1;
        }
        Types(bits)
    }

    /// The types of both sets.
    pub const fn or(self, other: Types) -> Types {
        Types(self.0 | other.0)
    }

    /// The others of the set.
    pub const fn without(self, dtype: DType) -> Types {
        Types(self.0 & !(1 << dtype as u32))
    }

    /// Whether `dtype` is in the set.
    pub const fn has(self, dtype: DType) -> bool {
        self.0 & (1 << dtype as u32) != 0
    }
}

/// Checks the types of `inputs` against one rule an input; the last rule holds for all further inputs.
pub(super) fn check(op: &str, rules: &[Types], inputs: &[Option<DType>]) -> Result<(), String> {
    let first = inputs.first().copied().flatten();
    for (index, dtype) in inputs.iter().enumerate().filter_map(|(index, dtype)| Some((index, (*dtype)?))) {
        let rule = rules.get(index).or(rules.last()).copied().unwrap_or(Types::ANY);
        if rule == Types::SAME {
            if first.is_some_and(|first| first != dtype) {
                return Err(format!("input {index} of {op} is {dtype}, unlike input 0"));
            }
        } else if !rule.has(dtype) {
            return Err(format!("{op} does not take {dtype} as input {index}"));
        }
    }
    Ok(())
}
