//! Who uses whom: the table of crates in ARCHITECTURE.md, held against the manifests, both ways.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const HEADER: &str = "| crate | uses | its tests use too |";

/// What one crate of the workspace uses of the others.
#[derive(Debug, Default, PartialEq)]
pub struct Edges {
    uses: BTreeSet<String>,
    in_tests: BTreeSet<String>,
}

pub type Graph = BTreeMap<String, Edges>;

/// The edges that the manifests have, as `cargo metadata --no-deps` tells them.
pub fn built(metadata: &str) -> Result<Graph> {
    let metadata: Value = serde_json::from_str(metadata).context("`cargo metadata` printed no JSON")?;
    let mut graph = Graph::new();
    for package in metadata["packages"].as_array().context("`cargo metadata` names no packages")? {
        let mut edges = Edges::default();
        for dependency in package["dependencies"].as_array().into_iter().flatten().filter(|dependency| dependency["path"].is_string()) {
            let name = dependency["name"].as_str().unwrap_or_default().to_owned();
            match dependency["kind"].as_str() {
                Some("dev") => edges.in_tests.insert(name),
                _ => edges.uses.insert(name),
            };
        }
        edges.in_tests = &edges.in_tests - &edges.uses;
        graph.insert(package["name"].as_str().unwrap_or_default().to_owned(), edges);
    }
    Ok(graph)
}

/// The edges that a document draws.
pub fn drawn(document: &str) -> Result<Graph> {
    let rows = document.lines().skip_while(|line| *line != HEADER).skip(2).take_while(|line| line.starts_with('|'));
    let mut graph = Graph::new();
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [name, uses, in_tests] = cells.as_slice() else { anyhow::bail!("`{row}` has not the three cells of `{HEADER}`") };
        let name = marked(name).pop_first().with_context(|| format!("`{row}` names no crate"))?;
        graph.insert(name, Edges { uses: marked(uses), in_tests: marked(in_tests) });
    }
    anyhow::ensure!(!graph.is_empty(), "there is no table `{HEADER}`");
    Ok(graph)
}

/// The words in backticks.
fn marked(cell: &str) -> BTreeSet<String> {
    cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
}

/// What one has and the other has not.
pub fn complaints(built: &Graph, drawn: &Graph) -> Vec<String> {
    let mut complaints = Vec::new();
    let empty = Edges::default();
    let names: BTreeSet<&String> = built.keys().chain(drawn.keys()).collect();
    for name in names {
        if !drawn.contains_key(name) {
            complaints.push(format!("ARCHITECTURE.md does not draw the crate `{name}`"));
        }
        if !built.contains_key(name) {
            complaints.push(format!("ARCHITECTURE.md draws the crate `{name}`, which is not in the workspace"));
        }
        let (real, said) = (built.get(name).unwrap_or(&empty), drawn.get(name).unwrap_or(&empty));
        for (real, said, whose) in [(&real.uses, &said.uses, ""), (&real.in_tests, &said.in_tests, " in tests")] {
            complaints
                .extend((real - said).iter().map(|other| format!("`{name}` uses `{other}`{whose}, and ARCHITECTURE.md does not draw it")));
            complaints.extend(
                (said - real).iter().map(|other| format!("ARCHITECTURE.md draws `{name}` → `{other}`{whose}, and no manifest has it")),
            );
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"packages": [
        {"name": "kernel", "dependencies": [
            {"name": "world", "kind": null, "path": "/w"}, {"name": "serde", "kind": null},
            {"name": "testkit", "kind": "dev", "path": "/t"}, {"name": "world", "kind": "dev", "path": "/w"}]},
        {"name": "world", "dependencies": []}]}"#;

    fn check(rows: &str) -> Vec<String> {
        let document = format!("# Title\n\n{HEADER}\n|---|---|---|\n{rows}\ntext\n| `later` | `table` | |\n");
        complaints(&built(METADATA).unwrap(), &drawn(&document).unwrap())
    }

    #[test]
    fn a_drawing_that_is_true_passes_and_each_difference_is_told() {
        assert_eq!(check("| `kernel` | `world` | `testkit` |\n| `world` | | |\n"), Vec::<String>::new());
        assert_eq!(
            check("| `kernel` | `testkit` `policy` | |\n| `world` | | |\n"),
            [
                "`kernel` uses `world`, and ARCHITECTURE.md does not draw it",
                "ARCHITECTURE.md draws `kernel` → `policy`, and no manifest has it",
                "ARCHITECTURE.md draws `kernel` → `testkit`, and no manifest has it",
                "`kernel` uses `testkit` in tests, and ARCHITECTURE.md does not draw it",
            ]
        );
        assert_eq!(check("| `kernel` | `world` | `testkit` |\n"), ["ARCHITECTURE.md does not draw the crate `world`"]);
        assert!(drawn("no table").is_err());
    }
}
