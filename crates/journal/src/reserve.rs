//! A few megabytes of disk kept back, so that a security event can still be written when the disk is full.

use std::fs;
use std::path::{Path, PathBuf};

use crate::files;

pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(crate) fn new(home: &Path, bytes: u64) -> Self {
        Self { path: home.join("reserve"), bytes }
    }

    /// Takes the space if the disk has it; a disk without it is not a fault, it has no reserve.
    pub(crate) fn hold(&self) -> bool {
        if self.held() {
            return true;
        }
        let taken = files::create_private(&self.path)
            .is_ok_and(|file| rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, self.bytes.max(1)).is_ok());
        if !taken {
            let _ = fs::remove_file(&self.path);
        }
        taken
    }

    pub(crate) fn held(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|meta| meta.len() >= self.bytes.max(1))
    }

    /// Gives the space back to the disk; says whether there was any.
    pub(crate) fn release(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}
