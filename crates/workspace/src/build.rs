//! Makes what shall stand at a place, beside it, and makes it durable.

use crate::hash;
use crate::shape::{ReadBlob, Shape, Spot, errno};
use crate::tree::{State, give, names};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use world::Fault;

impl Spot<'_> {
    /// Makes it here, where nothing is yet. `kept` is what an old file's new content keeps of it; `owner` is whose the rest is.
    pub fn build(&self, shape: &Shape, kept: Option<(u32, (u32, u32))>, owner: (u32, u32), blobs: &ReadBlob<'_>) -> Result<(), Fault> {
        match shape {
            Shape::Absent => Ok(()),
            Shape::Single(state) => self.write(state, kept, owner, blobs),
            Shape::Folder(members) => {
                let fault = |error| self.fault("make", error);
                let root = self.make_folder(owner).map_err(fault)?;
                for (path, state) in members {
                    let mut folder = root.try_clone().map_err(|error| fault(errno(&error)))?;
                    let Some(name) = path.file_name() else { continue };
                    for part in path.parent().unwrap_or(Path::new("")).components() {
                        folder = Spot { folder: &folder, name: part.as_os_str() }.make_folder(owner).map_err(fault)?;
                    }
                    Spot { folder: &folder, name }.write(state, None, owner, blobs)?;
                }
                Ok(())
            }
        }
    }

    /// With the permissions of the folder that it is in.
    fn make_folder(&self, owner: (u32, u32)) -> Result<OwnedFd, Errno> {
        let above = rustix::fs::fstat(self.folder)?;
        match rustix::fs::mkdirat(self.folder, self.name, Mode::from_raw_mode(above.st_mode & 0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let made = self.open_folder()?.ok_or(Errno::NOTDIR)?;
        give(&made, owner)?;
        Ok(made)
    }

    fn write(&self, state: &State, kept: Option<(u32, (u32, u32))>, owner: (u32, u32), blobs: &ReadBlob<'_>) -> Result<(), Fault> {
        let fault = |error| self.fault("write", error);
        let (blob, mode, own) = match state {
            State::Absent | State::Folder => return Ok(()),
            State::Link { target } => return rustix::fs::symlinkat(target, self.folder, self.name).map_err(fault),
            State::File { blob, mode, owner } => (blob, mode, owner),
        };
        let bytes = blobs(blob)?;
        let put = || -> Result<(), std::io::Error> {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(rustix::fs::openat(self.folder, self.name, flags, Mode::RUSR | Mode::WUSR)?);
            file.write_all(&bytes)?;
            // An old file keeps its owner, a restored one gets it back, a new one belongs to whom the project does.
            give(&file, kept.map(|(_, owner)| owner).or(*own).unwrap_or(owner))?;
            // Who runs as somebody else is no property of a content that others wrote.
            let mode = mode.or(kept.map(|(mode, _)| mode & 0o777)).unwrap_or(0o644);
            Ok(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?)
        };
        put().map_err(|error| fault(errno(&error)))
    }

    /// Makes what stands here durable, without its own name.
    pub fn sync(&self) -> Result<(), Errno> {
        fn folders(folder: &OwnedFd) -> Result<(), Errno> {
            for name in names(folder)? {
                Spot { folder, name: &name }.sync()?;
            }
            rustix::fs::fsync(folder)
        }
        if let Some(folder) = self.open_folder()? {
            return folders(&folder);
        }
        // A link is as durable as its folder.
        match self.open()? {
            Some(file) => rustix::fs::fsync(file),
            None => rustix::fs::fsync(self.folder),
        }
    }
}

/// The hidden name beside a path at which its new content waits, and its old one after they changed places.
pub fn temporary(path: &str) -> OsString {
    format!(".skep-merge-{}", &hash::sha256(path.as_bytes())[..16]).into()
}

/// The hidden name for what a file system without an exchange moves out of the way.
pub fn out_of_the_way(path: &str) -> OsString {
    format!(".skep-aside-{}", &hash::sha256(path.as_bytes())[..16]).into()
}
