//! Tables without borders: columns two blanks apart.

use super::tree::align;
use super::{Line, Page};

/// Fewer columns are no column.
const LAST_MIN: usize = 24;

/// A table whose last column goes on below itself where `columns` are too few for it.
pub fn table_wrapped(rows: Vec<Vec<Line>>, columns: Option<usize>) -> Page {
    let last = rows.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(1);
    let width = |column| rows.iter().filter_map(|row| row.get(column)).map(Line::width).max().unwrap_or(0);
    let before: usize = (0..last).map(|column| width(column) + 2).sum();
    let page = table(rows);
    let Some(columns) = columns else { return page };
    let deeper = if before + LAST_MIN <= columns { before } else { 2 };
    page.0.into_iter().flat_map(|line| line.wrap_under(columns, deeper)).collect()
}

pub fn table(rows: Vec<Vec<Line>>) -> Page {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> =
        (0..columns).map(|column| rows.iter().filter_map(|row| row.get(column)).map(Line::width).max().unwrap_or(0)).collect();
    rows.into_iter().map(|row| align(row, &widths)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let line = |text: &str| Line::new().plain(text);
        let page = table(vec![vec![line("seq"), line("kind")], vec![line("1"), line("kernel.started")], vec![line("12345"), line("x")]]);
        assert_eq!(page.render(false, None), "seq    kind\n1      kernel.started\n12345  x\n");
    }

    #[test]
    fn the_last_column_goes_on_below_itself() {
        let line = |text: &str| Line::new().plain(text);
        let rows = vec![vec![line("1"), line("said"), line("a word and many more words that do not fit")], vec![line("22"), line("x")]];
        let wide = "1   said  a word and many more words that do not fit\n22  x\n";
        assert_eq!(table_wrapped(rows.clone(), None).render(false, None), wide);
        assert_eq!(table_wrapped(rows.clone(), Some(60)).render(false, None), wide);
        let narrow = "1   said  a word and many more\n          words that do not fit\n22  x\n";
        assert_eq!(table_wrapped(rows.clone(), Some(34)).render(false, None), narrow);
        let page = table_wrapped(rows, Some(20));
        assert!(page.0.iter().all(|line| line.width() <= 20) && page.render(false, None).contains("\n  "), "{page:?}");
    }
}
