//! Every word of the glossary stands for one type, in the file that its row names.

use super::source::Source;
use anyhow::{Context, Result, ensure};
use std::path::Path;

const GLOSSARY: &str = "docs/GLOSSARY.md";
const HEADER: &str = "| word | means | in the code |";

pub fn check(root: &Path, sources: &[Source]) -> Result<Vec<String>> {
    let glossary = std::fs::read_to_string(root.join(GLOSSARY)).with_context(|| format!("{GLOSSARY} cannot be read"))?;
    complaints(&glossary, sources)
}

fn complaints(glossary: &str, sources: &[Source]) -> Result<Vec<String>> {
    let rows = glossary.lines().skip_while(|line| *line != HEADER).skip(2).take_while(|line| line.starts_with('|'));
    let mut complaints = Vec::new();
    let mut count = 0;
    for row in rows {
        count += 1;
        let code = row.trim_matches('|').rsplit('|').next().unwrap_or_default();
        let [name, file] = code.split('`').skip(1).step_by(2).collect::<Vec<_>>()[..] else {
            complaints.push(format!("{GLOSSARY}: `{row}` does not name a type and its file"));
            continue;
        };
        let Some(source) = sources.iter().find(|source| source.path == file) else {
            complaints.push(format!("{GLOSSARY}: there is no file `{file}`"));
            continue;
        };
        let is_type = name.starts_with(|letter: char| letter.is_ascii_uppercase());
        let has = |source: &Source| match is_type {
            true => source.types().iter().any(|(found, ..)| found == name),
            false => source.functions().iter().any(|function| function.name == name),
        };
        if !has(source) {
            complaints.push(format!("{GLOSSARY}: `{file}` has no `{name}`"));
        }
        let others = sources.iter().filter(|other| is_type && other.path != file && other.path.starts_with("crates/") && has(other));
        complaints
            .extend(others.map(|other| format!("`{name}` is a word of the glossary, and {} has a type of that name too", other.path)));
    }
    ensure!(count > 0, "{GLOSSARY} has no table `{HEADER}`");
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(row: &str, others: &str) -> Vec<String> {
        let sources = [Source::of("crates/a/src/ban.rs", "pub struct Ban;\npub fn run() {}\n"), Source::of("crates/b/src/lib.rs", others)];
        complaints(&format!("# Glossary\n\n{HEADER}\n|---|---|---|\n{row}\n\n| `later` | table |\n"), &sources).unwrap()
    }

    #[test]
    fn a_word_has_one_type_in_the_file_that_is_named() {
        let row = "| ban | a lasting no | `Ban`, `crates/a/src/ban.rs` |";
        assert_eq!(check(row, "struct Other;\n#[cfg(test)]\nmod tests { struct Ban; }"), Vec::<String>::new());
        assert_eq!(check("| door | where calls pass | `run`, `crates/a/src/ban.rs` |", "fn run() {}"), Vec::<String>::new());
        assert_eq!(check(row, "struct Ban;"), ["`Ban` is a word of the glossary, and crates/b/src/lib.rs has a type of that name too"]);
        assert_eq!(check("| ban | a | `Bann`, `crates/a/src/ban.rs` |", "").len(), 1);
        assert_eq!(check("| ban | a | `Ban`, `crates/a/src/bans.rs` |", "").len(), 1);
        assert_eq!(check("| ban | a | in the code |", "").len(), 1);
        assert!(complaints("no table", &[]).is_err());
    }
}
