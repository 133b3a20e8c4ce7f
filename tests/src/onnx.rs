//! Small ONNX models made on the spot: a protobuf writer for the few messages that the tests need.

/// ONNX's number of an element type.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each variant is named after the ONNX type")]
pub enum Type {
    Float = 1,
    Int32 = 6,
    Int64 = 7,
    String = 8,
    Bool = 9,
    Float16 = 10,
}

/// The value of a node's attribute.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each variant is named after the kind of the attribute")]
pub enum Attribute<'a> {
    Int(i64),
    Float(f32),
    Text(&'a str),
    Ints(&'a [i64]),
}

/// A message being written: fields are appended in the order of the calls.
#[derive(Clone, Debug, Default)]
pub struct Message(Vec<u8>);

impl Message {
    /// Appends a whole number.
    pub fn int(self, field: u32, value: i64) -> Message {
        self.varint(u64::from(field) << 3).varint(value as u64)
    }

    /// Appends bytes, a text or a message.
    pub fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Message {
        let bytes = bytes.as_ref();
        self = self.varint(u64::from(field) << 3 | 2).varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends an f32.
    pub fn fixed(mut self, field: u32, value: f32) -> Message {
        self = self.varint(u64::from(field) << 3 | 5);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn varint(mut self, mut value: u64) -> Message {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    /// The bytes of the message.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A model with one graph.
#[derive(Clone, Debug)]
pub struct Model {
    graph: Message,
    opset: i64,
    domains: Vec<(&'static str, i64)>,
}

impl Default for Model {
    fn default() -> Self {
        Model { graph: Message::default().bytes(2, "graph"), opset: 17, domains: Vec::new() }
    }
}

impl Model {
    /// Uses another version of ONNX's own operators.
    pub fn opset(mut self, version: i64) -> Model {
        self.opset = version;
        self
    }

    /// Uses operators of another domain.
    pub fn domain(mut self, domain: &'static str, version: i64) -> Model {
        self.domains.push((domain, version));
        self
    }

    /// Adds an input.
    pub fn input(self, name: &str, ty: Type, shape: &[i64]) -> Model {
        self.port(11, name, ty, shape)
    }

    /// Adds an output.
    pub fn output(self, name: &str, ty: Type, shape: &[i64]) -> Model {
        self.port(12, name, ty, shape)
    }

    fn port(mut self, field: u32, name: &str, ty: Type, shape: &[i64]) -> Model {
        let sizes = shape.iter().fold(Message::default(), |shape, &size| match size {
            // A negative size stands for a symbol.
            ..0 => shape.bytes(1, Message::default().bytes(2, "batch")),
            _ => shape.bytes(1, Message::default().int(1, size)),
        });
        let tensor = Message::default().int(1, ty as i64).bytes(2, sizes);
        let value = Message::default().bytes(1, name).bytes(2, Message::default().bytes(1, tensor));
        self.graph = self.graph.bytes(field, value);
        self
    }

    /// Adds a weight of f32.
    pub fn weight(self, name: &str, shape: &[i64], values: &[f32]) -> Model {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(tensor(name, Type::Float, shape).bytes(9, bytes))
    }

    /// Adds a weight as it stands in `tensor`, see [`tensor`].
    pub fn tensor(mut self, tensor: Message) -> Model {
        self.graph = self.graph.bytes(5, tensor);
        self
    }

    /// Adds a node called after its first output.
    pub fn node(self, op: &str, inputs: &[&str], outputs: &[&str]) -> Model {
        self.node_of("", op, inputs, outputs)
    }

    /// Adds a node of another domain.
    pub fn node_of(self, domain: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> Model {
        let node = node(op, inputs, outputs);
        self.any_node(if domain.is_empty() { node } else { node.bytes(7, domain) })
    }

    /// Adds a node with attributes; an input or output that is called nothing is absent.
    pub fn node_with(self, op: &str, inputs: &[&str], outputs: &[&str], attributes: &[(&str, Attribute<'_>)]) -> Model {
        let attributes = attributes.iter().map(|(name, value)| attribute(name, *value));
        self.any_node(attributes.fold(node(op, inputs, outputs), |node, attribute| node.bytes(5, attribute)))
    }

    /// Adds whole numbers of 64 bits.
    pub fn ints(self, name: &str, shape: &[i64], values: &[i64]) -> Model {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(tensor(name, Type::Int64, shape).bytes(9, bytes))
    }

    /// Adds a `Cast`.
    pub fn cast(self, input: &str, to: Type, output: &str) -> Model {
        self.node_with("Cast", &[input], &[output], &[("to", Attribute::Int(to as i64))])
    }

    fn any_node(mut self, node: Message) -> Model {
        self.graph = self.graph.bytes(1, node);
        self
    }

    /// The file.
    pub fn finish(self) -> Vec<u8> {
        let opset = |domain: &str, version| Message::default().bytes(1, domain).int(2, version);
        let model = Message::default().int(1, 8).bytes(7, self.graph).bytes(8, opset("", self.opset));
        self.domains.iter().fold(model, |model, (domain, version)| model.bytes(8, opset(domain, *version))).finish()
    }
}

/// An attribute with the number of its kind.
fn attribute(name: &str, value: Attribute<'_>) -> Message {
    let named = Message::default().bytes(1, name);
    match value {
        Attribute::Float(value) => named.fixed(2, value).int(20, 1),
        Attribute::Int(value) => named.int(3, value).int(20, 2),
        Attribute::Text(value) => named.bytes(4, value).int(20, 3),
        Attribute::Ints(values) => values.iter().fold(named, |message, &value| message.int(8, value)).int(20, 7),
    }
}

/// A node called after its first output.
fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let node = inputs.iter().fold(Message::default(), |node, name| node.bytes(1, name));
    let node = outputs.iter().fold(node, |node, name| node.bytes(2, name));
    node.bytes(3, format!("make_{}", outputs[0])).bytes(4, op)
}

/// A tensor without its elements.
pub fn tensor(name: &str, ty: Type, shape: &[i64]) -> Message {
    shape.iter().fold(Message::default(), |tensor, &size| tensor.int(1, size)).int(2, ty as i64).bytes(8, name)
}

/// A tensor of f32 whose elements lie in another file, from its first byte on.
pub fn external(name: &str, shape: &[i64], location: &str) -> Message {
    external_at(name, shape, location, 0)
}

/// A tensor of f32 whose elements lie in another file, from the byte `offset` on.
pub fn external_at(name: &str, shape: &[i64], location: &str, offset: usize) -> Message {
    let entry = |key: &str, value: &str| Message::default().bytes(1, key).bytes(2, value);
    let tensor = tensor(name, Type::Float, shape).bytes(13, entry("location", location));
    let tensor = if offset == 0 { tensor } else { tensor.bytes(13, entry("offset", &offset.to_string())) };
    tensor.int(14, 1)
}

/// `y = relu(x * w + b)` with an `x` of 2 by 3 and a `w` of 3 by 4 that reaches the audit's least size nowhere.
pub fn small() -> Model {
    let weights: Vec<f32> = (0..12).map(|i| i as f32 / 4.0 - 1.0).collect();
    Model::default()
        .input("x", Type::Float, &[2, 3])
        .weight("w", &[3, 4], &weights)
        .weight("b", &[4], &[0.5, -0.5, 0.25, -0.25])
        .node("MatMul", &["x", "w"], &["product"])
        .node("Add", &["product", "b"], &["sum"])
        .node("Relu", &["sum"], &["y"])
        .output("y", Type::Float, &[2, 4])
}

/// Elements of the weight of [`scale`]: enough bytes for the audit to look for them.
pub const SCALE_WIDTH: i64 = 512;

/// `y = x * w`, element by element.
pub fn scale() -> Model {
    let weights: Vec<f32> = (0..SCALE_WIDTH).map(|i| i as f32 / 64.0 - 4.0).collect();
    Model::default()
        .input("x", Type::Float, &[1, SCALE_WIDTH])
        .weight("w", &[1, SCALE_WIDTH], &weights)
        .node("Mul", &["x", "w"], &["y"])
        .output("y", Type::Float, &[1, SCALE_WIDTH])
}
