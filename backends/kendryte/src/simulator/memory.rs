//! The two memories of a K210 as byte vectors; every access is checked.

use byoc_plugin_api::Error;

use crate::kmodel::layout::{Layout, ROW, ROWS};

pub(crate) struct Memories {
    main: Vec<u8>,
    kpu: Vec<u8>,
}

fn outside(what: &str, start: u64, length: u64) -> Error {
    Error::new(format!("{length} bytes from {start} lie outside {what}"))
}

/// A stretch of a memory.
fn stretch<'a>(memory: &'a [u8], what: &str, start: u64, length: u64) -> Result<&'a [u8], Error> {
    let end = start.saturating_add(length);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    range.and_then(|(start, end)| memory.get(start..end)).ok_or_else(|| outside(what, start, length))
}

fn stretch_mut<'a>(memory: &'a mut [u8], what: &str, start: u64, length: u64) -> Result<&'a mut [u8], Error> {
    let end = start.saturating_add(length);
    let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
    range.and_then(|(start, end)| memory.get_mut(start..end)).ok_or_else(|| outside(what, start, length))
}

const MAIN: &str = "main memory";
const KPU: &str = "KPU RAM";

impl Memories {
    pub(crate) fn new(main: usize) -> Self {
        Memories { main: vec![0; main], kpu: vec![0; ROWS as usize * ROW] }
    }

    /// Makes a run independent of the one before.
    pub(crate) fn clear(&mut self) {
        self.main.fill(0);
        self.kpu.fill(0);
    }

    /// Bytes of main memory.
    pub(crate) fn read(&self, address: u32, length: u64) -> Result<&[u8], Error> {
        stretch(&self.main, MAIN, u64::from(address), length)
    }

    /// Puts bytes into main memory.
    pub(crate) fn write(&mut self, address: u32, bytes: &[u8]) -> Result<(), Error> {
        stretch_mut(&mut self.main, MAIN, u64::from(address), bytes.len() as u64)?.copy_from_slice(bytes);
        Ok(())
    }

    /// `f32` values of main memory.
    pub(crate) fn floats(&self, address: u32, count: u64) -> Result<Vec<f32>, Error> {
        let bytes = self.read(address, count.saturating_mul(4))?;
        let (values, _) = bytes.as_chunks();
        Ok(values.iter().map(|value| f32::from_le_bytes(*value)).collect())
    }

    /// Puts `f32` values into main memory.
    pub(crate) fn write_floats(&mut self, address: u32, values: &[f32]) -> Result<(), Error> {
        let bytes = stretch_mut(&mut self.main, MAIN, u64::from(address), 4 * values.len() as u64)?;
        for (bytes, value) in bytes.chunks_exact_mut(4).zip(values) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
        Ok(())
    }

    /// The rows of KPU RAM that maps of this size take.
    pub(crate) fn map(&self, row: u32, width: u32, height: u32, channels: u32) -> Result<&[u8], Error> {
        let rows = Layout::new(width).rows(channels, height);
        stretch(&self.kpu, KPU, u64::from(row) * ROW as u64, rows.saturating_mul(ROW as u64))
    }

    fn map_mut(&mut self, row: u32, width: u32, height: u32, channels: u32) -> Result<&mut [u8], Error> {
        let rows = Layout::new(width).rows(channels, height);
        stretch_mut(&mut self.kpu, KPU, u64::from(row) * ROW as u64, rows.saturating_mul(ROW as u64))
    }

    /// Puts packed CHW maps into KPU RAM.
    pub(crate) fn upload(
        &mut self,
        bytes: &[u8],
        row: u32,
        width: u32,
        height: u32,
        channels: u32,
    ) -> Result<(), Error> {
        let layout = Layout::new(width);
        let rows = self.map_mut(row, width, height, channels)?;
        let (width, height) = (width as usize, height as usize);
        for (index, line) in bytes.chunks_exact(width.max(1)).enumerate() {
            let start = layout.line(index / height, index % height, height);
            let Some(target) = rows.get_mut(start..start + width) else {
                return Err(outside(KPU, start as u64, width as u64));
            };
            target.copy_from_slice(line);
        }
        Ok(())
    }
}
