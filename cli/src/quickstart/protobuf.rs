//! As much of the protobuf encoding as it takes to write a model: <https://protobuf.dev/programming-guides/encoding/>.
//! Field numbers are those of `onnx.proto`.

/// A message that is being written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// An integer.
    pub(crate) fn int(mut self, field: u32, value: i64) -> Message {
        self.key(field, 0);
        self.varint(value as u64);
        self
    }

    /// Bytes, or a text.
    pub(crate) fn bytes(mut self, field: u32, bytes: &[u8]) -> Message {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// A message within.
    pub(crate) fn message(self, field: u32, message: Message) -> Message {
        self.bytes(field, &message.0)
    }

    /// A message for each of a list.
    pub(crate) fn messages(self, field: u32, list: impl IntoIterator<Item = Message>) -> Message {
        list.into_iter().fold(self, |message, item| message.message(field, item))
    }

    /// The encoded message.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        self.varint(u64::from(field << 3 | wire_type));
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }
}

/// A `NodeProto` with its attributes.
pub(crate) fn node(name: &str, op: &str, inputs: &[&str], output: &str, attributes: Vec<Message>) -> Message {
    let message = inputs.iter().fold(Message::default(), |message, input| message.bytes(1, input.as_bytes()));
    message.bytes(2, output.as_bytes()).bytes(3, name.as_bytes()).bytes(4, op.as_bytes()).messages(5, attributes)
}

/// An `AttributeProto` of one integer.
pub(crate) fn int(name: &str, value: i64) -> Message {
    Message::default().bytes(1, name.as_bytes()).int(3, value).int(20, 2)
}

/// An `AttributeProto` of several integers.
pub(crate) fn ints(name: &str, values: &[i64]) -> Message {
    let message = Message::default().bytes(1, name.as_bytes());
    values.iter().fold(message, |message, &value| message.int(8, value)).int(20, 7)
}

/// A `TensorProto` of `f32`.
pub(crate) fn tensor(name: &str, shape: &[i64], values: &[f32]) -> Message {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let message = shape.iter().fold(Message::default(), |message, &size| message.int(1, size));
    message.int(2, 1).bytes(8, name.as_bytes()).bytes(9, &bytes)
}

/// A `ValueInfoProto` of `f32`.
pub(crate) fn value(name: &str, shape: &[i64]) -> Message {
    let dims = shape.iter().map(|&size| Message::default().int(1, size));
    let tensor = Message::default().int(1, 1).message(2, Message::default().messages(1, dims));
    Message::default().bytes(1, name.as_bytes()).message(2, Message::default().message(1, tensor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_is_protobufs() {
        // The two examples of the encoding's documentation.
        assert_eq!(Message::default().int(1, 150).into_bytes(), [0x08, 0x96, 0x01]);
        let text = [0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67];
        assert_eq!(Message::default().bytes(2, b"testing").into_bytes(), text);
        let negative = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Message::default().int(1, -1).into_bytes(), negative);
    }
}
