//! Which files of a toolchain may hold credentials.

use std::path::{Path, PathBuf};

pub(super) const WHY: &str = "it may hold credentials";

/// Names of files and folders that are masked wherever they lie in a toolchain.
const NAMES: &[&str] = &[
    ".npmrc",
    "npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".netrc",
    "_netrc",
    "netrc",
    ".pypirc",
    "pip.conf",
    "pip.ini",
    "credentials",
    "credentials.toml",
    ".credentials",
    "settings.xml",
    "settings-security.xml",
    "auth.json",
    "auth.toml",
    ".git",
    ".git-credentials",
    ".gitconfig",
    ".ssh",
    ".gnupg",
    ".aws",
    ".docker",
    ".env",
];

/// More entries than the upper folders of any toolchain have.
const ENTRIES_MAX: usize = 50_000;

/// Paths beneath a folder, relative to it, that no room may read. Looks `depth` folders deep and follows no link.
pub(super) fn hidden(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut hidden = Vec::new();
    let mut folders = vec![(PathBuf::new(), 1)];
    let mut seen = 0;
    while let Some((inner, level)) = folders.pop() {
        for entry in std::fs::read_dir(folder.join(&inner)).into_iter().flatten().flatten() {
            seen += 1;
            if seen > ENTRIES_MAX {
                return hidden;
            }
            let (path, kind) = (inner.join(entry.file_name()), entry.file_type());
            if NAMES.iter().any(|name| entry.file_name().eq_ignore_ascii_case(name)) {
                hidden.push(path);
            } else if level < depth && kind.is_ok_and(|kind| kind.is_dir()) {
                folders.push((path, level + 1));
            }
        }
    }
    hidden.sort();
    hidden
}

/// Files of git repositories in a cache that name an address with a password in it. `patterns` have `*` for any name.
pub(super) fn with_passwords(folder: &Path, patterns: &[&str]) -> Vec<PathBuf> {
    let mut hidden: Vec<PathBuf> = Vec::new();
    for pattern in patterns {
        let mut found = vec![PathBuf::new()];
        for part in pattern.split('/') {
            found = found
                .iter()
                .flat_map(|above| match part {
                    "*" => super::host::names(&folder.join(above)).iter().map(|name| above.join(name)).collect(),
                    name => vec![above.join(name)],
                })
                .collect();
        }
        hidden.extend(found.into_iter().filter(|path| folder.join(path).is_file() && has_password(&folder.join(path))));
    }
    hidden.sort();
    hidden
}

/// Larger files of settings are nobody's, and are not looked through.
const TEXT_MAX: u64 = 1 << 20;

fn text(path: &Path) -> Option<String> {
    let metadata = path.symlink_metadata().ok()?;
    if !metadata.is_file() || metadata.len() > TEXT_MAX {
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// In doubt it has one.
fn has_password(path: &Path) -> bool {
    text(path).is_none_or(|text| names_password(&text))
}

/// Does an address in it have a user before its host, as `https://user:password@host`? That of git over ssh is a name only.
fn names_password(text: &str) -> bool {
    text.split("://").skip(1).zip(text.split("://")).any(|(address, before)| {
        let authority: &str = address.split(['/', '"', '\'', ' ', '\n', '\t']).next().unwrap_or_default();
        match authority.rsplit_once('@') {
            None => false,
            Some((user, _)) => user.contains(':') || !before.ends_with("ssh"),
        }
    })
}

/// Is a file of settings free of everything that looks like a credential?
pub(super) fn is_clean(path: &Path) -> bool {
    const WORDS: &[&str] = &["token", "secret", "password", "passwd", "credential", "authorization", "api_key", "api-key", "private"];
    text(path).is_some_and(|text| {
        let lower = text.to_ascii_lowercase();
        !names_password(&text) && !WORDS.iter().any(|word| lower.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_password_is_seen_and_others_are_not() {
        for text in ["url = https://me:pw@host/x", "https://ghp_token@github.com/a", "a ssh://x b http://u:p@h"] {
            assert!(names_password(text), "{text}");
        }
        for text in ["", "https://github.com/a@b", "ssh://git@github.com/a", "url = \"https://host\" # me@there", "sparse+https://x/"] {
            assert!(!names_password(text), "{text}");
        }
    }

    #[test]
    fn settings_with_a_credential_are_not_clean() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        let is_clean = |text: &str| {
            std::fs::write(&file, text).unwrap();
            is_clean(&file)
        };
        assert!(is_clean("[build]\njobs = 4\n[source.crates-io]\nreplace-with = \"mirror\"\n"));
        assert!(!is_clean("[registry]\ntoken = \"cio123\"\n"));
        assert!(!is_clean("[http]\nproxy = \"http://me:pw@proxy:80\"\n"));
        assert!(!super::is_clean(&folder.path().join("nothing")));
    }

    #[test]
    fn files_with_credentials_are_found_so_deep_and_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["node/v20/etc/npmrc", "node/v20/bin/node", "a/.git/config", "b/.NETRC", "c/d/e/f/.npmrc"] {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink(at("node"), at("link")).unwrap();
        let found = hidden(folder.path(), 4);
        assert_eq!(found, ["a/.git", "b/.NETRC", "node/v20/etc/npmrc"].map(PathBuf::from));
    }
}
