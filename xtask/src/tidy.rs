//! What neither the compiler nor clippy sees: names, lengths, layers, words.
//!
//! Names, lengths and texts that are not mended yet are known to `xtask/tidy.txt`, which can only get shorter. Edges, sizes
//! of crates, events, the glossary, titles, chores and files of tests have no such list.

mod chores;
mod crate_sizes;
mod edges;
mod events;
mod glossary;
mod list;
mod size;
mod source;
mod targets;
mod texts;
mod titles;
mod types;
mod words;

use crate::run::{cargo, output, root};
use anyhow::{Context, Result, bail, ensure};
use list::TidyFinding;
use source::Source;

const LIST: &str = "xtask/tidy.txt";
const ARGUMENTS: &str = "crates/cli/src/args.rs";

pub fn tidy(arguments: &[String]) -> Result<()> {
    let write = match arguments {
        [] => false,
        [flag] if flag == "--write" => true,
        _ => bail!("`cargo xtask tidy` takes `--write` and nothing else"),
    };
    let sources = source::read(&root(), &["crates", "xtask"])?;
    let findings = findings(&sources)?;
    let list = root().join(LIST);
    if write {
        std::fs::write(&list, list::written(&findings)).with_context(|| format!("{LIST} cannot be written"))?;
    }
    let known = if list.exists() { std::fs::read_to_string(&list)? } else { String::new() };
    let mut complaints = list::complaints(&findings, &known)?;
    let architecture = std::fs::read_to_string(root().join("ARCHITECTURE.md"))?;
    let metadata = output(cargo().args(["metadata", "--no-deps", "--format-version", "1", "--offline"]))?;
    complaints.extend(edges::complaints(&edges::built(&metadata)?, &edges::drawn(&architecture).context("ARCHITECTURE.md")?));
    let house = std::fs::read_to_string(root().join("docs/house.md"))?;
    complaints.extend(crate_sizes::complaints(&crate_sizes::counted(&sources), &crate_sizes::told(&house).context("docs/house.md")?));
    complaints.extend(targets::check(&metadata)?);
    complaints.extend(events::check(&root())?);
    complaints.extend(glossary::check(&root(), &sources)?);
    complaints.extend(chores::check(&root())?);
    complaints.extend(words::check(&sources));
    match titles::read(&root()) {
        titles::Titles::Read(long) => complaints.extend(long),
        titles::Titles::Unknown(why) => eprintln!("{why}"),
    }
    for complaint in &complaints {
        eprintln!("✗ {complaint}");
    }
    ensure!(complaints.is_empty(), "{} findings", complaints.len());
    Ok(())
}

fn findings(sources: &[Source]) -> Result<Vec<TidyFinding>> {
    let arguments = sources.iter().find(|source| source.path == ARGUMENTS).with_context(|| format!("{ARGUMENTS} is missing"))?;
    let commands = texts::commands(arguments);
    ensure!(commands.iter().any(|command| command == "trust"), "{ARGUMENTS} names no commands");
    let mut findings = size::files(sources);
    findings.extend(size::functions(sources));
    findings.extend(types::doubled(sources));
    findings.extend(texts::below_faces(sources, &commands));
    Ok(findings)
}
