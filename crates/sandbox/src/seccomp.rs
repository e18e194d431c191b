//! The system-call filters of jobs.
//!
//! Two programs make a profile. The first is the allow-list: a call that it does not name is answered with ENOSYS, as by a kernel
//! that has never heard of it, so that libc falls back (from clone3 to clone, whose flags a filter can read). The second answers
//! EPERM to calls, and to arguments of listed calls, that are known and refused. A call of a foreign architecture kills.
//!
//! Compiled once, in the launcher, and only loaded in a job.

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule, TargetArch};

use crate::spec::Profile;
use crate::sys;

mod calls;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Every profile, compiled.
#[derive(Debug)]
pub(crate) struct Filters {
    known: BpfProgram,
    refused: BpfProgram,
    refused_net: BpfProgram,
}

impl Filters {
    pub(crate) fn compile() -> Result<Filters, seccompiler::BackendError> {
        Ok(Filters {
            known: known()?,
            refused: refused(&[libc::AF_UNIX])?,
            refused_net: refused(&[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK])?,
        })
    }

    /// Puts this process and all its descendants under the profile, for good.
    pub(crate) fn load(&self, profile: Profile) -> io::Result<()> {
        sys::load_filter(match profile {
            Profile::Standard => &self.refused,
            Profile::StandardNet => &self.refused_net,
        })?;
        sys::load_filter(&self.known)
    }
}

fn arch() -> TargetArch {
    if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 }
}

/// Calls that exist for a job, refused ones among them; ENOSYS for the rest.
fn known() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules: Rules = calls::allowed().chain(calls::refused()).map(|call| (call, Vec::new())).collect();
    SeccompFilter::new(rules, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow, arch())?.try_into()
}

/// EPERM for refused calls and arguments; the rest passes to the other filter.
fn refused(families: &[i32]) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules: Rules = calls::refused().map(|call| (call, Vec::new())).collect();
    let argument = |index, op, value: u64| SeccompCondition::new(index, Dword, op, value);
    let rule = |conditions: Vec<SeccompCondition>| SeccompRule::new(conditions);

    // Any new namespace, whichever bit asks for it.
    let mut clone = Vec::new();
    for flag in calls::NAMESPACE_FLAGS {
        clone.push(rule(vec![argument(0, MaskedEq(*flag), *flag)?])?);
    }
    rules.insert(libc::SYS_clone, clone);

    let mut socket = vec![rule(families.iter().map(|family| argument(0, Ne, *family as u64)).collect::<Result<_, _>>()?)?];
    if families.contains(&libc::AF_NETLINK) {
        // Only the routing protocol, which getaddrinfo and interface listings ask.
        socket.push(rule(vec![
            argument(0, Eq, libc::AF_NETLINK as u64)?,
            argument(2, Ne, libc::NETLINK_ROUTE as u64)?,
        ])?);
    }
    rules.insert(libc::SYS_socket, socket);
    rules.insert(libc::SYS_socketpair, vec![rule(vec![argument(0, Ne, libc::AF_UNIX as u64)?])?]);

    // Typing into another's terminal.
    let mut ioctl = Vec::new();
    for request in [libc::TIOCSTI, TIOCLINUX] {
        ioctl.push(rule(vec![argument(1, Eq, request)?])?);
    }
    rules.insert(libc::SYS_ioctl, ioctl);

    // Reading the personality is harmless, changing it turns off address randomisation and the like.
    rules.insert(
        libc::SYS_personality,
        vec![rule(vec![argument(0, Ne, 0)?, argument(0, Ne, u64::from(u32::MAX))?])?],
    );

    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32), arch())?.try_into()
}

const TIOCLINUX: u64 = 0x541C;

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_call_is_listed_once() {
        let allowed: BTreeSet<i64> = calls::allowed().collect();
        let refused: BTreeSet<i64> = calls::refused().collect();
        assert_eq!(allowed.len(), calls::allowed().count());
        assert_eq!(refused.len(), calls::refused().count());
        assert!(allowed.is_disjoint(&refused));
        assert!(!allowed.contains(&libc::SYS_clone3), "its flags lie in memory, where a filter cannot look");
    }

    #[test]
    fn the_profiles_compile() {
        let filters = Filters::compile().unwrap();
        assert!(filters.known.len() > calls::allowed().count());
    }
}
