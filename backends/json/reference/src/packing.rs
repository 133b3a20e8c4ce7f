//! How `MatMulNBits` packs its weights.

use byoc_plugin_api::{Error, Node};

/// How the weights of `MatMulNBits` lie: for each column, blocks of `block_size` numbers of `bits` bits, low bits first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Packing {
    /// Rows of the matrix that is packed.
    pub depth: usize,
    /// Its columns.
    pub columns: usize,
    /// Bits of a number: 2, 4 or 8.
    pub bits: usize,
    /// Numbers that have one scale.
    pub block_size: usize,
    /// Whether its first input may be quantised to 8 bits.
    pub bytes: bool,
}

/// The `accuracy_level` of that.
const LEVEL_OF_BYTES: i64 = 4;

impl Packing {
    /// Reads the attributes.
    pub fn of(node: &Node) -> Result<Packing, Error> {
        let size = |name: &str, default: i64| {
            let value = node.int(name, default);
            let size = usize::try_from(value).ok().filter(|&size| size > 0 && size <= MOST);
            size.ok_or_else(|| Error::new(format!("attribute '{name}' is {value}, expected 1 to {MOST}")))
        };
        let (depth, columns) = (size("K", 0)?, size("N", 0)?);
        let (bits, block_size) = (size("bits", 4)?, size("block_size", 0)?);
        if !matches!(bits, 2 | 4 | 8) {
            return Err(Error::new(format!("attribute 'bits' is {bits}, expected 2, 4 or 8")));
        }
        if !block_size.is_power_of_two() || block_size < 16 {
            let what = "a power of 2 that is at least 16";
            return Err(Error::new(format!("attribute 'block_size' is {block_size}, expected {what}")));
        }
        let level = node.int("accuracy_level", 0);
        if !(0..=LEVEL_OF_BYTES).contains(&level) {
            return Err(Error::new(format!("attribute 'accuracy_level' is {level}, expected 0 to 4")));
        }
        if node.int("weight_prepacked", 0) != 0 {
            return Err(Error::new("its weights are packed for another runtime (attribute 'weight_prepacked')"));
        }
        if node.input(4).is_some() {
            return Err(Error::new("its columns are in another order (input 4, g_idx), which is not supported"));
        }
        Ok(Packing { depth, columns, bits, block_size, bytes: level == LEVEL_OF_BYTES })
    }

    /// Blocks of a column.
    pub fn blocks(&self) -> usize {
        self.depth.div_ceil(self.block_size)
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        self.block_size * self.bits / 8
    }

    /// Bytes of the packed zero points of a column.
    pub fn zero_bytes(&self) -> usize {
        (self.blocks() * self.bits).div_ceil(8)
    }

    /// The number at `index` of a packed list.
    pub fn number(&self, packed: &[u8], index: usize) -> u8 {
        let bit = index * self.bits;
        let mask = u8::MAX >> (8 - self.bits);
        packed[bit / 8] >> (bit % 8) & mask
    }
}

/// Larger matrices than any have; so no product of sizes overflows.
const MOST: usize = 1 << 28;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lie_low_bits_first() {
        let packing = |bits| Packing { depth: 16, columns: 1, bits, block_size: 16, bytes: false };
        let packed = [0b1110_0100, 0x2f];
        assert_eq!([0, 1, 2, 3, 4].map(|index| packing(2).number(&packed, index)), [0, 1, 2, 3, 3]);
        assert_eq!([0, 1, 2, 3].map(|index| packing(4).number(&packed, index)), [4, 14, 15, 2]);
        assert_eq!([0, 1].map(|index| packing(8).number(&packed, index)), [0b1110_0100, 0x2f]);
        assert_eq!(Packing { depth: 48, ..packing(4) }.zero_bytes(), 2);
    }
}
