//! The shapes, element types and places of constants that are tried.

use byoc_plugin_api::{DType, Description};

use super::build::build;
use super::forms::Form;
use crate::recipes::{self, Swept, Wish};

/// Which cases are worth their time on a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All of them.
    Thorough,
    /// Those that compute.
    Plain,
    /// Those that work with a first dimension of unknown size.
    Symbolic,
    /// Whether the results are right, as one case.
    Swept,
}

/// Which operands are constants where the pattern leaves it open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Constants {
    None,
    /// All but the first one that may be data; optional operands are there.
    AllButTheFirst,
    /// The operand at this position of each node.
    Only(usize),
}

/// What the pattern's outermost node is to give, and how operands are chosen that the pattern leaves open.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) wish: Wish,
    pub(super) constants: Constants,
    /// The second operand of an element-wise operator has only the last dimension.
    pub(super) broadcast: bool,
    pub(super) kind: Kind,
    /// A node, counted as [`build`] asks for them, and how it comes to give what is wished for.
    pub(super) swept: Option<(usize, Swept)>,
    /// Whether values that several nodes read are outputs of the model as well.
    pub(super) shared_are_outputs: bool,
}

impl Variant {
    /// Nothing but data, in that shape.
    pub(super) fn plain(wish: Wish, kind: Kind) -> Variant {
        Variant { wish, constants: Constants::None, broadcast: false, kind, swept: None, shared_are_outputs: false }
    }

    pub(super) fn name(&self) -> String {
        let mut shape: Vec<_> = self.wish.shape.iter().map(usize::to_string).collect();
        if self.kind == Kind::Symbolic {
            shape[0] = "batch".into();
        }
        let mut name = format!("{}[{}]", self.wish.dtype, shape.join("x"));
        match self.constants {
            Constants::None => {}
            Constants::AllButTheFirst => name += " constants",
            Constants::Only(at) => name += &format!(" constant {at}"),
        }
        if self.broadcast {
            name += " broadcast";
        }
        if let Some((node, swept)) = &self.swept {
            // Which node it is shows where there are several.
            let node = if *node == 0 { String::new() } else { format!("node {node} ") };
            name += &format!(" {node}{}", swept.name);
        }
        name
    }

    /// The variant with another wish; what is special of a node is the same at the new sizes.
    pub(super) fn resized(&self, form: &Form, wish: Wish, backend: &Description) -> Option<Variant> {
        let mut variant = Variant { wish, swept: None, ..self.clone() };
        if let Some((node, swept)) = &self.swept {
            let built = build(form, &variant, backend)?;
            let (op, wish) = built.nodes.get(*node)?;
            let same = recipes::sweep(op, wish).into_iter().find(|other| other.name == swept.name)?;
            variant.swept = Some((*node, same));
        }
        Some(variant)
    }
}

fn wishes(list: &[(DType, &[usize])]) -> Vec<Wish> {
    list.iter().map(|(dtype, shape)| Wish { dtype: *dtype, shape: shape.to_vec() }).collect()
}

/// Shapes in which each operator is tried with all that is special of it: sizes that are not taken for one another, and
/// around the width of vectors and blocks.
pub(super) fn swept() -> Vec<Wish> {
    wishes(&[
        (DType::F32, &[5, 17]),
        (DType::F32, &[2, 6, 7, 9]),
        (DType::F32, &[3, 4, 33]),
        (DType::F32, &[2, 17, 3, 6]),
        (DType::F32, &[1, 33, 4, 5]),
        (DType::F32, &[1, 100, 2, 3]),
        (DType::F32, &[2, 4, 6, 8]),
        (DType::F32, &[2, 8, 10]),
        (DType::F32, &[3, 1, 6, 1]),
        (DType::F32, &[2, 9, 1, 1]),
        (DType::F32, &[9]),
        (DType::F32, &[]),
        (DType::F32, &[1, 100]),
        (DType::F32, &[2, 4, 3, 4, 5]),
        (DType::Bool, &[5, 17]),
        (DType::Bool, &[2, 3, 4]),
        (DType::I64, &[5, 7]),
        (DType::I64, &[2, 1, 4]),
        (DType::I32, &[4, 9]),
        (DType::U8, &[4, 9]),
        (DType::I8, &[4, 9]),
    ])
}

/// Shapes for chains of patterns: operands of products have six columns, so products follow one another in the first one.
pub(super) fn chained() -> Vec<Wish> {
    wishes(&[
        (DType::F32, &[5, 6]),
        (DType::F32, &[1, 6, 4, 10]),
        (DType::F32, &[1, 8, 1, 1]),
        (DType::F32, &[2, 3, 6]),
        (DType::F32, &[1, 7]),
        (DType::I64, &[6]),
        (DType::Bool, &[5, 6]),
    ])
}

/// The shapes and types that are tried. Thorough ones come first, of each rank that operators ask for.
pub(super) fn variants() -> Vec<Variant> {
    const THOROUGH: &[(DType, &[usize])] = &[
        (DType::F32, &[3, 16]),
        // Sizes that are not taken for one another.
        (DType::F32, &[1, 6, 10, 8]),
        (DType::F32, &[1, 8, 1, 1]),
        // One row: all that some accelerators take.
        (DType::F32, &[1, 7]),
        // Large enough for the compiler's search for secret copies of constants.
        (DType::F32, &[64, 64]),
        (DType::Bool, &[3, 16]),
        (DType::I64, &[4]),
    ];
    // Run with these sizes as well: constants may have been made for them.
    const SYMBOLIC: &[(DType, &[usize])] = &[(DType::F32, &[3, 16]), (DType::F32, &[3, 8, 6, 6])];
    const PLAIN: &[(DType, &[usize])] = &[
        (DType::F32, &[2, 3, 8]),
        (DType::F32, &[5]),
        (DType::F32, &[]),
        (DType::F32, &[65, 129]),
        (DType::F32, &[0, 8]),
        (DType::F32, &[0, 8, 6, 6]),
        (DType::F16, &[3, 16]),
        (DType::BF16, &[3, 16]),
        (DType::F64, &[3, 16]),
        (DType::I32, &[3, 16]),
        (DType::I64, &[3, 16]),
        (DType::U8, &[3, 16]),
    ];
    let mut variants = Vec::new();
    let mut add = |list: &[(DType, &[usize])], kind: Kind, broadcast: bool| {
        for (dtype, shape) in list {
            let wish = Wish { dtype: *dtype, shape: shape.to_vec() };
            let variant = |constants| Variant { constants, broadcast, ..Variant::plain(wish.clone(), kind) };
            variants.extend([Constants::AllButTheFirst, Constants::None].map(variant));
        }
    };
    add(THOROUGH, Kind::Thorough, false);
    add(&THOROUGH[..2], Kind::Thorough, true);
    add(PLAIN, Kind::Plain, false);
    add(&PLAIN[..1], Kind::Plain, true);
    add(SYMBOLIC, Kind::Symbolic, false);
    variants
}
