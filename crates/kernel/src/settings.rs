//! The operator's own settings: `$SKEP_HOME/config.yml`. A typo is an error.

use crate::services::{SecretSetting, ServiceSetting};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The operator's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct OperatorSettings {
    pub review: ReviewSettings,
    /// Templates of the operator's own, which may be wider than the built-in ones.
    pub sandbox: gate::SandboxConfig,
    /// Who makes rooms, for every project.
    pub runtime: Option<gate::RoomRuntime>,
    pub environment: Environment,
    pub services: BTreeMap<String, ServiceSetting>,
    pub secrets: BTreeMap<String, SecretSetting>,
    /// Who answers requests to models.
    pub providers: BTreeMap<String, gateway::ProviderSettings>,
    /// Tiers and aliases.
    pub models: gateway::ModelNames,
    pub gateway: gateway::GatewaySettings,
}

/// Which variables the programs in rooms get. By default none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Environment {
    /// Names whose values come from whoever started the kernel.
    pub pass: Vec<String>,
    /// Names with their values.
    pub set: BTreeMap<String, String>,
}

impl Environment {
    /// A name that no room may have, whoever wants it.
    fn closed(&self) -> Option<&String> {
        self.pass.iter().chain(self.set.keys()).find(|name| tool::is_closed(name))
    }

    /// What is set, and of the given ones what is passed.
    pub fn variables(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let passed = given.iter().filter(|(name, _)| self.pass.contains(name) && !self.set.contains_key(name)).cloned();
        passed.chain(self.set.clone()).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ReviewSettings {
    /// A program and its arguments, run for each new question.
    pub notify: Option<Vec<String>>,
    /// After this long an unanswered question is refused; never, without it.
    pub deadline: Option<String>,
}

impl OperatorSettings {
    /// The gateway's part.
    pub fn models(&self) -> gateway::ModelSettings {
        let OperatorSettings { providers, models, gateway, .. } = self.clone();
        gateway::ModelSettings { providers, models, gateway }
    }

    pub fn read(home: &std::path::Path) -> Result<OperatorSettings, String> {
        let path = home.join("config.yml");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(OperatorSettings::default()),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let settings: OperatorSettings = yaml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Some(deadline) = &settings.review.deadline {
            policy::parse_duration(deadline).map_err(|error| format!("{}: review.deadline: {error}", path.display()))?;
        }
        if let Some(name) = settings.environment.closed() {
            return Err(format!("{}: environment: `{name}` looks like a credential or a lever, and goes into no room", path.display()));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_strict_and_missing_ones_are_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(OperatorSettings::read(dir.path()), Ok(OperatorSettings::default()));
        std::fs::write(dir.path().join("config.yml"), "review: {notify: [cat], deadline: 5m}\n").unwrap();
        assert_eq!(OperatorSettings::read(dir.path()).unwrap().review.notify, Some(vec!["cat".into()]));
        for bad in ["reviews: {}", "review: {deadline: soon}", "review: {notify: cat}"] {
            std::fs::write(dir.path().join("config.yml"), bad).unwrap();
            assert!(OperatorSettings::read(dir.path()).is_err(), "{bad}");
        }
    }
}
