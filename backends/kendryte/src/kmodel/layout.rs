//! Layout of feature maps in KPU RAM (kmodel v3, layer arguments: feature-map layout).

/// Bytes of a row of KPU RAM.
pub const ROW: usize = 64;

/// Rows of KPU RAM: 2 MiB.
pub const ROWS: u32 = 32_768;

/// The layout of a map; it follows from the width alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Channels that share a group of rows.
    pub groups: u32,
    /// Bytes from channel to channel within a group.
    pub pitch: u32,
    /// Rows that a line of the map takes.
    pub row_length: u32,
}

impl Layout {
    /// The layout of maps of `width` columns.
    pub fn new(width: u32) -> Self {
        match width {
            0..=16 => Layout { groups: 4, pitch: 16, row_length: 1 },
            17..=32 => Layout { groups: 2, pitch: 32, row_length: 1 },
            _ => Layout { groups: 1, pitch: 64, row_length: width.div_ceil(ROW as u32) },
        }
    }

    /// Rows that `channels` maps of `height` lines take.
    pub fn rows(&self, channels: u32, height: u32) -> u64 {
        let groups = channels.div_ceil(channels.min(self.groups).max(1));
        u64::from(self.row_length).saturating_mul(u64::from(height)).saturating_mul(u64::from(groups))
    }

    /// Bytes from the start of the maps to the first byte of line `y` of channel `c`.
    pub fn line(&self, c: usize, y: usize, height: usize) -> usize {
        let (groups, row_length) = (self.groups as usize, self.row_length as usize);
        (c / groups * row_length * height + y * row_length) * ROW + c % groups * self.pitch as usize
    }
}
