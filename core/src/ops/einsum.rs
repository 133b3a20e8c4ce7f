//! Sums of products that an equation describes, after ONNX: Einsum 28.

use byoc_plugin_api::{Attribute, Dim};

use super::attributes::{AttributeDef, Default, Kind, List};
use super::infer::{Infer, NUMERIC, bad, mismatch};
use crate::diagnostic::Result;
use crate::dim;
use crate::ir::{Node, TensorType};

pub(super) const ATTRIBUTES: List = &[AttributeDef::new("equation", Kind::String, Default::Required)];

/// An equation in which every dimension has a letter, those of an ellipsis too.
#[derive(Debug, PartialEq)]
struct Equation {
    inputs: Vec<String>,
    output: String,
}

/// What an ellipsis is written as while its letters are not chosen.
const ELLIPSIS: char = '.';

impl Equation {
    /// Reads the equation of operands of these ranks.
    fn read(text: &str, ranks: &[usize]) -> Result<Equation> {
        let wrong = |what: String| bad(format!("attribute 'equation' is '{text}': {what}"));
        let plain = text.replace(' ', "").replace("...", &ELLIPSIS.to_string());
        let (left, right) = match plain.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (plain.as_str(), None),
        };
        let other = plain.replace("->", "").chars().find(|&c| !c.is_ascii_alphabetic() && !matches!(c, ',' | ELLIPSIS));
        if let Some(other) = other.or_else(|| right.and_then(|right| right.chars().find(|&c| c == ','))) {
            return Err(wrong(format!("'{other}' has no meaning there")));
        }
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != ranks.len() {
            return Err(wrong(format!("it has {} terms for {} inputs", terms.len(), ranks.len())));
        }
        let mut hidden = Vec::new();
        for (index, (term, &rank)) in terms.iter().zip(ranks).enumerate() {
            let letters = term.chars().filter(|&c| c != ELLIPSIS).count();
            let (ellipses, left) = (term.len() - letters, rank.checked_sub(letters));
            match left {
                Some(left) if ellipses == 1 || ellipses == 0 && left == 0 => hidden.push(left),
                _ => return Err(wrong(format!("term {index} does not fit an input of {rank} dimensions"))),
            }
        }
        let most = hidden.iter().copied().max().unwrap_or(0);
        let free = ('A'..='Z').chain('a'..='z').filter(|&c| !plain.contains(c)).take(most).collect::<Vec<_>>();
        if free.len() < most {
            return Err(wrong("it has more dimensions than there are letters".into()));
        }
        // Of fewer dimensions, an ellipsis has the last ones, as shapes are broadcast.
        let spelt = |term: &str, count: usize| term.replace(ELLIPSIS, &free[most - count..].iter().collect::<String>());
        let output = match right {
            Some(right) => right.to_owned(),
            None => implicit(left),
        };
        if let Some(letter) = output.chars().find(|&c| output.matches(c).count() > 1 || !left.contains(c)) {
            return Err(wrong(format!("the output has '{letter}' twice, or no term has it")));
        }
        let inputs = terms.iter().zip(&hidden).map(|(term, &count)| spelt(term, count)).collect();
        Ok(Equation { inputs, output: spelt(&output, most) })
    }

    fn text(&self) -> String {
        format!("{}->{}", self.inputs.join(","), self.output)
    }

    /// Every letter once.
    fn letters(&self) -> Vec<char> {
        let mut letters: Vec<char> = self.inputs.iter().flat_map(|term| term.chars()).collect();
        letters.sort_unstable();
        letters.dedup();
        letters
    }
}

/// The output where the equation has none: what an ellipsis stands for, then the letters that are there once, sorted.
fn implicit(left: &str) -> String {
    let mut once: Vec<char> =
        left.chars().filter(|&c| c.is_ascii_alphabetic() && left.matches(c).count() == 1).collect();
    once.sort_unstable();
    left.chars().find(|&c| c == ELLIPSIS).into_iter().chain(once).collect()
}

/// The equation of a node in the form that backends get: with an output, and a letter for each dimension. `None` where it is not valid.
pub(crate) fn spelt_out(node: &Node, inputs: &[Option<&TensorType>]) -> Option<String> {
    let Some(Attribute::String(text)) = node.attributes.get("equation") else { return None };
    let ranks = inputs.iter().map(|ty| Some((*ty)?.shape.len())).collect::<Option<Vec<_>>>()?;
    Some(Equation::read(text, &ranks).ok()?.text())
}

/// Einsum.
pub(super) fn einsum(infer: &mut Infer<'_>) -> Result<()> {
    let first = infer.typed(0, NUMERIC)?;
    let types = (0..infer.inputs.len()).map(|index| infer.like_first(index)).collect::<Result<Vec<_>>>()?;
    let Some(Attribute::String(text)) = infer.node.attributes.get("equation") else {
        return Err(bad("attribute 'equation' is missing"));
    };
    let equation = Equation::read(text, &types.iter().map(|ty| ty.shape.len()).collect::<Vec<_>>())?;
    let letters = equation.letters();
    let mut sizes = vec![Dim::Fixed(1); letters.len()];
    for (index, (term, ty)) in equation.inputs.iter().zip(&types).enumerate() {
        let mut own = vec![None; letters.len()];
        for (letter, size) in term.chars().zip(&ty.shape) {
            let place = letters.binary_search(&letter).unwrap_or_default();
            own[place] = Some(match own[place].take() {
                None => size.clone(),
                Some(before) => dim::same(&before, size).ok_or_else(|| {
                    mismatch(format!("input {index} is {ty}, but both dimensions '{letter}' must have one size"))
                })?,
            });
        }
        let own: Vec<Dim> = own.into_iter().map(|size| size.unwrap_or(Dim::Fixed(1))).collect();
        sizes = infer.meet(&sizes, &own).ok_or_else(|| {
            mismatch(format!("input {index} is {ty}, whose sizes do not fit those before by '{}'", equation.text()))
        })?;
    }
    let size = |letter: char| sizes[letters.binary_search(&letter).unwrap_or_default()].clone();
    infer.set(0, first.dtype, equation.output.chars().map(size).collect());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, check};

    const SUMS: &[Case] = &[
        ("Einsum", "equation=bij,bjk->bik", "f32[b,2,3] f32[b,3,n]", "f32[b,2,n]"),
        ("Einsum", "equation=ij,jk", "f32[2,3] f32[3,4]", "f32[2,4]"),
        ("Einsum", "equation=ba", "i64[2,3]", "i64[3,2]"),
        ("Einsum", "equation=ii", "f32[n,n]", "f32[]"),
        ("Einsum", "equation=...ii->...i", "f32[2,4,3,3]", "f32[2,4,3]"),
        ("Einsum", "equation=...ij,...jk->...ik", "f32[h,1,2,3] f32[5,3,n]", "f32[h,5,2,n]"),
        ("Einsum", "equation=...,...", "f16[2,3] f16[2,3]", "f16[2,3]"),
        ("Einsum", "equation=,ab->ab", "f32[] f32[2,3]", "f32[2,3]"),
        (
            "Einsum",
            "equation=ij->k",
            "f32[2,3]",
            "[B106] attribute 'equation' is 'ij->k': the output has 'k' twice, or no term has it",
        ),
        (
            "Einsum",
            "equation=ij->ii",
            "f32[2,3]",
            "[B106] attribute 'equation' is 'ij->ii': the output has 'i' twice, or no term has it",
        ),
        (
            "Einsum",
            "equation=ij",
            "f32[2]",
            "[B106] attribute 'equation' is 'ij': term 0 does not fit an input of 1 dimensions",
        ),
        (
            "Einsum",
            "equation=i...j...",
            "f32[2]",
            "[B106] attribute 'equation' is 'i...j...': term 0 does not fit an input of 1 dimensions",
        ),
        ("Einsum", "equation=i,j", "f32[2]", "[B106] attribute 'equation' is 'i,j': it has 2 terms for 1 inputs"),
        ("Einsum", "equation=i1->i", "f32[2,3]", "[B106] attribute 'equation' is 'i1->i': '1' has no meaning there"),
        ("Einsum", "equation=i->i,", "f32[2]", "[B106] attribute 'equation' is 'i->i,': ',' has no meaning there"),
        (
            "Einsum",
            "equation=i..->i",
            "f32[2]",
            "[B106] attribute 'equation' is 'i..->i': term 0 does not fit an input of 1 dimensions",
        ),
        ("Einsum", "equation=ii", "f32[2,3]", "[B202] input 0 is f32[2,3], but both dimensions 'i' must have one size"),
        (
            "Einsum",
            "equation=i,i",
            "f32[2] f32[3]",
            "[B202] input 1 is f32[3], whose sizes do not fit those before by 'i,i->'",
        ),
        (
            "Einsum",
            "equation=i",
            "bool[2]",
            "[B201] input 0 is bool[2], expected one of f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64",
        ),
    ];

    #[test]
    fn sums() {
        check(SUMS);
    }

    #[test]
    fn equations_are_spelt_out() {
        let cases: [(&str, &[usize], &str); 6] = [
            ("ij, jk", &[2, 2], "ij,jk->ik"),
            ("bA", &[2], "bA->Ab"),
            ("...ij,...jk->...ik", &[4, 3], "ABij,Bjk->ABik"),
            ("A...,...->...", &[2, 1], "AB,B->B"),
            ("...i,i->", &[3, 1], "ABi,i->"),
            ("...a,a", &[2, 1], "Aa,a->A"),
        ];
        for (text, ranks, expected) in cases {
            let found = Equation::read(text, ranks).expect(text).text();
            assert_eq!(found, expected, "{text}");
            assert_eq!(Equation::read(&found, ranks).expect(text).text(), expected);
        }
        let error = Equation::read("...->...", &[53]).expect_err("too many");
        assert!(error.message.ends_with("it has more dimensions than there are letters"), "{error}");
    }
}
