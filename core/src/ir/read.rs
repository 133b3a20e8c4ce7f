//! Reads the text form that [`super::print`] writes, so that a test can state a graph as text.
//!
//! ```text
//! entry main
//!   input  x: f32[n,3]
//!   sum: f32[n,3] = Add(x, bias<f32[3] 1 2 3.5>)
//!   y: ? = Clip(sum, -, limit<f32[] 0x0000c040>)
//!   output y: f32[n,3]
//! ```
//!
//! A line is an entry, a body of control flow (`body main/Loop_0`, behind its entry), an input, a node or an output. A node of
//! control flow names its bodies in the attribute `bodies`, and `captured` says how many of its last operands are values that
//! they read. A sequence or an optional has a type such as `seq(f32[3,?])`. `-` is an operand or a result that is absent, `?` a type that is not known; a result may have no type at all. A name that holds a space or one of `,(){}<>="` is in double quotes. What the
//! text form does not show is not read: nodes are named `<Op>_<n>`, and the bytes of large constants come from the caller.

use std::collections::{BTreeMap, HashMap};

use byoc_plugin_api::{Attribute, AttributeTensor, DType, Dim, from_hex};

use super::literal::elements;
use super::{Bodies, Declared, Graph, ListType, Model, Node, TensorType, ValueId};
use crate::constants::ConstantTable;

/// Gives the bytes of a constant of that type whose text, behind the type, is neither its elements as numbers nor `0x` with
/// its bytes in hex; `None` where the text says nothing to the caller.
pub type Contents<'a> = &'a dyn Fn(&TensorType, &str) -> Option<Vec<u8>>;

/// Reads the text form of a model. An error is one line, with the number of the line in the text.
pub fn read(text: &str, contents: Contents<'_>) -> Result<Model, String> {
    let mut entries: Vec<Graph> = Vec::new();
    let (mut constants, mut names) = (ConstantTable::default(), HashMap::new());
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let line = line.trim();
        if let Some(name) = line.strip_prefix("entry ") {
            entries.push(Graph { name: name.trim().to_owned(), ..Graph::default() });
            names.clear();
            continue;
        }
        if let (Some(name), Some(before)) = (line.strip_prefix("body "), entries.last()) {
            let body_of = Some(before.entry().to_owned());
            entries.push(Graph { name: name.trim().to_owned(), body_of, ..Graph::default() });
            names.clear();
            continue;
        }
        let place = |cause: String| format!("line {}: {cause}", index + 1);
        let graph = entries.last_mut().ok_or_else(|| place("expected 'entry <name>'".into()))?;
        let mut reader = LineReader { rest: line, graph, names: &mut names, constants: &mut constants, contents };
        reader.line().map_err(place)?;
    }
    let graphs: HashMap<String, usize> =
        entries.iter().enumerate().map(|(index, graph)| (graph.name.clone(), index)).collect();
    for node in entries.iter_mut().flat_map(|graph| &mut graph.nodes) {
        bodies(node, &graphs)?;
    }
    Ok(Model { entries, constants, ..Model::default() })
}

/// Finds the bodies of a node of control flow, which an attribute of the text form names.
fn bodies(node: &mut Node, graphs: &HashMap<String, usize>) -> Result<()> {
    let Some(Attribute::Strings(names)) = node.domain.is_empty().then(|| node.attributes.remove(BODIES)).flatten()
    else {
        return Ok(());
    };
    let missing = |name| format!("node {}: '{name}' is not the name of a body", node.name);
    let found =
        names.iter().map(|name| graphs.get(name).copied().ok_or_else(|| missing(name))).collect::<Result<_>>()?;
    let captured = match node.attributes.remove(CAPTURED) {
        Some(Attribute::Int(captured)) => usize::try_from(captured).unwrap_or(0).min(node.inputs.len()),
        _ => 0,
    };
    node.bodies = Some(Bodies { graphs: found, captured });
    Ok(())
}

type Result<T, E = String> = std::result::Result<T, E>;

/// What is left of one line, and the graph that it adds to.
struct LineReader<'a> {
    rest: &'a str,
    graph: &'a mut Graph,
    /// The values of the graph by name.
    names: &'a mut HashMap<String, ValueId>,
    constants: &'a mut ConstantTable,
    contents: Contents<'a>,
}

impl<'a> LineReader<'a> {
    fn line(&mut self) -> Result<()> {
        if let Some(rest) = self.rest.strip_prefix("input ") {
            self.rest = rest;
            let input = self.result()?.ok_or("an input has a name")?;
            self.graph.inputs.push(input);
        } else if let Some(rest) = self.rest.strip_prefix("output ") {
            self.rest = rest;
            self.output()?;
        } else {
            self.node()?;
        }
        if self.rest.is_empty() { Ok(()) } else { Err(format!("unexpected '{}'", self.rest)) }
    }

    fn output(&mut self) -> Result<()> {
        let name = self.name()?;
        let ty = if self.optional_list()?.is_some() { None } else { self.optional_type()? };
        if self.take("=") {
            self.operand()?;
        }
        let output = self.value(&name);
        let declared =
            ty.map(|ty| Declared { dtype: Some(ty.dtype), shape: Some(ty.shape.iter().map(Dim::fixed).collect()) });
        self.graph.outputs.push(output);
        self.graph.declared.push(declared.unwrap_or_default());
        Ok(())
    }

    fn node(&mut self) -> Result<()> {
        let mut outputs = vec![self.result()?];
        while self.take(",") {
            outputs.push(self.result()?);
        }
        self.expect("=")?;
        let operator = self.name()?;
        let (domain, op) = operator.rsplit_once('.').unwrap_or(("", &operator));
        let attributes = if self.take("{") { self.attributes()? } else { BTreeMap::new() };
        self.expect("(")?;
        let mut inputs = Vec::new();
        while !self.take(")") {
            if !inputs.is_empty() {
                self.expect(",")?;
            }
            inputs.push(self.operand()?);
        }
        let name = format!("{op}_{}", self.graph.nodes.len());
        let (op, domain) = (op.to_owned(), domain.to_owned());
        self.graph.nodes.push(Node { name, op, domain, inputs, outputs, attributes, version: None, bodies: None });
        Ok(())
    }

    /// An input of the graph or a result of a node: `-`, or a name and perhaps a type.
    fn result(&mut self) -> Result<Option<ValueId>> {
        let Some(name) = self.optional_name()? else { return Ok(None) };
        let list = self.optional_list()?;
        let ty = if list.is_some() { Some(ListType::handle()) } else { self.optional_type()? };
        let id = self.value(&name);
        let value = &mut self.graph.values[id.0];
        (value.ty, value.list) = (ty, list);
        Ok(Some(id))
    }

    /// What a node reads: `-`, a name, or a name with the type and the bytes of a constant.
    fn operand(&mut self) -> Result<Option<ValueId>> {
        let Some(name) = self.optional_name()? else { return Ok(None) };
        if !self.take("<") {
            return Ok(Some(self.value(&name)));
        }
        let ty = self.ty()?.ok_or_else(|| format!("the constant '{name}' has no type"))?;
        let text = self.until('>')?.trim();
        let shape = ty.fixed_shape().ok_or_else(|| format!("the constant '{name}' has a symbolic shape"))?;
        let bytes = match text.strip_prefix("0x") {
            Some(hex) => from_hex(hex),
            None => elements(ty.dtype, text).or_else(|| (self.contents)(&ty, text)),
        };
        let bytes = bytes.ok_or_else(|| format!("the bytes of the constant '{name}' are not known: '{text}'"))?;
        let expected = ty.dtype.bytes_of(&shape).ok_or_else(|| format!("the constant '{name}' is too large"))?;
        if bytes.len() != expected {
            return Err(format!("the constant '{name}' has {} bytes, and {ty} is {expected}", bytes.len()));
        }
        let constant = self.constants.insert(&name, ty.dtype, &shape, bytes.into());
        let known = self.value(&name);
        let value = &mut self.graph.values[known.0];
        match &value.constant {
            Some(before) if *before != constant => return Err(format!("two constants are called '{name}'")),
            _ => (value.ty, value.constant) = (Some(ty), Some(constant)),
        }
        Ok(Some(known))
    }

    /// The value of that name, a new one if there is none.
    fn value(&mut self, name: &str) -> ValueId {
        *self.names.entry(name.to_owned()).or_insert_with(|| self.graph.add_value(name, None))
    }

    /// The type behind a colon, if there is one that is known.
    fn optional_type(&mut self) -> Result<Option<TensorType>> {
        if self.take(":") { self.ty() } else { Ok(None) }
    }

    /// The type of a sequence or an optional behind a colon, if that is what follows.
    fn optional_list(&mut self) -> Result<Option<ListType>> {
        let Some(rest) = self.rest.trim_start().strip_prefix(':').map(str::trim_start) else { return Ok(None) };
        let Some((list, rest)) = ListType::read(rest)? else { return Ok(None) };
        self.rest = rest.trim_start();
        Ok(Some(list))
    }

    fn ty(&mut self) -> Result<Option<TensorType>> {
        if self.take("?") {
            return Ok(None);
        }
        let name = self.until('[')?;
        let dtype = DType::from_name(name.trim());
        let dtype = dtype.ok_or_else(|| format!("'{}' is not an element type", name.trim()))?;
        let sizes = self.until(']')?;
        let size = |text: &str| text.parse().map_or_else(|_| Dim::Symbolic(text.to_owned()), Dim::Fixed);
        let shape = split(sizes).into_iter().map(size).collect();
        Ok(Some(TensorType { dtype, shape }))
    }

    fn attributes(&mut self) -> Result<BTreeMap<String, Attribute>> {
        let mut attributes = BTreeMap::new();
        while !self.take("}") {
            if !attributes.is_empty() {
                self.expect(",")?;
            }
            let name = self.name()?;
            self.expect("=")?;
            let value = self.attribute().map_err(|cause| format!("attribute '{name}': {cause}"))?;
            attributes.insert(name, value);
        }
        Ok(attributes)
    }

    fn attribute(&mut self) -> Result<Attribute> {
        if self.rest.starts_with('"') {
            return Ok(Attribute::String(self.quoted()?));
        }
        if self.take("tensors(") {
            let mut tensors = Vec::new();
            while !self.take(")") {
                tensors.push(self.tensor()?);
                self.take(";");
            }
            return Ok(Attribute::Tensors(tensors));
        }
        if self.take("graph ") {
            return Ok(Attribute::Graph(self.hex()?));
        }
        if !self.rest.starts_with('[') {
            let end = self.rest.find([',', '}', '[']).unwrap_or(self.rest.len());
            if self.rest[end..].starts_with('[') {
                let AttributeTensor { dtype, shape, hex } = self.tensor()?;
                return Ok(Attribute::Tensor { dtype, shape, hex });
            }
            return scalar(self.advance(end).trim());
        }
        self.expect("[")?;
        if self.rest.starts_with('"') {
            let mut texts = vec![self.quoted()?];
            while self.take(",") {
                texts.push(self.quoted()?);
            }
            self.expect("]")?;
            return Ok(Attribute::Strings(texts));
        }
        let items = split(self.until(']')?).into_iter().map(scalar).collect::<Result<Vec<_>>>()?;
        let ints = items.iter().map(|item| if let Attribute::Int(value) = item { Some(*value) } else { None });
        if let Some(ints) = ints.collect() {
            return Ok(Attribute::Ints(ints));
        }
        let floats = items.iter().map(|item| if let Attribute::Float(value) = item { Some(*value) } else { None });
        floats.collect::<Option<_>>().map(Attribute::Floats).ok_or_else(|| "a list is of integers or of floats".into())
    }

    /// `f32[2] 0x0000803f00000040`
    fn tensor(&mut self) -> Result<AttributeTensor> {
        let ty = self.ty()?.ok_or("a tensor has a type")?;
        let shape = ty.fixed_shape().ok_or("a tensor has a fixed shape")?;
        Ok(AttributeTensor { dtype: ty.dtype, shape, hex: self.hex()? })
    }

    /// `0x0000803f`
    fn hex(&mut self) -> Result<String> {
        self.expect("0x")?;
        let end = self.rest.find([',', '}', ';', ')']).unwrap_or(self.rest.len());
        Ok(self.advance(end).trim().to_owned())
    }

    /// A name, or `None` for `-`.
    fn optional_name(&mut self) -> Result<Option<String>> {
        let quoted = self.rest.trim_start().starts_with('"');
        let name = self.name()?;
        Ok((quoted || name != "-").then_some(name))
    }

    /// A name, as it is or in double quotes.
    fn name(&mut self) -> Result<String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('"') {
            return self.quoted();
        }
        let end = self.rest.find(special).unwrap_or(self.rest.len());
        // A colon ends a name only where the type follows: names such as `conv:0` are common.
        let end = if self.rest[..end].ends_with(':') { end - 1 } else { end };
        if end == 0 {
            return Err(format!("expected a name, found '{}'", self.rest));
        }
        let name = self.advance(end).to_owned();
        self.rest = self.rest.trim_start();
        Ok(name)
    }

    /// A text in double quotes, with the escapes of Rust's debug form.
    fn quoted(&mut self) -> Result<String> {
        let mut characters = self.rest.char_indices().skip(1);
        let mut text = String::new();
        while let Some((index, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = self.rest[index + 1..].trim_start();
                    return Ok(text);
                }
                '\\' => text.extend(match characters.next().map(|(_, escaped)| escaped) {
                    Some('n') => Some('\n'),
                    Some('t') => Some('\t'),
                    Some('r') => Some('\r'),
                    Some('0') => Some('\0'),
                    Some('u') => {
                        let digits =
                            characters.by_ref().skip(1).map(|(_, digit)| digit).take_while(|digit| *digit != '}');
                        u32::from_str_radix(&digits.collect::<String>(), 16).ok().and_then(char::from_u32)
                    }
                    other => other,
                }),
                other => text.push(other),
            }
        }
        Err(format!("a text does not end: {}", self.rest))
    }

    fn take(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        if let Some(rest) = rest {
            self.rest = rest.trim_start();
        }
        rest.is_some()
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(format!("expected '{token}', found '{}'", self.rest)) }
    }

    /// The text before the next `end`, which is consumed.
    fn until(&mut self, end: char) -> Result<&'a str> {
        let (text, rest) =
            self.rest.split_once(end).ok_or_else(|| format!("expected '{end}' behind '{}'", self.rest))?;
        self.rest = rest.trim_start();
        Ok(text)
    }

    fn advance(&mut self, end: usize) -> &'a str {
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        text
    }
}

/// In the text form, the attribute that names the graphs that a node of control flow runs.
pub(super) const BODIES: &str = "bodies";

/// In the text form, the attribute that says how many operands of a node of control flow are captured.
pub(super) const CAPTURED: &str = "captured";

/// Whether a name with this character needs double quotes.
pub(super) fn special(character: char) -> bool {
    character.is_whitespace() || ",(){}<>=\"".contains(character)
}

fn scalar(text: &str) -> Result<Attribute> {
    let int = text.parse().map(Attribute::Int);
    let number = int.or_else(|_| text.parse().map(Attribute::Float));
    number.map_err(|_| format!("'{text}' is not an attribute"))
}

/// Parts between commas outside of parentheses, trimmed.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (index, character) in list.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(list[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::print;

    #[test]
    fn what_is_printed_is_read() {
        let text = "entry main\n  input  x:0: f32[n,'batch size',floor((h + 1)/2)]\n  \"a b\": ?, -, \"-\": i64[] = com.acme.Op{a=-1, \
                    b=1e-5, c=\"x\\n\\\"\\u{1b}\", d=[1,2], e=[0.5,1.0], f=[\"a,b\", \"}\"], g=i64[1] 0x0100000000000000, \
                    h=[]}(x:0, -, \"w=\"<f16[2] 0.5 -1>)\n  output \"a b\": ?\n";
        let model = read(text, &|_, _| None).expect("a model");
        assert_eq!(print(&model), text);
    }

    #[test]
    fn errors_name_the_line() {
        let line = |line: &str| format!("entry main\n\n  {line}\n");
        let cases = [
            ("y = Relu(x)".to_owned(), "line 1: expected 'entry <name>'"),
            (line("y = Relu(x"), "line 3: expected ',', found ''"),
            (line("y = Relu(x) z"), "line 3: unexpected 'z'"),
            (line("y: f31[2] = Relu(x)"), "line 3: 'f31' is not an element type"),
            (line("y = Relu{a=b}(x)"), "line 3: attribute 'a': 'b' is not an attribute"),
            (line("y = Relu{a=[1,2.0]}(x)"), "line 3: attribute 'a': a list is of integers or of floats"),
            (line("y = Relu{a=\"b}(x)"), "line 3: attribute 'a': a text does not end: \"b}(x)"),
            (line("y = Add(x, w<f32[2] 1>)"), "line 3: the constant 'w' has 4 bytes, and f32[2] is 8"),
            (line("y = Add(x, w<f32[2] #1234>)"), "line 3: the bytes of the constant 'w' are not known: '#1234'"),
            (line("y = Add(x, w<f32[n] 1>)"), "line 3: the constant 'w' has a symbolic shape"),
            (line("y = Add(w<f32[1] 1>, w<f32[1] 2>)"), "line 3: two constants are called 'w'"),
            (line("input -"), "line 3: an input has a name"),
        ];
        for (text, expected) in cases {
            assert_eq!(read(&text, &|_, _| None).expect_err(expected), expected);
        }
    }
}
