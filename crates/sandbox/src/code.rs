//! Gives back memory that only the start of a process needed, or its last load: pages of code and constants, and free pages of the heap.
//!
//! The system maps code in pieces of sixteen pages around each first use, so a start that runs a little of everything leaves most of a
//! binary in the process's resident memory. Given back, they stay in the system's cache of the file, and what is used again is mapped
//! again, without reading. The heap keeps what was freed for the next who asks, page for page and thread for thread, and gives back only
//! what happens to lie at its end.

use std::fs;
use std::io;
use std::ops::Range;

/// Unmaps the pages of this process that are what a program or library holds, its code and constants, until they are used again.
pub fn release_code() -> io::Result<()> {
    let loaded = loaded();
    for (start, end) in unwritten(&fs::read_to_string("/proc/self/smaps")?) {
        // INVARIANT: another thread may unmap a file meanwhile and get its place for something else. It never unmaps what the loader mapped.
        if !loaded.iter().any(|part| part.start <= start && end <= part.end) {
            continue;
        }
        // SAFETY: the range is a private mapping of a program or library that stays loaded, that nobody may write (`r-xp`, `r--p`) and of
        // which no page was ever written, so each page is what the file holds, and the system maps it again where it is touched, by this
        // thread or another. What the loader wrote before it took the right to write away has pages of its own and is not among them.
        let done = unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_DONTNEED) };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The parts of this program and of its libraries that nobody may write, in whole pages. None of these libraries is ever unloaded.
fn loaded() -> Vec<Range<usize>> {
    /// Called once for each of them.
    unsafe extern "C" fn add(object: *mut libc::dl_phdr_info, _: usize, found: *mut libc::c_void) -> libc::c_int {
        let page = rustix::param::page_size();
        // SAFETY: the loader passes a description that is valid during this call, with that many headers, and `found` is what `loaded` passes.
        let (object, found) = unsafe { (&*object, &mut *found.cast::<Vec<Range<usize>>>()) };
        if object.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: as above.
        let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_W == 0) {
            let start = (object.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize).next_multiple_of(page);
            found.push(start / page * page..end);
        }
        0
    }
    let mut found: Vec<Range<usize>> = Vec::new();
    // SAFETY: `add` is called before this returns and not later, with the list that is passed here; it does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut found).cast()) };
    found
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
    use super::{loaded, release_code, release_heap, unwritten};
    use std::os::fd::AsRawFd;

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

    /// A mapping as another thread may have one for a moment, while it looks through a file.
    fn map_file(file: &std::fs::File) -> usize {
        // SAFETY: a new mapping at a place that the system chooses, which nothing else knows.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0) };
        assert_ne!(place, libc::MAP_FAILED);
        place as usize
    }

    #[test]
    fn code_and_constants_of_this_program_are_found_and_nothing_else() {
        let this = std::fs::File::open("/proc/self/exe").unwrap();
        // The place of a name is written by the loader, because it is not known before the program is in memory.
        let (constant, written, mapped) = (NAMES[0].as_ptr() as usize, NAMES.as_ptr() as usize, map_file(&this));
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let (unwritten, loaded) = (unwritten(&smaps), loaded());
        let is_unwritten = |place: usize| unwritten.iter().any(|(start, end)| (*start..*end).contains(&place));
        let is_loaded = |place: usize| loaded.iter().any(|part| part.contains(&place));
        let found = [release_code as *const () as usize, constant, written, mapped].map(|place| (is_unwritten(place), is_loaded(place)));
        assert_eq!(found, [(true, true), (true, true), (false, false), (true, false)]);
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
