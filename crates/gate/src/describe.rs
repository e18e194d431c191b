//! A call as the gate decides on it: what rules see of it, what an answer to it would cover, and what it was in a task that is replayed.

use crate::approval::OriginalCall;
use crate::call_facts::{CallFacts, Details};
use crate::pattern::{self, NetworkTarget};
use crate::zone::TrustedPolicy;
use crate::{Gate, Request, token};
use ledger::Ledger;
use std::sync::Arc;
use tool::{Real, ResolvedPath};
use world::{CallPattern, Code, Hands, Refusal, Stop, TaskId, ZoneId};

/// Everything that [`Gate::admit`] decides on, besides the world.
pub struct GateFacts {
    /// What it is judged by.
    pub call: CallFacts,
    /// The real paths as records hold them: relative inside the project, absolute outside.
    pub paths: Vec<String>,
    /// The call without its exact input: what a wider answer would be about.
    pub(crate) like: CallPattern,
    /// In a replay, what this call was in the task that is replayed.
    pub(crate) then: Option<OriginalCall>,
    /// Whether all that the call can do ends with its task's workspace.
    pub(crate) stays_inside: bool,
}

/// Where a call comes from.
struct Origin {
    zone: String,
    session: String,
    /// Where the task's workspace began.
    head: String,
    replays: Option<TaskId>,
}

fn origin(ledger: &Ledger, request: &Request) -> Result<Origin, Refusal> {
    let found = ledger.look(|world| {
        let zone = if request.zone == ZoneId::NONE { String::new() } else { world.zones.get(&request.zone)?.path.clone() };
        let task = request.task.and_then(|task| world.tasks.get(&task));
        Some(Origin {
            zone,
            session: world.session(request.pid),
            head: task.and_then(|task| task.workspace.as_ref()).and_then(|workspace| workspace.head.clone()).unwrap_or_default(),
            replays: task.and_then(|task| task.replays),
        })
    });
    found.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no {}", request.zone)))
}

impl Gate {
    /// Describes a call on these places. `is_confined` says that its work happens in a task's workspace, without a way out.
    pub fn describe(
        &self,
        request: &Request,
        trusted: Arc<TrustedPolicy>,
        details: Details,
        places: &[ResolvedPath],
        is_confined: bool,
    ) -> Result<GateFacts, Stop> {
        let Origin { zone, session, head, replays } = origin(&self.ledger, request)?;
        let bound = |task| pattern::bind(request, task, &session, &zone, &head);
        let bind = bound(request.task);
        let then = replays.map(|of| self.original_call(of, &request.tool, bound(Some(of)))).transpose()?;
        let target = NetworkTarget { host: details.host.as_deref(), port: details.port, method: details.method.as_deref() };
        let like = pattern::similar_calls(request, &bind, places, details.command.as_deref(), target);
        let token = request.token.as_ref().and_then(|(text, peer)| token::presented(&self.ledger, text, peer.clone()));
        let stays_inside = is_confined && details.host.is_none() && request.hands == Hands::Kernel;
        let mut call = CallFacts::new(&self.ledger, request.who(), trusted, details)?;
        (call.bind, call.token, call.was_lost) = (bind, token, request.was_lost);
        let paths = places.iter().map(|place| shown(&place.real).to_owned()).collect();
        Ok(GateFacts { call, paths, like, then, stays_inside })
    }

    /// Describes a call that touches no file, with what extensions think of it.
    pub async fn describe_without_files(&self, request: &Request, details: Details) -> Result<GateFacts, Stop> {
        let trusted = self.policies.in_force(request.zone)?;
        // For extensions alone, where there are some.
        let is_left_out = details.input.is_null() && !trusted.bundle.rules.is_empty();
        let details = if is_left_out { Details { input: request.input.clone(), ..details } } else { details };
        let mut facts = self.describe(request, trusted, details, &[], false)?;
        facts.call.ask_extensions(self).await;
        Ok(facts)
    }

    /// The folder of a request's project.
    pub fn project_of(&self, request: &Request) -> Result<std::path::PathBuf, Refusal> {
        Ok(origin(&self.ledger, request)?.zone.into())
    }
}

fn shown(real: &Real) -> &str {
    match real {
        Real::Inside(path) | Real::Outside(path) => path,
    }
}

/// Where a call of the web aims. Left out, the method is GET, and a rule about GET means that too.
pub fn network_target(input: &serde_json::Value) -> (Option<String>, Option<u16>, Option<String>) {
    let url = input["url"].as_str();
    let (host, port) = (url.and_then(host_of), url.and_then(tool::port_of));
    let method = host.as_ref().map(|_| input["method"].as_str().unwrap_or("GET").to_ascii_uppercase());
    (host, port, method)
}

/// The host of a URL, by the reader that the request itself goes through: two readers would be two opinions.
pub fn host_of(url: &str) -> Option<String> {
    tool::host_of(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_url_is_the_one_that_would_be_asked() {
        for (url, host) in [
            ("https://Example.com/x", Some("example.com")),
            ("http://user:pw@host.example:8080/", Some("host.example")),
            ("http://a.example\\@b.example/", Some("a.example")),
            ("http://[::1]:80/", Some("::1")),
            ("http://x.example./", Some("x.example")),
            ("http://%65vil.example/", Some("evil.example")),
            ("http://2130706433/", Some("127.0.0.1")),
            ("no url", None),
            ("http://", None),
        ] {
            assert_eq!(host_of(url).as_deref(), host, "{url}");
        }
    }
}
