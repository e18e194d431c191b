//! Which brain a task has, as people write it and records keep it: `native`, `native:MODEL` or `script:FILE`.

use std::fmt;
use std::str::FromStr;

/// The tier that the built-in brain thinks in when no model is named.
const DEFAULT_MODEL: &str = "tactical";

/// Which brain a task has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrainSpec {
    /// The built-in brain, with a tier, an alias or `provider/model` where one is named.
    Native { model: Option<String> },
    /// A script. People name its file; a record names the blob that holds its text.
    Script(String),
}

/// A name that no brain has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no brain `{name}`")]
pub struct UnknownBrain {
    pub name: String,
}

impl BrainSpec {
    /// What there is, for whoever named something else.
    pub const KNOWN: &'static str = "there are native, native:MODEL and script:FILE";

    pub fn native() -> BrainSpec {
        BrainSpec::Native { model: None }
    }

    pub fn parse(name: &str) -> Result<BrainSpec, UnknownBrain> {
        match name.split_once(':') {
            None if name == "native" => Ok(BrainSpec::native()),
            Some(("native", model)) if !model.is_empty() => Ok(BrainSpec::Native { model: Some(model.to_owned()) }),
            Some(("script", file)) if !file.is_empty() => Ok(BrainSpec::Script(file.to_owned())),
            _ => Err(UnknownBrain { name: name.to_owned() }),
        }
    }

    /// The model that the built-in brain thinks with; `None` for another brain.
    pub fn model(&self) -> Option<&str> {
        match self {
            BrainSpec::Native { model } => Some(model.as_deref().unwrap_or(DEFAULT_MODEL)),
            BrainSpec::Script(_) => None,
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
        ] {
            let spec = BrainSpec::parse(name).unwrap();
            assert_eq!((spec.model(), spec.to_string().as_str()), (model, name));
        }
        for name in ["", "native:", "natives", "Native", "script", "script:", "claude:opus"] {
            let unknown = BrainSpec::parse(name).unwrap_err();
            assert_eq!(unknown.to_string(), format!("there is no brain `{name}`"));
        }
    }
}
