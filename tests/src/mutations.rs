//! Mutations of JSON: every number, text, list and field of a document, changed one at a time.

use serde_json::{Number, Value};

/// A change of one place of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Mutation {
    /// The place, as a JSON pointer.
    pub place: String,
    /// What happens there.
    pub change: Change,
}

/// What happens to a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Another one takes its place.
    Becomes(Value),
    /// It is taken out of its list or object.
    Goes,
    /// It stands in its list so many times more.
    Repeats(usize),
}

/// Other words that can stand where one of them stands.
pub type Words<'a> = &'a [&'a [&'a str]];

/// Numbers that are too large, wrap when they are multiplied or added, or are not sizes.
const NUMBERS: [i128; 14] = [
    0,
    -1,
    1,
    2,
    (1 << 20) + 1,
    (1 << 30) - 1,
    1 << 31,
    (1 << 32) + 3,
    (1 << 62) + 1,
    1 << 63,
    (1 << 63) + 3,
    (1 << 64) - 1,
    (1 << 64) - 1000,
    -(1 << 63),
];

/// Every mutation of one place, in the order of the document.
pub fn mutations(document: &Value, words: Words<'_>) -> Vec<Mutation> {
    let mut mutations = Vec::new();
    collect(document, &mut String::new(), words, &mut mutations);
    mutations
}

/// The document with a mutation in it; as it is where the place is gone.
pub fn apply(document: &mut Value, mutation: &Mutation) {
    if let Change::Becomes(value) = &mutation.change {
        if let Some(place) = document.pointer_mut(&mutation.place) {
            *place = value.clone();
        }
        return;
    }
    let Some((parent, key)) = mutation.place.rsplit_once('/') else { return };
    match (document.pointer_mut(parent), &mutation.change) {
        (Some(Value::Object(fields)), _) => drop(fields.remove(&unescaped(key))),
        (Some(Value::Array(list)), change) => {
            let Some(at) = key.parse().ok().filter(|&at: &usize| at < list.len()) else { return };
            match change {
                Change::Repeats(times) => {
                    let copies = vec![list[at].clone(); *times];
                    list.splice(at..at, copies);
                }
                _ => drop(list.remove(at)),
            }
        }
        _ => {}
    }
}

fn collect(value: &Value, place: &mut String, words: Words<'_>, mutations: &mut Vec<Mutation>) {
    let mut mutation = |change: Change| mutations.push(Mutation { place: place.clone(), change });
    match value {
        Value::Null => [Value::from(0), Value::from("")].into_iter().for_each(|value| mutation(Change::Becomes(value))),
        Value::Bool(is) => mutation(Change::Becomes((!is).into())),
        Value::Number(number) => numbers(number).into_iter().for_each(|value| mutation(Change::Becomes(value))),
        Value::String(text) => texts(text, words).into_iter().for_each(|value| mutation(Change::Becomes(value))),
        Value::Array(list) => {
            mutation(Change::Becomes(Value::Array(Vec::new())));
            let length = place.len();
            for (at, item) in list.iter().enumerate() {
                place.push_str(&format!("/{at}"));
                for change in [Change::Goes, Change::Repeats(1), Change::Repeats(1000)] {
                    mutations.push(Mutation { place: place.clone(), change });
                }
                collect(item, place, words, mutations);
                place.truncate(length);
            }
        }
        Value::Object(fields) => {
            let length = place.len();
            for (key, item) in fields {
                place.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1")));
                mutations.push(Mutation { place: place.clone(), change: Change::Goes });
                collect(item, place, words, mutations);
                place.truncate(length);
            }
        }
    }
}

fn unescaped(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

/// Other numbers; of another kind, too, where the number is whole.
fn numbers(number: &Number) -> Vec<Value> {
    let Some(is) = number.as_i128() else {
        let is = number.as_f64().unwrap_or_default();
        let floats = [0.0, -0.0, -is, is * 2.0, 1e-45, 3.5e38, 1e308, -1e308];
        let words = ["inf", "-inf", "NaN"].map(Value::from);
        return floats.into_iter().map(Value::from).chain(words).chain([Value::Null, 0.into()]).collect();
    };
    let near = [is - 1, is + 1, is * 2];
    let mut others: Vec<i128> = NUMBERS.into_iter().chain(near).filter(|&other| other != is).collect();
    others.sort_unstable();
    others.dedup();
    let whole = others.into_iter().filter_map(Number::from_i128).map(Value::Number);
    whole.chain([Value::Null, 0.5.into()]).collect()
}

/// Other texts: words in the place of words, numbers in that of numbers, and what is not text of the kind.
fn texts(text: &str, words: Words<'_>) -> Vec<Value> {
    let known = words.iter().filter(|words| words.contains(&text)).flat_map(|words| words.iter());
    let mut others: Vec<String> = known.filter(|word| **word != text).map(|word| (*word).to_owned()).collect();
    others.extend(whole_numbers(text));
    others.extend([String::new(), "x".to_owned(), "n".repeat(300), format!("{text}{text}")]);
    others.into_iter().map(Value::from).collect()
}

/// The bytes of whole numbers of 64 bits in hex, with each number changed; none where the text is something else.
fn whole_numbers(text: &str) -> Vec<String> {
    let bytes = byoc_plugin_api::from_hex(text).filter(|bytes| !bytes.is_empty() && bytes.len().is_multiple_of(8));
    let Some(bytes) = bytes else { return Vec::new() };
    let each = (0..bytes.len() / 8).flat_map(|at| NUMBERS.into_iter().map(move |number| (at, number)));
    each.map(|(at, number)| {
        let mut bytes = bytes.clone();
        bytes[8 * at..8 * at + 8].copy_from_slice(&(number as u64).to_le_bytes());
        byoc_plugin_api::to_hex(&bytes)
    })
    .filter(|changed| changed != text)
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_place_is_changed() {
        let document = json!({"a/b": [7, {"kind": "plain"}], "hex": "0100000000000000"});
        let told: Vec<Value> = mutations(&document, &[&["plain", "first"]])
            .iter()
            .map(|mutation| {
                let mut document = document.clone();
                apply(&mut document, mutation);
                document
            })
            .collect();
        assert!(told.iter().all(|told| *told != document));
        let holds = |expected: Value| assert!(told.contains(&expected), "{expected}");
        holds(json!({"hex": "0100000000000000"}));
        holds(json!({"a/b": [], "hex": "0100000000000000"}));
        holds(json!({"a/b": [{"kind": "plain"}], "hex": "0100000000000000"}));
        holds(json!({"a/b": [7, 7, {"kind": "plain"}], "hex": "0100000000000000"}));
        holds(json!({"a/b": [9_223_372_036_854_775_811u64, {"kind": "plain"}], "hex": "0100000000000000"}));
        holds(json!({"a/b": [7, {"kind": "first"}], "hex": "0100000000000000"}));
        holds(json!({"a/b": [7, {"kind": "plain"}], "hex": "ffffffffffffffff"}));
        let long = told.iter().filter(|told| told["a/b"].as_array().is_some_and(|list| list.len() > 1000)).count();
        assert_eq!(long, 2);
    }
}
