//! The text of an expression, and back. Terms stand by falling degree, then by name, the number last; in a term the
//! factor stands last: `batch*seq*12 + batch - 3`. A name that is not an identifier stands in quotes: `'my dim'`.

use std::fmt;
use std::str::FromStr;

use super::{Atom, Expr, Monomial};
use super::{DimError, DimErrorKind, Result};

/// Nesting beyond this is refused, so that no text can exhaust the stack.
const MAX_DEPTH: usize = 100;
/// Texts beyond this are refused.
const MAX_TEXT: usize = 16 * 1024;
const FUNCTIONS: [&str; 4] = ["floor", "ceil", "max", "min"];

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms: Vec<_> = self.terms.iter().collect();
        terms.sort_by(|a, b| b.0.len().cmp(&a.0.len()).then_with(|| a.0.cmp(b.0)));
        if terms.is_empty() {
            return f.write_str("0");
        }
        for (index, (monomial, &factor)) in terms.into_iter().enumerate() {
            match (index, factor < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            write_term(f, monomial, factor.unsigned_abs())?;
        }
        Ok(())
    }
}

fn write_term(f: &mut fmt::Formatter<'_>, monomial: &Monomial, factor: u64) -> fmt::Result {
    let mut parts: Vec<String> = monomial.iter().map(Atom::to_string).collect();
    if factor != 1 || parts.is_empty() {
        parts.push(factor.to_string());
    }
    f.write_str(&parts.join("*"))
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Symbol(name) if is_identifier(name) => f.write_str(name),
            Atom::Symbol(name) => write!(f, "'{}'", name.replace('\\', "\\\\").replace('\'', "\\'")),
            Atom::Floor(a, b) => write!(f, "floor({}/{})", part(a, false), part(b, true)),
            Atom::Max(a, b) => write!(f, "max({a}, {b})"),
            Atom::Min(a, b) => write!(f, "min({a}, {b})"),
        }
    }
}

/// A dividend, or a divisor: in brackets where the text would read otherwise without them.
fn part(expr: &Expr, divisor: bool) -> String {
    let plain = match expr.terms.iter().next() {
        Some((monomial, &factor)) if expr.terms.len() == 1 && factor > 0 => {
            !divisor || monomial.is_empty() || (monomial.len() == 1 && factor == 1)
        }
        _ => false,
    };
    if plain { expr.to_string() } else { format!("({expr})") }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(is_identifier_char)
        && !FUNCTIONS.contains(&name.to_ascii_lowercase().as_str())
}

fn is_identifier_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

impl FromStr for Expr {
    type Err = DimError;

    /// Reads what `Display` writes, and the derived sizes that exporters write (`2*s0 + 1`, `s0//2`, `Max(1, s0)`).
    fn from_str(text: &str) -> Result<Expr> {
        let mut parser = Parser { text, rest: text, depth: 0 };
        if text.len() > MAX_TEXT {
            return Err(DimError::new(DimErrorKind::Unknown, "the text of a size is too long"));
        }
        let expr = parser.sum()?;
        if parser.rest.trim_start().is_empty() { Ok(expr) } else { Err(parser.error()) }
    }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    depth: usize,
}

impl Parser<'_> {
    fn error(&self) -> DimError {
        let place = self.text.len() - self.rest.len();
        DimError::new(
            DimErrorKind::Unknown,
            format!("'{}' is not a size: it cannot be read from byte {place} on", self.text),
        )
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) { Ok(()) } else { Err(self.error()) }
    }

    fn sum(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error());
        }
        let negative = self.eat("-");
        let mut sum = self.product()?;
        if negative {
            sum = sum.scale(-1)?;
        }
        loop {
            if self.eat("+") {
                sum = sum.plus(&self.product()?)?;
            } else if self.eat("-") {
                sum = sum.minus(&self.product()?)?;
            } else {
                self.depth -= 1;
                return Ok(sum);
            }
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut product = self.factor()?;
        loop {
            if self.eat("*") {
                product = product.times(&self.factor()?)?;
            } else if self.eat("//") {
                product = product.floor_div(&self.factor()?)?;
            } else {
                return Ok(product);
            }
        }
    }

    fn factor(&mut self) -> Result<Expr> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next() {
            Some('(') => {
                self.expect("(")?;
                let inner = self.sum()?;
                self.expect(")")?;
                Ok(inner)
            }
            Some('\'') => self.quoted(),
            Some(c) if c.is_ascii_digit() => {
                let digits = self.take(|c| c.is_ascii_digit());
                digits.parse::<i64>().map(Expr::from).map_err(|_| self.error())
            }
            Some(c) if is_identifier_char(c) => {
                let name = self.take(is_identifier_char).to_owned();
                if self.eat("(") { self.function(&name.to_ascii_lowercase()) } else { self.name(&name) }
            }
            _ => Err(self.error()),
        }
    }

    fn name(&self, name: &str) -> Result<Expr> {
        if is_identifier(name) { Ok(Expr::symbol(name)) } else { Err(self.error()) }
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> &str {
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn quoted(&mut self) -> Result<Expr> {
        let mut name = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((place, c)) = chars.next() {
            match c {
                '\'' => {
                    self.rest = &self.rest[place + 1..];
                    return Ok(Expr::symbol(&name));
                }
                '\\' => name.extend(chars.next().map(|(_, c)| c)),
                _ => name.push(c),
            }
        }
        Err(self.error())
    }

    /// After the opening bracket. `floor` and `ceil` hold one fraction; only there is `/` allowed, because elsewhere
    /// it would not say which way it rounds.
    fn function(&mut self, name: &str) -> Result<Expr> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error());
        }
        let value = match name {
            "floor" | "ceil" => {
                let dividend = self.product()?;
                self.expect("/")?;
                let divisor = self.factor()?;
                if name == "floor" { dividend.floor_div(&divisor)? } else { dividend.ceil_div(&divisor)? }
            }
            "max" | "min" => {
                let mut value = self.sum()?;
                while self.eat(",") {
                    let other = self.sum()?;
                    value = if name == "max" { value.larger(&other)? } else { value.smaller(&other)? };
                }
                value
            }
            _ => return Err(self.error()),
        };
        self.expect(")")?;
        self.depth -= 1;
        Ok(value)
    }
}
