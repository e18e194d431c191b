//! The name of a planner.

use world::{BrainSpec, Code, Refusal};

/// Who plans, as the terms of a session name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlannerSpec {
    /// The plan file that came with the session.
    File,
    /// A model; the default one where none is named.
    Model(Option<String>),
    /// A model that is told the tools of the task's domain only.
    Router(Option<String>),
    /// A brain, as `--brain` names it.
    Brain(String),
}

impl PlannerSpec {
    pub fn parse(text: &str) -> Result<PlannerSpec, Refusal> {
        let unknown = |why: &str| {
            let hint = "name `model`, `model:NAME`, `router`, `router:NAME`, `brain:SPEC`, or `file` with a plan file";
            Refusal::new(Code::BadInput, format!("there is no planner `{text}`{why}")).hint(hint)
        };
        let (kind, name) = text.split_once(':').map_or((text, None), |(kind, name)| (kind, Some(name)));
        if name.is_some_and(|name| name.trim().is_empty() || name.chars().any(char::is_control)) {
            return Err(unknown(": it names nothing behind its colon"));
        }
        let name = name.map(str::to_owned);
        match (kind, name) {
            ("file", None) => Ok(PlannerSpec::File),
            ("model", name) => Ok(PlannerSpec::Model(name)),
            ("router", name) => Ok(PlannerSpec::Router(name)),
            ("brain", Some(name)) => Ok(PlannerSpec::Brain(name)),
            _ => Err(unknown("")),
        }
    }

    /// The model that it asks, where it asks one itself.
    pub fn model(&self) -> Option<&str> {
        match self {
            PlannerSpec::Model(name) | PlannerSpec::Router(name) => Some(name.as_deref().unwrap_or(BrainSpec::DEFAULT_MODEL)),
            PlannerSpec::File | PlannerSpec::Brain(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planners_have_names() {
        let parse = |text| PlannerSpec::parse(text).ok();
        assert_eq!(parse("file"), Some(PlannerSpec::File));
        assert_eq!(parse("model"), Some(PlannerSpec::Model(None)));
        assert_eq!(parse("model:local/qwen3:8b"), Some(PlannerSpec::Model(Some("local/qwen3:8b".into()))));
        assert_eq!(parse("router").unwrap().model(), Some("tactical"));
        assert_eq!(parse("brain:claude:sonnet"), Some(PlannerSpec::Brain("claude:sonnet".into())));
        for wrong in ["", "brain", "brain:", "model: ", "file:x", "oracle", "model:a\u{7}"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
