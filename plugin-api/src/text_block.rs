//! Constant texts: a constant of `u8` that says by itself which texts are in it. All numbers are little-endian, of 32 bits: how many
//! texts there are, then where each of them ends, then their UTF-8 bytes, of which the first text begins at 0.

use crate::error::Error;

const WORD: usize = size_of::<u32>();

/// The block of these texts; `None` where they are more than 32 bits count.
pub fn text_block<T: AsRef<str>>(texts: &[T]) -> Option<Vec<u8>> {
    let mut block = Vec::with_capacity((texts.len() + 1) * WORD);
    block.extend(u32::try_from(texts.len()).ok()?.to_le_bytes());
    let mut end = 0u32;
    for text in texts {
        end = end.checked_add(u32::try_from(text.as_ref().len()).ok()?)?;
        block.extend(end.to_le_bytes());
    }
    texts.iter().for_each(|text| block.extend_from_slice(text.as_ref().as_bytes()));
    Some(block)
}

/// The texts of a block, in their order. It may come from anybody: damage is an error.
pub fn texts_of_block(block: &[u8]) -> Result<Vec<&str>, Error> {
    read(block).ok_or_else(|| Error::new("a constant of texts is damaged"))
}

fn read(block: &[u8]) -> Option<Vec<&str>> {
    let (count, rest) = block.split_first_chunk::<WORD>()?;
    let count = u32::from_le_bytes(*count) as usize;
    let (ends, texts) = rest.split_at_checked(count.checked_mul(WORD)?)?;
    let mut start = 0;
    let mut text = |end: &[u8; WORD]| {
        let end = u32::from_le_bytes(*end) as usize;
        let text = std::str::from_utf8(texts.get(start..end)?).ok()?;
        start = end;
        Some(text)
    };
    let found = ends.as_chunks().0.iter().map(&mut text).collect::<Option<Vec<_>>>()?;
    (start == texts.len()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back() {
        for texts in [&[][..], &[""], &["a", "", "déjà"]] {
            let block = text_block(texts).expect("few texts");
            assert_eq!(texts_of_block(&block).as_deref(), Ok(texts));
        }
    }

    #[test]
    fn damage_is_an_error() {
        let block = text_block(&["ab", "é"]).expect("few texts");
        assert_eq!(block, [2, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, b'a', b'b', 0xc3, 0xa9]);
        let damaged = |place: usize, byte: u8| {
            let mut block = block.clone();
            block[place] = byte;
            texts_of_block(&block).expect_err("damaged").message
        };
        // Too many, ends that go back or cut a character, and ends beyond the last byte.
        for (place, byte) in [(0, 200), (3, 255), (4, 5), (4, 3), (8, 3), (8, 5), (14, b'a')] {
            assert_eq!(damaged(place, byte), "a constant of texts is damaged", "{place}");
        }
        for length in 0..block.len() {
            assert!(texts_of_block(&block[..length]).is_err(), "{length}");
        }
    }
}
