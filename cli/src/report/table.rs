//! Tables of plain text: columns two spaces apart and no lines, so that `grep`, `sort` and `cut` work on them.

use comfy_table::{CellAlignment, presets};

/// A table that is being filled.
pub(crate) struct Table(comfy_table::Table);

impl Table {
    /// A table with these headings. Columns whose heading starts with `>` hold numbers and are aligned to the right.
    pub(crate) fn new(headings: &[&str]) -> Table {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(headings.iter().map(|heading| heading.trim_start_matches('>')));
        let last = headings.len() - 1;
        for (index, heading) in headings.iter().enumerate() {
            if let Some(column) = table.column_mut(index) {
                column.set_padding((0, if index == last { 0 } else { 2 }));
                if heading.starts_with('>') {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
        }
        Table(table)
    }

    /// Adds a row.
    pub(crate) fn row<T: ToString>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.add_row(cells.into_iter().map(|cell| cell.to_string()));
    }

    /// The text, one row a line.
    pub(crate) fn text(&self) -> String {
        self.0.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn columns_line_up_and_numbers_stand_to_the_right() {
        let mut table = Table::new(&["name", ">bytes", "note"]);
        table.row(["a", "10", "x"]);
        table.row(["long name", "7", ""]);
        assert_eq!(table.text(), "name       bytes  note\na             10  x\nlong name      7\n");
    }
}
