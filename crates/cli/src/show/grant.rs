//! What is given and what is refused for good, in words.

use super::measure::{duration_ms, plural, repository};
use super::{Line, Page, table};
use serde_json::Value;
use wire::method::grant::{BanView, GrantListResult, GrantView, TokenView};
use wire::method::review::AnswerReach;
use wire::{Alternative, CallPattern, Constraints, Observe, Pid, Scope, Terms};

/// Now, in the measure that a grant's end is written in: a step of the wall clock moves neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uptime {
    pub boot: String,
    pub ms: u64,
}

impl Uptime {
    /// Of this machine, which is also the kernel's.
    pub fn now() -> Uptime {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let at = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let ms = at.tv_sec.saturating_mul(1_000).saturating_add(at.tv_nsec / 1_000_000);
        Uptime { boot: boot.trim().to_owned(), ms: u64::try_from(ms).unwrap_or(0) }
    }
}

/// How far an answer reaches, as it stands behind what it is about: `… in this repository`.
pub fn scope(scope: &Scope) -> String {
    match scope {
        Scope::Process { pid } => format!("for process {pid} and its children"),
        Scope::Session { session } if *session == format!("s-{}", Pid::OPERATOR) => "for you, until the kernel stops".into(),
        Scope::Session { .. } => "for this task".into(),
        Scope::Zone { zone } => format!("in {}", repository(*zone)),
        Scope::User { user } => format!("always, for {user}"),
        Scope::All => "always".into(),
    }
}

/// The same for whoever gives the answer.
pub fn reach(reach: Option<AnswerReach>) -> &'static str {
    match reach {
        None => "this call only",
        Some(AnswerReach::Process) => "calls like it, for the worker that asked",
        Some(AnswerReach::Session) => "calls like it, until the task ends",
        Some(AnswerReach::Zone) => "calls like it, in this repository",
        Some(AnswerReach::User) => "calls like it, for every worker of its user, always",
        Some(AnswerReach::All) => "calls like it, always and everywhere",
    }
}

/// Which calls: `fs.write on src/**`.
pub fn what(what: &CallPattern) -> String {
    match what {
        CallPattern::Exact { tool, .. } => format!("{tool}, this one call"),
        CallPattern::Like { tool, paths, command, whole, host, port, method } => {
            let mut text = tool.clone();
            if let Some(command) = command {
                text.push_str(&format!(" of {}{}", super::call::words(command), if *whole { "" } else { " …" }));
            }
            if !paths.is_empty() {
                let paths: Vec<&str> = paths.iter().map(|path| if path == "/." { "the project's root" } else { path.as_str() }).collect();
                text.push_str(&format!(" {} {}", if command.is_some() { "in" } else { "on" }, paths.join(", ")));
            }
            if let Some(method) = method {
                text.push_str(&format!(" by {method}"));
            }
            if let Some(host) = host {
                text.push_str(&format!(" to {host}"));
                if let Some(port) = port {
                    text.push_str(&format!(":{port}"));
                }
            }
            text
        }
    }
}

/// The conditions, shortest first; empty when there are none. An end is told only to whom the present is known.
pub fn terms(terms: &Terms, now: Option<&Uptime>) -> String {
    let mut parts = Vec::new();
    if let Some(uses) = terms.uses_left {
        parts.push(format!("{} left", plural(uses.into(), "use")));
    }
    if let Some(until) = &terms.until {
        parts.push(match now {
            None => "for a while".into(),
            Some(now) if now.boot != until.boot || now.ms >= until.boottime_ms => "over".into(),
            Some(now) => format!("{} left", duration_ms(until.boottime_ms - now.ms)),
        });
    }
    if let Some(rate) = terms.rate {
        parts.push(format!("at most {} in {}", rate.max, duration_ms(rate.per_ms)));
    }
    if let Some(constraints) = &terms.constraints {
        parts.extend(constrained(constraints));
    }
    if let Some(observe) = terms.observe {
        parts.push(format!("observed ({})", level(observe)));
    }
    parts.join(" · ")
}

pub fn level(observe: Observe) -> &'static str {
    match observe {
        Observe::Basic => "basic",
        Observe::Detailed => "detailed",
    }
}

fn constrained(constraints: &Constraints) -> Vec<String> {
    let list = |word: &str, items: &[String]| (!items.is_empty()).then(|| format!("{word} {}", items.join(", ")));
    let overrides = constraints.input_overrides.iter().map(|(key, value)| match value {
        Value::String(text) => format!("{key}={text}"),
        value => format!("{key}={value}"),
    });
    let overrides: Vec<_> = overrides.collect();
    let parts = [
        list("writes only", &constraints.writable_paths),
        list("never writes", &constraints.readonly_paths),
        constraints.max_duration_ms.map(|ms| format!("at most {} long", duration_ms(ms))),
        list("with", &overrides),
        list("hides", &constraints.output_redact_fields),
        list("shows only", &constraints.output_allow_fields),
    ];
    parts.into_iter().flatten().collect()
}

/// What should be done instead, as it would be typed.
pub fn alternative(alternative: &Alternative) -> String {
    let Value::Object(input) = &alternative.input else { return alternative.tool.clone() };
    let pairs = input.iter().map(|(key, value)| match value {
        Value::String(text) => format!(" {key}={text}"),
        value => format!(" {key}={value}"),
    });
    std::iter::once(alternative.tool.clone()).chain(pairs).collect()
}

/// `skep grant list`.
pub fn list(result: &GrantListResult, now: &Uptime) -> Page {
    let mut rows: Vec<Vec<Line>> = Vec::new();
    rows.extend(result.grants.iter().map(|grant| granted(grant, now)));
    rows.extend(result.bans.iter().map(banned));
    rows.extend(result.tokens.iter().map(carried));
    if rows.is_empty() {
        return Page(vec![Line::new().faint("nothing is given, and nothing refused for good")]);
    }
    table(rows)
}

fn granted(grant: &GrantView, now: &Uptime) -> Vec<Line> {
    let mark = if grant.live { Line::new().good("✓ ") } else { Line::new().faint("○ ") };
    vec![
        mark.name(grant.grant.to_string()),
        Line::new().plain(what(&grant.what)),
        Line::new().strong(scope(&grant.scope)),
        Line::new().plain(terms(&grant.terms, Some(now))),
        Line::new().faint(format!("asked by {}", grant.process)),
    ]
}

fn banned(ban: &BanView) -> Vec<Line> {
    let instead = ban.alternative.as_ref().map(|other| format!("  instead {}", alternative(other))).unwrap_or_default();
    vec![
        Line::new().bad("⊘ ").name(ban.ban.to_string()),
        Line::new().plain(what(&ban.what)),
        Line::new().strong(scope(&ban.scope)),
        Line::new().plain(&ban.reason).faint(instead),
        Line::new().faint(format!("asked by {}", ban.process)),
    ]
}

fn carried(token: &TokenView) -> Vec<Line> {
    let mark = if token.live { Line::new().good("✓ ") } else { Line::new().faint("○ ") };
    vec![
        mark.name(token.token.to_string()),
        Line::new().plain("a token"),
        Line::new().strong(format!("for process {}", token.pid)),
        Line::new().plain(format!("{} left", plural(token.ops_left.into(), "use"))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn result() -> GrantListResult {
        serde_json::from_value(json!({
            "grants": [
                {"grant": "g-1", "pid": 3, "process": "worker.1", "scope": {"of": "process", "pid": 3}, "live": true,
                 "what": {"is": "exact", "tool": "fs.write", "bind": "b"}, "terms": {"uses_left": 1}},
                {"grant": "g-2", "pid": 3, "process": "worker.1", "scope": {"of": "all"}, "live": false,
                 "what": {"is": "like", "tool": "shell.run", "command": ["npm", "install"]},
                 "terms": {"until": {"boot": "a", "boottime_ms": 61_000}, "rate": {"max": 5, "per_ms": 60_000}, "observe": "basic",
                           "constraints": {"writable_paths": ["out/**"], "max_duration_ms": 30_000, "input_overrides": {"n": 1}}}},
            ],
            "bans": [{"ban": "b-1", "pid": 3, "process": "worker.1", "scope": {"of": "zone", "zone": "zone-1"},
                      "what": {"is": "like", "tool": "http.request", "host": "evil.test"}, "reason": "no\x1b[2J",
                      "alternative": {"tool": "fs.read", "input": {"path": "a"}}}],
            "tokens": [{"token": "t-1", "pid": 2, "ops_left": 3, "live": true}],
        }))
        .unwrap()
    }

    #[test]
    fn what_is_given_is_a_table() {
        let now = Uptime { boot: "a".into(), ms: 1_000 };
        let text = list(&result(), &now).render(false, None);
        let rows: Vec<Vec<&str>> =
            text.lines().map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect();
        assert_eq!(rows[0], ["✓ g-1", "fs.write, this one call", "for process 3 and its children", "1 use left", "asked by worker.1"]);
        let terms = "1m 00s left · at most 5 in 1m 00s · writes only out/** · at most 30.0 s long · with n=1 · observed (basic)";
        assert_eq!(rows[1], ["○ g-2", "shell.run of npm install …", "always", terms, "asked by worker.1"]);
        assert_eq!(rows[2][..4], ["⊘ b-1", "http.request to evil.test", "in repository 1", "no\\x1b[2J"]);
        assert!(text.contains("instead fs.read path=a"));
        assert_eq!(rows[3], ["✓ t-1", "a token", "for process 2", "3 uses left"]);
        let nothing = GrantListResult { grants: Vec::new(), bans: Vec::new(), tokens: Vec::new() };
        assert_eq!(list(&nothing, &now).render(false, None), "nothing is given, and nothing refused for good\n");
    }

    #[test]
    fn an_end_of_another_boot_is_over() {
        let terms_of = result().grants[1].terms.clone();
        assert!(terms(&terms_of, Some(&Uptime { boot: "b".into(), ms: 0 })).starts_with("over · "));
        assert!(terms(&terms_of, None).starts_with("for a while · "));
        assert!(!Uptime::now().boot.is_empty());
    }
}
