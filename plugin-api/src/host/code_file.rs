//! What a backend says of a file, judged: it may say anything, and ends up on terminals and in memory sizes.

use std::collections::HashSet;

use super::answer::one_line;
use crate::backend::{CodeFile, Table};
use crate::error::Error;
use crate::region::Value;

/// The answer of [`crate::Backend::open`] to a file of that many bytes, with each of its texts in one line. Errors where
/// it contradicts itself or the file.
pub(super) fn checked_file(file: CodeFile, bytes: usize) -> Result<CodeFile, Error> {
    judge(clean(file), bytes).map_err(|cause| Error::new(format!("what it says of the file is not valid: {cause}")))
}

fn clean(file: CodeFile) -> CodeFile {
    let lines = |texts: Vec<String>| texts.iter().map(|text| one_line(text)).collect::<Vec<_>>();
    let values = |values: Vec<Value>| -> Vec<Value> {
        values.into_iter().map(|value| Value { name: one_line(&value.name), ..value }).collect()
    };
    let table = |table: Table| Table {
        title: one_line(&table.title),
        columns: lines(table.columns),
        rows: table.rows.into_iter().map(lines).collect(),
    };
    CodeFile {
        format: one_line(&file.format),
        file_bytes: file.file_bytes,
        inputs: values(file.inputs),
        outputs: values(file.outputs),
        tables: file.tables.into_iter().map(table).collect(),
    }
}

fn judge(file: CodeFile, bytes: usize) -> Result<CodeFile, String> {
    if file.file_bytes > bytes as u64 {
        return Err(format!("it would have {} bytes, and has {bytes}", file.file_bytes));
    }
    for (kind, values) in [("input", &file.inputs), ("output", &file.outputs)] {
        let mut names = HashSet::new();
        for value in values {
            if value.name.is_empty() {
                return Err(format!("an {kind} has no name"));
            }
            if !names.insert(&value.name) {
                return Err(format!("two {kind}s are called '{}'", value.name));
            }
            size(value).map_err(|cause| format!("the shape of {kind} '{}' is {cause}", value.name))?;
        }
    }
    for table in &file.tables {
        let columns = table.columns.len();
        if let Some(row) = table.rows.iter().find(|row| row.len() != columns) {
            return Err(format!("a row of the table '{}' has {} cells for {columns} columns", table.title, row.len()));
        }
    }
    Ok(file)
}

/// Errors unless the value has a shape of numbers, and as few bytes as memory can have.
fn size(value: &Value) -> Result<(), &'static str> {
    let shape = value.fixed_shape().ok_or("not fixed")?;
    let elements = shape.iter().try_fold(1usize, |product, &size| product.checked_mul(size.max(1)));
    let bytes = elements.and_then(|elements| value.dtype.bytes_for(elements));
    bytes.filter(|&bytes| isize::try_from(bytes).is_ok()).map(drop).ok_or("too large")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::region::Dim;

    type Change = fn(&mut CodeFile);

    fn value(name: &str, shape: &[Dim]) -> Value {
        Value { name: name.into(), dtype: DType::F32, shape: shape.to_vec() }
    }

    fn sound() -> CodeFile {
        CodeFile {
            format: "acme 1".into(),
            file_bytes: 8,
            inputs: vec![value("x", &[Dim::Fixed(2)])],
            outputs: vec![value("y", &[])],
            tables: vec![Table { title: "layers".into(), columns: vec!["op".into()], rows: vec![vec!["conv".into()]] }],
        }
    }

    #[test]
    fn texts_are_one_line_each() {
        let mut file = sound();
        file.format = "acme\n1".into();
        file.inputs[0].name = "\u{1b}x".into();
        file.tables[0].rows[0][0] = "a\r\nb".into();
        let file = checked_file(file, 8).expect("sound");
        assert_eq!((file.format.as_str(), file.inputs[0].name.as_str()), ("acme 1", "x"));
        assert_eq!(file.tables[0].rows[0][0], "a b");
        assert_eq!(checked_file(sound(), 9), Ok(sound()));
    }

    #[test]
    fn contradictions_are_errors() {
        let cases: &[(Change, &str)] = &[
            (|file| file.file_bytes = 9, "it would have 9 bytes, and has 8"),
            (|file| file.inputs[0].name = "\n".into(), "an input has no name"),
            (|file| file.outputs.push(file.outputs[0].clone()), "two outputs are called 'y'"),
            (|file| file.inputs[0].shape = vec![Dim::Symbolic("n".into())], "the shape of input 'x' is not fixed"),
            (|file| file.outputs[0].shape = vec![Dim::Fixed(1 << 62)], "the shape of output 'y' is too large"),
            (
                |file| file.outputs[0].shape = vec![Dim::Fixed(0), Dim::Fixed(usize::MAX)],
                "the shape of output 'y' is too large",
            ),
            (|file| file.tables[0].rows.push(vec![]), "a row of the table 'layers' has 0 cells for 1 columns"),
        ];
        for (change, cause) in cases {
            let mut file = sound();
            change(&mut file);
            let error = checked_file(file, 8).expect_err(cause);
            assert_eq!(error.message, format!("what it says of the file is not valid: {cause}"));
        }
    }
}
