//! HiveKernel's messages as orders of the tree, and what the tree knows as HiveKernel's messages. Pure.
//!
//! Both faces use it: the calls of a program's own task stream, and the gRPC service. proto3 has no absence, so zero and the empty text mean
//! that nothing was said.

use crate::order::{ArtifactOrder, EscalationOrder, KillOrder, LogLine, MessageOrder, SpawnOrder, TaskOrder};
use hive::generated::agent::{
    AgentRole, AgentState, ArtifactVisibility, CognitiveTier, EscalateRequest, EscalationSeverity, KillRequest, LogLevel, LogRequest,
    MessageRelation, Priority, ResourceLimits, RuntimeType, SendMessageRequest, ShutdownReason, SpawnRequest, StoreArtifactRequest,
    TaskRequest, TaskResult,
};
use std::time::Duration;
use world::budget::ALL_TIERS;
use world::{
    Budget, Code, EndReason, ExecuteResult, MessagePriority, Pid, ProcessRole, ProcessState, ProgramLimits, ProgramRuntime,
    ProgramSchedule, Recipient, Refusal, SenderRelation, Severity, Stop, Tier, Visibility,
};

/// What a refusal or a fault is in the error field of an answer. A policy's no says so.
pub fn error_text(stop: &Stop) -> String {
    match stop {
        Stop::Refused(refusal) => {
            let hint = refusal.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
            match refusal.code {
                Code::Denied if !refusal.reason.contains("denied") => format!("denied: {}{hint}", refusal.reason),
                _ => format!("{}{hint}", refusal.reason),
            }
        }
        Stop::Failed(fault) => fault.to_string(),
    }
}

fn unknown(what: &str, number: i32) -> Refusal {
    Refusal::new(Code::BadInput, format!("there is no {what} with the number {number}"))
}

pub fn role(number: i32) -> Result<ProcessRole, Refusal> {
    Ok(match AgentRole::try_from(number).map_err(|_| unknown("role", number))? {
        AgentRole::RoleKernel => ProcessRole::Kernel,
        AgentRole::RoleDaemon => ProcessRole::Daemon,
        AgentRole::RoleAgent => ProcessRole::Agent,
        AgentRole::RoleArchitect => ProcessRole::Architect,
        AgentRole::RoleLead => ProcessRole::Lead,
        AgentRole::RoleWorker => ProcessRole::Worker,
        AgentRole::RoleTask => ProcessRole::Task,
    })
}

pub fn agent_role(role: ProcessRole) -> AgentRole {
    match role {
        ProcessRole::Kernel => AgentRole::RoleKernel,
        ProcessRole::Daemon => AgentRole::RoleDaemon,
        ProcessRole::Agent => AgentRole::RoleAgent,
        ProcessRole::Architect => AgentRole::RoleArchitect,
        ProcessRole::Lead => AgentRole::RoleLead,
        ProcessRole::Worker => AgentRole::RoleWorker,
        ProcessRole::Task => AgentRole::RoleTask,
    }
}

pub fn tier(number: i32) -> Result<Tier, Refusal> {
    Ok(match CognitiveTier::try_from(number).map_err(|_| unknown("cognitive tier", number))? {
        CognitiveTier::CogStrategic => Tier::Strategic,
        CognitiveTier::CogTactical => Tier::Tactical,
        CognitiveTier::CogOperational => Tier::Operational,
    })
}

pub fn cognitive_tier(tier: Tier) -> CognitiveTier {
    match tier {
        Tier::Strategic => CognitiveTier::CogStrategic,
        Tier::Tactical => CognitiveTier::CogTactical,
        Tier::Operational => CognitiveTier::CogOperational,
    }
}

/// The contract has no word for a process that a person paused: it is blocked.
pub fn agent_state(state: ProcessState) -> AgentState {
    match state {
        ProcessState::Idle => AgentState::StateIdle,
        ProcessState::Running => AgentState::StateRunning,
        ProcessState::Paused | ProcessState::Blocked => AgentState::StateBlocked,
        ProcessState::Sleeping => AgentState::StateSleeping,
        ProcessState::Dead => AgentState::StateDead,
        ProcessState::Zombie => AgentState::StateZombie,
    }
}

pub fn process_state(state: AgentState) -> ProcessState {
    match state {
        AgentState::StateIdle => ProcessState::Idle,
        AgentState::StateRunning => ProcessState::Running,
        AgentState::StateBlocked => ProcessState::Blocked,
        AgentState::StateSleeping => ProcessState::Sleeping,
        AgentState::StateDead => ProcessState::Dead,
        AgentState::StateZombie => ProcessState::Zombie,
    }
}

pub fn priority(number: i32) -> Result<MessagePriority, Refusal> {
    Ok(match Priority::try_from(number).map_err(|_| unknown("priority", number))? {
        Priority::Critical => MessagePriority::Critical,
        Priority::High => MessagePriority::High,
        Priority::Normal => MessagePriority::Normal,
        Priority::Low => MessagePriority::Low,
    })
}

pub fn agent_priority(priority: MessagePriority) -> Priority {
    match priority {
        MessagePriority::Critical => Priority::Critical,
        MessagePriority::High => Priority::High,
        MessagePriority::Normal => Priority::Normal,
        MessagePriority::Low => Priority::Low,
    }
}

/// The contract knows no other branch: whoever is there is no relative, as a sibling is none to obey.
pub fn message_relation(relation: SenderRelation) -> MessageRelation {
    match relation {
        SenderRelation::Kernel => MessageRelation::RelSystem,
        SenderRelation::Parent => MessageRelation::RelParent,
        SenderRelation::Child => MessageRelation::RelChild,
        SenderRelation::Sibling | SenderRelation::Branch => MessageRelation::RelSibling,
    }
}

pub fn end_reason(number: i32) -> Result<EndReason, Refusal> {
    Ok(match ShutdownReason::try_from(number).map_err(|_| unknown("shutdown reason", number))? {
        ShutdownReason::ShutdownNormal => EndReason::Normal,
        ShutdownReason::ShutdownParentDied => EndReason::ParentDied,
        ShutdownReason::ShutdownBudgetExceeded => EndReason::BudgetExceeded,
        ShutdownReason::ShutdownMigration => EndReason::Migration,
        ShutdownReason::ShutdownUserRequest => EndReason::UserRequest,
    })
}

pub fn shutdown_reason(reason: EndReason) -> ShutdownReason {
    match reason {
        EndReason::Normal => ShutdownReason::ShutdownNormal,
        EndReason::ParentDied => ShutdownReason::ShutdownParentDied,
        EndReason::BudgetExceeded => ShutdownReason::ShutdownBudgetExceeded,
        EndReason::Migration => ShutdownReason::ShutdownMigration,
        EndReason::UserRequest => ShutdownReason::ShutdownUserRequest,
    }
}

fn visibility(number: i32) -> Result<Visibility, Refusal> {
    Ok(match ArtifactVisibility::try_from(number).map_err(|_| unknown("visibility", number))? {
        ArtifactVisibility::VisPrivate => Visibility::Private,
        ArtifactVisibility::VisUser => Visibility::User,
        ArtifactVisibility::VisSubtree => Visibility::Subtree,
        ArtifactVisibility::VisGlobal => Visibility::Global,
    })
}

fn said(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

fn limits(limits: ResourceLimits) -> ProgramLimits {
    ProgramLimits {
        tokens_per_hour: said(limits.max_tokens_per_hour),
        context: said(limits.max_context_tokens),
        children: said(limits.max_children.into()),
        tasks: said(limits.max_concurrent_tasks.into()),
        timeout_ms: said(limits.timeout_seconds.into()).map(|seconds| seconds * 1_000),
        tokens_total: said(limits.max_tokens_total),
        // Nothing in the contract: a child shares what its parent has.
        memory_mb: None,
        cpu_milli: None,
    }
}

/// Limits as `Init` tells them; zero is none.
pub fn resource_limits(limits: &ProgramLimits) -> ResourceLimits {
    let small = |limit: Option<u64>| u32::try_from(limit.unwrap_or(0)).unwrap_or(u32::MAX);
    ResourceLimits {
        max_tokens_per_hour: limits.tokens_per_hour.unwrap_or(0),
        max_context_tokens: limits.context.unwrap_or(0),
        max_children: small(limits.children),
        max_concurrent_tasks: small(limits.tasks),
        timeout_seconds: small(limits.timeout_ms.map(|ms| ms.div_ceil(1_000))),
        max_tokens_total: limits.tokens_total.unwrap_or(0),
    }
}

/// The tokens that a child may use in all are taken from its parent's account.
pub fn spawn_order(request: SpawnRequest) -> Result<SpawnOrder, Refusal> {
    let limits = limits(request.limits.unwrap_or_default());
    let budget = limits.tokens_total.map(|total| Budget { tokens: [(ALL_TIERS.to_owned(), total)].into(), ..Budget::default() });
    let runtime = match RuntimeType::try_from(request.runtime_type).map_err(|_| unknown("runtime", request.runtime_type))? {
        // Without something to run it is an entry with a mailbox.
        _ if request.runtime_image.is_empty() => ProgramRuntime::Virtual,
        RuntimeType::RuntimePython => ProgramRuntime::Python,
        RuntimeType::RuntimeClaw => ProgramRuntime::Claw,
        RuntimeType::RuntimeCustom => ProgramRuntime::Custom,
    };
    let schedule = request.schedule.filter(|schedule| !schedule.cron.is_empty());
    Ok(SpawnOrder {
        parent: None,
        name: request.name,
        role: role(request.role)?,
        tier: tier(request.cognitive_tier)?,
        model: request.model,
        system_prompt: request.system_prompt,
        tools: request.tools,
        env: request.env.into_iter().collect(),
        metadata: Default::default(),
        limits,
        budget,
        runtime,
        image: request.runtime_image,
        initial_task: Some(request.initial_task).filter(|task| !task.is_empty()),
        schedule: schedule.map(|schedule| ProgramSchedule { cron: schedule.cron, keep_alive: schedule.keep_alive }),
        user: None,
        confined: true,
    })
}

pub fn kill_order(request: &KillRequest) -> Result<KillOrder, Refusal> {
    Ok(KillOrder {
        target: Pid(request.target_pid),
        recursive: request.recursive,
        reason: end_reason(request.reason)?,
        grace: Duration::from_secs(request.grace_period_seconds.into()),
    })
}

pub fn message_order(request: SendMessageRequest) -> Result<MessageOrder, Refusal> {
    let to = match (request.to_pid, request.to_queue.is_empty()) {
        (0, true) => return Err(Refusal::new(Code::BadInput, "the message is for nobody: name `to_pid` or `to_queue`")),
        (0, false) => Recipient::Queue(request.to_queue),
        (pid, true) => Recipient::Process(Pid(pid)),
        (_, false) => return Err(Refusal::new(Code::BadInput, "the message has two receivers: name `to_pid` or `to_queue`")),
    };
    Ok(MessageOrder {
        to,
        kind: request.r#type,
        priority: priority(request.priority)?,
        body: request.payload,
        requires_ack: request.requires_ack,
        ttl: said(request.ttl_seconds.into()).map(Duration::from_secs),
        reply_to: Some(request.reply_to).filter(|reply_to| !reply_to.is_empty()),
    })
}

pub fn artifact_order(request: StoreArtifactRequest) -> Result<ArtifactOrder, Refusal> {
    Ok(ArtifactOrder {
        key: request.key,
        content: request.content,
        content_type: request.content_type,
        visibility: visibility(request.visibility)?,
    })
}

pub fn escalation_order(request: EscalateRequest) -> Result<EscalationOrder, Refusal> {
    let severity = match EscalationSeverity::try_from(request.severity).map_err(|_| unknown("severity", request.severity))? {
        EscalationSeverity::EscInfo => Severity::Info,
        EscalationSeverity::EscWarning => Severity::Warning,
        EscalationSeverity::EscError => Severity::Error,
        EscalationSeverity::EscCritical => Severity::Critical,
    };
    Ok(EscalationOrder { issue: request.issue, severity, context: request.context.into_iter().collect(), auto: request.auto_propagate })
}

pub fn log_line(request: LogRequest) -> Result<LogLine, Refusal> {
    let level = match LogLevel::try_from(request.level).map_err(|_| unknown("log level", request.level))? {
        LogLevel::LogDebug => "debug",
        LogLevel::LogInfo => "info",
        LogLevel::LogWarn => "warn",
        LogLevel::LogError => "error",
    };
    Ok(LogLine { level: level.to_owned(), message: request.message, fields: request.fields.into_iter().collect() })
}

/// A task of `execute_on`, under the label that its sender gave it.
pub fn task_order(request: TaskRequest) -> TaskOrder {
    TaskOrder {
        is_first: false,
        description: request.description,
        params: request.params.into_iter().collect(),
        timeout: said(request.timeout_seconds.into()).map(Duration::from_secs),
        label: request.task_id,
        parent_task: Some(request.parent_task_id).filter(|parent| !parent.is_empty()),
        context: request.context,
    }
}

/// How a task that comes from outside is called: whose it is, and how its description begins.
pub fn task_label(target: Pid, description: &str) -> String {
    let start: String = description.chars().take(20).collect();
    format!("ext-{target}-{start}")
}

pub fn task_result(result: ExecuteResult) -> TaskResult {
    TaskResult {
        exit_code: result.exit_code,
        output: result.output,
        artifacts: result.artifacts.into_iter().collect(),
        metadata: result.metadata.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hive::generated::agent::Schedule;

    #[test]
    fn every_enumeration_goes_there_and_back() {
        for known in ProcessRole::ALL {
            assert_eq!(role(agent_role(known) as i32), Ok(known));
        }
        for known in Tier::ALL {
            assert_eq!(tier(cognitive_tier(known) as i32), Ok(known));
        }
        for number in 0..=3 {
            assert_eq!(agent_priority(priority(number).unwrap()) as i32, number);
        }
        for number in 0..=4 {
            assert_eq!(shutdown_reason(end_reason(number).unwrap()) as i32, number);
        }
        for number in 0..=5 {
            assert_eq!(agent_state(process_state(AgentState::try_from(number).unwrap())) as i32, number);
        }
        assert_eq!(agent_state(ProcessState::Paused), AgentState::StateBlocked);
        let refusal = role(7).unwrap_err();
        assert_eq!((refusal.code, refusal.reason.as_str()), (Code::BadInput, "there is no role with the number 7"));
        assert!(tier(3).is_err() && priority(-1).is_err() && end_reason(5).is_err() && visibility(4).is_err());
    }

    #[test]
    fn a_spawn_keeps_every_field() {
        let request = SpawnRequest {
            name: "shop".into(),
            role: AgentRole::RoleWorker as i32,
            cognitive_tier: CognitiveTier::CogTactical as i32,
            model: "mini".into(),
            system_prompt: "be brief".into(),
            tools: vec!["web".into()],
            limits: Some(ResourceLimits { max_tokens_total: 600, timeout_seconds: 3, max_children: 2, ..ResourceLimits::default() }),
            env: [("A".to_owned(), "1".to_owned())].into(),
            initial_task: "look around".into(),
            runtime_type: RuntimeType::RuntimeCustom as i32,
            runtime_image: "/bin/agent".into(),
            schedule: Some(Schedule { cron: "* * * * *".into(), keep_alive: true }),
        };
        let order = spawn_order(request.clone()).unwrap();
        assert_eq!((order.role, order.tier, order.runtime), (ProcessRole::Worker, Tier::Tactical, ProgramRuntime::Custom));
        assert_eq!((order.limits.timeout_ms, order.limits.children, order.limits.context), (Some(3_000), Some(2), None));
        assert_eq!(order.budget.unwrap().tokens[ALL_TIERS], 600);
        assert_eq!(
            (order.env["A"].as_str(), order.initial_task.as_deref(), order.tools.as_slice()),
            ("1", Some("look around"), &["web".to_owned()][..])
        );
        assert_eq!(order.schedule, Some(ProgramSchedule { cron: "* * * * *".into(), keep_alive: true }));
        assert_eq!(resource_limits(&order.limits), request.limits.unwrap());
        assert!(order.confined && order.parent.is_none() && order.user.is_none());
        // Python is the first of the enumeration, so only the image says whether anything runs.
        assert_eq!(spawn_order(SpawnRequest::default()).unwrap().runtime, ProgramRuntime::Virtual);
        assert!(spawn_order(SpawnRequest { runtime_type: 3, ..SpawnRequest::default() }).is_err());
    }

    #[test]
    fn a_message_has_one_receiver() {
        let order = |to_pid, to_queue: &str| {
            message_order(SendMessageRequest { to_pid, to_queue: to_queue.into(), ..SendMessageRequest::default() })
        };
        assert_eq!(order(7, "").unwrap().to, Recipient::Process(Pid(7)));
        assert_eq!(order(0, "q").unwrap().to, Recipient::Queue("q".into()));
        assert!(order(0, "").is_err() && order(7, "q").is_err());
        let ttl = |ttl_seconds| message_order(SendMessageRequest { to_pid: 7, ttl_seconds, ..SendMessageRequest::default() }).unwrap().ttl;
        assert_eq!((ttl(0), ttl(9)), (None, Some(Duration::from_secs(9))));
    }

    #[test]
    fn a_label_has_twenty_letters_of_the_description() {
        assert_eq!(task_label(Pid(7), "échange the old pages of the site"), "ext-7-échange the old page");
        assert_eq!(task_label(Pid(7), "go"), "ext-7-go");
    }

    #[test]
    fn a_policys_no_says_denied_once() {
        let text = |code, reason: &str| error_text(&Refusal::new(code, reason).into());
        assert_eq!(text(Code::Denied, "a worker spawns only tasks"), "denied: a worker spawns only tasks");
        assert_eq!(text(Code::Denied, "spawn denied: no"), "spawn denied: no");
        assert_eq!(text(Code::NotFound, "process 9 not found"), "process 9 not found");
    }
}
