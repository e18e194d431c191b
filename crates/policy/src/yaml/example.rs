//! Examples: calls that a rule must speak about, and calls that it must not, checked when the file is read.

use super::compile::Compiler;
use super::{PolicyError, Spelled, Tree, written};
use crate::facts::{OwnedFacts, OwnedPath};
use crate::rule::Rule;
use crate::units::parse_size;
use ::yaml::{Location, Spanned};

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Examples {
    #[serde(rename = "match", default, deserialize_with = "written")]
    fits: Option<Vec<Spanned<Example>>>,
    #[serde(default, deserialize_with = "written")]
    not_match: Option<Vec<Spanned<Example>>>,
}

/// One call. What is left out is empty; the mode is `live`.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    syscall: Spanned<Tree>,
    #[serde(default, deserialize_with = "written")]
    path: Spelled,
    #[serde(default, deserialize_with = "written")]
    caller: Spelled,
    #[serde(default, deserialize_with = "written")]
    caller_tag: Spelled,
    #[serde(default, deserialize_with = "written")]
    role: Spelled,
    #[serde(default, deserialize_with = "written")]
    tier: Spelled,
    #[serde(default, deserialize_with = "written")]
    user: Spelled,
    #[serde(default, deserialize_with = "written")]
    zone: Spelled,
    #[serde(default, deserialize_with = "written")]
    mode: Spelled,
    #[serde(default, deserialize_with = "written", alias = "state_machine_state")]
    workflow_state: Spelled,
    #[serde(default, deserialize_with = "written")]
    session_mode: Spelled,
    #[serde(default, deserialize_with = "written")]
    command: Spelled,
    #[serde(default, deserialize_with = "written")]
    host: Spelled,
    #[serde(default, deserialize_with = "written")]
    method: Spelled,
    #[serde(default, deserialize_with = "written")]
    port: Spelled,
    #[serde(default, deserialize_with = "written")]
    sandbox: Spelled,
    #[serde(default, deserialize_with = "written")]
    network: Spelled,
    #[serde(default, deserialize_with = "written")]
    size: Spelled,
}

impl Examples {
    fn all(&self) -> impl Iterator<Item = &Spanned<Example>> {
        self.fits.iter().chain(&self.not_match).flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// The calls that they name, and where.
    pub(super) fn syscalls(&self) -> impl Iterator<Item = (Location, String)> {
        self.all().filter_map(|example| match &example.value.syscall {
            Spanned { value: Tree::Word(word), referenced, .. } => Some((*referenced, word.clone())),
            _ => None,
        })
    }
}

impl Compiler<'_> {
    pub(super) fn examples(&self, rule: &Rule, examples: &Examples) -> Result<(), PolicyError> {
        for (list, expected) in [(&examples.fits, true), (&examples.not_match, false)] {
            for example in list.iter().flatten() {
                self.example(rule, example, expected)?;
            }
        }
        Ok(())
    }

    fn example(&self, rule: &Rule, example: &Spanned<Example>, expected: bool) -> Result<(), PolicyError> {
        let call = self.call(&example.value)?;
        let silence = call.with(|facts| rule.silence(facts, facts.paths.first().copied()));
        let name = &rule.name;
        match (silence, expected) {
            (None, true) | (Some(_), false) => Ok(()),
            (Some(why), true) => Err(self.error(
                example.referenced,
                format!("the rule `{name}` does not match this example, and should: {why}"),
                "change the rule, or move the example below `not_match`",
            )),
            (None, false) => Err(self.error(
                example.referenced,
                format!("the rule `{name}` matches this example, and should not"),
                "make the rule narrower, or move the example below `match`",
            )),
        }
    }

    fn call(&self, example: &Example) -> Result<OwnedFacts, PolicyError> {
        let one = |name: &str, field: &Spelled| self.one(name, field.as_ref());
        let text = |name: &str, field: &Spelled| one(name, field).map(|found| found.map(|(_, word)| word).unwrap_or_default());
        let many = |name: &str, field: &Spelled| -> Result<Option<Vec<String>>, PolicyError> {
            let Some(tree) = field else { return Ok(None) };
            Ok(Some(self.flat(name, tree.referenced, &tree.value)?.into_iter().map(|(_, word)| word).collect()))
        };
        let syscall = self.one("syscall", Some(&example.syscall))?.map(|(_, word)| word).unwrap_or_default();
        let mut facts = OwnedFacts::of(syscall);
        facts.paths = one("path", &example.path)?.map(|(at, path)| self.path(at, path)).transpose()?.into_iter().collect();
        facts.caller = text("caller", &example.caller)?;
        facts.caller_tags = many("caller_tag", &example.caller_tag)?.unwrap_or_default();
        facts.role = text("role", &example.role)?;
        facts.tier = text("tier", &example.tier)?;
        facts.user = text("user", &example.user)?;
        facts.zone = text("zone", &example.zone)?;
        if let Some((at, mode)) = one("mode", &example.mode)? {
            facts.run_mode = self.mode(at, &mode)?.to_owned();
        }
        facts.workflow_state = text("workflow_state", &example.workflow_state)?;
        facts.session_mode = text("session_mode", &example.session_mode)?;
        facts.command = many("command", &example.command)?;
        let host = one("host", &example.host)?;
        let canonical = |(at, host): (Location, String)| {
            super::host::canonical(&host).map_err(|(what, hint)| self.error(at, format!("`{host}` {what}"), hint))
        };
        facts.host = host.map(canonical).transpose()?;
        facts.method = one("method", &example.method)?.map(|(_, method)| method);
        let port = one("port", &example.port)?;
        facts.port = port
            .map(|(at, port)| port.parse().map_err(|_| self.error(at, format!("`{port}` is not a port"), "write a number")))
            .transpose()?;
        facts.sandbox = one("sandbox", &example.sandbox)?.map(|(_, sandbox)| sandbox);
        facts.network = one("network", &example.network)?.map(|(_, network)| network);
        let size = one("size", &example.size)?;
        facts.size = size.map(|(at, size)| parse_size(&size).map_err(|bad| self.error(at, bad.to_string(), bad.hint))).transpose()?;
        Ok(facts)
    }

    fn one(&self, name: &str, field: Option<&Spanned<Tree>>) -> Result<Option<(Location, String)>, PolicyError> {
        let Some(tree) = field else { return Ok(None) };
        match <[_; 1]>::try_from(self.flat(name, tree.referenced, &tree.value)?) {
            Ok([word]) => Ok(Some(word)),
            Err(_) => Err(self.error(tree.referenced, format!("an example has one `{name}`"), "write one example for each")),
        }
    }

    /// Rules see real paths, so an example has to name one.
    fn path(&self, at: Location, path: String) -> Result<OwnedPath, PolicyError> {
        let (absolute, body) = path.strip_prefix('/').map_or((false, path.as_str()), |body| (true, body));
        if path != "." && body.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return Err(self.error(
                at,
                format!("`{path}` is not a real path"),
                "write it from the project's root, such as `src/lib.rs`, or from `/` for one outside",
            ));
        }
        Ok(if absolute { OwnedPath::Outside(path) } else { OwnedPath::Inside(path) })
    }
}
