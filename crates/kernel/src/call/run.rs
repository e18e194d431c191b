//! Run: carries out one admitted call. The only place where a tool runs.
//!
//! **Invariant.** When this is over nothing of the call runs any more: no process, no connection; and the end of its job is on record.

use super::facts::GatheredFacts;
use super::network::RoomNetwork;
use super::subcall::Subcalls;
use crate::Kernel;
use crate::job::{JobProcess, may_ask};
use gate::{CallFacts, CallerRights, Permit, Request, TimedOutput};
use policy::Verdict;
use room::{WorkGuard, WorkKey};
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tool::{BreakerGuard, Context, Output, RegisteredTool, ResolvedPath, ToolStop};
use world::{Code, Fault, FaultKind, Pid, Refusal, Stop, limits};

/// Runs the tool of an admitted call.
pub(super) async fn run(
    kernel: &Kernel,
    permit: &Permit,
    tool: &RegisteredTool,
    breaker: BreakerGuard<'_>,
    request: &Request,
    facts: &mut GatheredFacts,
) -> TimedOutput {
    let start = Instant::now();
    let output = carry_out(kernel, permit, tool, breaker, request, facts).await;
    TimedOutput { output, took: start.elapsed() }
}

async fn carry_out(
    kernel: &Kernel,
    permit: &Permit,
    tool: &RegisteredTool,
    breaker: BreakerGuard<'_>,
    request: &Request,
    facts: &mut GatheredFacts,
) -> Result<Output, Stop> {
    let places = std::mem::take(&mut facts.places);
    let job = kernel.begin_job(request, facts.room.as_ref()).await?;
    let pid = job.as_ref().map(JobProcess::pid);
    let hold = kernel.tasks.works.begin(WorkKey { task: request.task, call: Some(permit.call), job: pid });
    let network = match open_network(kernel, permit, request, facts, pid) {
        Ok(network) => network,
        Err(fault) => {
            close(kernel, None, None, job, true).await?;
            return Err(fault.into());
        }
    };
    let work = async {
        let result = use_tool(kernel, permit, tool, request, facts, places, JobWays { network: network.as_ref(), tail: &hold.tail }).await;
        breaker.settle(&result, kernel.instance.tuning.clock.instant());
        result.map_err(|stop| stopped(request, stop))
    };
    // Dropping the work ends it: a job is killed, a connection closed, a reader stops at its next look.
    let output = tokio::select! {
        biased;
        refusal = cancelled(kernel, request, &hold) => Err(Stop::Refused(refusal)),
        refusal = time_limit(permit, request, facts.root.room()) => Err(Stop::Refused(refusal)),
        output = work => output,
    };
    let closed = close(kernel, facts.root.room(), network, job, output.is_err()).await;
    output.and_then(|output| closed.map(|()| output).map_err(Stop::Failed))
}

/// What leads out of a call's job: its network, and the end of its output.
struct JobWays<'a> {
    network: Option<&'a RoomNetwork>,
    tail: &'a std::sync::Arc<sandbox::OutputTail>,
}

/// Gives the tool its context and waits for what it does.
async fn use_tool(
    kernel: &Kernel,
    permit: &Permit,
    tool: &RegisteredTool,
    request: &Request,
    facts: &GatheredFacts,
    places: Vec<ResolvedPath>,
    ways: JobWays<'_>,
) -> Result<Output, ToolStop> {
    // A walk shows nothing that a call on the path itself would not.
    let walk = OnceLock::new();
    let may_show = |path: &str| walk.get_or_init(|| Walk::of(kernel, &facts.gate.call)).shows(path, permit.grant.is_some());
    let visible = |path: &str| !facts.hides(path) && may_show(path);
    let given = kernel.rooms.settings();
    let secrets: Vec<tool::SentinelSecret> = given.host_services.secrets.iter().map(|(_, secret)| secret.clone()).collect();
    let runs_program = tool.command(&request.input).is_some() || request.tool == TEST_RUN;
    let environment = match facts.room.as_ref().filter(|_| runs_program) {
        Some(template) => {
            let cwd = request.input.get("cwd").and_then(serde_json::Value::as_str).unwrap_or_default();
            kernel.rooms.environment(&facts.project, facts.root.room(), Path::new(cwd), template).await
        }
        None => Vec::new(),
    };
    let variables = if runs_program { kernel.gate.task_variables(request).await } else { Vec::new() };
    let context = Context {
        root: facts.root.fd(),
        project: &facts.project,
        room: facts.root.room(),
        test_command: facts.gate.call.trusted.config.test.command.as_deref(),
        output_max: limits::OUTPUT_KEPT_MAX,
        visible: &visible,
        mode: request.run_mode,
        addresses: &kernel.tools.reach,
        subcalls: &Subcalls { kernel, request, call: permit.call },
        environment: &environment,
        job: tool::JobSetup {
            template: facts.room.as_ref(),
            follower: request.live.as_deref(),
            tail: Some(ways.tail),
            network: ways.network.map(|network| network as &dyn tool::JobNetwork),
            variables: &variables,
        },
        secrets: &secrets,
    };
    let result = tool.run(&request.input, places, &context).await;
    host::explain_missing_program(&kernel.rooms, result).await
}

/// Its command is the project's, not its input's.
const TEST_RUN: &str = "test.run";

fn stopped(request: &Request, stop: ToolStop) -> Stop {
    match stop {
        ToolStop::Refused(refusal) => Stop::Refused(refusal),
        ToolStop::Failed(fault) => {
            let (fix, is_retryable) = (fault.hint().map(str::to_owned), fault.is_transient());
            Stop::Failed(Fault { fix, is_retryable, ..Fault::new(FaultKind::Room, format!("`{}` could not run", request.tool), fault) })
        }
    }
}

/// The network of the call's room, where it has one.
fn open_network(
    kernel: &Kernel,
    permit: &Permit,
    request: &Request,
    facts: &GatheredFacts,
    job: Option<Pid>,
) -> Result<Option<RoomNetwork>, Fault> {
    let (Some(template), Some(kernel)) = (facts.room.as_ref().filter(|room| may_ask(room)), kernel.me.upgrade()) else { return Ok(None) };
    // What the job asks for is asked by the process that stands for it.
    let asker = Request { pid: job.unwrap_or(request.pid), ..request.clone() };
    RoomNetwork::open(kernel, &asker, permit.call, template.clone()).map(Some)
}

/// Comes back when the call is to end before its tool does.
async fn cancelled(kernel: &Kernel, request: &Request, hold: &WorkGuard) -> Refusal {
    match request.task.and_then(|task| kernel.ledger.cancelled(task)) {
        // Cancelled after it was admitted and before it could be told.
        Some(refusal) => refusal,
        None => hold.cancelled().await,
    }
}

/// Comes back when the call has lasted as long as its grant or its step allows. While its room is paused no time passes for it.
async fn time_limit(permit: &Permit, request: &Request, room: Option<&sandbox::Workspace>) -> Refusal {
    let granted = permit.constraints().and_then(|constraints| constraints.max_duration_ms).map(Duration::from_millis);
    let (max, whose) = match (granted, request.time_max) {
        (Some(granted), Some(own)) if own < granted => (own, "step"),
        (Some(granted), _) => (granted, "grant"),
        (None, Some(own)) => (own, "step"),
        (None, None) => std::future::pending().await,
    };
    match room {
        Some(room) => room.awake(max).await,
        None => tokio::time::sleep(max).await,
    }
    let refusal = Refusal::new(Code::Exhausted, format!("it was stopped after the {} ms that its {whose} allows", max.as_millis()));
    refusal.detail(serde_json::json!({ gate::TIMED_OUT: true }))
}

/// Waits until nothing of the call runs any more, and records the end of its job.
async fn close(
    kernel: &Kernel,
    room: Option<&sandbox::Workspace>,
    network: Option<RoomNetwork>,
    job: Option<JobProcess>,
    killed: bool,
) -> Result<(), Fault> {
    if let (Some(room), true) = (room, killed) {
        room.buried().await.map_err(workspace::room_fault)?;
    }
    if let Some(network) = network {
        network.close().await?;
    }
    match job {
        Some(job) => job.end(kernel, killed).await,
        None => Ok(()),
    }
}

/// Which paths a call that walks through a folder may name, asked path by path.
struct Walk {
    call: CallFacts,
    rights: CallerRights,
}

impl Walk {
    fn of(kernel: &Kernel, call: &CallFacts) -> Walk {
        let call = call.by_policy_alone();
        let rights = kernel.gate.rights(&call).without_grants();
        Walk { call, rights }
    }

    /// Not what is denied to this tool, and what would ask only with a person's leave. What may not be read, masks keep out.
    fn shows(&self, path: &str, granted: bool) -> bool {
        match self.call.judge_path(path, &self.rights) {
            Verdict::Deny { .. } => false,
            Verdict::Review { .. } => granted,
            Verdict::Allow(_) => true,
        }
    }
}
