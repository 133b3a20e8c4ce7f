//! The layouts of Q, K, V and the result of attention. Transposes around it become strides.

use byoc_plugin_api::{Dim, Refusal, RefusalCode};

use super::Layout;
use super::matcher::Matcher;

/// The permutation that makes heads of rows, and rows of heads.
const HEADS: &[i64] = &[0, 2, 1, 3];

/// Heads in memory.
pub(super) struct Heads {
    pub(super) from: usize,
    pub(super) layout: Layout,
    pub(super) batch: Dim,
    pub(super) heads: usize,
    pub(super) rows: Dim,
    pub(super) size: usize,
    /// The factor by which the heads are scaled after they are loaded.
    pub(super) scale: f64,
}

impl Heads {
    /// Reads `[batch, heads, rows, size]` or `[batch, rows, size]`.
    pub(super) fn read(matcher: &mut Matcher<'_>, value: usize) -> Result<Heads, Refusal> {
        let (inner, scale) = matcher.unscaled(value);
        match matcher.transposed(inner, HEADS) {
            Some(rows) => Heads::of_rows(matcher, rows, scale),
            None => Heads::as_they_are(matcher, inner, scale),
        }
    }

    /// Reads heads that may not be scaled.
    pub(super) fn read_unscaled(matcher: &mut Matcher<'_>, value: usize) -> Result<Heads, Refusal> {
        let Some(from) = matcher.transposed(value, HEADS) else { return Heads::as_they_are(matcher, value, 1.0) };
        Heads::in_rows(matcher, from, 1.0)
    }

    /// Reads K, which is there as `[batch, heads, size, rows]` or `[batch, size, rows]`.
    pub(super) fn read_transposed(matcher: &mut Matcher<'_>, value: usize) -> Result<Heads, Refusal> {
        let (inner, scale) = matcher.unscaled(value);
        if let Some(rows) = matcher.transposed(inner, &[0, 2, 3, 1]) {
            return Heads::of_rows(matcher, rows, scale);
        }
        let own = matcher.transposed(inner, &[0, 1, 3, 2]).or_else(|| matcher.transposed(inner, &[0, 2, 1]));
        let Some(own) = own else {
            let name = matcher.name(value);
            return Err(shape(format!("the keys '{name}' are stored by columns, and not by a Transpose")));
        };
        let heads = Heads::read(matcher, own)?;
        Ok(Heads { scale: heads.scale * scale, ..heads })
    }

    /// `[batch, rows, heads, size]`.
    fn of_rows(matcher: &mut Matcher<'_>, value: usize, scale: f64) -> Result<Heads, Refusal> {
        let (from, own) = matcher.unscaled(value);
        Heads::in_rows(matcher, from, scale * own)
    }

    fn in_rows(matcher: &mut Matcher<'_>, from: usize, scale: f64) -> Result<Heads, Refusal> {
        let [batch, rows, heads, size] = matcher.shape(from) else { return Err(rank(matcher, from)) };
        let (heads, size) = (fixed(matcher, from, heads)?, fixed(matcher, from, size)?);
        let (batch, rows) = (batch.clone(), rows.clone());
        let (from, layout) = match matcher.unsplit(from) {
            Some(joined) => Heads::joined(matcher, joined, heads * size),
            None => (from, Layout::RowsFirst { width: heads * size, start: 0 }),
        };
        Ok(Heads { from, layout, batch, heads, rows, size, scale })
    }

    /// The layout of heads that are contiguous in rows, which may be part of wider rows.
    fn joined(matcher: &mut Matcher<'_>, from: usize, width: usize) -> (usize, Layout) {
        let (from, width, start) = matcher.whole_rows(from).unwrap_or((from, width, 0));
        (from, Layout::RowsFirst { width, start })
    }

    fn as_they_are(matcher: &Matcher<'_>, from: usize, scale: f64) -> Result<Heads, Refusal> {
        let (batch, heads, rows, size) = match matcher.shape(from) {
            [batch, heads, rows, size] => (batch, fixed(matcher, from, heads)?, rows, size),
            [batch, rows, size] => (batch, 1, rows, size),
            _ => return Err(rank(matcher, from)),
        };
        let size = fixed(matcher, from, size)?;
        Ok(Heads { from, layout: Layout::HeadsFirst, batch: batch.clone(), heads, rows: rows.clone(), size, scale })
    }

    /// Reads an operand of `Attention`: as [`Heads::read_unscaled`], or `[batch, rows, heads * size]`.
    pub(super) fn of_attention(matcher: &mut Matcher<'_>, value: usize, heads: i64) -> Result<Heads, Refusal> {
        let [batch, rows, width] = matcher.shape(value) else {
            return Heads::read_unscaled(matcher, value);
        };
        let width = fixed(matcher, value, width)?;
        let heads = usize::try_from(heads).ok().filter(|&heads| heads > 0 && width % heads == 0);
        let heads = heads.ok_or_else(|| shape(format!("'{}' cannot be split into heads", matcher.name(value))))?;
        let (batch, rows) = (batch.clone(), rows.clone());
        let (from, layout) = Heads::joined(matcher, value, width);
        Ok(Heads { from, layout, batch, heads, rows, size: width / heads, scale: 1.0 })
    }
}

/// The output of attention and its layout. A Transpose after attention, and a Reshape after that, become the layout.
pub(super) fn result(matcher: &mut Matcher<'_>, output: usize, heads: usize, size: usize) -> (usize, Layout) {
    let rows = matcher.unjoined(output).unwrap_or(output);
    match matcher.transposed(rows, HEADS) {
        Some(inner) => (inner, Layout::RowsFirst { width: heads * size, start: 0 }),
        None => (output, Layout::HeadsFirst),
    }
}

fn fixed(matcher: &Matcher<'_>, value: usize, dim: &Dim) -> Result<usize, Refusal> {
    let unknown = || shape(format!("the head size of '{}' is not known: {dim}", matcher.name(value)));
    dim.fixed().ok_or_else(unknown)
}

fn rank(matcher: &Matcher<'_>, value: usize) -> Refusal {
    let (name, rank) = (matcher.name(value), matcher.shape(value).len());
    shape(format!("'{name}' has {rank} dimensions; heads have 3 or 4"))
}

pub(super) fn shape(message: String) -> Refusal {
    Refusal::new(RefusalCode::Shape, message)
}
