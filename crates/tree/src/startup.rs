//! The startup file: agents that the kernel begins with, in HiveKernel's JSON or the same in YAML.
//!
//! A folder with `agents.yaml`, `budgets.yaml` and `permissions.yaml` is read as one file with these sections. **Invariant.** An agent whose name is
//! in the tree already is not spawned again, so a restart brings back what there was and adds nothing.

mod budget;

use crate::spawn::SHOWN;
use crate::{SpawnOrder, Tree};
use budget::{WrittenAmount, budget_of};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use world::{
    Budget, CronAction, CronSpec, Fault, FaultKind, MissedRule, OverlapRule, Pid, ProcessRole, ProgramLimits, ProgramRuntime,
    ProgramSchedule, Stop, Tier,
};

/// What an agent of a startup file has where nobody says otherwise, as HiveKernel has it.
const LIMITS: ProgramLimits = ProgramLimits {
    tokens_per_hour: Some(100_000),
    context: Some(128_000),
    children: Some(10),
    tasks: Some(5),
    timeout_ms: Some(300_000),
    tokens_total: None,
    memory_mb: None,
    cpu_milli: None,
};

/// What a startup file asks for.
#[derive(Clone, Debug, Default)]
pub struct Startup {
    agents: Vec<StartupAgent>,
    /// Of the whole tree.
    budget: Option<Budget>,
    /// Where the file lies: texts, code and workspaces are found from there.
    folder: PathBuf,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StartupFile {
    agents: Vec<StartupAgent>,
    budgets: BTreeMap<String, WrittenAmount>,
    /// Tools by the name of an agent or by a role.
    permissions: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartupAgent {
    name: String,
    #[serde(default)]
    role: Option<String>,
    #[serde(default, alias = "cog")]
    cognitive_tier: Option<String>,
    #[serde(default)]
    model: String,
    #[serde(default)]
    runtime_type: Option<String>,
    #[serde(default)]
    runtime_image: String,
    #[serde(default)]
    system_prompt: String,
    #[serde(default)]
    system_prompt_file: Option<PathBuf>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    workspace: Option<PathBuf>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    claw_config: Option<ClawConfig>,
    #[serde(default)]
    cron: Vec<StartupCron>,
    /// Another agent of this file, or one that is there.
    #[serde(default)]
    parent: Option<String>,
    #[serde(default)]
    user: Option<String>,
    /// What is set aside for it, by tier.
    #[serde(default)]
    budget: BTreeMap<String, WrittenAmount>,
    #[serde(default)]
    limits: Option<ProgramLimits>,
    #[serde(default)]
    initial_task: Option<String>,
    #[serde(default)]
    schedule: Option<ProgramSchedule>,
    #[serde(default = "yes")]
    confined: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClawConfig {
    #[serde(default)]
    workspace: String,
    #[serde(default)]
    provider: String,
    #[serde(default)]
    max_tool_iterations: Option<u64>,
    #[serde(default)]
    restrict_to_workspace: Option<bool>,
    #[serde(default)]
    channels: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartupCron {
    name: String,
    expression: String,
    #[serde(default)]
    action: Option<String>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    params: BTreeMap<String, String>,
    #[serde(default)]
    timezone: String,
}

fn yes() -> bool {
    true
}

impl Startup {
    /// Reads a file, or a folder of the three.
    pub fn read(path: &Path) -> Result<Startup, Fault> {
        let path = path.canonicalize().map_err(|error| Fault::io("open", path, error))?;
        let mut file = StartupFile::default();
        if path.is_dir() {
            for name in ["agents", "budgets", "permissions"] {
                let part = ["yaml", "yml", "json"].map(|kind| path.join(name).with_extension(kind)).into_iter().find(|part| part.is_file());
                if let Some(part) = part {
                    file.take(parse(&part, Some(name))?);
                }
            }
        } else {
            file = parse(&path, None)?;
        }
        let folder = if path.is_dir() { path.clone() } else { path.parent().unwrap_or(Path::new("/")).to_owned() };
        for agent in &mut file.agents {
            agent.check(&path)?;
            let role = agent.role.clone().unwrap_or_else(|| ProcessRole::Daemon.as_str().to_owned());
            if agent.tools.is_empty() {
                let allowed = file.permissions.get(&agent.name).or_else(|| file.permissions.get(&role));
                agent.tools = allowed.cloned().unwrap_or_default();
            }
        }
        let budget = budget_of(&file.budgets).map_err(|why| unusable(&path, why))?;
        Ok(Startup { agents: file.agents, budget, folder })
    }
}

impl StartupFile {
    fn take(&mut self, other: StartupFile) {
        self.agents.extend(other.agents);
        self.budgets.extend(other.budgets);
        self.permissions.extend(other.permissions);
    }
}

impl StartupAgent {
    fn check(&self, path: &Path) -> Result<(), Fault> {
        let bad = |why: String| Err(unusable(path, format!("agent `{}`: {why}", self.name)));
        if self.name.trim().is_empty() {
            return bad("it has no name".to_owned());
        }
        if let Err(why) = budget_of(&self.budget) {
            return bad(why);
        }
        match (&self.role, &self.cognitive_tier, &self.runtime_type) {
            (Some(role), ..) if ProcessRole::parse(&role.to_ascii_lowercase()).is_none() => bad(format!("there is no role `{role}`")),
            (_, Some(tier), _) if Tier::parse(&tier.to_ascii_lowercase()).is_none() => bad(format!("there is no tier `{tier}`")),
            (.., Some(runtime)) if runtime_of(runtime).is_none() => bad(format!("there is no runtime `{runtime}`")),
            _ => match self.cron.iter().find(|cron| cron.action.as_deref().is_some_and(|action| CronAction::parse(action).is_none())) {
                Some(cron) => bad(format!("cron `{}` has no action that there is", cron.name)),
                None => Ok(()),
            },
        }
    }
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> Fault {
    Fault::new(FaultKind::Settings, format!("`{}` cannot be used", path.display()), why)
}

/// Reads one file; `section` says what it holds where it does not say so itself.
fn parse(path: &Path, section: Option<&str>) -> Result<StartupFile, Fault> {
    let text = yaml::read_file(path).map_err(|error| Fault::io("read", path, error))?;
    let is_json = path.extension().is_some_and(|kind| kind == "json");
    let read = |text: &str| -> Result<StartupFile, String> {
        if is_json {
            serde_json::from_str(text).map_err(|error| error.to_string())
        } else {
            yaml::from_str(text).map_err(|error| error.to_string())
        }
    };
    let whole = read(&text);
    match (section, whole) {
        (_, Ok(file)) => Ok(file),
        (Some(name), Err(_)) if !is_json => {
            let indented: String = text.lines().map(|line| format!("  {line}\n")).collect();
            read(&format!("{name}:\n{indented}")).map_err(|why| unusable(path, why))
        }
        (_, Err(why)) => Err(unusable(path, why)),
    }
}

fn runtime_of(name: &str) -> Option<ProgramRuntime> {
    let plain = name.to_ascii_lowercase();
    ProgramRuntime::parse(plain.strip_prefix("runtime_").unwrap_or(&plain))
}

impl Tree {
    /// Spawns what a startup file asks for and is not there, parents first.
    pub(crate) async fn run_startup(&self, startup: Startup) {
        if let Some(budget) = startup.budget.clone() {
            let is_set = self.ledger.look(|world| world.books.accounts.get(&Pid::KERNEL).is_some_and(|account| account.budget.is_some()));
            if !is_set && let Err(stop) = self.ledger.set_budget(Pid::KERNEL, Some(budget), "startup").await {
                world::log!("skep: the budget of the startup file is not in force: {stop}");
            }
        }
        for agent in &startup.agents {
            if let Err(stop) = self.run_startup_agent(agent, &startup.folder).await {
                world::log!("skep: `{}` of the startup file was not spawned: {stop}", agent.name);
            }
        }
    }

    async fn run_startup_agent(&self, agent: &StartupAgent, folder: &Path) -> Result<(), Stop> {
        let order = self.startup_order(agent, folder)?;
        let find = |name: &str| {
            self.ledger.look(|world| {
                let names = [name.to_owned(), with_node(name)];
                let found = world.processes.values().find(|process| process.state.alive() && names.contains(&process.name));
                found.map(|process| process.pid)
            })
        };
        if find(&order.name).is_some() {
            return Ok(());
        }
        let parent = agent.parent.as_deref().and_then(find);
        let pid = self.spawn(Pid::KERNEL, SpawnOrder { parent, ..order }).await?;
        for cron in &agent.cron {
            let spec = CronSpec {
                name: cron.name.clone(),
                expression: cron.expression.clone(),
                timezone: cron.timezone.clone(),
                action: cron.action.as_deref().and_then(CronAction::parse).unwrap_or(CronAction::Message),
                target: pid,
                description: cron.description.clone(),
                params: cron.params.clone(),
                program: None,
                enabled: true,
                overlap: OverlapRule::default(),
                missed: MissedRule::default(),
                jitter_ms: 0,
            };
            self.cron_add(Pid::KERNEL, spec).await?;
        }
        Ok(())
    }

    fn startup_order(&self, agent: &StartupAgent, folder: &Path) -> Result<SpawnOrder, Fault> {
        let role = agent.role.as_deref().and_then(|role| ProcessRole::parse(&role.to_ascii_lowercase())).unwrap_or(ProcessRole::Daemon);
        let tier = agent.cognitive_tier.as_deref().and_then(|tier| Tier::parse(&tier.to_ascii_lowercase())).unwrap_or(Tier::Operational);
        let runtime = agent.runtime_type.as_deref().and_then(runtime_of).unwrap_or(ProgramRuntime::Python);
        let system_prompt = match &agent.system_prompt_file {
            Some(file) => {
                let path = folder.join(file);
                std::fs::read_to_string(&path).map_err(|error| Fault::io("read", &path, error))?
            }
            None => agent.system_prompt.clone(),
        };
        let mut metadata = agent.metadata.clone();
        if !agent.tools.is_empty() {
            metadata.insert("agent.tools".to_owned(), agent.tools.join(","));
        }
        if let Some(workspace) = &agent.workspace {
            let own = folder.join(workspace).join(&agent.name);
            std::fs::create_dir_all(&own).map_err(|error| Fault::io("make", &own, error))?;
            metadata.insert(crate::program::WORKSPACE.to_owned(), own.display().to_string());
        }
        if let Some(claw) = &agent.claw_config {
            metadata.extend(self.claw_metadata(claw));
        }
        // The code of its agents lies beside the file.
        metadata.entry(SHOWN.to_owned()).or_insert_with(|| folder.display().to_string());
        Ok(SpawnOrder {
            parent: None,
            name: if role == ProcessRole::Daemon { with_node(&agent.name) } else { agent.name.clone() },
            role,
            tier,
            model: agent.model.clone(),
            system_prompt,
            tools: agent.tools.clone(),
            env: agent.env.clone(),
            metadata,
            // What one below another does not say is its parent's.
            limits: agent.limits.unwrap_or(if agent.parent.is_some() { ProgramLimits::default() } else { LIMITS }),
            budget: budget_of(&agent.budget).map_err(|why| unusable(folder, why))?,
            runtime: if agent.runtime_image.is_empty() { ProgramRuntime::Virtual } else { runtime },
            image: agent.runtime_image.clone(),
            initial_task: agent.initial_task.clone(),
            schedule: agent.schedule.clone(),
            user: agent.user.clone(),
            confined: agent.confined,
        })
    }

    fn claw_metadata(&self, claw: &ClawConfig) -> Vec<(String, String)> {
        let mut all = Vec::new();
        let mut add = |key: &str, value: String| all.push((format!("claw.{key}"), value));
        if !claw.workspace.is_empty() {
            add("workspace", claw.workspace.clone());
        }
        if !claw.provider.is_empty() {
            add("provider", claw.provider.clone());
        }
        if let Some(most) = claw.max_tool_iterations {
            add("max_tool_iterations", most.to_string());
        }
        if let Some(is_restricted) = claw.restrict_to_workspace {
            add("restrict_to_workspace", is_restricted.to_string());
        }
        if !claw.channels.is_empty() {
            add("channels", claw.channels.join(","));
        }
        for (name, value) in &claw.env {
            add(&format!("env.{name}"), self.expanded(value));
        }
        all
    }

    /// A text with the kernel's own variables in the place of `${NAME}`; one that is not set is empty.
    fn expanded(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once("${") {
            out.push_str(before);
            match behind.split_once('}') {
                Some((name, after)) => {
                    out.push_str(self.variable(name).unwrap_or_default());
                    rest = after;
                }
                None => {
                    out.push_str("${");
                    rest = behind;
                }
            }
        }
        out.push_str(rest);
        out
    }
}

/// `queen` is `queen@NODE`: a daemon belongs to its machine.
fn with_node(name: &str) -> String {
    if name.contains('@') { name.to_owned() } else { format!("{name}@{}", node()) }
}

/// The name of this machine.
pub(crate) fn node() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "local".to_owned() } else { name }
}
