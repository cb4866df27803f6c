//! Tables for people: columns as wide as their widest cell, three spaces between.

use super::colour;

/// A table that grows by rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    headers: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// How wide the columns are, so that rows that come later stand below the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Widths(Vec<usize>);

const GAP: usize = 3;

impl Table {
    pub fn new<T: AsRef<str>>(headers: impl IntoIterator<Item = T>) -> Self {
        Self { headers: headers.into_iter().map(|it| it.as_ref().to_uppercase()).collect(), rows: Vec::new() }
    }

    /// Cells are made safe for a terminal: no line breaks, no escapes of others.
    pub fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| printable(cell.as_ref())).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// As wide as these, or wider where that is needed.
    pub fn widths(&self, least: &Widths) -> Widths {
        let count = self.headers.len();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let widest = cells.chain(self.headers.get(column)).map(|cell| cell.chars().count()).max();
            widest.unwrap_or(0).max(least.0.get(column).copied().unwrap_or(0))
        };
        Widths((0..count).map(width).collect())
    }

    pub fn render(&self, widths: &Widths, headers: bool, colours: bool) -> String {
        let mut text = String::new();
        if headers {
            let line = line(&self.headers, widths, false);
            text.push_str(&if colours { colour::bold(&line) } else { line });
            text.push('\n');
        }
        for row in &self.rows {
            text.push_str(&line(row, widths, colours));
            text.push('\n');
        }
        text
    }

    /// By itself, with headers.
    pub fn plain(&self) -> String {
        self.render(&self.widths(&Widths::default()), true, false)
    }
}

fn line(cells: &[String], widths: &Widths, colours: bool) -> String {
    let mut line = String::new();
    let last = cells.iter().rposition(|cell| !cell.is_empty());
    for (column, cell) in cells.iter().enumerate() {
        match colour::of_word(cell).filter(|_| colours) {
            Some(escape) => line.push_str(&colour::paint(escape, cell)),
            None => line.push_str(cell),
        }
        if Some(column) >= last {
            break;
        }
        let width = widths.0.get(column).copied().unwrap_or(0);
        let blank = width.saturating_sub(cell.chars().count()) + GAP;
        line.extend(std::iter::repeat_n(' ', blank));
    }
    line
}

/// What somebody else wrote, without anything that a terminal would obey.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|letter| match letter {
            '\n' | '\r' | '\t' => ' ',
            letter if letter.is_control() => '\u{fffd}',
            letter => letter,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_have_no_end_of_blanks() {
        let mut table = Table::new(["Name", "Waits For", "Age"]);
        table.row(["a", "", "5s"]);
        table.row(["longer-name", "Quota", ""]);
        assert_eq!(
            table.plain(),
            "NAME          WAITS FOR   AGE\na                         5s\nlonger-name   Quota\n"
        );
    }

    #[test]
    fn later_rows_stand_below_the_first_and_escapes_of_others_are_not_obeyed() {
        let mut first = Table::new(["Name", "Stage"]);
        first.row(["longer-name", "ready"]);
        let widths = first.widths(&Widths::default());
        let mut later = Table::new(["Name", "Stage"]);
        later.row(["b", "\x1b[31m\nx"]);
        assert_eq!(later.render(&later.widths(&widths), false, false), "b             \u{fffd}[31m x\n");
        assert_eq!(first.render(&widths, false, true), "longer-name   \x1b[32mready\x1b[0m\n");
    }
}
