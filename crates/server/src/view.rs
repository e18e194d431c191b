//! The world as clients see it.

use crate::process_tree;
use crate::records::verification;
use crate::review_view::review_view;
use crate::rpc_error::{fault_error, rpc_error};
use kernel::{BrainSpec, CallEnd, CallReport, KeptDeadline, Kernel, MergeDiff, PolicyProposal, RunningCall};
use report::{CountedKind, CountedWork};
use sandbox::HostFix;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use wire::method::model::{CassetteEntry, CassetteListResult, ExchangeEntry};
use wire::method::{call, kernel as itself, merge, process::ProcView, review, sandbox as room, task, work, zone};
use wire::{ErrorCode, Remedy, RpcError};
use world::{MergePath, Pid, Process, ReviewId, ReviewState, Task, TaskId, TaskState, TaskUsage, World};

pub(crate) fn status(kernel: &Kernel, grpc: &[String]) -> itself::KernelStatusResult {
    let count = |world: &World, is: fn(TaskState) -> bool| world.tasks.values().filter(|task| is(task.state)).count() as u64;
    kernel.ledger.look(|world| itself::KernelStatusResult {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        os_pid: std::process::id(),
        home: kernel.instance.home.path.display().to_string(),
        started_ms: kernel.instance.started_ms,
        head_seq: kernel.ledger.journal().head().seq,
        rss_bytes: resident_bytes(),
        processes: world.processes.values().filter(|process| process.state.alive()).count() as u64,
        tasks_queued: count(world, |state| state == TaskState::Queued),
        tasks_running: count(world, |state| state == TaskState::Running),
        tasks_parked: count(world, |state| matches!(state, TaskState::Parked { .. })),
        reviews_open: world.reviews.values().filter(|review| review.state == ReviewState::Open).count() as u64,
        doubts: open_doubts(world),
        verification: verification(kernel),
        disk_full: kernel.ledger.journal().is_low(),
        settings_rejected: kernel.settings_rejected().map(|fault| fault.why),
        grpc: grpc.to_vec(),
    })
}

/// What nobody has looked at yet, one line each.
fn open_doubts(world: &World) -> Vec<String> {
    world.doubts.open().map(|doubt| format!("{}: {}", doubt.what, doubt.why)).collect()
}

/// What this process has in memory.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_else(|_| String::new());
    let pages: u64 = text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// What this host supports.
pub(crate) async fn doctor(kernel: &Kernel) -> Result<itself::KernelDoctorResult, RpcError> {
    let checks = kernel
        .rooms
        .launcher
        .probe(&kernel.instance.home.work())
        .await
        .map_err(|error| RpcError::new(ErrorCode::Internal, "this host could not be examined").why(error.to_string()))?;
    let checks = checks.into_iter().chain(kernel.rooms.check_engines().await);
    let toolchains = kernel.rooms.look_for_toolchains().await;
    let toolchains = toolchains.list().map(|(found, shown)| crate::doctor::found_toolchain(found, shown)).collect();
    let mut checks: Vec<itself::HostCheck> = checks.map(host_check).collect();
    checks.extend(crate::doctor::models(kernel).await);
    Ok(itself::KernelDoctorResult { checks, toolchains })
}

fn host_check(check: sandbox::Check) -> itself::HostCheck {
    let (fix, remedy) = match check.fix {
        Some(HostFix::Change(words)) => (Some(words), None),
        Some(HostFix::DelegateCgroups) => (None, Some(Remedy::DelegateCgroups)),
        None => (None, None),
    };
    itself::HostCheck {
        section: String::new(),
        name: check.name.to_string(),
        ok: check.ok,
        optional: false,
        detail: check.detail,
        fix,
        remedy,
    }
}

pub(crate) fn init(proposal: PolicyProposal) -> zone::ZoneInitResult {
    let ready = proposal.ready();
    zone::ZoneInitResult {
        zone: proposal.zone,
        path: proposal.path.display().to_string(),
        branch: proposal.branch,
        created: proposal.created,
        process: Some(proposal.process).filter(|name| !name.is_empty()),
        policy_version: proposal.version,
        ready,
        hash: (!ready).then_some(proposal.hash),
        diff: (!ready).then_some(proposal.diff),
    }
}

/// The zones that `is_meant` says yes to.
pub(crate) async fn zones(kernel: &Kernel, is_meant: impl Fn(&world::Zone) -> bool) -> Result<zone::ZoneStatusResult, RpcError> {
    let zones: Vec<world::Zone> = kernel.ledger.look(|world| world.zones.values().filter(|zone| is_meant(zone)).cloned().collect());
    let known = TaskExtras::of(kernel);
    let mut views = Vec::with_capacity(zones.len());
    for found in zones {
        let (mut processes, tasks): (Vec<ProcView>, _) = kernel.ledger.look(|world| {
            let mine = world.processes.values().filter(|process| process.zone == Some(found.id));
            let tasks = world.tasks.values().filter(|task| task.zone == found.id);
            (mine.map(|p| proc_view(kernel, world, p)).collect(), tasks.map(|t| task_view(&known, world, t)).collect())
        });
        for process in processes.iter_mut().filter(|process| process.state.alive()) {
            process.starts_afresh = report::starts_afresh(&kernel.ledger, process.pid).map_err(rpc_error)?;
        }
        let proposal = kernel.gate.policies.proposal(Path::new(&found.path)).await;
        views.push(zone::ZoneView {
            zone: found.id,
            site: found.site.clone(),
            branch: kernel.gate.policies.branch(found.id).await,
            policy_version: found.policy_version,
            // A tree that cannot be read is not the one that was trusted.
            drift: proposal.map_or(true, |proposal| !proposal.diff.is_empty()),
            coverage: found.coverage.as_deref().map(|coverage| coverage_view(kernel, coverage)),
            path: found.path,
            processes,
            tasks,
        });
    }
    Ok(zone::ZoneStatusResult { zones: views, doubts: kernel.ledger.look(open_doubts) })
}

fn coverage_view(kernel: &Kernel, coverage: &world::ZoneCoverage) -> zone::CoverageView {
    zone::CoverageView {
        baseline: coverage.baseline,
        now: coverage.now.hundredths(),
        covered: coverage.now.covered,
        total: coverage.now.total,
        debt: coverage.debt(),
        locked: coverage.locked,
        task: coverage.task,
        files: kernel.coverage_moves(coverage),
    }
}

/// The zone that holds `path`, by its own path.
pub(crate) async fn zone_path(kernel: &Kernel, path: &str) -> Result<String, RpcError> {
    let top = kernel::locate(Path::new(path)).await.map_err(rpc_error)?;
    Ok(kernel.gate.policies.zone(&top).map_err(rpc_error)?.path)
}

/// What is under way, for one task or for all.
pub(crate) fn work(kernel: &Kernel, task: Option<TaskId>) -> work::WorkListResult {
    let is_asked = |of: Option<TaskId>| task.is_none() || of == task;
    let calls = kernel.running_calls().into_iter().filter(|call| is_asked(call.task));
    let works = kernel.tasks.counted.list().into_iter().filter(|work| is_asked(work.task));
    work::WorkListResult {
        calls: calls.map(|RunningCall { task, call, ms, lines }| work::RunningCallView { task, call, ms, lines }).collect(),
        works: works
            .map(|CountedWork { kind, task, done, total, ms }| work::LongWorkView {
                what: match kind {
                    CountedKind::RecordingBase => work::LongWorkKind::RecordingBase,
                    CountedKind::Freezing => work::LongWorkKind::Freezing,
                    CountedKind::Merging => work::LongWorkKind::Merging,
                    CountedKind::Undoing => work::LongWorkKind::Undoing,
                    CountedKind::Verifying => work::LongWorkKind::Verifying,
                },
                task,
                done,
                total: (total > 0).then_some(total),
                ms,
            })
            .collect(),
    }
}

pub(crate) fn processes(kernel: &Kernel) -> Vec<ProcView> {
    kernel.ledger.look(|world| world.processes.values().map(|process| proc_view(kernel, world, process)).collect())
}

fn proc_view(kernel: &Kernel, world: &World, process: &Process) -> ProcView {
    let parked = || world.tasks.values().find(|task| task.pid == process.pid && matches!(task.state, TaskState::Parked { .. }));
    let task = world.current_task(process.pid).or_else(parked);
    ProcView {
        pid: process.pid,
        parent: process.parent,
        name: process.name.clone(),
        role: process.role.clone(),
        zone: process.zone,
        repository: process.zone.and_then(|zone| world.zones.get(&zone)).map(world::Zone::label),
        state: process.state,
        calls_made: process.calls_made,
        calls_left: task.and_then(|task| task.calls_left),
        task: task.map(|task| task.id).or_else(|| kernel.tasks.task_of_job(process.pid)),
        started_ms: process.started_ms,
        net: process.net,
        brain: process.brain.clone(),
        queue_paused: process.queue_paused,
        starts_afresh: false,
        user: process.user.clone(),
        program: process.program.as_deref().map(|program| Box::new(process_tree::program_view(&kernel.tree, world, process, program))),
        tokens: process_tree::tokens_of(world, process.pid),
        model: world.books.usage.iter().rev().find(|(row, _)| row.pid == process.pid).map(|(row, _)| row.model.clone()),
        caps: process_tree::caps_of(world, process.pid),
    }
}

pub(crate) async fn tasks(kernel: &Kernel, path: Option<&str>) -> Result<Vec<task::TaskView>, RpcError> {
    let only = match path {
        Some(path) => Some(zone_path(kernel, path).await?),
        None => None,
    };
    let known = TaskExtras::of(kernel);
    Ok(kernel.ledger.look(|world| {
        let zone = only.and_then(|path| world.zone_at(&path).map(|zone| zone.id));
        world.tasks.values().filter(|task| zone.is_none_or(|zone| task.zone == zone)).map(|task| task_view(&known, world, task)).collect()
    }))
}

pub(crate) fn task(kernel: &Kernel, id: TaskId) -> Result<task::TaskView, RpcError> {
    let task = kernel.ledger.task(id).map_err(rpc_error)?;
    let known = TaskExtras::of(kernel);
    let outputs = report::brain_outputs(&kernel.ledger, id, crate::brain_output::now_ms()).map_err(rpc_error)?;
    let mut view = kernel.ledger.look(|world| task_view(&known, world, &task));
    view.outputs = outputs.into_iter().map(|output| crate::brain_output::view(id, output)).collect();
    Ok(view)
}

/// What tasks are shown with that is not their own: who waits at a cap, what they used, and when kept work goes.
pub(crate) struct TaskExtras {
    waits: Vec<kernel::Wait>,
    usage: BTreeMap<TaskId, TaskUsage>,
    deadlines: BTreeMap<TaskId, KeptDeadline>,
}

impl TaskExtras {
    pub(crate) fn of(kernel: &Kernel) -> TaskExtras {
        let (usage, deadlines) = kernel.ledger.look(|world| (world.usage_by_task(), kernel.blobs.deadlines(world)));
        TaskExtras { waits: kernel.models.waits(), usage, deadlines }
    }

    fn usage(&self, id: TaskId) -> Option<task::TaskUsageView> {
        let TaskUsage { totals, guessed, held } = self.usage.get(&id)?.clone();
        Some(task::TaskUsageView { figures: totals, guessed, held })
    }
}

pub(crate) fn task_view(known: &TaskExtras, world: &World, task: &Task) -> task::TaskView {
    let zone = world.zones.get(&task.zone);
    // The blob's name means nothing to a person; a model's does.
    let is_script = matches!(BrainSpec::parse(&task.brain), Ok(BrainSpec::Script(_)));
    let brain = if is_script { "script" } else { task.brain.as_str() };
    task::TaskView {
        task: task.id,
        pid: task.pid,
        process: name_of(world, task.pid),
        zone: task.zone,
        branch: zone.map(|zone| zone.branch.clone()).unwrap_or_default(),
        mode: task.mode,
        prompt: task.prompt.clone(),
        brain: brain.to_owned(),
        state: task.state.into(),
        review: match task.state {
            TaskState::Parked { review } => Some(review),
            _ => None,
        },
        merge: task.merge.and_then(|merge| world.merges.get(&merge)).map(|merge| merge.state),
        undo_left: task.merge.and_then(|merge| world.merges.get(&merge)).map_or(0, |merge| merge.left.len() as u64),
        summary: task.summary.clone(),
        remedy: task.remedy.clone(),
        stopped_by: task.stopped_by,
        queued_ms: task.queued_ms,
        ended_ms: task.ended_ms,
        episodes: task.episodes,
        calls: task.calls_settled,
        waits: known.waits.iter().find(|wait| wait.task == Some(task.id)).map(crate::spending::wait_view),
        replays: task.replays,
        differs: task.compared.then_some(task.differs),
        usage: known.usage(task.id),
        budget: task.budget.clone(),
        kept: task.kept.as_ref().map(|kept| task::KeptView {
            files: kept.files,
            bytes: kept.bytes,
            left: kept.left,
            since_ms: kept.since_ms,
            until_ms: known.deadlines.get(&task.id).map(|deadline| deadline.at_ms),
        }),
        behind: world.queued_behind(task.id, |other| known.waits.iter().any(|wait| wait.task == Some(other))),
        priority: task.priority,
        after: world.unfinished(&task.after).map(|other| other.id).collect(),
        paused_for: task.paused_for,
        timeout_ms: task.timeout_ms,
        skill: task.skill.clone(),
        tool_lists: task.tool_lists.clone(),
        artifacts: crate::artifact::kept(task, known.usage(task.id).as_ref()),
        artifact_errors: crate::artifact::failed(task),
        outputs: Vec::new(),
        session: task.session.is_some(),
    }
}

pub(crate) fn name_of(world: &World, pid: Pid) -> String {
    world.processes.get(&pid).map_or_else(|| format!("process {pid}"), |process| process.name.clone())
}

pub(crate) fn diff(kernel: &Kernel, id: TaskId, diff: MergeDiff) -> Result<task::TaskDiffResult, RpcError> {
    let view = task(kernel, id)?;
    let files = diff.files.into_iter().map(|file| task::FileDiffView {
        path: file.path,
        kind: file.kind,
        from: file.from,
        note: file.note,
        refused: file.refused,
        diff: file.diff,
        added: file.added,
        removed: file.removed,
        unshown: !file.is_whole,
    });
    let kept = view.state.at_rest() && view.kept.is_some();
    Ok(task::TaskDiffResult {
        task: id,
        digest: (kept || view.merge.is_some()).then_some(diff.digest),
        state: view.merge.filter(|_| !kept),
        kept,
        review: view.review.filter(|_| view.merge.is_some()),
        files: files.collect(),
    })
}

pub(crate) fn merges(kernel: &Kernel) -> Result<merge::MergeListResult, RpcError> {
    let view = |line: kernel::MergeLine| merge::MergeView {
        merge: line.merge,
        task: line.task,
        state: line.state,
        replaced: line.is_replaced,
        digest: line.digest,
        summary: line.summary,
        files: line.files as u64,
        left: line.left as u64,
    };
    Ok(merge::MergeListResult { merges: kernel.merges().map_err(rpc_error)?.into_iter().map(view).collect() })
}

/// Paths that went through, by name, and those that did not, with their reasons.
pub(crate) fn split(paths: Vec<MergePath>) -> (Vec<String>, Vec<MergePath>) {
    let (refused, done): (Vec<_>, Vec<_>) = paths.into_iter().partition(|path| path.refused.is_some());
    (done.into_iter().map(|path| path.path).collect(), refused)
}

pub(crate) fn tools(kernel: &Kernel) -> call::ToolListResult {
    let tools = kernel.tools.registry.list().map(|tool| {
        let manifest = tool.manifest();
        call::ToolView {
            name: manifest.name.clone(),
            description: manifest.description.clone(),
            read_only: manifest.read_only,
            room: manifest.room == tool::Room::Sandbox,
            input_schema: manifest.input_schema.clone(),
        }
    });
    let left_out =
        kernel.tools.registry.left_out().iter().map(|error| call::ToolLeftOut { file: error.file.clone(), why: error.what.clone() });
    call::ToolListResult { tools: tools.collect(), left_out: left_out.collect() }
}

pub(crate) fn call_result(called: CallReport) -> call::CallRunResult {
    let CallReport { outcome, task, mut dropped } = called;
    let count = dropped.len() as u64;
    dropped.truncate(call::DROPPED_MAX);
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let (decision, refusal, ok, output) = match outcome.end {
        CallEnd::Done { ok, value } => (call::CallDecision::Allowed, None, ok, value),
        CallEnd::CallerExecutes => (call::CallDecision::Allowed, None, true, serde_json::Value::Null),
        CallEnd::Refused(refusal) => (call::CallDecision::Refused, Some(refusal), false, serde_json::Value::Null),
        CallEnd::Pending(refusal) => (call::CallDecision::Pending, Some(refusal), false, serde_json::Value::Null),
    };
    call::CallRunResult {
        call: outcome.call,
        decision,
        rules: outcome.rules,
        refusal,
        ok,
        output,
        gate_us: us(outcome.gate),
        run_us: us(outcome.run),
        total_us: us(outcome.gate + outcome.run),
        task,
        dropped: (count > 0).then_some(call::DroppedPaths { count, paths: dropped }),
    }
}

pub(crate) fn reviews(kernel: &Kernel, all: bool) -> review::ReviewListResult {
    let reviews = kernel.ledger.look(|world| {
        let wanted = world.reviews.values().filter(|review| all || review.state == ReviewState::Open);
        wanted.map(|review| review_view(world, review)).collect()
    });
    review::ReviewListResult { reviews }
}

/// One review with what a yes would change.
pub(crate) async fn review(kernel: &Kernel, id: ReviewId, full: bool) -> Result<review::ReviewView, RpcError> {
    let found = kernel.ledger.review(id).map_err(rpc_error)?;
    let mut view = kernel.ledger.look(|world| review_view(world, &found));
    let question = kernel.question(&found).await.map_err(rpc_error)?;
    (view.cut, view.lost) = (question.is_cut, question.is_lost);
    if full {
        view.seen = question.is_cut.then_some(question.seen);
        view.input = question.input;
    }
    // A change of what the record leaves out would show it.
    if full || !question.is_cut || found.tool == kernel::MERGE {
        view.diff = question.diff;
    }
    Ok(view)
}

/// The templates as a zone has them, or as the operator has.
pub(crate) async fn templates(kernel: &Kernel, path: Option<&str>) -> Result<room::SandboxTemplatesResult, RpcError> {
    let top = match path {
        Some(path) => kernel::locate(Path::new(path)).await.ok(),
        None => None,
    };
    let zone = top.and_then(|top| kernel.gate.policies.zone(&top).ok());
    let trusted = match zone {
        Some(zone) => kernel.gate.policies.trusted(zone.id).map_err(fault_error)?,
        None => None,
    };
    let all = kernel.gate.policies.templates(trusted.as_deref()).map_err(RpcError::from)?;
    let ms = |time: Option<Duration>| time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let name =
        |value: serde_json::Result<serde_json::Value>| value.ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    let view = |template: &sandbox::Template| room::TemplateView {
        name: template.name.clone(),
        network: match template.network {
            sandbox::Network::None => room::TemplateNetwork::None,
            sandbox::Network::Restricted => room::TemplateNetwork::Restricted,
        },
        hosts: template.hosts.clone(),
        secrets: template.secrets,
        models: template.models,
        memory_bytes: template.memory_bytes,
        cpu_milli: template.cpu_milli,
        pids: template.pids,
        duration_ms: ms(template.wall),
        answer_ms: ms(template.answer),
        disk_bytes: template.disk_bytes,
        disk_files: template.disk_files,
        profile: name(serde_json::to_value(template.profile)),
        runtime: all.runtime(&template.name).map(|runtime| runtime.name().to_owned()),
    };
    Ok(room::SandboxTemplatesResult { templates: all.list().map(view).collect() })
}

pub(crate) fn rooms(kernel: &Kernel) -> room::SandboxListResult {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let job = |job: sandbox::JobFigures| room::JobView {
        os_pid: job.pid,
        command: job.command,
        age_ms: ms(job.age),
        memory_bytes: job.memory_bytes,
        cpu_ms: job.cpu_ms,
        processes: job.processes,
    };
    let view = |found: kernel::RoomView| room::SandboxView {
        task: found.task,
        pid: found.pid,
        project: found.project.display().to_string(),
        paused: found.paused,
        jobs: found.jobs.into_iter().map(job).collect(),
    };
    room::SandboxListResult { rooms: kernel.workspaces.rooms().into_iter().map(view).collect() }
}

pub(crate) fn cassettes(kernel: &Kernel, name: Option<&str>) -> Result<CassetteListResult, RpcError> {
    let found = match name {
        Some(name) => kernel.models.cassette(name).map(|one| vec![one]),
        None => kernel.models.cassettes(),
    };
    let exchange = |one: kernel::ExchangeView| {
        let kernel::ExchangeView { n, dialect, path, model, status, bytes, ms, complete } = one;
        ExchangeEntry { n, dialect, path, model, status, bytes, ms, complete }
    };
    let view = |one: kernel::CassetteView| {
        let kernel::CassetteView { name, path, bytes, exchanges, torn, broken } = one;
        let exchanges = exchanges.into_iter().map(exchange).collect();
        CassetteEntry { name, path: path.display().to_string(), bytes, exchanges, torn, broken }
    };
    Ok(CassetteListResult { cassettes: found.map_err(rpc_error)?.into_iter().map(view).collect() })
}
