//! The code of a region: a C function with one declaration or call a line, and after it the data that it embeds.
//! Constants are parameters, in an order of their own; where each is to be had stands before its type.

use std::fmt::{Display, Formatter};

use byoc_plugin_api::{ConstantId, DType, Error};

/// What separates the text from the data.
const END: u8 = 0;

/// Where the bytes of a constant are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    Host,
    Packed,
    /// In the code, as they were.
    Embedded,
    /// In the code, as a scale and a byte for each element.
    Quantised,
}

/// Every placement but the host's, as the source has it.
const QUALIFIERS: [(&str, Placement); 3] =
    [("packed ", Placement::Packed), ("embedded ", Placement::Embedded), ("quantised ", Placement::Quantised)];

/// What a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Input(usize),
    Output(usize),
    Constant(ConstantId, Placement),
    Local(usize),
}

pub(crate) struct Variable {
    pub(crate) role: Role,
    pub(crate) dtype: DType,
    pub(crate) shape: Vec<usize>,
}

/// A kernel that is called, by indices of variables.
pub(crate) struct Call {
    pub(crate) kernel: String,
    pub(crate) result: usize,
    pub(crate) operands: Vec<usize>,
}

pub(crate) struct Program {
    pub(crate) symbol: String,
    pub(crate) variables: Vec<Variable>,
    pub(crate) calls: Vec<Call>,
}

impl Variable {
    pub(crate) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    fn name(&self) -> String {
        match self.role {
            Role::Input(index) => format!("i{index}"),
            Role::Output(index) => format!("o{index}"),
            Role::Constant(id, _) => format!("c{id}"),
            Role::Local(index) => format!("v{index}"),
        }
    }

    fn parse(text: &str) -> Option<Variable> {
        let constant = text.strip_prefix("const ");
        let text = constant.unwrap_or(text);
        let qualified = QUALIFIERS.iter().find_map(|(word, placement)| Some((text.strip_prefix(word)?, *placement)));
        let (text, placement) = qualified.unwrap_or((text, Placement::Host));
        let (dtype, declarator) = text.split_once(' ')?;
        let mut parts = declarator.split('[');
        let name = parts.next()?;
        let number = || name.get(1..)?.parse::<usize>().ok();
        let role = match name.get(..1)? {
            "i" => Role::Input(number()?),
            "o" => Role::Output(number()?),
            "c" => Role::Constant(ConstantId(number()? as u64), placement),
            _ => Role::Local(number()?),
        };
        let shape = parts.map(|size| size.strip_suffix(']')?.parse().ok()).collect::<Option<_>>()?;
        Some(Variable { role, dtype: if dtype == "half" { DType::F16 } else { DType::F32 }, shape })
    }
}

impl Display for Variable {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        if matches!(self.role, Role::Input(_) | Role::Constant(..)) {
            f.write_str("const ")?;
        }
        if let Role::Constant(_, placement) = self.role {
            f.write_str(QUALIFIERS.iter().find(|(_, known)| *known == placement).map_or("", |(word, _)| word))?;
        }
        write!(f, "{} {}", if self.dtype == DType::F16 { "half" } else { "float" }, self.name())?;
        self.shape.iter().try_for_each(|size| write!(f, "[{size}]"))
    }
}

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let is_local = |variable: &&Variable| matches!(variable.role, Role::Local(_));
        let (locals, parameters): (Vec<_>, Vec<_>) = self.variables.iter().partition(is_local);
        let parameters: Vec<_> = parameters.iter().map(|parameter| format!("    {parameter}")).collect();
        writeln!(f, "void {}(\n{})\n{{", self.symbol, parameters.join(",\n"))?;
        locals.iter().try_for_each(|local| writeln!(f, "    {local};"))?;
        for call in &self.calls {
            let names = [&call.result].into_iter().chain(&call.operands).map(|&index| self.variables[index].name());
            writeln!(f, "    {}({});", call.kernel, names.collect::<Vec<_>>().join(", "))?;
        }
        writeln!(f, "}}")
    }
}

impl Program {
    /// The program in a region's code, and the data behind it.
    pub(crate) fn split(code: &[u8]) -> Result<(Program, &[u8]), Error> {
        let end = code.iter().position(|&byte| byte == END).unwrap_or(code.len());
        let program = std::str::from_utf8(&code[..end]).ok().and_then(Program::parse);
        let program = program.filter(|program| !program.calls.is_empty());
        Ok((program.ok_or_else(|| Error::new("damaged code"))?, code.get(end + 1..).unwrap_or_default()))
    }

    /// The code: the text, and `data` if there is any.
    pub(crate) fn join(&self, data: &[u8]) -> Vec<u8> {
        let mut code = self.to_string().into_bytes();
        if !data.is_empty() {
            code.push(END);
            code.extend_from_slice(data);
        }
        code
    }

    /// Where the code wants the constant, if it reads it at all.
    pub(crate) fn placement(&self, wanted: ConstantId) -> Option<Placement> {
        self.variables.iter().find_map(|variable| match variable.role {
            Role::Constant(id, placement) if id == wanted => Some(placement),
            _ => None,
        })
    }

    fn parse(text: &str) -> Option<Program> {
        let mut program = Program { symbol: String::new(), variables: Vec::new(), calls: Vec::new() };
        for line in text.lines() {
            let line = line.trim().trim_end_matches([',', ';', ')']);
            if let Some(symbol) = line.strip_prefix("void ") {
                program.symbol = symbol.trim_end_matches('(').to_owned();
            } else if let Some((kernel, names)) = line.split_once('(') {
                let index = |name| program.variables.iter().position(|variable| variable.name() == name);
                let mut names = names.split(", ").map(index);
                let result = names.next()??;
                program.calls.push(Call { kernel: kernel.to_owned(), result, operands: names.collect::<Option<_>>()? });
            } else if line.contains(' ') {
                program.variables.push(Variable::parse(line)?);
            }
        }
        Some(program)
    }
}
