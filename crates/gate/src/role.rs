//! Roles: what a project tells a worker that it is, and the skills that it knows.
//!
//! Files below `.skep/roles`, trusted with the policy as one bundle: `NAME.md`, or a folder with `role.md`, `briefs/*.md` and
//! `skills/*.md`. Pure: parses texts. **Invariant.** A role gives a worker words, and takes tools away from it; nothing in it allows anything.

mod skill;

pub use skill::{Skill, SkillParam, SkillWork};

use crate::config::Config;
use crate::crew_config::check_tools;
use crate::worker::{HERO, WORKER_NAME, WORKER_ROLE};
use crate::zone::Parsed;
use serde::Deserialize;
use std::collections::BTreeMap;
use world::{Code, Missing, Refusal, Remedy, ToolList};

/// Where a project has its roles.
pub const ROLES_FOLDER: &str = ".skep/roles";

/// What one role says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    /// What its workers are told.
    pub brief: String,
    /// The only tools that they have.
    pub tools: Option<Vec<String>>,
    pub skills: BTreeMap<String, Skill>,
}

/// What stands above the text of a role.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RoleHead {
    tools: Option<Vec<String>>,
}

/// The roles of a project by their folder: `reviewer`, `ehmpathy/mechanic`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roles(BTreeMap<String, Role>);

impl Roles {
    /// Reads the files below `.skep/roles`, by their path there.
    pub fn parse(files: &[(String, String)]) -> Result<Roles, String> {
        let mut roles: BTreeMap<String, Role> = BTreeMap::new();
        for (path, text) in files {
            let bad = |why: String| format!("{ROLES_FOLDER}/{path}: {why}");
            let Some((folder, part)) = place(path) else { continue };
            for name in folder.split('/') {
                crate::crew_config::check_role_name(name).map_err(bad)?;
            }
            let role = roles.entry(folder).or_default();
            match part {
                RolePart::Brief => {
                    let (head, body) = parted::<RoleHead>(text).map_err(bad)?;
                    head.tools.as_ref().map_or(Ok(()), |tools| check_tools(tools)).map_err(bad)?;
                    role.tools = head.tools.or(role.tools.take());
                    role.add_brief(body);
                }
                RolePart::MoreBrief => role.add_brief(text),
                RolePart::Skill(name) => {
                    let skill = Skill::parse(&name, text).map_err(bad)?;
                    if role.skills.insert(name.clone(), skill).is_some() {
                        return Err(bad(format!("the skill `{name}` is there twice")));
                    }
                }
            }
        }
        Ok(Roles(roles))
    }
}

impl Role {
    fn add_brief(&mut self, text: &str) {
        if !self.brief.is_empty() {
            self.brief.push_str("\n\n");
        }
        self.brief.push_str(text.trim());
    }
}

enum RolePart {
    Brief,
    MoreBrief,
    Skill(String),
}

/// Which role a file belongs to, and as what; `None` for one that is no part of any.
fn place(path: &str) -> Option<(String, RolePart)> {
    let parts: Vec<&str> = path.strip_suffix(".md")?.split('/').collect();
    let skill = |name: &str| RolePart::Skill(name.to_owned());
    Some(match parts.as_slice() {
        // A folder's own explanation is nobody's role.
        ["README"] => return None,
        [name] => ((*name).to_owned(), RolePart::Brief),
        [folder @ .., "role"] if (1..=2).contains(&folder.len()) => (folder.join("/"), RolePart::Brief),
        [folder @ .., "briefs", _] if (1..=2).contains(&folder.len()) => (folder.join("/"), RolePart::MoreBrief),
        [folder @ .., "skills", name] if (1..=2).contains(&folder.len()) => (folder.join("/"), skill(name)),
        [folder @ .., "skills", name, "SKILL"] if (1..=2).contains(&folder.len()) => (folder.join("/"), skill(name)),
        _ => return None,
    })
}

/// The settings above a text, between two lines `---`, and the text.
fn parted<T: Default + serde::de::DeserializeOwned>(text: &str) -> Result<(T, &str), String> {
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else { return Ok((T::default(), text)) };
    let mut at = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            let head = &rest[..at];
            let body = &rest[at + line.len()..];
            if head.trim().is_empty() {
                return Ok((T::default(), body));
            }
            // Its first line is the second of the file.
            return yaml::from_str(&format!("\n{head}")).map(|head| (head, body)).map_err(|error| error.to_string());
        }
        at += line.len();
    }
    Err("the settings above the text are not closed by a line `---`".to_owned())
}

/// A skill and who uses it.
#[derive(Clone, Copy, Debug)]
pub struct KnownSkill<'a> {
    /// `None` for the worker that every project has.
    pub role: Option<&'a str>,
    pub skill: &'a Skill,
}

/// The roles that tasks can name, and the skills that they know.
impl Parsed {
    /// Is this the worker that every project has?
    pub fn is_hero(&self, role: &str) -> bool {
        [WORKER_ROLE, WORKER_NAME, HERO].contains(&role) || self.config.crew.hero.role.as_deref() == Some(role)
    }

    /// Names of roles, whether or not they are there.
    pub fn role_names(&self) -> Vec<&str> {
        let own = self.roles.0.keys().map(String::as_str).filter(|folder| !folder.contains('/'));
        let named = self.config.crew.roles.keys().map(String::as_str);
        let mut names: Vec<&str> = own.chain(named).chain(self.config.crew.hero.role.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// A role by its name; `None` for a worker that has no words about itself.
    pub fn role(&self, name: &str) -> Result<Option<&Role>, Refusal> {
        let name = match (name, &self.config.crew.hero.role) {
            (WORKER_ROLE | WORKER_NAME | HERO, Some(role)) => role,
            _ => name,
        };
        let folder = folder_of(&self.config, name);
        match self.roles.0.get(folder) {
            Some(role) => Ok(Some(role)),
            None if [WORKER_ROLE, WORKER_NAME, HERO].contains(&name) => Ok(None),
            None if self.role_names().contains(&name) => {
                let reason = format!("the role `{name}` is not here: there is no {ROLES_FOLDER}/{folder}");
                let hint =
                    format!("put its folder at {ROLES_FOLDER}/{folder}, with a role.md and, for its skills, skills/NAME.md; then trust it");
                Err(Refusal::new(Code::NotFound, reason).hint(hint).remedy(Remedy::TrustProject))
            }
            None => {
                let names = self.role_names();
                let there =
                    if names.is_empty() { format!("this project has none; write {ROLES_FOLDER}/{name}.md") } else { names.join(", ") };
                Err(Refusal::new(Code::NotFound, format!("there is no role `{name}`")).hint(format!("roles: {there}")))
            }
        }
    }

    /// The tools that a role leaves to its workers, list by list.
    pub fn tool_lists(&self, name: &str, role: Option<&Role>) -> Vec<ToolList> {
        let of_config = self.config.crew.roles.get(name).and_then(|source| source.tools.clone());
        let of_role = role.and_then(|role| role.tools.clone());
        [of_config, of_role].into_iter().flatten().map(|tools| ToolList { of: format!("role {name}"), tools }).collect()
    }

    /// Every skill that somebody here knows.
    pub fn skills(&self) -> Vec<KnownSkill<'_>> {
        let mut found = Vec::new();
        let hero = self.config.crew.hero.role.as_deref().unwrap_or(WORKER_ROLE);
        for name in std::iter::once(hero).chain(self.role_names().into_iter().filter(|name| *name != hero)) {
            let known = self.roles.0.get(folder_of(&self.config, name));
            let role = (!self.is_hero(name)).then_some(name);
            found.extend(known.into_iter().flat_map(|known| known.skills.values()).map(|skill| KnownSkill { role, skill }));
        }
        found
    }

    /// Who is to use a skill: the project's own worker if it knows it, else the one role that does.
    pub fn find_skill(&self, name: &str, asked: Option<&str>) -> Result<KnownSkill<'_>, Refusal> {
        let all = self.skills();
        let mut knowing: Vec<KnownSkill<'_>> = all.iter().filter(|known| known.skill.name == name).copied().collect();
        if let Some(asked) = asked {
            self.role(asked)?;
            knowing.retain(|known| known.role.map_or_else(|| self.is_hero(asked), |role| role == asked));
        } else if let Some(hero) = knowing.iter().find(|known| known.role.is_none()) {
            return Ok(*hero);
        }
        match knowing.as_slice() {
            [known] => Ok(*known),
            [] => {
                let whom = asked.map_or_else(|| "no role knows skill".to_owned(), |role| format!("{role} does not know skill"));
                let mut names: Vec<&str> = all.iter().map(|known| known.skill.name.as_str()).collect();
                names.sort_unstable();
                names.dedup();
                let hint = match names.as_slice() {
                    [] => format!("available  none; write {ROLES_FOLDER}/ROLE/skills/{name}.md"),
                    names => format!("available  {}", names.join(", ")),
                };
                Err(Refusal::missing(Missing::Skill, format!("{whom} {name}")).hint(hint))
            }
            several => {
                let roles: Vec<String> = several.iter().filter_map(|known| known.role.map(str::to_owned)).collect();
                let reason = format!("ambiguous  {name} known by [{}]", roles.join(", "));
                let refusal = Refusal { missing: Some(Missing::OneRole), ..Refusal::new(Code::BadInput, reason) };
                Err(refusal.remedy(Remedy::NameRole { roles }))
            }
        }
    }
}

fn folder_of<'a>(config: &'a Config, name: &'a str) -> &'a str {
    config.crew.roles.get(name).map_or(name, |source| source.folder.as_str())
}

/// Bytes of one skill's text that a worker is told before it is asked to use it.
const SKILL_TOLD_BYTES: usize = 4 * 1024;

/// What a worker of a role is told that it is; empty where nobody says anything.
pub fn role_brief(name: &str, role: &Role) -> String {
    let mut told = String::new();
    if !role.brief.is_empty() {
        told.push_str(&format!("Your role in this project is {name}.\n\n{}", role.brief));
    }
    if !role.skills.is_empty() {
        told.push_str(&format!("{}You know these skills:", if told.is_empty() { "" } else { "\n\n" }));
        for skill in role.skills.values() {
            let about = if skill.about.is_empty() { String::new() } else { format!(": {}", skill.about) };
            told.push_str(&format!("\n\n## {}{about}\n", skill.name));
            match &skill.work {
                SkillWork::Prompt(text) => told.push_str(&text[..text.floor_char_boundary(SKILL_TOLD_BYTES)]),
                SkillWork::Command(words) => told.push_str(&format!("Run: {}", words.join(" "))),
            }
        }
    }
    told
}

impl crate::Gate {
    /// What the worker of a task is told that it is; empty where the project says nothing about it.
    pub fn role_text(&self, task: &world::Task) -> Result<String, world::Stop> {
        let Some(trusted) = self.policies.trusted(task.zone)? else { return Ok(String::new()) };
        let role = self.ledger.look(|world| world.processes.get(&task.pid).map(|process| process.role.clone())).unwrap_or_default();
        let name = if trusted.is_hero(&role) { trusted.config.crew.hero.role.clone().unwrap_or(role) } else { role };
        // A role that is gone says nothing any more; what it left of tools is on record.
        let told = trusted.role(&name).ok().flatten().map(|role| role_brief(&name, role)).unwrap_or_default();
        Ok(self.ledger.redactor.text(&told).into_owned())
    }
}

#[cfg(test)]
mod tests;
