//! The filters in the words of container engines: a seccomp profile of the OCI runtime specification.
//!
//! Made from the same verdicts. Engines compare whole 64-bit arguments where we look at the low half, so a container's pid 1
//! loads the filter itself as well; this one holds from before it starts, and leaves pid 1 what it needs until then.

use serde_json::{Value, json};

use super::{ALLOW, Families, FilterAction, REFUSE, calls, standard};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: &str = "SCMP_ARCH_X86_64";
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: &str = "SCMP_ARCH_AARCH64";

/// `standard-net` where internet sockets are wanted, else `standard`.
pub(crate) fn profile(internet: bool) -> Value {
    let families = if internet { Families::Internet } else { Families::Unix };
    let (mut allowed, mut refused, mut conditional) = (Vec::new(), Vec::new(), Vec::new());
    for (number, verdict) in standard(families) {
        let Some(name) = calls::name(number) else { continue };
        match entering(number).unwrap_or(verdict) {
            FilterAction::Return(ALLOW) => allowed.push(name),
            FilterAction::Return(_) => refused.push(name),
            other => conditional.extend(conditions(&other).into_iter().map(|args| rule(&[name], ALLOW, args))),
        }
    }
    let mut rules = vec![rule(&allowed, ALLOW, Vec::new()), rule(&refused, REFUSE, Vec::new())];
    rules.extend(conditional);
    // A conditional call that meets no condition is answered as an unknown one: engines have one default.
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": libc::ENOSYS,
        "architectures": [ARCHITECTURE],
        "syscalls": rules,
    })
}

/// What pid 1 of a container needs before it loads the filter itself: to enter the room's user namespace, and to give up rights.
fn entering(number: u32) -> Option<FilterAction> {
    match libc::c_long::from(number) {
        libc::SYS_setns => Some(FilterAction::Only { argument: 1, values: vec![libc::CLONE_NEWUSER as u32] }),
        libc::SYS_capset => Some(FilterAction::Return(ALLOW)),
        _ => None,
    }
}

fn rule(names: &[&str], action: u32, args: Vec<Value>) -> Value {
    if action == ALLOW {
        json!({ "names": names, "action": "SCMP_ACT_ALLOW", "args": args })
    } else {
        json!({ "names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": libc::EPERM, "args": args })
    }
}

/// When a call is allowed: one list of comparisons, or another, or another.
fn conditions(verdict: &FilterAction) -> Vec<Vec<Value>> {
    let compare = |index: u32, op: &str, value: u64| json!({ "index": index, "op": format!("SCMP_CMP_{op}"), "value": value });
    match verdict {
        FilterAction::Return(_) => Vec::new(),
        // Nothing an engine could say; the filter of pid 1 does.
        FilterAction::Idle { .. } => vec![Vec::new()],
        FilterAction::NoneOf { argument, bits } => {
            vec![vec![json!({ "index": argument, "op": "SCMP_CMP_MASKED_EQ", "value": bits, "valueTwo": 0 })]]
        }
        FilterAction::Only { argument, values } => {
            // A `-1` comes with its upper half set or not, as the caller's compiler likes.
            let whole = values.iter().filter(|value| **value == u32::MAX).map(|_| u64::MAX);
            values.iter().map(|value| u64::from(*value)).chain(whole).map(|value| vec![compare(*argument, "EQ", value)]).collect()
        }
        // An argument can be compared once in a rule, so "neither of these" is: below, between, above.
        FilterAction::AllBut { argument, values } => {
            let (Some(low), Some(high)) = (values.iter().min(), values.iter().max()) else { return vec![Vec::new()] };
            let between =
                (low + 1..*high).filter(|value| !values.contains(value)).map(|value| vec![compare(*argument, "EQ", u64::from(value))]);
            [vec![compare(*argument, "LT", u64::from(*low))], vec![compare(*argument, "GT", u64::from(*high))]]
                .into_iter()
                .chain(between)
                .collect()
        }
        FilterAction::Sockets { families } => {
            let of = |(family, protocols): &(i32, &'static [i32])| -> Vec<Vec<Value>> {
                let family = compare(0, "EQ", u64::from(*family as u32));
                match protocols {
                    [] => vec![vec![family]],
                    some => some.iter().map(|protocol| vec![family.clone(), compare(2, "EQ", u64::from(*protocol as u32))]).collect(),
                }
            };
            families.iter().flat_map(of).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_a_name() {
        for families in [Families::Unix, Families::Internet] {
            let nameless: Vec<u32> = standard(families).into_keys().filter(|number| calls::name(*number).is_none()).collect();
            assert_eq!(nameless, Vec::<u32>::new());
        }
    }

    #[test]
    fn the_profile_says_what_the_verdicts_say() {
        let profile = profile(false);
        let rules = profile["syscalls"].as_array().unwrap();
        let of = |name: &str| -> Vec<(&str, &Vec<Value>)> {
            let named = rules.iter().filter(|rule| rule["names"].as_array().unwrap().contains(&json!(name)));
            named.map(|rule| (rule["action"].as_str().unwrap(), rule["args"].as_array().unwrap())).collect()
        };
        assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
        assert_eq!(of("read"), [("SCMP_ACT_ALLOW", &vec![])]);
        assert_eq!(of("ptrace"), [("SCMP_ACT_ERRNO", &vec![])]);
        assert_eq!(of("clone3"), []);
        assert_eq!(of("setns"), [("SCMP_ACT_ALLOW", &vec![json!({ "index": 1, "op": "SCMP_CMP_EQ", "value": libc::CLONE_NEWUSER })])]);
        assert_eq!(of("unshare"), [("SCMP_ACT_ERRNO", &vec![])]);
        assert_eq!(of("socket"), [("SCMP_ACT_ALLOW", &vec![json!({ "index": 0, "op": "SCMP_CMP_EQ", "value": libc::AF_UNIX })])]);
        let clone = of("clone");
        assert_eq!(clone.len(), 1);
        assert_eq!(clone[0].1[0]["op"], "SCMP_CMP_MASKED_EQ");
        assert!(
            of("ioctl").iter().all(|(_, args)| args.iter().all(|arg| arg["value"] != json!(libc::TIOCSTI) || arg["op"] == "SCMP_CMP_LT"))
        );
    }
}
