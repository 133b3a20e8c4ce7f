//! Tables of plain text: columns two spaces apart and no lines, so that `grep`, `sort` and `cut` work on them. On a terminal
//! they fit into its width: long cells go on in the next line, and what does not fit at all is left out and named.

use super::terminal::{self, Tone, toned};
use super::wrap::{columns, longest_word, wrap};

/// Between columns.
const GAP: usize = 2;

/// No column of text is made narrower than this while others can be.
const NARROW: usize = 16;

/// A table that is being filled.
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

struct Column {
    heading: String,
    /// Numbers, aligned to the right, never broken.
    number: bool,
    /// Left out where there is no room, the last one first.
    optional: bool,
    /// The meaning of a cell.
    tone: fn(&str) -> Option<Tone>,
}

impl Table {
    /// A table with these headings. Columns whose heading starts with `>` hold numbers and are aligned to the right; those
    /// with `?` in front are left out on a terminal that has no room for them.
    pub(crate) fn new(headings: &[&str]) -> Table {
        let column = |heading: &&str| {
            let optional = heading.starts_with('?');
            let heading = heading.trim_start_matches('?');
            let number = heading.starts_with('>');
            let heading = heading.trim_start_matches('>').to_owned();
            Column { heading, number, optional, tone: |_| None }
        };
        Table { columns: headings.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Colours the cells of a column by what they say.
    pub(crate) fn tone(mut self, heading: &str, tone: fn(&str) -> Option<Tone>) -> Table {
        self.columns.iter_mut().filter(|column| column.heading == heading).for_each(|column| column.tone = tone);
        self
    }

    /// Adds a row. Cells are one line each: line breaks in names become spaces.
    pub(crate) fn row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) {
        let mut cells: Vec<_> =
            cells.into_iter().map(|cell| cell.to_string().replace(['\n', '\r', '\t'], " ")).collect();
        cells.resize(self.columns.len(), String::new());
        self.rows.push(cells);
    }

    /// The text: one row a line, unless that does not fit on the terminal.
    pub(crate) fn text(&self) -> String {
        self.fitted(terminal::width())
    }

    /// The text in that many columns, or as wide as it is.
    fn fitted(&self, width: Option<usize>) -> String {
        let natural: Vec<usize> = (0..self.columns.len()).map(|at| self.widest(at, columns)).collect();
        let Some(width) = width else { return self.lines(&(0..natural.len()).collect::<Vec<_>>(), &natural) };
        let mut shown: Vec<usize> = (0..natural.len()).collect();
        let mut left_out = Vec::new();
        loop {
            let words = |at: usize| if self.columns[at].number { natural[at] } else { self.widest(at, longest_word) };
            if let Some(widths) = shrunk(&shown, &natural, words, width) {
                return self.lines(&shown, &widths) + &note(&left_out);
            }
            let Some(last) = shown.iter().rposition(|&at| self.columns[at].optional) else { break };
            left_out.insert(0, self.columns[shown.remove(last)].heading.as_str());
        }
        let narrow = |at: usize| if self.columns[at].number { natural[at] } else { natural[at].min(NARROW) };
        match shrunk(&shown, &natural, narrow, width) {
            Some(widths) => self.lines(&shown, &widths) + &note(&left_out),
            None => self.records(width),
        }
    }

    fn widest(&self, at: usize, measure: fn(&str) -> usize) -> usize {
        let cells = self.rows.iter().map(|row| row[at].as_str());
        cells.chain([self.columns[at].heading.as_str()]).map(measure).max().unwrap_or(0)
    }

    fn lines(&self, shown: &[usize], widths: &[usize]) -> String {
        let headings: Vec<_> = self.columns.iter().map(|column| column.heading.clone()).collect();
        let mut text = self.lines_of_row(&headings, shown, widths, |_| Some(Tone::Strong));
        for row in &self.rows {
            text += &self.lines_of_row(row, shown, widths, |at| (self.columns[at].tone)(&row[at]));
        }
        text
    }

    fn lines_of_row(
        &self,
        cells: &[String],
        shown: &[usize],
        widths: &[usize],
        tone: impl Fn(usize) -> Option<Tone>,
    ) -> String {
        let wrapped: Vec<_> = shown.iter().map(|&at| wrap(&cells[at], widths[at])).collect();
        let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
        let mut text = String::new();
        for line in 0..height {
            let mut pending = 0;
            for (&at, cell) in shown.iter().zip(&wrapped) {
                let piece = cell.get(line).map_or("", String::as_str);
                let room = widths[at] - columns(piece).min(widths[at]);
                let (before, after) = if self.columns[at].number { (room, 0) } else { (0, room) };
                if !piece.is_empty() {
                    text += &" ".repeat(pending + before);
                    text += &tone(at).map_or_else(|| piece.to_owned(), |tone| toned(tone, piece));
                    pending = after + GAP;
                } else {
                    pending += widths[at] + GAP;
                }
            }
            text.push('\n');
        }
        text
    }

    /// Where the terminal is too narrow for columns: a line for each cell.
    fn records(&self, width: usize) -> String {
        let heading = self.columns.iter().map(|column| columns(&column.heading)).max().unwrap_or(0);
        let mut text = String::new();
        for row in &self.rows {
            for (column, cell) in self.columns.iter().zip(row).filter(|(_, cell)| !cell.is_empty()) {
                let lines = wrap(cell, width.saturating_sub(heading + GAP));
                for (index, line) in lines.iter().enumerate() {
                    let name = if index == 0 { column.heading.as_str() } else { "" };
                    text += &format!("{name:heading$}  {line}\n");
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Widths of the columns that are shown so that they fit, the widest made narrower first and none below `least`; `None` if
/// that is not possible.
fn shrunk(shown: &[usize], natural: &[usize], least: impl Fn(usize) -> usize, width: usize) -> Option<Vec<usize>> {
    let gaps = GAP * shown.len().saturating_sub(1);
    let least: Vec<usize> = (0..natural.len()).map(least).collect();
    let under = |cap: usize| (0..natural.len()).map(|at| natural[at].min(cap.max(least[at]))).collect::<Vec<_>>();
    let fits = |widths: &[usize]| shown.iter().map(|&at| widths[at]).sum::<usize>() + gaps <= width;
    // The largest cap that fits; no column is wider than the terminal.
    (0..=width).rev().map(under).find(|widths| fits(widths))
}

fn note(left_out: &[&str]) -> String {
    match left_out {
        [] => String::new(),
        names => format!("(no room for: {}; --wide shows all)\n", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["name", ">bytes", "reason", "?note"]);
        table.row(["/layers/0/attention", "10", "a type that is not taken", "x"]);
        table.row(["short", "1234", "", "packed as rows"]);
        table
    }

    #[test]
    fn columns_line_up_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["name", ">bytes", "note"]);
        table.row(["a", "10", "x"]);
        table.row(["long name", "7", ""]);
        assert_eq!(table.text(), "name       bytes  note\na             10  x\nlong name      7\n");
    }

    #[test]
    fn without_a_limit_a_row_is_a_line() {
        let expected = "name                 bytes  reason                    note\n\
                        /layers/0/attention     10  a type that is not taken  x\n\
                        short                 1234                            packed as rows\n";
        assert_eq!(table().fitted(None), expected);
        assert_eq!(table().fitted(Some(70)), expected);
    }

    #[test]
    fn text_goes_on_in_the_next_line() {
        let expected = "name                 bytes  reason             note\n\
                        /layers/0/attention     10  a type that is     x\n\
                        \u{20}                           not taken\n\
                        short                 1234                     packed as rows\n";
        assert_eq!(table().fitted(Some(61)), expected);
    }

    #[test]
    fn optional_columns_go_first() {
        let expected = "name                 bytes  reason\n\
                        /layers/0/attention     10  a type\n\
                        \u{20}                           that is\n\
                        \u{20}                           not taken\n\
                        short                 1234\n\
                        (no room for: note; --wide shows all)\n";
        assert_eq!(table().fitted(Some(37)), expected);
    }

    #[test]
    fn names_are_broken_at_last_and_then_there_are_no_columns() {
        let mut long = Table::new(&["name", ">bytes", "reason"]);
        long.row(["/layers/0/attention/self/query/weight", "10", "a type that is not taken"]);
        let broken = "name                bytes  reason\n\
                      /layers/0/             10  a type that is not\n\
                      attention/self/            taken\n\
                      query/weight\n";
        assert_eq!(long.fitted(Some(45)), broken);
        let expected = "name    /layers/0/\n\
                        \u{20}       attention\n\
                        bytes   10\n\
                        reason  a type that\n\
                        \u{20}       is not taken\n\
                        note    x\n\
                        \n\
                        name    short\n\
                        bytes   1234\n\
                        note    packed as\n\
                        \u{20}       rows\n\
                        \n";
        assert_eq!(table().fitted(Some(20)), expected);
    }
}
