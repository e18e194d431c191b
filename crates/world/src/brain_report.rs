//! What is known of a brain before it works: how it runs, who pays for it, its version, and what keeps it from working.

use crate::Remedy;
use serde::{Deserialize, Serialize};

/// A brain, as `brain.list` tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrainReport {
    /// As a task names it.
    pub name: String,
    /// What the name stands for, where it is an alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias_of: Option<String>,
    pub mode: BrainMode,
    pub auth: BrainAuth,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The program, where it is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// What its models come through: providers of `config.yml`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<String>,
    pub capabilities: Vec<Capability>,
    /// Does a task have it that names none?
    pub is_default: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<BrainProblem>,
}

impl BrainReport {
    /// Can it work on tasks? A version that nobody tried is no hindrance.
    pub fn is_ready(&self) -> bool {
        self.problem.as_ref().is_none_or(|problem| problem.code == PreflightCode::VersionMismatch)
    }

    /// `ready`, or the code of its problem.
    pub fn state(&self) -> &'static str {
        self.problem.as_ref().map_or("ready", |problem| problem.code.as_str())
    }
}

/// How a brain is implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrainMode {
    /// A program of its own.
    Cli,
    /// Inside the kernel's process, by a model's interface.
    Sdk,
    Hybrid,
}

impl BrainMode {
    pub fn as_str(self) -> &'static str {
        match self {
            BrainMode::Cli => "cli",
            BrainMode::Sdk => "sdk",
            BrainMode::Hybrid => "hybrid",
        }
    }
}

/// Who pays for a brain's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BrainAuth {
    /// The subscription that its own client is logged in with.
    CliLogin,
    ApiKey,
    /// A login at a vendor that the gateway cannot use.
    Oauth,
    /// Nobody has to.
    None,
}

impl BrainAuth {
    pub fn as_str(self) -> &'static str {
        match self {
            BrainAuth::CliLogin => "cli-login",
            BrainAuth::ApiKey => "api-key",
            BrainAuth::Oauth => "oauth",
            BrainAuth::None => "none",
        }
    }
}

/// What a brain can do beyond a single turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Goes on with an earlier conversation.
    Resume,
    /// Asks before each of its tools.
    Gate,
    /// Can be run again on its recorded traffic.
    Replay,
}

impl Capability {
    pub fn as_str(self) -> &'static str {
        match self {
            Capability::Resume => "resume",
            Capability::Gate => "gate",
            Capability::Replay => "replay",
        }
    }
}

/// What keeps a brain from working, and the exact way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrainProblem {
    pub code: PreflightCode,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Remedy>,
}

/// The kinds of problems, by the names of khlone's preflight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PreflightCode {
    NotInstalled,
    NotAuthenticated,
    /// A warning: the version is outside the range that was tried.
    VersionMismatch,
    Unknown,
}

impl PreflightCode {
    pub fn as_str(self) -> &'static str {
        match self {
            PreflightCode::NotInstalled => "NOT_INSTALLED",
            PreflightCode::NotAuthenticated => "NOT_AUTHENTICATED",
            PreflightCode::VersionMismatch => "VERSION_MISMATCH",
            PreflightCode::Unknown => "UNKNOWN",
        }
    }
}
