//! The twelve 64-bit arguments of a convolution (kmodel v3, layer arguments): unpacked, packed, and checked where they
//! contradict themselves.

use byoc_plugin_api::Error;

use super::layout::Layout;

/// Arguments of a layer.
pub const WORDS: usize = 12;

/// Most weight loads (kmodel v3, layer argument 5: `load_time` has 6 bits, stored minus one).
pub const MOST_LOADS: u32 = 64;

/// Channels of a map (kmodel v3, layer argument 2: 10 bits, stored minus one).
pub const MOST_CHANNELS: u32 = 1024;

/// `width` bits of a word from bit `low`.
pub(crate) fn bits(word: u64, low: u32, width: u32) -> u64 {
    word >> low & ((1 << width) - 1)
}

/// The same as a signed number.
pub(crate) fn signed(word: u64, low: u32, width: u32) -> i64 {
    (word << (64 - low - width)) as i64 >> (64 - width)
}

/// Sets bits of a word; none when the value has more.
pub(crate) fn put(word: &mut u64, low: u32, width: u32, value: i64, is_signed: bool) -> Option<()> {
    let range = if is_signed { -(1i64 << (width - 1))..1i64 << (width - 1) } else { 0..1i64 << width };
    *word |= range.contains(&value).then(|| bits(value as u64, 0, width) << low)?;
    Some(())
}

/// Kernels (kmodel v3, layer argument 4: `kernel_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// 1x1, no padding.
    One,
    /// 3x3, one pixel of padding all round.
    Three,
}

impl Kernel {
    /// Columns, which is also the rows.
    pub fn size(self) -> u32 {
        match self {
            Kernel::One => 1,
            Kernel::Three => 3,
        }
    }

    /// Pixels of padding on each side.
    pub fn border(self) -> u32 {
        self.size() / 2
    }
}

/// What follows the activation (kmodel v3, layer argument 4: `pool_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Nothing.
    None,
    /// Maximum of 2x2, stride 2.
    Max2,
    /// Mean of 2x2, stride 2.
    Mean2,
    /// Maximum of 4x4, stride 4.
    Max4,
    /// Mean of 4x4, stride 4.
    Mean4,
    /// Upper left of 2x2.
    LeftTop2,
    /// Upper right of 2x2.
    RightTop2,
    /// Upper left of 4x4.
    LeftTop4,
    /// Mean of 2x2, stride 1; the last row and column are repeated.
    Mean2Stride1,
    /// Maximum of 2x2, stride 1; what is outside does not count.
    Max2Stride1,
}

/// The poolings by their number.
pub const POOLINGS: [Pooling; 10] = [
    Pooling::None,
    Pooling::Max2,
    Pooling::Mean2,
    Pooling::Max4,
    Pooling::Mean4,
    Pooling::LeftTop2,
    Pooling::RightTop2,
    Pooling::LeftTop4,
    Pooling::Mean2Stride1,
    Pooling::Max2Stride1,
];

impl Pooling {
    /// Pixels from window to window.
    pub fn stride(self) -> u32 {
        match self {
            Pooling::None | Pooling::Mean2Stride1 | Pooling::Max2Stride1 => 1,
            Pooling::Max2 | Pooling::Mean2 | Pooling::LeftTop2 | Pooling::RightTop2 => 2,
            Pooling::Max4 | Pooling::Mean4 | Pooling::LeftTop4 => 4,
        }
    }
}

/// The arguments that say something. The others follow from them, are patched in by the driver, or are the same in
/// every file.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// Whether each channel has a kernel of its own.
    pub depthwise: bool,
    /// Row of the input in KPU RAM.
    pub source: u32,
    /// Row of the output in KPU RAM.
    pub destination: u32,
    /// Channels of the input, 1 to 1024.
    pub input_channels: u32,
    /// Channels of the output, 1 to 1024.
    pub output_channels: u32,
    /// Columns of the input, 1 to 1024.
    pub width: u32,
    /// Rows of the input, 1 to 512.
    pub height: u32,
    /// The kernel.
    pub kernel: Kernel,
    /// What follows the activation.
    pub pooling: Pooling,
    /// The byte outside the image.
    pub pad_value: u8,
    /// Output channels of a weight load.
    pub channels_per_load: u32,
    /// Weight loads, 1 to 64.
    pub loads: u32,
    /// Bytes of a weight load; 17 bits.
    pub load_bytes: u32,
    /// Factor of the sum of the weights; 24 bits, signed.
    pub arg_w: i32,
    /// Bits by which that product goes to the right, 0 to 15.
    pub shr_w: u32,
    /// Factor of the sum of the input; 24 bits, signed.
    pub arg_x: i32,
    /// Bits by which that product goes to the right, 0 to 15.
    pub shr_x: u32,
    /// Added for each input channel; 40 bits, signed.
    pub arg_add: i64,
    /// Whether the file itself says that the output goes to main memory; drivers set it anyway.
    pub send_data_out: bool,
}

/// Words under construction.
struct Packer([u64; WORDS], Result<(), Error>);

impl Packer {
    fn set(&mut self, word: usize, low: u32, width: u32, name: &str, value: i64) {
        self.put(word, low, width, name, value, false);
    }

    fn put(&mut self, word: usize, low: u32, width: u32, name: &str, value: i64, is_signed: bool) {
        if put(&mut self.0[word], low, width, value, is_signed).is_none() && self.1.is_ok() {
            self.1 = Err(Error::new(format!("{name} is {value}, layer argument {word} has {width} bits for it")));
        }
    }
}

impl Arguments {
    /// Columns of the output.
    pub fn output_width(&self) -> u32 {
        self.width / self.pooling.stride()
    }

    /// Rows of the output.
    pub fn output_height(&self) -> u32 {
        self.height / self.pooling.stride()
    }

    /// Bytes of the weights: `[oc][ic][kh][kw]`, or `[c][kh][kw]` when depthwise.
    pub fn weight_bytes(&self) -> u64 {
        self.channel_weights() * u64::from(self.output_channels)
    }

    /// Bytes of the weights of one output channel.
    pub fn channel_weights(&self) -> u64 {
        let inputs = if self.depthwise { 1 } else { self.input_channels };
        u64::from(inputs) * u64::from(self.kernel.size() * self.kernel.size())
    }

    /// Bytes of the output.
    pub fn output_bytes(&self) -> u64 {
        u64::from(self.output_width()) * u64::from(self.output_height()) * u64::from(self.output_channels)
    }

    /// The words in the file. Errors when a field has no room.
    pub fn pack(&self) -> Result<[u64; WORDS], Error> {
        let mut words = Packer([0; WORDS], Ok(()));
        self.pack_shapes(&mut words);
        self.pack_computation(&mut words);
        words.1.map(|()| words.0)
    }

    /// Arguments 0 to 3, 7, 8 and 11: where maps are and how large they are.
    fn pack_shapes(&self, words: &mut Packer) {
        words.set(0, 3, 1, "depth_wise_layer", i64::from(self.depthwise));
        words.set(1, 0, 15, "image_src_addr", i64::from(self.source));
        words.set(1, 32, 15, "image_dst_addr", i64::from(self.destination));
        words.set(2, 0, 10, "i_ch_num", i64::from(self.input_channels) - 1);
        words.set(2, 32, 10, "o_ch_num", i64::from(self.output_channels) - 1);
        words.set(2, 48, 10, "o_ch_num_coef", i64::from(self.channels_per_load) - 1);
        words.set(3, 0, 10, "i_row_wid", i64::from(self.width) - 1);
        words.set(3, 10, 9, "i_col_high", i64::from(self.height) - 1);
        words.set(3, 32, 10, "o_row_wid", i64::from(self.output_width()) - 1);
        words.set(3, 42, 9, "o_col_high", i64::from(self.output_height()) - 1);
        let (input, output) = (Layout::new(self.width), Layout::new(self.output_width()));
        words.set(7, 0, 15, "channel_switch_addr", i64::from(input.row_length) * i64::from(self.height));
        words.set(7, 16, 4, "row_switch_addr", i64::from(input.row_length));
        words.set(7, 28, 3, "coef_group", i64::from(input.groups));
        words.set(7, 31, 1, "load_act", 1);
        words.set(8, 0, 15, "wb_channel_switch_addr", i64::from(output.row_length) * i64::from(self.output_height()));
        words.set(8, 16, 4, "wb_row_switch_addr", i64::from(output.row_length));
        words.set(8, 20, 3, "wb_group", i64::from(output.groups));
        words.set(11, 0, 1, "send_data_out", i64::from(self.send_data_out));
        // Maps above 65,536 pixels do not fit into these 16 bits; a bit field of C, which the compilers use, is cut.
        let channel = i64::from(self.output_width()) * i64::from(self.output_height()) - 1;
        words.set(11, 16, 16, "channel_byte_num", channel & 0xffff);
        words.set(11, 32, 32, "dma_total_byte", self.output_bytes() as i64 - 1);
    }

    /// Arguments 4, 5, 9 and 10: what is computed.
    fn pack_computation(&self, words: &mut Packer) {
        words.set(4, 0, 3, "kernel_type", i64::from(self.kernel == Kernel::Three));
        let pooling = POOLINGS.iter().position(|pooling| *pooling == self.pooling);
        words.set(4, 4, 4, "pool_type", pooling.map_or(-1, |number| number as i64));
        words.set(4, 10, 1, "load_para", 1);
        words.set(4, 16, 8, "dma_burst_size", 15);
        words.set(4, 24, 8, "pad_value", i64::from(self.pad_value));
        words.set(5, 0, 1, "load_coor", 1);
        words.set(5, 1, 6, "load_time", i64::from(self.loads) - 1);
        words.set(5, 15, 17, "para_size", i64::from(self.load_bytes));
        words.set(9, 0, 4, "shr_w", i64::from(self.shr_w));
        words.set(9, 4, 4, "shr_x", i64::from(self.shr_x));
        words.put(9, 8, 24, "arg_w", i64::from(self.arg_w), true);
        words.put(9, 32, 24, "arg_x", i64::from(self.arg_x), true);
        words.put(10, 0, 40, "arg_add", self.arg_add, true);
    }

    /// From the words in the file. Errors, with the cause, when they contradict themselves or set what means nothing.
    pub fn unpack(words: &[u64; WORDS]) -> Result<Self, String> {
        let field = |word: usize, low, width| bits(words[word], low, width) as u32;
        let kernel = match field(4, 0, 3) {
            0 => Kernel::One,
            1 => Kernel::Three,
            other => return Err(format!("kernel_type is {other}, only 0 (1x1) and 1 (3x3) are known")),
        };
        let pooling = *POOLINGS
            .get(field(4, 4, 4) as usize)
            .ok_or_else(|| format!("pool_type is {}, 0 to 9 are known", field(4, 4, 4)))?;
        let found = Arguments {
            depthwise: field(0, 3, 1) == 1,
            source: field(1, 0, 15),
            destination: field(1, 32, 15),
            input_channels: field(2, 0, 10) + 1,
            output_channels: field(2, 32, 10) + 1,
            width: field(3, 0, 10) + 1,
            height: field(3, 10, 9) + 1,
            kernel,
            pooling,
            pad_value: field(4, 24, 8) as u8,
            channels_per_load: field(2, 48, 10) + 1,
            loads: field(5, 1, 6) + 1,
            load_bytes: field(5, 15, 17),
            arg_w: signed(words[9], 8, 24) as i32,
            shr_w: field(9, 0, 4),
            arg_x: signed(words[9], 32, 24) as i32,
            shr_x: field(9, 4, 4),
            arg_add: signed(words[10], 0, 40),
            send_data_out: field(11, 0, 1) == 1,
        };
        let expected = found.pack().map_err(|error| error.message)?;
        match (0..WORDS).find(|&word| expected[word] != words[word]) {
            None => Ok(found),
            Some(word) => {
                Err(format!("layer argument {word} is {:#x}, the others make it {:#x}", words[word], expected[word]))
            }
        }
    }
}
