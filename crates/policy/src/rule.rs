//! A rule: what it speaks about, what it says, and what must hold for its yes.

mod cover;

use crate::facts::{Facts, RealPath};
use crate::scope::{Globs, Word};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Abstains.
    Pass,
    /// A yes that a review or a deny of any other rule outweighs.
    Allow,
    /// A person answers. Policies may write `ask`.
    #[serde(alias = "ask")]
    RequireReview,
    /// Final.
    Deny,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Pass => "pass",
            Action::Allow => "allow",
            Action::RequireReview => "require_review",
            Action::Deny => "deny",
        }
    }
}

#[derive(Debug, Clone)]
pub struct Rule {
    pub name: String,
    pub action: Action,
    pub reason: Option<String>,
    pub hint: Option<String>,
    /// Where it stands in its file.
    pub line: u64,
    pub(crate) on: Condition,
    pub(crate) except: Vec<Condition>,
    pub(crate) constraints: RuleConstraints,
}

impl Rule {
    /// Does it speak about this call on this path?
    pub(crate) fn matches(&self, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> bool {
        !self.ends_before(path) && self.on.matches(facts, path) && !self.except.iter().any(|except| except.matches(facts, path))
    }

    /// Why it does not speak; `None` when it does.
    pub(crate) fn silence(&self, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> Option<Silence> {
        let misses = self.on.misses(facts, path);
        if !misses.is_empty() {
            return Some(Silence::Misses(misses));
        }
        if self.ends_before(path) {
            return Some(Silence::Outside);
        }
        self.except.iter().position(|except| except.matches(facts, path)).map(Silence::Excepted)
    }

    /// An allow is the project's word and ends at its border.
    fn ends_before(&self, path: Option<RealPath<'_>>) -> bool {
        self.action == Action::Allow && matches!(path, Some(RealPath::Outside(_)))
    }
}

/// Why a rule has nothing to say about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Silence {
    /// These fields of its `match` do not fit.
    Misses(Vec<Field>),
    /// It allows, and the path lies outside the project.
    Outside,
    /// The exception with this number, from 0.
    Excepted(usize),
}

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Silence::Misses(fields) => {
                let names: Vec<String> = fields.iter().map(|field| format!("`{}`", field.as_str())).collect();
                let verb = if fields.len() == 1 { "does" } else { "do" };
                write!(f, "its {} {verb} not fit", names.join(", "))
            }
            Silence::Outside => f.write_str("an allow ends at the project's border"),
            Silence::Excepted(number) => write!(f, "its exception {} fits", number + 1),
        }
    }
}

/// Fields are AND, the values of one field OR. `None` is a field that was not written; an empty list matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub syscall: Option<Vec<Syscall>>,
    pub path_glob: Option<Globs>,
    pub caller: Option<Vec<Word>>,
    pub caller_tag: Option<Vec<Word>>,
    pub role: Option<Vec<Word>>,
    pub tier: Option<Vec<Word>>,
    pub user: Option<Vec<Word>>,
    pub zone: Option<Vec<Word>>,
    pub mode: Option<Vec<Word>>,
    pub workflow_state: Option<Vec<Word>>,
    pub session_mode: Option<Vec<Word>>,
    pub command: Option<Vec<CommandPattern>>,
    pub host: Option<Vec<Word>>,
    pub method: Option<Vec<String>>,
    pub port: Option<Vec<u16>>,
    pub sandbox: Option<Vec<Word>>,
    pub network: Option<Vec<Word>>,
    pub size: Option<Vec<SizeTest>>,
}

/// The fields of a condition, by their names in a policy file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Syscall,
    PathGlob,
    Caller,
    CallerTag,
    Role,
    Tier,
    User,
    Zone,
    Mode,
    WorkflowState,
    SessionMode,
    Command,
    Host,
    Method,
    Port,
    Sandbox,
    Network,
    Size,
}

impl Field {
    pub(crate) const ALL: [Field; 18] = [
        Field::Syscall,
        Field::PathGlob,
        Field::Caller,
        Field::CallerTag,
        Field::Role,
        Field::Tier,
        Field::User,
        Field::Zone,
        Field::Mode,
        Field::WorkflowState,
        Field::SessionMode,
        Field::Command,
        Field::Host,
        Field::Method,
        Field::Port,
        Field::Sandbox,
        Field::Network,
        Field::Size,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Field::Syscall => "syscall",
            Field::PathGlob => "path_glob",
            Field::Caller => "caller",
            Field::CallerTag => "caller_tag",
            Field::Role => "role",
            Field::Tier => "tier",
            Field::User => "user",
            Field::Zone => "zone",
            Field::Mode => "mode",
            Field::WorkflowState => "workflow_state",
            Field::SessionMode => "session_mode",
            Field::Command => "command",
            Field::Host => "host",
            Field::Method => "method",
            Field::Port => "port",
            Field::Sandbox => "sandbox",
            Field::Network => "network",
            Field::Size => "size",
        }
    }
}

impl Condition {
    pub(crate) fn matches(&self, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> bool {
        Field::ALL.iter().all(|field| self.holds(*field, facts, path))
    }

    /// The fields that do not fit the call.
    pub(crate) fn misses(&self, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> Vec<Field> {
        Field::ALL.into_iter().filter(|field| !self.holds(*field, facts, path)).collect()
    }

    #[inline(always)]
    fn holds(&self, field: Field, facts: &Facts<'_>, path: Option<RealPath<'_>>) -> bool {
        let word = |field: &Option<Vec<Word>>, value: &str| any(field, |word| word.matches(value));
        match field {
            Field::Syscall => any(&self.syscall, |syscall| syscall.matches(facts.tool)),
            Field::PathGlob => {
                self.path_glob.as_ref().is_none_or(|globs| matches!(path, Some(RealPath::Inside(path)) if globs.matches(path)))
            }
            Field::Caller => word(&self.caller, facts.caller),
            Field::CallerTag => any(&self.caller_tag, |word| facts.caller_tags.iter().any(|tag| word.matches(tag))),
            Field::Role => word(&self.role, facts.role),
            Field::Tier => word(&self.tier, facts.tier),
            Field::User => word(&self.user, facts.user),
            Field::Zone => word(&self.zone, facts.zone),
            Field::Mode => word(&self.mode, facts.run_mode),
            Field::WorkflowState => word(&self.workflow_state, facts.workflow_state),
            Field::SessionMode => word(&self.session_mode, facts.session_mode),
            Field::Command => any(&self.command, |command| facts.command.is_some_and(|argv| command.matches(argv))),
            Field::Host => any(&self.host, |word| facts.host.is_some_and(|host| host_matches(word, host))),
            Field::Method => any(&self.method, |method| facts.method.is_some_and(|own| own.eq_ignore_ascii_case(method))),
            Field::Port => any(&self.port, |port| facts.port == Some(*port)),
            Field::Sandbox => any(&self.sandbox, |word| facts.sandbox.is_some_and(|own| word.matches(own))),
            Field::Network => any(&self.network, |word| facts.network.is_some_and(|own| word.matches(own))),
            Field::Size => any(&self.size, |test| facts.size.is_some_and(|size| test.holds(size))),
        }
    }
}

fn any<T>(field: &Option<Vec<T>>, test: impl FnMut(&T) -> bool) -> bool {
    field.as_ref().is_none_or(|values| values.iter().any(test))
}

/// Host names have no case, and a final dot changes nothing. Patterns are stored in lower case.
fn host_matches(word: &Word, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.bytes().any(|byte| byte.is_ascii_uppercase()) { word.matches(&host.to_ascii_lowercase()) } else { word.matches(host) }
}

/// Which calls by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Syscall {
    Exact(String),
    /// `fs.*`, kept as `fs.`
    Family(String),
    Every,
}

impl Syscall {
    pub(crate) fn parse(text: &str) -> Option<Syscall> {
        if text == "*" {
            return Some(Syscall::Every);
        }
        let (name, family) = match text.strip_suffix(".*") {
            Some(name) => (name, true),
            None => (text, false),
        };
        let plain = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        if !name.split('.').all(plain) {
            return None;
        }
        Some(if family { Syscall::Family(format!("{name}.")) } else { Syscall::Exact(name.to_owned()) })
    }

    pub(crate) fn matches(&self, tool: &str) -> bool {
        match self {
            Syscall::Exact(name) => name == tool,
            Syscall::Family(family) => tool.starts_with(family.as_str()),
            Syscall::Every => true,
        }
    }
}

/// The beginning of an argument list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    pub prefix: Vec<String>,
    /// A rule that restricts also means `/usr/bin/npm` when it says `npm`; one that loosens means only what it says.
    pub any_folder: bool,
}

impl CommandPattern {
    pub(crate) fn matches(&self, argv: &[String]) -> bool {
        let Some((program, args)) = self.prefix.split_first() else { return false };
        let Some((own_program, own_args)) = argv.split_first() else { return false };
        let same = own_program == program
            || (self.any_folder && !program.contains('/') && own_program.rsplit_once('/').is_some_and(|(_, name)| name == program));
        same && own_args.starts_with(args)
    }
}

/// `<=100KiB`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeTest {
    Less(u64),
    AtMost(u64),
    Equal(u64),
    AtLeast(u64),
    More(u64),
}

impl SizeTest {
    fn holds(self, size: u64) -> bool {
        match self {
            SizeTest::Less(limit) => size < limit,
            SizeTest::AtMost(limit) => size <= limit,
            SizeTest::Equal(limit) => size == limit,
            SizeTest::AtLeast(limit) => size >= limit,
            SizeTest::More(limit) => size > limit,
        }
    }
}

/// What must hold for a yes. A yes whose constraint does not hold is a no.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RuleConstraints {
    pub require_sandbox: Option<RequiredRoom>,
    pub require_capability_token: bool,
    pub max_file_size: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequiredRoom {
    Any,
    OneOf(Vec<String>),
}

impl RuleConstraints {
    /// The constraint that does not hold, as a fragment. Doubt counts as broken.
    pub(crate) fn broken(&self, facts: &Facts<'_>) -> Option<String> {
        match (&self.require_sandbox, facts.sandbox) {
            (None, _) | (Some(RequiredRoom::Any), Some(_)) => {}
            (Some(RequiredRoom::OneOf(rooms)), Some(room)) if rooms.iter().any(|name| name == room) => {}
            (Some(RequiredRoom::OneOf(rooms)), room) => {
                let room = room.map_or_else(|| "no sandbox".to_owned(), |room| format!("`{room}`"));
                return Some(format!("it must run in sandbox `{}`, and would run in {room}", rooms.join("` or `")));
            }
            (Some(RequiredRoom::Any), None) => return Some("it must run in a sandbox, and would run in none".to_owned()),
        }
        // A call with a valid token never comes here.
        if self.require_capability_token {
            return Some("it needs a capability token that is valid for it".to_owned());
        }
        match (self.max_file_size, facts.size) {
            (Some(max), Some(size)) if size > max => Some(format!("{size} bytes are more than the {max} that are allowed")),
            (Some(max), None) => Some(format!("at most {max} bytes are allowed, and its size is not known")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syscalls() {
        for bad in ["", "fs.", ".fs", "fs.re*", "*.read", "fs..read", "fs.*.x", "fs read", "**"] {
            assert_eq!(Syscall::parse(bad), None, "{bad}");
        }
        let family = Syscall::parse("fs.*").unwrap();
        assert!(family.matches("fs.read") && !family.matches("fs") && !family.matches("fsx.read"));
        assert!(Syscall::parse("*").unwrap().matches("anything.at.all"));
    }

    #[test]
    fn a_command_is_an_argv_prefix() {
        let argv = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let strict = CommandPattern { prefix: argv("npm install"), any_folder: false };
        assert!(strict.matches(&argv("npm install left-pad")));
        assert!(!strict.matches(&argv("npm installed")) && !strict.matches(&argv("npm")));
        assert!(!strict.matches(&argv("/tmp/npm install")));
        let wide = CommandPattern { prefix: argv("npm install"), any_folder: true };
        assert!(wide.matches(&argv("/usr/bin/npm install")) && !wide.matches(&argv("pnpm install")));
    }

    #[test]
    fn hosts_have_no_case() {
        let word = Word::parse("*.example.com").unwrap();
        assert!(host_matches(&word, "API.example.COM.") && !host_matches(&word, "example.com.evil.org"));
    }
}
