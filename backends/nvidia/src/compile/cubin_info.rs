//! Cubin metadata, read without a GPU: the resources that its kernels use, and exported globals.
//!
//! A cubin is an ELF file. What is read of it beyond the ELF standard is measured on NVRTC 12.9 and 13.0, for sm_75 to sm_120,
//! against what ptxas reports of the same kernels (`tests/tests/cuda/nvrtc.rs`): the bit of symbols that are kernels, and in
//! `.nv.info` the attributes that cuobjdump names EIATTR_REGCOUNT, EIATTR_MIN_STACK_SIZE and EIATTR_CBANK_PARAM_SIZE.

use byoc_plugin_api::Error;
use object::LittleEndian;
use object::elf::{EM_CUDA, FileHeader64};
use object::read::elf::{ElfFile64, ElfSymbol64, FileHeader as _, SectionHeader as _, Sym as _};
use object::read::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};

type Elf<'a> = ElfFile64<'a, LittleEndian>;

/// A parsed cubin. It is untrusted: damage is an error or `None`.
#[derive(Debug)]
pub struct CubinInfo<'a>(Elf<'a>);

/// The resources of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelInfo {
    /// Its name, as the driver knows it.
    pub name: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread, with all that it calls: arrays and spilled registers.
    pub local: u32,
    /// Bytes of static shared memory of a block.
    pub shared: u64,
    /// Bytes of its arguments.
    pub arguments: u32,
}

/// Set in `st_other` of symbols that are kernels.
const ENTRY: u8 = 0x10;

/// Bytes of shared memory that the system takes of each block from sm_90 on. The kernel's section counts them then, ptxas and
/// the driver do not.
const RESERVED: u64 = 1024;

/// Types of sections that say how much memory there is to be and hold none of it, as NOBITS does: SHT_CUDA_GLOBAL,
/// SHT_CUDA_LOCAL, SHT_CUDA_SHARED and SHT_CUDA_SHARED_RESERVED.
const NOT_IN_FILE: [u32; 4] = [0x7000_0007, 0x7000_0009, 0x7000_000a, 0x7000_0015];

const REGCOUNT: u8 = 0x2f;
const MIN_STACK_SIZE: u8 = 0x12;
const CBANK_PARAM_SIZE: u8 = 0x19;

impl<'a> CubinInfo<'a> {
    /// Opens a cubin.
    ///
    /// # Errors
    ///
    /// When the bytes are not a cubin.
    pub fn of(cubin: &'a [u8]) -> Result<CubinInfo<'a>, Error> {
        let damaged = |cause: object::read::Error| Error::new(format!("damaged cubin: {cause}"));
        let header = FileHeader64::<LittleEndian>::parse(cubin).map_err(damaged)?;
        if header.e_machine(LittleEndian) != EM_CUDA {
            return Err(Error::new("not a cubin: an ELF file for another machine"));
        }
        let elf = Elf::parse(cubin).map_err(damaged)?;
        // The driver gets no length: it reads what the headers name.
        let mut in_file = elf
            .sections()
            .filter(|section| !NOT_IN_FILE.contains(&section.elf_section_header().sh_type(LittleEndian).0));
        in_file.try_for_each(|section| section.data().map(drop)).map_err(damaged)?;
        elf.segments().try_for_each(|segment| segment.data().map(drop)).map_err(damaged)?;
        Ok(CubinInfo(elf))
    }

    /// The kernels, by name.
    pub fn kernels(&self) -> Vec<KernelInfo> {
        let kernels = self.0.symbols().filter(|symbol| symbol.elf_symbol().st_other().0 & ENTRY != 0);
        let mut kernels: Vec<_> = kernels.filter_map(|symbol| self.kernel(&symbol)).collect();
        kernels.sort_by(|one, other| one.name.cmp(&other.name));
        kernels
    }

    /// The kernel of that name.
    pub fn kernel_named(&self, name: &str) -> Option<KernelInfo> {
        self.kernels().into_iter().find(|kernel| kernel.name == name)
    }

    /// The words of an exported global, which the source writes as
    /// `extern "C" __device__ int info[2] = {sizeof(Shared), THREADS};`. With `const` it would not be exported. `None` where
    /// there is none of that name, or where it is not an initialised array of words.
    pub fn words(&self, name: &str) -> Option<Vec<i32>> {
        let symbol = self.0.symbols().find(|symbol| symbol.name() == Ok(name) && symbol.kind() == SymbolKind::Data)?;
        let section = self.0.section_by_index(symbol.section_index()?).ok()?;
        let start = usize::try_from(symbol.address().checked_sub(section.address())?).ok()?;
        let end = start.checked_add(usize::try_from(symbol.size()).ok()?)?;
        let (words, rest) = section.data().ok()?.get(start..end)?.as_chunks();
        (rest.is_empty() && !words.is_empty()).then(|| words.iter().map(|word| i32::from_le_bytes(*word)).collect())
    }

    fn kernel(&self, symbol: &ElfSymbol64<'a, '_, LittleEndian>) -> Option<KernelInfo> {
        let name = symbol.name().ok()?;
        let shared = self.0.section_by_name(&format!(".nv.shared.{name}")).map_or(0, |section| section.size());
        let reserved = self.0.section_by_name(".nv.shared.reserved.0").map_or(0, |_| RESERVED);
        let common = self.attributes(".nv.info");
        // Those of the whole file begin with the symbol that they are about.
        let about = |kind: u8| {
            let mut words = common.iter().filter(|(of, _)| *of == kind).filter_map(|(_, value)| two_words(value));
            words.find(|(index, _)| *index as usize == symbol.index().0).map(|(_, value)| value)
        };
        let own = self.attributes(&format!(".nv.info.{name}"));
        let arguments = own.iter().find(|(kind, _)| *kind == CBANK_PARAM_SIZE).and_then(|(_, value)| half_word(value));
        Some(KernelInfo {
            name: name.to_owned(),
            registers: about(REGCOUNT)?,
            local: about(MIN_STACK_SIZE)?,
            shared: shared.saturating_sub(reserved),
            arguments: arguments.unwrap_or_default(),
        })
    }

    /// The attributes of a section: kinds, and the bytes of each. Each has a byte for its format, one for its
    /// kind, and two of a value, which in format 4 is the length of the bytes that follow.
    fn attributes(&self, section: &str) -> Vec<(u8, &'a [u8])> {
        const SIZED: u8 = 4;
        let section = self.0.section_by_name(section);
        let mut rest = section.and_then(|section| section.data().ok()).unwrap_or_default();
        let mut found = Vec::new();
        while let Some(([form, kind, value @ ..], after)) = rest.split_first_chunk::<4>() {
            let length = if *form == SIZED { usize::from(u16::from_le_bytes(*value)) } else { 0 };
            let Some((bytes, after)) = after.split_at_checked(length) else { break };
            found.push((*kind, if *form == SIZED { bytes } else { &rest[2..4] }));
            rest = after;
        }
        found
    }
}

fn two_words(bytes: &[u8]) -> Option<(u32, u32)> {
    let (words, _) = bytes.as_chunks();
    Some((u32::from_le_bytes(*words.first()?), u32::from_le_bytes(*words.get(1)?)))
}

fn half_word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from(u16::from_le_bytes(*bytes.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use object::elf::{SymbolInfo, SymbolOther};
    use object::write::{Object, StandardSection, Symbol, SymbolSection};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolScope};

    use super::*;

    /// An ELF file with one kernel `k` and the global `info`, as NVRTC lays them out for sm_90; `index` is that of the
    /// kernel's symbol.
    fn written(index: u32) -> Vec<u8> {
        let mut file = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let mut section = |name: &str, bytes: &[u8]| {
            let id = file.add_section(Vec::new(), name.into(), SectionKind::Other);
            file.append_section_data(id, bytes, 4);
            id
        };
        let text = section(".text.k", &[0; 128]);
        section(".nv.shared.k", &[0; 40 + 1024]);
        section(".nv.shared.reserved.0", &[]);
        let attribute = |kind: u8, value: u32| {
            let words = [index.to_le_bytes(), value.to_le_bytes()].concat();
            [[4, kind, 8, 0].as_slice(), &words].concat()
        };
        let others = [4, REGCOUNT, 8, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];
        section(".nv.info", &[&others, attribute(REGCOUNT, 32).as_slice(), &attribute(MIN_STACK_SIZE, 256)].concat());
        section(".nv.info.k", &[1, 0x35, 0, 0, 3, CBANK_PARAM_SIZE, 12, 0, 2, 0x4c, 1, 0]);
        let data = file.section_id(StandardSection::Data);
        file.append_section_data(data, &[7; 4], 4);
        file.append_section_data(data, &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], 4);
        let mut symbol = |name: &str, section, kind, value, size, other| {
            let st_info = SymbolInfo(if kind == SymbolKind::Data { 0x11 } else { 0x12 });
            let flags = SymbolFlags::Elf { st_info, st_other: SymbolOther(other) };
            let (scope, section) = (SymbolScope::Linkage, SymbolSection::Section(section));
            file.add_symbol(Symbol { name: name.into(), value, size, kind, scope, weak: false, section, flags });
        };
        symbol("info", data, SymbolKind::Data, 4, 8, 0);
        symbol("odd", data, SymbolKind::Data, 4, 7, 0);
        symbol("beyond", data, SymbolKind::Data, 4, 80, 0);
        symbol("called", text, SymbolKind::Text, 0, 64, 0);
        symbol("k", text, SymbolKind::Text, 64, 64, ENTRY);
        let mut bytes = file.write().expect("it is well formed");
        bytes[18..20].copy_from_slice(&EM_CUDA.0.to_le_bytes());
        bytes
    }

    /// The file, whose attributes name the index of the kernel's symbol.
    fn small() -> Vec<u8> {
        let first = written(0);
        let elf = Elf::parse(first.as_slice()).expect("it is an ELF file");
        let index = elf.symbols().find(|symbol| symbol.name() == Ok("k")).expect("it is there").index();
        written(index.0 as u32)
    }

    #[test]
    fn kernels_and_globals() {
        let bytes = small();
        let info = CubinInfo::of(&bytes).expect("it is a cubin");
        let kernel = KernelInfo { name: "k".into(), registers: 32, local: 256, shared: 40, arguments: 12 };
        assert_eq!(info.kernels(), std::slice::from_ref(&kernel));
        assert_eq!((info.kernel_named("k"), info.kernel_named("called")), (Some(kernel), None));
        assert_eq!(info.words("info"), Some(vec![1, -1]));
        for name in ["odd", "beyond", "k", "none"] {
            assert_eq!(info.words(name), None, "{name}");
        }
    }

    #[test]
    fn what_is_not_a_cubin() {
        let mut bytes = small();
        let said = |bytes: &[u8]| CubinInfo::of(bytes).expect_err("it is none").message;
        bytes[18] = 62;
        assert_eq!(said(&bytes), "not a cubin: an ELF file for another machine");
        assert!(said(b"").starts_with("damaged cubin: "));
        assert!(said(&[0; 4096]).starts_with("damaged cubin: "));
    }

    /// A driver reads all that the headers name.
    #[test]
    fn parts_outside_the_file() {
        let whole = small();
        let table = u64::from_le_bytes(whole[40..48].try_into().expect("8 bytes")) as usize;
        let sections = u16::from_le_bytes(whole[60..62].try_into().expect("2 bytes"));
        let header = |number: usize| table + number * 64;
        let is_empty = |number: usize| whole[header(number) + 32..][..8] == [0; 8];
        let fields = (1..usize::from(sections)).flat_map(|number| [(number, 24), (number, 32)]);
        // One of no bytes may begin anywhere.
        for (number, field) in fields.filter(|&(number, field)| field == 32 || !is_empty(number)) {
            let mut bytes = whole.clone();
            let at = header(number) + field;
            bytes[at..at + 8].copy_from_slice(&(whole.len() as u64 + 1).to_le_bytes());
            let error = CubinInfo::of(&bytes).expect_err("it goes on behind the end");
            assert!(error.message.starts_with("damaged cubin: "), "section {number}: {}", error.message);
        }
    }

    /// No bytes make it panic.
    #[test]
    fn hostile_files_do_no_harm() {
        let whole = small();
        let look = |bytes: &[u8]| {
            if let Ok(info) = CubinInfo::of(bytes) {
                drop((info.kernels(), info.words("info")));
            }
        };
        for at in 0..whole.len() {
            look(&whole[..at]);
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                look(&bytes);
                let end = bytes.len().min(at + 8);
                bytes[at..end].fill(value);
                look(&bytes);
            }
        }
    }
}
