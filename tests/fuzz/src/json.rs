//! Mutations of JSON that keep it well-formed: numbers, texts and branches become others, often from elsewhere in it.

use serde_json::{Map, Number, Value};

use crate::{Raw, Rng, pool};

/// Most changes at once.
const MOST: usize = 4;

/// Mutated JSON as bytes. `None` if the input is not JSON.
pub(crate) fn bytes(input: &[u8], other: Option<&[u8]>, rng: &mut Rng, raw: Raw<'_>) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(input).ok()?;
    let other = other.and_then(|other| serde_json::from_slice(other).ok());
    mutate(&mut value, other.as_ref(), rng, raw);
    serde_json::to_vec(&value).ok()
}

/// Changes some places of `value`; branches and numbers of `donor` may take the place of its own.
pub(crate) fn mutate(value: &mut Value, donor: Option<&Value>, rng: &mut Rng, raw: Raw<'_>) {
    for _ in 0..rng.usize(1..=MOST) {
        let from = donor.filter(|_| rng.bool()).unwrap_or(value);
        let donated = nth(from, rng.usize(..size(from))).clone();
        let size = size(value);
        let place = nth_mut(value, &mut rng.usize(..size)).expect("it has as many places");
        change(place, donated, rng, raw);
    }
}

/// How many values there are, the value itself included.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0usize,
    }
}

fn nth(value: &Value, index: usize) -> &Value {
    let mut open = vec![value];
    for _ in 0..index {
        match open.pop() {
            Some(Value::Array(items)) => open.extend(items.iter().rev()),
            Some(Value::Object(fields)) => open.extend(fields.values().rev()),
            _ => {}
        }
    }
    open.pop().unwrap_or(value)
}

fn nth_mut<'a>(value: &'a mut Value, index: &mut usize) -> Option<&'a mut Value> {
    if *index == 0 {
        return Some(value);
    }
    *index -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth_mut(item, index)),
        Value::Object(fields) => fields.values_mut().find_map(|item| nth_mut(item, index)),
        _ => None,
    }
}

fn change(place: &mut Value, donated: Value, rng: &mut Rng, raw: Raw<'_>) {
    let same_kind = std::mem::discriminant(place) == std::mem::discriminant(&donated);
    if rng.u8(..) < if same_kind { 64 } else { 16 } {
        *place = donated;
        return;
    }
    match place {
        Value::Null => *place = Value::from(rng.u8(..8)),
        Value::Bool(value) => *value = !*value,
        Value::Number(old) => *place = number(old, rng),
        Value::String(text) => {
            let mut bytes = std::mem::take(text).into_bytes();
            raw(&mut bytes);
            *text = String::from_utf8_lossy(&bytes).into_owned();
        }
        Value::Array(items) => list(items, donated, rng),
        Value::Object(fields) => object(fields, donated, rng),
    }
}

fn number(old: &Number, rng: &mut Rng) -> Value {
    if let Some(integer) = old.as_i128().filter(|_| rng.u8(..) > 8) {
        let new = pool::integer(integer, rng);
        let unsigned = u64::try_from(new).map(Number::from);
        return unsigned.or_else(|_| i64::try_from(new).map(Number::from)).map_or(Value::from(0), Value::Number);
    }
    let new = pool::float(old.as_f64().unwrap_or_default(), rng);
    Number::from_f64(new).map_or(Value::Null, Value::Number)
}

fn list(items: &mut Vec<Value>, donated: Value, rng: &mut Rng) {
    if items.is_empty() {
        return items.push(donated);
    }
    let (at, to) = (rng.usize(..items.len()), rng.usize(..items.len()));
    match rng.u8(..5) {
        0 => drop(items.remove(at)),
        1 => items.insert(at, items[at].clone()),
        2 => items.insert(at, donated),
        3 => items.truncate(at),
        _ => items.swap(at, to),
    }
}

fn object(fields: &mut Map<String, Value>, donated: Value, rng: &mut Rng) {
    let Some(at) = (!fields.is_empty()).then(|| rng.usize(..fields.len())) else { return };
    let key = fields.keys().nth(at).cloned().unwrap_or_default();
    if rng.bool() {
        fields.shift_remove(&key);
    } else {
        fields.insert(key, donated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_json_is_json_and_the_same_for_the_same_seed() {
        let input = br#"{"a":[1,2,{"b":"text"}],"c":null,"d":-1.5,"e":true}"#;
        let other = br#"[18446744073709551615,"more"]"#;
        let with = |seed| bytes(input, Some(other), &mut Rng::with_seed(seed), &mut |bytes| bytes.push(0xff));
        for seed in 0..2000 {
            let changed = with(seed).expect("it is JSON");
            assert!(serde_json::from_slice::<Value>(&changed).is_ok());
            assert_eq!(with(seed), Some(changed));
        }
        assert_eq!(bytes(b"{", None, &mut Rng::with_seed(0), &mut |_| {}), None);
    }

    #[test]
    fn every_place_is_found() {
        let mut value: Value = serde_json::from_slice(br#"{"a":[1,{"b":2}],"c":3}"#).expect("JSON");
        assert_eq!(size(&value), 6);
        let texts: Vec<_> = (0..6).map(|index| nth(&value, index).to_string()).collect();
        assert_eq!(texts[1..], ["[1,{\"b\":2}]", "1", "{\"b\":2}", "2", "3"]);
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(nth_mut(&mut value, &mut { index }).expect("there").to_string(), *text);
        }
    }
}
