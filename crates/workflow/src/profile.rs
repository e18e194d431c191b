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
