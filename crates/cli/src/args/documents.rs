//! Every `skep …` that a document names exists: its commands, its flags, and, in examples, all of the line.

use super::{command, find};
use std::path::{Path, PathBuf};

/// A command as a document has it.
#[derive(Debug, PartialEq)]
struct Named {
    line: usize,
    words: Vec<String>,
    /// It stands in a block of its own, so it is meant to be typed.
    is_example: bool,
}

/// The Markdown at the workspace's root and in `docs`, decisions too.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut found = Vec::new();
    for folder in ["", "docs", "docs/decisions"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    found.sort();
    found
}

/// The commands of a document: in backticks, and in blocks the lines that start with `skep` or a prompt and `skep`.
fn commands(document: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (index, line) in document.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let texts: Vec<&str> = match in_block {
            true => vec![line.trim_start().trim_start_matches("$ ")],
            false => line.split('`').skip(1).step_by(2).collect(),
        };
        for text in texts.iter().flat_map(|text| text.split(" && ")).filter(|text| text.starts_with("skep ")) {
            let words = words(text);
            if words.len() > 1 {
                found.push(Named { line: index + 1, words, is_example: in_block });
            }
        }
    }
    found
}

/// The words of a line as a shell has them, up to a comment or another command.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for letter in line.chars().chain([' ']) {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#' | '|' | ';' | '>' | '<' | '&') if word.is_none() => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    words
}

/// Does a word stand for what the reader puts there?
fn is_placeholder(word: &str) -> bool {
    let is_name = word.chars().any(|letter| letter.is_ascii_uppercase()) && !word.chars().any(|letter| letter.is_ascii_lowercase());
    is_name || word.contains('…') || word.contains("...") || word.starts_with('[') || word.contains("=value")
}

/// Pid 1 of a container is called so, before there is a command line.
const GUEST: &str = "__room";

/// What is wrong with a command, if anything is.
fn mistake(named: &Named) -> Option<String> {
    if named.words[1] == GUEST {
        return None;
    }
    let whole = command();
    let own: Vec<&str> = named.words.iter().skip(1).map(String::as_str).take_while(|word| *word != "--").collect();
    let mut path = String::new();
    let mut at = &whole;
    let mut rest = own.as_slice();
    while let [word, more @ ..] = rest
        && at.has_subcommands()
    {
        match at.find_subcommand(word) {
            Some(next) => {
                path = format!("{path} {word}").trim().to_owned();
                at = next;
                rest = more;
            }
            None if word.starts_with('-') || is_placeholder(word) || at.get_positionals().next().is_some() => break,
            None => return Some(format!("there is no `skep {}`", format!("{path} {word}").trim())),
        }
    }
    let at = find(&whole, &path)?;
    let flags = |name: &str| at.get_arguments().chain(whole.get_arguments()).any(|argument| argument.get_long() == Some(name));
    for word in rest {
        let name = word.trim_matches(['[', ']']).strip_prefix("--").map(|name| name.split(['=', ']']).next().unwrap_or_default());
        if let Some(name) = name
            && !flags(name)
            && !["help", "version"].contains(&name)
        {
            return Some(format!("`skep {path}` has no `--{name}`"));
        }
    }
    if named.is_example && !named.words.iter().any(|word| is_placeholder(word)) {
        return whole.try_get_matches_from(&named.words).err().map(|error| error.to_string());
    }
    None
}

/// How many commands a text names.
pub(crate) fn seen(text: &str) -> usize {
    commands(text).len()
}

/// What is wrong with the commands that a text names.
pub(crate) fn mistakes(text: &str) -> Vec<String> {
    commands(text).iter().filter_map(mistake).collect()
}

#[test]
fn commands_in_documents_exist() {
    let mut wrong = Vec::new();
    let mut seen = 0;
    for path in documents() {
        for named in commands(&std::fs::read_to_string(&path).unwrap()) {
            seen += 1;
            wrong.extend(mistake(&named).map(|why| format!("{}:{}: {why}", path.display(), named.line)));
        }
    }
    assert!(seen > 100, "only {seen} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_command_that_is_none_is_found() {
    let first = |text: &str| commands(text).iter().find_map(mistake);
    for good in [
        "`skep journal verify [--offline]` and `skep act … --record`",
        "`skep review` shows it, `skep review show r-1` more; `git or skep itself`",
        "```\n$ skep act \"tidy up\" --brain native --record   # what it does\nskep journal log --limit 4 | head\n```",
        "`skep help COMMAND`",
    ] {
        assert_eq!(first(good), None, "{good}");
        assert!(!commands(good).is_empty(), "{good}");
    }
    assert_eq!(first("run `skep jornal verify`"), Some("there is no `skep jornal`".to_owned()));
    assert_eq!(first("run `skep journal verfy`"), Some("there is no `skep journal verfy`".to_owned()));
    assert_eq!(first("run `skep act --recrod`"), Some("`skep act` has no `--recrod`".to_owned()));
    assert!(first("```\nskep diff 7\n```").is_some(), "an example is parsed as a whole");
}
