//! Forms in which the file of a region goes to a board: an array of C, and a package for the flash tools of the K210.

use std::io::{Seek, Write};
use std::path::Path;

use serde_json::json;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Where a package puts its file in flash: where the firmware and the examples of MaixPy look for a model.
pub const FLASH_ADDRESS: u32 = 0x30_0000;

/// Bytes on a line of an array.
const LINE: usize = 16;

/// A form, by the end of a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The file as it is.
    Plain,
    /// `.h`: an array of C, aligned to 256 bytes, and its length.
    Header,
    /// `.kfpkg`: a zip of the file and of `flash-list.json`, which says where it goes.
    Package,
}

impl Form {
    /// That of a path, in letters of either case.
    pub fn of(path: &Path) -> Form {
        let ends = |extension: &str| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension));
        match () {
            () if ends("h") => Form::Header,
            () if ends("kfpkg") => Form::Package,
            () => Form::Plain,
        }
    }

    /// Writes bytes in this form. `name` names the file, whose names end in `extension`.
    pub fn write(
        self,
        file: &mut (impl Write + Seek),
        name: &str,
        extension: &str,
        bytes: &[u8],
    ) -> std::io::Result<()> {
        match self {
            Form::Plain => file.write_all(bytes),
            Form::Header => header(file, name, bytes),
            Form::Package => package(file, &format!("{name}.{extension}"), bytes),
        }
    }
}

/// A name of C: other characters become `_`.
fn identifier(name: &str) -> String {
    let mut text: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        text.insert(0, '_');
    }
    text
}

fn header(file: &mut impl Write, name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let name = identifier(name);
    writeln!(file, "#pragma once\n\n#include <stdint.h>\n\n#define {}_SIZE {}u\n", name.to_uppercase(), bytes.len())?;
    writeln!(file, "static const uint8_t {name}[{}] __attribute__((aligned(256))) = {{", bytes.len())?;
    for line in bytes.chunks(LINE) {
        let numbers: Vec<_> = line.iter().map(|byte| format!("{byte:#04x},")).collect();
        writeln!(file, "    {}", numbers.join(" "))?;
    }
    writeln!(file, "}};")
}

fn package(file: &mut (impl Write + Seek), name: &str, bytes: &[u8]) -> std::io::Result<()> {
    let list = json!({
        "version": "0.1.0",
        "files": [{ "address": FLASH_ADDRESS, "bin": name, "sha256Prefix": false }],
    });
    let mut archive = ZipWriter::new(file);
    // The default time is that of no clock, so that equal files give equal packages.
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    archive.start_file("flash-list.json", options)?;
    archive.write_all(format!("{list:#}\n").as_bytes())?;
    archive.start_file(name, options)?;
    archive.write_all(bytes)?;
    archive.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use zip::ZipArchive;

    use super::*;

    fn written(path: &str, bytes: &[u8]) -> Vec<u8> {
        let mut file = Cursor::new(Vec::new());
        Form::of(Path::new(path)).write(&mut file, "my-net", "kmodel", bytes).expect("written");
        file.into_inner()
    }

    #[test]
    fn an_array_of_c() {
        let bytes: Vec<u8> = (0..18).collect();
        let expected = "#pragma once\n\n#include <stdint.h>\n\n#define MY_NET_SIZE 18u\n\nstatic const uint8_t my_net[18] \
                        __attribute__((aligned(256))) = {\n    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, \
                        0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,\n    0x10, 0x11,\n};\n";
        assert_eq!(String::from_utf8(written("out.h", &bytes)).expect("text"), expected);
        assert_eq!(identifier("3 nets"), "_3_nets");
    }

    #[test]
    fn a_package_has_the_file_and_says_where_it_goes() {
        let bytes = vec![7; 1000];
        let package = written("OUT.KFPKG", &bytes);
        assert_eq!(package, written("other.kfpkg", &bytes), "the same each time");
        let mut archive = ZipArchive::new(Cursor::new(package)).expect("a zip");
        let mut list = String::new();
        archive.by_name("flash-list.json").expect("the list").read_to_string(&mut list).expect("text");
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let file = json!({ "address": 0x30_0000, "bin": "my-net.kmodel", "sha256Prefix": false });
        assert_eq!(list, json!({ "version": "0.1.0", "files": [file] }));
        let mut found = Vec::new();
        archive.by_name("my-net.kmodel").expect("the file").read_to_end(&mut found).expect("bytes");
        assert_eq!(found, bytes);
    }

    #[test]
    fn anything_else_is_the_file_itself() {
        assert_eq!(written("out.kmodel", &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(written("h", &[1]), [1]);
    }
}
