//! What HEAD and references may say: a commit's number, or the name of another reference. Anything else is nothing.

/// Longer than any file system lets a reference be.
const NAME_BYTES_MAX: usize = 1024;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Commit(String),
    /// Begins with `refs/`.
    Reference(String),
}

/// One line of `HEAD` or of a reference.
pub fn parse(line: &[u8]) -> Option<Target> {
    let text = std::str::from_utf8(line).ok()?;
    match text.strip_prefix("ref:") {
        Some(name) => {
            Some(name.trim_start_matches([' ', '\t'])).filter(|name| is_name(name)).map(|name| Target::Reference(name.to_owned()))
        }
        None => is_commit(text).then(|| Target::Commit(text.to_owned())),
    }
}

/// What `packed-refs` says of a reference.
pub fn find(packed: &[u8], name: &str) -> Option<Target> {
    let line = packed.split(|byte| *byte == b'\n').find(|line| line.strip_suffix(name.as_bytes()).is_some_and(|id| id.ends_with(b" ")))?;
    let commit = std::str::from_utf8(line).ok()?.strip_suffix(name)?.strip_suffix(' ')?;
    is_commit(commit).then(|| Target::Commit(commit.to_owned()))
}

/// A number of SHA-1 or SHA-256.
pub fn is_commit(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A name that git would take, as `git check-ref-format` says.
pub fn is_name(name: &str) -> bool {
    let part = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    name.len() <= NAME_BYTES_MAX
        && name.strip_prefix("refs/").is_some_and(|rest| !rest.is_empty())
        && name.split('/').all(part)
        && !name.ends_with('.')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.chars().any(|c| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c))
}
