//! Hints are typed: below the faces nobody says which command would help.

use super::list::{TidyCheck, TidyFinding};
use super::source::Source;

/// The crates that speak to people, and the one that plays them.
const FACES: [&str; 4] = ["cli", "server", "wire", "testkit"];

/// `commands` are the first words that `skep` takes.
pub fn below_faces(sources: &[Source], commands: &[String]) -> Vec<TidyFinding> {
    let mut found = Vec::new();
    for source in sources {
        let mut parts = source.path.split('/');
        let is_below = parts.next() == Some("crates") && parts.next().is_some_and(|name| !FACES.contains(&name));
        if !is_below || source.is_test {
            continue;
        }
        let texts = source.literals.iter().filter(|literal| !source.is_tested_only(literal.at) && names_command(&literal.text, commands));
        let lines: Vec<String> = texts.map(|literal| source.line_of(literal.at).to_string()).collect();
        if !lines.is_empty() {
            found.push(TidyFinding {
                check: TidyCheck::Text,
                key: source.path.clone(),
                count: lines.len(),
                what: format!("{} says a `skep …` command in line {}; give a typed hint instead", source.path, lines.join(", ")),
            });
        }
    }
    found
}

fn names_command(text: &str, commands: &[String]) -> bool {
    text.match_indices("skep ").any(|(at, word)| {
        let is_word = !text[..at].ends_with(|letter: char| letter.is_alphanumeric() || "._-/$".contains(letter));
        let next: String = text[at + word.len()..].chars().take_while(|letter| letter.is_alphanumeric() || *letter == '-').collect();
        is_word && (commands.contains(&next) || text[..at].ends_with('`'))
    })
}

/// The first words that `skep` takes: the variants of `Command` in the command line's own source.
pub fn commands(arguments: &Source) -> Vec<String> {
    let Some((_, rest)) = arguments.code.split_once("pub enum Command {") else { return Vec::new() };
    let variants = rest.split_once("\n}").map_or(rest, |(inside, _)| inside).lines();
    variants
        .filter_map(|line| line.trim().split_once('(').map(|(name, _)| name))
        .filter(|name| name.starts_with(|letter: char| letter.is_ascii_uppercase()))
        .map(kebab)
        .collect()
}

fn kebab(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_the_command_line() {
        let arguments =
            Source::of("args.rs", "pub enum Command {\n    #[command(about = \"x\")]\n    Act(Work),\n    ExtensionChild(X),\n}\nA(b)");
        assert_eq!(commands(&arguments), ["act", "extension-child"]);
    }

    #[test]
    fn a_command_below_the_faces_is_found() {
        let known = ["trust".to_owned(), "ps".to_owned()];
        let check = |path: &str, text: &str| below_faces(&[Source::of(path, text)], &known).first().map_or(0, |found| found.count);
        assert_eq!(check("crates/kernel/src/a.rs", "let a = \"run `skep trust`\"; let b = \"skep ps lists them\";"), 2);
        assert_eq!(check("crates/kernel/src/a.rs", "let a = \"git or skep itself\"; // skep trust\nlet b = \".skep trust\";"), 0);
        assert_eq!(check("crates/kernel/src/a.rs", "#[cfg(test)]\nmod tests { const A: &str = \"skep trust\"; }"), 0);
        assert_eq!(check("crates/cli/src/a.rs", "let a = \"skep trust\";"), 0);
        assert_eq!(check("crates/kernel/tests/a.rs", "let a = \"skep trust\";"), 0);
    }
}
