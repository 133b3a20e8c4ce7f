//! Splits a kmodel into the file itself and the trailer of code after it, which is JSON.

use crate::{Raw, Rng, json};

/// What code with a trailer ends in: the length of the JSON and this mark.
const MARK: &[u8; 8] = b"byocK210";

/// File and trailer, where there is one.
pub(crate) fn split(code: &[u8]) -> Option<(&[u8], &[u8])> {
    let (rest, length) = code.strip_suffix(MARK)?.split_last_chunk()?;
    rest.split_at_checked(rest.len().checked_sub(u32::from_le_bytes(*length) as usize)?)
}

/// A kmodel with its file or its trailer changed.
pub(crate) fn bytes(input: &[u8], other: Option<&[u8]>, rng: &mut Rng, raw: Raw<'_>) -> Option<Vec<u8>> {
    let (file, trailer) = split(input)?;
    let (mut file, mut trailer) = (file.to_vec(), trailer.to_vec());
    if rng.u8(..4) == 0 {
        let donor = other.and_then(split).map(|(_, trailer)| trailer);
        trailer = json::bytes(&trailer, donor, rng, raw)?;
    } else if rng.bool() {
        raw(&mut file);
    } else {
        // The file is words of 32 bits for the most part.
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..(file.len() / 4).max(1)) * 4;
            let word: &mut [u8; 4] = file.get_mut(at..)?.first_chunk_mut()?;
            *word = (crate::pool::integer(u32::from_le_bytes(*word).into(), rng) as u32).to_le_bytes();
        }
    }
    let length = (trailer.len() as u32).to_le_bytes();
    Some([&file, &trailer, &length[..], MARK].concat())
}
