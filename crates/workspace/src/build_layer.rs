//! What builds left in ignored folders, taken out of one room to lie under later ones.
//!
//! **Invariant.** Nothing is taken that git does not ignore, so no source and no test comes from here. No link is followed, no file is changed
//! that another room may be reading: what two layers have in common has two names. *Does not know* who ran what, nor whether it may be used.

use crate::hash::hex;
use crate::ignored::is_ignored;
use crate::replay::whiteout;
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};

/// Python takes bytecode for that of a source by the second in which the source was written, and two sources may have one second.
const NEVER_TAKEN: [&str; 1] = ["__pycache__"];
const OPAQUE: &str = "user.overlay.opaque";
/// Deeper than any build.
const DEPTH_MAX: usize = 200;

/// Leaves in an upper layer that no room has mounted what git ignores, and removes everything else. Gives the topmost of the ignored paths.
pub fn keep_ignored(upper: &Path, ignored: &BTreeSet<String>, except: &[&str]) -> io::Result<BTreeSet<PathBuf>> {
    let mut roots = BTreeSet::new();
    strip(upper, Path::new(""), ignored, except, &mut roots, 0)?;
    Ok(roots)
}

/// Whether anything is left of a folder.
fn strip(
    upper: &Path,
    at: &Path,
    ignored: &BTreeSet<String>,
    except: &[&str],
    roots: &mut BTreeSet<PathBuf>,
    depth: usize,
) -> io::Result<bool> {
    let mut is_left = false;
    for entry in std::fs::read_dir(upper.join(at))? {
        let entry = entry?;
        let path = at.join(entry.file_name());
        let kind = entry.file_type()?;
        let may_be = depth < DEPTH_MAX
            && !NEVER_TAKEN.iter().any(|name| entry.file_name() == *name)
            && !except.iter().any(|except| path == Path::new(except));
        let is_wanted = may_be && is_ignored(&path, ignored);
        let keeps = match () {
            () if kind.is_dir() => may_be && (strip(upper, &path, ignored, except, roots, depth + 1)? || is_wanted),
            () => is_wanted && (kind.is_file() || kind.is_symlink() || is_mark(&entry.metadata()?)),
        };
        if keeps {
            is_left = true;
            if is_wanted && !is_ignored(at, ignored) {
                roots.insert(path);
            }
        } else if kind.is_dir() {
            sandbox::remove(&entry.path())?;
        } else {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(is_left)
}

/// A device that does not exist: an overlay's mark of a deletion.
fn is_mark(found: &Metadata) -> bool {
    found.file_type().is_char_device() && found.rdev() == 0
}

/// Puts what an older layer holds under a newer one, by a second name for each file.
pub fn underlay(older: &Path, newer: &Path) -> io::Result<()> {
    underlay_folder(older, newer, 0)
}

fn underlay_folder(older: &Path, newer: &Path, depth: usize) -> io::Result<()> {
    if depth > DEPTH_MAX || is_opaque(newer) {
        return Ok(());
    }
    for entry in std::fs::read_dir(older)? {
        let entry = entry?;
        let (from, to) = (entry.path(), newer.join(entry.file_name()));
        let found = entry.metadata()?;
        match to.symlink_metadata() {
            Ok(there) if there.is_dir() && found.is_dir() => underlay_folder(&from, &to, depth + 1)?,
            // What is newer counts, a mark of a deletion as well.
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => copy(&from, &to, &found, depth)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path, found: &Metadata, depth: usize) -> io::Result<()> {
    if found.is_dir() {
        DirBuilder::new().mode(0o700).create(to)?;
        underlay_folder(from, to, depth + 1)?;
        if is_opaque(from) {
            lsetxattr(to, OPAQUE, b"y", XattrFlags::empty())?;
        }
        std::fs::set_permissions(to, std::fs::Permissions::from_mode(found.mode() & 0o777))?;
        return lchown(to, Some(found.uid()), Some(found.gid()));
    }
    if is_mark(found) {
        return whiteout(to).map_err(|fault| io::Error::other(fault.to_string()));
    }
    // A link of a link has two names as well: nothing is followed.
    rustix::fs::linkat(rustix::fs::CWD, from, rustix::fs::CWD, to, rustix::fs::AtFlags::empty()).map_err(Into::into)
}

fn is_opaque(folder: &Path) -> bool {
    let mut value = [0_u8; 1];
    matches!(lgetxattr(folder, OPAQUE, &mut value[..]), Ok(1)) && value == *b"y"
}

/// What a project itself holds where a layer would lie over it, as one word; and when the last of it changed, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredState {
    pub digest: String,
    pub changed_us: i64,
}

/// Looks at every folder of the project that the layer has as well, beneath its topmost ignored paths.
pub fn covered_state(layer: &Path, project: &Path, roots: &BTreeSet<PathBuf>) -> io::Result<CoveredState> {
    let mut look = Look { hasher: Sha256::new(), changed_us: 0 };
    for root in roots {
        look.at(layer, project, root, 0)?;
    }
    Ok(CoveredState { digest: hex(&look.hasher.finalize()), changed_us: look.changed_us })
}

struct Look {
    hasher: Sha256,
    changed_us: i64,
}

impl Look {
    fn at(&mut self, layer: &Path, project: &Path, path: &Path, depth: usize) -> io::Result<()> {
        let found = match project.join(path).symlink_metadata() {
            Ok(found) => found,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                self.hasher.update(b"none");
                self.name(path.as_os_str());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.one(path.as_os_str(), &found);
        let is_folder = |path: PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if !found.is_dir() || depth > DEPTH_MAX || !is_folder(layer.join(path)) {
            return Ok(());
        }
        let mut names: Vec<_> =
            std::fs::read_dir(project.join(path))?.map(|entry| entry.map(|entry| entry.file_name())).collect::<Result<_, _>>()?;
        names.sort();
        for name in names {
            let inner = path.join(&name);
            if is_folder(layer.join(&inner)) {
                self.at(layer, project, &inner, depth + 1)?;
            } else if let Ok(found) = project.join(&inner).symlink_metadata() {
                self.one(&name, &found);
            }
        }
        Ok(())
    }

    fn name(&mut self, name: &OsStr) {
        self.hasher.update((name.len() as u64).to_le_bytes());
        self.hasher.update(name.as_bytes());
    }

    fn one(&mut self, name: &OsStr, found: &Metadata) {
        self.name(name);
        // A folder is what is in it.
        let parts = if found.is_dir() {
            [u64::from(found.mode()), found.ino(), 0, 0, 0]
        } else {
            [u64::from(found.mode()), found.ino(), found.size(), found.ctime() as u64, found.ctime_nsec() as u64]
        };
        for part in parts {
            self.hasher.update(part.to_le_bytes());
        }
        if !found.is_dir() {
            self.changed_us = self.changed_us.max(found.ctime().saturating_mul(1_000_000).saturating_add(found.ctime_nsec() / 1_000));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn ignored(paths: &[&str]) -> BTreeSet<String> {
        paths.iter().map(|path| (*path).to_owned()).collect()
    }

    #[test]
    fn only_what_is_ignored_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let upper = folder.path();
        for path in ["src/a.rs", "src/gen/x", "target/debug/a.o", "target/report", "target/__pycache__/a.pyc", "b/__pycache__/b.pyc", "out"]
        {
            write(upper, path, "x");
        }
        std::os::unix::fs::symlink("/etc", upper.join("target/link")).unwrap();
        let listed = ignored(&["target", "src/gen/x", "out", "b/__pycache__"]);
        let roots = keep_ignored(upper, &listed, &["target/report"]).unwrap();
        assert_eq!(roots.iter().map(|path| path.to_str().unwrap()).collect::<Vec<_>>(), ["out", "src/gen/x", "target"]);
        for (path, is_kept) in [
            ("src/gen/x", true),
            ("target/debug/a.o", true),
            ("target/link", true),
            ("out", true),
            ("src/a.rs", false),
            ("target/report", false),
            ("target/__pycache__", false),
            ("b", false),
        ] {
            assert_eq!(upper.join(path).symlink_metadata().is_ok(), is_kept, "{path}");
        }
    }

    #[test]
    fn a_newer_layer_lies_over_an_older_one_and_changes_nothing_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (older, newer) = (folder.path().join("older"), folder.path().join("newer"));
        for path in ["t/a", "t/b", "t/gone", "t/deep/c", "u"] {
            write(&older, path, "old");
        }
        fs::create_dir_all(newer.join("t")).unwrap();
        write(&newer, "t/b", "new");
        whiteout(&newer.join("t/gone")).unwrap();
        underlay(&older, &newer).unwrap();
        let read = |path: &str| fs::read_to_string(newer.join(path)).unwrap();
        assert_eq!((read("t/a"), read("t/b"), read("t/deep/c"), read("u")), ("old".into(), "new".into(), "old".into(), "old".into()));
        assert!(is_mark(&newer.join("t/gone").symlink_metadata().unwrap()), "a deletion stays one");
        assert_eq!(fs::read_to_string(older.join("t/b")).unwrap(), "old");
        assert_eq!(newer.join("t/a").metadata().unwrap().ino(), older.join("t/a").metadata().unwrap().ino(), "one file with two names");
    }

    #[test]
    fn what_changes_beneath_a_layer_is_seen_and_what_changes_beside_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (project, layer) = (folder.path().join("project"), folder.path().join("layer"));
        write(&project, "target/debug/own", "1");
        write(&project, "src/a.rs", "1");
        write(&project, "other/x", "1");
        write(&layer, "target/debug/ours", "1");
        write(&layer, "gen/x", "1");
        let roots: BTreeSet<PathBuf> = [PathBuf::from("gen"), PathBuf::from("target")].into();
        let look = || covered_state(&layer, &project, &roots).unwrap();
        let first = look();
        write(&project, "src/a.rs", "2");
        write(&project, "other/y", "2");
        assert_eq!(look(), first, "the control: nothing of it is covered");
        write(&project, "target/debug/own", "2");
        let second = look();
        assert!(second != first && second.changed_us > 0);
        write(&project, "gen/x", "mine");
        assert!(look() != second, "a file of the person's where the layer has one");
    }
}
