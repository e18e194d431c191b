//! Rules that are legal and can never matter: each is a warning with its place.

use super::compile::Compiler;
use super::{Capability, Spelled};
use crate::rule::{Action, Condition, Rule, Syscall};
use ::yaml::Location;

/// Calls, by the beginning of their names, that never have some fields. Tools that nobody knows yet may have any.
const NEVER_HAVE: &[(&str, &[&str])] = &[
    ("fs.", &["command", "host", "method", "port", "tier"]),
    ("fs.read", &["size"]),
    ("fs.list", &["size"]),
    ("fs.exists", &["size"]),
    ("fs.delete", &["size"]),
    ("fs.move", &["size"]),
    ("search.", &["command", "host", "method", "port", "tier", "size"]),
    ("git.", &["command", "host", "method", "port", "tier", "size"]),
    ("http.", &["command", "path_glob", "tier"]),
    ("net.", &["command", "path_glob", "tier", "size"]),
    ("shell.", &["host", "method", "port", "tier", "size"]),
    ("test.", &["host", "method", "port", "tier", "size"]),
    ("sandbox.", &["host", "method", "port", "tier", "size"]),
    ("model.", &["path_glob", "size"]),
    ("token.", &["path_glob", "command", "host", "method", "port", "tier", "size"]),
];

/// Calls that the kernel makes itself: they run in no room. Not `fs.read`: by it is decided what rooms show.
const IN_NO_ROOM: &[&str] = &["fs.list", "fs.exists", "search.", "http.", "model.", "token.", "merge."];

/// How paths begin on the machine and hardly in a project.
const OF_THE_MACHINE: &[&str] = &["/home/", "/root/", "/proc/", "/sys/", "/Users/", "/etc/passwd", "/etc/shadow"];

impl Compiler<'_> {
    /// A rule by itself.
    pub(super) fn lint(&mut self, capability: &Capability, rule: &Rule) {
        let (name, fields) = (&rule.name, &capability.on.value);
        if rule.on.path_glob.as_ref().is_some_and(|globs| globs.is_void()) {
            let what = format!("the rule `{name}` never speaks: its exclusions take away all that its globs include");
            self.warn(place(&fields.path_glob, capability), what, "make the exclusions narrower");
        }
        let ranges: Vec<_> = rule.on.size.iter().flatten().map(|test| test.range()).collect();
        if !ranges.is_empty() && ranges.iter().all(Option::is_none) {
            self.warn(
                place(&fields.size, capability),
                format!("the rule `{name}` never speaks: nothing has that size"),
                "nothing is smaller than 0",
            );
        }
        if let Some(max) = rule.constraints.max_file_size
            && !ranges.is_empty()
            && ranges.iter().flatten().all(|(least, _)| *least > max)
        {
            let what = format!("the rule `{name}` never says yes: all sizes that it matches are over its own `max_file_size`");
            self.warn(place(&fields.size, capability), what, "make `max_file_size` larger, or write a deny");
        }
        let sometimes = [
            ("command", &fields.command),
            ("host", &fields.host),
            ("method", &fields.method),
            ("port", &fields.port),
            ("path_glob", &fields.path_glob),
            ("size", &fields.size),
            ("tier", &fields.tier),
        ];
        // What rooms show, they show in every state and whatever its size: there such a rule speaks.
        let reads = rule.on.syscall.as_ref().is_none_or(|calls| calls.iter().any(|call| call.matches("fs.read")));
        let masks = reads && rule.action != Action::Allow;
        for (field, spelled) in sometimes.into_iter().filter(|(field, _)| !masks || *field != "size") {
            if spelled.is_some() && rule.on.syscall.as_ref().is_some_and(|syscalls| never_have(syscalls, field)) {
                let what = format!("the rule `{name}` never speaks: the calls that it names have no `{field}`");
                self.warn(place(spelled, capability), what, format!("take `{field}` away, or name the syscalls that have one"));
            }
        }
        self.doubt_constraints(capability, rule);
        self.doubt_exceptions(capability, rule);
    }

    /// A yes that its own constraints always take back.
    fn doubt_constraints(&mut self, capability: &Capability, rule: &Rule) {
        let Some(limits) = &capability.constraints else { return };
        let (name, constraints) = (&rule.name, &rule.constraints);
        let every = |test: &dyn Fn(&str) -> bool| rule.on.syscall.as_ref().is_some_and(|calls| all(calls, test));
        if limits.value.require_sandbox.is_none() && limits.value.max_file_size.is_none() && !constraints.require_capability_token {
            self.warn(limits.referenced, format!("the constraints of `{name}` say nothing"), "take them away, or write one");
        }
        if constraints.max_file_size.is_some() && every(&|call| lacks(call, "size")) {
            let what = format!("the rule `{name}` never says yes: the calls that it names have no size to keep below `max_file_size`");
            self.warn(limits.referenced, what, "name calls that write, such as fs.write");
        }
        if constraints.require_sandbox.is_some() && every(&|call| IN_NO_ROOM.iter().any(|name| call.starts_with(name))) {
            let what = format!("the rule `{name}` never says yes: the calls that it names run in no sandbox");
            self.warn(limits.referenced, what, "take `require_sandbox` away");
        }
    }

    fn doubt_exceptions(&mut self, capability: &Capability, rule: &Rule) {
        let name = &rule.name;
        let written = capability.except.iter().flat_map(|list| &list.value.0);
        for (fields, except) in written.zip(&rule.except) {
            let other_calls = matches!((&rule.on.syscall, &except.syscall), (Some(own), Some(excepted))
                if !own.iter().any(|one| excepted.iter().any(|other| one.covers(other) || other.covers(one))));
            let other_paths = matches!((&rule.on.path_glob, &except.path_glob), (Some(own), Some(excepted)) if own.is_apart_from(excepted));
            for (apart, what) in [(other_calls, "it is for other syscalls"), (other_paths, "it is for other paths")] {
                if apart {
                    self.warn(fields.referenced, format!("this exception of `{name}` never applies: {what}"), "take it away");
                }
            }
        }
        // Alone none may take everything, and together they do.
        let Some(calls) = rule.on.syscall.as_ref().filter(|calls| calls.len() > 1) else { return };
        let alone = |call: &Syscall| Condition { syscall: Some(vec![call.clone()]), ..rule.on.clone() };
        let taken = calls.iter().all(|call| rule.except.iter().any(|except| except.covers(&alone(call))));
        if taken && !rule.except.iter().any(|except| except.covers(&rule.on)) {
            let what = format!("the rule `{name}` never speaks: its exceptions together take all that it matches");
            self.warn(capability.name.referenced, what, "make an exception narrower than the match");
        }
    }

    /// A glob that a shell, or its writer, would read in another way.
    pub(super) fn doubt_glob(&mut self, at: Location, glob: &str) {
        let body = glob.strip_prefix('!').unwrap_or(glob);
        if body.split('/').any(|name| name.contains("**") && name != "**") {
            let what = format!("`**` beside letters in `{glob}` is one `*`: it stays in its folder");
            self.warn(at, what, "write `**` between slashes, such as `src/**/*.rs`");
        }
        if body == "~" || body.starts_with("~/") {
            self.warn(at, format!("`{glob}` is a folder called `~`: nobody expands it here"), "write it from the project's root");
        }
        if OF_THE_MACHINE.iter().any(|place| body.starts_with(place)) {
            let what = format!("`{glob}` begins at the project's root, not at the machine's");
            self.warn(at, what, "a rule about places outside the project has no `path_glob`: nothing is ever allowed there");
        }
    }
}

fn place(spelled: &Spelled, capability: &Capability) -> Location {
    spelled.as_ref().map_or(capability.on.referenced, |tree| tree.referenced)
}

fn never_have(syscalls: &[Syscall], field: &str) -> bool {
    all(syscalls, |call| lacks(call, field))
}

fn lacks(call: &str, field: &str) -> bool {
    NEVER_HAVE.iter().any(|(name, fields)| call.starts_with(name) && fields.contains(&field))
}

/// Does it hold for every call that a list names?
fn all(syscalls: &[Syscall], test: impl Fn(&str) -> bool) -> bool {
    let holds = |syscall: &Syscall| match syscall {
        Syscall::Every => false,
        Syscall::Exact(name) | Syscall::Family(name) => test(name),
    };
    !syscalls.is_empty() && syscalls.iter().all(holds)
}
