//! What there is to set up: keys in variables and keyrings, model servers on this machine.
//!
//! Asks servers on loopback for their list of models, and nobody else for anything.

use super::FoundView;
use crate::command_error::CommandError;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wire::ErrorCode;

/// A server on this machine that lists its models answers within this.
const SERVER_TIME_MAX: Duration = Duration::from_secs(2);
/// A list of models is shorter.
const LIST_BYTES_MAX: u64 = 1024 * 1024;
/// A keyring that wants a password first has none for us.
const KEYRING_TIME_MAX: Duration = Duration::from_secs(3);
/// Entries of a password store that are looked at.
const ENTRIES_MAX: usize = 10_000;

/// Something that can be set up as a provider.
pub struct FoundProvider {
    /// The provider's name in `config.yml`.
    pub name: String,
    /// Where it was found, in words.
    pub from: String,
    pub url: String,
    /// As `config.yml` has it.
    pub dialects: &'static [&'static str],
    pub key: FoundKey,
    pub is_free: bool,
    /// For the tiers strategic, tactical and operational.
    pub models: [String; 3],
}

impl FoundProvider {
    /// Does it serve one client alone?
    pub fn is_login(&self) -> bool {
        matches!(self.key, FoundKey::Login(_))
    }

    /// Could this client ask it?
    pub fn serves(&self, client: &str) -> bool {
        match (&self.key, client) {
            (FoundKey::Login(own), _) => *own == client,
            (_, "claude") => self.dialects.contains(&"anthropic"),
            (_, "codex") => self.dialects.contains(&"responses"),
            (_, "opencode") => self.dialects.contains(&"chat"),
            (_, "gemini") => self.dialects.contains(&"gemini"),
            _ => true,
        }
    }

    /// Without its key.
    pub fn view(&self) -> FoundView {
        FoundView { provider: self.name.clone(), from: self.from.clone(), model: self.models[1].clone(), known: false }
    }
}

pub enum FoundKey {
    None,
    Variable {
        name: &'static str,
        value: SecretKey,
    },
    /// A command that prints it.
    Keyring(Vec<String>),
    /// The subscription that a vendor's own client is logged in with, by the client's name.
    Login(&'static str),
}

/// A key. It has no way into text but [`SecretKey::reveal`], which only the writer of a private file calls.
pub struct SecretKey(String);

impl SecretKey {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// A vendor whose key may be lying about.
struct Vendor {
    name: &'static str,
    variables: &'static [&'static str],
    /// Where the vendor's own clients look for another address.
    url_variable: Option<&'static str>,
    url: &'static str,
    dialects: &'static [&'static str],
    models: [&'static str; 3],
    /// How its keys begin: another word under its name in a keyring is a password of something else.
    prefix: &'static str,
}

const VENDORS: [Vendor; 4] = [
    Vendor {
        name: "anthropic",
        variables: &["ANTHROPIC_API_KEY"],
        url_variable: Some("ANTHROPIC_BASE_URL"),
        url: "https://api.anthropic.com",
        dialects: &["anthropic"],
        models: ["claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"],
        prefix: "sk-ant-",
    },
    Vendor {
        name: "openai",
        variables: &["OPENAI_API_KEY"],
        url_variable: Some("OPENAI_BASE_URL"),
        url: "https://api.openai.com",
        dialects: &["responses", "chat"],
        models: ["gpt-6-astra", "gpt-6.1-sol", "gpt-6-luna"],
        prefix: "sk-",
    },
    Vendor {
        name: "gemini",
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        url_variable: Some("GOOGLE_GEMINI_BASE_URL"),
        url: "https://generativelanguage.googleapis.com",
        dialects: &["gemini"],
        models: ["gemini-3.1-pro-preview", "gemini-3.8-flash", "gemini-3.5-flash-lite"],
        prefix: "AIza",
    },
    Vendor {
        name: "openrouter",
        variables: &["OPENROUTER_API_KEY"],
        url_variable: None,
        url: "https://openrouter.ai/api",
        dialects: &["chat"],
        models: ["openrouter/auto", "openrouter/auto", "openrouter/auto"],
        prefix: "sk-or-",
    },
];

/// A model server that people run on their own machine.
pub struct KnownServer {
    pub name: &'static str,
    pub shown: &'static str,
    pub port: u16,
}

pub const SERVERS: [KnownServer; 3] = [
    KnownServer { name: "ollama", shown: "Ollama", port: 11434 },
    KnownServer { name: "vllm", shown: "vLLM", port: 8000 },
    KnownServer { name: "lmstudio", shown: "LM Studio", port: 1234 },
];

/// The names of all variables that are looked for.
pub fn variables() -> Vec<&'static str> {
    VENDORS.iter().flat_map(|vendor| vendor.variables).copied().collect()
}

/// Everything there is, the vendors first. `urls` are servers that somebody named.
pub async fn all(urls: &[String]) -> Result<Vec<FoundProvider>, CommandError> {
    let mut found = Vec::new();
    for vendor in &VENDORS {
        match in_variables(vendor, &|name| std::env::var(name).ok()) {
            Some(there) => found.push(there),
            None => found.extend(in_keyrings(vendor).await),
        }
    }
    for server in &SERVERS {
        let url = format!("http://127.0.0.1:{}", server.port);
        found.extend(at_server(server.name, server.shown, &url, server.port).await);
    }
    for url in urls {
        let port = loopback_port(url).ok_or_else(|| {
            CommandError::new(ErrorCode::BadInput, format!("`{url}` is not a model server on this machine"))
                .why("only servers on loopback are asked")
                .fix("write it as http://127.0.0.1:PORT; other servers go into config.yml, see `skep help models`")
        })?;
        let name = format!("local-{port}");
        let there = at_server(&name, "a model server", url, port).await;
        found.push(there.ok_or_else(|| {
            CommandError::new(ErrorCode::NotFound, format!("no model server answers at `{url}`"))
                .why(format!("it lists no model at {}/v1/models", url.trim_end_matches('/')))
                .fix("start it, and load a model")
        })?);
    }
    Ok(found)
}

/// The subscriptions that clients on this machine are logged in with; of clients that are not installed, none.
pub fn logins(is_installed: impl Fn(&str) -> bool) -> Vec<FoundProvider> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    LOGINS
        .iter()
        .filter(|login| is_installed(login.client))
        .filter_map(|login| login.find(&home, &|name| std::env::var(name).ok()))
        .collect()
}

/// A vendor's client that people log in with.
struct KnownLogin {
    client: &'static str,
    /// Below the home, and where its access token stands there.
    file: &'static str,
    token: &'static str,
    url: &'static str,
    url_variable: Option<&'static str>,
    dialects: &'static [&'static str],
}

const LOGINS: [KnownLogin; 2] = [
    KnownLogin {
        client: "claude",
        file: ".claude/.credentials.json",
        token: "/claudeAiOauth/accessToken",
        url: "https://api.anthropic.com",
        url_variable: Some("ANTHROPIC_BASE_URL"),
        dialects: &["anthropic"],
    },
    KnownLogin {
        client: "codex",
        file: ".codex/auth.json",
        token: "/tokens/access_token",
        url: "https://chatgpt.com/backend-api/codex",
        url_variable: None,
        dialects: &["responses"],
    },
];

impl KnownLogin {
    /// Nothing of the file is kept but that it holds a token.
    fn find(&self, home: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Option<FoundProvider> {
        let file = home.join(self.file);
        let document: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&file).ok()?).ok()?;
        document.pointer(self.token)?.as_str().filter(|token| !token.is_empty())?;
        let url = self.url_variable.and_then(variable).filter(|url| url.starts_with("https://") || loopback_port(url).is_some());
        Some(FoundProvider {
            name: format!("{}-login", self.client),
            from: format!("the login of {} in {}", self.client, file.display()),
            url: url.unwrap_or_else(|| self.url.to_owned()),
            dialects: self.dialects,
            key: FoundKey::Login(self.client),
            is_free: false,
            models: Default::default(),
        })
    }
}

/// A vendor whose key is in a variable.
fn in_variables(vendor: &Vendor, variable: &dyn Fn(&str) -> Option<String>) -> Option<FoundProvider> {
    let value = |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    // A key of our own gateway is good in its room alone.
    let (name, key) =
        vendor.variables.iter().find_map(|name| Some((*name, value(name).filter(|key| !key.starts_with(server::OWN_KEY))?)))?;
    let (url, from) = match vendor.url_variable.and_then(|name| Some((name, value(name)?))) {
        Some((url_name, url)) if url.starts_with("https://") || loopback_port(&url).is_some() => {
            (url, format!("{name} and {url_name} in your environment"))
        }
        _ => (vendor.url.to_owned(), format!("{name} in your environment")),
    };
    Some(of_vendor(vendor, url, from, FoundKey::Variable { name, value: SecretKey(key) }))
}

fn of_vendor(vendor: &Vendor, url: String, from: String, key: FoundKey) -> FoundProvider {
    let models = vendor.models.map(str::to_owned);
    FoundProvider { name: vendor.name.to_owned(), from, url, dialects: vendor.dialects, key, is_free: false, models }
}

/// A vendor whose key is in a keyring of this system.
async fn in_keyrings(vendor: &Vendor) -> Option<FoundProvider> {
    let found = |command: Vec<String>, from: String| of_vendor(vendor, vendor.url.to_owned(), from, FoundKey::Keyring(command));
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    if std::env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some() && on_path("secret-tool").is_some() {
        let command = words(&["secret-tool", "lookup", "service", vendor.name]);
        if prints(&command).await.is_some_and(|key| key.starts_with(vendor.prefix)) {
            return Some(found(command, format!("secret-tool, service {}", vendor.name)));
        }
    }
    if cfg!(target_os = "macos") {
        // Without -w it says whether there is one, and asks nobody for a password.
        let look = words(&["security", "find-generic-password", "-s", vendor.name]);
        if prints(&look).await.is_some() {
            return Some(found([look, words(&["-w"])].concat(), format!("the keychain, service {}", vendor.name)));
        }
    }
    on_path("pass")?;
    let store = std::env::var_os("PASSWORD_STORE_DIR").map(PathBuf::from);
    let store = store.or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".password-store")))?;
    let entry = in_password_store(&store, vendor)?;
    Some(found(words(&["pass", "show", &entry]), format!("pass, entry {entry}")))
}

/// The entry of a password store that is named like a vendor's key. Nothing is decrypted: a name is all that is looked at.
fn in_password_store(store: &Path, vendor: &Vendor) -> Option<String> {
    let (mut folders, mut seen) = (vec![store.to_owned()], 0);
    let mut fits = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).ok()?.flatten() {
            seen += 1;
            if seen > ENTRIES_MAX {
                return None;
            }
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !entry.file_name().to_string_lossy().starts_with('.') {
                folders.push(path);
            } else if let Some(name) = path.strip_prefix(store).ok().and_then(|name| name.to_str()?.strip_suffix(".gpg")) {
                fits.extend(is_key_of(name, vendor).then(|| name.to_owned()));
            }
        }
    }
    fits.sort();
    fits.into_iter().next()
}

/// `anthropic-api-key`, `api/anthropic`, `anthropic/key`, `ANTHROPIC_API_KEY`; not `web/anthropic`, which is a password.
fn is_key_of(entry: &str, vendor: &Vendor) -> bool {
    let words: Vec<String> = entry.split(['/', '-', '_', '.']).map(str::to_ascii_lowercase).collect();
    let has = |word: &str| words.iter().any(|own| own == word);
    has(vendor.name) && (has("api") || has("key") || has("token"))
}

/// What a command prints, if it ends well and soon.
async fn prints(command: &[String]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let mut child = tokio::process::Command::new(program);
    child.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(KEYRING_TIME_MAX, child.output()).await.ok()?.ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// A program that this shell would find.
pub fn on_path(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH")?;
    let runs = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(runs)
}

/// The port of `http://127.0.0.1:PORT` and its kin.
fn loopback_port(url: &str) -> Option<u16> {
    let rest = url.strip_prefix("http://")?;
    let host = rest.split('/').next()?;
    let (host, port) = host.rsplit_once(':')?;
    matches!(host, "127.0.0.1" | "localhost" | "[::1]").then(|| port.parse().ok()).flatten()
}

/// A list of models, as OpenAI's API has it.
#[derive(Deserialize)]
struct ModelList {
    data: Vec<ListedModel>,
}

#[derive(Deserialize)]
struct ListedModel {
    id: String,
}

/// A server that lists a model.
async fn at_server(name: &str, shown: &str, url: &str, port: u16) -> Option<FoundProvider> {
    let listed = tokio::time::timeout(SERVER_TIME_MAX, list(port)).await.ok()??;
    // One that only turns texts into vectors answers nothing.
    let model = listed.into_iter().map(|model| model.id).find(|id| !id.contains("embed") && is_plain(id))?;
    let from = format!("{shown} at 127.0.0.1:{port}, model {model}");
    let models = [model.clone(), model.clone(), model];
    Some(FoundProvider {
        name: name.to_owned(),
        from,
        url: url.to_owned(),
        dialects: &["chat"],
        key: FoundKey::None,
        is_free: true,
        models,
    })
}

/// A name that can stand in a file and on a screen.
fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.len() <= 200 && id.bytes().all(|byte| byte.is_ascii_graphic() && !b"'\"\\`".contains(&byte))
}

async fn list(port: u16) -> Option<Vec<ListedModel>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    // An answer to 1.0 is one piece.
    let request = format!("GET /v1/models HTTP/1.0\r\nhost: 127.0.0.1:{port}\r\naccept: application/json\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(LIST_BYTES_MAX).read_to_end(&mut answer).await.ok()?;
    let text = String::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let is_ok = head.lines().next()?.split(' ').nth(1) == Some("200");
    is_ok.then(|| serde_json::from_str::<ModelList>(body).ok()).flatten().map(|list| list.data)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_with_a_key_is_a_provider() {
        let given = |given: &'static [(&'static str, &'static str)]| {
            move |name: &str| given.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned())
        };
        let found = in_variables(&VENDORS[0], &given(&[("ANTHROPIC_API_KEY", " sk-ant-1\n")])).unwrap();
        assert_eq!((found.name.as_str(), found.url.as_str()), ("anthropic", "https://api.anthropic.com"));
        assert!(matches!(&found.key, FoundKey::Variable { name: "ANTHROPIC_API_KEY", value } if value.reveal() == "sk-ant-1"));
        let other = given(&[("GOOGLE_API_KEY", "AIza1"), ("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9/x")]);
        assert_eq!(in_variables(&VENDORS[2], &other).unwrap().url, "http://127.0.0.1:9/x");
        let clear = given(&[("OPENAI_API_KEY", "sk-1"), ("OPENAI_BASE_URL", "http://elsewhere.test/v1")]);
        assert_eq!(in_variables(&VENDORS[1], &clear).unwrap().url, "https://api.openai.com", "no key goes out in the clear");
        assert!(in_variables(&VENDORS[0], &given(&[("ANTHROPIC_API_KEY", " ")])).is_none());
        assert!(in_variables(&VENDORS[1], &given(&[("OPENAI_API_KEY", "sk-skep-0123")])).is_none(), "our own gateway's");
    }

    #[test]
    fn a_login_is_found_by_its_token_and_told_without_it() {
        let home = tempfile::tempdir().unwrap();
        let found = |login: &KnownLogin| login.find(home.path(), &|_| Some("http://127.0.0.1:7".to_owned()));
        for (login, url, text) in [
            (&LOGINS[0], "http://127.0.0.1:7", r#"{"claudeAiOauth":{"accessToken":"at-1"}}"#),
            (&LOGINS[1], "https://chatgpt.com/backend-api/codex", r#"{"tokens":{"access_token":"at-1"}}"#),
        ] {
            assert!(found(login).is_none());
            let file = home.path().join(login.file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, r#"{"tokens":{"access_token":""},"claudeAiOauth":null}"#).unwrap();
            assert!(found(login).is_none(), "no token");
            std::fs::write(&file, text).unwrap();
            let there = found(login).unwrap();
            assert_eq!((there.name.as_str(), there.url.as_str()), (format!("{}-login", login.client).as_str(), url));
            assert!(there.is_login() && there.serves(login.client) && !there.serves("opencode") && !there.from.contains("at-1"));
        }
    }

    #[test]
    fn every_vendors_models_have_a_price() {
        let mut prices = gateway::price::Prices::built_in().unwrap();
        for vendor in VENDORS.iter().filter(|vendor| vendor.name != "openrouter") {
            prices.known_by(vendor.name, vendor.url.strip_prefix("https://").unwrap());
            for model in vendor.models {
                assert!(prices.price(vendor.name, model).is_some(), "{} {model}", vendor.name);
            }
        }
    }

    #[test]
    fn an_entry_of_a_password_store_is_a_key_by_its_name() {
        for (entry, is) in [
            ("anthropic-api-key", true),
            ("api/anthropic", true),
            ("work/ANTHROPIC_API_KEY", true),
            ("web/anthropic", false),
            ("api/openai", false),
        ] {
            assert_eq!(is_key_of(entry, &VENDORS[0]), is, "{entry}");
        }
        let store = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(store.path().join("api")).unwrap();
        std::fs::write(store.path().join("api/anthropic.gpg"), "").unwrap();
        assert_eq!(in_password_store(store.path(), &VENDORS[0]).as_deref(), Some("api/anthropic"));
        assert_eq!(in_password_store(store.path(), &VENDORS[1]), None);
    }

    #[test]
    fn only_loopback_counts_as_this_machine() {
        for (url, port) in [
            ("http://127.0.0.1:9000", Some(9000)),
            ("http://localhost:1/v1", Some(1)),
            ("http://[::1]:8", Some(8)),
            ("http://127.0.0.1.evil.test:9", None),
            ("http://10.0.0.1:9", None),
            ("https://127.0.0.1:9", None),
        ] {
            assert_eq!(loopback_port(url), port, "{url}");
        }
    }

    #[tokio::test]
    async fn a_server_is_asked_for_its_models() {
        for (answer, model) in [
            ("HTTP/1.0 200 OK\r\n\r\n{\"data\":[{\"id\":\"nomic-embed-text\"},{\"id\":\"qwen3:4b\"}]}", Some("qwen3:4b")),
            ("HTTP/1.0 404 no\r\n\r\n{\"data\":[{\"id\":\"m\"}]}", None),
            ("HTTP/1.0 200 OK\r\n\r\n<html>", None),
            ("HTTP/1.0 200 OK\r\n\r\n{\"data\":[{\"id\":\"bad'name\"}]}", None),
        ] {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let serving = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                let read = stream.read(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                String::from_utf8_lossy(&request[..read]).into_owned()
            });
            let found = at_server("local", "a server", &format!("http://127.0.0.1:{port}"), port).await;
            assert_eq!(found.map(|found| found.models[1].clone()).as_deref(), model);
            assert!(serving.await.unwrap().starts_with("GET /v1/models "));
        }
    }
}
