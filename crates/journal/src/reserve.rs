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
        let disk = self.path.parent().and_then(|home| rustix::fs::statvfs(home).ok());
        self.hold() && disk.is_none_or(|disk| disk.f_bavail * disk.f_frsize >= FREE_BYTES_MIN)
    }

    pub(crate) fn held(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|meta| meta.len() >= self.bytes.max(1))
    }

    /// Gives the space back to the disk; says whether there was any.
    pub(crate) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}
