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
        let said: Vec<String> = self.0.iter().map(|given| format!("`{given}`")).collect();
        let reason = format!("`{tool}` may not ask `{url}`: its permissions say {}", said.join(", "));
        Err(Refusal::new(Code::Denied, reason).hint("use `http.request`, or widen `permissions` in its tool.yaml"))
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
            Err(format!("`permissions`: `{text}` is more than a room gives; it shows the workspace"))
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
