//! A read lease on a file: while it holds, nobody has the file open for writing.
//!
//! The kernel grants one only when no descriptor and no mapping can write to the file. Who opens or truncates it after that waits until
//! the lease is let go, and [`Lease::holds`] says no from then on. So what was read under a lease that still holds is what the file holds.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

/// `fcntl(2)`'s own number, which libc does not name.
const F_SETSIG: libc::c_int = 10;

/// Why there is no lease.
#[derive(Debug)]
pub enum NoLease {
    /// Somebody has the file open for writing.
    Busy,
    /// The file system has none, or the file is another user's: nothing is known.
    Unknown(io::Error),
}

/// A file that nobody has open for writing.
#[derive(Debug)]
pub struct WriteLease {
    file: File,
}

impl WriteLease {
    /// Takes a lease on a file that was opened for reading alone.
    pub fn take(file: File) -> Result<WriteLease, NoLease> {
        // The default signal of a broken lease, SIGIO, would end this process; SIGURG is ignored unless somebody asks for it.
        control(&file, F_SETSIG, libc::SIGURG).map_err(NoLease::Unknown)?;
        match control(&file, libc::F_SETLEASE, libc::F_RDLCK) {
            Ok(_) => Ok(WriteLease { file }),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Err(NoLease::Busy),
            Err(error) => Err(NoLease::Unknown(error)),
        }
    }

    /// Whether nobody has tried to write since it was taken.
    pub fn holds(&self) -> bool {
        control(&self.file, libc::F_GETLEASE, 0).is_ok_and(|kind| kind == libc::F_RDLCK)
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Lets waiting writers in, and waits until the last of them has closed the file. Says whether all have, within this time.
    pub fn wait_for_writers(&self, most: Duration) -> bool {
        let began = Instant::now();
        // Not ours any more, or never was: there is nobody to let in.
        let _: io::Result<libc::c_int> = control(&self.file, libc::F_SETLEASE, libc::F_UNLCK);
        // Whoever waits to write counts as a writer already.
        while control(&self.file, libc::F_SETLEASE, libc::F_RDLCK).is_err() {
            if began.elapsed() > most {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }
}

impl Drop for WriteLease {
    fn drop(&mut self) {
        // A child that is being started may hold a copy of the descriptor a moment longer, so closing it is not enough.
        let _: io::Result<libc::c_int> = control(&self.file, libc::F_SETLEASE, libc::F_UNLCK);
    }
}

fn control(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: these commands take an integer and touch no memory; the descriptor is open for as long as `file` is borrowed.
    match unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Read, Write};

    #[test]
    fn a_lease_is_had_while_nobody_writes_and_ends_when_somebody_tries() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "text").unwrap();
        let mut writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
        assert!(matches!(WriteLease::take(File::open(&path).unwrap()), Err(NoLease::Busy)));
        writer.write_all(b"!").unwrap();
        drop(writer);
        // Readers are no obstacle.
        let reader = File::open(&path).unwrap();
        let lease = WriteLease::take(File::open(&path).unwrap()).unwrap();
        assert!(lease.holds());
        std::thread::scope(|scope| {
            let late = scope.spawn(|| fs::OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(b"?")));
            while lease.holds() {
                std::thread::yield_now();
            }
            // It waits to be opened: nothing is written yet.
            assert_eq!(fs::read_to_string(&path).unwrap(), "text!");
            drop(lease);
            late.join().unwrap().unwrap();
        });
        let mut text = String::new();
        (&reader).read_to_string(&mut text).unwrap();
        assert_eq!(text, "text!?");
    }
}
