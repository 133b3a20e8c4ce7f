//! Writes a kmodel: the same model gives the same bytes, laid out as the SDK's own compiler lays them out.

use byoc_plugin_api::Error;

use super::fields::Field;
use super::parse::place;
use super::{EIGHT_BIT_WEIGHTS, Kmodel, Layer, Operation, VERSION};

/// Where bodies end: multiples of 8 bytes from the start of the file (kmodel v3, section 2).
const BODY_ALIGNMENT: usize = 8;

/// Bytes of the header, of an output and of a layer header.
const HEADER: usize = 28;
const PAIR: usize = 8;

impl Kmodel {
    /// The bytes of the file. Errors when a number has no room in its field, or when the parts of a convolution have
    /// other lengths than its arguments say; [`super::check`] finds more.
    pub fn emit(&self) -> Result<Vec<u8>, Error> {
        let mut file = Vec::new();
        let numbers = [
            VERSION,
            EIGHT_BIT_WEIGHTS,
            0,
            self.layers.len() as u32,
            self.max_start_address,
            self.main_memory,
            self.outputs.len() as u32,
        ];
        numbers.iter().for_each(|number| number.write(&mut file));
        self.outputs.iter().for_each(|output| output.write(&mut file));
        let headers = HEADER + PAIR * self.outputs.len();
        file.resize(headers + PAIR * self.layers.len(), 0);
        for (index, layer) in self.layers.iter().enumerate() {
            let start = file.len();
            let kind = layer.operation.kind();
            layer.write(&mut file).map_err(|error| Error::new(format!("{}: {error}", place(index, kind))))?;
            file.resize(file.len().next_multiple_of(BODY_ALIGNMENT), 0);
            let size = u32::try_from(file.len() - start).map_err(|_| Error::new("a kmodel has at most 4 GiB"))?;
            let header = headers + PAIR * index;
            file[header..header + 4].copy_from_slice(&kind.to_le_bytes());
            file[header + 4..header + 8].copy_from_slice(&size.to_le_bytes());
        }
        Ok(file)
    }
}

impl Layer {
    fn write(&self, file: &mut Vec<u8>) -> Result<(), Error> {
        if let Operation::Other(_, body) = &self.operation {
            file.extend(body);
            return Ok(());
        }
        self.flags.write(file);
        match &self.operation {
            Operation::Add(body) => body.write(file),
            Operation::QuantizedAdd(body) => body.write(file),
            Operation::GlobalAveragePool(body) => body.write(file),
            Operation::QuantizedMaxPool(body) => body.write(file),
            Operation::AveragePool(body, activation) => {
                body.write(file);
                activation.write(file);
            }
            Operation::Quantize(body) => body.write(file),
            Operation::Dequantize(body) => body.write(file),
            Operation::Requantize(body) => body.write(file),
            Operation::L2Normalization(body) | Operation::Softmax(body) | Operation::Logistic(body) => body.write(file),
            Operation::Concat(body) | Operation::QuantizedConcat(body) => body.write(file),
            Operation::FullyConnected(body) => body.write(file),
            Operation::Flatten(body) | Operation::QuantizedFlatten(body) => body.write(file),
            Operation::ResizeNearest(body) | Operation::QuantizedResizeNearest(body) => body.write(file),
            Operation::ChannelwiseDequantize(body) => body.write(file),
            Operation::Conv(body) => body.write(file)?,
            Operation::AddPadding(body) => body.write(file),
            Operation::RemovePadding(body) => body.write(file),
            Operation::Upload(body) => body.write(file),
            Operation::Other(..) => {}
        }
        Ok(())
    }
}
