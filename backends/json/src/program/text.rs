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

/// More JSON than any sane program has: what damaged code can make us allocate.
const MOST: u64 = 256 << 20;

/// The first byte of what is compressed; JSON never starts with it.
const COMPRESSED: u8 = 0x78;

/// The code of a program.
pub(crate) fn encode(program: &impl Serialize) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_vec(program)?;
    if json.len() < LEAST {
        return Ok(json);
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json)?;
    Ok(encoder.finish()?)
}

/// The JSON of code.
pub(crate) fn decode(code: &[u8]) -> Result<Cow<'_, [u8]>, String> {
    if code.first() != Some(&COMPRESSED) {
        return Ok(Cow::Borrowed(code));
    }
    let mut json = Vec::new();
    let read = ZlibDecoder::new(code).take(MOST).read_to_end(&mut json).map_err(|error| error.to_string())?;
    if read as u64 == MOST {
        return Err(format!("it has more than {MOST} bytes"));
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
        let program = serde_json::json!({ "steps": vec!["Conv"; 10_000] });
        let long = encode(&program).expect("JSON");
        assert!(long.len() < 1000, "{}", long.len());
        let json = decode(&long).expect("sound");
        assert_eq!(serde_json::from_slice::<serde_json::Value>(&json).expect("JSON"), program);
        assert_eq!(decode(&long[..40]).expect_err("cut"), "incomplete deflate stream");
        assert_eq!(decode(b"x").expect_err("no program"), "incomplete deflate stream");
    }
}
