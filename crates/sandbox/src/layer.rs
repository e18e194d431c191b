//! One layer of an overlay, read without trust: nothing is followed, nothing special opened.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

/// Whether a folder with these names in it is a git repository, or a part of one that names the rest: git takes it for one wherever it lies,
/// and runs what its settings say. In any case of letters.
pub fn is_repository<'a>(names: impl Iterator<Item = &'a OsStr>) -> bool {
    let (mut head, mut objects, mut refs, mut common) = (false, false, false, false);
    for name in names {
        head |= name.eq_ignore_ascii_case("HEAD");
        objects |= name.eq_ignore_ascii_case("objects");
        refs |= name.eq_ignore_ascii_case("refs");
        common |= name.eq_ignore_ascii_case("commondir");
    }
    head && ((objects && refs) || common)
}

/// Whether a folder is a repository by what both layers have in it.
pub(crate) fn is_repository_in(upper: &OwnedFd, lower: Option<&OwnedFd>) -> io::Result<bool> {
    let mut all = listed(lower)?;
    for name in names(upper)? {
        // A mark of deletion is no file.
        if let Some(stat) = stat(upper, &name)?
            && !is_whiteout(upper, &name, &stat)?
        {
            all.insert(name);
        }
    }
    Ok(is_repository(all.iter().map(OsString::as_os_str)))
}

/// Whether a folder is a repository, or the work tree of one, by what both layers have in it.
pub(crate) fn is_embedded(upper: &OwnedFd, lower: Option<&OwnedFd>) -> io::Result<bool> {
    if is_repository_in(upper, lower)? {
        return Ok(true);
    }
    let is_git = |name: &&OsString| name.eq_ignore_ascii_case(".git");
    let gits: BTreeSet<OsString> = names(upper)?.iter().filter(is_git).chain(listed(lower)?.iter().filter(is_git)).cloned().collect();
    for name in &gits {
        let mut inside = BTreeSet::new();
        for layer in [Some(upper), lower].into_iter().flatten() {
            let Some(stat) = stat(layer, name)? else { continue };
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::Directory => inside.extend(readable(open_folder(layer, name))?.map_or(Ok(BTreeSet::new()), |git| names(&git))?),
                // It may name a repository that lies elsewhere.
                FileType::RegularFile | FileType::Symlink if !is_whiteout(layer, name, &stat)? => return Ok(true),
                _ => {}
            }
        }
        if is_repository(inside.iter().map(OsString::as_os_str)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn listed(folder: Option<&OwnedFd>) -> io::Result<BTreeSet<OsString>> {
    folder.map_or(Ok(BTreeSet::new()), names)
}

pub(crate) fn stat(folder: impl AsFd, name: &OsStr) -> io::Result<Option<Stat>> {
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn open_folder(folder: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

/// The entry was a regular file a moment ago; should it be something else by now, opening must neither follow nor wait.
pub(crate) fn open_file(folder: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?.into())
}

pub(crate) fn readable<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        other => other.map(Some),
    }
}

pub(crate) fn read_link(folder: impl AsFd, name: &OsStr) -> io::Result<PathBuf> {
    let target = rustix::fs::readlinkat(folder, name, Vec::new())?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

pub(crate) fn names(folder: &OwnedFd) -> io::Result<BTreeSet<OsString>> {
    let mut names = BTreeSet::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.insert(OsString::from_vec(name.to_vec()));
        }
    }
    Ok(names)
}

/// A deletion mark: a device that does not exist, or an empty file that says so.
pub(crate) fn is_whiteout(folder: &OwnedFd, name: &OsStr, stat: &Stat) -> io::Result<bool> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::CharacterDevice => Ok(stat.st_rdev == 0),
        FileType::RegularFile if stat.st_size == 0 => match readable(open_file(folder, name))? {
            Some(file) => Ok(attribute(&file, c"user.overlay.whiteout")?.is_some()),
            None => Ok(false),
        },
        _ => Ok(false),
    }
}

pub(crate) fn attribute(file: impl AsFd, name: &std::ffi::CStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; 16];
    match rustix::fs::fgetxattr(file, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(Errno::RANGE) => Ok(Some(Vec::new())),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn same_bytes(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut left, mut right) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        let got = one.read(&mut left)?;
        if got == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        match other.read_exact(&mut right[..got]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            result => result?,
        }
        if left[..got] != right[..got] {
            return Ok(false);
        }
    }
}
