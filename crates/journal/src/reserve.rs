//! A few megabytes of disk kept back, so that a security event can still be written when the disk is full.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::files;

/// So much must be free beside the reserve: one full batch of records.
const FREE_BYTES_MIN: u64 = 1 << 20;

pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(crate) fn new(home: &Path, bytes: u64) -> Self {
        Self { path: home.join("reserve"), bytes }
    }

    /// Takes the space. `false` when the disk is too full for it; a file system that keeps nothing back has no reserve, which is no
    /// fault.
    pub(crate) fn hold(&self) -> bool {
        if self.held() {
            return true;
        }
        let flags = rustix::fs::FallocateFlags::empty();
        let full = |error: &std::io::Error| matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
        let taken = files::create_private(&self.path)
            .and_then(|file| rustix::fs::fallocate(&file, flags, 0, self.bytes.max(1)).map_err(std::io::Error::from));
        if taken.is_err() {
            let _ = fs::remove_file(&self.path);
        }
        !taken.is_err_and(|error| full(&error))
    }

    /// Takes the space again, and says whether the disk has more than that: enough for records to go on.
    pub(crate) fn restore(&self) -> bool {
        let has_space = self.has_space();
        self.hold() && has_space
    }

    /// Gives the space back where nothing else is left; says whether it did.
    pub(crate) fn release_if_full(&self) -> bool {
        !self.has_space() && self.release()
    }

    /// Whether the disk has space for records beside the reserve, as far as it can be asked.
    fn has_space(&self) -> bool {
        let disk = self.path.parent().and_then(|home| rustix::fs::statvfs(home).ok());
        disk.is_none_or(|disk| disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN)
    }

    pub(crate) fn held(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|meta| meta.len() >= self.bytes.max(1))
    }

    /// Gives the space back to the disk; says whether there was any.
    pub(crate) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}
