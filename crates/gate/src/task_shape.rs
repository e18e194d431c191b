//! What a task is beside its prompt: the role of its worker, the skill that it is, the tools that it is left with.
//!
//! All of it comes from the policy files in force, so a worker cannot give itself a role. **Invariant.** Nothing here allows a call: a role
//! is words and a shorter list of tools, and a command of a skill is a call that is judged as any other.

use crate::{Gate, PERSON_ASK, Parsed, Request, SkillWork, WORKER_NAME, WORKER_ROLE};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use world::event::SkillUsed;
use world::{Code, Pid, Refusal, Remedy, TaskId, ToolList, near};

/// Who is to do a task, with what.
#[derive(Clone, Debug, Default)]
pub struct TaskShape {
    /// A role of the project; the worker that every project has without it.
    pub role: Option<String>,
    pub skill: Option<String>,
    /// Values of the skill's parameters, as they were typed.
    pub params: BTreeMap<String, String>,
    /// The only tools that it may use.
    pub tools: Option<Vec<String>>,
    /// How strictly tests come first.
    pub discipline: Option<world::Discipline>,
}

/// The same by what the project's files say.
pub struct ShapedTask {
    /// `None` for the worker that every project has.
    pub role: Option<String>,
    pub prompt: String,
    /// What it runs, where it is a skill that needs no mind.
    pub command: Option<Vec<String>>,
    pub lists: Vec<ToolList>,
    pub skill: Option<ChosenSkill>,
}

/// A skill with the values of its parameters.
#[derive(Clone, Debug)]
pub struct ChosenSkill {
    pub role: Option<String>,
    pub name: String,
    pub values: BTreeMap<String, Value>,
}

impl ChosenSkill {
    pub fn used(self, pid: Pid, task: TaskId) -> SkillUsed {
        SkillUsed { pid, task: Some(task), role: self.role, skill: self.name, params: self.values }
    }
}

impl Gate {
    /// What the project's files make of a task.
    pub fn shape(&self, trusted: &Parsed, prompt: &str, shape: &TaskShape) -> Result<ShapedTask, Refusal> {
        if shape.skill.is_none() && !shape.params.is_empty() {
            return Err(Refusal::new(Code::BadInput, "parameters are a skill's, and no skill is named").hint("name the skill"));
        }
        let mut lists = Vec::new();
        if let Some(tools) = &shape.tools {
            self.check_tools(tools)?;
            lists.push(ToolList { of: "the task".to_owned(), tools: tools.clone() });
        }
        let known = shape.skill.as_deref().map(|skill| trusted.find_skill(skill, shape.role.as_deref())).transpose()?;
        let role = match &known {
            Some(known) => known.role.map(str::to_owned),
            None => shape.role.clone().filter(|role| !trusted.is_hero(role)),
        };
        let name = role.as_deref().or(trusted.config.crew.hero.role.as_deref()).unwrap_or(WORKER_ROLE);
        lists.extend(trusted.tool_lists(name, trusted.role(name)?));
        let Some(known) = known else {
            return Ok(ShapedTask { role, prompt: prompt.to_owned(), command: None, lists, skill: None });
        };
        let values = known.skill.values(&shape.params)?;
        lists.extend(known.skill.tools.clone().map(|tools| ToolList { of: format!("skill {}", known.skill.name), tools }));
        let (text, command) = match known.skill.filled_in(&values) {
            SkillWork::Prompt(text) => (text, None),
            SkillWork::Command(words) => (words.join(" "), Some(words)),
        };
        let prompt = if prompt.trim().is_empty() { text } else { format!("{text}\n\n{prompt}") };
        let skill = Some(ChosenSkill { role: role.clone(), name: known.skill.name.clone(), values });
        Ok(ShapedTask { role, prompt, command, lists, skill })
    }

    /// Refuses a list that names what is no tool: a typo would leave a task without it.
    fn check_tools(&self, tools: &[String]) -> Result<(), Refusal> {
        crate::check_tools(tools).map_err(|why| Refusal::new(Code::BadInput, why))?;
        let of_tree: Vec<&str> = policy::tree_calls().collect();
        let registered = self.tools.list().map(|tool| tool.manifest().name.as_str());
        let names: Vec<&str> = registered.chain(UNREGISTERED).chain(of_tree).collect();
        let is_known = |tool: &str| {
            let list = ToolList { of: String::new(), tools: vec![tool.to_owned()] };
            names.iter().any(|name| list.has(name))
        };
        match tools.iter().find(|tool| !is_known(tool)) {
            Some(tool) => {
                let refusal = Refusal::new(Code::NotFound, format!("there is no tool `{tool}`"));
                let refusal = match names
                    .iter()
                    .copied()
                    .min_by_key(|name| near::distance(tool, name))
                    .filter(|name| near::distance(tool, name) <= 2)
                {
                    Some(other) => refusal.hint(format!("did you mean `{other}`?")),
                    None => refusal,
                };
                Err(refusal.remedy(Remedy::List { what: world::Listing::Tools }))
            }
            None => Ok(()),
        }
    }

    /// What programs of a task are told about it. None of it is secret, and nothing trusts it.
    pub async fn task_variables(&self, request: &Request) -> Vec<(String, String)> {
        let found = self.ledger.look(|world| {
            let task = world.tasks.get(&request.task?)?;
            Some((task.clone(), world.processes.get(&task.pid)?.clone()))
        });
        let Some((task, process)) = found else { return Vec::new() };
        let role = if process.role == WORKER_ROLE { WORKER_NAME } else { process.role.as_str() };
        let mut variables = vec![
            ("SKEP_ZONE", format!("@{}", self.policies.branch(task.zone).await)),
            ("SKEP_TASK", task.id.to_string()),
            ("SKEP_WHO", process.name.clone()),
            ("SKEP_ROLE", role.to_owned()),
            ("SKEP_MODE", task.present_mode().as_str().to_owned()),
            ("SKEP_SESSION", format!("{}.{}", task.id, task.episodes)),
            ("SKEP_WHEN", (task.queued_ms / 1000).to_string()),
        ];
        variables.extend(task.skill.map(|skill| ("SKEP_SKILL", skill)));
        variables.extend(task.hook.map(|artifact| ("SKEP_HOOK", artifact)));
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// Calls that no manifest stands for.
const UNREGISTERED: [&str; 3] = ["net.connect", "net.request", PERSON_ASK];

/// A script that runs one command, and ends as it ends.
pub fn command_script(command: &[String]) -> String {
    format!("call shell.run command={}\nresult\n", json!(command))
}
