//! Generated inputs. Random ones depend on the seed and on the input's name alone, so an input keeps its values when
//! another one is added.

use byoc_core::memory::{self, Shortage};
use byoc_plugin_api::small::{self, Round};
use byoc_plugin_api::{DType, text_block};
use half::{bf16, f16};

/// How generated inputs are filled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Random values: even in [0,1) for floats, 0 to 255 for `u8`, words for texts, 0 or 1 for other types.
    Random,
    /// Random values in a range that [`Range::fits`] the type; words for texts.
    Within(Range),
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
}

/// Bounds of random values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least value.
    pub low: f64,
    /// Of whole numbers the greatest value; of others values come near it.
    pub high: f64,
}

impl Range {
    /// Whether elements of that type have values in the range. What floats of 8 bits and less cannot hold becomes the nearest
    /// that they can.
    pub fn fits(self, dtype: DType) -> bool {
        let most = match dtype {
            DType::F16 => f64::from(f16::MAX),
            DType::BF16 => f64::from(bf16::MAX),
            DType::F32 | DType::C64 => f64::from(f32::MAX),
            DType::F64 | DType::C128 => f64::MAX,
            DType::String => return false,
            small if small.is_small_float() => return true,
            integer => return self.integers(integer).is_some(),
        };
        self.low.abs() <= most && self.high.abs() <= most
    }

    /// The least and the greatest of the whole numbers in it; `None` where there is none, or where the type does not have both.
    fn integers(self, dtype: DType) -> Option<(i64, i64)> {
        let unused = 64 - dtype.bits() as u32;
        let (least, most) = match dtype {
            DType::Bool => (0, 1),
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::I4 | DType::I2 => {
                (i64::MIN >> unused, i64::MAX >> unused)
            }
            _ => (0, i64::try_from(u64::MAX >> unused).unwrap_or(i64::MAX)),
        };
        let (low, high) = (self.low.ceil(), self.high.floor());
        (low <= high && low >= least as f64 && high <= most as f64).then_some((low as i64, high as i64))
    }
}

/// So many elements of that type. An error where there is no memory for them.
pub fn fill(mode: Fill, seed: u64, name: &str, dtype: DType, elements: usize) -> Result<Vec<u8>, Shortage> {
    match dtype {
        DType::C64 => return fill(mode, seed, name, DType::F32, elements.saturating_mul(2)),
        DType::C128 => return fill(mode, seed, name, DType::F64, elements.saturating_mul(2)),
        DType::String => return texts(mode, seed, name, elements),
        _ => {}
    }
    // Before they are packed they take as much as those of bytes.
    let length = elements.saturating_mul(dtype.unpacked_bytes());
    let mut bytes = match mode {
        Fill::Zeros => return memory::zeroed(dtype.bytes_for(elements).unwrap_or(usize::MAX)),
        Fill::Ones | Fill::Random | Fill::Within(_) => memory::room(length)?,
    };
    let (one, mut random) = (one(dtype), SplitMix::new(seed, name));
    for _ in 0..elements {
        match mode {
            Fill::Random => random.element(dtype, &mut bytes),
            Fill::Within(range) => random.within(range, dtype, &mut bytes),
            Fill::Ones | Fill::Zeros => bytes.extend_from_slice(&one),
        }
    }
    Ok(if dtype.shares_bytes() { dtype.pack(&bytes) } else { bytes })
}

/// The block of made-up texts: empty ones for zeros.
fn texts(mode: Fill, seed: u64, name: &str, elements: usize) -> Result<Vec<u8>, Shortage> {
    // A text with its place in the block.
    memory::check(elements.saturating_mul(32))?;
    let mut random = SplitMix::new(seed, name);
    let mut text = || match mode {
        Fill::Zeros => String::new(),
        Fill::Ones => "1".into(),
        Fill::Random | Fill::Within(_) => {
            let letters = 1 + random.next() % 8;
            (0..letters).map(|_| char::from(b'a' + (random.next() % 26) as u8)).collect()
        }
    };
    let texts: Vec<String> = (0..elements).map(|_| text()).collect();
    Ok(text_block(&texts).unwrap_or_default())
}

fn one(dtype: DType) -> Vec<u8> {
    if let Some(code) = small::encode(dtype, 1.0, true, Round::Nearest) {
        return vec![code];
    }
    match dtype {
        DType::F32 => 1f32.to_le_bytes().to_vec(),
        DType::F64 => 1f64.to_le_bytes().to_vec(),
        DType::F16 => f16::ONE.to_le_bytes().to_vec(),
        DType::BF16 => bf16::ONE.to_le_bytes().to_vec(),
        integer => (0..integer.unpacked_bytes()).map(|byte| u8::from(byte == 0)).collect(),
    }
}

/// The generator SplitMix64: small, good enough for test data, and the same on every machine
/// (<https://prng.di.unimi.it/splitmix64.c>).
pub struct SplitMix(u64);

impl SplitMix {
    /// A stream of its own for each seed and name.
    pub fn new(seed: u64, name: &str) -> SplitMix {
        // FNV-1a: the name only has to move the start.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        SplitMix(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Even in [0,1), with the 24 bits that an `f32` holds.
    pub fn uniform(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Appends one element in the range.
    fn within(&mut self, range: Range, dtype: DType, bytes: &mut Vec<u8>) {
        let Range { low, high } = range;
        if !dtype.is_float() && !dtype.is_small_float() {
            let (least, most) = range.integers(dtype).unwrap_or_default();
            // Of all 2^64 numbers there are too many to count.
            let count = most.abs_diff(least).checked_add(1);
            let value = count.map_or(self.next(), |count| self.next() % count).wrapping_add_signed(least);
            return bytes.extend(&value.to_le_bytes()[..dtype.unpacked_bytes()]);
        }
        let part = f64::from(self.uniform());
        let value = low * (1.0 - part) + high * part;
        match dtype {
            DType::F32 => bytes.extend((value as f32).to_le_bytes()),
            DType::F64 => bytes.extend(value.to_le_bytes()),
            DType::F16 => bytes.extend(f16::from_f64(value).to_le_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f64(value).to_le_bytes()),
            small => bytes.extend(small::encode(small, value, true, Round::Nearest)),
        }
    }

    /// Appends one element. Integers are 0 or 1 (`u8`: any), which is a mask, a kind of token, or an index that fits
    /// nearly everywhere.
    fn element(&mut self, dtype: DType, bytes: &mut Vec<u8>) {
        if dtype.is_small_float() {
            let code = small::encode(dtype, self.uniform().into(), true, Round::Down);
            return bytes.extend(code);
        }
        match dtype {
            DType::F32 => bytes.extend(self.uniform().to_le_bytes()),
            DType::F64 => bytes.extend(f64::from(self.uniform()).to_le_bytes()),
            DType::F16 => bytes.extend(f16::from_f32(self.uniform()).to_le_bytes()),
            DType::BF16 => bytes.extend(bf16::from_f32(self.uniform()).to_le_bytes()),
            DType::U8 => bytes.push((self.next() >> 56) as u8),
            integer => {
                bytes.push((self.next() >> 63) as u8);
                bytes.resize(bytes.len() + integer.unpacked_bytes() - 1, 0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tensor::Tensor;

    use super::*;

    #[test]
    fn fills_every_type() {
        for dtype in DType::all().filter(|dtype| *dtype != DType::String) {
            let numbers = |mode| {
                let bytes = fill(mode, 7, "x", dtype, 64).expect("small");
                let tensor = Tensor::new(dtype, vec![4, 16], bytes).expect("a tensor");
                tensor.numbers().map(crate::tensor::Number::value).collect::<Vec<_>>()
            };
            // The type of powers of two has no zero.
            let zero = if dtype == DType::F8E8M0 { 2f64.powi(-127) } else { 0.0 };
            assert!(numbers(Fill::Zeros).iter().all(|&value| value == zero), "{dtype}");
            assert!(numbers(Fill::Ones).iter().all(|&value| value == 1.0), "{dtype}");
            let most = if dtype == DType::U8 { 255.0 } else { 1.0 };
            let random = numbers(Fill::Random);
            assert!(random.iter().all(|value| (0.0..=most).contains(value)), "{dtype}");
            assert!(random.iter().any(|&value| value != random[0]), "{dtype}");
        }
    }

    #[test]
    fn ranges_hold_for_every_type() {
        let numbers = |dtype: DType, low: f64, high: f64| {
            let range = Range { low, high };
            assert!(range.fits(dtype), "{dtype}");
            let bytes = fill(Fill::Within(range), 7, "x", dtype, 256).expect("small");
            let tensor = Tensor::new(dtype, vec![256], bytes).expect("a tensor");
            tensor.numbers().map(crate::tensor::Number::value).collect::<Vec<_>>()
        };
        for dtype in DType::all().filter(|dtype| dtype.is_number()) {
            let found = numbers(dtype, 0.0, 1.0);
            assert!(found.iter().all(|value| (0.0..=1.0).contains(value)), "{dtype}");
            assert!(found.iter().any(|&value| value != found[0]), "{dtype}");
        }
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::I64, DType::I4] {
            let found = numbers(dtype, -3.5, 5.0);
            let (least, most) = (found.iter().copied().fold(9.0, f64::min), found.iter().copied().fold(-9.0, f64::max));
            let ends = if dtype.is_float() { (-3.5..-3.2, 4.7..5.01) } else { (-3.0..-2.9, 5.0..5.1) };
            assert!(ends.0.contains(&least) && ends.1.contains(&most), "{dtype}: {least} to {most}");
        }
        assert_eq!(numbers(DType::I64, i64::MIN as f64, i64::MAX as f64).len(), 256);
        let misfits = [(DType::U8, -1.0, 3.0), (DType::I8, 0.0, 128.0), (DType::I64, 0.2, 0.8), (DType::F16, 0.0, 7e4)];
        for (dtype, low, high) in misfits {
            assert!(!Range { low, high }.fits(dtype), "{dtype}");
        }
    }

    #[test]
    fn texts_are_made_up() {
        let texts = |mode| {
            let block = fill(mode, 7, "x", DType::String, 3).expect("small");
            let tensor = Tensor::new(DType::String, vec![3], block).expect("a tensor");
            tensor.texts().into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!((texts(Fill::Zeros), texts(Fill::Ones)), (vec![String::new(); 3], vec!["1".to_owned(); 3]));
        let random = texts(Fill::Random);
        assert!(random.iter().all(|text| (1..=8).contains(&text.len())) && random[0] != random[1], "{random:?}");
    }

    #[test]
    fn seed_and_name_decide() {
        let random = |seed, name: &str| fill(Fill::Random, seed, name, DType::F32, 8).expect("small");
        assert_eq!(random(1, "x"), random(1, "x"));
        assert_ne!(random(1, "x"), random(2, "x"));
        assert_ne!(random(1, "x"), random(1, "y"));
        assert_eq!(SplitMix(0).next(), 0xe220_a839_7b1d_cdaf);
    }
}
