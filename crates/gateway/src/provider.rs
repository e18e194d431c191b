//! One upstream: where it is, what it speaks, how it is told who pays, and how much it can take.

use crate::aside::aside;
use crate::cassette::CassetteUpstream;
use crate::limiter::Limiter;
use crate::login::Login;
use crate::script::ModelScript;
use crate::secret::{NoKey, Secret};
use crate::settings::{KeySettings, ProviderSettings, VendorClient};
use dialect::{Dialect, KeyHeader, ParsedRequest, provider_tools};
use globset::{Glob, GlobSet, GlobSetBuilder};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use url::{Host, Url};
use world::near::distance;

/// Vendors cut a connection that thinks for ten minutes; so do their clients.
const ANSWER: Duration = Duration::from_secs(600);
const IDLE: Duration = Duration::from_secs(300);
/// What a personal key takes at once without being told to slow down.
const CONCURRENCY: u32 = 16;
/// How long a key that a program gave is used; one that the provider refuses is asked for anew.
const KEEP: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub struct Provider {
    pub name: String,
    pub dialects: Vec<Dialect>,
    pub free: bool,
    pub context_tokens: Option<u64>,
    pub output_tokens: Option<u64>,
    pub(crate) models: Option<GlobSet>,
    /// How the names in that list begin, before anything that stands for other letters.
    beginnings: Vec<String>,
    /// What it may run by itself.
    runs: Vec<String>,
    pub(crate) transport: Transport,
    pub(crate) limiter: Limiter,
    pub(crate) answer: Duration,
    pub(crate) idle: Duration,
    credential: Credential,
    /// The credential that whoever takes secrets out of texts was told of last.
    told: Mutex<Option<Secret>>,
    key_header: Option<KeyHeader>,
}

/// How a request gets there.
#[derive(Debug)]
pub(crate) enum Transport {
    Http(Url),
    /// Answers out of a file, in this process.
    Script(ScriptFile),
    /// Recorded answers.
    Cassette(CassetteUpstream),
}

/// A script, read again when its file has changed.
#[derive(Debug)]
pub(crate) struct ScriptFile {
    file: PathBuf,
    read: Mutex<Option<(std::time::SystemTime, Arc<ModelScript>)>>,
}

impl ScriptFile {
    pub fn script(&self) -> Result<Arc<ModelScript>, String> {
        aside(|| self.read_if_changed())
    }

    fn read_if_changed(&self) -> Result<Arc<ModelScript>, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("the script `{}` cannot be played: {error}", self.file.display());
        let changed = std::fs::metadata(&self.file).and_then(|meta| meta.modified()).map_err(|error| wrong(&error))?;
        let mut read = self.read.lock();
        if let Some((at, script)) = &*read
            && *at == changed
        {
            return Ok(script.clone());
        }
        let text = std::fs::read_to_string(&self.file).map_err(|error| wrong(&error))?;
        let script = Arc::new(ModelScript::parse(&text).map_err(|error| wrong(&error))?);
        *read = Some((changed, script.clone()));
        Ok(script)
    }
}

impl Provider {
    /// Can it answer at all? A script that does not parse never will.
    pub fn check(&self) -> Result<(), String> {
        match &self.transport {
            Transport::Script(file) => file.script().map(drop),
            Transport::Http(_) | Transport::Cassette(_) => Ok(()),
        }
    }
}

impl Provider {
    /// Does its `models` name this one? `None` where it has no such list, and nobody knows.
    pub fn lists(&self, model: &str) -> Option<bool> {
        self.models.as_ref().map(|globs| globs.is_match(model))
    }

    /// Could it have a model whose name begins with this?
    pub fn may_have(&self, beginning: &str) -> bool {
        let is_alike = |listed: &String| listed.starts_with(beginning) || beginning.starts_with(listed.as_str());
        self.models.is_none() || self.beginnings.iter().any(is_alike)
    }
}

/// Where a provider's key is, and whether it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It needs none.
    Unneeded,
    /// `in the file …`, `in the variable …`, `printed by …`.
    Found(String),
    Missing(NoKey),
}

impl Provider {
    /// What `key` or `login` names, in words.
    pub fn key_place(&self) -> Option<String> {
        match &self.credential {
            Credential::None => None,
            Credential::Key(key, _) => Some(key.place()),
            Credential::Login(login) => Some(format!("the login of {}", login.client().name())),
        }
    }

    /// Why it surely has no key, as far as that shows without running a program.
    pub fn missing_key(&self) -> Option<NoKey> {
        match &self.credential {
            Credential::Key(key, _) => key.missing(),
            Credential::Login(login) => login.missing(),
            Credential::None => None,
        }
    }

    /// Looks for its key where it is kept; a keyring's program is run for it.
    pub async fn find_key(&self) -> KeyState {
        match (&self.credential, self.key_place()) {
            (Credential::Key(key, _), Some(place)) => match key.read().await {
                Ok(_) => KeyState::Found(place),
                Err(none) => KeyState::Missing(none),
            },
            (Credential::Login(login), Some(place)) => login.missing().map_or(KeyState::Found(place), KeyState::Missing),
            _ => KeyState::Unneeded,
        }
    }

    /// Host and port that it is asked at; `None` for a script and a cassette.
    pub fn address(&self) -> Option<(String, u16)> {
        match &self.transport {
            Transport::Http(url) => Some((url.host_str()?.trim_matches(['[', ']']).to_owned(), url.port_or_known_default()?)),
            Transport::Script(_) | Transport::Cassette(_) => None,
        }
    }
}

#[derive(Debug)]
enum Credential {
    None,
    Key(KeySettings, Kept),
    Login(Login),
}

/// A key that a program gave, so that it is not run for every request.
type Kept = tokio::sync::Mutex<Option<(Instant, Secret)>>;

/// Settings that cannot be used as written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{place}`: {why}")]
pub struct BadSettings {
    /// Where in the file: `providers.openai`, `models.tactical`.
    pub place: String,
    pub why: String,
    pub fix: Option<String>,
}

impl Provider {
    pub fn new(name: &str, settings: &ProviderSettings) -> Result<Provider, BadSettings> {
        let bad = |why: String| BadSettings { place: format!("providers.{name}"), why, fix: None };
        if name.is_empty() || name.contains(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)) {
            return Err(bad("a name is made of letters, digits, `-`, `_` and `.`".into()));
        }
        if settings.key == Some(KeySettings::Written) {
            let fix = "name where it is kept: `key: {env: NAME}`, `{file: PATH}` of mode 0600 or `{keyring: [PROGRAM, …]}`".to_owned();
            return Err(BadSettings { fix: Some(fix), ..bad("its key is written there, where everybody can read it".into()) });
        }
        let transport = transport(settings).map_err(bad)?;
        let dialects = match (&transport, settings.dialect.0.is_empty()) {
            (_, false) => settings.dialect.0.clone(),
            (Transport::Script(_) | Transport::Cassette(_), true) => Dialect::ALL.to_vec(),
            (Transport::Http(_), true) => {
                let fix = "say what it speaks: `dialect: anthropic`, `responses`, `chat` or `gemini`, or a list of them".to_owned();
                return Err(BadSettings { fix: Some(fix), ..bad("it speaks no dialect".into()) });
            }
        };
        let credential = match (&settings.key, &settings.login) {
            (Some(_), Some(_)) => return Err(bad("`key` and `login` are mutually exclusive".into())),
            (Some(key), None) => Credential::Key(key.clone(), Kept::default()),
            (None, Some(login)) => Credential::Login(Login::new(login)),
            (None, None) => Credential::None,
        };
        let mut globs = GlobSetBuilder::new();
        for glob in &settings.models {
            globs.add(Glob::new(glob).map_err(|error| bad(format!("models: {error}")))?);
        }
        let models = globs.build().map_err(|error| bad(format!("models: {error}")))?;
        let concurrency = settings.concurrency.unwrap_or(CONCURRENCY);
        if concurrency == 0 || settings.requests_per_minute == Some(0) {
            return Err(bad("a limit of 0 lets nothing through".into()));
        }
        let ms = |ms: Option<u64>, default| ms.map_or(default, Duration::from_millis);
        Ok(Provider {
            name: name.to_owned(),
            dialects,
            context_tokens: settings.context_tokens,
            output_tokens: settings.output_tokens,
            free: settings.free || matches!(transport, Transport::Script(_) | Transport::Cassette(_)),
            models: (!settings.models.is_empty()).then_some(models),
            beginnings: settings
                .models
                .iter()
                .map(|glob| glob.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default().to_owned())
                .collect(),
            runs: runs(settings).map_err(|(why, fix)| BadSettings { fix: Some(fix), ..bad(why) })?,
            limiter: Limiter::new(concurrency, settings.requests_per_minute),
            answer: ms(settings.answer_ms, ANSWER),
            idle: ms(settings.idle_ms, IDLE),
            transport,
            credential,
            told: Mutex::new(None),
            key_header: settings.auth,
        })
    }

    /// A recording in place of every provider, for a process that is replayed.
    pub fn cassette(file: &std::path::Path, timing: bool) -> Provider {
        Provider {
            name: "cassette".to_owned(),
            dialects: Dialect::ALL.to_vec(),
            context_tokens: None,
            output_tokens: None,
            free: true,
            models: None,
            beginnings: Vec::new(),
            runs: Vec::new(),
            transport: Transport::Cassette(CassetteUpstream::new(file.to_owned(), timing)),
            limiter: Limiter::new(CONCURRENCY, None),
            answer: ANSWER,
            idle: IDLE,
            credential: Credential::None,
            told: Mutex::new(None),
            key_header: None,
        }
    }

    /// Do both pay with the same key, or ask the same server without one? Then one limit holds for them together.
    pub(crate) fn shares_key(&self, other: &Provider) -> bool {
        match (&self.credential, &other.credential) {
            (Credential::Key(one, _), Credential::Key(another, _)) if one == another => true,
            (Credential::Login(one), Credential::Login(another)) => one.is(another),
            (Credential::None, Credential::None) => match (&self.transport, &other.transport) {
                (Transport::Http(one), Transport::Http(another)) => one.origin() == another.origin(),
                _ => false,
            },
            // The same key may be written down in two places.
            (Credential::Key(..), Credential::Key(..)) => self.at_hand().iter().any(|secret| other.at_hand().contains(secret)),
            _ => false,
        }
    }

    /// Takes its slots from the same limiter as another does.
    pub(crate) fn share_limits(&mut self, other: &Provider) {
        let (at_once, per_minute) = self.limiter.limits();
        other.limiter.narrow(at_once, per_minute);
        self.limiter = other.limiter.clone();
    }

    /// What it would run for a request for this model, and may not. A script and a recording run nothing.
    pub(crate) fn may_not_run(&self, request: &ParsedRequest, model: &str) -> Vec<String> {
        if !matches!(self.transport, Transport::Http(_)) {
            return Vec::new();
        }
        let mut asked = request.provider_tools.clone();
        asked.extend(provider_tools::of_model(model).map(str::to_owned));
        asked.into_iter().filter(|name| !self.runs.contains(name)).collect()
    }

    /// The host whose bill it is; empty for a script and a cassette.
    pub fn host(&self) -> &str {
        match &self.transport {
            Transport::Http(url) => url.host_str().unwrap_or_default(),
            Transport::Script(_) | Transport::Cassette(_) => "",
        }
    }

    /// Requests on their way and in line, for whoever looks.
    pub fn load(&self) -> (u32, usize) {
        self.limiter.load()
    }

    /// Whose requests it takes, where not everybody's.
    pub fn only_for(&self) -> Option<VendorClient> {
        match &self.credential {
            Credential::Login(login) => Some(login.client()),
            Credential::None | Credential::Key(..) => None,
        }
    }

    /// The url of a request whose client asked for `path`, query included.
    pub(crate) fn url(&self, path: &str) -> Option<Url> {
        let Transport::Http(base) = &self.transport else { return None };
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        // A subscription of codex is served beside the public interface, without its version.
        let is_codex_login = self.only_for() == Some(VendorClient::Codex);
        let path = path.strip_prefix("/v1").filter(|rest| is_codex_login && rest.starts_with('/')).unwrap_or(path);
        let mut url = base.clone();
        let above = base.path().trim_end_matches('/');
        // `https://host/v1` and `/v1/chat/completions` share a part.
        let version = above.rsplit('/').next().filter(|part| !part.is_empty());
        let rest = version.and_then(|part| path.strip_prefix('/')?.strip_prefix(part)).filter(|rest| rest.starts_with('/'));
        url.set_path(&format!("{above}{}", rest.unwrap_or(path)));
        let query = query.map(passing).filter(|query| !query.is_empty());
        url.set_query(query.as_deref());
        Some(url)
    }

    /// The secrets that can be had without asking anybody, for whoever takes them out of texts.
    pub(crate) fn at_hand(&self) -> Vec<Secret> {
        match &self.credential {
            Credential::None => Vec::new(),
            Credential::Key(key, _) => key.at_hand().into_iter().collect(),
            Credential::Login(login) => login.at_hand(),
        }
    }

    /// What is to be told before this credential is used, where that is news.
    pub(crate) fn new_secrets(&self, secret: &Secret) -> Vec<Secret> {
        let mut told = self.told.lock();
        if told.as_ref() == Some(secret) {
            return Vec::new();
        }
        *told = Some(secret.clone());
        self.at_hand().into_iter().chain([secret.clone()]).collect()
    }

    /// What the provider is to know us by. `exchange` fetches a new access token where a login needs one.
    pub(crate) async fn credential(&self, http: &crate::upstream::Upstream) -> Result<Option<Secret>, NoKey> {
        match &self.credential {
            Credential::None => Ok(None),
            Credential::Key(key @ KeySettings::Keyring(_), kept) => {
                let mut kept = kept.lock().await;
                if let Some((at, secret)) = &*kept
                    && at.elapsed() < KEEP
                {
                    return Ok(Some(secret.clone()));
                }
                let secret = key.read().await?;
                *kept = Some((Instant::now(), secret.clone()));
                Ok(Some(secret))
            }
            Credential::Key(key, _) => key.read().await.map(Some),
            Credential::Login(login) => login.token(http).await.map(Some),
        }
    }

    /// The provider does not take this key: the next request fetches it anew.
    pub(crate) async fn forget(&self) {
        if let Credential::Key(_, kept) = &self.credential {
            *kept.lock().await = None;
        }
    }

    /// Puts the credential in, in the way that this provider wants it.
    pub(crate) fn sign(&self, dialect: Dialect, secret: &Secret, headers: &mut HeaderMap) -> Result<(), NoKey> {
        let header = match &self.credential {
            Credential::Login(_) => KeyHeader::Bearer,
            Credential::None | Credential::Key(..) => self.key_header.unwrap_or(dialect.key_header()),
        };
        let (name, text) = match header {
            KeyHeader::ApiKey => (HeaderName::from_static("x-api-key"), secret.reveal().to_owned()),
            KeyHeader::Google => (HeaderName::from_static("x-goog-api-key"), secret.reveal().to_owned()),
            KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", secret.reveal())),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| NoKey {
            what: format!("the key of `{}` has characters that no header can carry", self.name),
            fix: "look for a line break or a quote in it".into(),
        })?;
        value.set_sensitive(true);
        headers.insert(name, value);
        if let Credential::Login(login) = &self.credential {
            login.adorn(headers);
        }
        Ok(())
    }
}

/// The names that may be run. One that nobody here knows is a tool's own, as a vendor may have brought it out yesterday.
fn runs(settings: &ProviderSettings) -> Result<Vec<String>, (String, String)> {
    let names = &settings.runs.0;
    for name in names.iter().filter(|name| !provider_tools::KNOWN.contains(&name.as_str())) {
        let known = format!("there are {}, and names of tools as their vendor has them", provider_tools::KNOWN.join(", "));
        if name.is_empty() || name.contains(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && !"_-.:$".contains(c)) {
            return Err((format!("`runs`: `{}` is no name of what a provider runs", name.escape_debug()), known));
        }
        let near = |known: &&&str| if name.starts_with(&format!("{known}_")) { 0 } else { distance(name, known) };
        if let Some(near) = provider_tools::KNOWN.iter().min_by_key(near).filter(|known| near(known) <= 2) {
            return Err((format!("`runs`: there is no `{name}`"), format!("did you mean `{near}`? {known}")));
        }
    }
    Ok(names.clone())
}

fn transport(settings: &ProviderSettings) -> Result<Transport, String> {
    if let Some(file) = settings.url.strip_prefix("script:") {
        return Ok(Transport::Script(ScriptFile { file: PathBuf::from(file), read: Mutex::new(None) }));
    }
    if let Some(file) = settings.url.strip_prefix("cassette:") {
        return Ok(Transport::Cassette(CassetteUpstream::new(PathBuf::from(file), settings.timing)));
    }
    let url = Url::parse(&settings.url).map_err(|error| format!("`{}` is no url: {error}", settings.url))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the url holds a password; use `key`".into());
    }
    match (url.scheme(), url.host()) {
        ("https", Some(_)) => Ok(Transport::Http(url)),
        ("http", Some(host)) if settings.plain || is_here(&host) => Ok(Transport::Http(url)),
        ("http", Some(_)) => Err("`http://` would send requests unencrypted; use https, or say `plain: true`".into()),
        _ => Err(format!("`{}` is neither http nor https", settings.url)),
    }
}

/// Is it this machine?
fn is_here(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(ip) => IpAddr::from(*ip).is_loopback(),
        Host::Ipv6(ip) => IpAddr::from(*ip).is_loopback(),
    }
}

/// What crosses of a query, as of headers: by a list. Keys stay here, in every spelling, and nobody leaves the usage out of an answer.
fn passing(query: &str) -> String {
    let passes = |pair: &&str| matches!(*pair, "alt=sse" | "alt=json" | "beta=true") || pair.starts_with("api-version=");
    query.split('&').filter(passes).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests;
