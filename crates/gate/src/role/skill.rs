//! A skill: a prompt or a command that a role knows, with parameters that have types.

use super::parted;
use crate::crew_config::check_tools;
use serde::Deserialize;
use serde_json::{Number, Value};
use std::collections::BTreeMap;
use world::{Code, Refusal};

#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    pub name: String,
    /// What it is good for, in a line.
    pub about: String,
    pub params: BTreeMap<String, SkillParam>,
    /// The only tools that a task with it has.
    pub tools: Option<Vec<String>>,
    pub work: SkillWork,
}

/// What it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillWork {
    /// A brain is told this.
    Prompt(String),
    /// A program runs in the task's sandbox, as a call like any other.
    Command(Vec<String>),
}

/// A parameter, written `{{name}}` in the text or the command.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillParam {
    #[serde(rename = "type", default)]
    pub kind: ParamKind,
    /// Without it, a parameter that has no default is required.
    pub required: Option<bool>,
    pub default: Option<Value>,
    #[serde(default)]
    pub description: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamKind {
    #[default]
    String,
    Number,
    Boolean,
}

impl ParamKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ParamKind::String => "string",
            ParamKind::Number => "number",
            ParamKind::Boolean => "boolean",
        }
    }

    /// Reads a value as somebody typed it.
    fn read(self, text: &str) -> Option<Value> {
        match self {
            ParamKind::String => Some(Value::String(text.to_owned())),
            ParamKind::Boolean => text.parse().ok().map(Value::Bool),
            ParamKind::Number => match text.parse::<i64>() {
                Ok(whole) => Some(Value::Number(whole.into())),
                Err(_) => text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number),
            },
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            ParamKind::String => value.is_string(),
            ParamKind::Number => value.is_number(),
            ParamKind::Boolean => value.is_boolean(),
        }
    }
}

impl SkillParam {
    pub fn is_required(&self) -> bool {
        self.required.unwrap_or(self.default.is_none())
    }
}

/// What stands above the text of a skill.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SkillHead {
    /// As other clients write it beside the file's own name.
    name: Option<String>,
    description: String,
    params: BTreeMap<String, SkillParam>,
    command: Option<Vec<String>>,
    tools: Option<Vec<String>>,
}

impl Skill {
    pub(super) fn parse(name: &str, text: &str) -> Result<Skill, String> {
        let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if !is_word(name) {
            return Err(format!("`{name}` is no name for a skill: it has letters, digits, `.`, `_` and `-`"));
        }
        let (head, body) = parted::<SkillHead>(text)?;
        if head.name.as_ref().is_some_and(|other| other != name) {
            return Err(format!("its file is called `{name}`, and it calls itself `{}`", head.name.unwrap_or_default()));
        }
        head.tools.as_ref().map_or(Ok(()), |tools| check_tools(tools))?;
        let work = match head.command {
            Some(words) if words.first().is_none_or(|program| program.trim().is_empty()) => {
                return Err("`command` names no program".to_owned());
            }
            Some(words) => SkillWork::Command(words),
            None if body.trim().is_empty() => return Err("it has neither a text nor a `command`".to_owned()),
            None => SkillWork::Prompt(body.trim().to_owned()),
        };
        for (param, is) in &head.params {
            if !is_word(param) {
                return Err(format!("`{param}` is no name for a parameter"));
            }
            if let Some(default) = is.default.as_ref().filter(|default| !is.kind.fits(default)) {
                return Err(format!("the default of `{param}` is {default}, and no {}", is.kind.as_str()));
            }
            if is.required == Some(true) && is.default.is_some() {
                return Err(format!("`{param}` is required and has a default: one of them counts for nothing"));
            }
        }
        let about = head.description;
        let skill = Skill { name: name.to_owned(), about, params: head.params, tools: head.tools, work };
        let texts = match &skill.work {
            SkillWork::Prompt(text) => std::slice::from_ref(text),
            SkillWork::Command(words) => words.as_slice(),
        };
        match texts.iter().flat_map(|text| holes(text)).find(|hole| !skill.params.contains_key(*hole)) {
            Some(hole) => Err(format!("`{{{{{hole}}}}}` is no parameter of it; {}", skill.takes())),
            None => Ok(skill),
        }
    }

    /// Which parameters it takes, in words.
    pub fn takes(&self) -> String {
        let one = |(name, param): (&String, &SkillParam)| match &param.default {
            Some(default) => format!("{name} ({}, default {default})", param.kind.as_str()),
            None if param.is_required() => format!("{name} ({})", param.kind.as_str()),
            None => format!("{name} ({}, optional)", param.kind.as_str()),
        };
        match self.params.is_empty() {
            true => "it takes no parameters".to_owned(),
            false => format!("it takes {}", self.params.iter().map(one).collect::<Vec<_>>().join(", ")),
        }
    }

    /// The values of its parameters, from what somebody typed.
    pub fn values(&self, given: &BTreeMap<String, String>) -> Result<BTreeMap<String, Value>, Refusal> {
        let bad = |what: String| Refusal::new(Code::BadInput, format!("{}: {what}", self.name)).hint(self.takes());
        if let Some(unknown) = given.keys().find(|name| !self.params.contains_key(*name)) {
            return Err(bad(format!("there is no parameter `{unknown}`")));
        }
        let mut values = BTreeMap::new();
        for (name, param) in &self.params {
            let value = match (given.get(name), &param.default) {
                (Some(text), _) => {
                    let kind = param.kind.as_str();
                    param.kind.read(text).ok_or_else(|| bad(format!("`{name}` is a {kind}, and `{text}` is none")))?
                }
                (None, Some(default)) => default.clone(),
                (None, None) if param.is_required() => return Err(bad(format!("`{name}` is missing"))),
                (None, None) => continue,
            };
            values.insert(name.clone(), value);
        }
        Ok(values)
    }

    /// What it does with these values. A value is put where its name stands and is never read as anything else.
    pub fn filled_in(&self, values: &BTreeMap<String, Value>) -> SkillWork {
        match &self.work {
            SkillWork::Prompt(text) => SkillWork::Prompt(fill(text, values)),
            SkillWork::Command(words) => SkillWork::Command(words.iter().map(|word| fill(word, values)).collect()),
        }
    }
}

/// The names between `{{` and `}}`.
fn holes(text: &str) -> Vec<&str> {
    text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|(name, _)| name.trim()).collect()
}

fn fill(text: &str, values: &BTreeMap<String, Value>) -> String {
    let mut parts = text.split("{{");
    let mut filled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("}}") {
            Some((name, after)) => {
                match values.get(name.trim()) {
                    Some(Value::String(text)) => filled.push_str(text),
                    Some(value) => filled.push_str(&value.to_string()),
                    None => {}
                }
                filled.push_str(after);
            }
            None => {
                filled.push_str("{{");
                filled.push_str(part);
            }
        }
    }
    filled
}
