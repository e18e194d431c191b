//! Secrets that a command is given as words of their own: `--password X`, `sshpass -p X`, `curl -u name:X`.
//!
//! Long options are known by their names, short ones by the program that takes them.

use super::key;
use std::ops::Range;

/// Short options that take a secret, by program; with `glued` where it stands in the same word.
const SHORT: [(&str, &str, bool); 41] = [
    ("sshpass", "-p", true),
    ("mysql", "-p", true),
    ("mysqldump", "-p", true),
    ("mysqladmin", "-p", true),
    ("mariadb", "-p", true),
    ("mariadb-dump", "-p", true),
    ("7z", "-p", true),
    ("7za", "-p", true),
    ("docker", "-p", false),
    ("podman", "-p", false),
    ("helm", "-p", false),
    ("oc", "-p", false),
    ("az", "-p", false),
    ("mongo", "-p", false),
    ("mongosh", "-p", false),
    ("mongodump", "-p", false),
    ("ipmitool", "-P", false),
    ("unzip", "-P", false),
    ("zip", "-P", false),
    ("sqlcmd", "-P", false),
    ("bcp", "-P", false),
    ("mosquitto_pub", "-P", false),
    ("mosquitto_sub", "-P", false),
    ("redis-cli", "-a", false),
    ("ldapsearch", "-w", false),
    ("ldapadd", "-w", false),
    ("ldapmodify", "-w", false),
    ("ansible-vault", "-p", false),
    ("curl", "-u", true),
    ("curl", "-U", true),
    ("curl", "-b", true),
    ("http", "-a", false),
    ("https", "-a", false),
    ("smbclient", "-U", true),
    ("ssh-keygen", "-N", false),
    ("ssh-keygen", "-P", false),
    ("twine", "-p", false),
    ("openssl", "-k", false),
    ("openssl", "-K", false),
    ("rar", "-hp", true),
    ("rar", "-p", true),
];
/// `-p` of these is a port, a package or a folder, unless they log in somewhere.
const LOGS_IN: [&str; 5] = ["docker", "podman", "helm", "oc", "az"];
/// `-p` alone has these ask.
const ASKS: [&str; 5] = ["mysql", "mysqldump", "mysqladmin", "mariadb", "mariadb-dump"];
/// Long options of a name and a secret in one word.
const PAIRED: [&str; 8] = ["--user", "--proxy-user", "--auth", "--cookie", "--basic-auth", "--creds", "--src-creds", "--dest-creds"];

/// Commands of shells that are given a name and its value.
const SETS: [&str; 3] = ["setenv", "setx", "set-env"];

/// The secrets among the words of one command: which word, and what part of it.
pub(super) fn secrets(words: &[&str]) -> Vec<(usize, Range<usize>)> {
    let mut found = Vec::new();
    let mut program = "";
    for (index, word) in words.iter().enumerate() {
        if let Some(name) = program_of(word) {
            program = name;
        }
        let next = words.get(index + 1).filter(|next| !next.starts_with("--") || next.len() > 24);
        let whole = |next: &&str| (index + 1, 0..next.len());
        if let Some((of, flag, glued)) = SHORT.iter().find(|(of, flag, _)| *of == program && word.starts_with(flag)) {
            let rest = &word[flag.len()..];
            if LOGS_IN.contains(of) && !words[..index].contains(&"login") {
                continue;
            }
            if rest.is_empty() {
                // A database asks at the terminal then, and what follows is its own.
                let next = next.filter(|_| !ASKS.contains(of));
                found.extend(next.and_then(|next| if takes_a_name(of) { after_name(next, index + 1) } else { Some(whole(next)) }));
            } else if *glued && takes_a_name(of) {
                found.extend(after_name(rest, index).map(|(at, part)| (at, part.start + flag.len()..part.end + flag.len())));
            } else if *glued {
                found.push((index, flag.len()..word.len()));
            }
            continue;
        }
        if PAIRED.contains(word) {
            found.extend(next.and_then(|next| after_name(next, index + 1)));
        } else if let Some(name) = word.strip_prefix("--").filter(|name| !name.contains('=')) {
            found.extend(next.filter(|next| key::is_secret_option(name, next) && !next.is_empty()).map(whole));
        } else if *word == "-p" || *word == "-P" {
            // Whose option it is nobody knows; what looks like a key is one.
            found.extend(next.filter(|next| key::looks_random(next) && !next.contains(['/', ':', '.'])).map(whole));
        } else if let Some(name) = word.strip_prefix('-').filter(|name| name.len() > 3 && !name.contains('=')) {
            found.extend(next.filter(|next| key::is_secret_option(name, next) && !next.is_empty()).map(whole));
        }
        // `config set NAME X`, and a pair of a name and its value.
        let is_named = words[..index].iter().any(|before| matches!(*before, "set" | "config" | "configure") || SETS.contains(before))
            || words.len() == 2
                && index == 0
                && next.is_some_and(|next| key::looks_random(next) || word.eq_ignore_ascii_case("authorization"));
        if is_named && !word.starts_with('-') && !word.contains('=') {
            found.extend(next.filter(|next| key::is_secret(word, next) && !next.starts_with('-') && !next.is_empty()).map(whole));
        }
        if matches!(*word, "-passin" | "-passout" | "-pass") {
            found.extend(next.and_then(|next| next.strip_prefix("pass:")).map(|secret| (index + 1, 5..5 + secret.len())));
        }
    }
    found
}

fn takes_a_name(program: &str) -> bool {
    matches!(program, "curl" | "smbclient" | "http" | "https")
}

/// `name:secret` or `name%secret`: the name stays. A name alone is asked for its secret at the terminal.
fn after_name(word: &str, at: usize) -> Option<(usize, Range<usize>)> {
    let from = word.find([':', '%', '='])? + 1;
    (from < word.len()).then_some((at, from..word.len()))
}

/// The program that a word starts, if it is one whose options we know.
fn program_of(word: &str) -> Option<&'static str> {
    let name = word.rsplit('/').next().unwrap_or(word);
    SHORT.iter().map(|(program, ..)| *program).find(|program| *program == name)
}

/// The programs whose options have to be looked at, for the automaton.
pub(super) fn programs() -> impl Iterator<Item = &'static str> {
    let mut last = "";
    // Short names are words of other things, and come as argument lists.
    let short = SHORT.iter().map(|(program, ..)| *program);
    SETS.into_iter().chain(short.filter(move |program| program.len() > 3 && std::mem::replace(&mut last, program) != *program))
}

/// The secrets of the command that begins here in a text: to the end of its line or to whatever separates commands.
pub(super) fn in_text(text: &str, start: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if start > 0 && is_name(bytes[start - 1]) {
        return None;
    }
    let end = start + text[start..].find(['\n', ';', '|', '\0']).unwrap_or(text.len() - start).min(4096);
    let line = &text[start..text.floor_char_boundary(end)];
    let words: Vec<&str> = line.split([' ', '\t']).filter(|word| !word.is_empty()).collect();
    let (word, part) = secrets(&words).into_iter().next()?;
    let quoted = words[word].get(part.clone())?;
    let quotes = ['"', '\'', '\\'];
    let inner = quoted.trim_matches(quotes);
    // The words are parts of the text, so their places are too.
    let at = words[word].as_ptr().addr() - text.as_ptr().addr();
    let from = at + part.start + (quoted.len() - quoted.trim_start_matches(quotes).len());
    (!inner.is_empty() && inner != super::REDACTED).then(|| from..from + inner.len())
}
