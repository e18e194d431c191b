//! Which brain a task has, as people write it and records keep it: `claude`, `codex:MODEL`, `acp:NAME`, `native` or `script:FILE`.
//! People may also write a client's model as khlone does: `claude@anthropic/claude/code/opus/v4.5`.

mod slug;

use crate::brain_report::Capability;
use std::fmt;
use std::str::FromStr;

/// A vendor whose own client works on tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Vendor {
    Claude,
    Codex,
    OpenCode,
    Gemini,
}

impl Vendor {
    pub const ALL: [Vendor; 4] = [Vendor::Claude, Vendor::Codex, Vendor::OpenCode, Vendor::Gemini];

    /// The name of its program, and of the brain.
    pub fn name(self) -> &'static str {
        match self {
            Vendor::Claude => "claude",
            Vendor::Codex => "codex",
            Vendor::OpenCode => "opencode",
            Vendor::Gemini => "gemini",
        }
    }

    /// By the name of its program.
    pub fn of(name: &str) -> Option<Vendor> {
        Vendor::ALL.into_iter().find(|vendor| vendor.name() == name)
    }

    /// What the vendor calls its client.
    pub fn product(self) -> &'static str {
        match self {
            Vendor::Claude => "Claude Code",
            Vendor::Codex => "Codex",
            Vendor::OpenCode => "OpenCode",
            Vendor::Gemini => "Gemini CLI",
        }
    }

    /// The command that installs it.
    pub fn install_command(self) -> &'static str {
        match self {
            Vendor::Claude => "npm install -g @anthropic-ai/claude-code",
            Vendor::Codex => "npm install -g @openai/codex",
            Vendor::OpenCode => "npm install -g opencode-ai",
            Vendor::Gemini => "npm install -g @google/gemini-cli",
        }
    }

    /// Whose models its client has; `None` for anybody's.
    fn supplier(self) -> Option<&'static str> {
        match self {
            Vendor::Claude => Some("anthropic"),
            Vendor::Codex => Some("openai"),
            Vendor::OpenCode => None,
            Vendor::Gemini => Some("google"),
        }
    }
}

/// Which brain a task has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrainSpec {
    /// A vendor's own client, with a model of that vendor's where one is named.
    Vendor { vendor: Vendor, model: Option<String> },
    /// An agent that speaks ACP; the operator's settings say under this name which program that is.
    Acp(String),
    /// The built-in brain, with a tier, an alias or `provider/model` where one is named.
    Native { model: Option<String> },
    /// A script. People name its file; a record names the blob that holds its text.
    Script(String),
}

/// A name that no brain has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no brain `{name}`{}", why.as_ref().map(|why| format!(": {why}")).unwrap_or_default())]
pub struct UnknownBrain {
    pub name: String,
    /// What is wrong with it, where it is more than a name that nobody knows.
    pub why: Option<String>,
}

impl BrainSpec {
    /// The tier that is asked for by those who have no models of their own, when no model is named.
    pub const DEFAULT_MODEL: &'static str = "tactical";
    /// What there is, for whoever named something else.
    pub const KNOWN: &'static str =
        "there are claude, codex, opencode and gemini (also as claude:MODEL), acp:NAME, native, native:MODEL and script:FILE";
    /// The brains that a capability can be said of, by the names that people know.
    const KINDS: [BrainSpec; 7] = [
        BrainSpec::Vendor { vendor: Vendor::Claude, model: None },
        BrainSpec::Vendor { vendor: Vendor::Codex, model: None },
        BrainSpec::Vendor { vendor: Vendor::OpenCode, model: None },
        BrainSpec::Vendor { vendor: Vendor::Gemini, model: None },
        BrainSpec::Acp(String::new()),
        BrainSpec::Native { model: None },
        BrainSpec::Script(String::new()),
    ];

    pub fn native() -> BrainSpec {
        BrainSpec::Native { model: None }
    }

    pub fn parse(name: &str) -> Result<BrainSpec, UnknownBrain> {
        let (first, rest) = name.split_once(':').map_or((name, None), |(first, rest)| (first, Some(rest)));
        if let Some(vendor) = Vendor::of(first).filter(|_| rest != Some("")) {
            // It becomes a word of the client's command line, and must not be an option there.
            if let Some(rest) = rest.filter(|rest| rest.starts_with('-') || rest.contains(|c: char| c.is_whitespace() || c.is_control())) {
                return Err(UnknownBrain { name: name.to_owned(), why: Some(format!("`{rest}` names no model")) });
            }
            return Ok(BrainSpec::Vendor { vendor, model: rest.map(str::to_owned) });
        }
        match name.split_once(':') {
            None if name == "native" => Ok(BrainSpec::native()),
            Some(("acp", agent)) if !agent.is_empty() => Ok(BrainSpec::Acp(agent.to_owned())),
            Some(("native", model)) if !model.is_empty() => Ok(BrainSpec::Native { model: Some(model.to_owned()) }),
            Some(("script", file)) if !file.is_empty() => Ok(BrainSpec::Script(file.to_owned())),
            None if name.contains('@') => slug::parse(name),
            _ => Err(UnknownBrain { name: name.to_owned(), why: None }),
        }
    }

    /// What it can do beyond a single turn. Of an agent that speaks ACP nothing is known before it is asked.
    pub fn capabilities(&self) -> &'static [Capability] {
        match self {
            BrainSpec::Vendor { .. } => &[Capability::Resume, Capability::Gate],
            BrainSpec::Acp(_) => &[],
            BrainSpec::Native { .. } | BrainSpec::Script(_) => &[Capability::Resume, Capability::Gate, Capability::Replay],
        }
    }

    /// The kinds of brains that have a capability.
    pub fn with_capability(capability: Capability) -> Vec<&'static str> {
        let kinds = BrainSpec::KINDS.into_iter().filter(|kind| kind.capabilities().contains(&capability));
        kinds.map(|kind| kind.kind()).collect()
    }

    /// Its name without what follows: `claude`, `acp`, `native` or `script`.
    pub fn kind(&self) -> &'static str {
        match self {
            BrainSpec::Vendor { vendor, .. } => vendor.name(),
            BrainSpec::Acp(_) => "acp",
            BrainSpec::Native { .. } => "native",
            BrainSpec::Script(_) => "script",
        }
    }

    /// The blob that holds the script, in a name that a record keeps; `None` for another brain.
    pub fn script_blob(name: &str) -> Option<String> {
        match BrainSpec::parse(name) {
            Ok(BrainSpec::Script(blob)) => Some(blob),
            Ok(_) | Err(_) => None,
        }
    }

    /// The model that the built-in brain thinks with; `None` for another brain.
    pub fn model(&self) -> Option<&str> {
        match self {
            BrainSpec::Native { model } => Some(model.as_deref().unwrap_or(BrainSpec::DEFAULT_MODEL)),
            BrainSpec::Vendor { .. } | BrainSpec::Acp(_) | BrainSpec::Script(_) => None,
        }
    }
}

impl FromStr for BrainSpec {
    type Err = UnknownBrain;

    fn from_str(name: &str) -> Result<BrainSpec, UnknownBrain> {
        BrainSpec::parse(name)
    }
}

impl fmt::Display for BrainSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BrainSpec::Vendor { vendor, model: None } => f.write_str(vendor.name()),
            BrainSpec::Vendor { vendor, model: Some(model) } => write!(f, "{}:{model}", vendor.name()),
            BrainSpec::Acp(agent) => write!(f, "acp:{agent}"),
            BrainSpec::Native { model: None } => f.write_str("native"),
            BrainSpec::Native { model: Some(model) } => write!(f, "native:{model}"),
            BrainSpec::Script(file) => write!(f, "script:{file}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_parses_and_prints_as_it_was_written() {
        for (name, model) in [
            ("native", Some("tactical")),
            ("native:strategic", Some("strategic")),
            ("native:ollama/qwen3:8b", Some("ollama/qwen3:8b")),
            ("script:a:b.txt", None),
            ("claude", None),
            ("codex:gpt-5.5", None),
            ("acp:goose", None),
        ] {
            let spec = BrainSpec::parse(name).unwrap();
            assert_eq!((spec.model(), spec.to_string().as_str()), (model, name));
        }
        for name in ["", "native:", "natives", "Native", "script", "script:", "claude:", "Claude", "acp", "acp:"] {
            let unknown = BrainSpec::parse(name).unwrap_err();
            assert_eq!(unknown.to_string(), format!("there is no brain `{name}`"));
        }
    }

    #[test]
    fn a_whole_name_says_client_and_model() {
        for (name, brain) in [
            ("claude@anthropic/claude/code/opus/v4.5", "claude:claude-opus-4-5"),
            ("claude@anthropic/claude/opus", "claude:opus"),
            ("claude@anthropic/claude/code", "claude"),
            ("codex@openai/codex/v5.3-with-thought", "codex:gpt-5.3-codex"),
            ("codex@openai/gpt/v5.5", "codex:gpt-5.5"),
            ("codex@openai/codex", "codex"),
            ("opencode@xai/grok-code-fast-1", "opencode:xai/grok-code-fast-1"),
            ("opencode@anthropic/claude/opus/v4.5", "opencode:anthropic/claude-opus-4-5"),
            ("gemini@google/gemini/pro/v2.5", "gemini:gemini-2.5-pro"),
            ("gemini@google/gemini/code/v2", "gemini:gemini-2"),
        ] {
            assert_eq!(BrainSpec::parse(name).unwrap().to_string(), brain, "{name}");
        }
        for (name, why) in [
            ("kimi@moonshot/k2", "`kimi` is no client"),
            ("claude@openai/gpt/v5", "claude has models of anthropic and none of openai"),
            ("claude@", "`` names no model"),
            ("claude@anthropic//x", "`anthropic//x` names no model"),
            ("claude@anthropic/claude/--dangerously x", "names no model"),
            ("gemini:--yolo", "`--yolo` names no model"),
            ("claude: ", "` ` names no model"),
            ("codex:a\nb", "names no model"),
        ] {
            let told = BrainSpec::parse(name).unwrap_err().to_string();
            assert!(told.starts_with(&format!("there is no brain `{name}`: ")) && told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_capability_names_who_has_it() {
        assert_eq!(BrainSpec::with_capability(Capability::Replay), ["native", "script"]);
        assert!(!BrainSpec::with_capability(Capability::Resume).contains(&"acp"));
        assert!(BrainSpec::parse("claude:opus").unwrap().capabilities().contains(&Capability::Gate));
    }
}
