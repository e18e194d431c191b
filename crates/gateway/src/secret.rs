//! Upstream credentials: read where the operator keeps them, shown to nobody.
//!
//! **Invariant.** A [`Secret`] has no way into text but [`Secret::reveal`], which only the header of an upstream request calls.

use crate::aside::aside;
use crate::settings::KeySettings;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// A key longer than this is something else.
const KEY_BYTES_MAX: u64 = 16 * 1024;
/// A keyring that wants a person's password gets this long.
const KEYRING: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Compares in a time that says nothing about where they differ.
    pub fn same(&self, other: &str) -> bool {
        let (a, b) = (self.0.as_bytes(), other.as_bytes());
        a.len() == b.len() && a.iter().zip(b).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// A key that could not be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct NoKey {
    pub what: String,
    pub fix: String,
}

fn none(what: impl Into<String>, fix: impl Into<String>) -> NoKey {
    NoKey { what: what.into(), fix: fix.into() }
}

impl KeySettings {
    /// The key, where no program must be run for it.
    pub(crate) fn at_hand(&self) -> Option<Secret> {
        match self {
            KeySettings::Env(name) => std::env::var(name).ok().map(|key| Secret(key.trim().to_owned())),
            KeySettings::File(path) => aside(|| private_file(path)).ok().map(Secret),
            KeySettings::Keyring(_) | KeySettings::Written => None,
        }
    }

    /// Where it is, in words.
    pub(crate) fn place(&self) -> String {
        match self {
            KeySettings::Env(name) => format!("the variable {name} of the kernel's environment"),
            KeySettings::File(path) => format!("the file `{}`", path.display()),
            KeySettings::Keyring(command) => format!("`{}`", command.join(" ")),
            KeySettings::Written => "config.yml itself".to_owned(),
        }
    }

    /// Why there is surely none, as far as that shows without running a program.
    pub(crate) fn missing(&self) -> Option<NoKey> {
        match self {
            KeySettings::Env(name) => from_environment(name).err(),
            KeySettings::File(path) => private_file(path).err(),
            KeySettings::Keyring(_) | KeySettings::Written => None,
        }
    }

    /// Reads the key anew, so that a changed one counts from the next request that needs it.
    pub async fn read(&self) -> Result<Secret, NoKey> {
        match self {
            KeySettings::Env(name) => from_environment(name),
            KeySettings::File(path) => aside(|| private_file(path)).map(Secret),
            KeySettings::Keyring(command) => keyring(command).await,
            KeySettings::Written => {
                Err(none("a key that is written into the settings is not used", "say where it is kept: `key: {env: NAME}`"))
            }
        }
    }
}

/// A variable of this process.
fn from_environment(name: &str) -> Result<Secret, NoKey> {
    match std::env::var(name) {
        Ok(key) if !key.trim().is_empty() => Ok(Secret(key.trim().to_owned())),
        _ => Err(none(
            format!("the kernel's environment has no `{name}`"),
            format!("restart the kernel where {name} is set; or keep the key in a file and write `key: {{file: …}}` in config.yml"),
        )),
    }
}

/// The content of a file that only its owner can read.
pub(crate) fn private_file(path: &Path) -> Result<String, NoKey> {
    let shown = path.display();
    let fix = format!("put the key into `{shown}` and run `chmod 600 {shown}`");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path)
        .map_err(|error| none(format!("cannot open the key file `{shown}`: {error}"), &fix))?;
    let meta = file.metadata().map_err(|error| none(format!("cannot look at `{shown}`: {error}"), &fix))?;
    if !meta.is_file() || meta.mode() & 0o077 != 0 {
        return Err(none(format!("`{shown}` can be read by others, so it is no place for a key"), format!("chmod 600 {shown}")));
    }
    let mut text = String::new();
    file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(|error| none(format!("cannot read `{shown}`: {error}"), &fix))?;
    match text.trim() {
        "" => Err(none(format!("`{shown}` is empty"), fix)),
        key => Ok(key.to_owned()),
    }
}

async fn keyring(command: &[String]) -> Result<Secret, NoKey> {
    let fix = "unlock the keyring, or run the command of `key: {keyring: […]}` by hand to see what it says";
    let (program, arguments) = command.split_first().ok_or_else(|| none("`keyring` names no program", fix))?;
    let mut child = tokio::process::Command::new(program);
    child.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let output = tokio::time::timeout(KEYRING, child.output()).await;
    let output = match output {
        Err(_) => return Err(none(format!("`{program}` gave no key within {} s", KEYRING.as_secs()), fix)),
        Ok(Err(error)) => return Err(none(format!("`{program}` could not be run: {error}"), fix)),
        Ok(Ok(output)) => output,
    };
    let key = String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    match key {
        Some(key) if output.status.success() && key.len() as u64 <= KEY_BYTES_MAX => Ok(Secret(key)),
        _ => Err(none(format!("`{program}` gave no key ({})", output.status), fix)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_file_is_private_or_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "sk-1\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(private_file(&path).unwrap_err().what.ends_with("can be read by others, so it is no place for a key"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(private_file(&path), Ok("sk-1".to_owned()));
        std::fs::write(&path, " \n").unwrap();
        assert!(private_file(&path).unwrap_err().what.ends_with("is empty"));
        assert!(private_file(dir.path()).is_err());
    }

    #[tokio::test]
    async fn a_keyring_is_a_program_that_prints_the_key() {
        let words = |words: &[&str]| KeySettings::Keyring(words.iter().map(ToString::to_string).collect());
        assert_eq!(words(&["echo", "sk-2"]).read().await, Ok(Secret::new("sk-2")));
        assert!(words(&["false"]).read().await.unwrap_err().what.contains("gave no key"));
        assert!(words(&["true"]).read().await.is_err());
        assert!(words(&["/no/such/program"]).read().await.unwrap_err().what.contains("could not be run"));
    }

    #[test]
    fn a_secret_is_not_shown_and_is_compared_whole() {
        let secret = Secret::new("sk-3");
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert!(secret.same("sk-3") && !secret.same("sk-4") && !secret.same("sk-33") && !secret.same(""));
    }
}
