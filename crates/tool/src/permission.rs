//! What a manifest says its tool needs: `domain:action:target`, KarnEvil9's form.
//!
//! **Invariant.** A permission is a bound, never a right: policy decides as for every call, and what a room does not give, no manifest can
//! ask for. A manifest without any has the bounds of its room alone.

use crate::manifest::Manifest;
use std::fmt;
use world::{Code, Refusal};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Permission {
    Read,
    Write,
    /// Whatever a command can do in its room.
    Exec,
    /// `https`, `http`, `*` or a host.
    Network(String),
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Permission::Read => f.write_str("filesystem:read:workspace"),
            Permission::Write => f.write_str("filesystem:write:workspace"),
            Permission::Exec => f.write_str("shell:exec:workspace"),
            Permission::Network(target) => write!(f, "network:request:{target}"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Permissions(Vec<Permission>);

impl Permissions {
    pub fn of(manifest: &Manifest) -> Result<Permissions, String> {
        manifest.permissions.iter().map(|text| parse(text)).collect::<Result<_, _>>().map(Permissions)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn covers(&self, needed: &Permission) -> bool {
        self.0.iter().any(|given| match (given, needed) {
            (Permission::Network(_), Permission::Network(_)) => true,
            _ => given == needed,
        })
    }

    /// Do they let this tool ask for `url`?
    pub fn allow_url(&self, tool: &str, url: &str) -> Result<(), Refusal> {
        let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase()).unwrap_or_default();
        let host = crate::host_of(url);
        let allows = |given: &Permission| match given {
            Permission::Network(target) => match target.as_str() {
                "*" => true,
                "http" => matches!(scheme.as_str(), "http" | "https"),
                "https" => scheme == "https",
                named => host.as_deref() == Some(named),
            },
            _ => false,
        };
        if self.0.iter().any(allows) {
            return Ok(());
        }
        let reason = format!("`{tool}` may not ask `{url}`: its permissions say {}", self.listed());
        Err(Refusal::new(Code::Denied, reason).hint("use `http.request`, or widen `permissions` in its tool.yaml"))
    }

    /// Do they let a job of this tool reach `host`? What goes through a tunnel counts as https.
    pub fn allow_host(&self, tool: &str, host: &str, is_tunnel: bool) -> Result<(), Refusal> {
        let allows = |given: &Permission| match given {
            Permission::Network(target) => match target.as_str() {
                "*" | "http" => true,
                "https" => is_tunnel,
                named => host.eq_ignore_ascii_case(named),
            },
            _ => false,
        };
        if self.0.iter().any(allows) {
            return Ok(());
        }
        let needs_tunnel = !is_tunnel && self.0.contains(&Permission::Network("https".to_owned()));
        let how = if needs_tunnel { " in clear text" } else { "" };
        let reason = format!("`{tool}` may not reach `{host}`{how}: its permissions say {}", self.listed());
        Err(Refusal::new(Code::Denied, reason).hint("widen `permissions` in its tool.yaml"))
    }

    fn listed(&self) -> String {
        let said: Vec<String> = self.0.iter().map(|given| format!("`{given}`")).collect();
        said.join(", ")
    }
}

fn parse(text: &str) -> Result<Permission, String> {
    let mut parts = text.splitn(3, ':');
    let part = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    match part {
        ("filesystem", "read", "workspace") => Ok(Permission::Read),
        ("filesystem", "write", "workspace") => Ok(Permission::Write),
        ("shell", "exec", "workspace") => Ok(Permission::Exec),
        ("network", "request", target) if !target.is_empty() => Ok(Permission::Network(target.to_ascii_lowercase())),
        ("filesystem", "read" | "write", _) | ("shell", "exec", _) => {
            Err(format!("`permissions`: `{text}` is more than a sandbox gives; it shows the workspace"))
        }
        _ => Err(format!(
            "`permissions`: `{text}` is none of filesystem:read:workspace, filesystem:write:workspace, shell:exec:workspace, network:request:TARGET"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_reaches_what_is_named() {
        let reach = |target: &str, host: &str, is_tunnel: bool| {
            Permissions(vec![Permission::Exec, parse(&format!("network:request:{target}")).unwrap()]).allow_host("t", host, is_tunnel)
        };
        for (target, host, is_tunnel) in [
            ("*", "h.example", false),
            ("http", "h.example", false),
            ("http", "h.example", true),
            ("https", "h.example", true),
            ("H.example", "h.example", false),
        ] {
            assert_eq!(reach(target, host, is_tunnel), Ok(()), "{target}");
        }
        let refusal = reach("https", "h.example", false).unwrap_err();
        assert_eq!(
            refusal.reason,
            "`t` may not reach `h.example` in clear text: its permissions say `shell:exec:workspace`, `network:request:https`"
        );
        for host in ["other.example", "h.example.evil", "sub.h.example", "127.0.0.1"] {
            assert_eq!(reach("h.example", host, true).unwrap_err().code, Code::Denied, "{host}");
        }
    }

    #[test]
    fn what_cannot_be_honoured_is_refused() {
        for good in [
            "filesystem:read:workspace",
            "filesystem:write:workspace",
            "shell:exec:workspace",
            "network:request:*",
            "network:request:h.example",
        ] {
            assert_eq!(parse(good).unwrap().to_string(), good);
        }
        for bad in [
            "",
            "filesystem",
            "filesystem:read",
            "filesystem:read:/etc",
            "filesystem:delete:workspace",
            "shell:exec:host",
            "gpu:use:all",
            "network:listen:80",
            "network:request:",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
