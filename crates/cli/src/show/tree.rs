//! Trees with aligned columns.

use super::{Line, Page};

/// One entry. The first cell hangs in the tree; the others stand in columns behind it.
#[derive(Clone, Debug, Default)]
pub struct Node {
    pub cells: Vec<Line>,
    /// Further lines of the last cell, below it.
    pub more: Vec<Line>,
    pub below: Vec<Node>,
    /// An empty stretch of stem before this entry.
    pub apart: bool,
}

impl Node {
    pub fn new(head: Line) -> Node {
        Node { cells: vec![head], more: Vec::new(), below: Vec::new(), apart: false }
    }

    #[must_use]
    pub fn cell(mut self, cell: Line) -> Node {
        self.cells.push(cell);
        self
    }

    /// A cell of several lines; none is a cell without text.
    #[must_use]
    pub fn block(mut self, lines: Vec<Line>) -> Node {
        let mut lines = lines.into_iter();
        self.cells.push(lines.next().unwrap_or_default());
        self.more.extend(lines);
        self
    }

    #[must_use]
    pub fn under(mut self, node: Node) -> Node {
        self.below.push(node);
        self
    }

    #[must_use]
    pub fn apart(mut self) -> Node {
        self.apart = true;
        self
    }
}

/// The root stands alone; columns are aligned among all that hang below it.
pub fn tree(root: &Node) -> Page {
    let mut rows = Vec::new();
    grow(root, "", &mut rows);
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.iter().filter(|row| row.len() > 1) {
        for (column, cell) in row.iter().enumerate() {
            match widths.get_mut(column) {
                Some(width) => *width = (*width).max(cell.width()),
                None => widths.push(cell.width()),
            }
        }
    }
    let head =
        root.cells.iter().fold(Line::new(), |line, cell| if line.is_empty() { cell.clone() } else { line.plain("  ").join(cell.clone()) });
    std::iter::once(head).chain(rows.into_iter().map(|row| align(row, &widths))).collect()
}

fn grow(node: &Node, stem: &str, rows: &mut Vec<Vec<Line>>) {
    for (index, child) in node.below.iter().enumerate() {
        let last = index + 1 == node.below.len();
        if child.apart {
            rows.push(vec![Line::new().faint(format!("{stem}│"))]);
        }
        let mut row = vec![Line::new().faint(format!("{stem}{}", if last { "└─ " } else { "├─ " }))];
        let mut cells = child.cells.iter().cloned();
        row[0] = std::mem::take(&mut row[0]).join(cells.next().unwrap_or_default());
        row.extend(cells);
        let columns = row.len();
        rows.push(row);
        let deeper = format!("{stem}{}", if last { "   " } else { "│  " });
        for line in &child.more {
            let mut row = vec![Line::new(); columns.max(2)];
            row[0] = Line::new().faint(deeper.trim_end());
            row[columns.max(2) - 1] = line.clone();
            rows.push(row);
        }
        grow(child, &deeper, rows);
    }
}

/// Cells side by side; the last is not padded, because nothing follows it.
pub(super) fn align(row: Vec<Line>, widths: &[usize]) -> Line {
    let last = row.len().saturating_sub(1);
    row.into_iter().enumerate().fold(Line::new(), |line, (column, cell)| match column == last {
        true => line.join(cell),
        false => line.join(cell.pad(widths.get(column).copied().unwrap_or(0))).plain("  "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line::new().plain(text)
    }

    #[test]
    fn branches_and_columns_line_up() {
        let root = Node::new(line("repository @main"))
            .under(Node::new(line("● worker.1")).cell(line("12 calls")).under(Node::new(line("✓ a")).cell(line("done"))).apart())
            .under(Node::new(line("queue 2 tasks")).apart());
        let expected = "\
repository @main
│
├─ ● worker.1  12 calls
│  └─ ✓ a      done
│
└─ queue 2 tasks
";
        assert_eq!(tree(&root).render(false, None), expected);
        assert!(tree(&root).render(true, None).contains("\x1b[2m├─ \x1b[0m● worker.1  12 calls"));
    }

    #[test]
    fn a_long_cell_goes_on_below_itself() {
        let root = Node::new(line("task"))
            .under(Node::new(line("prompt")).block(vec![line("one"), line("two")]))
            .under(Node::new(line("end")).block(vec![line("a"), line("b")]));
        assert_eq!(tree(&root).render(false, None), "task\n├─ prompt  one\n│          two\n└─ end     a\n           b\n");
    }
}
