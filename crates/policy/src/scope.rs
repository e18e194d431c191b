//! Which paths and words a rule speaks about: globs with the meaning they have in a `.gitignore`.
//!
//! A glob without a slash matches a name at any depth, one with a slash is anchored at the project, a match on a directory covers
//! all that is in it, and `dir/` or `dir/**` is the inside of a directory only. `!` takes away, wherever it stands in the list:
//! exclusion comes first, so the order of a list means nothing.
//!
//! This is not `ignore::gitignore` because ten thousand rules would be ten thousand regexes: 100 MB and a second of compiling. A
//! policy's globs split at their slashes into a few segments, match without allocating, and tell the index which literal segment
//! a path must have. `ignore` is the oracle in the tests below.

mod cover;
mod segment;

use segment::Segment;

/// A list that does not name any path as its writer hoped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct BadGlob {
    pub what: String,
    pub hint: String,
}

impl BadGlob {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        BadGlob { what: what.into(), hint: hint.into() }
    }
}

/// Alternatives that one `{a,b}` pattern may unfold to. More is a generated list, and belongs into the array.
const ALTERNATIVES_MAX: usize = 256;

/// A compiled list of globs: matches a path that some glob includes and none excludes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Globs {
    include: Vec<Glob>,
    exclude: Vec<Glob>,
}

/// What a path must contain for a glob to match it; the index looks rules up by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Key<'a> {
    /// One segment with exactly this name.
    Name(&'a str),
    /// One segment whose name ends in `.` and this.
    Extension(&'a str),
    /// These letters somewhere in it.
    Part(&'a str),
}

impl Globs {
    /// An empty list is fine and matches nothing.
    pub fn parse<S: AsRef<str>>(patterns: &[S]) -> Result<Globs, BadGlob> {
        let mut globs = Globs::default();
        for pattern in patterns {
            match pattern.as_ref().strip_prefix('!') {
                Some(excluded) => Glob::parse_into(excluded, &mut globs.exclude)?,
                None => Glob::parse_into(pattern.as_ref(), &mut globs.include)?,
            }
        }
        if globs.include.is_empty() && !globs.exclude.is_empty() {
            return Err(BadGlob::new("the list only excludes, so it matches nothing", "put \"**\" before the exclusions"));
        }
        Ok(globs)
    }

    /// `path` is relative, normalised and `/`-separated; the project itself is `.` or empty.
    pub fn matches(&self, path: &str) -> bool {
        let path = if path == "." { "" } else { path };
        self.include.iter().any(|glob| glob.matches(path)) && !self.exclude.iter().any(|glob| glob.matches(path))
    }

    /// The same without what lies in a folder that matches: `/src` names `src` alone, `/src/**` all that is in it. An exclusion covers.
    pub fn names(&self, path: &str) -> bool {
        let path = if path == "." { "" } else { path };
        self.include.iter().any(|glob| glob.names(path)) && !self.exclude.iter().any(|glob| glob.matches(path))
    }

    /// For each including glob, the keys of which a matching path has all; none where any path might match.
    pub(crate) fn keys(&self) -> impl Iterator<Item = Vec<Key<'_>>> {
        self.include.iter().map(Glob::keys)
    }
}

/// One word, exact unless it has `*` or `?` in it: a caller, a role, a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word(Segment);

impl Word {
    pub(crate) fn parse(text: &str) -> Result<Word, BadGlob> {
        if text.is_empty() {
            return Err(BadGlob::new("an empty word matches nothing", "write the word, or `*` for any"));
        }
        segment::parse(text).map(Word)
    }

    pub(crate) fn matches(&self, word: &str) -> bool {
        self.0.matches(word)
    }

    /// The one word it matches, if there is only one.
    pub(crate) fn literal(&self) -> Option<&str> {
        if let Segment::Literal(word) = &self.0 { Some(word) } else { None }
    }

    /// What every matching word ends in, beginning with a dot: of `*.docs.rs` this is `.docs.rs`.
    pub(crate) fn domain(&self) -> Option<&str> {
        if let Segment::Suffix(suffix) = &self.0 { suffix.starts_with('.').then_some(suffix) } else { None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Glob {
    segments: Box<[Segment]>,
    /// How many of them name a thing itself; the rest is what lies in it.
    own: usize,
}

impl Glob {
    fn parse_into(pattern: &str, globs: &mut Vec<Glob>) -> Result<(), BadGlob> {
        check(pattern)?;
        let (body, inside_only) = match pattern.strip_suffix('/') {
            Some(body) => (body, true),
            None => (pattern, false),
        };
        let anchored = body.contains('/');
        for alternative in unfold(body.strip_prefix('/').unwrap_or(body))? {
            check_segments(pattern, &alternative)?;
            globs.push(Glob::compile(&alternative, anchored, inside_only)?);
        }
        Ok(())
    }

    fn compile(body: &str, anchored: bool, inside_only: bool) -> Result<Glob, BadGlob> {
        let mut segments = Vec::new();
        if !anchored {
            segments.push(Segment::Deep);
        }
        for text in body.split('/') {
            segments.push(segment::parse(text)?);
        }
        // `dir/**` is what lies in `dir`, and so is `dir/`; `**` alone is everything.
        if segments.last() == Some(&Segment::Deep) && (inside_only || body != "**") {
            segments.push(Segment::Any);
        }
        if inside_only {
            segments.push(Segment::Any);
        }
        segments.dedup_by(|a, b| *a == Segment::Deep && *b == Segment::Deep);
        let own = segments.len();
        // A match on a directory covers everything in it.
        if segments.last() != Some(&Segment::Deep) {
            segments.push(Segment::Deep);
        }
        let own = if inside_only { segments.len() } else { own };
        Ok(Glob { segments: segments.into(), own })
    }

    fn matches(&self, path: &str) -> bool {
        fits(&self.segments, path)
    }

    fn names(&self, path: &str) -> bool {
        fits(&self.segments[..self.own], path)
    }

    fn keys(&self) -> Vec<Key<'_>> {
        self.segments.iter().filter_map(Segment::key).collect()
    }
}

/// Backtracks only to the last `**`, so the cost is at most segments × segments.
fn fits(segments: &[Segment], path: &str) -> bool {
    let mut at = 0;
    let mut rest = (!path.is_empty()).then_some(path);
    let mut retry: Option<(usize, Option<&str>)> = None;
    loop {
        match (segments.get(at), rest) {
            (Some(Segment::Deep), _) => {
                at += 1;
                if at == segments.len() {
                    return true;
                }
                retry = Some((at, rest));
                continue;
            }
            (Some(segment), Some(path)) => {
                let (name, after) = split(path);
                if segment.matches(name) {
                    at += 1;
                    rest = after;
                    continue;
                }
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((behind, Some(path))) = retry else { return false };
        rest = split(path).1;
        at = behind;
        retry = Some((behind, rest));
    }
}

fn split(path: &str) -> (&str, Option<&str>) {
    match path.split_once('/') {
        Some((name, after)) => (name, Some(after)),
        None => (path, None),
    }
}

/// Refuses what a `.gitignore` would silently read as something else.
fn check(pattern: &str) -> Result<(), BadGlob> {
    if pattern.is_empty() || pattern == "/" {
        return Err(BadGlob::new(format!("the glob `{pattern}` matches nothing"), "write `**` for every path"));
    }
    if pattern.trim() != pattern {
        return Err(BadGlob::new(format!("the glob `{pattern}` begins or ends with a space"), "take the space away"));
    }
    if pattern.starts_with('#') {
        return Err(BadGlob::new(format!("the glob `{pattern}` would be a comment"), format!("write `\\{pattern}`")));
    }
    if pattern.starts_with('!') {
        return Err(BadGlob::new(format!("the glob `!{pattern}` excludes twice"), "write one `!`, or `\\!` for a name that begins so"));
    }
    if pattern.contains('\0') {
        return Err(BadGlob::new("a glob holds a NUL, which no path does", "take it away"));
    }
    Ok(())
}

/// Of one alternative, braces unfolded.
fn check_segments(pattern: &str, body: &str) -> Result<(), BadGlob> {
    if body.split('/').any(|name| matches!(name, "" | "." | "..")) {
        return Err(BadGlob::new(
            format!("the glob `{pattern}` has an empty, `.` or `..` segment, which no real path has"),
            "write it relative to the project's root, such as `src/**`",
        ));
    }
    Ok(())
}

/// `a{b,c}d` to `abd` and `acd`, innermost braces too.
fn unfold(body: &str) -> Result<Vec<String>, BadGlob> {
    let mut done = Vec::new();
    let mut open = vec![body.to_owned()];
    while let Some(text) = open.pop() {
        let Some((start, commas, end)) = braces(&text)? else {
            done.push(text);
            continue;
        };
        let mut from = start + 1;
        for to in commas.into_iter().chain([end]) {
            open.push(format!("{}{}{}", &text[..start], &text[from..to], &text[end + 1..]));
            from = to + 1;
        }
        if done.len() + open.len() > ALTERNATIVES_MAX {
            return Err(BadGlob::new(
                format!("the glob `{body}` unfolds to more than {ALTERNATIVES_MAX} alternatives"),
                "split it into several globs of the list",
            ));
        }
    }
    Ok(done)
}

/// The first outermost pair of braces and the commas that belong to it.
fn braces(text: &str) -> Result<Option<(usize, Vec<usize>, usize)>, BadGlob> {
    let unbalanced = || BadGlob::new(format!("the glob `{text}` has a brace without its partner"), "close it, or write `\\{` for a brace");
    let (mut start, mut depth, mut commas) = (None, 0_usize, Vec::new());
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            b'{' => {
                start.get_or_insert(at);
                depth += 1;
            }
            b',' if depth == 1 => commas.push(at),
            b'}' => match (depth, start) {
                (0, _) | (_, None) => return Err(unbalanced()),
                (1, Some(start)) => return Ok(Some((start, commas, at))),
                _ => depth -= 1,
            },
            _ => {}
        }
    }
    if depth > 0 { Err(unbalanced()) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ignore::gitignore::GitignoreBuilder;
    use proptest::prelude::*;

    fn check(patterns: &[&str], path: &str, expect: bool) {
        assert_eq!(Globs::parse(patterns).unwrap().matches(path), expect, "{patterns:?} on {path}");
    }

    #[test]
    fn globs_mean_what_they_mean_in_a_gitignore() {
        check(&["package.json"], "package.json", true);
        check(&["package.json"], "web/package.json", true);
        check(&["/package.json"], "web/package.json", false);
        check(&["src/**"], "src/a/b.rs", true);
        check(&["src/**"], "src", false);
        check(&["src"], "src/a/b.rs", true);
        check(&["src/"], "src", false);
        check(&["src/"], "lib/src/x", true);
        check(&["src/*.rs"], "src/a.rs", true);
        check(&["src/*.rs"], "src/a/b.rs", false);
        check(&["src/**/*.rs"], "src/b.rs", true);
        check(&["**/tests/**"], "a/tests/b", true);
        check(&[".env*"], "deep/.env.local", true);
        check(&["*.{pem,key}"], "a/b.key", true);
        check(&["a/{b,c/{d,e}}/f"], "a/c/e/f", true);
        check(&["[a-c]?.txt"], "bz.txt", true);
        check(&["[!a-c].txt"], "b.txt", false);
        check(&[r"\*.txt"], "*.txt", true);
        check(&[r"\*.txt"], "a.txt", false);
        check(&["**"], ".", true);
        check(&["*"], "a/b", true);
        check(&[".*"], ".", false);
        check(&["SRC/**"], "src/a", false);
        check(&["naïve/*.txt"], "naïve/ß.txt", true);
    }

    #[test]
    fn exclusion_comes_first_wherever_it_stands() {
        for list in [["src/**", "!src/secret/**"], ["!src/secret/**", "src/**"]] {
            check(&list, "src/a", true);
            check(&list, "src/secret/key", false);
        }
    }

    #[test]
    fn an_empty_list_matches_nothing() {
        check(&[], "src/a", false);
        check(&[], ".", false);
    }

    #[test]
    fn what_could_never_match_is_refused() {
        for bad in [
            "", "/", "./src", "src/../x", "a//b", " a", "#a", "[a", "a{b", "a}b", "a\\", "{}", "{,a}/x", "a/{.,b}", "src\\x", "!!a", "a\0b",
        ] {
            assert!(Globs::parse(&[bad]).is_err(), "{bad}");
        }
        assert_eq!(Globs::parse(&["!a"]).unwrap_err().hint, "put \"**\" before the exclusions");
        let bomb = "{a,b}".repeat(9);
        assert!(Globs::parse(&[bomb.as_str()]).unwrap_err().what.contains("alternatives"));
    }

    #[test]
    fn a_nasty_pattern_costs_little() {
        let pattern = format!("{}x", "**/*a*a*a*/".repeat(20));
        let path = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/".repeat(100) + "y";
        assert!(!Globs::parse(&[pattern]).unwrap().matches(&path));
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_ignore_crate(
            pattern in "/?(a|b|\\*|\\*\\*|a\\*|\\*\\.b|\\?b|\\[ab\\]c)(/(a|b|\\*|\\*\\*|a\\*|\\*\\.b|\\*a\\*)){0,3}/?",
            path in "(a|b|ab|a\\.b|bc)(/(a|b|ab|a\\.b|aab)){0,4}",
        ) {
            let mut oracle = GitignoreBuilder::new("");
            oracle.add_line(None, &pattern).unwrap();
            let oracle = oracle.build().unwrap();
            // Not `matched_path_or_any_parents`, which also asks about the empty path above the root.
            let mut parents = path.match_indices('/').map(|(slash, _)| &path[..slash]);
            let expect = oracle.matched(&path, false).is_ignore() || parents.any(|parent| oracle.matched(parent, true).is_ignore());
            prop_assert_eq!(Globs::parse(&[&pattern]).unwrap().matches(&path), expect, "{} on {}", pattern, path);
        }

        #[test]
        fn a_path_that_matches_has_every_key(
            pattern in "(a|\\*|\\*\\*|a\\*|\\*\\.b|\\*a\\*|\\?a\\?b)(/(a|b|\\*|\\*\\*|\\*\\.b|a\\?)){0,3}",
            path in "(a|b|ab|a\\.b|bacb)(/(a|b|ab|a\\.b)){0,4}",
        ) {
            let globs = Globs::parse(&[&pattern]).unwrap();
            prop_assume!(globs.matches(&path));
            for key in globs.keys().flatten() {
                let has = match key {
                    Key::Name(name) => path.split('/').any(|segment| segment == name),
                    Key::Extension(ext) => path.split('/').any(|segment| segment.rsplit_once('.').is_some_and(|(_, e)| e == ext)),
                    Key::Part(part) => path.contains(part),
                };
                prop_assert!(has, "{:?} of {} on {}", key, pattern, path);
            }
        }
    }
}
