//! A repository's configuration, as far as the kernel must understand it.

/// `core.worktree`, if it is set.
pub fn work_tree(text: &[u8]) -> Option<Vec<u8>> {
    let mut in_core = false;
    let mut found = None;
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if let Some(section) = line.strip_prefix(b"[") {
            in_core = section.split(|byte| *byte == b']').next().is_some_and(|name| name.trim_ascii().eq_ignore_ascii_case(b"core"));
        } else if in_core && let Some(at) = line.iter().position(|byte| *byte == b'=') {
            let (key, value) = line.split_at(at);
            if key.trim_ascii().eq_ignore_ascii_case(b"worktree") {
                found = Some(unquoted(value.get(1..)?.trim_ascii()));
            }
        }
    }
    found
}

/// The address of the remote `origin`, else of the first that there is.
pub fn remote(text: &[u8]) -> Option<String> {
    let (mut section, mut found, mut first) = (None::<Vec<u8>>, None, None);
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.trim_ascii();
        if let Some(rest) = line.strip_prefix(b"[") {
            let name = rest.split(|byte| *byte == b']').next().unwrap_or_default().trim_ascii();
            section = name.to_ascii_lowercase().starts_with(b"remote ").then(|| unquoted(name[b"remote ".len()..].trim_ascii()));
        } else if let (Some(remote), Some(at)) = (&section, line.iter().position(|byte| *byte == b'=')) {
            let (key, value) = line.split_at(at);
            if key.trim_ascii().eq_ignore_ascii_case(b"url") {
                let url = String::from_utf8(unquoted(value.get(1..)?.trim_ascii())).ok();
                if remote == b"origin" && found.is_none() {
                    found.clone_from(&url);
                }
                first = first.or(url);
            }
        }
    }
    found.or(first)
}

fn unquoted(value: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(value.len());
    let mut bytes = value.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => {}
            b'\\' => plain.extend(bytes.next()),
            byte => plain.push(*byte),
        }
    }
    plain
}

/// The same text without the credentials that we know the shape of.
pub fn without_credentials(text: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(text.len());
    // A line that ends with a backslash goes on in the next, and goes with it.
    let (mut is_dropped, mut goes_on) = (false, false);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        is_dropped = if goes_on { is_dropped } else { is_credential(line) };
        goes_on = line.strip_suffix(b"\n").is_some_and(|line| line.strip_suffix(b"\r").unwrap_or(line).ends_with(b"\\"));
        if !is_dropped {
            clean.extend(without_users(line));
        }
    }
    clean
}

fn is_credential(line: &[u8]) -> bool {
    let key = line.split(|byte| *byte == b'=').next().unwrap_or_default().to_ascii_lowercase();
    let has = |word: &&str| key.windows(word.len()).any(|part| part == word.as_bytes());
    // What gets a password may hold one in its own words.
    let words = ["extraheader", "pass", "token", "secret", "apikey", "api-key", "oauth", "cookiefile", "helper", "sshcommand"];
    words.iter().any(has)
}

/// `https://user:secret@host/` becomes `https://host/`; `ssh://git@host/` names no secret and stays.
fn without_users(line: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.windows(3).position(|part| part == b"://") {
        let (before, after) = rest.split_at(at + 3);
        let host_end = after.iter().position(|byte| b"/\n\"".contains(byte)).unwrap_or(after.len());
        let user_end = after[..host_end].iter().rposition(|byte| *byte == b'@').filter(|_| !before.ends_with(b"ssh://"));
        clean.extend_from_slice(before);
        rest = &after[user_end.map_or(0, |at| at + 1)..];
    }
    clean.extend_from_slice(rest);
    clean
}
