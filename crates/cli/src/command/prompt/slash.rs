//! What a line at the prompt means. Pure.

use wire::near::distance;

/// A command that begins with a slash, and what it does.
pub struct SlashCommand {
    pub name: &'static str,
    pub arguments: &'static str,
    pub about: &'static str,
}

const fn slash(name: &'static str, arguments: &'static str, about: &'static str) -> SlashCommand {
    SlashCommand { name, arguments, about }
}

pub const SLASH: &[SlashCommand] = &[
    slash("/ask", "QUESTION", "a question; nothing can change (`? QUESTION` is the same)"),
    slash("/say", "TEXT", "goes on with the last task, in its conversation"),
    slash("/strict", "", "tests first; /explore lets code come first, /debug more; the policy decides"),
    slash("/explore", "", "code may come first, and is marked as unverified"),
    slash("/debug", "", "the same, and programs may be run that otherwise never are"),
    slash("/approve", "[commit [MESSAGE]]", "yes to what waits: merges the changes, with a commit where you ask for one"),
    slash("/reject", "[REASON]", "no to what waits; changes are kept"),
    slash("/diff", "[TASK]", "what the last task changed"),
    slash("/undo", "[TASK]", "takes the last merge back"),
    slash("/status", "", "who works on what here"),
    slash("/budget", "", "what was spent, and what may be"),
    slash("/pin", "[TEXT]", "keeps a text in sight of the worker, whatever is summed up; alone lists them"),
    slash("/unpin", "NUMBER", "gives a pinned text up"),
    slash("/brain", "[NAME]", "the brain of your next tasks; alone lists those there are"),
    slash("/help", "", "this list"),
    slash("/quit", "", "leaves; work goes on (ctrl-d, or ctrl-c twice)"),
];

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TypedLine {
    Nothing,
    /// A task.
    Act(String),
    /// A question.
    Ask(String),
    /// A command without its slash, and the rest of the line.
    Slash(&'static str, String),
    /// A command that is none, and one that is near.
    Unknown(String, Option<&'static str>),
}

/// Reads what was typed. A path such as `/etc/hosts is wrong` is no command.
pub fn read(text: &str) -> TypedLine {
    let text = joined(text);
    let text = text.trim();
    if text.is_empty() {
        return TypedLine::Nothing;
    }
    if let Some(question) = text.strip_prefix('?') {
        let question = question.trim();
        return if question.is_empty() { TypedLine::Slash("help", String::new()) } else { TypedLine::Ask(question.to_owned()) };
    }
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    if !word.starts_with('/') || word[1..].contains('/') || (word.len() > 1 && !word[1..].chars().all(|c| c.is_ascii_alphabetic())) {
        return TypedLine::Act(text.to_owned());
    }
    let rest = rest.trim().to_owned();
    match SLASH.iter().find(|known| known.name == word) {
        Some(known) if known.name == "/ask" && !rest.is_empty() => TypedLine::Ask(rest),
        Some(known) => TypedLine::Slash(&known.name[1..], rest),
        None if word == "/exit" => TypedLine::Slash("quit", rest),
        None if word == "/" => TypedLine::Slash("help", rest),
        None => {
            let near = SLASH.iter().map(|known| (distance(known.name, word), known.name)).min();
            TypedLine::Unknown(word.to_owned(), near.filter(|(far, _)| *far <= 2).map(|(_, name)| name))
        }
    }
}

/// Is more to come? After a backslash at the end, and inside a fence of code.
pub fn is_incomplete(text: &str) -> bool {
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    ends_in_backslash(text) || fences % 2 == 1
}

fn ends_in_backslash(line: &str) -> bool {
    (line.len() - line.trim_end_matches('\\').len()) & 1 == 1
}

/// The lines without the backslashes that joined them.
fn joined(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| if ends_in_backslash(line) { &line[..line.len() - 1] } else { line }).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_tasks_questions_and_commands() {
        let act = |text: &str| TypedLine::Act(text.to_owned());
        for (text, wanted) in [
            ("  ", TypedLine::Nothing),
            ("add a flag", act("add a flag")),
            ("? where is it", TypedLine::Ask("where is it".into())),
            ("/ask where is it", TypedLine::Ask("where is it".into())),
            ("/etc/hosts is wrong", act("/etc/hosts is wrong")),
            ("/tmp2 is full", act("/tmp2 is full")),
            ("/approve commit fix: it", TypedLine::Slash("approve", "commit fix: it".into())),
            ("/help", TypedLine::Slash("help", String::new())),
            ("?", TypedLine::Slash("help", String::new())),
            ("/exit", TypedLine::Slash("quit", String::new())),
            ("/aprove", TypedLine::Unknown("/aprove".into(), Some("/approve"))),
            ("/xyzzyplugh", TypedLine::Unknown("/xyzzyplugh".into(), None)),
            ("one \\\ntwo", act("one \ntwo")),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_backslash_and_an_open_fence_go_on() {
        assert!(is_incomplete("one \\") && !is_incomplete("one \\\\") && !is_incomplete("one"));
        assert!(is_incomplete("see\n```\ncode") && !is_incomplete("see\n```\ncode\n```"));
    }

    #[test]
    fn every_command_says_what_it_does_in_80_columns() {
        for command in SLASH {
            assert!(command.name.starts_with('/') && !command.about.is_empty());
            assert!(command.name.len() + command.arguments.len() < 30, "{}", command.name);
        }
    }
}
