//! How large the crates are: the table in docs/house.md, held against the sources.
//!
//! The table is in hundreds of lines and may be off by a tenth, so that not every change has to touch it.

use super::source::Source;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};

const HEADER: &str = "| crate | before | after | why |";

/// Lines of each crate below its `src`.
pub fn counted(sources: &[Source]) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for source in sources {
        if let ["crates", name, "src", ..] = source.path.split('/').collect::<Vec<_>>().as_slice() {
            *lines.entry((*name).to_owned()).or_default() += source.text.lines().count();
        }
    }
    lines
}

/// What a document says of that.
pub fn told(document: &str) -> Result<BTreeMap<String, usize>> {
    let rows = document.lines().skip_while(|line| *line != HEADER).skip(2).take_while(|line| line.starts_with('|'));
    let row = |row: &str| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, _, after, _] = cells.as_slice() else { anyhow::bail!("`{row}` has not the four cells of `{HEADER}`") };
        let lines = after.replace(',', "").parse().with_context(|| format!("`{after}` is no number of lines"))?;
        Ok((name.trim_matches('`').to_owned(), lines))
    };
    let told: BTreeMap<String, usize> = rows.map(row).collect::<Result<_>>()?;
    ensure!(!told.is_empty(), "there is no table `{HEADER}`");
    Ok(told)
}

pub fn complaints(counted: &BTreeMap<String, usize>, told: &BTreeMap<String, usize>) -> Vec<String> {
    let names: BTreeSet<&String> = counted.keys().chain(told.keys()).collect();
    let off = |name: &&String| match (counted.get(*name), told.get(*name)) {
        (Some(has), Some(says)) => (has.abs_diff(*says) > has / 10).then(|| {
            let rounded = (has + 50) / 100 * 100;
            format!("docs/house.md gives `{name}` {says} lines, and it has {has}: write {rounded}")
        }),
        (Some(has), None) => Some(format!("docs/house.md has no row for `{name}`, which has {has} lines")),
        _ => Some(format!("docs/house.md has a row for `{name}`, which is no crate")),
    };
    names.iter().filter_map(off).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str =
        "# Sizes\n\n| crate | before | after | why |\n|---|---|---|---|\n| `a` | – | 1,000 | new |\n| `b` | 5 | 100 | |\n\nmore\n";

    fn of(sizes: &[(&str, usize)]) -> BTreeMap<String, usize> {
        sizes.iter().map(|(name, lines)| ((*name).to_owned(), *lines)).collect()
    }

    #[test]
    fn a_table_may_be_off_by_a_tenth() {
        let told = told(DOCUMENT).unwrap();
        assert_eq!(told, of(&[("a", 1000), ("b", 100)]));
        assert_eq!(complaints(&of(&[("a", 1090), ("b", 92)]), &told), Vec::<String>::new());
        let off = complaints(&of(&[("a", 1250), ("c", 7)]), &told);
        assert_eq!(off.len(), 3, "{off:?}");
        assert_eq!(off[0], "docs/house.md gives `a` 1000 lines, and it has 1250: write 1300");
        assert!(super::told("no table").is_err());
    }

    #[test]
    fn tests_beside_the_sources_do_not_count() {
        let sources = [
            ("crates/a/src/lib.rs", "x\ny\n"),
            ("crates/a/src/b/c.rs", "z\n"),
            ("crates/a/tests/it.rs", "t\n"),
            ("xtask/src/main.rs", "m\n"),
        ];
        assert_eq!(counted(&sources.map(|(path, text)| Source::of(path, text))), of(&[("a", 3)]));
    }
}
