//! Merging without a question: asks `workspace::auto` for doubts, and runs the trusted tests.
//!
//! **Invariant.** The kernel itself ran the trusted test command, in a fresh room on exactly these changes and the project's own ignored
//! files, and counted at least one test.

use super::{Frozen, tree_of};
use crate::Kernel;
use gate::Config;
use room::RoomContent;
use sandbox::{Act, Exit, JobSpec};
use std::path::{Path, PathBuf};
use std::time::Duration;
use testing::count_tests;
use workspace::auto::{self, Project, UnreadRules};
use workspace::{State, aside, room_fault};
use world::event::MergeTested;
use world::{MergeId, Stop, Task, limits};

/// Output of a test run that is kept.
const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Why these changes want a person, as far as can be said without running them: every reason, path by path.
pub(super) async fn doubts(kernel: &Kernel, task: &Task, frozen: &Frozen, config: &Config) -> Result<Vec<String>, Stop> {
    let trusted = UnreadRules { safe: &config.merge.safe, command: config.test.command.as_deref() };
    let project = match trusted.command {
        Some(command) if !trusted.safe.is_empty() => {
            let tree = tree_of(kernel, task)?;
            let given = kernel.rooms.settings();
            let shown: Vec<PathBuf> = given.host_binds.binds(&tree.project)?.into_iter().map(|bind| bind.source).collect();
            let toolchains = given.toolchains.get().await.prefixes();
            let shown: Vec<PathBuf> = shown.into_iter().chain(toolchains).collect();
            let throwaway = kernel.throwaways.open(task.zone, &tree.project, RoomContent::Repository).await?;
            let project = Project::look(throwaway.room()?, &tree, frozen, command, &shown).await?;
            throwaway.close().await?;
            Some(project)
        }
        _ => None,
    };
    auto::doubts(frozen, &trusted, project, &|blob| kernel.ledger.blob(blob))
}

/// Runs the trusted test command on exactly these changes. `Some` says why they do not go in by themselves.
pub(super) async fn test(kernel: &Kernel, task: &Task, merge: MergeId, frozen: &Frozen, config: &Config) -> Result<Option<String>, Stop> {
    let Some(command) = config.test.command.clone() else { return Ok(Some("no test command is trusted".into())) };
    let project = kernel.ledger.project_of(task.zone)?;
    let manifest = kernel.gate.template_named_by("test.run");
    let templates = kernel.gate.policies.templates(kernel.gate.policies.trusted(task.zone)?.as_deref())?;
    let template = templates.of_tool("test.run", manifest.as_deref())?;
    let throwaway =
        kernel.throwaways.open_for(task.zone, &project, RoomContent::Project(kernel.gate.owner(task.id)?), Some(&template.name)).await?;
    for change in &frozen.changes {
        let path = PathBuf::from(&change.path);
        let (act, stdin) = match &change.new {
            State::Absent => (Act::Delete { path }, None),
            State::File { blob, mode, .. } => (Act::Write { path, mode: *mode }, Some(aside(|| kernel.ledger.blob(blob))?)),
            State::Link { .. } => return Ok(Some("links are looked at".into())),
            State::Folder => return Ok(Some("what became a folder is looked at".into())),
        };
        let outcome = throwaway.room()?.run(JobSpec { act, ..JobSpec::exec(["true"]) }, stdin).await.map_err(room_fault)?;
        if !outcome.exit.success() {
            return Ok(Some(format!("{} could not be put into the test sandbox", change.path)));
        }
    }
    let mut job = JobSpec::exec(command.iter().cloned());
    let variables = kernel.rooms.environment(&project, Some(throwaway.room()?), Path::new(""), template).await;
    job.env = tool::scrub(&variables).into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    job.output_max = OUTPUT_BYTES_MAX;
    job.limits.wall = Some(Duration::from_millis(limits::JOB_MS_DEFAULT));
    template.bound(&mut job);
    let ran = throwaway.room()?.run(job, None).await;
    throwaway.close().await?;
    let (exit, output, why) = match ran {
        Ok(outcome) => {
            let exit = match outcome.exit {
                Exit::Code(code) => Some(code),
                Exit::Signal(_) => None,
            };
            let output = [outcome.stdout.as_slice(), b"\n", outcome.stderr.as_slice()].concat();
            let why = match exit {
                Some(0) => None,
                Some(code) => Some(format!("the tests failed with exit code {code}")),
                None if outcome.timed_out => Some("the tests took too long".to_owned()),
                None => Some("the tests were killed".to_owned()),
            };
            (exit, output, why)
        }
        Err(error) => (None, error.to_string().into_bytes(), Some(format!("the tests did not run: {error}"))),
    };
    let text = kernel.ledger.redactor.text(&String::from_utf8_lossy(&output)).into_owned();
    let counted = count_tests(&text);
    let doubt = why.or_else(|| match counted {
        None => Some("the test command counted no tests".to_owned()),
        Some(count) if count.failed > 0 => Some(format!("{} tests failed", count.failed)),
        Some(count) if count.passed == 0 => Some("the test command ran no test".to_owned()),
        Some(_) => None,
    });
    let tested = MergeTested {
        pid: task.pid,
        task: Some(task.id),
        merge,
        digest: frozen.digest.clone(),
        command,
        exit,
        passed: counted.map(|count| count.passed),
        failed: counted.map(|count| count.failed),
        output: aside(|| kernel.ledger.keep(text.as_bytes()))?,
        ok: doubt.is_none(),
    };
    kernel.ledger.record(tested).await?;
    if doubt.is_none() && super::stale_reason(kernel, task, frozen).await?.is_some() {
        return Ok(Some("the project changed while the tests ran".into()));
    }
    Ok(doubt)
}
