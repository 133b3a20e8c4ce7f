//! Moves: the operand's coordinates for an element of the result.

use byoc_plugin_api::Dim;

use super::{Level, Stop, Term, Writer};
use crate::index::{Coordinate, ONE, quotient, regroup};
use crate::ir::{Edge, Id, Move, Start, computed};

impl Writer<'_> {
    pub(super) fn moved(&mut self, id: Id, how: &Move, operands: &[Id], at: &[Coordinate]) -> Result<Term, Stop> {
        let values = self.values;
        let own = &values[id].shape;
        let first = operands.first().map(|&operand| values[operand].shape.as_slice()).unwrap_or_default();
        let from = match how {
            Move::Reshape => self.reshape(at, first)?,
            Move::Transpose(perm) => {
                let mut from = vec![Vec::new(); perm.len()];
                perm.iter().zip(at).for_each(|(&axis, at)| from[axis] = at.clone());
                from
            }
            Move::Broadcast => self.broadcast(at, own, first)?,
            Move::Slice(parts) => {
                let parts = parts.iter().zip(at).zip(own.iter().zip(first));
                parts.map(|((part, at), (own, from))| self.sliced(*part, at, own, from)).collect::<Result<_, _>>()?
            }
            Move::Tile => {
                let axes = at.iter().zip(own.iter().zip(first));
                axes.map(|(at, (own, from))| self.tiled(at, own, from)).collect::<Result<_, _>>()?
            }
            Move::Gather(axis) => {
                let rank = values[operands[1]].shape.len();
                let index = self.taken(operands[1], &at[*axis..*axis + rank], &first[*axis])?;
                let from = [&at[..*axis], &[index], &at[*axis + rank..]].concat();
                return self.unless_empty(&first[*axis..=*axis], operands[0], &from);
            }
            Move::GatherElements(axis) => {
                let mut from = Vec::with_capacity(at.len());
                for (other, (at, (own, size))) in at.iter().zip(own.iter().zip(first)).enumerate() {
                    from.push(if other == *axis { Vec::new() } else { self.within(at, own, size)? });
                }
                from[*axis] = self.taken(operands[1], at, &first[*axis])?;
                return self.unless_empty(&first[*axis..=*axis], operands[0], &from);
            }
            Move::GatherNd(batch) => {
                let from = self.by_tuples(operands, *batch, at)?;
                return self.unless_empty(first, operands[0], &from);
            }
            Move::Concat(axis) => return self.concatenated(id, *axis, operands, at),
            Move::Pad(before, edge) => return self.padded(id, before, *edge, operands, at),
            Move::Triangle(..) | Move::Sums(..) => return self.partly(id, how, operands[0], at),
            Move::Range | Move::Fill(_) | Move::Sizes(_) => return self.made(id, how, operands, at),
            Move::Rotary(rotary) => return self.turned(id, *rotary, operands, at),
        };
        self.pull(operands[0], &from)
    }

    /// The elements of an operand on one side of a diagonal, and 0 on the other side.
    fn partly(&mut self, id: Id, how: &Move, operand: Id, at: &[Coordinate]) -> Result<Term, Stop> {
        let [.., before, last] = at else { return Err(Stop::Refused("expected a matrix".into())) };
        let (to, compare, diagonal, mut from) = match how {
            Move::Triangle(true, diagonal) => (before, ">=", *diagonal, at.to_vec()),
            Move::Triangle(false, diagonal) => (before, "<=", *diagonal, at.to_vec()),
            Move::Sums(axis, exclusive, reverse) => {
                let mut inner = at[..at.len() - 1].to_vec();
                inner[*axis] = last.clone();
                let compare = match (reverse, exclusive) {
                    (false, false) => "<=",
                    (false, true) => "<",
                    (true, false) => ">=",
                    (true, true) => ">",
                };
                (&at[*axis], compare, 0, inner)
            }
            _ => return Err(Stop::Refused("it is neither a triangle nor a running sum".into())),
        };
        let (to, position) = (self.coordinate(to)?, self.coordinate(last)?);
        let condition = format!("{} - {} {compare} {diagonal}", position.text, to.text);
        let condition = Term { text: condition, level: position.level.max(to.level) };
        from.truncate(self.values[operand].shape.len());
        self.where_true(id, at, condition, operand, &from)
    }

    /// An element of an operand, or 0.
    fn where_true(
        &mut self,
        id: Id,
        at: &[Coordinate],
        condition: Term,
        operand: Id,
        from: &[Coordinate],
    ) -> Result<Term, Stop> {
        let element = self.pull(operand, from)?;
        let zero = format!("{}(0)", computed(self.values[id].dtype));
        let level = condition.level.max(element.level);
        Ok(self.keep(id, at, Term { text: format!("{} ? {} : {zero}", condition.text, element.text), level }))
    }

    /// A coordinate that is computed.
    fn reached(&mut self, text: &str, level: Level, size: &Dim) -> Coordinate {
        let term = self.index(text, level);
        self.atom(&term, size)
    }

    /// The same coordinate on an axis of another size.
    fn within(&mut self, at: &Coordinate, own: &Dim, size: &Dim) -> Result<Coordinate, Stop> {
        if own == size {
            return Ok(at.clone());
        }
        let term = self.coordinate(at)?;
        Ok(self.atom(&term, size))
    }

    fn sliced(
        &mut self,
        (start, step): (Start, i64),
        at: &Coordinate,
        own: &Dim,
        from: &Dim,
    ) -> Result<Coordinate, Stop> {
        if own == from && step == 1 {
            return Ok(at.clone());
        }
        let term = self.coordinate(at)?;
        let size = self.size(from);
        let begin = match (start, from.fixed()) {
            (Start::Front(start), _) => start.to_string(),
            (Start::Back(back), Some(size)) => (size as i64 - back).max(0).to_string(),
            (Start::Back(back), None) => format!("({size} < {back} ? 0 : {size} - {back})"),
        };
        let moved = match step {
            1 => term.text,
            step => format!("{} * {step}", term.text),
        };
        let text = match (begin.as_str(), moved.as_str()) {
            ("0", _) => moved,
            (_, "0") => begin,
            _ => format!("{moved} + {begin}"),
        };
        Ok(self.reached(&text, term.level, from))
    }

    fn tiled(&mut self, at: &Coordinate, own: &Dim, from: &Dim) -> Result<Coordinate, Stop> {
        if own == from || *from == ONE {
            return Ok(if *from == ONE { Vec::new() } else { at.clone() });
        }
        if let Some(times) = quotient(own, from) {
            let parts = regroup(at.clone(), &[times, from.clone()], &mut |_, _| Err(Stop::Refused(String::new())));
            if let Ok(parts) = parts {
                return Ok(parts[1].clone());
            }
        }
        let term = self.coordinate(at)?;
        let size = self.size(from);
        Ok(self.reached(&format!("{} % {size}", term.text), term.level, from))
    }

    /// The index at coordinates, along an axis of that size.
    fn taken(&mut self, indices: Id, at: &[Coordinate], size: &Dim) -> Result<Coordinate, Stop> {
        let index = self.pull(indices, at)?;
        let most = self.size(size);
        Ok(self.reached(&format!("within(i64({}), ix({most}))", index.text), index.level, size))
    }

    fn by_tuples(&mut self, operands: &[Id], batch: usize, at: &[Coordinate]) -> Result<Vec<Coordinate>, Stop> {
        let values = self.values;
        let (data, indices) = (&values[operands[0]].shape, &values[operands[1]].shape);
        let tuples = indices.len() - 1;
        let depth = indices[tuples].fixed().ok_or_else(|| Stop::Refused("tuples of unknown length".into()))?;
        let mut from = at[..batch].to_vec();
        for position in 0..depth {
            let last = if depth == 1 {
                Vec::new()
            } else {
                self.atom(&Term { text: position.to_string(), level: Level::Row }, &indices[tuples])
            };
            let tuple = [&at[..tuples], &[last]].concat();
            from.push(self.taken(operands[1], &tuple, &data[batch + position])?);
        }
        from.extend_from_slice(&at[tuples..]);
        Ok(from)
    }

    fn concatenated(&mut self, id: Id, axis: usize, operands: &[Id], at: &[Coordinate]) -> Result<Term, Stop> {
        let values = self.values;
        let position = self.coordinate(&at[axis])?;
        let (mut start, mut parts) = ("0".to_owned(), Vec::new());
        let mut level = position.level;
        for (index, &operand) in operands.iter().enumerate() {
            let size = values[operand].shape[axis].clone();
            let text = self.size(&size);
            let end = match (start.parse::<usize>(), size.fixed()) {
                (Ok(start), Some(size)) => (start + size).to_string(),
                _ if start == "0" => text,
                _ => format!("({start} + {text})"),
            };
            let after = if start == "0" { None } else { Some(format!("{} >= {start}", position.text)) };
            let before = (index + 1 < operands.len()).then(|| format!("{} < {end}", position.text));
            let inside = [after, before.clone()].into_iter().flatten().collect::<Vec<_>>().join(" && ");
            let moved = if start == "0" { position.text.clone() } else { format!("{} - {start}", position.text) };
            let mut from = at.to_vec();
            from[axis] = if size == ONE { Vec::new() } else { self.reached(&moved, position.level, &size) };
            let term = self.guarded(&inside, position.level, operand, &from)?;
            level = level.max(term.level);
            parts.push((before, term.text));
            start = end;
        }
        let part = |(before, element): (Option<String>, String)| match before {
            Some(before) => format!("{before} ? {element} : "),
            None => element,
        };
        let text: String = parts.into_iter().map(part).collect();
        Ok(self.keep(id, at, Term { text, level }))
    }

    /// An element of an operand, which is 0 and not read if one of these unknown sizes is 0.
    fn unless_empty(&mut self, sizes: &[Dim], operand: Id, from: &[Coordinate]) -> Result<Term, Stop> {
        let unknown = sizes.iter().filter(|size| size.fixed().is_none_or(|size| size == 0));
        let conditions: Vec<String> = unknown.map(|size| format!("{} > 0", self.size(size))).collect();
        self.guarded(&conditions.join(" && "), Level::Row, operand, from)
    }

    /// An element that is read only where a condition holds.
    fn guarded(&mut self, inside: &str, level: Level, operand: Id, from: &[Coordinate]) -> Result<Term, Stop> {
        if inside.is_empty() {
            return self.pull(operand, from);
        }
        let (guard, _) = self.bind(level, "bool", 'b', inside);
        self.guards.push(guard);
        let term = self.pull(operand, from);
        self.guards.pop();
        term
    }

    fn padded(&mut self, id: Id, before: &[i64], edge: Edge, operands: &[Id], at: &[Coordinate]) -> Result<Term, Stop> {
        let values = self.values;
        let (own, shape) = (&values[id].shape, &values[operands[0]].shape);
        let (mut from, mut inside, mut level) = (Vec::new(), Vec::new(), Level::Row);
        for (axis, at) in at.iter().enumerate() {
            if before[axis] == 0 && own[axis] == shape[axis] {
                from.push(at.clone());
                continue;
            }
            let term = self.coordinate(at)?;
            let size = self.size(&shape[axis]);
            let moved = if before[axis] == 0 { term.text } else { format!("{} - ({})", term.text, before[axis]) };
            let moved = self.index(&moved, term.level);
            let text = match edge {
                Edge::Constant => {
                    level = level.max(moved.level);
                    inside.push(format!("{} >= 0 && {} < {size}", moved.text, moved.text));
                    moved.text
                }
                Edge::Nearest => format!("clamped(ix({}), ix({size}))", moved.text),
                Edge::Reflect => format!("mirrored(ix({}), ix({size}))", moved.text),
                Edge::Wrap => format!("modulo(ix({}), ix({size}))", moved.text),
            };
            if edge != Edge::Constant && shape[axis].fixed().is_none() {
                inside.push(format!("{size} > 0"));
            }
            from.push(if shape[axis] == ONE { Vec::new() } else { self.reached(&text, moved.level, &shape[axis]) });
        }
        if inside.is_empty() {
            return self.pull(operands[0], &from);
        }
        let fill = match operands.get(1) {
            Some(&fill) => self.pull(fill, &vec![Vec::new(); values[fill].shape.len()])?,
            None => Term { text: format!("{}(0)", computed(values[id].dtype)), level: Level::Row },
        };
        let (guard, _) = self.bind(level, "bool", 'b', &inside.join(" && "));
        self.guards.push(guard.clone());
        let element = self.pull(operands[0], &from);
        self.guards.pop();
        let element = element?;
        let level = level.max(element.level).max(fill.level);
        Ok(self.keep(id, at, Term { text: format!("{} ? {} : {}", guard.text, element.text, fill.text), level }))
    }

    /// Elements that are generated: ranges, constants, shapes.
    fn made(&mut self, id: Id, how: &Move, operands: &[Id], at: &[Coordinate]) -> Result<Term, Stop> {
        let values = self.values;
        let dtype = values[id].dtype;
        match how {
            Move::Fill(text) => Ok(Term { text: text.clone(), level: Level::Row }),
            Move::Sizes(sizes) => {
                let position = self.coordinate(&at.concat())?;
                let texts: Vec<String> = sizes.iter().map(|size| self.size(size)).collect();
                let mut text = String::new();
                for (index, size) in texts.iter().enumerate() {
                    text += &if index + 1 < texts.len() {
                        format!("{} == {index} ? i64({size}) : ", position.text)
                    } else {
                        format!("i64({size})")
                    };
                }
                Ok(self.keep(id, at, Term { text, level: position.level }))
            }
            _ => {
                let scalar = |operand: Id| vec![Vec::new(); values[operand].shape.len()];
                let start = self.pull(operands[0], &scalar(operands[0]))?;
                let step = self.pull(operands[1], &scalar(operands[1]))?;
                let position = self.coordinate(&at.concat())?;
                let ty = computed(dtype);
                let (start, step, count) = (start.text, step.text, position.text);
                let text = if dtype.is_float() {
                    format!("{ty}(double({start}) + double({count}) * double({step}))")
                } else {
                    format!("add({start}, multiply({ty}({count}), {step}))")
                };
                Ok(self.keep(id, at, Term { text, level: position.level }))
            }
        }
    }

    /// A pair of elements, turned.
    fn turned(&mut self, id: Id, rotary: crate::ir::Rotary, operands: &[Id], at: &[Coordinate]) -> Result<Term, Stop> {
        let values = self.values;
        let (&[x, cos, sin], [batch, _, token, element]) = (&operands[..3], at) else {
            return Err(Stop::Refused("a rotary embedding of other operands".into()));
        };
        let size = values[x].shape[3].clone();
        let half = rotary.turned / 2;
        let (position, table) = (self.coordinate(element)?, &values[cos].shape);
        let (p, level) = (position.text, position.level);
        let (pair, other, second) = if rotary.interleaved {
            (format!("{p} / 2"), format!("({p} % 2 == 0 ? {p} + 1 : {p} - 1)"), format!("{p} % 2 == 1"))
        } else {
            (format!("{p} % {half}"), format!("({p} < {half} ? {p} + {half} : {p} - {half})"), format!("{p} >= {half}"))
        };
        let turned = 2 * half;
        let inside = format!("{p} < {turned}");
        let pair = self.reached(&format!("{inside} ? {pair} : 0"), level, &Dim::Fixed(half as usize));
        let other = self.reached(&format!("{inside} ? {other} : {p}"), level, &size);
        let (rows, row) = match operands.get(3) {
            Some(&positions) => {
                (&table[..1], vec![self.taken(positions, &[batch.clone(), token.clone()], &table[0])?, pair])
            }
            None => (&[][..], vec![batch.clone(), token.clone(), pair]),
        };
        let cos = self.unless_empty(rows, cos, &row)?;
        let sin = self.unless_empty(rows, sin, &row)?;
        let own = self.pull(x, at)?;
        let mut from = at.to_vec();
        from[3] = other;
        let with = self.pull(x, &from)?;
        let (own, with, cos, sin) = (own.text, with.text, cos.text, sin.text);
        let text =
            format!("{inside} ? ({second} ? {sin} * {with} + {cos} * {own} : {cos} * {own} - {sin} * {with}) : {own}");
        Ok(self.keep(id, at, Term { text, level: Level::Element.max(level) }))
    }
}
