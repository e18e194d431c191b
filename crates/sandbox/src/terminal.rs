//! A terminal of a room's own: its name is one that programs in the room find.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

use crate::fault::{At, Failure, Step};
use crate::spec::Window;

/// Opens one in the room that this process is in: the side for whoever types and reads, and the job's.
pub(crate) fn open(window: Window) -> Result<(OwnedFd, OwnedFd), Failure> {
    let open = || {
        let ours = rustix::fs::open("/dev/pts/ptmx", OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::pty::unlockpt(&ours)?;
        let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        let Window { rows, columns } = window;
        rustix::termios::tcsetwinsize(&theirs, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
        Ok::<_, rustix::io::Errno>((ours, theirs))
    };
    open().at(Step::Terminal)
}

/// Makes a job's side its three streams.
pub(crate) fn streams(theirs: &OwnedFd, files: &mut [OwnedFd]) -> Result<(), Failure> {
    for file in files.iter_mut().take(3) {
        *file = theirs.try_clone().at(Step::Terminal)?;
    }
    Ok(())
}
