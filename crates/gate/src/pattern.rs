//! What a call is about, for a person's answer: exactly this call, or calls like it.
//!
//! **Invariant.** Whatever a wider answer covers, its reviewer could read off the question: nothing of the call that a rule can see is left out.

use crate::Request;
use tool::{Real, ResolvedPath, RunMode};
use workspace::hash;
use world::{CallPattern, Hands, TaskId};

/// Where in the network a call goes, and what it does there.
#[derive(Clone, Copy, Default)]
pub(crate) struct NetworkTarget<'a> {
    pub host: Option<&'a str>,
    pub port: Option<u16>,
    pub method: Option<&'a str>,
}

/// Hash of the exact call: who asks for what, where, how real, and on which base.
pub(crate) fn bind(request: &Request, task: Option<TaskId>, session: &str, zone: &str, base: &str) -> String {
    let task = task.map(|task| task.to_string()).unwrap_or_default();
    let hands = if request.hands == Hands::Caller { "caller" } else { "kernel" };
    let parts = [session, zone, &task, &request.tool, &request.said().to_string(), base, request.run_mode.as_str(), hands];
    hash::of_parts(&parts.map(str::as_bytes))
}

/// The kind of call this is: the same tool on the same paths, with the same command, to the same host and port by the same method.
/// A call that is not of a kind is only itself: one that leaves the project, and one that is not made in earnest.
pub(crate) fn similar_calls(
    request: &Request,
    bind: &str,
    places: &[ResolvedPath],
    command: Option<&[String]>,
    target: NetworkTarget<'_>,
) -> CallPattern {
    let tool = request.tool.clone();
    let paths: Option<Vec<String>> = places
        .iter()
        .map(|place| match &place.real {
            Real::Inside(path) => Some(format!("/{}", literal(path))),
            Real::Outside(_) => None,
        })
        .collect();
    match paths {
        Some(paths) if request.run_mode == RunMode::Live => CallPattern::Like {
            tool,
            paths,
            whole: command.is_some(),
            command: command.map(<[String]>::to_vec),
            host: target.host.map(str::to_owned),
            port: target.host.and(target.port),
            method: target.host.and(target.method).map(str::to_owned),
        },
        _ => CallPattern::Exact { tool, bind: bind.to_owned() },
    }
}

/// A path as a glob that matches it alone.
fn literal(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for letter in path.chars() {
        if "*?[]!\\{}".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tool::PathKind;
    use world::{Pid, ZoneId};

    #[test]
    fn a_literal_glob_matches_its_path_alone() {
        let globs = policy::Globs::parse(&[format!("/{}", literal("a[1]*.txt"))]).unwrap();
        assert!(globs.matches("a[1]*.txt"));
        assert!(!globs.matches("a1x.txt") && !globs.matches("b/a[1]*.txt"));
    }

    #[test]
    fn a_call_beyond_the_project_or_not_in_earnest_has_no_kind() {
        let request = Request::new(Pid(3), None, ZoneId(1), "fs.read", json!({}));
        let place = |real| ResolvedPath { real, kind: PathKind::Missing, fd: None };
        let inside = [place(Real::Inside("a".into()))];
        assert!(
            matches!(similar_calls(&request, "b", &inside, None, NetworkTarget::default()), CallPattern::Like { paths, .. } if paths == ["/a"])
        );
        let outside = [place(Real::Inside("a".into())), place(Real::Outside("/etc/hosts".into()))];
        let exact = CallPattern::Exact { tool: "fs.read".into(), bind: "b".into() };
        assert_eq!(similar_calls(&request, "b", &outside, None, NetworkTarget::default()), exact);
        let dry = Request { run_mode: RunMode::DryRun, ..request };
        assert_eq!(similar_calls(&dry, "b", &inside, None, NetworkTarget::default()), exact);
    }

    #[test]
    fn a_bind_differs_with_everything_that_makes_the_call() {
        let request = Request::new(Pid(3), None, ZoneId(1), "fs.read", json!({"path": "a"}));
        let of = |request: &Request, zone: &str, base: &str| bind(request, None, "s-3", zone, base);
        let own = of(&request, "/p", "");
        assert_eq!(own, of(&request.clone(), "/p", ""), "the control");
        let others = [
            of(&Request { run_mode: RunMode::DryRun, ..request.clone() }, "/p", ""),
            of(&Request { hands: Hands::Caller, ..request.clone() }, "/p", ""),
            of(&Request { input: json!({"path": "b"}), ..request.clone() }, "/p", ""),
            of(&request, "/q", ""),
            of(&request, "/p", "base"),
            bind(&request, None, "s-4", "/p", ""),
            bind(&request, Some(TaskId(1)), "s-3", "/p", ""),
        ];
        assert!(others.iter().all(|other| *other != own));
    }
}
