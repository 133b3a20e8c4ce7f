//! The body of a convolution (kmodel v3, K210_CONV data order): five offsets, then arguments, weights and two tables.

use std::ops::Range;

use byoc_plugin_api::Error;

use super::arguments::{Arguments, WORDS};
use super::fields::{Damage, Field, Reader};
use super::tables::{ACTIVATION_BYTES, BatchNorm, SEGMENTS, Segment};

/// Alignment, in bytes from the start of the file, of the layer arguments.
pub(crate) const ARGUMENTS_ALIGNMENT: usize = 8;
/// Alignment of the weights and of the batch-normalisation table.
pub(crate) const WEIGHTS_ALIGNMENT: usize = 128;
/// Alignment of the activation table: readers of later versions check the address, so a file is to be loaded at a
/// multiple of 256, too.
pub(crate) const ACTIVATION_ALIGNMENT: usize = 256;

/// A convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct Conv {
    /// Address of the output in main memory; used when the layer's flags say so.
    pub output: u32,
    /// Sizes and factors.
    pub arguments: Arguments,
    /// `[oc][ic][kh][kw]`, or `[c][kh][kw]` when depthwise.
    pub weights: Vec<u8>,
    /// One an output channel.
    pub batch_norm: Vec<BatchNorm>,
    /// The activation, by rising start.
    pub activation: [Segment; SEGMENTS],
}

/// Where the parts of a convolution are: bytes from the start of the file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offsets {
    pub(crate) arguments: u32,
    pub(crate) weights: u32,
    pub(crate) batch_norm: u32,
    pub(crate) activation: u32,
}

impl Offsets {
    fn read(reader: &mut Reader<'_>) -> Result<Self, Damage> {
        Ok(Offsets {
            arguments: Field::read(reader, "layer_offset")?,
            weights: Field::read(reader, "weights_offset")?,
            batch_norm: Field::read(reader, "bn_offset")?,
            activation: Field::read(reader, "act_offset")?,
        })
    }

    /// The offsets in a body without the flags in front of it.
    pub(crate) fn of_body(reader: &mut Reader<'_>) -> Result<Self, Damage> {
        u32::read(reader, "main_mem_out")?;
        Offsets::read(reader)
    }
}

/// A reader of `length` bytes from `offset` of the file, which must be in the layer's own body: so a file cannot make
/// its reader allocate more than its own size.
fn part<'a>(file: &'a [u8], body: &Range<usize>, offset: u32, length: u64, what: &str) -> Result<Reader<'a>, Damage> {
    let start = offset as usize;
    let end = u64::from(offset).saturating_add(length);
    if start < body.start || end > body.end as u64 {
        let place =
            format!("{what} from {start} to {end} are outside the layer's body, {} to {}", body.start, body.end);
        return Err(Damage::new(body.start, place));
    }
    Ok(Reader::new(&file[start..end as usize], start))
}

impl Conv {
    /// Reads a body whose flags are read already. `body` is where it is in the file.
    pub(crate) fn read(reader: &mut Reader<'_>, file: &[u8], body: &Range<usize>) -> Result<Self, Damage> {
        let output = Field::read(reader, "main_mem_out")?;
        let offsets = Offsets::read(reader)?;
        let mut words = [0; WORDS];
        let mut arguments = part(file, body, offsets.arguments, 8 * WORDS as u64, "layer arguments")?;
        for word in &mut words {
            *word = Field::read(&mut arguments, "layer arguments")?;
        }
        let arguments = Arguments::unpack(&words).map_err(|cause| Damage::new(offsets.arguments as usize, cause))?;
        let length = arguments.weight_bytes();
        let weights = part(file, body, offsets.weights, length, "weights")?.take(length, "weights")?.to_vec();
        let channels = u64::from(arguments.output_channels);
        let mut words = part(file, body, offsets.batch_norm, 8 * channels, "batch-norm words")?;
        let batch_norm = (0..channels).map(|_| read_batch_norm(&mut words)).collect::<Result<_, _>>()?;
        let activation = part(file, body, offsets.activation, ACTIVATION_BYTES as u64, "activation words")?;
        Ok(Conv { output, arguments, weights, batch_norm, activation: read_activation(activation)? })
    }

    /// Appends the body to `file`; the flags are there already.
    pub(crate) fn write(&self, file: &mut Vec<u8>) -> Result<(), Error> {
        self.check_lengths()?;
        let words = self.arguments.pack()?;
        let align = |at: usize, alignment: usize| at.next_multiple_of(alignment);
        let arguments = align(file.len() + 5 * 4, ARGUMENTS_ALIGNMENT);
        let weights = align(arguments + 8 * WORDS, WEIGHTS_ALIGNMENT);
        let batch_norm = align(weights + self.weights.len(), WEIGHTS_ALIGNMENT);
        let activation = align(batch_norm + 8 * self.batch_norm.len(), ACTIVATION_ALIGNMENT);
        self.output.write(file);
        for offset in [arguments, weights, batch_norm, activation] {
            let offset = u32::try_from(offset).map_err(|_| Error::new("a kmodel has at most 4 GiB"))?;
            offset.write(file);
        }
        file.resize(arguments, 0);
        words.iter().for_each(|word| word.write(file));
        file.resize(weights, 0);
        file.extend(&self.weights);
        file.resize(batch_norm, 0);
        for (channel, word) in self.batch_norm.iter().enumerate() {
            let too_large = |field| Error::new(format!("{field} of channel {channel} has too many bits: {word:?}"));
            word.pack().map_err(too_large)?.write(file);
        }
        file.resize(activation, 0);
        for (number, segment) in self.activation.iter().enumerate() {
            let too_large = |field| Error::new(format!("{field} of segment {number} has too many bits: {segment:?}"));
            segment.pack().map_err(too_large)?.write(file);
        }
        file.extend(self.activation.iter().map(|segment| segment.bias));
        Ok(())
    }

    /// That there are as many weights and words as the arguments say.
    pub(crate) fn check_lengths(&self) -> Result<(), Error> {
        let (weights, words) = (self.arguments.weight_bytes(), self.arguments.output_channels);
        if self.weights.len() as u64 != weights {
            return Err(Error::new(format!("{} bytes of weights, its arguments need {weights}", self.weights.len())));
        }
        if self.batch_norm.len() != words as usize {
            return Err(Error::new(format!("{} batch-norm words for {words} channels", self.batch_norm.len())));
        }
        Ok(())
    }
}

fn read_batch_norm(words: &mut Reader<'_>) -> Result<BatchNorm, Damage> {
    let at = words.offset();
    let word = u64::read(words, "batch-norm words")?;
    BatchNorm::unpack(word).ok_or_else(|| Damage::new(at, format!("batch-norm word {word:#x} has undefined bits")))
}

fn read_activation(mut table: Reader<'_>) -> Result<[Segment; SEGMENTS], Damage> {
    let at = table.offset();
    let mut words = [0; SEGMENTS];
    for word in &mut words {
        *word = Field::read(&mut table, "activation words")?;
    }
    let biases: [u8; SEGMENTS] = table.array("activation biases")?;
    let mut segments = [Segment { start: 0, mul: 0, shift: 0, bias: 0 }; SEGMENTS];
    for (number, segment) in segments.iter_mut().enumerate() {
        *segment = Segment::unpack(words[number], biases[number]).ok_or_else(|| {
            let cause = format!("activation word {:#x} has undefined bits", words[number]);
            Damage::new(at + 8 * number, cause)
        })?;
    }
    Ok(segments)
}
