//! The system-call filters of jobs.
//!
//! An allow-list: a call that it does not name is answered with ENOSYS, as by a kernel that has never heard of it, so that libc
//! falls back (from clone3 to clone, whose flags a filter can read). Calls that are known and refused, and refused arguments of
//! known calls, get EPERM. A call of a foreign architecture kills.
//!
//! [`lock`] is the third profile, `strict`: a program of ours puts itself under it once it has started, for under it nothing can
//! be started. There every call that is not named gets EPERM.
//!
//! Compiled once, in the launcher, and only loaded in a job; loading is on the path of every start. It is a binary search over
//! ranges of call numbers, made here: the list that seccompiler makes of the same rules has ten times the instructions, and the
//! kernel took 1.1 ms to load them, as long as starting a program does.

use std::collections::BTreeMap;
use std::io;

use libc::sock_filter;

use crate::spec::Profile;
use crate::sys;

mod calls;
mod export;

pub(crate) use export::profile;

#[cfg(target_arch = "x86_64")]
const ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCH: u32 = 0xC000_00B7;

/// Where `struct seccomp_data` keeps things. Both architectures are little-endian: the low half of an argument comes first.
const NUMBER_AT: u32 = 0;
const ARCH_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const UNKNOWN: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
const DONE: u32 = libc::SECCOMP_RET_ERRNO;

const TIOCLINUX: u32 = 0x541C;
const TIOCSETD: u32 = 0x5423;

/// The transports of internet sockets; zero is the usual one of the type. Others are code that the host would load for a job.
const TRANSPORTS: &[i32] = &[0, libc::IPPROTO_ICMP, libc::IPPROTO_TCP, libc::IPPROTO_UDP, libc::IPPROTO_ICMPV6];

/// Every profile, compiled.
#[derive(Debug)]
pub(crate) struct Filters {
    standard: Vec<sock_filter>,
    standard_net: Vec<sock_filter>,
}

impl Filters {
    pub(crate) fn compile() -> Filters {
        let everyday = |families| compile(&standard(families), UNKNOWN);
        Filters { standard: everyday(Families::Unix), standard_net: everyday(Families::Internet) }
    }

    /// Puts this process and all its descendants under the profile, for good.
    pub(crate) fn load(&self, profile: Profile) -> io::Result<()> {
        match profile {
            // No command could start. Whoever wants it is our own child and loads it by itself.
            Profile::Strict => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            Profile::Standard => sys::load_filter(&self.standard, 0),
            Profile::StandardNet => sys::load_filter(&self.standard_net, 0),
        }
    }
}

/// What a child of ours keeps of sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    None,
    /// Unix ones, as seed 003 has it.
    Unix,
}

/// Puts this process, with all its threads, under `strict`, for good.
pub fn lock(sockets: Sockets) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let own = rustix::process::getpid().as_raw_nonzero().get().cast_unsigned();
    sys::load_filter(&compile(&strict(sockets, own), REFUSE), libc::SECCOMP_FILTER_FLAG_TSYNC)
}

/// `own` is the process that stays the only one: under the lock there is no fork.
fn strict(sockets: Sockets, own: u32) -> BTreeMap<u32, FilterAction> {
    let kept = calls::STRICT.iter().chain(if sockets == Sockets::Unix { calls::STRICT_SOCKETS } else { &[] });
    let mut verdicts: BTreeMap<u32, FilterAction> = kept.map(|call| (*call as u32, FilterAction::Return(ALLOW))).collect();
    // Memory may be had, but none of it may hold code.
    let no_code = || FilterAction::NoneOf { argument: 2, bits: libc::PROT_EXEC as u32 };
    verdicts.extend([(libc::SYS_mmap as u32, no_code()), (libc::SYS_mprotect as u32, no_code())]);
    // A thread may be signalled, as by abort, but not another process.
    verdicts.insert(libc::SYS_tgkill as u32, FilterAction::Only { argument: 0, values: vec![own] });
    if sockets == Sockets::Unix {
        let unix = || FilterAction::Only { argument: 0, values: vec![libc::AF_UNIX as u32] };
        verdicts.extend([(libc::SYS_socket as u32, unix()), (libc::SYS_socketpair as u32, unix())]);
    }
    verdicts
}

/// What becomes of a call. Only the low 32 bits of arguments are looked at, as the kernel itself does with these.
#[derive(Debug, Clone, PartialEq, Eq)]
enum FilterAction {
    Return(u32),
    /// Refused if the argument has any of these bits.
    NoneOf {
        argument: u32,
        bits: u32,
    },
    /// Refused for these values of the argument.
    AllBut {
        argument: u32,
        values: Vec<u32>,
    },
    /// Refused for all but these values of the argument.
    Only {
        argument: u32,
        values: Vec<u32>,
    },
    /// For this value of the argument answered as done, and not done; but asking, with a null for `order`, is allowed.
    Idle {
        argument: u32,
        value: u32,
        order: u32,
    },
    /// Refused for all families but these, and for all but these protocols of theirs; no list means any.
    Sockets {
        families: Vec<(i32, &'static [i32])>,
    },
}

/// The sockets of a profile for everyday programs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Families {
    Unix,
    Internet,
}

fn standard(families: Families) -> BTreeMap<u32, FilterAction> {
    let allowed = calls::allowed().map(|call| (call as u32, FilterAction::Return(ALLOW)));
    let refused = calls::refused().map(|call| (call as u32, FilterAction::Return(REFUSE)));
    let mut verdicts: BTreeMap<u32, FilterAction> = allowed.chain(refused).collect();
    let unix = libc::AF_UNIX as u32;
    let sockets = match families {
        Families::Unix => FilterAction::Only { argument: 0, values: vec![unix] },
        Families::Internet => FilterAction::Sockets {
            families: vec![
                (libc::AF_UNIX, &[]),
                (libc::AF_INET, TRANSPORTS),
                (libc::AF_INET6, TRANSPORTS),
                (libc::AF_NETLINK, &[libc::NETLINK_ROUTE]),
            ],
        },
    };
    verdicts.extend([
        // A new namespace, whichever bit asks for it.
        (libc::SYS_clone as u32, FilterAction::NoneOf { argument: 0, bits: calls::NAMESPACE_FLAGS }),
        (libc::SYS_socket as u32, sockets),
        (libc::SYS_socketpair as u32, FilterAction::Only { argument: 0, values: vec![unix] }),
        // Typing into another's terminal; having the host load a driver for a line.
        (libc::SYS_ioctl as u32, FilterAction::AllBut { argument: 1, values: vec![libc::TIOCSTI as u32, TIOCLINUX, TIOCSETD] }),
        // Programs with secrets set it to zero and end if they cannot; but zero would let the host's handler of crashes run for a job.
        (libc::SYS_prlimit64 as u32, FilterAction::Idle { argument: 1, value: libc::RLIMIT_CORE, order: 2 }),
        (libc::SYS_setrlimit as u32, FilterAction::Idle { argument: 0, value: libc::RLIMIT_CORE, order: 1 }),
        // `make` and whoever else starts programs by posix_spawn(RESETIDS) gives up an effective id that it does not have. The real id stays,
        // and without capabilities the others can become nothing but what they are.
        (libc::SYS_setresuid as u32, FilterAction::Only { argument: 0, values: vec![u32::MAX] }),
        (libc::SYS_setresgid as u32, FilterAction::Only { argument: 0, values: vec![u32::MAX] }),
        // Asking is harmless; changing turns off address randomisation and the like.
        (libc::SYS_personality as u32, FilterAction::Only { argument: 0, values: vec![0, u32::MAX] }),
    ]);
    verdicts
}

/// `otherwise` is the answer to a call that no verdict names.
fn compile(verdicts: &BTreeMap<u32, FilterAction>, otherwise: u32) -> Vec<sock_filter> {
    let mut program = vec![load(ARCH_AT), jump(libc::BPF_JEQ, ARCH, 1, 0), answer(KILL), load(NUMBER_AT)];
    program.extend(search(&ranges(verdicts, otherwise)));
    program
}

/// Where each stretch of numbers with the same verdict begins, from 0 up; the last has no end.
fn ranges(verdicts: &BTreeMap<u32, FilterAction>, otherwise: u32) -> Vec<(u32, FilterAction)> {
    let mut ranges = vec![(0, FilterAction::Return(otherwise))];
    let mut add = |start, verdict: FilterAction| match ranges.last_mut() {
        Some((at, last)) if *at == start => *last = verdict,
        Some((_, last)) if *last == verdict => {}
        _ => ranges.push((start, verdict)),
    };
    let mut next = 0;
    for (number, verdict) in verdicts {
        if *number != next {
            add(next, FilterAction::Return(otherwise));
        }
        add(*number, verdict.clone());
        next = number + 1;
    }
    add(next, FilterAction::Return(otherwise));
    ranges
}

/// A tree of comparisons; the number is in the accumulator.
fn search(ranges: &[(u32, FilterAction)]) -> Vec<sock_filter> {
    match ranges {
        [] => vec![answer(UNKNOWN)],
        [(_, verdict)] => judge(verdict),
        _ => {
            let (low, high) = ranges.split_at(ranges.len() / 2);
            let (below, above) = (search(low), search(high));
            let mut code = if below.len() <= usize::from(u8::MAX) {
                vec![jump(libc::BPF_JGE, high[0].0, below.len() as u8, 0)]
            } else {
                // A comparison jumps at most 255 instructions; a plain jump goes anywhere.
                let far = sock_filter { code: (libc::BPF_JMP | libc::BPF_JA) as u16, jt: 0, jf: 0, k: below.len() as u32 };
                vec![jump(libc::BPF_JGE, high[0].0, 0, 1), far]
            };
            code.extend(below);
            code.extend(above);
            code
        }
    }
}

fn judge(verdict: &FilterAction) -> Vec<sock_filter> {
    // Each comparison that holds leaves by the return after it, each other skips that return.
    let listed = |values: &[u32], then: u32, otherwise: u32| {
        let mut code: Vec<sock_filter> = values.iter().flat_map(|value| [jump(libc::BPF_JEQ, *value, 0, 1), answer(then)]).collect();
        code.push(answer(otherwise));
        code
    };
    let on = |argument: u32, code: Vec<sock_filter>| [vec![load(ARGUMENTS_AT + 8 * argument)], code].concat();
    match verdict {
        FilterAction::Return(action) => vec![answer(*action)],
        FilterAction::NoneOf { argument, bits } => on(*argument, vec![jump(libc::BPF_JSET, *bits, 0, 1), answer(REFUSE), answer(ALLOW)]),
        FilterAction::AllBut { argument, values } => on(*argument, listed(values, REFUSE, ALLOW)),
        FilterAction::Only { argument, values } => on(*argument, listed(values, ALLOW, REFUSE)),
        FilterAction::Idle { argument, value, order } => {
            // A pointer has two halves.
            let half = |at: u32| load(ARGUMENTS_AT + 8 * order + at);
            let asks = [half(0), jump(libc::BPF_JEQ, 0, 0, 2), half(4), jump(libc::BPF_JEQ, 0, 1, 0), answer(DONE), answer(ALLOW)];
            on(*argument, [vec![jump(libc::BPF_JEQ, *value, 0, 5)], asks.to_vec()].concat())
        }
        FilterAction::Sockets { families } => {
            let mut code = Vec::new();
            for (family, protocols) in families {
                let values: Vec<u32> = protocols.iter().map(|protocol| *protocol as u32).collect();
                let inner = if values.is_empty() { vec![answer(ALLOW)] } else { on(2, listed(&values, ALLOW, REFUSE)) };
                code.push(jump(libc::BPF_JEQ, *family as u32, 0, inner.len() as u8));
                code.extend(inner);
            }
            code.push(answer(REFUSE));
            on(0, code)
        }
    }
}

fn load(at: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: at }
}

fn jump(condition: u32, value: u32, if_so: u8, if_not: u8) -> sock_filter {
    sock_filter { code: (libc::BPF_JMP | condition | libc::BPF_K) as u16, jt: if_so, jf: if_not, k: value }
}

fn answer(action: u32) -> sock_filter {
    sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: action }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Runs a program as the kernel would.
    fn run(program: &[sock_filter], arch: u32, number: u32, arguments: [u32; 3]) -> u32 {
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = program[at];
            at += 1;
            let code = u32::from(step.code);
            let taken = |holds| usize::from(if holds { step.jt } else { step.jf });
            match (code & 7, code & 0xf0) {
                (libc::BPF_LD, _) => {
                    accumulator = match step.k {
                        NUMBER_AT => number,
                        ARCH_AT => arch,
                        offset => arguments[((offset - ARGUMENTS_AT) / 8) as usize],
                    }
                }
                (libc::BPF_RET, _) => return step.k,
                (libc::BPF_JMP, libc::BPF_JA) => at += step.k as usize,
                (libc::BPF_JMP, libc::BPF_JEQ) => at += taken(accumulator == step.k),
                (libc::BPF_JMP, libc::BPF_JGE) => at += taken(accumulator >= step.k),
                (libc::BPF_JMP, libc::BPF_JSET) => at += taken(accumulator & step.k != 0),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn every_call_is_listed_once() {
        let allowed: BTreeSet<i64> = calls::allowed().collect();
        let refused: BTreeSet<i64> = calls::refused().collect();
        assert_eq!(allowed.len(), calls::allowed().count());
        assert_eq!(refused.len(), calls::refused().count());
        assert!(allowed.is_disjoint(&refused));
        assert!(!allowed.contains(&libc::SYS_clone3), "its flags lie in memory, where a filter cannot look");
    }

    /// The search gives every number the verdict of the lists it was made from.
    #[test]
    fn the_program_says_what_the_lists_say() {
        let filters = Filters::compile();
        let ids = [libc::SYS_setresuid, libc::SYS_setresgid];
        let judged = [libc::SYS_clone, libc::SYS_socket, libc::SYS_socketpair, libc::SYS_ioctl, libc::SYS_personality, ids[0], ids[1]];
        let core = libc::RLIMIT_CORE;
        for program in [&filters.standard, &filters.standard_net] {
            for number in (0..2000).chain([0x4000_0000, 0x4000_0027, u32::MAX]).filter(|n| !judged.contains(&i64::from(*n))) {
                let wanted = if calls::allowed().any(|call| call as u32 == number) {
                    ALLOW
                } else if calls::refused().any(|call| call as u32 == number) {
                    REFUSE
                } else {
                    UNKNOWN
                };
                assert_eq!(run(program, ARCH, number, [0; 3]), wanted, "{number}");
                assert_eq!(run(program, ARCH ^ 1, number, [0; 3]), KILL);
            }
            for (arguments, wanted) in [([0, core, 0], ALLOW), ([0, core, 1], DONE), ([0, core + 1, 1], ALLOW)] {
                assert_eq!(run(program, ARCH, libc::SYS_prlimit64 as u32, arguments), wanted, "{arguments:?}");
            }
            assert_eq!(run(program, ARCH, libc::SYS_setrlimit as u32, [core, 1, 0]), DONE);
            assert_eq!(run(program, ARCH, libc::SYS_setrlimit as u32, [core + 1, 1, 0]), ALLOW);
        }
        assert!(filters.standard_net.len() < 300, "loading is on the path of every start");
    }

    /// `strict` keeps what its list names, by argument where that matters, and refuses all else.
    #[test]
    fn strict_is_its_list() {
        let judged = [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_tgkill, libc::SYS_socket, libc::SYS_socketpair];
        for sockets in [Sockets::None, Sockets::Unix] {
            let program = compile(&strict(sockets, 42), REFUSE);
            let unix = sockets == Sockets::Unix;
            for number in (0..2000).chain([0x4000_0000, u32::MAX]).filter(|n| !judged.contains(&i64::from(*n))) {
                let listed = |list: &[libc::c_long]| list.iter().any(|call| *call as u32 == number);
                let kept = listed(calls::STRICT) || unix && listed(calls::STRICT_SOCKETS);
                assert_eq!(run(&program, ARCH, number, [0; 3]), if kept { ALLOW } else { REFUSE }, "{number}");
                assert_eq!(run(&program, ARCH ^ 1, number, [0; 3]), KILL);
            }
            assert_eq!(run(&program, ARCH, libc::SYS_tgkill as u32, [42, 43, 6]), ALLOW);
            assert_eq!(run(&program, ARCH, libc::SYS_tgkill as u32, [41, 41, 6]), REFUSE);
            for family in 0..50 {
                let wanted = if unix && family == 1 { ALLOW } else { REFUSE };
                assert_eq!(run(&program, ARCH, libc::SYS_socket as u32, [family, 1, 0]), wanted, "{family}");
            }
            for call in [libc::SYS_mmap, libc::SYS_mprotect] {
                assert_eq!(run(&program, ARCH, call as u32, [0, 0, libc::PROT_READ as u32 | libc::PROT_WRITE as u32]), ALLOW);
                assert_eq!(run(&program, ARCH, call as u32, [0, 0, libc::PROT_READ as u32 | libc::PROT_EXEC as u32]), REFUSE);
            }
        }
        let no_more = [libc::SYS_execve, libc::SYS_clone, libc::SYS_clone3, libc::SYS_openat, libc::SYS_ioctl, libc::SYS_ptrace];
        assert!(no_more.iter().all(|call| !calls::STRICT.contains(call) && !calls::STRICT_SOCKETS.contains(call)));
    }

    #[test]
    fn arguments_decide() {
        let filters = Filters::compile();
        let check = |profile: &Vec<sock_filter>, call: i64, arguments: [i64; 3], wanted: u32| {
            let arguments = arguments.map(|argument| argument as u32);
            assert_eq!(run(profile, ARCH, call as u32, arguments), wanted, "{call} {arguments:?}");
        };
        let (plain, net) = (&filters.standard, &filters.standard_net);
        for flag in 0..32 {
            let bit = 1_i64 << flag;
            let wanted = if u64::from(calls::NAMESPACE_FLAGS) & bit as u64 != 0 { REFUSE } else { ALLOW };
            check(plain, libc::SYS_clone, [bit | i64::from(libc::SIGCHLD), 0, 0], wanted);
        }
        for family in 0..50 {
            let (unix, inet) = (family == 1, family == 2 || family == 10);
            check(plain, libc::SYS_socket, [family, 1, 0], if unix { ALLOW } else { REFUSE });
            check(net, libc::SYS_socket, [family, 1, 0], if unix || inet || family == 16 { ALLOW } else { REFUSE });
            check(net, libc::SYS_socket, [family, 1, 6], if unix || inet { ALLOW } else { REFUSE });
            check(net, libc::SYS_socket, [family, 1, 132], if unix { ALLOW } else { REFUSE });
            check(net, libc::SYS_socketpair, [family, 1, 0], if unix { ALLOW } else { REFUSE });
        }
        check(plain, libc::SYS_ioctl, [0, libc::TCGETS as i64, 0], ALLOW);
        check(plain, libc::SYS_ioctl, [0, libc::TIOCSTI as i64, 0], REFUSE);
        check(plain, libc::SYS_ioctl, [0, i64::from(TIOCLINUX), 0], REFUSE);
        check(plain, libc::SYS_ioctl, [0, i64::from(TIOCSETD), 0], REFUSE);
        check(plain, libc::SYS_personality, [0xffff_ffff, 0, 0], ALLOW);
        check(plain, libc::SYS_personality, [0x0040000, 0, 0], REFUSE);
        for call in [libc::SYS_setresuid, libc::SYS_setresgid] {
            check(plain, call, [-1, 1000, -1], ALLOW);
            check(plain, call, [0, 0, 0], REFUSE);
            check(plain, call, [1000, 1000, 1000], REFUSE);
        }
    }
}
