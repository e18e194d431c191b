//! Giving up what the child does not need: almost every system call.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};

/// Reading, writing, memory, time and the end. Opening a file, starting a program or thread, and every socket are no more.
#[rustfmt::skip]
const KEPT: &[libc::c_long] = &[
    libc::SYS_read, libc::SYS_write, libc::SYS_close, libc::SYS_brk, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise,
    libc::SYS_futex, libc::SYS_clock_gettime, libc::SYS_getrandom, libc::SYS_sched_yield, libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn, libc::SYS_sigaltstack,
    libc::SYS_getpid, libc::SYS_gettid, libc::SYS_tgkill, libc::SYS_exit, libc::SYS_exit_group,
];

/// Loads the filter. What is not kept fails with EPERM: the C library probes some calls and copes with a no.
pub(crate) fn lock() -> io::Result<()> {
    let failed = |error: seccompiler::Error| io::Error::other(error.to_string());
    let filter = filter().map_err(|error| failed(error.into()))?;
    seccompiler::apply_filter(&filter).map_err(failed)
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    // Memory may be had, but none of it may hold code.
    let no_code = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64), 0)?;
    let no_code = vec![SeccompRule::new(vec![no_code])?];
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = KEPT.iter().map(|call| (*call, Vec::new())).collect();
    rules.extend([libc::SYS_mmap, libc::SYS_mprotect].map(|call| (call, no_code.clone())));
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    SeccompFilter::new(rules, refuse, SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?.try_into()
}
