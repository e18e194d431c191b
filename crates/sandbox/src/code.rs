//! Gives back memory that only the start of a process needed, or its last load: pages of code, and free pages of the heap.
//!
//! The system maps code in pieces of sixteen pages around each first use, so a start that runs a little of everything leaves most of a
//! binary in the process's resident memory. Given back, they stay in the system's cache of the file, and what is used again is mapped
//! again, without reading. The heap keeps what was freed for the next who asks, page for page and thread for thread, and gives back only
//! what happens to lie at its end.

use std::fs;
use std::io;

/// Unmaps this process's code pages until they are used again.
pub fn release_code() -> io::Result<()> {
    for (start, end) in fs::read_to_string("/proc/self/maps")?.lines().filter_map(code) {
        // SAFETY: the range is a private mapping of a file that can be read and executed and never written (`r-xp`), so each page is
        // what the file holds, and the system maps it again where it is touched, by this thread or another. Nothing here unmaps
        // a library, so the range is still that mapping.
        let done = unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// So many heaps share what threads ask for. The C library would make eight for each core, and each keeps pages that others could use.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;

/// Has all threads share a few heaps; for a process that has one thread yet. Does nothing where the C library is not the GNU one.
pub fn share_heaps() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it sets one number of the C library, which is read where a thread first asks for memory; it is refused by its result alone.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS);
    }
}

/// Gives the free pages of the heap back. Does nothing where the C library is not the GNU one, whose heap alone has to be told.
pub fn release_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes the heap's own locks, touches no memory that is in use, and has no argument but how much to keep at the end.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Start and end of a line's mapping, if it is code of a file.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let is_code = fields.next()? == "r-xp" && fields.nth(3)?.starts_with('/');
    is_code.then_some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::{code, release_code, release_heap};

    #[test]
    fn only_code_of_files_is_given_back() {
        assert_eq!(code("1000-3000 r-xp 00001000 fe:00 12   /usr/bin/skep"), Some((0x1000, 0x3000)));
        assert_eq!(code("1000-3000 r-xp 00001000 fe:00 12   /a b (deleted)"), Some((0x1000, 0x3000)));
        for other in [
            "1000-3000 r--p 00001000 fe:00 12   /usr/bin/skep",
            "1000-3000 rw-p 00001000 fe:00 12   /usr/bin/skep",
            "1000-3000 rwxp 00001000 fe:00 12   /usr/bin/skep",
            "1000-3000 r-xs 00001000 fe:00 12   /usr/bin/skep",
            "1000-3000 r-xp 00000000 00:00 0",
            "1000-3000 r-xp 00000000 00:00 0    [vdso]",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
    }

    #[test]
    fn code_runs_on_after_it_was_given_back() {
        let other = std::thread::spawn(|| (0..200_000_u64).fold(7, |sum, n| sum ^ n.wrapping_mul(31)));
        let wanted = (0..200_000_u64).fold(7, |sum, n| sum ^ n.wrapping_mul(31));
        for _ in 0..20 {
            release_code().unwrap();
        }
        assert_eq!(other.join().unwrap(), wanted);
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn a_heap_with_holes_is_given_back() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
        };
        // In pieces that the heap itself holds, every hundredth of which stays: so nothing lies free at its end.
        let mut pieces: Vec<Vec<u8>> = (0..8_000).map(|n| vec![n as u8; 8_000]).collect();
        let mut nth = 0;
        pieces.retain(|_| {
            nth += 1;
            nth % 100 == 0
        });
        let kept = resident();
        release_heap();
        let left = resident();
        assert!(left + (32 << 20) < kept, "{kept} bytes before, {left} after");
        assert_eq!(pieces.len(), 80);
    }
}
