//! Tables without borders: columns two blanks apart.

use super::tree::align;
use super::{Line, Page};

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
}
