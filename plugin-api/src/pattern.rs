//! Patterns: what a backend could take, as s-expressions in the style of egg.
//!
//! | text | matches |
//! |---|---|
//! | `(Relu ?x)` | a `Relu` node whose input is anything |
//! | `(Add (MatMul ?x ?w:const) ?b:const)` | nested nodes; `:const` wants a constant. `Add`, `Mul` and the other commutative operators match in both orders |
//! | `(Relu\|Clip ?x)` | either operator |
//! | `(Add (Relu? (Conv ?x ?w:const ?b:const?)) ?y)` | an operator inside that may be missing (then its first operand stands alone); a trailing `?` on an operand lets the input be absent |
//! | `(Concat ...)` | any further inputs |
//! | `(or (Gemm ?x ?w:const ?b) (MatMul ?x ?w:const))` | alternatives, the first that matches |
//! | `(Conv ?x:q8 ?w:q8const)` | a quantised operand: what a `DequantizeLinear` with constant scales makes of a tensor of 8 bits, a constant with `:q8const`. That node belongs to the match, and the name is that of the tensor |
//! | `(Relu (Add+ ?x ?y))` | an inner operator whose results others may read as well: they are further outputs of the region |
//! | `(com.acme::Foo ?x)` | an operator of another domain |
//! | `_` | anything, without a name |
//!
//! The same `?name` twice must be the same value. Inputs beyond the operands must be absent, unless `...` ends the list.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A named pattern as a backend declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pattern {
    /// What `byoc explain` calls it.
    pub name: String,
    /// The s-expression.
    pub text: String,
}

impl Pattern {
    /// A pattern; the text is checked when core reads it.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Pattern { name: name.into(), text: text.into() }
    }

    /// The parsed form. Errors show the text and the place.
    pub fn parse(&self) -> Result<Expr, Error> {
        let mut parser = Parser { text: &self.text, at: 0, depth: 0 };
        let shown = match self.text.char_indices().nth(MOST_SHOWN) {
            Some((end, _)) => format!("{}...", &self.text[..end]),
            None => self.text.clone(),
        };
        let expr =
            parser.expr().and_then(|expr| if parser.peek().is_some() { Err("the end".into()) } else { Ok(expr) });
        match expr {
            Ok(Expr::Node { optional: false, ops, operands, rest, .. }) => {
                // What the outermost one gives is read outside anyway.
                Ok(Expr::Node { optional: false, ops, operands, rest, shared: false })
            }
            Ok(expr @ Expr::Or(_)) => Ok(expr),
            Ok(_) => Err(Error::new(format!("pattern '{}': the outermost operator must be there: {shown}", self.name))),
            Err(expected) => Err(Error::new(format!(
                "pattern '{}': expected {expected} at column {} of {shown}",
                self.name,
                parser.at + 1
            ))),
        }
    }
}

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expr {
    /// A node.
    Node {
        /// (domain, operator) alternatives.
        ops: Vec<(String, String)>,
        /// Whether the node may be missing.
        optional: bool,
        /// What its inputs are.
        operands: Vec<Expr>,
        /// Whether further inputs are allowed.
        rest: bool,
        /// Whether what it gives may be read outside of the match, or be an output of the model.
        shared: bool,
    },
    /// Alternatives.
    Or(Vec<Expr>),
    /// Any value.
    Any {
        /// The name, if it has one.
        name: Option<String>,
        /// Whether it must be a constant.
        constant: bool,
        /// Whether the input may be absent.
        absent: bool,
    },
    /// A `DequantizeLinear` with constant scales and zero points, of a tensor of 8 bits.
    Dequantized {
        /// The name of that tensor, if it has one.
        name: Option<String>,
        /// Whether it must be a constant.
        constant: bool,
        /// Whether the input may be absent.
        absent: bool,
    },
}

/// Most operators within one another: each is a call of the parser, and of all that goes through an expression.
const MOST_DEEP: usize = 100;

/// Most characters of a text that an error shows.
const MOST_SHOWN: usize = 1000;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Operators that are begun.
    depth: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    fn word(&mut self) -> &str {
        self.peek();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| c.is_whitespace() || c == '(' || c == ')').unwrap_or(rest.len());
        let word = &self.text[self.at..self.at + end];
        self.at += end;
        word
    }

    fn expr(&mut self) -> Result<Expr, String> {
        match self.peek() {
            Some('(') => {
                if self.depth == MOST_DEEP {
                    return Err(format!("no more than {MOST_DEEP} operators within one another"));
                }
                self.at += 1;
                self.depth += 1;
                let node = self.node();
                self.depth -= 1;
                node
            }
            Some('?' | '_') => operand(self.word()),
            _ => Err("'(', '?name' or '_'".into()),
        }
    }

    fn node(&mut self) -> Result<Expr, String> {
        let head = self.word().to_owned();
        if head.is_empty() {
            return Err("an operator".into());
        }
        let mut operands = Vec::new();
        let mut rest = false;
        loop {
            match self.peek() {
                Some(')') => {
                    self.at += 1;
                    break;
                }
                Some('.') if !rest && self.text[self.at..].starts_with("...") => {
                    self.at += 3;
                    rest = true;
                }
                Some(_) if !rest => operands.push(self.expr()?),
                _ => return Err("')'".into()),
            }
        }
        if head == "or" {
            return if operands.is_empty() { Err("an alternative before".into()) } else { Ok(Expr::Or(operands)) };
        }
        let (names, optional) = match head.strip_suffix('?') {
            Some(names) => (names, true),
            None => (head.as_str(), false),
        };
        let (names, shared) = match names.strip_suffix('+') {
            Some(names) => (names, true),
            None => (names, false),
        };
        if optional && operands.is_empty() {
            return Err("an operand before (an optional operator stands for its first one)".into());
        }
        let is_name = |name: &str| !name.is_empty() && !name.contains(['+', '?']);
        if !names.split('|').all(is_name) {
            return Err("operators, and '+' and then '?' behind the last of them, before".into());
        }
        let ops = names.split('|').map(|name| match name.rsplit_once("::") {
            Some((domain, op)) => (domain.to_owned(), op.to_owned()),
            None => (String::new(), name.to_owned()),
        });
        Ok(Expr::Node { ops: ops.collect(), optional, operands, rest, shared })
    }
}

fn operand(word: &str) -> Result<Expr, String> {
    let (word, absent) = match word.strip_suffix('?') {
        Some(word) if !word.is_empty() => (word, true),
        _ => (word, false),
    };
    let (word, constant, quantized) = match word.split_once(':') {
        None => (word, false, false),
        Some((word, "const")) => (word, true, false),
        Some((word, "q8")) => (word, false, true),
        Some((word, "q8const")) => (word, true, true),
        Some(_) => return Err("':const', ':q8' or ':q8const' after the name just".into()),
    };
    let name = match word.strip_prefix('?') {
        Some(name) if !name.is_empty() => Some(name.to_owned()),
        None if word == "_" => None,
        _ => return Err("a name after '?'".into()),
    };
    Ok(if quantized { Expr::Dequantized { name, constant, absent } } else { Expr::Any { name, constant, absent } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn any(name: &str, constant: bool, absent: bool) -> Expr {
        Expr::Any { name: Some(name.into()), constant, absent }
    }

    #[test]
    fn every_form_parses() {
        let expr = Pattern::new("p", "(Relu|Clip? (com.acme::Conv ?x ?w:const ?b:const? ...))");
        let error = expr.parse().expect_err("optional root");
        assert_eq!(
            error.message,
            "pattern 'p': the outermost operator must be there: (Relu|Clip? (com.acme::Conv ?x ?w:const ?b:const? ...))"
        );
        let expr = Pattern::new("p", "(or (Add ?x _) (Relu? (com.acme::Conv ?x ?w:const ?b:const? ...)))");
        let Expr::Or(alternatives) = expr.parse().expect("valid") else { panic!("not an alternative") };
        let Expr::Node { ops, optional: true, operands, rest: false, shared: false } = &alternatives[1] else {
            panic!("not a node")
        };
        assert_eq!(ops, &[(String::new(), "Relu".to_owned())]);
        let conv = Expr::Node {
            ops: vec![("com.acme".into(), "Conv".into())],
            optional: false,
            operands: vec![any("x", false, false), any("w", true, false), any("b", true, true)],
            rest: true,
            shared: false,
        };
        assert_eq!(operands, &[conv]);
        let Ok(Expr::Node { operands, shared: false, .. }) = Pattern::new("p", "(Relu+ (Add|Sub+? ?x ?y))").parse()
        else {
            panic!("not a node")
        };
        let Expr::Node { ops, optional: true, shared: true, .. } = &operands[0] else { panic!("not a node") };
        assert_eq!(ops.last().map(|(_, op)| op.as_str()), Some("Sub"));
        let Ok(Expr::Node { operands, .. }) = Pattern::new("p", "(Conv ?x:q8 _:q8const?)").parse() else {
            panic!("not a node")
        };
        let x = Expr::Dequantized { name: Some("x".into()), constant: false, absent: false };
        assert_eq!(operands, [x, Expr::Dequantized { name: None, constant: true, absent: true }]);
    }

    #[test]
    fn mistakes_name_the_place() {
        let cases = [
            ("", "expected '(', '?name' or '_' at column 1 of "),
            ("(Relu ?x", "expected ')' at column 9 of (Relu ?x"),
            ("(Relu ?x) y", "expected the end at column 11 of (Relu ?x) y"),
            ("(Relu ?)", "expected a name after '?' at column 8 of (Relu ?)"),
            (
                "(Relu ?x:int)",
                "expected ':const', ':q8' or ':q8const' after the name just at column 13 of (Relu ?x:int)",
            ),
            ("(Relu ... ?x)", "expected ')' at column 11 of (Relu ... ?x)"),
            (
                "(Relu (Add+|Sub ?x ?y))",
                "expected operators, and '+' and then '?' behind the last of them, before at column 23 of (Relu (Add+|Sub ?x ?y))",
            ),
            (
                "(Relu (Add?+ ?x))",
                "expected operators, and '+' and then '?' behind the last of them, before at column 17 of (Relu (Add?+ ?x))",
            ),
        ];
        for (text, message) in cases {
            let error = Pattern::new("p", text).parse().expect_err(text);
            assert_eq!(error.message, format!("pattern 'p': {message}"));
        }
    }

    /// Texts of plugins may be any.
    #[test]
    fn depth_has_an_end() {
        let nested = |depth: usize| format!("{}?x{}", "(Relu ".repeat(depth), ")".repeat(depth));
        Pattern::new("p", nested(100)).parse().expect("as deep as may be");
        Pattern::new("p", format!("(Add {} {})", nested(99), nested(99))).parse().expect("beside each other");
        let text = nested(100_000);
        let error = Pattern::new("p", text.as_str()).parse().expect_err("too deep");
        let shown = &text[..1000];
        let expected = "pattern 'p': expected no more than 100 operators within one another at column 601 of";
        assert_eq!(error.message, format!("{expected} {shown}..."));
    }
}
