//! What the kernel writes into a repository: objects of a commit, one reference, and the person's index. No program runs here.
//!
//! The files and locks are git's own (`git update-ref REF NEW OLD`, `index.lock`), so a git of the person's that runs meanwhile waits or is
//! told. **Invariant.** A reference goes from the value that was expected to the new one in one rename, or stays. A lock that a crash left
//! is known by what is in it, and only such a one is taken away. All writes go through `file.rs`, which follows no link.

use super::file::{Lock, RepositoryFile};
use super::reference::{self, Target};
use super::{PACKED_BYTES_MAX, Repository, unusable};
use crate::reader::{self, Folder, Unread};
use rustix::fs::FileType;
use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};
use world::{Code, CommitWish, Fault, Refusal, Stop};

/// An index of a million files has less.
const INDEX_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Where a commit goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitTarget {
    /// `HEAD` where no branch is checked out, else `refs/heads/…`.
    pub reference: String,
    /// What it leads to; `None` before the first commit.
    pub parent: Option<String>,
    /// The work tree's own folder of the repository, and what all share.
    own: PathBuf,
    common: PathBuf,
    is_head: bool,
}

/// The reference that a commit moves: that of the branch which is checked out, or of another one by its name.
pub async fn commit_target(top: &Path, home: &Path, branch: Option<&str>) -> Result<CommitTarget, Stop> {
    let (top, home, branch) = (top.to_owned(), home.to_owned(), branch.map(str::to_owned));
    let found = reader::bounded(move || {
        let repository =
            Repository::open(&top, &home).map_err(|unusable| Refusal::new(Code::Unsupported, unusable.what).hint(unusable.fix))?;
        repository.target_of(branch.as_deref())
    });
    Ok(found.await??)
}

/// The reference under which the commits of a task are kept: of nobody's branch, so nothing that is checked out moves with it.
pub async fn task_target(top: &Path, home: &Path, task: &str) -> Result<CommitTarget, Stop> {
    let (top, home, reference) = (top.to_owned(), home.to_owned(), format!("refs/skep/{task}"));
    let found = reader::bounded(move || {
        let repository =
            Repository::open(&top, &home).map_err(|unusable| Refusal::new(Code::Unsupported, unusable.what).hint(unusable.fix))?;
        repository.check_writable()?;
        let (own, common) = (repository.own.path().to_owned(), repository.common().path().to_owned());
        let parent = repository.value(&reference);
        Ok::<_, Refusal>(CommitTarget { reference, parent, own, common, is_head: false })
    });
    Ok(found.await??)
}

impl Repository {
    /// Refuses a repository whose references or folders are not those that are written here.
    fn check_writable(&self) -> Result<(), Refusal> {
        if self.common().look("reftable").is_ok() {
            return Err(Refusal::new(Code::Unsupported, "this repository keeps its branches in reftables")
                .hint("merge without a commit, and commit it yourself"));
        }
        if let Some(odd) = self.odd_folder() {
            return Err(Refusal::new(Code::Unsupported, format!("`{odd}` of the repository is not an ordinary folder"))
                .hint("remove it, or clone the repository anew"));
        }
        Ok(())
    }

    fn target_of(&self, branch: Option<&str>) -> Result<CommitTarget, Refusal> {
        let no = |what: String| Refusal::new(Code::WrongState, what);
        self.check_writable()?;
        let head = self.target(&self.own, "HEAD").ok_or_else(|| no("HEAD cannot be read".into()))?;
        let (own, common) = (self.own.path().to_owned(), self.common().path().to_owned());
        let Some(branch) = branch else {
            let states = ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_START"];
            if let Some(found) = states.iter().find(|name| self.own.look(name).is_ok()) {
                return Err(no(format!("something of git's is not finished here ({found})")).hint("finish or abort it first"));
            }
            let reference = match head {
                Target::Reference(name) => name,
                Target::Commit(_) => "HEAD".to_owned(),
            };
            return Ok(CommitTarget { reference, parent: self.head(), own, common, is_head: true });
        };
        let reference = format!("refs/heads/{branch}");
        if !reference::is_name(&reference) || branch.starts_with('-') || branch == "HEAD" {
            return Err(Refusal::new(Code::BadInput, format!("`{branch}` is no name of a branch")).hint("see `git help check-ref-format`"));
        }
        if head == Target::Reference(reference.clone()) {
            return Err(no(format!("`{branch}` is checked out here")).remedy(world::Remedy::CommitOnHead));
        }
        if let Some(tree) = self.checked_out(&reference) {
            return Err(no(format!("`{branch}` is checked out in another work tree ({tree})")).hint("take another name"));
        }
        if let Some(other) = self.in_the_way(&reference) {
            return Err(no(format!("the branch `{}` is in the way", other.trim_start_matches("refs/heads/"))).hint("take another name"));
        }
        // A new one begins where the work tree stands.
        let parent = self.value(&reference).or_else(|| self.head());
        Ok(CommitTarget { reference, parent, own, common, is_head: false })
    }

    /// A name among those that a commit writes beneath which is no folder: a link would lead the write elsewhere.
    fn odd_folder(&self) -> Option<String> {
        let common = self.common();
        let is_odd = |name: &str| common.look(name).is_ok_and(|stat| !FileType::from_raw_mode(stat.st_mode).is_dir());
        if let Some(name) = ["objects", "refs", "refs/heads", "refs/skep"].into_iter().find(|name| is_odd(name)) {
            return Some(name.to_owned());
        }
        let stored = common.entries(Path::new("objects")).unwrap_or_default();
        let odd = stored.into_iter().find(|entry| entry.name.len() == 2 && entry.kind != FileType::Directory);
        odd.map(|entry| format!("objects/{}", entry.name.to_string_lossy()))
    }

    /// What a reference leads to.
    fn value(&self, name: &str) -> Option<String> {
        match self.target(self.common(), name).or_else(|| self.packed(name))? {
            Target::Commit(commit) => Some(commit),
            Target::Reference(_) => None,
        }
    }

    /// The work tree, of those beside ours, that has a branch checked out.
    fn checked_out(&self, reference: &str) -> Option<String> {
        let is = |folder: &Folder, name: &str| self.target(folder, name) == Some(Target::Reference(reference.to_owned()));
        if self.shared.is_some() && is(self.common(), "HEAD") {
            return Some("the main one".into());
        }
        let trees = self.common().list("worktrees", 10_000).unwrap_or_default();
        let names = trees.into_iter().map(|tree| tree.to_string_lossy().into_owned());
        names.into_iter().find(|tree| is(self.common(), &format!("worktrees/{tree}/HEAD")))
    }

    /// A branch whose name is a folder of this one's, or the other way round: git can have only one of them.
    fn in_the_way(&self, reference: &str) -> Option<String> {
        let above = Path::new(reference).ancestors().skip(1).filter_map(Path::to_str).filter(|name| name.len() > "refs/heads".len());
        if let Some(name) = above.into_iter().find(|name| self.value(name).is_some()) {
            return Some(name.to_owned());
        }
        let packed = self.common().read("packed-refs", PACKED_BYTES_MAX).unwrap_or_default();
        let beneath = format!(" {reference}/");
        String::from_utf8_lossy(&packed).lines().find(|line| line.contains(&beneath)).map(|line| {
            let at = line.find("refs/").unwrap_or(0);
            line[at..].to_owned()
        })
    }
}

impl CommitTarget {
    /// Where the repository keeps objects.
    pub fn objects(&self) -> PathBuf {
        self.common.join("objects")
    }

    /// Does it belong to the work tree, so that its index is refreshed?
    pub fn is_head(&self) -> bool {
        self.is_head
    }

    /// Puts objects that were written elsewhere into the repository. One that is there already stays.
    pub fn store(&self, objects: &[(PathBuf, Vec<u8>)]) -> Result<(), Fault> {
        let store = self.objects();
        let owner = store.symlink_metadata().map_err(|error| Fault::io("look at", &store, error))?;
        for (name, bytes) in objects {
            let object = RepositoryFile::of(&store, name, &owner).map_err(|error| Fault::io("write", &store.join(name), error))?;
            if !object.exists() {
                object.put(bytes, 0o444)?;
            }
        }
        sync_folder(&store)
    }

    /// The value that the reference has now.
    pub fn now(&self) -> Result<Option<String>, Stop> {
        let read = || -> Result<Option<String>, Unread> {
            let common = Folder::open(&self.common)?;
            let folder = if self.reference == "HEAD" { Folder::open(&self.own)? } else { Folder::open(&self.common)? };
            let loose = match folder.read(&self.reference, super::POINTER_BYTES_MAX) {
                Ok(text) => super::line(&text).and_then(reference::parse),
                Err(Unread::Absent) => None,
                Err(why) => return Err(why),
            };
            let packed = || match common.read("packed-refs", PACKED_BYTES_MAX) {
                Ok(text) => Ok(reference::find(&text, &self.reference)),
                Err(Unread::Absent) => Ok(None),
                Err(why) => Err(why),
            };
            let found = match loose {
                Some(found) => Some(found),
                None => packed()?,
            };
            Ok(found.and_then(|found| match found {
                Target::Commit(commit) => Some(commit),
                Target::Reference(_) => None,
            }))
        };
        Ok(read()
            .map_err(|why| Refusal::new(Code::WrongState, unusable(format!("`{}` cannot be read: {why}", self.reference), "").what))?)
    }

    /// Moves the reference from `old` to `new` if it still leads to `old`, as `git update-ref` does. Done already is done.
    pub fn swing(&self, old: Option<&str>, new: &str, wish: &CommitWish, since_1970_s: u64, why: &str) -> Result<(), Stop> {
        let base = if self.reference == "HEAD" { &self.own } else { &self.common };
        let owner = self.owner()?;
        let place = RepositoryFile::of(base, Path::new(&self.reference), &owner);
        let place = place.map_err(|error| Fault::io("write", &base.join(&self.reference), error))?;
        let lock = place.lock(format!("{new}\n").as_bytes())?;
        let now = self.now()?;
        if now.as_deref() == Some(new) {
            return Ok(());
        }
        // A branch that is not there yet begins at a commit that it never had.
        let is_new = !self.is_head && now.is_none();
        if now.as_deref() != old && !is_new {
            let what = format!("`{}` moved meanwhile", self.reference.trim_start_matches("refs/heads/"));
            return Err(Refusal::new(Code::WrongState, what).into());
        }
        lock.commit(&place)?;
        let zero = "0".repeat(new.len());
        let who = format!("{} <{}> {since_1970_s} {}", plain(&wish.name), plain(&wish.email), plain(&wish.zone));
        let entry = format!("{} {new} {who}\t{why}\n", now.as_deref().unwrap_or(&zero));
        if self.is_head {
            log(&self.own, "HEAD", &entry, &owner);
        }
        if self.reference != "HEAD" {
            log(&self.common, &self.reference, &entry, &owner);
        }
        Ok(())
    }

    fn owner(&self) -> Result<Metadata, Fault> {
        self.common.symlink_metadata().map_err(|error| Fault::io("look at", &self.common, error))
    }

    /// Locks the person's index and gives what it holds; `None` where there is none. `mark` tells whose lock it is.
    pub fn lock_index(&self, mark: &str) -> Result<Option<LockedIndex>, Stop> {
        let place = RepositoryFile::of(&self.own, Path::new("index"), &self.owner()?);
        let place = place.map_err(|error| Fault::io("lock", &self.own.join("index"), error))?;
        let lock = place.lock(format!("{mark}\n").as_bytes())?;
        match Folder::open(&self.own).and_then(|own| own.read_with_mode("index", INDEX_BYTES_MAX)) {
            Ok((bytes, mode)) => Ok(Some(LockedIndex { bytes, mode, place, _lock: lock })),
            Err(Unread::Absent) => Ok(None),
            Err(why) => Err(Refusal::new(Code::WrongState, format!("the index of git cannot be read: {why}")).into()),
        }
    }
}

/// An index that nobody else changes meanwhile.
pub struct LockedIndex {
    pub bytes: Vec<u8>,
    mode: u32,
    place: RepositoryFile,
    /// Let go with the rest.
    _lock: Lock,
}

impl LockedIndex {
    /// Puts another one in its place.
    pub fn replace(self, bytes: &[u8]) -> Result<(), Fault> {
        self.place.put(bytes, self.mode & 0o777)
    }
}

fn sync_folder(folder: &Path) -> Result<(), Fault> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| Fault::io("sync", folder, error))
}

/// Adds to a log of git's; a repository without logs gets none, and a log that cannot be written is no reason to stop.
fn log(base: &Path, reference: &str, entry: &str, owner: &Metadata) {
    let logs = base.join("logs");
    if !logs.symlink_metadata().is_ok_and(|logs| logs.is_dir()) {
        return;
    }
    if let Err(error) = RepositoryFile::of(&logs, Path::new(reference), owner).and_then(|log| log.append(entry)) {
        world::log!("skep: `{}` is not written: {error}", logs.join(reference).display());
    }
}

/// A name without what would end a log's field.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() && !"<>".contains(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository() -> (tempfile::TempDir, CommitTarget) {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        for name in ["objects", "refs/heads", "logs"] {
            std::fs::create_dir_all(git.join(name)).unwrap();
        }
        std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let reference = "refs/heads/main".to_owned();
        (folder, CommitTarget { reference, parent: None, own: git.clone(), common: git, is_head: true })
    }

    fn wish() -> CommitWish {
        CommitWish { branch: None, message: "m".into(), name: "A <b>".into(), email: "a@b".into(), zone: "+0200".into() }
    }

    #[test]
    fn a_reference_moves_from_what_was_expected_and_from_nothing_else() {
        let (_folder, target) = repository();
        let (one, two, three) = ("1".repeat(40), "2".repeat(40), "3".repeat(40));
        target.swing(None, &one, &wish(), 7, "first").unwrap();
        assert_eq!(target.now().unwrap(), Some(one.clone()));
        let refused = target.swing(Some(&two), &three, &wish(), 7, "no").unwrap_err();
        assert!(matches!(&refused, Stop::Refused(no) if no.reason == "`main` moved meanwhile"), "{refused}");
        assert_eq!(target.now().unwrap(), Some(one.clone()));
        target.swing(Some(&one), &two, &wish(), 8, "second").unwrap();
        target.swing(Some(&one), &two, &wish(), 8, "done already").unwrap();
        let log = std::fs::read_to_string(target.own.join("logs/refs/heads/main")).unwrap();
        assert_eq!(log, format!("{} {one} A b <a@b> 7 +0200\tfirst\n{one} {two} A b <a@b> 8 +0200\tsecond\n", "0".repeat(40)));
        // Found in the file that git packs references into.
        std::fs::remove_file(target.own.join("refs/heads/main")).unwrap();
        std::fs::write(target.own.join("packed-refs"), format!("{two} refs/heads/main\n")).unwrap();
        target.swing(Some(&two), &three, &wish(), 9, "third").unwrap();
        assert_eq!(target.now().unwrap(), Some(three));
        let left: Vec<_> = std::fs::read_dir(target.own.join("refs/heads")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["main"], "no lock is left");
    }

    #[test]
    fn a_lock_of_anothers_holds_and_our_own_from_before_a_crash_does_not() {
        let (_folder, target) = repository();
        let new = "1".repeat(40);
        let lock = target.own.join("refs/heads/main.lock");
        std::fs::write(&lock, "").unwrap();
        let refused = target.swing(None, &new, &wish(), 7, "no").unwrap_err();
        assert!(matches!(&refused, Stop::Refused(no) if no.reason.contains("another git works here")), "{refused}");
        assert!(lock.exists() && target.now().unwrap().is_none());
        std::fs::write(&lock, format!("{new}\n")).unwrap();
        target.swing(None, &new, &wish(), 7, "yes").unwrap();
        assert_eq!((target.now().unwrap(), lock.exists()), (Some(new), false));
    }

    /// What a repository's own names lead to is written by nobody, and nothing waits for it.
    #[test]
    fn links_and_pipes_in_a_repository_lead_no_write_away() {
        let (folder, target) = repository();
        let (outside, git) = (folder.path().join("outside"), &target.own);
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("mine"), "mine\n").unwrap();
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let pipe =
            |path: &Path| rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o600), 0).unwrap();
        let link = |to: &Path, at: &Path| std::os::unix::fs::symlink(to, at).unwrap();
        // Logs: one is a link to a file, a pipe, and then in a folder elsewhere. The commit is there all the same.
        link(&outside.join("mine"), &git.join("logs/HEAD"));
        std::fs::create_dir_all(git.join("logs/refs/heads")).unwrap();
        pipe(&git.join("logs/refs/heads/main"));
        target.swing(None, &one, &wish(), 7, "first").unwrap();
        assert_eq!(target.now().unwrap(), Some(one.clone()));
        std::fs::remove_dir_all(git.join("logs")).unwrap();
        link(&outside, &git.join("logs"));
        target.swing(Some(&one), &two, &wish(), 7, "second").unwrap();
        // Objects.
        link(&outside, &git.join("objects/ab"));
        assert!(target.store(&[("ab/cd".into(), b"x".to_vec())]).is_err());
        target.store(&[("cd/ef".into(), b"x".to_vec())]).unwrap();
        assert_eq!(std::fs::read(git.join("objects/cd/ef")).unwrap(), b"x", "the control");
        // Locks.
        pipe(&git.join("index.lock"));
        let refused = target.lock_index("m-1").err().unwrap();
        assert!(matches!(&refused, Stop::Refused(no) if no.reason.contains("another git works here")), "{refused}");
        // A folder of references.
        std::fs::rename(git.join("refs/heads"), outside.join("heads")).unwrap();
        link(&outside.join("heads"), &git.join("refs/heads"));
        assert!(target.swing(Some(&two), &one, &wish(), 7, "third").is_err());
        let mut left: Vec<_> = std::fs::read_dir(&outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["heads", "mine"]);
        assert_eq!(std::fs::read_dir(outside.join("heads")).unwrap().count(), 1);
        assert_eq!(std::fs::read(outside.join("mine")).unwrap(), b"mine\n");
        assert_eq!(std::fs::read_to_string(outside.join("heads/main")).unwrap(), format!("{two}\n"));
    }

    #[test]
    fn an_index_is_replaced_under_its_lock() {
        let (_folder, target) = repository();
        assert!(target.lock_index("m-1").unwrap().is_none());
        std::fs::write(target.own.join("index"), "old").unwrap();
        let locked = target.lock_index("m-1").unwrap().unwrap();
        assert_eq!((locked.bytes.as_slice(), target.own.join("index.lock").exists()), (&b"old"[..], true));
        locked.replace(b"new").unwrap();
        assert_eq!(
            (std::fs::read(target.own.join("index")).unwrap().as_slice(), target.own.join("index.lock").exists()),
            (&b"new"[..], false)
        );
    }
}
