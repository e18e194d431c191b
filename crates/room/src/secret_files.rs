//! Which files of a folder of the host no agent may read, though it is shown the folder.

use std::path::{Path, PathBuf};
use workspace::MaskedNames;
use world::{Code, Refusal};

/// Beside what is masked in every project: what lies in a home.
const ALSO: [&str; 14] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".git-credentials",
    ".pgpass",
    ".pypirc",
    "id_rsa",
    "id_ed25519",
    "id_ecdsa",
];
/// Roots that everybody trusts are no secret, and clients do not start without them.
const PUBLIC: &str = "site-packages";
/// More entries than a folder has that one shows to an agent.
const ENTRIES_MAX: usize = 500_000;

/// Paths beneath a folder, relative to it, that no room of an agent shows. Follows no link. A folder with more entries than can be looked through
/// is refused: nobody knows what it would show.
pub fn secret_files(folder: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let names = MaskedNames::new(folder, &ALSO.map(str::to_owned))?;
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    let mut seen = 0usize;
    while let Some(inner) = folders.pop() {
        // What cannot be read here cannot be read in a room of the same user either.
        for entry in std::fs::read_dir(folder.join(&inner)).into_iter().flatten().flatten() {
            seen += 1;
            if seen > ENTRIES_MAX {
                let why = format!("`{}` has more than {ENTRIES_MAX} files, too many to look for secrets among them", folder.display());
                return Err(Refusal::new(Code::TooLarge, why).hint("show a smaller folder"));
            }
            let path = inner.join(entry.file_name());
            let is_public = inner.components().any(|part| part.as_os_str() == PUBLIC);
            let is_secret = !is_public && names.find(&path.to_string_lossy()).is_some();
            if is_secret {
                found.push(path);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_in_a_home_is_found_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let secret = [".env", ".ssh/id_rsa", ".aws/credentials", "deep/er/.env.local", "deep/server.pem", ".config/gcloud/x", "id_ed25519"];
        let plain = ["a.py", ".env.example", ".config/app/x", "v/lib/python3/site-packages/certifi/cacert.pem", "deep/environment"];
        for path in secret.iter().chain(&plain) {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let found = secret_files(home.path()).unwrap();
        let expected = [".aws", ".config/gcloud", ".env", ".ssh", "deep/er/.env.local", "deep/server.pem", "id_ed25519"];
        assert_eq!(found, expected.map(PathBuf::from));
    }
}
