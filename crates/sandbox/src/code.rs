//! Gives back memory that only the start of a process needed, or its last load: pages of code and constants, and free pages of the heap.
//!
//! The system maps code in pieces of sixteen pages around each first use, so a start that runs a little of everything leaves most of a
//! binary in the process's resident memory. Given back, they stay in the system's cache of the file, and what is used again is mapped
//! again, without reading. The heap keeps what was freed for the next who asks, page for page and thread for thread, and gives back only
//! what happens to lie at its end.

use std::fs;
use std::io;

/// Unmaps the pages of this process that are what a file holds, its code and constants, until they are used again.
pub fn release_code() -> io::Result<()> {
    for (start, end) in unwritten(&fs::read_to_string("/proc/self/smaps")?) {
        // SAFETY: the range is a private mapping of a file that nobody may write (`r-xp`, `r--p`) and of which no page was ever written, so
        // each page is what the file holds, and the system maps it again where it is touched, by this thread or another. Nothing here
        // unmaps a library or makes such a range writable, so it is still that mapping. What the loader wrote before it took the
        // right to write away has pages of its own and is not among them.
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

/// Start and end of each mapping that is what its file holds.
fn unwritten(smaps: &str) -> Vec<(usize, usize)> {
    let (mut found, mut mapping) = (Vec::new(), None);
    for line in smaps.lines() {
        if let Some(written) = line.strip_prefix("Anonymous:") {
            found.extend(mapping.take().filter(|_| written.trim() == "0 kB"));
        } else if let Some(range) = range(line) {
            mapping = is_file(line).then_some(range);
        }
    }
    found
}

/// What the first line of a mapping begins with; the other lines begin with a name.
fn range(line: &str) -> Option<(usize, usize)> {
    let (start, end) = line.split_ascii_whitespace().next()?.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

/// Is it a file's, and may nobody write it?
fn is_file(line: &str) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    matches!(fields.next(), Some("r-xp" | "r--p")) && fields.nth(3).is_some_and(|path| path.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::{release_code, release_heap, unwritten};

    #[test]
    fn only_what_a_file_holds_is_given_back() {
        let smaps = |line: &str, written: &str| format!("{line}\nSize:  8 kB\nRss:  8 kB\nAnonymous:  {written}\nVmFlags: rd\n");
        let code = smaps("1000-3000 r-xp 00001000 fe:00 12   /usr/bin/skep", "0 kB");
        assert_eq!(unwritten(&code), [(0x1000, 0x3000)]);
        let constants = smaps("5000-6000 r--p 00001000 fe:00 12   /a b (deleted)", "0 kB");
        assert_eq!(unwritten(&(code + &constants)), [(0x1000, 0x3000), (0x5000, 0x6000)]);
        for (line, written) in [
            ("1000-3000 r-xp 00001000 fe:00 12   /usr/bin/skep", "4 kB"),
            ("1000-3000 r--p 00001000 fe:00 12   /usr/bin/skep", "8 kB"),
            ("1000-3000 rw-p 00001000 fe:00 12   /usr/bin/skep", "0 kB"),
            ("1000-3000 rwxp 00001000 fe:00 12   /usr/bin/skep", "0 kB"),
            ("1000-3000 r-xs 00001000 fe:00 12   /usr/bin/skep", "0 kB"),
            ("1000-3000 ---p 00001000 fe:00 12   /usr/bin/skep", "0 kB"),
            ("1000-3000 r-xp 00000000 00:00 0", "0 kB"),
            ("1000-3000 r-xp 00000000 00:00 0    [vdso]", "0 kB"),
        ] {
            assert_eq!(unwritten(&smaps(line, written)), [], "{line}");
        }
    }

    #[test]
    fn constants_of_this_program_are_found_and_the_loaders_tables_are_not() {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (code, constant) = (release_code as *const () as usize, NAMES[0].as_ptr() as usize);
        // The place of a name is written by the loader, because it is not known before the program is in memory.
        let written = NAMES.as_ptr() as usize;
        let found = unwritten(&smaps);
        let is_found = |place: usize| found.iter().any(|(start, end)| (*start..*end).contains(&place));
        assert_eq!((is_found(code), is_found(constant), is_found(written)), (true, true, false));
    }

    static NAMES: [&str; 2] = ["a constant of some length", "and one more"];

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
