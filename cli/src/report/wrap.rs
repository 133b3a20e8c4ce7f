//! Text in lines of a limited width.

use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthStr;

/// Names of nodes, tensors and files are broken behind these, where they are longer than a line.
const BREAKS: [char; 9] = ['/', '_', '.', ',', ':', ';', '-', '=', '|'];

/// The columns that a text takes on a terminal. Colours take none.
pub(crate) fn columns(text: &str) -> usize {
    strip_str(text).map(UnicodeWidthStr::width).sum()
}

/// The columns of the longest word of a text.
pub(crate) fn longest_word(text: &str) -> usize {
    text.split(' ').map(columns).max().unwrap_or(0)
}

/// Lines of at most `width` columns, broken between words; a word that is longer is broken behind a character of [`BREAKS`],
/// or where it has to be. An empty text is one empty line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    for (index, word) in text.split(' ').enumerate() {
        let gap = usize::from(index > 0);
        if columns(&line) + gap + columns(word) <= width {
            line.push_str(if index > 0 { " " } else { "" });
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let mut pieces = pieces(word, width);
        line = pieces.pop().unwrap_or_default();
        lines.append(&mut pieces);
    }
    lines.push(line);
    lines
}

/// A text of several lines, each of at most `width` columns: what does not fit goes on in the next line, two columns
/// further to the right than the line begins. A command stays in one line: it is there to be copied, and the terminal itself breaks
/// it so that it is copied as one.
pub(crate) fn wrap_lines(text: &str, width: usize) -> String {
    let mut wrapped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if columns(line) <= width || line.trim_start().starts_with("byoc ") {
            wrapped += line;
        } else {
            let start = line.len() - line.trim_start_matches(' ').len();
            let margin = (start + 2).min(width / 2);
            let mut rest = wrap(&line[start..], width - margin).into_iter();
            let first = rest.next().unwrap_or_default();
            wrapped += &format!("{}{first}", &line[..start.min(margin)]);
            rest.for_each(|piece| wrapped += &format!("\n{}{piece}", " ".repeat(margin)));
        }
        wrapped += end;
    }
    wrapped
}

/// A word in pieces of at most `width` columns.
fn pieces(word: &str, width: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut piece = String::new();
    for part in word.split_inclusive(BREAKS) {
        if columns(&piece) + columns(part) <= width {
            piece += part;
            continue;
        }
        if !piece.is_empty() {
            pieces.push(std::mem::take(&mut piece));
        }
        for char in part.chars() {
            if columns(&piece) + columns(char.encode_utf8(&mut [0; 4])) > width && !piece.is_empty() {
                pieces.push(std::mem::take(&mut piece));
            }
            piece.push(char);
        }
    }
    pieces.push(piece);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_kept_together() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("", 7), [""]);
        assert_eq!(wrap("fits", 4), ["fits"]);
        assert_eq!(wrap("a  b", 4), ["a  b"]);
    }

    #[test]
    fn long_names_are_broken_behind_their_separators() {
        assert_eq!(wrap("see /layers/attention/query", 12), ["see", "/layers/", "attention/", "query"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("层层层层", 5), ["层层", "层层"]);
    }

    #[test]
    fn lines_go_on_with_a_margin() {
        assert_eq!(wrap_lines("short\n  a line of words\n", 10), "short\n  a line\n    of\n    words\n");
        assert_eq!(wrap_lines("no end", 20), "no end");
        assert_eq!(wrap_lines("\n\n", 20), "\n\n");
        let command = "byoc repro m.onnx --region r -o r.onnx\n";
        assert_eq!(wrap_lines(command, 20), command);
    }

    #[test]
    fn colours_take_no_column() {
        assert_eq!(columns("\u{1b}[32mok\u{1b}[0m"), 2);
    }
}
