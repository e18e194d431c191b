//! The operator's own settings: `$SKEP_HOME/config.yml`. A typo is an error.

use crate::services::{SecretSetting, ServiceSetting};
use brain::{BrainSpec, Vendor};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The operator's own settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperatorSettings {
    pub review: ReviewSettings,
    /// Templates of the operator's own, which may be wider than the built-in ones.
    pub sandbox: gate::SandboxConfig,
    /// Who makes rooms, for every project.
    pub runtime: Option<gate::RoomRuntime>,
    /// Variables of rooms; `sandbox.environment` says the same, and counts more.
    pub environment: gate::RoomEnvironment,
    pub services: BTreeMap<String, ServiceSetting>,
    pub secrets: BTreeMap<String, SecretSetting>,
    /// Who answers requests to models.
    pub providers: BTreeMap<String, gateway::ProviderSettings>,
    /// Tiers and aliases.
    pub models: gateway::ModelNames,
    pub gateway: gateway::GatewaySettings,
    /// The brain of a task that names none, in a project that names none.
    pub brain: Option<String>,
    /// The model of the built-in brain where nobody names one: a tier, an alias or `provider/model`.
    pub model: Option<String>,
    /// The programs of vendors' clients and of agents that speak ACP, where they are not found by their names.
    pub brains: BTreeMap<String, BrainSetting>,
    /// How strictly tests come first in tasks that do not say, of projects that do not say: strict, explore or debug.
    pub discipline: Option<world::Discipline>,
    /// How long a vendor's client that has nothing to do stays for its worker's next task.
    pub brain_idle: Option<String>,
    /// How long a brain may make no move before it is ended.
    pub brain_patience: Option<String>,
    /// How much of sessions runs at once.
    pub sessions: SessionSettings,
    /// Brains that decide for processes of the tree, by the names of those: `king` is the kernel.
    pub deciders: BTreeMap<String, String>,
    /// Where the process tree is served over gRPC; nowhere without it.
    pub grpc: Option<GrpcSettings>,
}

/// How the process tree is served over gRPC. Taken at the next start of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GrpcSettings {
    /// Beside the socket `grpc.sock` in the home: `127.0.0.1:PORT`, `:PORT` or `unix:///PATH`.
    pub listen: Option<String>,
    /// A bare `x-hivekernel-pid` counts, from sockets of the kernel's own user.
    pub trust_pid_header: bool,
    /// Agents to begin with, as `--startup` names them.
    pub startup: Option<std::path::PathBuf>,
}

/// How much of sessions runs at once. What is left out is as it is built in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionSettings {
    /// Steps of one session.
    pub steps: Option<usize>,
    /// Sandboxes of all sessions together.
    pub rooms: Option<usize>,
    /// Of those, the ones of one template.
    pub templates: BTreeMap<String, usize>,
}

/// More than any machine does at once.
const AT_ONCE_MAX: usize = 1_000;

impl SessionSettings {
    fn check(&self) -> Result<(), String> {
        let named = self.templates.iter().map(|(name, count)| (format!("templates.{name}"), *count));
        let own = [("steps", self.steps), ("rooms", self.rooms)].into_iter().filter_map(|(name, count)| Some((name.to_owned(), count?)));
        match own.chain(named).find(|(_, count)| !(1..=AT_ONCE_MAX).contains(count)) {
            Some((name, count)) => Err(format!("sessions.{name}: {count} is no number from 1 to {AT_ONCE_MAX}")),
            None => Ok(()),
        }
    }
}

/// A client's program, or a name for a brain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BrainSetting {
    /// Program and arguments.
    pub command: Vec<String>,
    /// What the name stands for: `claude@anthropic/claude/code/opus/v4.5`.
    pub alias: Option<gate::BrainAlias>,
}

impl BrainSetting {
    fn check(&self, name: &str) -> Result<(), String> {
        let is_vendor = Vendor::ALL.iter().any(|vendor| vendor.name() == name);
        match &self.alias {
            Some(_) if !self.command.is_empty() && !is_vendor => {
                Err(format!("`{name}` has a command and an alias; a program of its own is acp:{name}, a name for a brain has no program"))
            }
            Some(alias) => alias.check(name),
            None if self.command.is_empty() => Err(format!("`{name}` says nothing: give it `command: [PROGRAM]` or `alias: BRAIN`")),
            None if self.command[0].trim().is_empty() => Err(format!("`{name}`: its program has no name")),
            None => Ok(()),
        }
    }
}

/// Why the operator's files cannot be used, and what to mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsFault {
    pub why: String,
    pub fix: String,
}

impl SettingsFault {
    pub fn in_config(why: String) -> SettingsFault {
        SettingsFault { why, fix: "mend config.yml in $SKEP_HOME".to_owned() }
    }
}

impl From<SettingsFault> for world::Fault {
    fn from(fault: SettingsFault) -> world::Fault {
        world::Fault::new(world::FaultKind::Settings, "the kernel's own settings cannot be used", fault.why).fix(fault.fix)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReviewSettings {
    /// A program and its arguments, run for each new question.
    pub notify: Option<Vec<String>>,
    /// After this long an unanswered question is refused; never, without it.
    pub deadline: Option<String>,
}

impl OperatorSettings {
    /// The variables that the operator gives to rooms.
    pub fn room_environment(&self) -> gate::RoomEnvironment {
        self.environment.clone().joined(self.sandbox.environment.clone())
    }

    /// The gateway's part.
    pub fn models(&self) -> gateway::ModelSettings {
        let OperatorSettings { providers, models, gateway, .. } = self.clone();
        gateway::ModelSettings { providers, models, gateway }
    }

    pub fn read(home: &std::path::Path) -> Result<OperatorSettings, SettingsFault> {
        let path = home.join("config.yml");
        let bad = |why: String| SettingsFault::in_config(format!("{}: {why}", path.display()));
        let text = match yaml::read_file(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(OperatorSettings::default()),
            Err(error) => return Err(bad(error.to_string())),
        };
        let settings: OperatorSettings = yaml::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if let Some(deadline) = &settings.review.deadline {
            policy::parse_duration(deadline).map_err(|error| bad(format!("review.deadline: {error}")))?;
        }
        for (field, time) in [("brain_idle", &settings.brain_idle), ("brain_patience", &settings.brain_patience)] {
            time.as_deref().map_or(Ok(Duration::ZERO), policy::parse_duration).map_err(|error| bad(format!("{field}: {error}")))?;
        }
        for (field, environment) in [("environment", &settings.environment), ("sandbox.environment", &settings.sandbox.environment)] {
            if let Some(name) = environment.closed() {
                let why = "may hold a credential or alter program loading; not passed into sandboxes";
                return Err(bad(format!("{field}: `{name}` {why}")));
            }
        }
        settings.sessions.check().map_err(bad)?;
        for (name, brain) in &settings.deciders {
            if !matches!(BrainSpec::parse(brain), Ok(BrainSpec::Native { .. })) {
                let why = "only the built-in brain decides: `native`, `native:TIER` or `native:provider/model`";
                return Err(bad(format!("deciders.{name}: `{brain}`: {why}")));
            }
        }
        for (name, setting) in &settings.brains {
            setting.check(name).map_err(|why| bad(format!("brains: {why}")))?;
        }
        if let Some(Err(unknown)) = settings.brain.as_deref().filter(|brain| settings.alias(brain).is_none()).map(BrainSpec::parse) {
            return Err(bad(format!("brain: {unknown}; {}", BrainSpec::KNOWN)));
        }
        if settings.model.as_deref().is_some_and(|model| model.trim().is_empty()) {
            return Err(bad("model: it names nothing".to_owned()));
        }
        Ok(settings)
    }

    /// How long a client that has nothing to do stays.
    pub fn brain_idle_time(&self) -> Duration {
        Self::time_or(self.brain_idle.as_deref(), world::limits::CLIENT_IDLE_MS)
    }

    /// How long a brain may make no move.
    pub fn brain_patience_time(&self) -> Duration {
        Self::time_or(self.brain_patience.as_deref(), world::limits::NO_PROGRESS_MS)
    }

    /// A time that the operator may set.
    fn time_or(set: Option<&str>, default_ms: u64) -> Duration {
        set.and_then(|set| policy::parse_duration(set).ok()).unwrap_or(Duration::from_millis(default_ms))
    }

    /// What a name for a brain stands for.
    pub fn alias(&self, name: &str) -> Option<&str> {
        self.brains.get(name)?.alias.as_ref().map(|alias| alias.0.as_str())
    }

    /// The built-in brain thinks with the operator's default model where nobody names one.
    pub fn with_default_model(&self, spec: BrainSpec) -> BrainSpec {
        match spec {
            BrainSpec::Native { model: None } => BrainSpec::Native { model: self.model.clone() },
            named => named,
        }
    }

    /// The model of the brain that decides for the process of this name.
    pub fn decider(&self, name: &str) -> Option<String> {
        match self.with_default_model(BrainSpec::parse(self.deciders.get(name)?).ok()?) {
            BrainSpec::Native { model } => Some(model.unwrap_or_else(|| BrainSpec::DEFAULT_MODEL.to_owned())),
            _ => None,
        }
    }

    /// The names of the parts that differ.
    pub fn differences(&self, other: &OperatorSettings) -> Vec<String> {
        let OperatorSettings { review, sandbox, runtime, environment, services, secrets, providers, models, gateway, .. } = self;
        let OperatorSettings { brain, model, brains, brain_idle, brain_patience, sessions, deciders, grpc, .. } = self;
        let parts = [
            ("review", *review != other.review),
            ("sandbox", *sandbox != other.sandbox),
            ("runtime", *runtime != other.runtime),
            ("environment", *environment != other.environment),
            ("services", *services != other.services),
            ("secrets", *secrets != other.secrets),
            ("providers", *providers != other.providers),
            ("models", *models != other.models),
            ("gateway", *gateway != other.gateway),
            ("brain", *brain != other.brain),
            ("model", *model != other.model),
            ("brains", *brains != other.brains),
            ("brain_idle", *brain_idle != other.brain_idle),
            ("brain_patience", *brain_patience != other.brain_patience),
            ("sessions", *sessions != other.sessions),
            ("deciders", *deciders != other.deciders),
            ("grpc", *grpc != other.grpc),
        ];
        parts.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
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
        std::fs::write(dir.path().join("config.yml"), "grpc: {listen: ':50051'}\n").unwrap();
        let grpc = GrpcSettings { listen: Some(":50051".to_owned()), ..GrpcSettings::default() };
        assert_eq!(OperatorSettings::read(dir.path()).unwrap().grpc, Some(grpc));
        let aliases =
            "brain: opus\nbrains: {opus: {alias: 'claude@anthropic/claude/opus/v4.5'}, claude: {alias: claude:opus, command: [c]}}";
        std::fs::write(dir.path().join("config.yml"), aliases).unwrap();
        let read = OperatorSettings::read(dir.path()).unwrap();
        assert_eq!(
            (read.alias("opus"), read.alias("claude"), read.alias("codex")),
            (Some("claude@anthropic/claude/opus/v4.5"), Some("claude:opus"), None)
        );
        std::fs::write(dir.path().join("config.yml"), "sessions: {steps: 8, rooms: 2, templates: {net: 1}}\n").unwrap();
        let sessions = OperatorSettings::read(dir.path()).unwrap().sessions;
        assert_eq!((sessions.steps, sessions.rooms, sessions.templates["net"]), (Some(8), Some(2), 1));
        for bad in [
            "reviews: {}",
            "grpc: {lisen: ':1'}",
            "sessions: {steps: 0}",
            "sessions: {rooms: 5000}",
            "sessions: {templates: {default: 0}}",
            "sessions: {step: 3}",
            "review: {deadline: soon}",
            "review: {notify: cat}",
            "brain: clod",
            "model: ' '",
            "brains: {a: {}}",
            "brains: {a: {alias: clod}}",
            "brains: {a: {alias: claude, command: [b]}}",
            "brains: {a: {command: ['']}}",
            "brains: {native: {alias: claude}}",
            "brains: {claude: {alias: codex}}",
            "brains: {a: {alias: 'gemini:--yolo'}}",
        ] {
            std::fs::write(dir.path().join("config.yml"), bad).unwrap();
            assert!(OperatorSettings::read(dir.path()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_default_model_is_for_who_names_none() {
        let settings: OperatorSettings = yaml::from_str("brain: native\nmodel: strategic\nreview: {notify: [cat]}").unwrap();
        let spec = |name: &str| settings.with_default_model(BrainSpec::parse(name).unwrap()).to_string();
        assert_eq!(
            (spec("native"), spec("native:p/m"), spec("script:f")),
            ("native:strategic".into(), "native:p/m".into(), "script:f".into())
        );
        assert_eq!(settings.differences(&OperatorSettings::default()), ["review", "brain", "model"]);
        assert_eq!(settings.differences(&settings), Vec::<String>::new());
    }
}
