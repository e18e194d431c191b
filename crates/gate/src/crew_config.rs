//! `crew` and `zone` of `skep.yml`: who works in a project, what is asked at a task's end, and how much of each there may be.

use crate::config::{BrainAlias, Config};
use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use world::limits;

/// Who works in this project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrewConfig {
    /// What the worker is that every project has, and which brain it has.
    pub hero: HeroConfig,
    /// Roles by name, and where in `.skep/roles` each is.
    pub roles: BTreeMap<String, RoleSource>,
    /// Names for brains, before those of the operator's config.yml. Which program a brain is, only the operator says.
    pub brains: BTreeMap<String, BrainAlias>,
    pub hooks: HooksConfig,
}

/// The worker that every project has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HeroConfig {
    pub role: Option<String>,
    pub brain: Option<String>,
}

/// Where a role is: a folder of `.skep/roles`; and what its workers may use beside what it says itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleSource {
    /// `reviewer`, or a package such as `ehmpathy/mechanic`.
    pub folder: String,
    /// The only tools that its workers have.
    pub tools: Option<Vec<String>>,
}

impl<'de> Deserialize<'de> for RoleSource {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RoleSource, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Fields {
            role: String,
            tools: Option<Vec<String>>,
        }
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = RoleSource;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a folder of .skep/roles such as reviewer or ehmpathy/mechanic, or {role: FOLDER, tools: [TOOL]}")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<RoleSource, E> {
                Ok(RoleSource { folder: text.to_owned(), tools: None })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RoleSource, A::Error> {
                let fields = Fields::deserialize(de::value::MapAccessDeserializer::new(map))?;
                Ok(RoleSource { folder: fields.role, tools: fields.tools })
            }
        }
        from.deserialize_any(Text)
    }
}

/// What a brain is asked beside its task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HooksConfig {
    /// At a task's end, in this order.
    #[serde(rename = "onStop")]
    pub on_stop: Vec<StopHook>,
}

/// A question to the brain of a task that has ended; what it says is kept as the artifact.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StopHook {
    pub prompt: String,
    pub artifact: String,
}

/// The repository as a place of work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ZoneConfig {
    pub host: HostConfig,
    pub limits: ZoneLimits,
}

/// Where the work is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostConfig {
    #[default]
    Local,
    Cloud,
}

/// How much of each there may be. What is left out has the kernel's own figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
pub struct ZoneLimits {
    /// Tasks that wait for one worker.
    pub max_queue_depth: Option<u64>,
    /// Workers, of whatever role.
    pub max_clones_per_zone: Option<u64>,
    /// People who watch one worker.
    pub max_watchers_per_clone: Option<u64>,
    /// How long a task may take; without it, as long as it makes progress.
    pub task_timeout_ms: Option<u64>,
    /// How long a brain may take for one artifact at a task's end.
    pub hook_timeout_ms: Option<u64>,
}

impl ZoneLimits {
    fn check(&self) -> Result<(), String> {
        let (watchers_max, month_ms) = (1_000, limits::BRAIN_MS_MAX);
        let figures = [
            ("maxQueueDepth", self.max_queue_depth, limits::QUEUE_MAX as u64, "tasks"),
            ("maxClonesPerZone", self.max_clones_per_zone, limits::WORKERS_MAX as u64, "workers"),
            ("maxWatchersPerClone", self.max_watchers_per_clone, watchers_max, "watchers"),
            ("taskTimeoutMs", self.task_timeout_ms, month_ms, "milliseconds"),
            ("hookTimeoutMs", self.hook_timeout_ms, limits::HOOK_MS_MAX, "milliseconds"),
        ];
        match figures.into_iter().find(|(_, figure, most, _)| figure.is_some_and(|figure| !(1..=*most).contains(&figure))) {
            Some((name, _, most, what)) => Err(format!("zone.limits.{name}: it is 1 to {most} {what}")),
            None => Ok(()),
        }
    }
}

impl Config {
    /// How long a brain may take for one artifact at a task's end.
    pub fn hook_timeout(&self) -> Duration {
        Duration::from_millis(self.zone.limits.hook_timeout_ms.unwrap_or(limits::HOOK_MS_DEFAULT))
    }

    /// How many workers the project may have.
    pub fn workers_max(&self) -> usize {
        let of_zone = self.zone.limits.max_clones_per_zone.and_then(|workers| usize::try_from(workers).ok());
        self.limits.workers.or(of_zone).unwrap_or(limits::WORKERS_DEFAULT)
    }

    /// How many tasks may wait for one worker.
    pub fn queue_max(&self) -> usize {
        self.zone.limits.max_queue_depth.and_then(|depth| usize::try_from(depth).ok()).unwrap_or(limits::QUEUE_MAX)
    }

    /// Checks what serde cannot.
    pub(crate) fn check_crew(&self) -> Result<(), String> {
        if self.zone.host == HostConfig::Cloud {
            return Err("zone.host: work is done on this machine only: it is `local`".to_owned());
        }
        self.zone.limits.check()?;
        for (name, alias) in &self.crew.brains {
            alias.check(name).map_err(|why| format!("crew.brains: {why}"))?;
        }
        for (name, source) in &self.crew.roles {
            check_role_name(name).map_err(|why| format!("crew.roles: {why}"))?;
            let parts: Vec<&str> = source.folder.split('/').collect();
            if parts.len() > 2 || parts.iter().any(|part| !is_plain(part)) {
                return Err(format!(
                    "crew.roles: `{name}`: `{}` is no folder of .skep/roles, such as reviewer or ehmpathy/mechanic",
                    source.folder
                ));
            }
            source.tools.as_ref().map_or(Ok(()), |tools| check_tools(tools)).map_err(|why| format!("crew.roles: `{name}`: {why}"))?;
        }
        if let Some(role) = &self.crew.hero.role {
            check_role_name(role).map_err(|why| format!("crew.hero: {why}"))?;
        }
        check_hooks(&self.crew.hooks.on_stop).map_err(|why| format!("crew.hooks.onStop: {why}"))
    }
}

fn check_hooks(hooks: &[StopHook]) -> Result<(), String> {
    if hooks.len() > limits::HOOKS_MAX {
        return Err(format!("{} hooks are more than {}", hooks.len(), limits::HOOKS_MAX));
    }
    let mut named = BTreeSet::new();
    for hook in hooks {
        let StopHook { prompt, artifact } = hook;
        if !is_plain(artifact) {
            return Err(format!("`{artifact}` is no name for an artifact: it has letters, digits, `.`, `_` and `-`"));
        }
        if FIGURE_NAMES.contains(&artifact.as_str()) {
            return Err(format!("`{artifact}` is counted by the kernel, and no brain is asked for it"));
        }
        if !named.insert(artifact) {
            return Err(format!("the artifact `{artifact}` is asked for twice"));
        }
        if prompt.trim().is_empty() {
            return Err(format!("`{artifact}` has no prompt"));
        }
    }
    Ok(())
}

/// Artifacts that every task has, from what its requests to models used.
const FIGURE_NAMES: [&str; 2] = ["tokens", "cost"];

/// What no role of a project is called: these say who a caller is.
const ROLES_KEPT: [&str; 6] = ["operator", "kernel", "brain", "hero", crate::JOB, crate::CLIENT];

/// A role's name stands before a number: `reviewer.1`.
pub(crate) fn check_role_name(name: &str) -> Result<(), String> {
    if name.is_empty()
        || name.len() > limits::TAG_BYTES_MAX
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    {
        return Err(format!("`{name}` is no name for a role: it has letters, digits, `_` and `-`"));
    }
    match ROLES_KEPT.contains(&name) {
        true => Err(format!("`{name}` says who a caller is, and is no role of a project")),
        false => Ok(()),
    }
}

/// A list that narrows: names of tools, or `fs.*` for all of a kind.
pub fn check_tools(tools: &[String]) -> Result<(), String> {
    let is_tool = |tool: &str| {
        if tool == world::EVERY_TOOL {
            return true;
        }
        let name = tool.strip_suffix(".*").unwrap_or(tool);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    match tools.iter().find(|tool| !is_tool(tool)) {
        Some(tool) => Err(format!("`{tool}` is no tool: write a name such as fs.read, or fs.* for all of a kind")),
        None if tools.len() > limits::TOOL_LIST_MAX => Err(format!("{} tools are more than {}", tools.len(), limits::TOOL_LIST_MAX)),
        None => Ok(()),
    }
}

/// A word that is safe as part of a file name.
fn is_plain(word: &str) -> bool {
    !word.is_empty() && !word.starts_with('.') && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_file_of_the_contract_is_read() {
        let text = "zone:\n  host: local\n  limits: {maxQueueDepth: 100, maxClonesPerZone: 10, maxWatchersPerClone: 10, taskTimeoutMs: 300000, \
                    hookTimeoutMs: 60000}\ncrew:\n  hero: {role: foreman, brain: claude}\n  roles: {mechanic: ehmpathy/mechanic, \
                    reviewer: {role: reviewer, tools: [fs.*, test.run]}}\n  brains: {grok: opencode@xai/grok/code-fast-1}\n  hooks:\n    \
                    onStop:\n      - {prompt: 1-line summary, artifact: summary}\n      - {prompt: fully done?, artifact: complete}\n";
        let config = Config::parse(text).unwrap();
        assert_eq!(config.crew.hero, HeroConfig { role: Some("foreman".into()), brain: Some("claude".into()) });
        assert_eq!(config.crew.roles["mechanic"], RoleSource { folder: "ehmpathy/mechanic".into(), tools: None });
        assert_eq!(config.crew.roles["reviewer"].tools, Some(vec!["fs.*".into(), "test.run".into()]));
        assert_eq!(config.crew.hooks.on_stop[1].artifact, "complete");
        assert_eq!((config.hook_timeout().as_secs(), config.workers_max()), (60, 10));
        assert_eq!((config.zone.limits.max_queue_depth, config.zone.limits.task_timeout_ms), (Some(100), Some(300_000)));
        let default = Config::default();
        assert_eq!(default.hook_timeout().as_secs(), 60, "the default");
        assert_eq!((default.queue_max(), default.workers_max(), default.zone.limits.task_timeout_ms), (100, 10, None));
        let narrow = Config::parse("zone: {limits: {maxQueueDepth: 5, maxClonesPerZone: 2}}").unwrap();
        assert_eq!((narrow.queue_max(), narrow.workers_max()), (5, 2));
    }

    #[test]
    fn what_cannot_be_is_told_with_its_place() {
        for (text, why) in [
            ("zone: {host: cloud}", "zone.host: work is done on this machine only"),
            ("zone: {host: moon}", "moon"),
            ("zone: {limits: {hookTimeoutMs: 0}}", "zone.limits.hookTimeoutMs: it is 1 to 3600000 milliseconds"),
            ("zone: {limits: {maxQueueDepth: 101}}", "zone.limits.maxQueueDepth: it is 1 to 100 tasks"),
            ("zone: {limits: {maxQueueDepth: 0}}", "zone.limits.maxQueueDepth: it is 1 to 100 tasks"),
            ("zone: {limits: {maxClonesPerZone: 33}}", "zone.limits.maxClonesPerZone: it is 1 to 32 workers"),
            ("zone: {limits: {maxWatchersPerClone: 0}}", "zone.limits.maxWatchersPerClone"),
            ("zone: {limits: {taskTimeoutMs: 0}}", "zone.limits.taskTimeoutMs"),
            ("zone: {limits: {maxQueDepth: 1}}", "maxQueDepth"),
            ("zone: {limits: {hookTimeoutMs: soon}}", "line 1, column 32: this is to be a whole number"),
            ("crew: {roles: {'a b': x}}", "`a b` is no name for a role"),
            ("crew: {roles: {operator: x}}", "`operator` says who a caller is"),
            ("crew: {roles: {a: ../x}}", "`../x` is no folder of .skep/roles"),
            ("crew: {roles: {a: {role: x, tools: ['rm -rf']}}}", "`rm -rf` is no tool"),
            ("crew: {roles: {a: [x]}}", "a folder of .skep/roles such as"),
            ("crew: {hero: {role: a.1}}", "`a.1` is no name for a role"),
            ("crew: {hooks: {onStop: [{prompt: x, artifact: a}, {prompt: y, artifact: a}]}}", "asked for twice"),
            ("crew: {hooks: {onStop: [{prompt: '', artifact: a}]}}", "`a` has no prompt"),
            ("crew: {hooks: {onStop: [{prompt: x, artifact: tokens}]}}", "`tokens` is counted by the kernel"),
            ("crew: {hooks: {onStop: [{prompt: x, artifact: ../a}]}}", "no name for an artifact"),
            ("crew: {hooks: {onStart: []}}", "onStart"),
        ] {
            let told = Config::parse(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
