//! Loads and stores: vectorised, a pack at a time, where elements are contiguous.

use byoc_nvidia::program::BufferRef;
use byoc_plugin_api::{DType, Dim};

use super::{Item, Level, Line, Parameter, Stop, Term, Writer};
use crate::index::{Coordinate, Digit, ONE, divides, joined, product};
use crate::ir::{Id, computed, stored};

/// The most elements with 32-bit indices, with room for the last block.
pub(super) const MOST: usize = (1 << 31) - (1 << 16);

impl Writer<'_> {
    /// The parameter of a buffer.
    pub(super) fn parameter(&mut self, id: Id, place: BufferRef, written: bool) -> String {
        if !self.places.iter().any(|known| known.place == place) {
            self.places.push(Parameter { place, ty: stored(self.values[id].dtype), written });
        }
        name(place)
    }

    /// Switches to 64-bit indices if a tensor of that shape needs them, or leaves it to the run if its size is known late.
    pub(super) fn count(&mut self, shape: &[Dim]) {
        match product(shape) {
            Ok(Dim::Fixed(elements)) => self.long |= elements > MOST,
            // The entry of the kernel compares all its parameters.
            Ok(elements) => drop(self.size(&elements)),
            Err(_) => self.long = true,
        }
    }

    /// The offset of an element, and whether it is the first one of a pack.
    pub(super) fn offset(&mut self, id: Id, strides: Option<&[i64]>, at: &[Coordinate]) -> Result<(Term, bool), Stop> {
        let shape = &self.values[id].shape;
        self.count(shape);
        let contiguous = strides.is_none_or(|strides| {
            let fixed: Option<Vec<usize>> = shape.iter().map(Dim::fixed).collect();
            fixed.is_some_and(|shape| {
                let plain =
                    byoc_plugin_api::contiguous_strides(&shape.iter().map(|&size| size as i64).collect::<Vec<_>>());
                shape.iter().zip(strides.iter().zip(&plain)).all(|(&size, (a, b))| size <= 1 || a == b)
            })
        });
        if !contiguous {
            let terms =
                strides.unwrap_or_default().iter().zip(at).filter(|&(&stride, at)| stride != 0 && !at.is_empty());
            let terms: Vec<(i64, Coordinate)> = terms.map(|(&stride, at)| (stride, at.clone())).collect();
            return self.strided(&terms);
        }
        let digits = joined(at.concat())?;
        let pack = self.pack();
        if let Some((last, rest)) = digits.split_last() {
            self.note(last);
            let steady = rest.iter().all(|digit| self.level(digit) < Level::Element);
            if pack > 1 && self.is_packed(last.atom) && last.divisor == ONE && divides(pack, &last.size) && steady {
                return Ok((self.number(&digits, true), true));
            }
        }
        let term = self.number(&digits, false);
        self.scattered += usize::from(pack > 1 && term.level == Level::Element);
        Ok((term, false))
    }

    /// The sum of coordinates times strides.
    fn strided(&mut self, terms: &[(i64, Coordinate)]) -> Result<(Term, bool), Stop> {
        let mut texts = Vec::new();
        let mut level = Level::Row;
        for (stride, at) in terms {
            let term = self.coordinate(at)?;
            level = level.max(term.level);
            texts.push(if *stride == 1 { term.text } else { format!("{} * {stride}", term.text) });
        }
        self.scattered += usize::from(self.pack() > 1 && level == Level::Element);
        let text = if texts.is_empty() { "0".into() } else { texts.join(" + ") };
        Ok((self.index(&text, level), false))
    }

    /// Notes the direction of an access.
    fn note(&mut self, last: &Digit) {
        if last.divisor == ONE && last.atom < 2 {
            self.along[last.atom] += 1;
        }
    }

    pub(super) fn read(
        &mut self,
        id: Id,
        place: BufferRef,
        strides: Option<&[i64]>,
        at: &[Coordinate],
    ) -> Result<Term, Stop> {
        let dtype = self.values[id].dtype;
        self.note_read(id, at)?;
        if let Some(element) = self.stage(id, place, strides, at)? {
            return Ok(self.keep(id, at, element));
        }
        let (offset, packed) = self.offset(id, strides, at)?;
        let from = self.parameter(id, place, false);
        let guard = self.guards.iter().map(|guard| guard.text.as_str()).collect::<Vec<_>>().join(" && ");
        let level = self.guards.iter().map(|guard| guard.level).fold(offset.level, Level::max);
        let address = if offset.text == "0" { from.clone() } else { format!("{from} + {}", offset.text) };
        if packed && level == Level::Pack {
            let ty = format!("Pack<{}, {}>", stored(dtype), self.pack());
            let load = format!("load<{}>({address})", self.pack());
            let text = if guard.is_empty() { load } else { format!("{guard} ? {load} : {ty}{{}}") };
            let (pack, _) = self.bind(Level::Pack, &ty, 'p', &text);
            let element = widened(dtype, &format!("{}.at[v]", pack.text));
            return Ok(self.keep(id, at, Term { text: element, level: Level::Element }));
        }
        self.scattered += usize::from(packed);
        let (offset, level) = if packed {
            let term = self.number(&joined(at.concat())?, false);
            (term.text, Level::Element)
        } else {
            (offset.text, level)
        };
        let element = widened(dtype, &format!("{from}[{offset}]"));
        let text = if guard.is_empty() { element } else { format!("{guard} ? {element} : {}(0)", computed(dtype)) };
        Ok(self.keep(id, at, Term { text, level }))
    }

    /// Writes an element.
    pub(super) fn write(&mut self, id: Id, place: BufferRef, at: &[Coordinate], value: &Term) -> Result<(), Stop> {
        let dtype = self.values[id].dtype;
        let element = narrowed(dtype, &value.text);
        let (offset, packed) = self.offset(id, None, at)?;
        let to = self.parameter(id, place, true);
        let Some(current) = self.loops.last_mut() else {
            let first = if self.team().is_some_and(|team| team.lanes() > 1) { "if (lane == 0) " } else { "" };
            let line = Line::Do(format!("{first}{to}[{}] = {element};", offset.text));
            self.body.push(Item::Line(line));
            return Ok(());
        };
        if !packed {
            current.each.push(Line::Do(format!("{to}[{}] = {element};", offset.text)));
            return Ok(());
        }
        let number = self.statements;
        self.statements += 1;
        let ty = format!("Pack<{}, {}>", stored(dtype), self.shape.pack());
        current.before.push(Line::Let(number, ty, 'q', String::new()));
        current.each.push(Line::Do(format!("${number}$.at[v] = {element};")));
        current.after.push(Line::Do(format!("store({to} + {}, ${number}$);", offset.text)));
        Ok(())
    }
}

/// The name of a buffer in the source.
pub(super) fn name(place: BufferRef) -> String {
    match place {
        BufferRef::Input(at) => format!("in{at}"),
        BufferRef::Output(at) => format!("out{at}"),
        BufferRef::Constant(at) => format!("c{at}"),
        BufferRef::Scratch(at) => format!("s{at}"),
    }
}

/// Converts an element from its type in memory to that in registers.
pub(super) fn widened(dtype: DType, text: &str) -> String {
    match dtype {
        DType::F16 | DType::BF16 => format!("to_float({text})"),
        DType::Bool => format!("{text} != 0"),
        _ => text.to_owned(),
    }
}

/// Converts an element from its type in registers to that in memory.
fn narrowed(dtype: DType, text: &str) -> String {
    match dtype {
        DType::F16 => format!("to_f16({text})"),
        DType::BF16 => format!("to_bf16({text})"),
        DType::Bool => format!("u8({text})"),
        _ => text.to_owned(),
    }
}
