//! Where settings come from, and which of several values counts.
//!
//! **Invariant.** No value that may be a secret leaves this file: such a setting has a value that is not shown.

use crate::command_error::CommandError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use wire::ErrorCode;

/// Variables that are settings, and their keys. Of two for one key the first counts.
const VARIABLES: &[(&str, &str)] = &[
    ("SKEP_HOME", "home"),
    ("SKEP_BRAIN", "brain"),
    ("SKEP_MODEL", "model"),
    ("SKEP_DISCIPLINE", "discipline"),
    ("SKEP_PAGER", "pager"),
    ("PAGER", "pager"),
];

/// What counts where nobody says anything.
const BUILT_IN: &[(&str, &str)] = &[
    ("home", "~/.skep"),
    ("color", "auto"),
    ("pager", "less"),
    ("brain", "the only client that is ready"),
    ("model", "the only tier that is set up"),
    ("discipline", "none"),
    ("review.deadline", "none"),
    ("brain_idle", "30m"),
    ("brain_patience", "15m"),
    ("gateway.loopback", "false"),
    ("gateway.record", "false"),
    ("test.command", "none"),
    ("merge.safe", "[]"),
    ("limits.calls", "none"),
    ("zone.limits.maxQueueDepth", "100"),
    ("zone.limits.maxClonesPerZone", "10"),
    ("zone.limits.taskTimeoutMs", "none"),
    ("mask", "[.env*, *.pem, *.key, .npmrc, .netrc]"),
];

/// What the operator fixes for every project.
const HOME_FIRST: &[&str] = &["runtime"];
/// Below these stands what is given to programs, and nobody knows what that is.
const HIDDEN_BELOW: &[&str] = &["environment", "sandbox.environment", "secrets"];
/// Names of what is a secret itself. One below `key` that says where the secret is (`env`, `file`, `command`) is none.
const HIDDEN_NAMES: &[&str] = &["key", "password", "secret", "token", "passphrase", "credential"];

/// Where a value stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingOrigin {
    /// `flag`, `environment`, `project`, `home` or `built-in`.
    pub layer: &'static str,
    /// The flag, the variable, or the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
}

/// A value; `None` where it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingValue {
    pub value: Option<String>,
    pub origin: SettingOrigin,
}

/// A setting with the value that counts, and those that do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub key: String,
    #[serde(flatten)]
    pub counts: SettingValue,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overridden: Vec<SettingValue>,
}

impl Setting {
    pub fn is_of_project(&self) -> bool {
        self.counts.origin.layer == "project"
    }
}

/// All values, those that count first.
#[derive(Default)]
pub struct SettingLayers(BTreeMap<String, Vec<SettingValue>>);

impl SettingLayers {
    pub fn read<const N: usize>(
        flags: [(&str, Option<String>); N],
        home: &Path,
        project: Option<&Path>,
    ) -> Result<SettingLayers, CommandError> {
        let mut layers = SettingLayers::default();
        for (key, value) in flags {
            let origin = SettingOrigin { layer: "flag", name: Some(format!("--{key}")), line: None };
            value.into_iter().for_each(|value| layers.add(key, value, origin.clone()));
        }
        layers.add_environment(|name| std::env::var(name).ok());
        if let Some(project) = project {
            layers.add_file("project", &project.join("skep.yml"))?;
        }
        layers.add_file("home", &home.join("config.yml"))?;
        for (key, value) in BUILT_IN {
            layers.add(key, (*value).to_owned(), SettingOrigin { layer: "built-in", name: None, line: None });
        }
        Ok(layers)
    }

    pub fn settings(self) -> Vec<Setting> {
        let made = self.0.into_iter().filter_map(|(key, mut values)| {
            if HOME_FIRST.contains(&key.as_str()) {
                values.sort_by_key(|value| value.origin.layer != "home");
            }
            let mut values = values.into_iter();
            Some(Setting { counts: values.next()?, overridden: values.collect(), key })
        });
        made.collect()
    }

    fn add(&mut self, key: &str, value: String, origin: SettingOrigin) {
        let value = if is_hidden(key, &value) { None } else { Some(value) };
        self.0.entry(key.to_owned()).or_default().push(SettingValue { value, origin });
    }

    fn add_environment(&mut self, variable: impl Fn(&str) -> Option<String>) {
        let origin = |name: &str| SettingOrigin { layer: "environment", name: Some(name.to_owned()), line: None };
        for (name, key) in VARIABLES {
            if let Some(value) = variable(name).filter(|value| !value.is_empty()) {
                self.add(key, value, origin(name));
            }
        }
        if variable("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            self.add("color", "never".to_owned(), origin("NO_COLOR"));
        }
    }

    fn add_file(&mut self, layer: &'static str, path: &Path) -> Result<(), CommandError> {
        let failed = |why: String| {
            CommandError::new(ErrorCode::BadConfig, format!("cannot read `{}`", path.display())).why(why).fix("mend this file")
        };
        let text = match yaml::read_file(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed(error.to_string())),
        };
        for found in yaml::flatten(&text).map_err(|error| failed(error.to_string()))? {
            let origin = SettingOrigin { layer, name: Some(path.display().to_string()), line: Some(found.at.line()) };
            self.add(&found.key, found.value, origin);
        }
        Ok(())
    }
}

/// A setting of the environment, for commands whose flag was not given.
pub fn from_environment(key: &str) -> Option<String> {
    let named = VARIABLES.iter().filter(|(_, known)| *known == key);
    named.filter_map(|(name, _)| std::env::var(name).ok()).find(|value| !value.is_empty())
}

fn is_hidden(key: &str, value: &str) -> bool {
    let is_below = |parent: &&str| key.strip_prefix(*parent).is_some_and(|rest| rest.starts_with('.'));
    let last = key.rsplit('.').next().unwrap_or(key).to_lowercase();
    let has_login = value.split_once("://").is_some_and(|(_, rest)| rest.split('/').next().is_some_and(|host| host.contains('@')));
    HIDDEN_BELOW.iter().any(is_below)
        || HIDDEN_NAMES.iter().any(|name| last == *name || last.ends_with(&format!("_{name}")))
        || has_login
        || server::looks_secret(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(project: &str, home: &str, variables: &[(&str, &str)]) -> Result<Vec<Setting>, CommandError> {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("skep.yml"), project).unwrap();
        std::fs::write(temp.path().join("config.yml"), home).unwrap();
        let mut layers = SettingLayers::default();
        layers.add_environment(|wanted| variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned()));
        layers.add_file("project", &temp.path().join("skep.yml"))?;
        layers.add_file("home", &temp.path().join("config.yml"))?;
        layers.add("brain", "built".into(), SettingOrigin { layer: "built-in", name: None, line: None });
        Ok(layers.settings())
    }

    fn told(settings: &[Setting], key: &str) -> (Option<String>, &'static str, Option<u64>, usize) {
        let setting = settings.iter().find(|setting| setting.key == key).unwrap();
        (setting.counts.value.clone(), setting.counts.origin.layer, setting.counts.origin.line, setting.overridden.len())
    }

    #[test]
    fn the_first_layer_that_says_something_counts() {
        let said = |settings: &[Setting]| told(settings, "brain");
        let value = |text: &str| Some(text.to_owned());
        let all = layers("brain: p\n", "# mine\nbrain: h\n", &[("SKEP_BRAIN", "e")]).unwrap();
        assert_eq!(said(&all), (value("e"), "environment", None, 3));
        let all = layers("brain: p\n", "# mine\nbrain: h\n", &[("SKEP_BRAIN", "")]).unwrap();
        assert_eq!(said(&all), (value("p"), "project", Some(1), 2));
        let all = layers("", "# mine\nbrain: h\n", &[]).unwrap();
        assert_eq!(said(&all), (value("h"), "home", Some(2), 1));
        let all = layers("", "", &[]).unwrap();
        assert_eq!(said(&all), (value("built"), "built-in", None, 0));
        // What rooms are made by is the operator's.
        let all = layers("runtime: local\n", "runtime: podman\n", &[]).unwrap();
        assert_eq!(told(&all, "runtime"), (value("podman"), "home", Some(1), 1));
        assert_eq!(layers("a: [", "", &[]).unwrap_err().code, ErrorCode::BadConfig);
    }

    #[test]
    fn secrets_have_no_value() {
        let home = "environment: { HARMLESS: hello }\nproviders:\n  a: { url: 'https://me:pw@x.y', key: { env: OPENAI_API_KEY } }\n  b: { url: 'https://x.y', \
                    key: abc }\nservices: { db: { password: p, note: sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789 } }\n";
        let all = layers("", home, &[]).unwrap();
        for hidden in ["environment.HARMLESS", "providers.a.url", "providers.b.key", "services.db.password", "services.db.note"] {
            assert_eq!(told(&all, hidden).0, None, "{hidden}");
        }
        assert_eq!(told(&all, "providers.a.key.env").0.as_deref(), Some("OPENAI_API_KEY"));
        assert_eq!(told(&all, "providers.b.url").0.as_deref(), Some("https://x.y"));
        assert!(!serde_json::to_string(&all).unwrap().contains("sk-ant"));
    }
}
