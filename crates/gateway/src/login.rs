//! A subscription of a vendor's own client: its access token, put in here and refreshed outside any room.
//!
//! The file is the client's own; we read it, and write it back only after a refresh, because a refresh token is good for one use.
//! **Invariant.** A token goes into requests of that vendor's client alone; [`crate::Provider::only_for`] says whose that is.

use crate::aside::aside;
use crate::secret::{NoKey, Secret, private_file};
use crate::settings::{LoginSettings, VendorClient};
use crate::upstream::Upstream;
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A token that ends within this time is refreshed first.
const FRESH_MS: i64 = 5 * 60 * 1_000;

/// Public names under which the vendors' own clients ask for tokens.
const CLAUDE_ID: &str = "9d1c250a-e61b-44d9-88ed-5944d1962f5e";
const CODEX_ID: &str = "app_EMoamEEZ73f0CkXaXp7hrann";
/// What Anthropic wants beside an access token instead of a key.
const CLAUDE_BETA: &str = "oauth-2025-04-20";

#[derive(Debug)]
pub(crate) struct Login {
    client: VendorClient,
    file: PathBuf,
    token_url: String,
    /// One refresh at a time; and the account that codex names in each request.
    account: tokio::sync::Mutex<()>,
    account_id: parking_lot::Mutex<Option<String>>,
}

impl Login {
    pub fn new(settings: &LoginSettings) -> Login {
        let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        let (file, url) = match settings.client {
            VendorClient::Claude => (".claude/.credentials.json", "https://console.anthropic.com/v1/oauth/token"),
            VendorClient::Codex => (".codex/auth.json", "https://auth.openai.com/oauth/token"),
        };
        Login {
            client: settings.client,
            file: settings.file.clone().unwrap_or_else(|| home.join(file)),
            token_url: settings.token_url.clone().unwrap_or_else(|| url.to_owned()),
            account: tokio::sync::Mutex::new(()),
            account_id: parking_lot::Mutex::new(None),
        }
    }

    pub fn client(&self) -> VendorClient {
        self.client
    }

    /// Is it the same login?
    pub fn is(&self, other: &Login) -> bool {
        self.file == other.file
    }

    /// The tokens that the file holds now.
    pub fn at_hand(&self) -> Vec<Secret> {
        let Ok(document) = self.read() else { return Vec::new() };
        ["access", "refresh"].iter().filter_map(|role| self.part(&document, role).as_str().map(Secret::new)).collect()
    }

    /// Why it surely cannot be used, as far as its file shows.
    pub fn missing(&self) -> Option<NoKey> {
        match self.read() {
            Ok(document) if self.part(&document, "access").is_string() => None,
            Ok(_) => Some(self.none("it holds no access token")),
            Err(none) => Some(none),
        }
    }

    /// A token that is good for a while.
    pub async fn token(&self, http: &Upstream) -> Result<Secret, NoKey> {
        let _one = self.account.lock().await;
        let mut document = self.read()?;
        let now_ms = jiff::Timestamp::now().as_millisecond();
        if self.ends_ms(&document).is_some_and(|ends_ms| ends_ms - FRESH_MS <= now_ms) {
            self.refresh(http, &mut document, now_ms).await?;
        }
        *self.account_id.lock() = document["tokens"]["account_id"].as_str().map(str::to_owned);
        let token = self.part(&document, "access").as_str().map(Secret::new);
        token.ok_or_else(|| self.none("it holds no access token"))
    }

    /// Headers that the vendor wants beside the token.
    pub fn adorn(&self, headers: &mut HeaderMap) {
        match self.client {
            VendorClient::Claude => {
                let name = HeaderName::from_static("anthropic-beta");
                let given = headers.get(&name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
                if !given.split(',').any(|beta| beta.trim() == CLAUDE_BETA) {
                    let all = if given.is_empty() { CLAUDE_BETA.to_owned() } else { format!("{given},{CLAUDE_BETA}") };
                    headers.extend(HeaderValue::from_str(&all).ok().map(|value| (name.clone(), value)));
                }
            }
            VendorClient::Codex => {
                let account = self.account_id.lock().clone().and_then(|id| HeaderValue::from_str(&id).ok());
                headers.extend(account.map(|id| (HeaderName::from_static("chatgpt-account-id"), id)));
            }
        }
    }

    fn read(&self) -> Result<Value, NoKey> {
        let text = aside(|| private_file(&self.file)).map_err(|error| self.none(&error.what))?;
        serde_json::from_str(&text).map_err(|error| self.none(&format!("it is not JSON: {error}")))
    }

    /// A part of the login by its role, where that client keeps it.
    fn part<'a>(&self, document: &'a Value, role: &str) -> &'a Value {
        match self.client {
            VendorClient::Claude => &document["claudeAiOauth"][if role == "access" { "accessToken" } else { "refreshToken" }],
            VendorClient::Codex => &document["tokens"][if role == "access" { "access_token" } else { "refresh_token" }],
        }
    }

    /// When the access token ends: as the file says, or as the token itself does.
    fn ends_ms(&self, document: &Value) -> Option<i64> {
        match self.client {
            VendorClient::Claude => document["claudeAiOauth"]["expiresAt"].as_i64(),
            VendorClient::Codex => self.part(document, "access").as_str().and_then(expiry_ms),
        }
    }

    async fn refresh(&self, http: &Upstream, document: &mut Value, now_ms: i64) -> Result<(), NoKey> {
        let refresh = self.part(document, "refresh").as_str().ok_or_else(|| self.none("its token has run out and it holds no other"))?;
        let id = match self.client {
            VendorClient::Claude => CLAUDE_ID,
            VendorClient::Codex => CODEX_ID,
        };
        let ask = json!({"grant_type": "refresh_token", "refresh_token": refresh, "client_id": id});
        let answer =
            http.post_json(&self.token_url, &ask).await.map_err(|why| self.none(&format!("its token cannot be renewed: {why}")))?;
        let text = |key: &str| answer[key].as_str().map(str::to_owned);
        let access = text("access_token").ok_or_else(|| self.none("its token cannot be renewed: the answer holds none"))?;
        match self.client {
            VendorClient::Claude => {
                let login = &mut document["claudeAiOauth"];
                login["accessToken"] = access.into();
                if let Some(refresh) = text("refresh_token") {
                    login["refreshToken"] = refresh.into();
                }
                login["expiresAt"] = (now_ms + answer["expires_in"].as_i64().unwrap_or(3_600) * 1_000).into();
            }
            VendorClient::Codex => {
                document["tokens"]["access_token"] = access.into();
                for key in ["refresh_token", "id_token"] {
                    if let Some(token) = text(key) {
                        document["tokens"][key] = token.into();
                    }
                }
                document["last_refresh"] = jiff::Timestamp::now().to_string().into();
            }
        }
        aside(|| write_private(&self.file, document)).map_err(|error| self.none(&format!("the renewed token cannot be kept: {error}")))
    }

    fn none(&self, why: &str) -> NoKey {
        let (name, fix) = match self.client {
            VendorClient::Claude => ("claude", "run `claude` outside any sandbox and log in with /login"),
            VendorClient::Codex => ("codex", "run `codex login` outside any sandbox"),
        };
        NoKey { what: format!("the login of {name} cannot be used: {why}"), fix: fix.into() }
    }
}

/// A login is replaced whole or not at all.
fn write_private(path: &Path, document: &Value) -> std::io::Result<()> {
    let new = path.with_extension("skep-new");
    let mut file = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(document.to_string().as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

/// The `exp` of a JSON web token. Its signature is the vendor's business: the worst a forged one gets is an early refresh.
fn expiry_ms(token: &str) -> Option<i64> {
    let body = token.split('.').nth(1)?;
    let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
    claims["exp"].as_i64()?.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_when_it_ends() {
        // {"exp":1700000000}
        assert_eq!(expiry_ms("h.eyJleHAiOjE3MDAwMDAwMDB9.s"), Some(1_700_000_000_000));
        assert_eq!(expiry_ms("opaque"), None);
        assert_eq!(expiry_ms("a.!!.c"), None);
    }
}
