//! Skills: what the roles of a project know.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SkillListParams {
    /// A folder inside the project.
    pub path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillListResult {
    pub skills: Vec<SkillView>,
    /// Names of the project's roles.
    pub roles: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillView {
    pub skill: String,
    /// The role that knows it; `None` for the worker that every project has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// `prompt` or `command`.
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// What it takes, in words.
    pub takes: String,
}
