//! Describes a wrong result such that it tells where a kernel went wrong: how many elements, where, and what they are.

/// The side of the square of elements in which positions are counted, and of the cells of its map.
const SQUARE: usize = 64;
const CELL: usize = 8;
const CELLS: usize = SQUARE / CELL;

/// The wrong elements of a matrix of so many columns, or of several, one after another.
pub(crate) struct Wrong {
    /// The worst one: its place, what was found and what was expected.
    worst: (usize, f64, f64),
    /// Its difference as a part of what is allowed.
    part: f64,
    count: usize,
    nan: usize,
    zero: usize,
    rows: (usize, usize),
    columns: (usize, usize),
    /// By row and column in squares of 64: how many are wrong in each cell of 8 x 8.
    cells: [[usize; CELLS]; CELLS],
    /// What was found over what was expected, of those that are neither zero nor NaN.
    factors: Vec<f64>,
}

impl Wrong {
    /// Looks at all elements, given as found and expected and the difference as a part of what is allowed. The greatest
    /// part, or what is wrong.
    pub(crate) fn find(
        all: impl Iterator<Item = (f64, f64, f64)>,
        columns: usize,
    ) -> std::result::Result<f64, Box<Wrong>> {
        let (mut wrong, mut greatest) = (None, 0f64);
        for (at, (found, expected, part)) in all.enumerate() {
            if part <= 1.0 {
                greatest = greatest.max(part);
            } else {
                let wrong = wrong.get_or_insert_with(|| Box::new(Wrong::new(at, found, expected)));
                wrong.add(at, (found, expected, part), columns.max(1));
            }
        }
        wrong.map_or(Ok(greatest), Err)
    }

    fn new(at: usize, found: f64, expected: f64) -> Wrong {
        Wrong {
            worst: (at, found, expected),
            part: 0.0,
            count: 0,
            nan: 0,
            zero: 0,
            rows: (usize::MAX, 0),
            columns: (usize::MAX, 0),
            cells: [[0; CELLS]; CELLS],
            factors: Vec::new(),
        }
    }

    fn add(&mut self, at: usize, (found, expected, part): (f64, f64, f64), columns: usize) {
        let (row, column) = (at / columns, at % columns);
        self.count += 1;
        self.nan += usize::from(found.is_nan());
        self.zero += usize::from(found == 0.0);
        self.rows = (self.rows.0.min(row), self.rows.1.max(row));
        self.columns = (self.columns.0.min(column), self.columns.1.max(column));
        self.cells[row % SQUARE / CELL][column % SQUARE / CELL] += 1;
        // Those that are NaN need no other description.
        if part > self.part {
            (self.worst, self.part) = ((at, found, expected), part);
        }
        if found.is_finite() && found != 0.0 && expected != 0.0 {
            self.factors.push(found / expected);
        }
    }

    /// One line; `of` is the number of all elements.
    pub(crate) fn text(&self, of: usize) -> String {
        let Wrong { worst: (at, found, expected), part, count, nan, zero, rows, columns, .. } = self;
        let mut text = match nan {
            nan if nan == count => format!("{count} of {of} elements are NaN"),
            _ => format!(
                "element {at} of {of} is {found:e}, expected {expected:e}: {part:.1} times what is allowed; {count} are \
                 wrong, {nan} of them NaN and {zero} zero"
            ),
        };
        text += &format!("; rows {} to {}, columns {} to {}", rows.0, rows.1, columns.0, columns.1);
        let mut factors = self.factors.clone();
        factors.sort_by(f64::total_cmp);
        match factors[..] {
            [] => {}
            [one] => text += &format!("; found / expected is {one:.3}"),
            [lowest, .., highest] => {
                let middle = factors[factors.len() / 2];
                text += &format!("; found / expected is {middle:.3}, from {lowest:.3} to {highest:.3}");
            }
        }
        let most = self.cells.iter().flatten().max().copied().unwrap_or(1);
        let cell = |&wrong: &usize| match wrong {
            0 => '.',
            wrong if 2 * wrong < most => '+',
            _ => '#',
        };
        let map: Vec<String> = self.cells.iter().map(|row| row.iter().map(cell).collect()).collect();
        text + &format!("; by row and column modulo {SQUARE}: {}", map.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(columns: usize, all: &[(f64, f64, f64)]) -> Result<f64, String> {
        Wrong::find(all.iter().copied(), columns).map_err(|wrong| wrong.text(all.len()))
    }

    #[test]
    fn the_greatest_part_where_nothing_is_wrong() {
        assert_eq!(told(2, &[(1.0, 1.0, 0.0), (1.1, 1.0, 0.5), (1.0, 1.0, 0.2)]), Ok(0.5));
    }

    #[test]
    fn where_and_what_is_told() {
        // Rows of 16: the second half of row 1 is twice what it should be.
        let element = |at: usize| if at >= 24 { (4.0, 2.0, 3.0 + at as f64) } else { (2.0, 2.0, 0.0) };
        let found = told(16, &(0..32).map(element).collect::<Vec<_>>());
        let expected = "element 31 of 32 is 4e0, expected 2e0: 34.0 times what is allowed; 8 are wrong, 0 of them NaN and \
                        0 zero; rows 1 to 1, columns 8 to 15; found / expected is 2.000, from 2.000 to 2.000; by row and \
                        column modulo 64: .#...... ........ ........ ........ ........ ........ ........ ........";
        assert_eq!(found, Err(expected.into()));
    }

    #[test]
    fn one_wrong_element_is_told_as_many_are() {
        let found = told(1, &[(4.0, 2.0, 3.0)]);
        assert!(found.is_err_and(|text| text.contains("columns 0 to 0; found / expected is 2.000; by row")));
    }

    #[test]
    fn what_was_never_written_is_nan() {
        let found = told(1, &[(f64::NAN, 1.0, f64::NAN), (1.0, 1.0, 0.0)]);
        assert!(
            found.is_err_and(|text| text.starts_with("1 of 2 elements are NaN; rows 0 to 0, columns 0 to 0; by row"))
        );
    }
}
