//! Which bounds a job gets: the built-in templates, what `config.yml` makes of them, and what a project narrows.
//!
//! **Invariant.** Only the operator's own configuration widens. A project's `skep.yml` may narrow a template and may give a tool one
//! that is no wider than its own; a caller that is not the operator may name one that is no wider than the tool's, but for a way out,
//! which is the policy's to give.

use crate::Request;
use crate::call_facts::used_room;
use crate::config::Config;
use crate::policies::{NarrowedTemplates, Policies};
use crate::runtime::RoomRuntime;
use crate::zone::TrustedPolicy;
use sandbox::{Network, Profile, Template};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use world::Stop;
use world::{Code, Pid, Refusal, UsedRoom};

/// `sandbox:` of `config.yml` and of `skep.yml`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxConfig {
    pub templates: BTreeMap<String, TemplateChange>,
    /// Tools and the template of their jobs.
    pub tools: BTreeMap<String, String>,
    /// Files and folders of the host that every room sees, read-only. The operator's alone.
    pub show: Vec<std::path::PathBuf>,
    /// Which of the person's toolchains every room sees. The operator's alone.
    pub toolchains: Option<workspace::ToolchainChoice>,
    /// Variables of the programs in rooms. The operator's alone.
    pub environment: RoomEnvironment,
}

/// Which variables the programs in rooms get beside those of toolchains. By default none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RoomEnvironment {
    /// Names whose values come from whoever started the kernel.
    pub pass: Vec<String>,
    /// Names with their values.
    pub set: BTreeMap<String, String>,
}

impl RoomEnvironment {
    /// A name that no room may have, whoever wants it.
    pub fn closed(&self) -> Option<&String> {
        self.pass.iter().chain(self.set.keys()).find(|name| tool::is_closed(name))
    }

    /// What is set, and of the given ones what is passed.
    pub fn variables(&self, given: &[(String, String)]) -> Vec<(String, String)> {
        let passed = given.iter().filter(|(name, _)| self.pass.contains(name) && !self.set.contains_key(name)).cloned();
        passed.chain(self.set.clone()).collect()
    }

    /// Both; what the other says of a name counts.
    pub fn joined(mut self, other: RoomEnvironment) -> RoomEnvironment {
        self.pass.retain(|name| !other.set.contains_key(name));
        self.set.retain(|name, _| !other.pass.contains(name));
        self.pass.extend(other.pass);
        self.set.extend(other.set);
        self
    }
}

/// What a file says about a template; the rest stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TemplateChange {
    /// For a new one: which it is made from.
    pub from: Option<String>,
    pub network: Option<Network>,
    pub hosts: Option<Vec<String>>,
    pub secrets: Option<bool>,
    pub models: Option<bool>,
    pub memory: Option<String>,
    /// Processors, such as `0.5`.
    pub cpu: Option<String>,
    pub pids: Option<u32>,
    pub duration: Option<String>,
    pub answer: Option<String>,
    pub disk: Option<String>,
    pub files: Option<u64>,
    pub profile: Option<Profile>,
    /// Who makes its rooms. Nobody but who is asked first may say so.
    pub runtime: Option<RoomRuntime>,
}

impl TemplateChange {
    fn apply(&self, base: &Template, name: &str) -> Result<Template, String> {
        let size = |field: &str, text: &Option<String>, old: Option<u64>| match text {
            Some(text) => policy::parse_size(text).map(Some).map_err(|error| format!("{field}: {error}")),
            None => Ok(old),
        };
        let time = |field: &str, text: &Option<String>, old| match text {
            Some(text) => policy::parse_duration(text).map(Some).map_err(|error| format!("{field}: {error}")),
            None => Ok(old),
        };
        let made = Template {
            name: name.to_owned(),
            network: self.network.unwrap_or(base.network),
            hosts: self.hosts.clone().or_else(|| base.hosts.clone()),
            secrets: self.secrets.unwrap_or(base.secrets),
            models: self.models.unwrap_or(base.models),
            memory_bytes: size("memory", &self.memory, base.memory_bytes)?,
            cpu_milli: match &self.cpu {
                Some(text) => Some(milli(text).ok_or_else(|| format!("cpu: `{text}` is not a number of processors such as 0.5"))?),
                None => base.cpu_milli,
            },
            pids: self.pids.unwrap_or(base.pids),
            wall: time("duration", &self.duration, base.wall)?,
            answer: time("answer", &self.answer, base.answer)?,
            disk_bytes: size("disk", &self.disk, base.disk_bytes)?,
            disk_files: self.files.or(base.disk_files),
            profile: self.profile.unwrap_or(base.profile),
        };
        if made.models && made.profile == Profile::Standard {
            return Err("models: its profile is `standard`, under which nothing opens a connection; say `profile: standard-net`".into());
        }
        Ok(made)
    }
}

/// Thousandths of a processor; between one of them and a thousand whole ones.
fn milli(text: &str) -> Option<u32> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let cpus: f64 = plain.then(|| text.parse().ok()).flatten()?;
    (0.001..=1000.0).contains(&cpus).then_some((cpus * 1000.0) as u32)
}

/// All templates, and which tool has which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Templates {
    all: BTreeMap<String, Template>,
    /// Of those that name one.
    runtimes: BTreeMap<String, RoomRuntime>,
    tools: BTreeMap<String, String>,
}

impl Templates {
    /// The built-in ones with what the operator's own file changes or adds; it may widen.
    pub fn of_operator(config: &SandboxConfig) -> Result<Templates, String> {
        let mut all: BTreeMap<String, Template> =
            Template::built_in().into_iter().map(|template| (template.name.clone(), template)).collect();
        let mut runtimes = BTreeMap::new();
        for (name, change) in &config.templates {
            let base = change.from.as_ref().unwrap_or(name);
            if let Some(runtime) = change.runtime.or_else(|| runtimes.get(base).copied()) {
                runtimes.insert(name.clone(), runtime);
            }
            let base = all.get(base).ok_or_else(|| {
                format!("sandbox.templates.{name}: there is no template `{base}`; a new one names in `from` which it is made from")
            })?;
            let made = change.apply(base, name).map_err(|error| format!("sandbox.templates.{name}.{error}"))?;
            all.insert(name.clone(), made);
        }
        if let Some((tool, name)) = config.tools.iter().find(|(_, name)| !all.contains_key(*name)) {
            return Err(format!("sandbox.tools.{tool}: there is no template `{name}`"));
        }
        Ok(Templates { all, runtimes, tools: config.tools.clone() })
    }

    /// With what a project says, which only narrows.
    pub fn narrowed(&self, config: &SandboxConfig) -> Result<Templates, String> {
        let mut narrowed = self.clone();
        if let Some(path) = config.show.first() {
            return Err(format!("sandbox.show: a project may only narrow, and `{}` would be one thing more to see", path.display()));
        }
        if config.toolchains.is_some() || config.environment != RoomEnvironment::default() {
            let field = if config.toolchains.is_some() { "toolchains" } else { "environment" };
            return Err(format!("sandbox.{field}: only the operator's config.yml in $SKEP_HOME says so"));
        }
        for (name, change) in &config.templates {
            let base = self.all.get(name).ok_or_else(|| format!("sandbox.templates.{name}: a project makes no templates of its own"))?;
            let made = change.apply(base, name).map_err(|error| format!("sandbox.templates.{name}.{error}"))?;
            if let Some(field) = made.wider_than(base) {
                return Err(format!("sandbox.templates.{name}.{field}: a project may only narrow a template"));
            }
            narrowed.all.insert(name.clone(), made);
            match (self.runtime(name), change.runtime) {
                (Some(fixed), Some(wanted)) if fixed != wanted => {
                    return Err(format!("sandbox.templates.{name}.runtime: the operator has fixed {}", fixed.name()));
                }
                (_, wanted) => narrowed.runtimes.extend(wanted.map(|wanted| (name.clone(), wanted))),
            }
        }
        for (tool, name) in &config.tools {
            let chosen = self.all.get(name).ok_or_else(|| format!("sandbox.tools.{tool}: there is no template `{name}`"))?;
            let own = self.tools.get(tool).map_or(Template::DEFAULT, String::as_str);
            let wider = self.all.get(own).and_then(|own| chosen.wider_than(own));
            if let Some(field) = wider.or_else(|| narrowed.leaves_runtime(own, name)) {
                return Err(format!("sandbox.tools.{tool}: `{name}` is wider than `{own}` in `{field}`, and a project may only narrow"));
            }
            narrowed.tools.insert(tool.clone(), name.clone());
        }
        Ok(narrowed)
    }

    /// Who makes rooms of this template, if it says so.
    pub fn runtime(&self, name: &str) -> Option<RoomRuntime> {
        self.runtimes.get(name).copied()
    }

    /// The field by which a job of `own` would get out of its runtime, were it one of `named`.
    fn leaves_runtime(&self, own: &str, named: &str) -> Option<&'static str> {
        self.runtime(own).filter(|runtime| self.runtime(named) != Some(*runtime)).map(|_| "runtime")
    }

    /// The field by which a job that has `own` would be wider with `named`. A way out does not count, nor what is worth something there
    /// alone: of secrets a room has only what stands for them, and each request to a model is a call of its own.
    fn widens(&self, own: &Template, named: &Template) -> Option<&'static str> {
        let indoors =
            Template { network: own.network, hosts: own.hosts.clone(), secrets: own.secrets, models: own.models, ..named.clone() };
        indoors.wider_than(own).or_else(|| self.leaves_runtime(&own.name, &named.name))
    }

    pub fn list(&self) -> impl Iterator<Item = &Template> {
        self.all.values()
    }

    /// What a tool has: by configuration, else by its manifest, else the default.
    pub fn of_tool(&self, tool: &str, manifest: Option<&str>) -> Result<&Template, Refusal> {
        self.find(self.tools.get(tool).map(String::as_str).or(manifest).unwrap_or(Template::DEFAULT))
    }

    pub fn find(&self, name: &str) -> Result<&Template, Refusal> {
        self.all.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.all.keys().map(String::as_str).collect();
            Refusal::new(Code::NotFound, format!("there is no template `{name}`")).hint(format!("there are {}", names.join(", ")))
        })
    }
}

impl Policies {
    /// The templates as a zone's trusted files narrow them.
    pub fn templates(&self, trusted: Option<&TrustedPolicy>) -> Result<Arc<Templates>, Refusal> {
        let operator = self.operator_rooms();
        let Some(bundle) = trusted.map(TrustedPolicy::parsed) else { return Ok(operator.templates.clone()) };
        // As long as somebody remembers an address, nothing else gets it.
        let is_same = |known: &&NarrowedTemplates| {
            std::ptr::eq(known.operator.as_ptr(), &raw const *operator) && std::ptr::eq(known.bundle.as_ptr(), &raw const **bundle)
        };
        if let Some(known) = self.narrowed.lock().iter().find(is_same) {
            return Ok(known.templates.clone());
        }
        let templates = Arc::new(narrowed_by(&operator.templates, &bundle.config)?);
        let mut all = self.narrowed.lock();
        all.retain(|known| known.operator.strong_count() > 0 && known.bundle.strong_count() > 0);
        let (operator, bundle) = (Arc::downgrade(&operator), Arc::downgrade(bundle));
        all.push(NarrowedTemplates { operator, bundle, templates: templates.clone() });
        Ok(templates)
    }

    /// The templates as a `skep.yml` narrows them; one that widens is refused.
    pub(crate) fn narrowed(&self, config: &Config) -> Result<Templates, Refusal> {
        narrowed_by(&self.operator_rooms().templates, config)
    }

    /// The bounds of a call's job, narrowed to what its tool's manifest asks for.
    pub fn template_of(&self, trusted: &TrustedPolicy, request: &Request, tool: &tool::RegisteredTool) -> Result<Template, Stop> {
        let mut template = self.template_asked(trusted, request, tool)?;
        let manifest = tool.manifest();
        if !manifest.may_use_network() || request.done_for.as_ref().is_some_and(|other| !other.may_use_network()) {
            template.network = Network::None;
        }
        if tool.needs_container() && self.runtime(request.zone, Some(&template.name))? == RoomRuntime::Native {
            let reason = format!("`{}` runs in containers only, and sandboxes of template `{}` are native", manifest.name, template.name);
            let hint = format!("add `sandbox: {{templates: {{{}: {{runtime: podman}}}}}}` to config.yml in $SKEP_HOME", template.name);
            return Err(Refusal::new(Code::Unsupported, reason).hint(hint).into());
        }
        Ok(template)
    }

    /// A caller may name a template with a way out, and the policy decides whether it gets that; in all
    /// else only the operator's own calls may be wider than the tool.
    fn template_asked(&self, trusted: &TrustedPolicy, request: &Request, tool: &tool::RegisteredTool) -> Result<Template, Refusal> {
        let templates = self.templates(Some(trusted))?;
        if request.hands == world::Hands::Caller {
            // Where its own hands are: the room of a vendor's client.
            return templates.find("brain").cloned();
        }
        let own = templates.of_tool(&request.tool, tool.manifest().template.as_deref())?;
        let Some(named) = request.input.get("template").and_then(serde_json::Value::as_str) else { return Ok(own.clone()) };
        let named = templates.find(named)?;
        if named.profile == Profile::Strict || named.name == "brain" {
            return Err(Refusal::new(Code::BadInput, format!("`{}` is for Skep's own children, not for commands", named.name))
                .hint("take another template, or none")
                .remedy(world::Remedy::List { what: world::Listing::Templates }));
        }
        match templates.widens(own, named).filter(|_| request.pid != Pid::OPERATOR) {
            Some(field) => {
                let reason = format!("`{}` is wider than `{}` in `{field}`, and a caller never widens its sandbox", named.name, own.name);
                Err(Refusal::new(Code::Denied, reason).hint(format!("do without, or with `{}`", own.name)))
            }
            None => Ok(named.clone()),
        }
    }

    /// Every room that calls in a zone may run in, by the tools that there are: the operator's calls, or those of others alone.
    pub(crate) fn usable_rooms(&self, tools: &tool::Registry, trusted: &TrustedPolicy, operator: bool) -> Result<Vec<UsedRoom>, Refusal> {
        let templates = self.templates(Some(trusted))?;
        let mut rooms = BTreeMap::new();
        for manifest in tools.list().map(tool::RegisteredTool::manifest).filter(|manifest| manifest.room == tool::Room::Sandbox) {
            let own = templates.of_tool(&manifest.name, manifest.template.as_deref())?;
            let named = templates.list().filter(|named| named.profile != Profile::Strict && named.name != "brain");
            let usable = named.filter(|named| operator || templates.widens(own, named).is_none());
            rooms.extend(std::iter::once(own).chain(usable).map(|template| (template.name.clone(), used_room(template))));
        }
        Ok(rooms.into_values().collect())
    }
}

fn narrowed_by(operator: &Templates, config: &Config) -> Result<Templates, Refusal> {
    operator.narrowed(&config.sandbox).map_err(|why| {
        Refusal::new(Code::BadInput, format!("skep.yml: {why}")).hint("widen it in config.yml in $SKEP_HOME, or take it out of skep.yml")
    })
}

/// The tool behind `skep sandbox run` and `shell`.
pub const SANDBOX_RUN: &str = "sandbox.run";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> SandboxConfig {
        yaml::from_str(text).unwrap()
    }

    fn operator(text: &str) -> Result<Templates, String> {
        Templates::of_operator(&parse(text))
    }

    #[test]
    fn the_operator_makes_and_widens() {
        let made = operator(
            "templates:\n  code-executor: {memory: 4GiB, duration: 20m, cpu: '1.5'}\n  \
             database: {from: integration-test, pids: 7, hosts: [db.example], disk: 1MiB, files: 3}\ntools: {test.run: database}",
        )
        .unwrap();
        let wide = made.find("code-executor").unwrap();
        assert_eq!((wide.memory_bytes, wide.cpu_milli, wide.wall.unwrap().as_secs()), (Some(4 << 30), Some(1500), 1200));
        let database = made.of_tool("test.run", Some("default")).unwrap();
        assert_eq!((database.name.as_str(), database.pids, database.network), ("database", 7, Network::Restricted));
        assert_eq!(made.of_tool("shell.run", Some("default")).unwrap().name, "default");
        assert!(operator("templates: {mine: {pids: 3}}").unwrap_err().contains("names in `from`"));
        assert!(operator("templates: {default: {memory: lots}}").unwrap_err().starts_with("sandbox.templates.default.memory: `lots`"));
        assert!(operator("templates: {default: {cpu: '-1'}}").unwrap_err().contains("is not a number of processors"));
        assert!(operator("tools: {test.run: nothing}").unwrap_err().contains("no template `nothing`"));
        assert!(yaml::from_str::<SandboxConfig>("templates: {default: {memry: 1}}").is_err());
    }

    #[test]
    fn a_project_only_narrows() {
        let home = operator("").unwrap();
        let narrowed = |text: &str| home.narrowed(&parse(text));
        let less = narrowed("templates: {code-executor: {memory: 512MiB, pids: 9}}\ntools: {shell.run: code-executor}").unwrap();
        assert_eq!(less.of_tool("shell.run", Some("default")).unwrap().pids, 9);
        for (text, wanted) in [
            ("templates: {code-executor: {memory: 64GiB}}", "sandbox.templates.code-executor.memory: a project may only narrow a template"),
            ("templates: {code-executor: {pids: 99999}}", "sandbox.templates.code-executor.pids: a project may only narrow a template"),
            (
                "templates: {code-executor: {network: restricted}}",
                "sandbox.templates.code-executor.network: a project may only narrow a template",
            ),
            (
                "templates: {code-executor: {profile: standard-net}}",
                "sandbox.templates.code-executor.profile: a project may only narrow a template",
            ),
            ("templates: {install: {hosts: [evil.example]}}", "sandbox.templates.install.hosts: a project may only narrow a template"),
            ("templates: {mine: {from: brain}}", "sandbox.templates.mine: a project makes no templates of its own"),
            (
                "tools: {test.run: integration-test}",
                "sandbox.tools.test.run: `integration-test` is wider than `default` in `network`, and a project may only narrow",
            ),
        ] {
            assert_eq!(narrowed(text).unwrap_err(), wanted);
        }
    }

    #[test]
    fn a_runtime_is_the_operators_first_and_no_callers() {
        let fixed = operator("templates: {code-executor: {runtime: podman}, own: {from: code-executor}}").unwrap();
        assert_eq!((fixed.runtime("code-executor"), fixed.runtime("own")), (Some(RoomRuntime::Podman), Some(RoomRuntime::Podman)));
        assert_eq!(fixed.runtime("default"), None);
        let changed = fixed.narrowed(&parse("templates: {code-executor: {runtime: native}}")).unwrap_err();
        assert_eq!(changed, "sandbox.templates.code-executor.runtime: the operator has fixed podman");
        let added = fixed.narrowed(&parse("templates: {default: {runtime: docker}}")).unwrap();
        assert_eq!((added.runtime("default"), added.runtime("own")), (Some(RoomRuntime::Docker), Some(RoomRuntime::Podman)));
        assert_eq!(added.leaves_runtime("own", "default"), Some("runtime"));
        assert_eq!(added.leaves_runtime("own", "code-executor"), None);
        // From a tool's template that names none, any may be had that is no wider.
        assert_eq!(fixed.leaves_runtime("default", "own"), None);
    }
}
