//! What a session may do at most: its policy profile and the constraints of its task, applied to one call.
//!
//! **Invariant.** They only narrow. Neither is ever a yes: what passes here is still decided by policy. A list that is empty says nothing; a list that is not empty allows what it
//! names and nothing else, and what cannot be held against it (a program, a path that leads out) is refused.

use crate::criteria::Criterion;
use crate::findings::{Findings, blocking, is_unseen, shown};
use crate::plan::is_tool_name;
use world::{PlanConstraints, PlanFinding, PolicyProfile};

/// A call as far as a profile looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallScope<'a> {
    pub tool: &'a str,
    /// It changes nothing anywhere.
    pub reads_only: bool,
    /// Below the project, or absolute where one leads out of it.
    pub paths: &'a [String],
    pub host: Option<&'a str>,
    pub port: Option<u16>,
    pub command: Option<&'a [String]>,
    /// It runs a program, or may touch paths that it does not name.
    pub reaches_anywhere: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeVerdict {
    /// Nothing here is against it.
    Unrestricted,
    /// A person must allow it, whatever policy says.
    Ask(String),
    Denied(String),
}

/// Is a call within a session's profile and its task's constraints?
pub fn judge_scope(profile: &PolicyProfile, constraints: &PlanConstraints, call: &CallScope<'_>) -> ScopeVerdict {
    if let Some(why) = tool_refusal(constraints, call.tool) {
        return ScopeVerdict::Denied(why);
    }
    for (list, name) in [(&profile.allowed_paths, "allowed_paths"), (&constraints.path_scope, "path_scope")] {
        if let Some(path) = call.paths.iter().find(|path| !list.is_empty() && !list.iter().any(|allowed| covers_path(allowed, path))) {
            return ScopeVerdict::Denied(format!("`{}` is not in the session's `{name}`", shown(path)));
        }
    }
    if let Some(host) = call.host
        && !profile.allowed_endpoints.is_empty()
        && !profile.allowed_endpoints.iter().any(|allowed| covers_endpoint(allowed, host, call.port))
    {
        return ScopeVerdict::Denied(format!("`{}` is not in the session's `allowed_endpoints`", shown(host)));
    }
    if let Some(why) = program_refusal(profile, constraints, call) {
        return ScopeVerdict::Denied(why);
    }
    if profile.require_approval_for_writes && !call.reads_only {
        return ScopeVerdict::Ask("the session's profile asks a person about every change".to_owned());
    }
    ScopeVerdict::Unrestricted
}

/// Why the task's constraints do not let a plan use a tool.
pub fn tool_refusal(constraints: &PlanConstraints, tool: &str) -> Option<String> {
    let PlanConstraints { tool_allowlist, tool_denylist, .. } = constraints;
    if let Some(pattern) = tool_denylist.iter().find(|pattern| covers_tool(pattern, tool)) {
        return Some(format!("the task's `tool_denylist` has `{}`", shown(pattern)));
    }
    let is_left_out = !tool_allowlist.is_empty() && !tool_allowlist.iter().any(|pattern| covers_tool(pattern, tool));
    is_left_out.then(|| format!("the task's `tool_allowlist` does not have `{}`", shown(tool)))
}

fn program_refusal(profile: &PolicyProfile, constraints: &PlanConstraints, call: &CallScope<'_>) -> Option<String> {
    if !call.reaches_anywhere && call.command.is_none() {
        return None;
    }
    let is_listed = call.command.is_some_and(|command| profile.allowed_commands.iter().any(|allowed| covers_command(allowed, command)));
    if !profile.allowed_commands.is_empty() {
        let name = call.command.and_then(|command| command.first()).map_or("a program that is not named", String::as_str);
        return (!is_listed).then(|| format!("`{}` is not in the session's `allowed_commands`", shown(name)));
    }
    let scoped = [(&profile.allowed_paths, "allowed_paths"), (&constraints.path_scope, "path_scope")];
    let (_, name) = scoped.into_iter().find(|(list, _)| !list.is_empty() && !list.iter().any(|path| covers_path(path, ".")))?;
    Some(format!("nobody can hold a program to the session's `{name}`; `allowed_commands` would have to name it"))
}

/// `fs.read`, or `fs.*` for all of a noun.
fn covers_tool(pattern: &str, tool: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => tool.starts_with(start),
        None => pattern == tool,
    }
}

/// Is a path the same as an entry, or below it?
fn covers_path(allowed: &str, path: &str) -> bool {
    let (Some(allowed), Some(path)) = (parts(folder_of(allowed)), parts(path)) else { return false };
    allowed.is_absolute == path.is_absolute && path.names.starts_with(&allowed.names)
}

/// `src/**` and `src/` mean the folder.
fn folder_of(entry: &str) -> &str {
    match entry {
        "**" => ".",
        entry => entry.strip_suffix("/**").unwrap_or(entry),
    }
}

struct PathParts<'a> {
    is_absolute: bool,
    names: Vec<&'a str>,
}

/// The names of a path; `None` where it could lead back out of what it begins with.
fn parts(path: &str) -> Option<PathParts<'_>> {
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty() && *name != ".").collect();
    if path.is_empty() || names.contains(&"..") { None } else { Some(PathParts { is_absolute: path.starts_with('/'), names }) }
}

/// `example.com`, `*.example.com`, either with a port.
fn covers_endpoint(allowed: &str, host: &str, port: Option<u16>) -> bool {
    let (name, allowed_port) = split_port(allowed);
    if allowed_port.is_some() && allowed_port != port {
        return false;
    }
    let (name, host) = (plain_host(name), plain_host(host));
    match name.strip_prefix("*.") {
        Some(domain) => host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1),
        None => name == host,
    }
}

fn split_port(endpoint: &str) -> (&str, Option<u16>) {
    match endpoint.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (endpoint, None),
        },
        _ => (endpoint, None),
    }
}

fn plain_host(host: &str) -> String {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

/// A program's name, or its first words too: `git status` covers `git status -s`. A program by its path is another one.
fn covers_command(allowed: &str, command: &[String]) -> bool {
    let words: Vec<&str> = allowed.split_ascii_whitespace().collect();
    !words.is_empty() && command.len() >= words.len() && words.iter().zip(command).all(|(word, given)| word == given)
}

/// Entries that could not be enforced as they are written: refused when a session starts.
pub fn check_scope(profile: &PolicyProfile, constraints: &PlanConstraints) -> Vec<PlanFinding> {
    type Check = fn(&str) -> Option<String>;
    let lists: [(&[String], &str, Check); 7] = [
        (&profile.allowed_paths, "allowed_paths", path_flaw),
        (&profile.allowed_endpoints, "allowed_endpoints", endpoint_flaw),
        (&profile.allowed_commands, "allowed_commands", command_flaw),
        (&constraints.tool_allowlist, "tool_allowlist", tool_flaw),
        (&constraints.tool_denylist, "tool_denylist", tool_flaw),
        (&constraints.path_scope, "path_scope", path_flaw),
        (&constraints.success_criteria, "success_criteria", |text| Criterion::parse(text).err()),
    ];
    let mut found = Findings::default();
    for (list, name, flaw) in lists {
        for (index, entry) in list.iter().enumerate() {
            if let Some(why) = flaw(entry) {
                found.add(blocking("profile", format!("{name}[{index}]"), why));
            }
        }
    }
    found.into_vec()
}

/// What would be right in the place of an entry that [`check_scope`] found.
pub fn scope_hint(finding: &PlanFinding) -> &'static str {
    match finding.at.split('[').next().unwrap_or_default() {
        "allowed_paths" | "path_scope" => "name a file or folder of the project, such as `src` or `docs/**`",
        "allowed_endpoints" => "name a host, such as `example.com` or `*.example.com:8443`",
        "allowed_commands" => "name a program, such as `cargo`, or its first words, such as `git status`",
        "tool_allowlist" | "tool_denylist" => "name a tool, such as `fs.read`, or all of a kind, such as `fs.*`",
        _ => "write a comparison over the output of a step, such as `build.exit_code == 0`",
    }
}

fn path_flaw(entry: &str) -> Option<String> {
    let folder = folder_of(entry);
    let is_plain = parts(folder).is_some() && !folder.contains(['*', '?', '[', '{', '!']) && !entry.chars().any(is_unseen);
    (!is_plain).then(|| format!("`{}` is not a file or folder; a pattern may only end in `/**`", shown(entry)))
}

fn endpoint_flaw(entry: &str) -> Option<String> {
    let (host, _) = split_port(entry);
    let name = host.strip_prefix("*.").unwrap_or(host);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    let is_address = name.starts_with('[')
        && name.ends_with(']')
        && name[1..name.len() - 1].bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
    (!is_name && !is_address)
        .then(|| format!("`{}` is not a host such as `example.com`, `*.example.com` or `example.com:8443`", shown(entry)))
}

fn command_flaw(entry: &str) -> Option<String> {
    let is_command = entry.split_ascii_whitespace().next().is_some() && !entry.chars().any(is_unseen);
    (!is_command).then(|| "it names no program".to_owned())
}

fn tool_flaw(entry: &str) -> Option<String> {
    let name = entry.strip_suffix('*').map(|start| format!("{start}x")).unwrap_or_else(|| entry.to_owned());
    (!is_tool_name(&name)).then(|| format!("`{}` is not a tool's name, nor one that ends in `*`", shown(entry)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|word| (*word).to_owned()).collect()
    }

    fn judge(profile: &PolicyProfile, call: CallScope<'_>) -> &'static str {
        match judge_scope(profile, &PlanConstraints::default(), &CallScope { tool: "fs.write", ..call }) {
            ScopeVerdict::Unrestricted => "unrestricted",
            ScopeVerdict::Ask(_) => "ask",
            ScopeVerdict::Denied(_) => "denied",
        }
    }

    #[test]
    fn a_path_is_inside_what_is_listed_or_denied() {
        let check = |allowed: &str, path: &str, expected: &str| {
            let profile = PolicyProfile { allowed_paths: words(&[allowed]), ..PolicyProfile::default() };
            assert_eq!(judge(&profile, CallScope { paths: &words(&[path]), ..CallScope::default() }), expected, "{path} in {allowed}");
        };
        for allowed in ["src", "src/", "./src", "src/**"] {
            check(allowed, "src", "unrestricted");
            check(allowed, "src/a/b.rs", "unrestricted");
            check(allowed, "./src//a", "unrestricted");
            check(allowed, "srcs/a", "denied");
            check(allowed, "SRC/a", "denied");
            check(allowed, "a", "denied");
            check(allowed, ".", "denied");
            check(allowed, "src/../etc", "denied");
            check(allowed, "/src/a", "denied");
            check(allowed, "", "denied");
        }
        check(".", "anything/at/all", "unrestricted");
        check("**", "anything", "unrestricted");
        check(".", "../out", "denied");
        check(".", "/etc/passwd", "denied");
        check("/tmp/x", "/tmp/x/y", "unrestricted");
        check("/tmp/x", "tmp/x/y", "denied");
        check("/", "/etc/passwd", "unrestricted");
    }

    #[test]
    fn an_endpoint_is_the_host_that_is_listed() {
        let check = |allowed: &str, host: &str, port: Option<u16>, expected: &str| {
            let profile = PolicyProfile { allowed_endpoints: words(&[allowed]), ..PolicyProfile::default() };
            assert_eq!(judge(&profile, CallScope { host: Some(host), port, ..CallScope::default() }), expected, "{host} in {allowed}");
        };
        check("example.com", "example.com", Some(443), "unrestricted");
        check("example.com", "EXAMPLE.com.", None, "unrestricted");
        check("example.com", "evil-example.com", None, "denied");
        check("example.com", "example.com.evil.org", None, "denied");
        check("example.com", "api.example.com", None, "denied");
        check("*.example.com", "api.example.com", None, "unrestricted");
        check("*.example.com", "example.com", None, "denied");
        check("*.example.com", "evilexample.com", None, "denied");
        check("example.com:8443", "example.com", Some(8443), "unrestricted");
        check("example.com:8443", "example.com", Some(443), "denied");
        check("example.com:8443", "example.com", None, "denied");
        check("[::1]:80", "::1", Some(80), "unrestricted");
        check("[::1]", "[::1]", Some(80), "unrestricted");
        // KarnEvil9 took hosts that begin with `fd` for private addresses (shortcoming 19).
        check("fda.gov", "fda.gov", None, "unrestricted");
    }

    #[test]
    fn a_program_runs_only_if_it_is_listed_where_lists_would_hold_it() {
        let check = |profile: &PolicyProfile, command: Option<&[&str]>, expected: &str| {
            let command = command.map(words);
            let call = CallScope { command: command.as_deref(), reaches_anywhere: true, ..CallScope::default() };
            assert_eq!(judge(profile, call), expected, "{command:?} by {profile:?}");
        };
        let none = PolicyProfile::default();
        check(&none, Some(&["rm", "-rf", "/"]), "unrestricted");
        let commands = PolicyProfile { allowed_commands: words(&["cargo", "git status"]), ..PolicyProfile::default() };
        check(&commands, Some(&["cargo", "test"]), "unrestricted");
        check(&commands, Some(&["git", "status", "-s"]), "unrestricted");
        check(&commands, Some(&["git", "push"]), "denied");
        check(&commands, Some(&["git"]), "denied");
        check(&commands, Some(&["/tmp/cargo"]), "denied");
        check(&commands, Some(&["env", "cargo"]), "denied");
        check(&commands, Some(&[]), "denied");
        check(&commands, None, "denied");
        // shell-exec read /etc/passwd where only the working directory was allowed (shortcoming 18).
        let paths = PolicyProfile { allowed_paths: words(&["src"]), ..PolicyProfile::default() };
        check(&paths, Some(&["cat", "/etc/passwd"]), "denied");
        check(&PolicyProfile { allowed_commands: words(&["cargo"]), ..paths }, Some(&["cargo", "test"]), "unrestricted");
        check(&PolicyProfile { allowed_paths: words(&["."]), ..PolicyProfile::default() }, Some(&["cargo"]), "unrestricted");
        let scope = PlanConstraints { path_scope: words(&["src"]), ..PlanConstraints::default() };
        let command = words(&["ls"]);
        let call = CallScope { tool: "shell.run", command: Some(&command), reaches_anywhere: true, ..CallScope::default() };
        assert!(matches!(judge_scope(&none, &scope, &call), ScopeVerdict::Denied(why) if why.contains("path_scope")));
    }

    #[test]
    fn writes_ask_where_the_profile_says_so_and_a_no_stays_a_no() {
        let profile = PolicyProfile { require_approval_for_writes: true, allowed_paths: words(&["src"]), ..PolicyProfile::default() };
        let (inside, outside) = (words(&["src/a"]), words(&["b"]));
        assert_eq!(judge(&profile, CallScope { paths: &inside, ..CallScope::default() }), "ask");
        assert_eq!(judge(&profile, CallScope { paths: &inside, reads_only: true, ..CallScope::default() }), "unrestricted");
        assert_eq!(judge(&profile, CallScope { paths: &outside, ..CallScope::default() }), "denied");
    }

    #[test]
    fn the_denylist_counts_before_the_allowlist() {
        let constraints = PlanConstraints {
            tool_allowlist: words(&["fs.*", "read-file"]),
            tool_denylist: words(&["fs.delete"]),
            ..PlanConstraints::default()
        };
        let refused = |tool: &str| tool_refusal(&constraints, tool).is_some();
        assert_eq!(
            [refused("fs.read"), refused("fs.delete"), refused("shell.run"), refused("read-file"), refused("read-file2")],
            [false, true, true, false, true]
        );
        assert!(tool_refusal(&PlanConstraints::default(), "anything").is_none());
    }

    #[test]
    fn entries_that_could_not_be_enforced_are_refused_with_their_place() {
        let profile = PolicyProfile {
            allowed_paths: words(&["src", "src/**", "*.rs", "", "a/../b", "x\u{202e}"]),
            allowed_endpoints: words(&["example.com", "*.example.com:443", "https://example.com", "*", "[::1]:80", "a b"]),
            allowed_commands: words(&["git status", " "]),
            require_approval_for_writes: false,
        };
        let constraints = PlanConstraints {
            tool_allowlist: words(&["fs.*", "fs.read", "*", "FS.read"]),
            tool_denylist: words(&["a.b.c"]),
            path_scope: words(&["docs", "do?s"]),
            success_criteria: words(&["build.exit_code == 0", "it works"]),
        };
        let places: Vec<String> = check_scope(&profile, &constraints).into_iter().map(|finding| finding.at).collect();
        let expected = [
            "allowed_paths[2]",
            "allowed_paths[3]",
            "allowed_paths[4]",
            "allowed_paths[5]",
            "allowed_endpoints[2]",
            "allowed_endpoints[3]",
            "allowed_endpoints[5]",
            "allowed_commands[1]",
            "tool_allowlist[3]",
            "tool_denylist[0]",
            "path_scope[1]",
            "success_criteria[1]",
        ];
        assert_eq!(places, expected);
        assert_eq!(check_scope(&PolicyProfile::default(), &PlanConstraints::default()), []);
    }
}
