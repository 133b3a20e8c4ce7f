//! Coordinates as C++.

use byoc_plugin_api::Dim;

use super::{Atom, Level, Shape, Stop, Term, Writer};
use crate::index::{Coordinate, Digit, ONE, divides, joined, product, regroup};

impl Writer<'_> {
    /// C++ for a size, a parameter if it has a name.
    pub(super) fn size(&mut self, size: &Dim) -> String {
        if let Dim::Fixed(size) = size {
            return size.to_string();
        }
        if !self.sizes.contains(size) {
            self.sizes.push(size.clone());
        }
        self.named(size)
    }

    /// C++ for a size that is a number or, by [`Writer::size`], a parameter.
    pub(super) fn named(&self, size: &Dim) -> String {
        let index = self.sizes.iter().position(|known| known == size);
        match (size, index) {
            (Dim::Fixed(size), _) => size.to_string(),
            (_, Some(index)) => format!("n{index}"),
            // C++ that does not compile, and names what is missing.
            (_, None) => format!("no_parameter_for({size})"),
        }
    }

    /// A new counter of that value.
    pub(super) fn atom(&mut self, value: &Term, size: &Dim) -> Coordinate {
        let atom = self.atoms.len();
        self.atoms.push(Atom { text: value.text.clone(), level: value.level, size: size.clone() });
        vec![Digit { atom, divisor: ONE, size: size.clone() }]
    }

    /// Names an index, once per loop.
    pub(super) fn index(&mut self, text: &str, level: Level) -> Term {
        let plain = text.chars().all(|char| char.is_ascii_alphanumeric() || char == '$');
        if plain {
            return Term { text: text.to_owned(), level };
        }
        let row = level == Level::Row;
        let known = if row { Some(&self.indices) } else { self.loops.last().map(|current| &current.indices) };
        if let Some(term) = known.and_then(|known| known.get(text)) {
            return term.clone();
        }
        let (term, _) = self.bind(level, "ix", 'x', text);
        match self.loops.last_mut() {
            Some(current) if !row => current.indices.insert(text.to_owned(), term.clone()),
            _ => self.indices.insert(text.to_owned(), term.clone()),
        };
        term
    }

    /// Whether an atom is the counter of packs.
    pub(super) fn is_packed(&self, atom: usize) -> bool {
        self.shape.packed() == Some(atom)
    }

    pub(super) fn level(&self, digit: &Digit) -> Level {
        if !self.is_packed(digit.atom) {
            return self.atoms[digit.atom].level;
        }
        if self.pack() == 1 || !divides(self.pack(), &digit.divisor) { Level::Element } else { Level::Pack }
    }

    /// C++ for a digit, optionally of the first element of the pack.
    pub(super) fn digit(&mut self, digit: &Digit, first: bool) -> Term {
        let level = if first { Level::Pack } else { self.level(digit) };
        let atom = &self.atoms[digit.atom];
        let inner = self.is_packed(digit.atom) && level == Level::Element && self.pack() > 1;
        let mut text = if inner { format!("({} + v)", atom.text) } else { atom.text.clone() };
        let size = atom.size.clone();
        let whole = digit.divisor == ONE && digit.size == size;
        if digit.divisor != ONE {
            text = format!("{text} / {}", self.size(&digit.divisor));
        }
        let reaches = product([&digit.divisor, &digit.size]).is_ok_and(|reach| reach == size);
        if !reaches {
            text = format!("{text} % {}", self.size(&digit.size));
        }
        if whole && !inner { Term { text, level } } else { self.index(&text, level) }
    }

    /// C++ for a coordinate.
    pub(super) fn coordinate(&mut self, digits: &[Digit]) -> Result<Term, Stop> {
        let digits = joined(digits.iter().cloned())?;
        Ok(self.number(&digits, false))
    }

    /// Digits as one number, optionally of the first element of a pack.
    pub(super) fn number(&mut self, digits: &[Digit], first: bool) -> Term {
        let mut text = String::new();
        let mut level = Level::Row;
        for (index, digit) in digits.iter().enumerate() {
            let last = index + 1 == digits.len();
            let term = self.digit(digit, first && last);
            level = level.max(term.level);
            text = if index == 0 {
                term.text
            } else {
                let inner = if index == 1 { text } else { format!("({text})") };
                format!("{inner} * {} + {}", self.size(&digit.size), term.text)
            };
        }
        if text.is_empty() { Term { text: "0".into(), level: Level::Row } } else { self.index(&text, level) }
    }

    /// The coordinates of an operand with another shape and the same elements in the same order.
    pub(super) fn reshape(&mut self, at: &[Coordinate], shape: &[Dim]) -> Result<Vec<Coordinate>, Stop> {
        // A collapsed index may be as large, though no memory is.
        self.count(shape);
        regroup(at.concat(), shape, &mut |digits, size| {
            let term = self.coordinate(&digits)?;
            Ok(self.atom(&term, &size)[0].atom)
        })
    }

    /// The coordinates of an operand that is broadcast to `shape`.
    pub(super) fn broadcast(&mut self, at: &[Coordinate], shape: &[Dim], own: &[Dim]) -> Result<Vec<Coordinate>, Stop> {
        let lead = shape.len().saturating_sub(own.len());
        let mut coordinates = Vec::with_capacity(own.len());
        for ((at, to), from) in at[lead..].iter().zip(&shape[lead..]).zip(own) {
            coordinates.push(if *from == ONE {
                Vec::new()
            } else if from == to || matches!(from, Dim::Fixed(_)) {
                at.clone()
            } else {
                let size = self.size(from);
                let term = self.coordinate(at)?;
                let index = self.index(&format!("{size} == 1 ? 0 : {}", term.text), term.level);
                self.atom(&index, from)
            });
        }
        Ok(coordinates)
    }

    /// Whether the loops visit each element once.
    pub(super) fn covers(&self, at: &[Coordinate]) -> Result<bool, Stop> {
        let mut digits = joined(at.concat())?;
        if let Shape::Probe(sizes) = self.shape {
            let whole = |digit: &Digit| digit.divisor == ONE && sizes.get(digit.atom) == Some(&digit.size);
            let once = |digit: &Digit| digits.iter().filter(|other| other.atom == digit.atom).count() == 1;
            return Ok(digits.iter().all(|digit| whole(digit) && once(digit)));
        }
        let counters = self.shape.counters();
        for (atom, needed) in counters {
            let size = self.atoms[atom].size.clone();
            let mut reached = ONE;
            while reached != size {
                let next = digits.iter().position(|digit| digit.atom == atom && digit.divisor == reached);
                let Some(next) = next else { break };
                reached = product([&reached, &digits.swap_remove(next).size])?;
            }
            let in_loop = !self.loops.is_empty();
            if reached != size && (needed || in_loop || reached != ONE) {
                return Ok(false);
            }
        }
        Ok(digits.is_empty())
    }
}
