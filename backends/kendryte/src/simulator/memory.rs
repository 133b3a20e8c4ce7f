//! The two memories of a K210 as byte vectors; every access is checked.

use byoc_plugin_api::Error;

use crate::kmodel::layout::{Layout, ROW, ROWS};

pub(crate) struct Memories {
    main: Main,
    kpu: Vec<u8>,
    /// What a layer of the CPU writes, until it has read all of its input. Layers and runs share it.
    out: Vec<u8>,
}

/// Main memory.
pub(crate) struct Main(Vec<u8>);

/// Maps in KPU RAM: where they start, and their size.
#[derive(Clone, Copy)]
pub(crate) struct Maps {
    pub(crate) row: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) channels: u32,
}

fn outside(what: &str, start: u64, length: u64) -> Error {
    Error::new(format!("{length} bytes from {start} are outside {what}"))
}

/// A stretch of a memory.
fn stretch(memory: &[u8], what: &str, start: u64, length: u64) -> Result<std::ops::Range<usize>, Error> {
    let end = start.saturating_add(length);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    let range = range.filter(|(_, end)| *end <= memory.len());
    range.map(|(start, end)| start..end).ok_or_else(|| outside(what, start, length))
}

const MAIN: &str = "main memory";
const KPU: &str = "KPU RAM";

impl Main {
    fn stretch(&self, address: u32, length: u64) -> Result<std::ops::Range<usize>, Error> {
        stretch(&self.0, MAIN, u64::from(address), length)
    }

    /// Bytes.
    pub(crate) fn read(&self, address: u32, length: u64) -> Result<&[u8], Error> {
        Ok(&self.0[self.stretch(address, length)?])
    }

    /// Elements of `N` bytes.
    pub(crate) fn elements<const N: usize>(&self, address: u32, count: u64) -> Result<&[[u8; N]], Error> {
        Ok(self.read(address, count.saturating_mul(N as u64))?.as_chunks().0)
    }
}

impl Memories {
    pub(crate) fn new(main: usize) -> Self {
        Memories { main: Main(vec![0; main]), kpu: vec![0; ROWS as usize * ROW], out: Vec::new() }
    }

    /// Makes a run independent of the one before.
    pub(crate) fn clear(&mut self) {
        self.main.0.fill(0);
        self.kpu.fill(0);
    }

    /// Bytes of main memory.
    pub(crate) fn read(&self, address: u32, length: u64) -> Result<&[u8], Error> {
        self.main.read(address, length)
    }

    /// Puts bytes into main memory.
    pub(crate) fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), Error> {
        let range = self.main.stretch(address, bytes.len() as u64)?;
        self.main.0[range].copy_from_slice(bytes);
        Ok(())
    }

    /// Copies bytes of main memory, as they were before, to another place of it.
    pub(crate) fn copy(&mut self, from: u32, to: u32, length: u64) -> Result<(), Error> {
        let (from, to) = (self.main.stretch(from, length)?, self.main.stretch(to, length)?);
        self.main.0.copy_within(from, to.start);
        Ok(())
    }

    /// Puts into main memory what `fill` appends to an empty buffer; it reads the memory as it was before.
    pub(crate) fn compute(
        &mut self,
        address: u32,
        fill: impl FnOnce(&Main, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.clear();
        fill(&self.main, &mut self.out)?;
        let range = self.main.stretch(address, self.out.len() as u64)?;
        self.main.0[range].copy_from_slice(&self.out);
        Ok(())
    }

    /// As [`Memories::compute`], into maps of KPU RAM.
    pub(crate) fn compute_maps(
        &mut self,
        maps: Maps,
        fill: impl FnOnce(&Main, &mut Vec<u8>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.out.clear();
        fill(&self.main, &mut self.out)?;
        put(&mut self.kpu, maps, &self.out)
    }

    /// The rows of KPU RAM that maps take.
    pub(crate) fn map(&self, maps: Maps) -> Result<&[u8], Error> {
        Ok(&self.kpu[rows(&self.kpu, maps)?])
    }

    /// Puts packed CHW maps into KPU RAM.
    pub(crate) fn upload(&mut self, maps: Maps, bytes: &[u8]) -> Result<(), Error> {
        put(&mut self.kpu, maps, bytes)
    }
}

fn rows(kpu: &[u8], maps: Maps) -> Result<std::ops::Range<usize>, Error> {
    let rows = Layout::new(maps.width).rows(maps.channels, maps.height);
    stretch(kpu, KPU, u64::from(maps.row) * ROW as u64, rows.saturating_mul(ROW as u64))
}

fn put(kpu: &mut [u8], maps: Maps, bytes: &[u8]) -> Result<(), Error> {
    let range = rows(kpu, maps)?;
    let (rows, layout) = (&mut kpu[range], Layout::new(maps.width));
    let (width, height) = (maps.width as usize, maps.height as usize);
    for (channel, map) in bytes.chunks(width.saturating_mul(height).max(1)).enumerate() {
        for (y, line) in map.chunks_exact(width.max(1)).enumerate() {
            let start = layout.line(channel, y, height);
            let Some(target) = rows.get_mut(start..start + width) else {
                return Err(outside(KPU, start as u64, width as u64));
            };
            target.copy_from_slice(line);
        }
    }
    Ok(())
}
