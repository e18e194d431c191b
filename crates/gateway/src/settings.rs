//! What the operator says about models: which providers there are, what their keys are called, and which names mean what.
//!
//! From `$SKEP_HOME/config.yml` alone; a project may only choose among what is here. A typo is an error.

use crate::dialect::Dialect;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The parts of `config.yml` that are the gateway's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub providers: BTreeMap<String, ProviderSettings>,
    pub models: Names,
    pub gateway: GatewaySettings,
}

/// Names for models: a tier or an alias, and where it leads; the second and later are for when the first is overloaded.
pub type Names = BTreeMap<String, Targets>;

/// One `provider/model`, or several in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Targets {
    One(String),
    Many(Vec<String>),
}

impl Targets {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Targets::One(one) => std::slice::from_ref(one).iter(),
            Targets::Many(many) => many.iter(),
        }
        .map(String::as_str)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// `https://api.anthropic.com`, `script:FILE` for answers from a file, or `cassette:FILE` for recorded ones.
    pub url: String,
    /// What it speaks: one dialect or several.
    pub dialect: OneOrMore<Dialect>,
    #[serde(default)]
    pub key: Option<KeySettings>,
    /// A subscription of a vendor's own client, instead of a key.
    #[serde(default)]
    pub login: Option<LoginSettings>,
    /// How the key is sent; each dialect has its own way.
    #[serde(default)]
    pub auth: Option<Auth>,
    /// Models it is asked for when nobody names the provider; globs, all without any.
    #[serde(default)]
    pub models: Vec<String>,
    /// Requests on their way at once.
    #[serde(default)]
    pub concurrency: Option<u32>,
    #[serde(default)]
    pub requests_per_minute: Option<u32>,
    /// Its tokens cost nothing: a model on this machine.
    #[serde(default)]
    pub free: bool,
    /// What its models hold, and the most one answers: for the built-in brain, which must keep within both.
    #[serde(default)]
    pub context_tokens: Option<u64>,
    #[serde(default)]
    pub output_tokens: Option<u64>,
    /// Send requests in the clear to a host that is not this machine.
    #[serde(default)]
    pub plain: bool,
    /// A cassette keeps the pauses that were recorded.
    #[serde(default)]
    pub timing: bool,
    /// Milliseconds until the head of an answer, and between two pieces of it.
    #[serde(default)]
    pub answer_ms: Option<u64>,
    #[serde(default)]
    pub idle_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMore::One(one) => std::slice::from_ref(one),
            OneOrMore::More(more) => more,
        }
    }
}

/// Where a key is found. It is named here, never written here.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum KeySettings {
    /// A variable of the kernel's environment.
    Env(String),
    /// A file of mode 0600 that holds nothing else.
    File(PathBuf),
    /// A program that prints it: `[secret-tool, lookup, service, anthropic]`, `[pass, show, openai]`, `[security, find-generic-password, …]`.
    Keyring(Vec<String>),
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginSettings {
    /// Whose login it is; nobody else's requests go through it.
    pub client: Client,
    /// Where that client keeps it.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// Where a new access token is asked for.
    #[serde(default)]
    pub token_url: Option<String>,
}

/// A vendor's own client program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Client {
    Claude,
    Codex,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Auth {
    #[serde(rename = "x-api-key")]
    ApiKey,
    #[serde(rename = "bearer")]
    Bearer,
    #[serde(rename = "x-goog-api-key")]
    Google,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GatewaySettings {
    /// May programs outside rooms get a listener on 127.0.0.1?
    pub loopback: bool,
    /// How long a request may wait for a slot, a rate limit or a person: `5m`.
    pub hold: Option<String>,
    /// Keep what was said and answered: as blobs that the record names, and of each task on a cassette.
    pub record: bool,
}
