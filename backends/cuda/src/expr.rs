//! An element of a result as an expression of elements of the operands: what fusion weighs, and kernels write as C++.

use std::ops;

use byoc_plugin_api::DType;

use crate::ir::{computed, number, wide};

/// An expression. `+`, `-`, `*`, `/` and `!` of expressions are expressions.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    /// The element of the operand of that index.
    Operand(usize),
    /// A constant, as C++.
    Literal(String),
    /// An operator before its argument.
    Prefix(char, Box<Expr>),
    /// An operator between its arguments.
    Infix(&'static str, Box<[Expr; 2]>),
    /// A function, and whether it takes many instructions.
    Call { name: String, heavy: bool, arguments: Vec<Expr> },
    /// The second if the first is true, else the third.
    Select(Box<[Expr; 3]>),
}

/// Operators between their arguments, the ones that bind least first.
const INFIX: [&[&str]; 5] = [&["&&"], &["==", "!="], &["<", "<=", ">", ">="], &["+", "-"], &["*", "/"]];

/// The element of the first operand, where it is the only one.
pub(crate) const X: Expr = Expr::Operand(0);

impl Expr {
    /// A number of a type.
    pub(crate) fn number(value: f64, dtype: DType) -> Expr {
        Expr::Literal(number(value, dtype))
    }

    /// The zero of a type.
    pub(crate) fn zero(dtype: DType) -> Expr {
        Expr::Literal(format!("{}(0)", computed(dtype)))
    }

    /// A function of a few instructions.
    pub(crate) fn light(name: &str, arguments: impl Into<Vec<Expr>>) -> Expr {
        Expr::Call { name: name.into(), heavy: false, arguments: arguments.into() }
    }

    /// A function of many.
    pub(crate) fn heavy(name: &str, arguments: impl Into<Vec<Expr>>) -> Expr {
        Expr::Call { name: name.into(), heavy: true, arguments: arguments.into() }
    }

    /// A function of C's mathematics, whose name says the type of its argument.
    pub(crate) fn math(name: &str, dtype: DType, arguments: impl Into<Vec<Expr>>) -> Expr {
        Expr::heavy(&if wide(dtype) == DType::F32 { format!("{name}f") } else { name.to_owned() }, arguments)
    }

    pub(crate) fn infix(operator: &'static str, left: Expr, right: Expr) -> Expr {
        Expr::Infix(operator, Box::new([left, right]))
    }

    pub(crate) fn select(condition: Expr, then: Expr, otherwise: Expr) -> Expr {
        Expr::Select(Box::new([condition, then, otherwise]))
    }

    /// Whether it has a division or a function of many instructions.
    pub(crate) fn is_heavy(&self) -> bool {
        match self {
            Expr::Operand(_) | Expr::Literal(_) => false,
            Expr::Prefix(_, argument) => argument.is_heavy(),
            Expr::Infix(operator, arguments) => *operator == "/" || arguments.iter().any(Expr::is_heavy),
            Expr::Call { heavy, arguments, .. } => *heavy || arguments.iter().any(Expr::is_heavy),
            Expr::Select(arguments) => arguments.iter().any(Expr::is_heavy),
        }
    }

    /// C++ for it, given C++ for each operand that needs no parentheses.
    pub(crate) fn text(&self, operands: &[String]) -> String {
        let within = |argument: &Expr, least: usize| {
            let text = argument.text(operands);
            if argument.binds() < least { format!("({text})") } else { text }
        };
        match self {
            Expr::Operand(index) => operands[*index].clone(),
            Expr::Literal(text) => text.clone(),
            Expr::Prefix(operator, argument) => format!("{operator}{}", within(argument, self.binds())),
            Expr::Infix(operator, arguments) => {
                let [left, right] = &**arguments;
                format!("{} {operator} {}", within(left, self.binds()), within(right, self.binds() + 1))
            }
            Expr::Call { name, arguments, .. } => {
                let arguments: Vec<_> = arguments.iter().map(|argument| argument.text(operands)).collect();
                format!("{name}({})", arguments.join(", "))
            }
            Expr::Select(arguments) => {
                let [condition, then, otherwise] = &**arguments;
                format!("{} ? {} : {}", within(condition, 1), within(then, 1), within(otherwise, 0))
            }
        }
    }

    /// How much its outermost operator binds.
    fn binds(&self) -> usize {
        match self {
            Expr::Select(_) => 0,
            Expr::Infix(operator, _) => {
                INFIX.iter().position(|level| level.contains(operator)).map_or(0, |level| 1 + level)
            }
            Expr::Prefix(..) => 1 + INFIX.len(),
            Expr::Operand(_) | Expr::Literal(_) | Expr::Call { .. } => 2 + INFIX.len(),
        }
    }
}

macro_rules! infix {
    ($($operator:literal $name:ident $method:ident),*) => {
        $(impl ops::$name for Expr {
            type Output = Expr;

            fn $method(self, right: Expr) -> Expr {
                Expr::infix($operator, self, right)
            }
        })*
    };
}

infix!("+" Add add, "-" Sub sub, "*" Mul mul, "/" Div div);

impl ops::Neg for Expr {
    type Output = Expr;

    fn neg(self) -> Expr {
        Expr::Prefix('-', Box::new(self))
    }
}

impl ops::Not for Expr {
    type Output = Expr;

    fn not(self) -> Expr {
        Expr::Prefix('!', Box::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(expression: &Expr) -> String {
        expression.text(&["x".into(), "y".into(), "z".into()])
    }

    #[test]
    fn parentheses_are_where_they_are_needed() {
        let [x, y, z] = [0, 1, 2].map(|index| move || Expr::Operand(index));
        let less = Expr::infix("<", x() + y(), z());
        for (expression, expected) in [
            ((x() - y()) * (z() / x()) + y(), "(x - y) * (z / x) + y"),
            (x() - (y() - z()), "x - (y - z)"),
            (x() - y() - z(), "x - y - z"),
            (x() * y() * (x() + y()), "x * y * (x + y)"),
            (-(x() + y()) * -z(), "-(x + y) * -z"),
            (!less.clone(), "!(x + y < z)"),
            (Expr::infix("&&", less.clone(), Expr::infix("!=", x(), y())), "x + y < z && x != y"),
            (Expr::infix("==", less.clone(), y()), "x + y < z == y"),
            (Expr::select(less, x(), -y()) * z(), "(x + y < z ? x : -y) * z"),
            (
                Expr::select(x(), Expr::select(y(), x(), z()), Expr::select(z(), x(), y())),
                "x ? (y ? x : z) : z ? x : y",
            ),
            (Expr::heavy("power", [x() + y(), Expr::zero(DType::F16)]), "power(x + y, float(0))"),
            (Expr::math("exp", DType::BF16, [x()]) + Expr::math("exp", DType::F64, [x()]), "expf(x) + exp(x)"),
        ] {
            assert_eq!(text(&expression), expected);
        }
    }

    #[test]
    fn what_is_worth_storing() {
        let half = || Expr::number(0.5, DType::F32);
        assert!(!(X * half() + Expr::light("larger", [X, half()])).is_heavy());
        assert!((-(X / half())).is_heavy());
        assert!(
            Expr::select(X, half(), Expr::light("larger", [Expr::math("exp", DType::F64, [X]), half()])).is_heavy()
        );
    }
}
