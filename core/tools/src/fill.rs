//! Generated inputs. Random ones depend on the seed and on the input's name alone, so an input keeps its values when
//! another one is added.

use byoc_core::memory::{self, Shortage};
use byoc_plugin_api::small::{self, Round};
use byoc_plugin_api::{DType, text_block};
use half::{bf16, f16};

/// How generated inputs are filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Random values: even in [0,1) for floats, 0 to 255 for `u8`, words for texts, 0 or 1 for other types.
    Random,
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
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
        Fill::Ones | Fill::Random => memory::room(length)?,
    };
    let (one, mut random) = (one(dtype), SplitMix::new(seed, name));
    for _ in 0..elements {
        match mode {
            Fill::Random => random.element(dtype, &mut bytes),
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
        Fill::Random => {
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
