//! The table that people read: each row is printed when it is measured.

/// One line of the table.
pub(super) struct TableRow {
    pub(super) what: String,
    pub(super) ours: String,
    pub(super) reference: String,
    /// The figure that the promise is about, and what was promised of it.
    pub(super) figure: String,
    pub(super) promise: &'static str,
    pub(super) holds: Option<bool>,
}

impl TableRow {
    /// A figure that is itself what was promised.
    pub(super) fn promise(what: &str, figure: String, reference: String, promise: &'static str, holds: bool) -> TableRow {
        TableRow { what: what.into(), ours: figure.clone(), reference, figure, promise, holds: Some(holds) }
    }
}

pub(super) struct Table;

impl Table {
    /// Prints the head.
    pub(super) fn new() -> Table {
        println!("{:<44} {:>16}  {:<26} {:>10}  {:<9}", "what", "ours", "reference, same run", "figure", "promise");
        Table
    }

    pub(super) fn push(&mut self, row: TableRow) {
        let mark = match row.holds {
            Some(true) => "✓",
            Some(false) => "✗ failed",
            None => "",
        };
        println!("{:<44} {:>16}  {:<26} {:>10}  {:<9} {mark}", row.what, row.ours, row.reference, row.figure, row.promise);
    }

    /// A part that could not be measured, with the reason.
    pub(super) fn failed(&mut self, part: &str, error: &anyhow::Error) {
        println!("{part:<44} ✗ could not be measured: {error:#}");
    }
}
