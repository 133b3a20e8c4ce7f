//! Mutations of protobuf messages that keep them well-formed, whatever their schema: fields become others, often from
//! elsewhere in the message.

use crate::{Raw, Rng, pool};

/// Most changes at once.
const MOST: usize = 4;

/// Most messages within one another.
const DEEPEST: usize = 24;

#[derive(Clone, Debug, PartialEq)]
struct Field {
    number: u64,
    value: Value,
}

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Varint(u64),
    Eight([u8; 8]),
    Four([u8; 4]),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

/// A mutated message, with parts of `other` and some of the `words`. `None` if the input is not a message.
pub(crate) fn bytes(
    input: &[u8],
    other: Option<&[u8]>,
    words: &[&str],
    rng: &mut Rng,
    raw: Raw<'_>,
) -> Option<Vec<u8>> {
    let mut fields = parse(input, DEEPEST)?;
    let other = other.and_then(|other| parse(other, DEEPEST)).filter(|fields| !fields.is_empty());
    for _ in 0..rng.usize(1..=MOST) {
        let from = other.as_ref().filter(|_| rng.bool()).unwrap_or(&fields);
        let Some(donated) = nth(from, &mut rng.usize(..count(from).max(1))).cloned() else { break };
        let mut index = rng.usize(..count(&fields).max(1));
        let Some((list, at)) = nth_list(&mut fields, &mut index) else { break };
        change(list, at, donated, words, rng, raw);
    }
    let mut out = Vec::new();
    write(&fields, &mut out);
    Some(out)
}

fn parse(mut input: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !input.is_empty() {
        let tag = varint(&mut input)?;
        // Larger numbers are sooner text or data that happens to read as a message.
        let number = Some(tag >> 3).filter(|number| (1..512).contains(number))?;
        let value = match tag & 7 {
            0 => Value::Varint(varint(&mut input)?),
            1 => Value::Eight(take(&mut input)?),
            5 => Value::Four(take(&mut input)?),
            2 => {
                let length = usize::try_from(varint(&mut input)?).ok()?;
                let (bytes, rest) = input.split_at_checked(length)?;
                input = rest;
                branch(bytes, depth)
            }
            _ => return None,
        };
        fields.push(Field { number, value });
    }
    Some(fields)
}

/// The content of a field of bytes: a message, if it parses as one and is not a text.
fn branch(bytes: &[u8], depth: usize) -> Value {
    let text = bytes.iter().all(|byte| byte.is_ascii_graphic() || *byte == b' ');
    let message = if text || depth == 0 { None } else { parse(bytes, depth - 1) };
    message.map_or_else(|| Value::Bytes(bytes.to_vec()), Value::Message)
}

fn varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(byte & 127).checked_shl(shift).unwrap_or(0);
        if byte < 128 {
            return Some(value);
        }
    }
    None
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(*bytes)
}

fn write(fields: &[Field], out: &mut Vec<u8>) {
    for Field { number, value } in fields {
        let mut field = |kind: u64, bytes: &[u8]| {
            put(number << 3 | kind, out);
            if kind == 2 {
                put(bytes.len() as u64, out);
            }
            out.extend_from_slice(bytes);
        };
        match value {
            Value::Varint(value) => {
                let mut bytes = Vec::new();
                put(*value, &mut bytes);
                field(0, &bytes);
            }
            Value::Eight(bytes) => field(1, bytes),
            Value::Four(bytes) => field(5, bytes),
            Value::Bytes(bytes) => field(2, bytes),
            Value::Message(fields) => {
                let mut bytes = Vec::new();
                write(fields, &mut bytes);
                field(2, &bytes);
            }
        }
    }
}

fn put(mut value: u64, out: &mut Vec<u8>) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many fields there are, those of messages in fields included.
fn count(fields: &[Field]) -> usize {
    let below = |field: &Field| match &field.value {
        Value::Message(fields) => count(fields),
        _ => 0,
    };
    fields.iter().map(|field| 1 + below(field)).sum()
}

fn nth<'a>(fields: &'a [Field], index: &mut usize) -> Option<&'a Field> {
    for field in fields {
        if *index == 0 {
            return Some(field);
        }
        *index -= 1;
        if let Value::Message(fields) = &field.value
            && let Some(found) = nth(fields, index)
        {
            return Some(found);
        }
    }
    None
}

/// The list that has the field of that index, and the index of the field in it.
fn nth_list<'a>(fields: &'a mut Vec<Field>, index: &mut usize) -> Option<(&'a mut Vec<Field>, usize)> {
    let mut at = 0;
    while at < fields.len() {
        if *index == 0 {
            return Some((fields, at));
        }
        *index -= 1;
        let below = match &fields[at].value {
            Value::Message(fields) => count(fields),
            _ => 0,
        };
        if *index < below {
            let Value::Message(fields) = &mut fields[at].value else { return None };
            return nth_list(fields, index);
        }
        *index -= below;
        at += 1;
    }
    None
}

fn change(list: &mut Vec<Field>, at: usize, donated: Field, words: &[&str], rng: &mut Rng, raw: Raw<'_>) {
    let to = rng.usize(..list.len());
    match rng.u8(..12) {
        0 => drop(list.remove(at)),
        1 => list.insert(at, list[at].clone()),
        2 => list.insert(at, donated),
        3 => list.swap(at, to),
        4 => list[at].value = donated.value,
        _ => edit(&mut list[at].value, donated.value, words, rng, raw),
    }
}

fn edit(value: &mut Value, donated: Value, words: &[&str], rng: &mut Rng, raw: Raw<'_>) {
    match value {
        Value::Varint(value) => *value = pool::integer(i128::from(*value as i64), rng) as u64,
        Value::Four(bytes) => *bytes = (pool::float(f32::from_le_bytes(*bytes).into(), rng) as f32).to_le_bytes(),
        Value::Eight(bytes) => *bytes = pool::float(f64::from_le_bytes(*bytes), rng).to_le_bytes(),
        Value::Bytes(bytes) => match (rng.u8(..4), donated) {
            (0, _) if !words.is_empty() => *bytes = words[rng.usize(..words.len())].into(),
            (1 | 2, Value::Bytes(other)) => *bytes = other,
            _ => raw(bytes),
        },
        Value::Message(fields) => rng.shuffle(fields),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_is_read_is_written_as_it_was() {
        let model = crate::models::all().remove(0).finish();
        let fields = parse(&model, DEEPEST).expect("a message");
        let mut out = Vec::new();
        write(&fields, &mut out);
        assert_eq!(out, model);
        for index in 0..count(&fields) {
            let found = nth(&fields, &mut { index }).cloned();
            let mut fields = fields.clone();
            let (list, at) = nth_list(&mut fields, &mut { index }).expect("there");
            assert_eq!(found.as_ref(), Some(&list[at]));
        }
    }

    #[test]
    fn changed_messages_are_messages() {
        let models: Vec<_> = crate::models::all().iter().map(|model| model.finish()).collect();
        for seed in 0..2000 {
            let (one, other) = (&models[seed as usize % models.len()], &models[0]);
            let mut rng = Rng::with_seed(seed);
            let changed = bytes(one, Some(other), &["Relu"], &mut rng, &mut |bytes| bytes.push(7)).expect("one");
            assert!(parse(&changed, DEEPEST).is_some());
        }
    }
}
