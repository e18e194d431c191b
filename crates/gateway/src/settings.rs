//! What the operator says about models: which providers there are, what their keys are called, and which names mean what.
//!
//! From `$SKEP_HOME/config.yml` alone; a project may only choose among what is here. A typo is an error.

use dialect::{Dialect, KeyHeader};
use serde::Deserialize;
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;

/// The parts of `config.yml` that are the gateway's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelSettings {
    pub providers: BTreeMap<String, ProviderSettings>,
    pub models: ModelNames,
    pub gateway: GatewaySettings,
}

/// Names for models: a tier or an alias, and where it leads; the second and later are for when the first is overloaded.
pub type ModelNames = BTreeMap<String, Targets>;

/// One `provider/model` or name, or several in the order in which they are tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets(pub Vec<String>);

impl Targets {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'de> Deserialize<'de> for Targets {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        one_or_more(from, "`provider/model`, or a list of them").map(Targets)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// `https://api.anthropic.com`, `script:FILE` for answers from a file, or `cassette:FILE` for recorded ones.
    pub url: String,
    /// What it speaks: one dialect or several. Scripts and cassettes speak all of them.
    #[serde(default)]
    pub dialect: Dialects,
    #[serde(default)]
    pub key: Option<KeySettings>,
    /// A subscription of a vendor's own client, instead of a key.
    #[serde(default)]
    pub login: Option<LoginSettings>,
    /// How the key is sent; each dialect has its own way.
    #[serde(default)]
    pub auth: Option<KeyHeader>,
    /// Models it is asked for when nobody names the provider; globs, all without any.
    #[serde(default)]
    pub models: Vec<String>,
    /// What it may run for a model by itself: `web_search`, `web_fetch`, `mcp` and so on. Nothing without it.
    #[serde(default)]
    pub runs: Runs,
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

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dialects(pub Vec<Dialect>);

impl<'de> Deserialize<'de> for Dialects {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        one_or_more(from, "anthropic, responses, chat or gemini, or a list of them").map(Dialects)
    }
}

/// Names of what a provider runs, as they are written; [`crate::Provider::new`] looks at them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs(pub Vec<String>);

impl<'de> Deserialize<'de> for Runs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        one_or_more(from, "a name such as web_search, or a list of names").map(Runs)
    }
}

/// A word or a list of words. (An untagged enum would do, but says of a typo only that nothing matched.)
fn one_or_more<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D, what: &'static str) -> Result<Vec<T>, D::Error> {
    struct Words<T>(&'static str, PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Words<T> {
        type Value = Vec<T>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
        fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
            T::deserialize(text.into_deserializer()).map(|one| vec![one])
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut all = Vec::new();
            while let Some(next) = seq.next_element()? {
                all.push(next);
            }
            Ok(all)
        }
    }
    from.deserialize_any(Words(what, PhantomData))
}

/// Where a key is found. It is named here, never written here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySettings {
    /// A variable of the kernel's environment.
    Env(String),
    /// A file of mode 0600 that holds nothing else.
    File(PathBuf),
    /// A program that prints it: `[secret-tool, lookup, service, anthropic]`, `[pass, show, openai]`, `[security, find-generic-password, …]`.
    Keyring(Vec<String>),
    /// Somebody wrote the key itself. What it is was not kept, so that no message can show it.
    Written,
}

impl<'de> Deserialize<'de> for KeySettings {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Place;
        impl<'de> Visitor<'de> for Place {
            type Value = KeySettings;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("{env: NAME}, {file: PATH} or {keyring: [PROGRAM, …]}")
            }
            fn visit_str<E: de::Error>(self, _: &str) -> Result<KeySettings, E> {
                Ok(KeySettings::Written)
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeySettings, A::Error> {
                let place = match map.next_key::<String>()?.as_deref() {
                    Some("env") => KeySettings::Env(map.next_value()?),
                    Some("file") => KeySettings::File(map.next_value()?),
                    Some("keyring") => KeySettings::Keyring(map.next_value()?),
                    Some(other) => return Err(de::Error::unknown_field(other, &["env", "file", "keyring"])),
                    None => return Err(de::Error::custom("it says nowhere: {env: NAME}, {file: PATH} or {keyring: [PROGRAM, …]}")),
                };
                match map.next_key::<String>()? {
                    Some(_) => Err(de::Error::custom("it says two places; one of `env`, `file` and `keyring`")),
                    None => Ok(place),
                }
            }
        }
        from.deserialize_any(Place)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoginSettings {
    /// Whose login it is; nobody else's requests go through it.
    pub client: VendorClient,
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
pub enum VendorClient {
    Claude,
    Codex,
}

impl VendorClient {
    pub fn name(self) -> &'static str {
        match self {
            VendorClient::Claude => "claude",
            VendorClient::Codex => "codex",
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_or_several_and_a_typo_is_told() {
        let read = |yaml: &str| yaml::from_str::<ProviderSettings>(yaml).map_err(|error| error.to_string());
        assert_eq!(read("{url: u, dialect: chat}").unwrap().dialect.0, [Dialect::Chat]);
        assert_eq!(read("{url: u, dialect: [chat, gemini]}").unwrap().dialect.0, [Dialect::Chat, Dialect::Gemini]);
        for bad in ["{url: u, dialect: claude}", "{url: u, dialect: [chat, claude]}"] {
            let said = read(bad).unwrap_err();
            assert!(said.contains("unknown variant `claude`") && said.contains("anthropic"), "{said}");
        }
        let said = read("{url: u, dialect: {a: b}}").unwrap_err();
        assert!(said.contains("anthropic, responses, chat or gemini, or a list of them"), "{said}");
        let names = |yaml: &str| yaml::from_str::<ModelNames>(yaml).map_err(|error| error.to_string());
        assert_eq!(names("{a: b/c, d: [e/f, g]}").unwrap()["d"].iter().collect::<Vec<_>>(), ["e/f", "g"]);
        let said = names("{a: {b: c}}").unwrap_err();
        assert!(said.contains("`provider/model`, or a list of them"), "{said}");
    }

    #[test]
    fn a_key_is_named_and_one_that_is_written_is_forgotten() {
        let read = |yaml: &str| yaml::from_str::<KeySettings>(yaml).map_err(|error| error.to_string());
        assert_eq!(read("{env: A}"), Ok(KeySettings::Env("A".into())));
        assert_eq!(read("{file: /a}"), Ok(KeySettings::File("/a".into())));
        assert_eq!(read("{keyring: [pass, show, x]}"), Ok(KeySettings::Keyring(vec!["pass".into(), "show".into(), "x".into()])));
        assert_eq!(read("sk-1"), Ok(KeySettings::Written));
        for (bad, why) in
            [("{}", "nowhere"), ("{env: A, file: b}", "two places"), ("{envv: A}", "unknown field `envv`"), ("[a]", "{env: NAME}")]
        {
            let said = read(bad).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
        let provider = yaml::from_str("{url: 'https://h', dialect: chat, key: sk-very-secret}").unwrap();
        let said = crate::Provider::new("p", &provider).unwrap_err();
        assert_eq!(said.to_string(), "`providers.p`: its key is written there, where everybody can read it");
        assert!(said.fix.unwrap().contains("{env: NAME}") && !format!("{provider:?}").contains("sk-very"));
    }
}
