//! The bytes of a program: JSON, which a long one is compressed from by zlib (RFC 1950). A hundred layers take 100 KiB of JSON
//! otherwise, which is more than all else but the weights of a small quantised model.

use std::borrow::Cow;
use std::io::{Read, Write};

use byoc_plugin_api::Error;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::Serialize;

/// JSON of fewer bytes stays as it is, for whoever looks at it.
const LEAST: usize = 16 << 10;

/// More JSON than any sane program has, and more of it than a byte of code ever stands for: what damaged code can make us
/// allocate.
const MOST: usize = 64 << 20;
const MOST_A_BYTE: usize = 200;

/// The first byte of what is compressed; JSON never starts with it.
const COMPRESSED: u8 = 0x78;

/// The code of a program.
pub(crate) fn encode(program: &impl Serialize) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_vec(program)?;
    if json.len() < LEAST {
        return Ok(json);
    }
    if json.len() >= MOST {
        return Err(Error::new(format!("the code of the region has more than {MOST} bytes")));
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json)?;
    let code = encoder.finish()?;
    // One node a million times over.
    Ok(if json.len() < MOST_A_BYTE * code.len() { code } else { json })
}

/// The JSON of code.
pub(crate) fn decode(code: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if code.first() != Some(&COMPRESSED) {
        return Ok(Cow::Borrowed(code));
    }
    let most = MOST.min(MOST_A_BYTE.saturating_mul(code.len()));
    let mut decoder = ZlibDecoder::new(code).take(most as u64);
    // Room for what most are, so that it need not grow; 1 MiB at most, whatever the code's length.
    let mut json = Vec::with_capacity(code.len().saturating_mul(12).min(1 << 20));
    decoder.read_to_end(&mut json).map_err(|error| error.to_string())?;
    if json.len() == most {
        return Err(format!("it has {most} bytes or more"));
    }
    if decoder.into_inner().total_in() != code.len() as u64 {
        return Err("something follows it".into());
    }
    Ok(Cow::Owned(json))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_programs_are_compressed() {
        let short = encode(&serde_json::json!({ "steps": [1, 2] })).expect("JSON");
        assert_eq!((short.as_slice(), decode(&short).as_deref()), (&br#"{"steps":[1,2]}"#[..], Ok(short.as_slice())));
        let program = serde_json::json!({ "steps": (0..10_000).collect::<Vec<_>>() });
        let long = encode(&program).expect("JSON");
        assert!(long[0] == COMPRESSED && long.len() < 30_000, "{}", long.len());
        let json = decode(&long).expect("sound");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).expect("JSON"), program);
        assert_eq!(decode(&long[..40]).expect_err("cut"), "incomplete deflate stream");
        assert_eq!(decode(b"x").expect_err("no program"), "incomplete deflate stream");
        assert_eq!(decode(&[&long[..], b"{}"].concat()).expect_err("more"), "something follows it");
        // What stands for far more than it is, as no code of ours does.
        let repeated = serde_json::json!({ "steps": vec!["Conv"; 100_000] });
        assert_eq!(encode(&repeated).expect("JSON")[0], b'{');
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&serde_json::to_vec(&repeated).expect("JSON")).expect("memory");
        let bomb = encoder.finish().expect("memory");
        let most = 200 * bomb.len();
        assert_eq!(decode(&bomb).expect_err("a bomb"), format!("it has {most} bytes or more"));
    }
}
