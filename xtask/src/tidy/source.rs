//! Rust sources, read without a compiler: code apart from comments and literals, and what only tests see.
//!
//! **Invariant.** `code` has the bytes of `text` at the same places, with comments and the insides of literals blanked, so a brace
//! found in it is a brace of the program. Macros are not expanded: what they make is not seen.

use anyhow::{Context, Result};
use std::path::Path;

/// One file of Rust.
#[derive(Debug)]
pub struct Source {
    /// From the workspace's root, with `/`.
    pub path: String,
    pub text: String,
    pub code: String,
    pub literals: Vec<Literal>,
    /// Only tests are made of it: it stands below `tests/`, or its `mod` says `#[cfg(test)]`.
    pub is_test: bool,
    /// Bytes of the code that only tests see.
    test_spans: Vec<(usize, usize)>,
}

/// The inside of a string, and where it starts.
#[derive(Debug, PartialEq)]
pub struct Literal {
    pub at: usize,
    pub text: String,
}

/// A function with a body.
#[derive(Debug, PartialEq)]
pub struct Function {
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// From the line of its `fn` to that of its last brace.
    pub lines: usize,
}

impl Source {
    pub fn of(path: &str, text: &str) -> Source {
        let (code, literals) = masked(text);
        let test_spans = test_modules(&code).into_iter().filter_map(|(_, span)| span).collect();
        let is_test = path.split('/').any(|part| part == "tests" || part == "benches") || path.ends_with("/tests.rs");
        Source { path: path.to_owned(), text: text.to_owned(), code, literals, is_test, test_spans }
    }

    pub fn line_of(&self, at: usize) -> usize {
        self.text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Is this place seen by tests alone?
    pub fn is_tested_only(&self, at: usize) -> bool {
        self.is_test || self.test_spans.iter().any(|(from, to)| (*from..*to).contains(&at))
    }

    pub fn functions(&self) -> Vec<Function> {
        let mut found = Vec::new();
        for (at, word) in words(&self.code) {
            if word != "fn" {
                continue;
            }
            let rest = &self.code[at + 2..];
            let name: String = rest.trim_start().chars().take_while(|letter| is_name(*letter)).collect();
            // A type such as `fn(u8)`, or a macro's `fn $name`.
            if name.is_empty() {
                continue;
            }
            if let Some(body) = body_of(&self.code, at)
                && let Some(end) = closing(&self.code, body)
            {
                let line = self.line_of(at);
                found.push(Function { name, line, lines: self.line_of(end) + 1 - line });
            }
        }
        found
    }

    /// Name and place of each type that is `pub`, in the whole crate or in a part of it.
    pub fn public_types(&self) -> Vec<(String, usize)> {
        self.types().into_iter().filter_map(|(name, at, is_public)| is_public.then_some((name, at))).collect()
    }

    /// Name and place of each type outside tests, and whether it is `pub`.
    pub fn types(&self) -> Vec<(String, usize, bool)> {
        let words = words(&self.code);
        let word = |n: usize| words.get(n).map_or("", |(_, word)| *word);
        let mut found = Vec::new();
        for (n, (at, kind)) in words.iter().enumerate() {
            if !["struct", "enum", "trait", "type", "union"].contains(kind) || self.is_tested_only(*at) {
                continue;
            }
            // `struct $name` has no name that follows at once.
            let Some((place, name)) = words.get(n + 1) else { continue };
            if !self.code[at + kind.len()..*place].trim().is_empty() {
                continue;
            }
            // `pub(crate)` and `pub(super)` have a word more; a trait may be `unsafe`.
            let before = n - usize::from(n > 0 && word(n - 1) == "unsafe");
            let is_bounded = before > 1 && ["crate", "super"].contains(&word(before - 1));
            let before = before - usize::from(is_bounded);
            found.push(((*name).to_owned(), *at, before > 0 && word(before - 1) == "pub"));
        }
        found
    }
}

/// Every `.rs` file below these folders, in order, those of `target` left out.
pub fn read(root: &Path, folders: &[&str]) -> Result<Vec<Source>> {
    let mut paths = Vec::new();
    for folder in folders {
        walk(&root.join(folder), &mut paths)?;
    }
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let name = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
        let text = std::fs::read_to_string(&path).with_context(|| format!("{name} cannot be read"))?;
        sources.push(Source::of(&name, &text));
    }
    mark_test_files(&mut sources);
    Ok(sources)
}

fn walk(folder: &Path, paths: &mut Vec<std::path::PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))? {
        let path = entry?.path();
        // Names and lengths of generated code are its generator's.
        if path.is_dir() {
            if !path.ends_with("target") && !path.ends_with("src/generated") {
                walk(&path, paths)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}

/// `#[cfg(test)] mod name;` makes a test of the file `name.rs` and of all below `name/`.
fn mark_test_files(sources: &mut [Source]) {
    let mut stems = Vec::new();
    for source in sources.iter() {
        let stem = source.path.trim_end_matches(".rs");
        let folder = match stem.rsplit_once('/') {
            Some((folder, "lib" | "main")) => folder,
            _ => stem,
        };
        let apart = test_modules(&source.code).into_iter().filter(|(_, span)| span.is_none());
        stems.extend(apart.map(|(name, _)| format!("{folder}/{name}")));
    }
    for source in sources {
        let below = |stem: &String| source.path == format!("{stem}.rs") || source.path.starts_with(&format!("{stem}/"));
        source.is_test |= stems.iter().any(below);
    }
}

/// Modules behind `#[cfg(test)]`: the name, and the span where the module stands in this file.
fn test_modules(code: &str) -> Vec<(String, Option<(usize, usize)>)> {
    let mut found = Vec::new();
    for (at, mark) in code.match_indices("#[cfg(test)]") {
        let mut rest = code[at + mark.len()..].trim_start();
        while let Some(attribute) = rest.strip_prefix("#[") {
            rest = attribute.split_once(']').map_or("", |(_, after)| after).trim_start();
        }
        for visibility in ["pub(crate) ", "pub(super) ", "pub "] {
            rest = rest.strip_prefix(visibility).unwrap_or(rest);
        }
        let Some(module) = rest.strip_prefix("mod ") else { continue };
        let name: String = module.chars().take_while(|letter| is_name(*letter)).collect();
        let start = code.len() - module.len() + name.len();
        let span = code[start..].trim_start().starts_with('{').then(|| {
            let open = start + code[start..].find('{').unwrap_or(0);
            (at, closing(code, open).unwrap_or(code.len()))
        });
        found.push((name, span));
    }
    found
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Every word of the code with its place. What is written by a macro's parameter (`$name`) is left out.
fn words(code: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, letter) in code.char_indices().chain([(code.len(), ' ')]) {
        match (is_name(letter), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                if !code[..from].ends_with('$') {
                    found.push((from, &code[from..at]));
                }
                start = None;
            }
            _ => {}
        }
    }
    found
}

/// The brace that opens the body of the function at `at`; none where it is only declared.
fn body_of(code: &str, at: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, byte) in code.as_bytes()[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at + offset),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The brace that closes the one at `open`.
fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + offset);
        }
    }
    None
}

/// The code with comments and the insides of literals blanked, and the strings that stood there.
fn masked(text: &str) -> (String, Vec<Literal>) {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut literals = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let after_name = at > 0 && (bytes[at - 1].is_ascii_alphanumeric() || bytes[at - 1] == b'_');
        let (skipped, inside) = if rest.starts_with(b"//") {
            (rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()), None)
        } else if rest.starts_with(b"/*") {
            (comment(rest), None)
        } else if let Some((open, close)) = raw_string(rest).filter(|_| !after_name) {
            (close, Some((open, close)))
        } else if rest[0] == b'"' {
            let close = string(rest);
            (close, Some((1, close)))
        } else if rest[0] == b'\'' {
            (character(&text[at..]), None)
        } else {
            (0, None)
        };
        if let Some((open, close)) = inside {
            literals.push(Literal { at, text: String::from_utf8_lossy(&rest[open..close]).into_owned() });
        }
        for byte in &mut code[at..at + skipped] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += skipped.max(1);
        // The quote that ends a string, and the hashes of a raw one, are no code that anybody looks for.
        if inside.is_some() {
            code[at.min(bytes.len() - 1)] = b' ';
            at += 1;
        }
    }
    // Only whole characters were blanked: letters beyond ASCII stand in comments, literals and names, each as a whole.
    (String::from_utf8_lossy(&code).into_owned(), literals)
}

/// Bytes of a block comment; they nest.
fn comment(rest: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// Where the inside of a raw string starts and ends, if one starts here.
fn raw_string(rest: &[u8]) -> Option<(usize, usize)> {
    let mark = rest.iter().take_while(|byte| b"bcr".contains(byte)).count();
    let hashes = rest[mark..].iter().take_while(|byte| **byte == b'#').count();
    let open = mark + hashes + 1;
    if !(1..=2).contains(&mark) || rest[mark - 1] != b'r' || rest.get(open - 1) != Some(&b'"') {
        return None;
    }
    let end = [&b"\""[..], &vec![b'#'; hashes]].concat();
    let close = rest[open..].windows(end.len()).position(|window| window == end).map_or(rest.len() - 1, |at| open + at);
    Some((open, close))
}

/// Where the inside of a string ends.
fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at.min(rest.len() - 1)
}

/// Bytes of a character literal; none for a lifetime.
fn character(rest: &str) -> usize {
    let mut letters = rest.char_indices().skip(1);
    match (letters.next(), letters.next()) {
        (Some((_, '\\')), Some((after, _))) => rest[after + 1..].find('\'').map_or(0, |end| after + 1 + end + 1),
        (Some(_), Some((end, '\''))) => end + 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        let text = "let a = \"} fn x() {\"; // } \"\nlet b = r#\"a \" } \"#; /* { /* } */ { */ let c = '{'; let d = '\\''; let e: &'a str = b\"}\";";
        let source = Source::of("a.rs", text);
        assert_eq!(source.code.len(), text.len());
        assert!(!source.code.contains(['{', '}']), "{}", source.code);
        assert!(source.code.contains("let c =") && source.code.contains("&'a str"), "{}", source.code);
        let inside: Vec<&str> = source.literals.iter().map(|literal| literal.text.as_str()).collect();
        assert_eq!(inside, ["} fn x() {", "a \" } ", "}"]);
        assert_eq!(source.line_of(source.literals[1].at), 2);
    }

    #[test]
    fn functions_are_measured_from_their_fn_to_their_brace() {
        let text = "fn one() {}\n\npub async fn two<T>(a: [u8; 2]) -> T\nwhere\n    T: From<u8>,\n{\n    let f: fn(u8) = g;\n    \"}\"\n}\ntrait T { fn three(); }\n";
        let found: Vec<(String, usize, usize)> =
            Source::of("a.rs", text).functions().into_iter().map(|found| (found.name, found.line, found.lines)).collect();
        assert_eq!(found, [("one".to_owned(), 1, 1), ("two".to_owned(), 3, 7)]);
    }

    #[test]
    fn only_what_is_public_and_no_test_is_a_public_type() {
        let text = "pub struct A;\npub(crate) struct B;\nstruct C;\npub enum D<T> { E(T) }\npub unsafe trait F {}\npub struct $name;\n// pub struct G;\n\
                    #[cfg(test)]\nmod tests { pub struct H; }\npub type I = u8;\npub use a::J;\npub(super) enum K {}\n";
        let names: Vec<String> = Source::of("a.rs", text).public_types().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["A", "B", "D", "F", "I", "K"]);
    }

    #[test]
    fn a_file_that_only_tests_include_is_a_test() {
        let mut sources = vec![
            Source::of("crates/a/src/lib.rs", "#[cfg(test)]\n#[allow(x)]\nmod check;\nmod plain;\n"),
            Source::of("crates/a/src/check.rs", ""),
            Source::of("crates/a/src/check/deep.rs", ""),
            Source::of("crates/a/src/plain.rs", "#[cfg(test)]\nmod inner;"),
            Source::of("crates/a/src/plain/inner.rs", ""),
            Source::of("crates/a/src/plain/other.rs", ""),
            Source::of("crates/a/tests/it.rs", ""),
        ];
        mark_test_files(&mut sources);
        let marks: Vec<bool> = sources.iter().map(|source| source.is_test).collect();
        assert_eq!(marks, [false, true, true, false, true, false, true]);
    }
}
