//! Which permission bits a merged file gets.
//!
//! **Invariant.** Of a mode only the executable bit is the task's to change, as git has it: who else may read or write a file is its
//! owner's matter.

/// A program or none, with what the operator's umask leaves to a new file.
pub fn mode_of_new(executable: bool, umask: u32) -> u32 {
    let all = if executable { 0o777 } else { 0o666 };
    all & !umask
}

/// The kernel's umask is that of the shell that started it. It can be read without being set only here; where it can't, the usual one holds.
pub fn umask() -> u32 {
    const USUAL: u32 = 0o022;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let said = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    said.and_then(|text| u32::from_str_radix(text.trim(), 8).ok()).unwrap_or(USUAL)
}

/// Execution for whoever may read, or for nobody.
pub fn with_execution(mode: u32, executable: bool) -> u32 {
    let plain = mode & 0o777 & !0o111;
    if executable { plain | ((plain & 0o444) >> 2) } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_file_is_gits_and_the_umask_holds() {
        let modes = |umask| (mode_of_new(false, umask), mode_of_new(true, umask));
        assert_eq!((modes(0o022), modes(0o077), modes(0o002)), ((0o644, 0o755), (0o600, 0o700), (0o664, 0o775)));
        assert_eq!((with_execution(0o640, true), with_execution(0o755, false)), (0o750, 0o644));
    }
}
