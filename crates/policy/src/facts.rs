//! What a decision is about: the call, and everything that took IO to learn.

use crate::rule::Action;
use crate::token::TokenFacts;
use crate::tree_facts::TreeFacts;
use serde::{Deserialize, Serialize};
use world::Mode;

/// Everything a decision needs that took IO to learn.
#[derive(Debug, Clone)]
pub struct Facts<'a> {
    /// The syscall: `fs.write`.
    pub tool: &'a str,
    /// From the tool's manifest.
    pub read_only: bool,
    pub paths: &'a [RealPath<'a>],
    pub caller: &'a str,
    pub caller_tags: &'a [String],
    pub role: &'a str,
    pub tier: &'a str,
    pub user: &'a str,
    pub zone: &'a str,
    pub mode: Mode,
    /// `live`, `dry_run` or `mock`; the field `mode` of a policy file.
    pub run_mode: &'a str,
    pub workflow_state: &'a str,
    /// How strictly tests come first; empty where they need not. Of a call that switches it, what is asked for.
    pub session_mode: &'a str,
    pub command: Option<&'a [String]>,
    /// Without port.
    pub host: Option<&'a str>,
    pub method: Option<&'a str>,
    pub port: Option<u16>,
    /// Bytes that the call reads or writes, where it says so before it runs.
    pub size: Option<u64>,
    /// The template of the room it will run in.
    pub sandbox: Option<&'a str>,
    /// What that room reaches: `none` or `restricted`.
    pub network: Option<&'a str>,
    pub token: Option<&'a TokenFacts>,
    pub opinions: &'a [Opinion],
    /// Whom it concerns, for a call of the process tree.
    pub tree: Option<&'a TreeFacts>,
    /// It is asked whether one above the caller might do it.
    pub of_ancestor: bool,
}

impl<'a> Facts<'a> {
    /// The same call by one above its caller.
    #[must_use]
    pub fn by<'b>(&'b self, caller: &'b str, role: &'b str, user: &'b str, caller_tags: &'b [String]) -> Facts<'b>
    where
        'a: 'b,
    {
        Facts { caller, role, user, caller_tags, of_ancestor: true, ..self.clone() }
    }
}

/// Where a path really leads, symlinks resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RealPath<'a> {
    /// Relative to the project, normalised, `/`-separated; `.` is the project itself.
    Inside(&'a str),
    /// Absolute.
    Outside(&'a str),
}

impl<'a> RealPath<'a> {
    pub fn as_str(self) -> &'a str {
        match self {
            RealPath::Inside(path) | RealPath::Outside(path) => path,
        }
    }
}

/// What an extension thinks of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opinion {
    /// The extension's name.
    pub from: String,
    pub says: Action,
    pub reason: String,
}

impl Opinion {
    /// Of an extension that crashed, hung or was not there. Doubt counts as deny.
    pub fn lost(from: impl Into<String>, why: impl Into<String>) -> Opinion {
        Opinion { from: from.into(), says: Action::Deny, reason: format!("the extension gave no answer: {}", why.into()) }
    }
}

/// A call that can be kept: facts that own their text, for trials of a new policy and for what people were asked.
///
/// A token is not among them. It belongs to its moment, and what it let pass no policy could have stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedFacts {
    pub tool: String,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub paths: Vec<OwnedPath>,
    #[serde(default)]
    pub caller: String,
    #[serde(default)]
    pub caller_tags: Vec<String>,
    #[serde(default)]
    pub role: String,
    #[serde(default)]
    pub tier: String,
    #[serde(default)]
    pub user: String,
    #[serde(default)]
    pub zone: String,
    pub mode: Mode,
    pub run_mode: String,
    #[serde(default)]
    pub workflow_state: String,
    #[serde(default)]
    pub session_mode: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// What extensions thought at the time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub opinions: Vec<Opinion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<Box<TreeFacts>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OwnedPath {
    Inside(String),
    Outside(String),
}

impl OwnedPath {
    pub fn as_str(&self) -> &str {
        RealPath::from(self).as_str()
    }
}

impl<'a> From<&'a OwnedPath> for RealPath<'a> {
    fn from(path: &'a OwnedPath) -> Self {
        match path {
            OwnedPath::Inside(path) => RealPath::Inside(path),
            OwnedPath::Outside(path) => RealPath::Outside(path),
        }
    }
}

impl From<RealPath<'_>> for OwnedPath {
    fn from(path: RealPath<'_>) -> Self {
        match path {
            RealPath::Inside(path) => OwnedPath::Inside(path.to_owned()),
            RealPath::Outside(path) => OwnedPath::Outside(path.to_owned()),
        }
    }
}

impl From<&Facts<'_>> for OwnedFacts {
    fn from(facts: &Facts<'_>) -> Self {
        OwnedFacts {
            tool: facts.tool.to_owned(),
            read_only: facts.read_only,
            paths: facts.paths.iter().map(|path| OwnedPath::from(*path)).collect(),
            caller: facts.caller.to_owned(),
            caller_tags: facts.caller_tags.to_vec(),
            role: facts.role.to_owned(),
            tier: facts.tier.to_owned(),
            user: facts.user.to_owned(),
            zone: facts.zone.to_owned(),
            mode: facts.mode,
            run_mode: facts.run_mode.to_owned(),
            workflow_state: facts.workflow_state.to_owned(),
            session_mode: facts.session_mode.to_owned(),
            command: facts.command.map(<[String]>::to_vec),
            host: facts.host.map(str::to_owned),
            method: facts.method.map(str::to_owned),
            port: facts.port,
            size: facts.size,
            sandbox: facts.sandbox.map(str::to_owned),
            network: facts.network.map(str::to_owned),
            opinions: facts.opinions.to_vec(),
            tree: facts.tree.map(|tree| Box::new(tree.clone())),
        }
    }
}

impl OwnedFacts {
    /// A live call of nobody in particular; the caller of this fills in what it knows.
    pub fn of(tool: impl Into<String>) -> OwnedFacts {
        OwnedFacts {
            tool: tool.into(),
            read_only: false,
            paths: Vec::new(),
            caller: String::new(),
            caller_tags: Vec::new(),
            role: String::new(),
            tier: String::new(),
            user: String::new(),
            zone: String::new(),
            mode: Mode::Act,
            run_mode: "live".to_owned(),
            workflow_state: String::new(),
            session_mode: String::new(),
            command: None,
            host: None,
            method: None,
            port: None,
            size: None,
            sandbox: None,
            network: None,
            opinions: Vec::new(),
            tree: None,
        }
    }

    /// Lends them as [`Facts`], without a token.
    pub fn with<T>(&self, work: impl FnOnce(&Facts<'_>) -> T) -> T {
        self.with_token(None, work)
    }

    /// Lends them as [`Facts`] of a caller that carries this token.
    pub fn with_token<T>(&self, token: Option<&TokenFacts>, work: impl FnOnce(&Facts<'_>) -> T) -> T {
        let paths: Vec<RealPath<'_>> = self.paths.iter().map(RealPath::from).collect();
        work(&self.on(&paths, token))
    }

    /// Lends them as [`Facts`] about other paths, without a copy of anything.
    pub fn on<'a>(&'a self, paths: &'a [RealPath<'a>], token: Option<&'a TokenFacts>) -> Facts<'a> {
        Facts {
            tool: &self.tool,
            read_only: self.read_only,
            paths,
            caller: &self.caller,
            caller_tags: &self.caller_tags,
            role: &self.role,
            tier: &self.tier,
            user: &self.user,
            zone: &self.zone,
            mode: self.mode,
            run_mode: &self.run_mode,
            workflow_state: &self.workflow_state,
            session_mode: &self.session_mode,
            command: self.command.as_deref(),
            host: self.host.as_deref(),
            method: self.method.as_deref(),
            port: self.port,
            size: self.size,
            sandbox: self.sandbox.as_deref(),
            network: self.network.as_deref(),
            token,
            opinions: &self.opinions,
            tree: self.tree.as_deref(),
            of_ancestor: false,
        }
    }
}
