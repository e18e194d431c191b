//! A command line that cannot be read, in the same three lines as every other error.

use super::{command, find};
use crate::command_error::CommandError;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use wire::ErrorCode;
use wire::near::distance;

/// Commands that people type by the name of what they want.
const MEANT: &[(&str, &str)] = &[
    ("undo", "merge undo"),
    ("apply", "merge"),
    ("accept", "merge"),
    ("approve", "review allow"),
    ("allow", "review allow"),
    ("deny", "review deny"),
    ("restart", "kernel restart"),
    ("start", "kernel start"),
    ("stop", "cancel"),
    ("abort", "cancel"),
    ("sessions", "session list"),
    ("lessons", "memory list"),
    ("do", "act"),
    ("tasks", "list tasks"),
    ("tools", "list tools"),
    ("logs", "log"),
    ("tail", "watch"),
    ("follow", "watch"),
    ("cost", "usage"),
    ("explain", "policy explain"),
    ("shell", "sandbox shell"),
    ("revoke", "grant revoke"),
];

/// More possible values than these are not all listed.
const VALUES_MAX: usize = 20;

/// What is wrong with these arguments, and what was probably meant. `None` where help or the version was asked for.
pub fn explain(error: &clap::Error, arguments: &[String]) -> Option<CommandError> {
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand) {
        return None;
    }
    let path = command_path(arguments);
    let mistake = CommandError::new(ErrorCode::BadInput, what(error));
    let fix = match error.kind() {
        ErrorKind::InvalidSubcommand => context(error, ContextKind::InvalidSubcommand).map(|typed| instead_of(&path, &typed)),
        ErrorKind::UnknownArgument if ["act", "ask", "run", "plan"].contains(&path.as_str()) => quoted(&path, arguments),
        _ => None,
    };
    Some(mistake.fix(fix.or_else(|| similar(error)).unwrap_or_else(|| see(&path))))
}

/// Clap's first sentence: the rest of its text is usage, which `skep help` has whole.
fn what(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default().trim();
    let first = first.strip_prefix("error:").unwrap_or(first).trim();
    short_list(&first.lines().map(str::trim).collect::<Vec<_>>().join(" ").replace('\'', "`"))
}

/// Of a hundred kinds of records only the nouns, each of which stands for all of its kinds.
fn short_list(text: &str) -> String {
    let Some((before, values)) = text.split_once("[possible values: ") else { return text.to_owned() };
    let values: Vec<&str> = values.trim_end_matches(']').split(", ").collect();
    if values.len() <= VALUES_MAX {
        return text.to_owned();
    }
    let nouns: Vec<&str> = values.into_iter().filter(|value| !value.contains('.')).collect();
    format!("{before}[possible values: {}]", nouns.join(", "))
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<String> {
    match error.get(kind)? {
        ContextValue::String(one) => Some(one.clone()),
        ContextValue::Strings(some) => some.first().cloned(),
        _ => None,
    }
}

/// The command that the arguments begin with, such as `journal verify`; empty where they begin with none.
fn command_path(arguments: &[String]) -> String {
    let mut path = String::new();
    for word in arguments.iter().filter(|word| !word.starts_with('-') && !word.trim().is_empty()) {
        let longer = if path.is_empty() { word.clone() } else { format!("{path} {word}") };
        if find(&command(), &longer).is_none() {
            break;
        }
        path = longer;
    }
    path
}

/// The command that somebody meant who typed `typed` below `path`.
fn instead_of(path: &str, typed: &str) -> String {
    let all = command();
    let here = find(&all, path).unwrap_or(&all);
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path} {name}") };
    let names = || here.get_subcommands().filter(|sub| !sub.is_hide_set()).map(|sub| sub.get_name().to_owned());
    let meant = MEANT.iter().find(|(word, _)| path.is_empty() && *word == typed).map(|(_, meant)| (*meant).to_owned());
    let near = || names().filter_map(|name| Some((near(&name, typed)?, name))).min().map(|(_, name)| below(&name));
    // `skep doubts` for `skep journal doubts`: the name stands one step deeper.
    let deeper = || {
        let visible = here.get_subcommands().filter(|sub| !sub.is_hide_set());
        let mut found = visible.filter(|sub| sub.find_subcommand(typed).is_some()).map(|sub| below(&format!("{} {typed}", sub.get_name())));
        found.next()
    };
    match meant.or_else(near).or_else(deeper) {
        Some(meant) => format!("`skep {meant}`, if you meant that; `skep --help` lists all commands"),
        None => see(path),
    }
}

/// How far two words are from each other; `None` where nobody would mix them up.
fn near(name: &str, typed: &str) -> Option<usize> {
    let distance = distance(name, typed);
    (distance <= 1 || (distance == 2 && name.len() > 4)).then_some(distance)
}

/// `skep act add a function`: the words belong together.
fn quoted(path: &str, arguments: &[String]) -> Option<String> {
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).skip_while(|word| *word != path).skip(1).take_while(|word| !word.starts_with('-')).collect();
    (words.len() > 1).then(|| format!("quote the prompt: skep {path} \"{}\"", words.join(" ")))
}

/// What clap itself proposes for a mistyped flag or value.
fn similar(error: &clap::Error) -> Option<String> {
    let found = [ContextKind::SuggestedArg, ContextKind::SuggestedValue].into_iter().find_map(|kind| context(error, kind))?;
    Some(format!("`{found}`, if you meant that"))
}

fn see(path: &str) -> String {
    if path.is_empty() { "`skep --help` lists all commands".to_owned() } else { format!("`skep help {path}` says what it takes") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> CommandError {
        let arguments: Vec<String> = line.split_whitespace().skip(1).map(str::to_owned).collect();
        let error = command().try_get_matches_from(line.split_whitespace()).unwrap_err();
        explain(&error, &arguments).unwrap()
    }

    #[test]
    fn a_prompt_without_quotes_is_told_to_be_quoted() {
        let error = told("skep act add a function");
        assert_eq!(error.fix.as_deref(), Some("quote the prompt: skep act \"add a function\""));
        assert_eq!(error.code.exit(), 2);
        assert_eq!(told("skep ask where is it --await").fix.as_deref(), Some("quote the prompt: skep ask \"where is it\""));
    }

    #[test]
    fn a_mistyped_command_is_told_what_was_meant() {
        for (typed, meant) in [
            ("skep undo task-1", "skep merge undo"),
            ("skep stauts", "skep status"),
            ("skep doubts", "skep journal doubts"),
            ("skep templates", "skep sandbox templates"),
            ("skep journal verfy", "skep journal verify"),
            ("skep restart", "skep kernel restart"),
        ] {
            let error = told(typed);
            assert!(error.fix.as_deref().unwrap().starts_with(&format!("`{meant}`,")), "{typed}: {error:?}");
        }
    }

    #[test]
    fn what_nobody_meant_leads_to_the_help() {
        assert_eq!(told("skep xyzzy").fix.as_deref(), Some("`skep --help` lists all commands"));
        assert_eq!(told("skep act").fix.as_deref(), Some("`skep help act` says what it takes"));
        assert!(told("skep status --jsno").fix.unwrap().contains("--json"));
    }

    #[test]
    fn empty_words_and_long_lists_read_well() {
        let empty = ["skep", "diff", ""];
        let error = command().try_get_matches_from(empty).unwrap_err();
        let error = explain(&error, &empty[1..].iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap();
        assert_eq!(error.fix.as_deref(), Some("`skep help diff` says what it takes"));
        let kinds = told("skep journal log --kind nonsense").what;
        assert!(kinds.contains(" call, ") && kinds.ends_with("zone]") && !kinds.contains("call."), "{kinds}");
        assert!(told("skep usage --by week").what.ends_with("task, node]"));
    }

    #[test]
    fn every_command_that_is_proposed_exists() {
        for (typed, meant) in MEANT {
            assert!(find(&command(), meant.strip_suffix(" tasks").or(meant.strip_suffix(" tools")).unwrap_or(meant)).is_some(), "{meant}");
            assert!(find(&command(), typed).is_none(), "{typed} is a command");
        }
    }

    #[test]
    fn help_and_version_are_no_mistakes() {
        for line in ["skep --help", "skep --version", "skep"] {
            let error = command().try_get_matches_from(line.split_whitespace()).unwrap_err();
            assert_eq!(explain(&error, &[]), None, "{line}");
        }
    }
}
