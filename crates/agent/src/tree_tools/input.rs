//! What a brain gives the tools of the tree, read strictly: a field that nobody knows is told, never passed over.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;
use tree::{ArtifactOrder, ArtifactQuery, EscalationOrder, KillOrder, MessageOrder, QueueFilter, SpawnOrder, TaskOrder};
use world::budget::ALL_TIERS;
use world::{
    ArtifactId, Budget, Code, EndReason, MessagePriority, Pid, ProcessRole, ProgramLimits, ProgramRuntime, Recipient, Refusal, Severity,
    Tier, Visibility,
};

/// How long a call waits where nobody says so. Clients give up on a tool after a minute.
const WAIT_SECONDS: u64 = 50;
/// How long it may wait at most.
const WAIT_SECONDS_MAX: u64 = 3_600;

/// Reads the arguments of one tool.
pub(super) fn read<T: DeserializeOwned>(arguments: &Value) -> Result<T, Refusal> {
    let arguments = if arguments.is_null() { json!({}) } else { arguments.clone() };
    if !arguments.is_object() {
        return Err(bad("the arguments are no object"));
    }
    serde_json::from_value(arguments).map_err(|error| bad(error.to_string()))
}

fn bad(reason: impl Into<String>) -> Refusal {
    Refusal::new(Code::BadInput, reason)
}

/// The one of two that is there.
fn one_of<A, B>(names: [&str; 2], one: Option<A>, other: Option<B>) -> Result<Result<A, B>, Refusal> {
    let [first, second] = names;
    match (one, other) {
        (Some(one), None) => Ok(Ok(one)),
        (None, Some(other)) => Ok(Err(other)),
        (None, None) => Err(bad(format!("name `{first}` or `{second}`"))),
        (Some(_), Some(_)) => Err(bad(format!("name `{first}` or `{second}`, not both"))),
    }
}

fn waits(seconds: Option<u64>, otherwise: u64) -> Duration {
    Duration::from_secs(seconds.unwrap_or(otherwise).min(WAIT_SECONDS_MAX))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoInput {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpawnInput {
    name: String,
    role: Option<ProcessRole>,
    tier: Option<Tier>,
    model: Option<String>,
    runtime: Option<ProgramRuntime>,
    image: Option<String>,
    brain: Option<String>,
    prompt: Option<String>,
    task: Option<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    limits: LimitsInput,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsInput {
    tokens: Option<u64>,
    tokens_per_hour: Option<u64>,
    context: Option<u64>,
    children: Option<u64>,
    tasks: Option<u64>,
    timeout_seconds: Option<u64>,
}

impl SpawnInput {
    /// What was not said is the least: a worker of the lowest tier that runs nothing.
    pub fn order(self) -> Result<SpawnOrder, Refusal> {
        let (image, runtime) = match (self.brain, self.runtime, self.image) {
            (Some(brain), None | Some(ProgramRuntime::Brain), None) => (brain, ProgramRuntime::Brain),
            (Some(_), ..) => return Err(bad("name a `brain`, or a `runtime` with its `image`")),
            (None, runtime, image) => (image.unwrap_or_default(), runtime.unwrap_or(ProgramRuntime::Virtual)),
        };
        if runtime == ProgramRuntime::Virtual && self.task.is_some() {
            return Err(bad("a virtual agent runs nothing that could do a `task`")
                .hint("name its `brain`, or its `runtime` and `image`, or send it a message"));
        }
        let LimitsInput { tokens, tokens_per_hour, context, children, tasks, timeout_seconds } = self.limits;
        let timeout_ms = timeout_seconds.map(|seconds| seconds.saturating_mul(1_000));
        Ok(SpawnOrder {
            parent: None,
            name: self.name,
            role: self.role.unwrap_or(ProcessRole::Worker),
            tier: self.tier.unwrap_or(Tier::Operational),
            model: self.model.unwrap_or_default(),
            system_prompt: self.prompt.unwrap_or_default(),
            tools: self.tools,
            env: BTreeMap::new(),
            metadata: BTreeMap::new(),
            limits: ProgramLimits {
                tokens_per_hour,
                context,
                children,
                tasks,
                timeout_ms,
                tokens_total: tokens,
                ..ProgramLimits::default()
            },
            // Taken from the caller's own account.
            budget: tokens.map(|total| Budget { tokens: [(ALL_TIERS.to_owned(), total)].into(), ..Budget::default() }),
            runtime,
            image,
            initial_task: self.task.filter(|task| !task.is_empty()),
            schedule: None,
            user: None,
            confined: true,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkInput {
    pid: u64,
    task: String,
    #[serde(default)]
    params: BTreeMap<String, String>,
    timeout_seconds: Option<u64>,
    wait_seconds: Option<u64>,
}

impl WorkInput {
    /// Who is to do it, what, and how long the caller waits for it.
    pub fn order(self) -> Result<(Pid, TaskOrder, Duration), Refusal> {
        if self.task.trim().is_empty() {
            return Err(bad("`task` is empty"));
        }
        let timeout = self.timeout_seconds.map(Duration::from_secs);
        let order = TaskOrder { description: self.task, params: self.params, timeout, ..TaskOrder::default() };
        Ok((Pid(self.pid), order, waits(self.wait_seconds, WAIT_SECONDS)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitInput {
    pid: Option<u64>,
    work: Option<u64>,
    wait_seconds: Option<u64>,
}

/// What is waited for.
#[derive(Debug, PartialEq)]
pub(super) enum Awaited {
    End(Pid),
    /// A task that `agent_execute` gave, by its number.
    Work(u64),
}

impl WaitInput {
    pub fn order(self) -> Result<(Awaited, Duration), Refusal> {
        let awaited = match one_of(["pid", "work"], self.pid, self.work)? {
            Ok(pid) => Awaited::End(Pid(pid)),
            Err(work) => Awaited::Work(work),
        };
        Ok((awaited, waits(self.wait_seconds, WAIT_SECONDS)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KillInput {
    pid: u64,
    recursive: Option<bool>,
    grace_seconds: Option<u64>,
}

impl KillInput {
    pub fn order(self) -> KillOrder {
        KillOrder {
            target: Pid(self.pid),
            recursive: self.recursive.unwrap_or(true),
            reason: EndReason::UserRequest,
            grace: waits(self.grace_seconds, 0),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SendInput {
    to_pid: Option<u64>,
    to_queue: Option<String>,
    kind: String,
    body: Option<String>,
    priority: Option<MessagePriority>,
    ttl_seconds: Option<u64>,
    reply_to: Option<String>,
    #[serde(default)]
    requires_ack: bool,
}

impl SendInput {
    pub fn order(self) -> Result<MessageOrder, Refusal> {
        let to = match one_of(["to_pid", "to_queue"], self.to_pid, self.to_queue)? {
            Ok(pid) => Recipient::Process(Pid(pid)),
            Err(queue) => Recipient::Queue(queue),
        };
        Ok(MessageOrder {
            to,
            kind: self.kind,
            priority: self.priority.unwrap_or(MessagePriority::Normal),
            body: self.body.unwrap_or_default().into_bytes(),
            requires_ack: self.requires_ack,
            ttl: self.ttl_seconds.map(Duration::from_secs),
            reply_to: self.reply_to,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MailInput {
    queue: Option<String>,
    kind: Option<String>,
    wait_seconds: Option<u64>,
}

impl MailInput {
    pub fn order(self) -> (QueueFilter, Duration) {
        (QueueFilter { queue: self.queue, kind: self.kind, ..QueueFilter::default() }, waits(self.wait_seconds, 0))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreInput {
    key: String,
    content: String,
    content_type: Option<String>,
    visibility: Option<Visibility>,
}

impl StoreInput {
    pub fn order(self) -> ArtifactOrder {
        ArtifactOrder {
            key: self.key,
            content: self.content.into_bytes(),
            content_type: self.content_type.unwrap_or_else(|| "text/plain".to_owned()),
            visibility: self.visibility.unwrap_or(Visibility::Private),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArtifactInput {
    key: Option<String>,
    id: Option<ArtifactId>,
    offset: Option<usize>,
}

impl ArtifactInput {
    /// Which one, and how many characters of it are known already.
    pub fn order(self) -> Result<(ArtifactQuery, usize), Refusal> {
        let which = match one_of(["key", "id"], self.key, self.id)? {
            Ok(key) => ArtifactQuery::Key(key),
            Err(id) => ArtifactQuery::Id(id),
        };
        Ok((which, self.offset.unwrap_or(0)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ArtifactsInput {
    #[serde(default)]
    pub prefix: String,
    pub stored_by: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EscalateInput {
    issue: String,
    severity: Option<Severity>,
    #[serde(default)]
    context: BTreeMap<String, String>,
    auto: Option<bool>,
}

impl EscalateInput {
    pub fn order(self) -> EscalationOrder {
        EscalationOrder {
            issue: self.issue,
            severity: self.severity.unwrap_or(Severity::Warning),
            context: self.context,
            auto: self.auto.unwrap_or(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(result: Result<T, Refusal>) -> String {
        match result {
            Ok(_) => "it was read".to_owned(),
            Err(refusal) => {
                assert_eq!(refusal.code, Code::BadInput);
                refusal.reason
            }
        }
    }

    fn spawn(arguments: Value) -> Result<SpawnOrder, Refusal> {
        read::<SpawnInput>(&arguments)?.order()
    }

    #[test]
    fn a_spawn_is_the_least_where_nothing_is_said() {
        let order = spawn(json!({ "name": "helper" })).unwrap();
        assert_eq!((order.role, order.tier, order.runtime), (ProcessRole::Worker, Tier::Operational, ProgramRuntime::Virtual));
        assert!(order.confined && order.parent.is_none() && order.user.is_none() && order.env.is_empty() && order.budget.is_none());
        let order = spawn(json!({
            "name": "helper", "role": "lead", "tier": "tactical", "model": "m", "runtime": "python", "image": "shop:Shop", "prompt": "be brief",
            "task": "look", "tools": ["web"], "limits": { "tokens": 600, "timeout_seconds": 3, "children": 2 },
        }));
        let order = order.unwrap();
        assert_eq!((order.role, order.tier, order.runtime), (ProcessRole::Lead, Tier::Tactical, ProgramRuntime::Python));
        assert_eq!(
            (order.image.as_str(), order.system_prompt.as_str(), order.initial_task.as_deref()),
            ("shop:Shop", "be brief", Some("look"))
        );
        assert_eq!((order.limits.tokens_total, order.limits.timeout_ms, order.limits.children), (Some(600), Some(3_000), Some(2)));
        assert_eq!(order.budget.unwrap().tokens[ALL_TIERS], 600);
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_field() {
        assert_eq!(refused(spawn(json!({}))), "missing field `name`");
        assert!(refused(spawn(json!({ "name": "a", "user": "root" }))).starts_with("unknown field `user`, expected one of `name`, `role`"));
        assert!(
            refused(spawn(json!({ "name": "a", "tier": "divine" }))).starts_with("unknown variant `divine`, expected one of `strategic`")
        );
        assert!(refused(spawn(json!({ "name": "a", "limits": { "tokens": -1 } }))).contains("expected u64"));
        assert!(refused(spawn(json!({ "name": "a", "task": "go" }))).starts_with("a virtual agent runs nothing"));
        let both = "name a `brain`, or a `runtime` with its `image`";
        assert_eq!(refused(spawn(json!({ "name": "a", "brain": "native", "image": "x" }))), both);
        assert_eq!(refused(spawn(json!({ "name": "a", "brain": "native", "runtime": "python" }))), both);
        let order = spawn(json!({ "name": "a", "brain": "claude", "task": "go" })).unwrap();
        assert_eq!((order.runtime, order.image.as_str(), order.initial_task.as_deref()), (ProgramRuntime::Brain, "claude", Some("go")));
        assert_eq!(refused(spawn(json!(["a"]))), "the arguments are no object");
        assert!(refused(read::<WorkInput>(&json!({ "pid": "five", "task": "x" }))).contains("invalid type: string \"five\""));
        assert_eq!(refused(read::<WorkInput>(&json!({ "pid": 5, "task": " " })).unwrap().order()), "`task` is empty");
        assert_eq!(refused(read::<ArtifactInput>(&json!({ "id": "7" }))), "`7` is not of the form art-3");
    }

    #[test]
    fn one_of_two_is_named_and_not_both() {
        let wait = |arguments: Value| read::<WaitInput>(&arguments).unwrap().order();
        assert_eq!(wait(json!({ "pid": 5 })), Ok((Awaited::End(Pid(5)), Duration::from_secs(WAIT_SECONDS))));
        assert_eq!(wait(json!({ "work": 1, "wait_seconds": 99_999 })), Ok((Awaited::Work(1), Duration::from_secs(WAIT_SECONDS_MAX))));
        assert_eq!(refused(wait(json!({}))), "name `pid` or `work`");
        assert_eq!(refused(wait(json!({ "pid": 5, "work": 1 }))), "name `pid` or `work`, not both");
        let send = |arguments: Value| read::<SendInput>(&arguments).unwrap().order();
        let order = send(json!({ "to_queue": "results", "kind": "x", "body": "é", "ttl_seconds": 9, "priority": "high" })).unwrap();
        assert_eq!((order.to, order.body.as_slice()), (Recipient::Queue("results".into()), "é".as_bytes()));
        assert_eq!((order.ttl, order.priority), (Some(Duration::from_secs(9)), MessagePriority::High));
        assert_eq!(refused(send(json!({ "kind": "x" }))), "name `to_pid` or `to_queue`");
        let which = |arguments: Value| read::<ArtifactInput>(&arguments).unwrap().order();
        assert_eq!(which(json!({ "id": "art-7", "offset": 3 })), Ok((ArtifactQuery::Id(ArtifactId(7)), 3)));
        assert_eq!(refused(which(json!({}))), "name `key` or `id`");
    }

    #[test]
    fn what_is_stored_is_private_until_somebody_says_otherwise() {
        let store = |arguments: Value| read::<StoreInput>(&arguments).unwrap().order();
        assert_eq!(store(json!({ "key": "k", "content": "c" })).visibility, Visibility::Private);
        assert_eq!(store(json!({ "key": "k", "content": "c", "visibility": "subtree" })).visibility, Visibility::Subtree);
        let trouble = read::<EscalateInput>(&json!({ "issue": "no key" })).unwrap().order();
        assert_eq!((trouble.severity, trouble.auto), (Severity::Warning, true));
        let kill = read::<KillInput>(&json!({ "pid": 7, "recursive": false })).unwrap().order();
        assert_eq!((kill.target, kill.recursive, kill.reason), (Pid(7), false, EndReason::UserRequest));
        let (filter, wait) = read::<MailInput>(&Value::Null).unwrap().order();
        assert_eq!((filter.queue, filter.kind, wait), (None, None, Duration::ZERO));
    }
}
