//! Which calls a grant or a ban is about. Doubt counts against a grant and for a ban's refusal alike: what does not parse covers nothing
//! of a grant and everything of a ban.

use crate::decide::{Facts, RealPath};
use crate::rule::CommandPattern;
use crate::scope::Globs;
use world::{Ban, CallPattern, Constraints, Grant};

/// Is this exactly, or in kind, a call that the grant was given for, inside its constraints?
pub fn grant_covers(grant: &Grant, facts: &Facts<'_>, bind: &str) -> bool {
    covers(&grant.what, Means::Yes, facts, bind) == Some(true)
        && grant.terms.constraints.as_ref().is_none_or(|constraints| within(constraints, facts))
}

/// Is this a call that was refused for good?
pub fn ban_covers(ban: &Ban, facts: &Facts<'_>, bind: &str) -> bool {
    covers(&ban.what, Means::No, facts, bind) != Some(false)
}

/// Did the grant's question show the room of this call, and the rules that ask about it now? A merge's answer is bound to its digest and to
/// the version of the policy instead, whatever rooms it comes from.
pub fn grant_answers(grant: &Grant, facts: &Facts<'_>, rules: &[String]) -> bool {
    grant.what.tool() == MERGE || (showed_room(grant, facts) && grant.answers(rules))
}

/// Can a ban be about calls of this tool?
pub fn ban_is_about(ban: &Ban, tool: &str) -> bool {
    is_about(&ban.what, Means::No, tool)
}

/// Was the room of this call shown in the grant's question? A yes without a room, as all of earlier versions are, opens none with a way
/// out. A change of a file is the same in every closed room: its merge is judged in each that its task had.
fn showed_room(grant: &Grant, facts: &Facts<'_>) -> bool {
    let (Some(template), Some(network)) = (facts.sandbox, facts.network) else { return true };
    let is_closed = network == CLOSED;
    match grant.shown.as_ref().and_then(|shown| shown.room.as_ref()) {
        Some(room) => (room.template == template && room.network == network) || (is_closed && is_change(facts.tool)),
        None => is_closed,
    }
}

/// A room that reaches nothing.
const CLOSED: &str = "none";
const MERGE: &str = "merge.apply";

/// Tools that write a file, and tools that take one from its place.
const WRITES: [&str; 3] = ["fs.write", "fs.edit", "fs.patch"];
const REMOVALS: [&str; 2] = ["fs.delete", MOVE];

fn is_change(tool: &str) -> bool {
    WRITES.contains(&tool) || REMOVALS.contains(&tool)
}

/// A no to a write is one to every change of that path, and a no to its removal one to every way of removing it.
fn is_about(what: &CallPattern, means: Means, tool: &str) -> bool {
    let own = what.tool();
    if own == tool {
        return true;
    }
    let is_of_paths = matches!(what, CallPattern::Like { command: None, host: None, .. });
    let reaches = (WRITES.contains(&own) && is_change(tool)) || (REMOVALS.contains(&own) && REMOVALS.contains(&tool));
    means == Means::No && is_of_paths && reaches
}

/// A yes is about calls that lie in it whole; a no about every call that it touches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Means {
    Yes,
    No,
}

/// `None` when the pattern itself does not parse.
fn covers(what: &CallPattern, means: Means, facts: &Facts<'_>, bind: &str) -> Option<bool> {
    if !is_about(what, means, facts.tool) {
        return Some(false);
    }
    match what {
        CallPattern::Exact { bind: exact, .. } => Some(exact == bind),
        CallPattern::Like { paths, command, whole, host, port, method, .. } => {
            let on_paths = paths.is_empty()
                || match means {
                    Means::Yes => !facts.paths.is_empty() && names_every_path(paths, facts)?,
                    Means::No => some_path(paths, facts)?,
                };
            let by_command = command.as_ref().is_none_or(|prefix| facts.command.is_some_and(|argv| begins(argv, prefix, *whole, means)));
            let to_host = host.as_ref().is_none_or(|host| facts.host == Some(host.as_str()));
            let to_port = port.is_none_or(|port| facts.port == Some(port));
            let by_method = method.as_ref().is_none_or(|method| facts.method == Some(method.as_str()));
            Some(on_paths && by_command && to_host && to_port && by_method)
        }
    }
}

/// The one tool whose paths are not alike: what is moved, and where to.
const MOVE: &str = "fs.move";

/// One path and no pattern.
fn is_literal(glob: &str) -> bool {
    let mut letters = glob.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '*' | '?' | '[' | '{' | '!' => return false,
            _ => {}
        }
    }
    true
}

/// A no to `rm` is one to `/usr/bin/rm` too.
fn begins(argv: &[String], prefix: &[String], whole: bool, means: Means) -> bool {
    if whole && argv.len() != prefix.len() {
        return false;
    }
    match means {
        Means::Yes => argv.starts_with(prefix),
        Means::No => CommandPattern { prefix: prefix.to_vec(), any_folder: true }.matches(argv),
    }
}

/// Does every path of the call lie in the project and match?
fn every_path(globs: &[String], facts: &Facts<'_>) -> Option<bool> {
    let named = NamedGlobs::parse(globs)?;
    Some(facts.paths.iter().all(|path| named.has(*path)))
}

/// Is every path of the call one that was named? A yes to a folder is none to what lies in it, unless it says `/**`. A yes to a move from
/// one path to another, as a question gives it, is none to the way back.
fn names_every_path(globs: &[String], facts: &Facts<'_>) -> Option<bool> {
    if let (MOVE, [from, to], [source, target]) = (facts.tool, globs, facts.paths)
        && is_literal(from)
        && is_literal(to)
    {
        let is = |glob: &String, path: &RealPath<'_>| NamedGlobs::parse(std::slice::from_ref(glob)).map(|named| named.is(*path));
        return Some(is(from, source)? && is(to, target)?);
    }
    let named = NamedGlobs::parse(globs)?;
    Some(facts.paths.iter().all(|path| named.is(*path)))
}

/// Does the call touch one of these? Whoever removes a folder removes what is in it; what a pattern would match there is judged path by
/// path at the merge.
fn some_path(globs: &[String], facts: &Facts<'_>) -> Option<bool> {
    let named = NamedGlobs::parse(globs)?;
    let removes = |path: &RealPath<'_>| {
        let RealPath::Inside(folder) = path else { return false };
        let is_below = |glob: &String| is_literal(glob) && unescaped(glob).strip_prefix(*folder).is_some_and(|rest| rest.starts_with('/'));
        REMOVALS.contains(&facts.tool) && globs.iter().any(is_below)
    };
    Some(facts.paths.iter().any(|path| named.has(*path) || removes(path)))
}

/// The path that a literal glob names.
fn unescaped(glob: &str) -> String {
    let mut letters = glob.strip_prefix('/').unwrap_or(glob).chars();
    let mut path = String::with_capacity(glob.len());
    while let Some(letter) = letters.next() {
        path.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    path
}

/// The paths on which calls of one tool, with nothing but a path, are covered.
#[derive(Debug)]
pub(crate) enum Reach {
    Nothing,
    Everything,
    /// These, and what lies in them.
    Within(NamedGlobs),
    /// These alone, unless they say `/**`.
    Named(NamedGlobs),
}

/// Where a grant answers for a tool in a room. One that counts its uses, in all or in a time, or changes a call's input or output answers for calls alone: what
/// a room shows is read as often, and as whole, as its jobs like.
pub(crate) fn reach_of_grant(grant: &Grant, tool: &str) -> Reach {
    let plain = grant.terms.uses_left.is_none()
        && grant.terms.rate.is_none()
        && grant.terms.constraints.as_ref().is_none_or(|held| {
            let Constraints { max_duration_ms, input_overrides, output_redact_fields, output_allow_fields, .. } = held;
            max_duration_ms.is_none() && input_overrides.is_empty() && output_redact_fields.is_empty() && output_allow_fields.is_empty()
        });
    if plain { reach(&grant.what, tool, Reach::Named, Reach::Nothing) } else { Reach::Nothing }
}

/// Where a ban refuses calls of a tool.
pub(crate) fn reach_of_ban(ban: &Ban, tool: &str) -> Reach {
    reach(&ban.what, tool, Reach::Within, Reach::Everything)
}

fn reach(what: &CallPattern, tool: &str, on: fn(NamedGlobs) -> Reach, broken: Reach) -> Reach {
    match what {
        CallPattern::Like { tool: own, paths, command: None, host: None, port: None, method: None, .. } if own == tool => {
            if paths.is_empty() {
                return Reach::Everything;
            }
            NamedGlobs::parse(paths).map_or(broken, on)
        }
        CallPattern::Like { .. } | CallPattern::Exact { .. } => Reach::Nothing,
    }
}

impl Reach {
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Reach::Nothing)
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        match self {
            Reach::Nothing => false,
            Reach::Everything => true,
            Reach::Within(named) => named.has(RealPath::Inside(path)),
            Reach::Named(named) => named.is(RealPath::Inside(path)),
        }
    }

    /// A yes is sure.
    pub(crate) fn has_all_below(&self, folder: &str) -> bool {
        match self {
            Reach::Nothing => false,
            Reach::Everything => true,
            Reach::Within(named) => named.globs.matches_all_below(folder),
            // Nobody asks: a yes to all of a folder is looked at path by path.
            Reach::Named(_) => false,
        }
    }

    /// A no is sure.
    pub(crate) fn may_have_below(&self, folder: &str) -> bool {
        match self {
            Reach::Nothing => false,
            Reach::Everything => true,
            Reach::Within(named) | Reach::Named(named) => named.globs.may_match_below(folder),
        }
    }
}

/// Paths by their globs. `/.` is the project itself, which no glob can name.
#[derive(Debug)]
pub(crate) struct NamedGlobs {
    globs: Globs,
    itself: bool,
}

impl NamedGlobs {
    fn parse(globs: &[String]) -> Option<NamedGlobs> {
        let (itself, others): (Vec<&String>, Vec<&String>) = globs.iter().partition(|glob| *glob == "/.");
        Some(NamedGlobs { globs: Globs::parse(&others).ok()?, itself: !itself.is_empty() })
    }

    fn is(&self, path: RealPath<'_>) -> bool {
        matches!(path, RealPath::Inside(path) if self.globs.names(path) || (path == "." && self.itself))
    }

    fn has(&self, path: RealPath<'_>) -> bool {
        matches!(path, RealPath::Inside(path) if self.globs.matches(path) || (path == "." && self.itself))
    }
}

fn within(constraints: &Constraints, facts: &Facts<'_>) -> bool {
    if facts.read_only {
        return true;
    }
    let Constraints { readonly_paths, writable_paths, .. } = constraints;
    let writable = writable_paths.is_empty() || every_path(writable_paths, facts) == Some(true);
    let none_read_only = readonly_paths.is_empty()
        || Globs::parse(readonly_paths)
            .is_ok_and(|globs| facts.paths.iter().all(|path| matches!(path, RealPath::Inside(path) if !globs.matches(path))));
    writable && none_read_only
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::{GrantId, Mode, Pid, Scope, Terms};

    fn facts<'a>(tool: &'a str, paths: &'a [RealPath<'a>], command: Option<&'a [String]>) -> Facts<'a> {
        Facts {
            tool,
            read_only: false,
            paths,
            caller: "foreman.1",
            caller_tags: &[],
            role: "foreman",
            tier: "",
            user: "u",
            zone: "z",
            mode: Mode::Act,
            run_mode: "live",
            workflow_state: "idle",
            session_mode: "",
            command,
            host: None,
            method: None,
            port: None,
            size: None,
            sandbox: Some("code-executor"),
            network: Some("none"),
            token: None,
            opinions: &[],
            tree: None,
            of_ancestor: false,
        }
    }

    fn grant(what: CallPattern, constraints: Option<Constraints>) -> Grant {
        let terms = Terms { constraints, ..Terms::default() };
        Grant { id: GrantId(1), pid: Pid(3), task: None, scope: Scope::All, what, terms, used: Vec::new(), shown: None }
    }

    fn like(paths: &[&str], command: Option<&[&str]>) -> CallPattern {
        let command = command.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
        CallPattern::Like {
            tool: "fs.write".into(),
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            command,
            whole: false,
            host: None,
            port: None,
            method: None,
        }
    }

    #[test]
    fn a_wider_grant_covers_its_kind_and_nothing_beside_it() {
        let src = [RealPath::Inside("src/a.rs")];
        let both = [RealPath::Inside("src/a.rs"), RealPath::Inside("docs/b.md")];
        let out = [RealPath::Outside("/src/a.rs")];
        let given = grant(like(&["/src/**"], None), None);
        for (paths, covered) in [(&src[..], true), (&both, false), (&out, false), (&[], false)] {
            assert_eq!(grant_covers(&given, &facts("fs.write", paths, None), "b"), covered, "{paths:?}");
        }
        assert!(!grant_covers(&given, &facts("fs.delete", &src, None), "b"));
        let argv = ["git".to_owned(), "push".to_owned()];
        assert!(grant_covers(&grant(like(&[], Some(&["git"])), None), &facts("fs.write", &[], Some(&argv)), "b"));
        assert!(!grant_covers(&grant(like(&[], Some(&["git", "pull"])), None), &facts("fs.write", &[], Some(&argv)), "b"));
    }

    #[test]
    fn a_yes_to_a_move_is_none_to_the_way_back() {
        let of_move = |paths: &[&str]| {
            let CallPattern::Like { paths, command, whole, host, port, method, .. } = like(paths, None) else { panic!("a kind") };
            CallPattern::Like { tool: "fs.move".into(), paths, command, whole, host, port, method }
        };
        let there = [RealPath::Inside("a"), RealPath::Inside("b[1]")];
        let back = [there[1], there[0]];
        let covers = |what: CallPattern, paths: &[RealPath<'_>]| grant_covers(&grant(what, None), &facts("fs.move", paths, None), "b");
        let asked = of_move(&["/a", "/b\\[1\\]"]);
        assert!(covers(asked.clone(), &there) && !covers(asked.clone(), &back) && !covers(asked.clone(), &[there[0], there[0]]));
        assert!(covers(of_move(&["/*"]), &there) && covers(of_move(&["/*"]), &back), "a pattern that the operator wrote has no direction");
        assert!(ban_covers(&ban(asked.clone()), &facts("fs.move", &back, None), "b"), "a no is one to every call that it touches");
        assert!(ban_covers(&ban(asked), &facts("fs.move", &there, None), "b"));
    }

    #[test]
    fn a_yes_to_one_port_and_method_is_none_to_others() {
        let to = |port, method: Option<&str>| CallPattern::Like {
            tool: "net.request".into(),
            paths: Vec::new(),
            command: None,
            whole: false,
            host: Some("a.test".into()),
            port,
            method: method.map(str::to_owned),
        };
        let asked = Facts { host: Some("a.test"), port: Some(80), method: Some("GET"), ..facts("net.request", &[], None) };
        let covers = |what| grant_covers(&grant(what, None), &asked, "b");
        assert!(covers(to(Some(80), Some("GET"))) && covers(to(None, None)));
        assert!(!covers(to(Some(81), Some("GET"))) && !covers(to(Some(80), Some("POST"))));
        assert!(covers(to(Some(81), Some("POST")).wherever()));
    }

    #[test]
    fn constraints_stay_with_the_grant() {
        let constraints =
            Constraints { writable_paths: vec!["/src/**".into()], readonly_paths: vec!["/src/gen/**".into()], ..Constraints::default() };
        let given = grant(like(&[], None), Some(constraints));
        for (path, covered) in [("src/a.rs", true), ("src/gen/b.rs", false), ("docs/c.md", false)] {
            assert_eq!(grant_covers(&given, &facts("fs.write", &[RealPath::Inside(path)], None), "b"), covered, "{path}");
        }
    }

    fn ban(what: CallPattern) -> Ban {
        Ban { id: world::BanId(1), pid: Pid(3), task: None, scope: Scope::All, what, reason: String::new(), alternative: None }
    }

    #[test]
    fn a_no_to_one_path_is_none_to_be_had_beside_others() {
        let both = [RealPath::Inside("src/a.rs"), RealPath::Inside("docs/b.md")];
        let refused = like(&["/src/a.rs"], None);
        assert!(ban_covers(&ban(refused.clone()), &facts("fs.write", &both, None), "b"));
        assert!(!ban_covers(&ban(refused.clone()), &facts("fs.write", &both[1..], None), "b"), "the control");
        assert!(!grant_covers(&grant(refused, None), &facts("fs.write", &both, None), "b"), "a yes to the one is none to both");
    }

    #[test]
    fn a_no_to_a_write_is_one_to_every_change_of_its_path() {
        let of = |tool: &str| {
            let CallPattern::Like { paths, command, whole, host, port, method, .. } = like(&["/sub/x\\[1\\]"], None) else {
                panic!("a kind")
            };
            ban(CallPattern::Like { tool: tool.into(), paths, command, whole, host, port, method })
        };
        let (own, folder, other) = ([RealPath::Inside("sub/x[1]")], [RealPath::Inside("sub")], [RealPath::Inside("sub/y")]);
        let refuses = |own: &str, tool: &str, paths: &[RealPath<'_>]| ban_covers(&of(own), &facts(tool, paths, None), "b");
        for tool in ["fs.write", "fs.edit", "fs.patch", "fs.move", "fs.delete"] {
            assert!(refuses("fs.write", tool, &own) && refuses("fs.edit", tool, &own) && refuses("fs.patch", tool, &own), "{tool}");
            assert!(!refuses("fs.write", tool, &other), "the control: {tool}");
            assert_eq!(refuses("fs.delete", tool, &own), matches!(tool, "fs.move" | "fs.delete"), "{tool}");
            assert_eq!(refuses("fs.write", tool, &folder), matches!(tool, "fs.move" | "fs.delete"), "the folder goes with it: {tool}");
        }
        assert!(!refuses("fs.write", "fs.read", &own) && !refuses("fs.read", "fs.write", &own));
        let yes = grant(of("fs.write").what, None);
        assert!(grant_covers(&yes, &facts("fs.write", &own, None), "b") && !grant_covers(&yes, &facts("fs.delete", &own, None), "b"));
    }

    #[test]
    fn a_yes_is_for_the_room_that_was_shown() {
        let room = |template: &str, network: &str| world::UsedRoom { template: template.into(), network: network.into() };
        let argv = ["npm".to_owned(), "install".to_owned()];
        let given = |shown: Option<world::UsedRoom>, tool: &str| {
            let CallPattern::Like { paths, command, whole, host, port, method, .. } = like(&[], None) else { panic!("a kind") };
            let what = CallPattern::Like { tool: tool.into(), paths, command, whole, host, port, method };
            Grant { shown: Some(world::ShownContext { room: shown, rules: Vec::new() }), ..grant(what, None) }
        };
        let asked = |tool: &'static str, template: &'static str, network: &'static str| Facts {
            sandbox: Some(template),
            network: Some(network),
            ..facts(tool, &[], Some(&argv))
        };
        let covers = |grant: &Grant, facts: &Facts<'_>| grant_covers(grant, facts, "b") && grant_answers(grant, facts, &[]);
        let run = given(Some(room("default", "none")), "shell.run");
        assert!(covers(&run, &asked("shell.run", "default", "none")), "the control");
        assert!(!covers(&run, &asked("shell.run", "default", "restricted")), "the template was opened since");
        assert!(!covers(&run, &asked("shell.run", "install", "restricted")));
        assert!(!covers(&run, &asked("shell.run", "other", "none")));
        let install = given(Some(room("install", "restricted")), "shell.run");
        assert!(covers(&install, &asked("shell.run", "install", "restricted")));
        for old in [given(None, "shell.run"), Grant { shown: None, ..run }] {
            assert!(covers(&old, &asked("shell.run", "default", "none")));
            assert!(!covers(&old, &asked("shell.run", "install", "restricted")));
        }
        let write = given(Some(room("default", "none")), "fs.write");
        assert!(covers(&write, &asked("fs.write", "test", "none")), "the merge of a task that ran its tests");
        assert!(!covers(&write, &asked("fs.write", "install", "restricted")));
    }

    #[test]
    fn a_yes_to_a_whole_command_is_none_to_more_of_it_and_a_no_is_one_to_any_folder() {
        let argv = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let CallPattern::Like { tool, paths, command, host, port, method, .. } = like(&[], Some(&["rm", "build"])) else {
            panic!("a kind")
        };
        let whole = CallPattern::Like { tool, paths, command, whole: true, host, port, method };
        let asked = |line: &str, test: &dyn Fn(&Facts<'_>) -> bool| test(&facts("fs.write", &[], Some(&argv(line))));
        let given = grant(whole.clone(), None);
        assert!(asked("rm build", &|facts| grant_covers(&given, facts, "b")));
        assert!(!asked("rm build src", &|facts| grant_covers(&given, facts, "b")));
        assert!(!asked("/tmp/rm build", &|facts| grant_covers(&given, facts, "b")));
        let refused = ban(whole.wherever());
        for line in ["rm build", "rm build src", "/usr/bin/rm build"] {
            assert!(asked(line, &|facts| ban_covers(&refused, facts, "b")), "{line}");
        }
        assert!(!asked("rm src", &|facts| ban_covers(&refused, facts, "b")), "the control");
    }

    #[test]
    fn what_does_not_parse_grants_nothing_and_bans_all() {
        let broken = like(&["["], None);
        let path = [RealPath::Inside("a")];
        assert!(!grant_covers(&grant(broken.clone(), None), &facts("fs.write", &path, None), "b"));
        assert!(ban_covers(&ban(broken), &facts("fs.write", &path, None), "b"));
    }
}
