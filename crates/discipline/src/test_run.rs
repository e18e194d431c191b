//! A run of the tests by the kernel: in a room of its own, over the project with its own ignored files and exactly these changes.
//!
//! Nothing that a brain built or installed is there. **Invariant.** What the run came to is bound to the files that it ran on; a runner that
//! says something else than its exit code, or nothing at all, is never a pass.

use crate::coverage::{CoveragePlace, ReadReport};
use crate::{PhaseWork, TestFirst};
use host::BuildRun;
use room::RoomContent;
use sandbox::{Exit, JobSpec, Outcome};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use testing::{CommandEnd, ProjectFiles, RunOutput, RunVerdict, TestCaseOutcome, TestResult, TestRun, TestRunner, read_run};
use workflow::discipline::PathKinds;
use workspace::{FileState, FileTree, RoomSnapshot, State, aside, text_at};
use world::event::TestsRan;
use world::{Stop, TestEvidence, TestOutcome, TestPurpose, Workflow, limits};

/// Output of a run that is kept.
const OUTPUT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Tests, doubts and remarks that a record names.
pub(crate) const NAMED_MAX: usize = 50;
/// Files that runners keep up by themselves.
const KEPT_BY_RUNNERS: [&str; 6] = ["Cargo.lock", "package-lock.json", "pnpm-lock.yaml", "yarn.lock", "go.sum", "go.mod"];

/// A run, read.
pub(crate) struct SeenRun {
    pub run: TestRun,
    text: String,
    /// Files of the project, or of these changes, that are different after the run.
    written: Vec<String>,
    pub ms: u64,
    /// What the run itself left as its report of coverage, where it is the one that writes it.
    pub coverage: Option<ReadReport>,
}

/// One command in a room of the kernel's own.
struct KernelRun<'a> {
    command: &'a [String],
    /// Is it asked for a report of its tests?
    reports: bool,
    coverage: Option<&'a str>,
}

/// What is known of a run beside itself.
#[derive(Default)]
pub(crate) struct RunFindings {
    /// They block.
    pub doubts: Vec<String>,
    /// They are shown.
    pub remarks: Vec<String>,
    /// What further runs of the same tests took.
    pub ms: u64,
}

/// What further runs of the tests speak against, and how long those took.
pub(crate) type TimedDoubts = (Vec<String>, u64);

impl RunFindings {
    /// Takes in what further runs found.
    pub fn doubt(&mut self, (doubts, ms): TimedDoubts) {
        self.doubts.extend(doubts);
        self.ms += ms;
    }
}

/// The project as a room shows it, or as it is.
pub(crate) struct RoomFiles(pub FileTree);

impl ProjectFiles for RoomFiles {
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = aside(|| self.0.entries(Path::new(folder))).unwrap_or_default();
        entries.into_iter().filter_map(|(name, _)| name.into_string().ok()).collect()
    }

    fn has_file(&self, path: &str) -> bool {
        aside(|| self.0.now(path)).is_ok_and(|now| matches!(now, FileState::File { .. }))
    }

    fn read(&self, path: &str) -> Option<String> {
        text_at(&self.0, path).filter(|text| text.len() <= testing::limits::SETTINGS_BYTES_MAX)
    }
}

impl TestFirst<'_> {
    /// Runs the tests on these files. `None` where no command is trusted.
    pub(crate) async fn see_tests(&self, work: &PhaseWork<'_>, files: &RoomSnapshot) -> Result<Option<SeenRun>, Stop> {
        let trusted = self.gate.policies.in_force(work.task.zone)?;
        let Some(command) = &trusted.config.test.command else { return Ok(None) };
        let own = trusted.config.test.coverage.as_ref().filter(|coverage| coverage.command.is_none());
        let coverage = own.map(|coverage| coverage.report.as_str());
        self.run_command(work, files, KernelRun { command, reports: true, coverage }).await.map(Some)
    }

    /// Runs the command that measures coverage, where it is another than that of the tests; and how long it took.
    pub(crate) async fn run_coverage(&self, work: &PhaseWork<'_>, files: &RoomSnapshot) -> Result<(ReadReport, u64), Stop> {
        let trusted = self.gate.policies.in_force(work.task.zone)?;
        let wanted = trusted.config.test.coverage.as_ref();
        let Some((report, command)) = wanted.and_then(|wanted| Some((wanted.report.as_str(), wanted.command.as_ref()?))) else {
            return Ok((Err("nothing says how coverage is measured".to_owned()), 0));
        };
        let seen = self.run_command(work, files, KernelRun { command, reports: false, coverage: Some(report) }).await?;
        Ok((seen.coverage.unwrap_or_else(|| Err("nothing was measured".to_owned())), seen.ms))
    }

    /// Keeps what was seen of the tests on these files, and records it.
    pub(crate) async fn record_run(
        &self,
        work: &PhaseWork<'_>,
        workflow: &Workflow,
        files: &RoomSnapshot,
        purpose: TestPurpose,
        mut seen: Option<&mut SeenRun>,
        findings: RunFindings,
    ) -> Result<TestEvidence, Stop> {
        let tree = files.tree(work.base)?;
        let coverage = self.measure(work, workflow, files, purpose, seen.as_deref_mut()).await?;
        let mut evidence = match &seen {
            Some(seen) => self.evidence(purpose, tree, seen)?,
            None => not_run(workflow, purpose, tree),
        };
        (evidence.ms, evidence.coverage) = (evidence.ms + findings.ms, coverage);
        evidence.doubts.extend(findings.doubts);
        // What the kernel found comes before what the run said of itself: the tests have a hand in that.
        evidence.remarks.splice(0..0, findings.remarks);
        for list in [&mut evidence.doubts, &mut evidence.remarks] {
            list.dedup();
            list.truncate(NAMED_MAX);
            list.iter_mut().for_each(|text| *text = self.ledger.redactor.text(text).into_owned());
        }
        let (pid, task) = (work.task.pid, Some(work.task.id));
        let ran = TestsRan { pid, task, mode: workflow.mode, state: workflow.state, run: Box::new(evidence.clone()) };
        self.ledger.record(ran).await?;
        Ok(evidence)
    }

    /// A run that was seen before.
    pub(crate) fn seen_before(&self, evidence: Option<&TestEvidence>) -> Option<TestRun> {
        let blob = evidence?.report.as_ref()?;
        serde_json::from_slice(&self.ledger.blob(blob).ok()?).ok()
    }

    async fn run_command(&self, work: &PhaseWork<'_>, files: &RoomSnapshot, run: KernelRun<'_>) -> Result<SeenRun, Stop> {
        let (task, project) = (work.task, &work.opened.project);
        let trusted = self.gate.policies.in_force(task.zone)?;
        let manifest = self.gate.template_named_by("test.run");
        let templates = self.gate.policies.templates(self.gate.policies.trusted(task.zone)?.as_deref())?;
        let template = templates.of_tool("test.run", manifest.as_deref())?;
        let owner = self.gate.owner(task.id)?;
        let began = SystemTime::now();
        let key = self.build_key(&trusted.config.test, &template.name);
        let building = BuildRun { zone: task.zone, project, key: &key, began, moments: self.moments };
        let builds = aside(|| self.rooms.use_builds(&building));
        let place = run.coverage.map(|path| CoveragePlace::of(path, files));
        let laid = place.as_ref().map_or_else(|| files.to_kept(), |place| place.clear(files).to_kept());
        let shows = RoomContent::Tested(Box::new(laid), owner, builds);
        let throwaway = self.throwaways.open_for(task.zone, project, shows, Some(&template.name)).await?;
        let room = throwaway.room()?;
        let shown = RoomFiles(FileTree::through(room.root().as_fd(), project)?);
        let runner = TestRunner::recognise(run.command, &shown);
        // A name that no test could have guessed when it was written.
        let report = format!(".skep-report-{}", &self.ledger.journal().vault().digest(room.work().as_os_str().as_encoded_bytes())[..16]);
        let reporting = runner.reporting(&report);
        let command = if run.reports { &reporting.command } else { run.command };
        let mut job = JobSpec::exec(command.iter().cloned());
        let mut variables = self.rooms.environment(project, Some(room), Path::new(""), template).await;
        variables.extend(reporting.environment.iter().cloned());
        job.env = tool::scrub(&variables).into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        job.output_max = OUTPUT_BYTES_MAX;
        job.limits.wall = Some(Duration::from_millis(limits::JOB_MS_DEFAULT));
        template.bound(&mut job);
        let start = Instant::now();
        let ran = room.run(job, None).await;
        let ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (end, is_cut, stdout, stderr) = match ran {
            Ok(outcome) => (end_of(&outcome), outcome.truncated, outcome.stdout, outcome.stderr),
            Err(error) => (CommandEnd::NotStarted(error.to_string()), false, Vec::new(), Vec::new()),
        };
        let own_files: Vec<&str> = [report.as_str()].into_iter().chain(run.coverage).collect();
        let (written, ignored) = self.written_by(files, room, &own_files).await?;
        let left = match aside(|| shown.0.now(&report))? {
            FileState::File { bytes, .. } => Some(bytes),
            _ => None,
        };
        let root = project.to_string_lossy();
        let (ended_well, is_whole) = (end == CommandEnd::Exited(0), matches!(end, CommandEnd::Exited(_)));
        let read = place.map(|place| {
            let read = || place.read(&shown.0, &room.work().join("upper"), began, &root, |path| trusted.tests.is_test(path));
            // What a command of its own measured counts only if it says that it could.
            if run.reports || ended_well { read() } else { Err("the command that measures coverage did not end well".to_owned()) }
        });
        let output = RunOutput { end, stdout: &stdout, stderr: &stderr, report: left.as_deref(), is_cut, root: &root };
        let read_run = read_run(&runner, &reporting, &output);
        let adds_builds = files.is_empty() && is_whole;
        let close = throwaway.close_and(|upper, used| {
            // Code of a task has no part in what later tasks are tested with.
            if adds_builds {
                self.rooms.keep_builds(&building, upper, &ignored, &own_files, used);
            }
        });
        close.await?;
        let text = format!("{}\n{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        Ok(SeenRun { run: read_run, text: self.ledger.redactor.text(&text).into_owned(), written, ms, coverage: read })
    }

    /// Names what is run in these rooms: builds of another command are of no use.
    fn build_key(&self, test: &gate::TestConfig, template: &str) -> String {
        let coverage = test.coverage.as_ref().and_then(|coverage| coverage.command.as_ref());
        let words = test.command.iter().chain(coverage).flat_map(|command| command.iter().map(String::as_bytes).chain([&b""[..]]));
        let parts: Vec<&[u8]> = words.chain([template.as_bytes()]).collect();
        workspace::hash::of_parts(&parts)
    }

    /// Which files that were there before the run are different after it: tests that change what they test prove nothing.
    async fn written_by(
        &self,
        files: &RoomSnapshot,
        room: &sandbox::Workspace,
        own_files: &[&str],
    ) -> Result<(Vec<String>, BTreeSet<String>), Stop> {
        let hash = |bytes: &[u8]| Ok(workspace::hash::sha256(bytes));
        let (after, ignored) = RoomSnapshot::take_after_run(room, files, &hash).await?;
        let project = FileTree::at(room.project().to_owned())?;
        let mut written = Vec::new();
        for path in after.changed_since(files) {
            let was_there = match files.paths.get(&path) {
                Some(state) => !matches!(state, State::Absent),
                None => aside(|| project.now(&path)).is_ok_and(|now| !matches!(now, FileState::Absent)),
            };
            let name = path.rsplit('/').next().unwrap_or(&path);
            if was_there && !own_files.contains(&path.as_str()) && !KEPT_BY_RUNNERS.contains(&name) {
                written.push(path);
            }
        }
        Ok((written, ignored))
    }

    fn evidence(&self, purpose: TestPurpose, tree: String, seen: &SeenRun) -> Result<TestEvidence, Stop> {
        let SeenRun { run, text, written, ms, .. } = seen;
        let outcome = match run.verdict {
            RunVerdict::Passed => TestOutcome::Passed,
            RunVerdict::Failed => TestOutcome::Failed,
            RunVerdict::CompileError => TestOutcome::CompileError,
            RunVerdict::NoTests => TestOutcome::NoTests,
            RunVerdict::TimedOut => TestOutcome::TimedOut,
            RunVerdict::NotStarted => TestOutcome::NotRun,
            RunVerdict::Crashed | RunVerdict::Unreadable | RunVerdict::Contradictory => TestOutcome::Crashed,
        };
        let doubts = written.iter().map(|path| format!("the tests changed `{path}` while they ran")).collect();
        let failing = run.tests.iter().filter(|test| test.is_bad()).map(TestResult::title).take(NAMED_MAX).collect();
        let report = serde_json::to_vec(run).map_err(|error| world::Fault::new(world::FaultKind::Bug, "a run cannot be written", error))?;
        Ok(TestEvidence {
            purpose,
            tree,
            outcome,
            passed: run.totals.passed,
            failed: run.totals.failed + run.totals.errored,
            skipped: run.totals.skipped,
            failing,
            doubts,
            remarks: run.remarks.clone(),
            output: Some(aside(|| self.ledger.keep(text.as_bytes()))?),
            report: Some(aside(|| self.ledger.keep(&report))?),
            coverage: None,
            ms: *ms,
        })
    }
}

fn end_of(outcome: &Outcome) -> CommandEnd {
    match outcome.exit {
        _ if outcome.timed_out => CommandEnd::TimedOut,
        Exit::Code(code) => CommandEnd::Exited(code),
        Exit::Signal(signal) => CommandEnd::Signalled(signal),
    }
}

/// Nothing is trusted that could be run. Who need not write tests first is not held up by that.
fn not_run(workflow: &Workflow, purpose: TestPurpose, tree: String) -> TestEvidence {
    let is_needed = workflow.is_test_first();
    let doubts = if is_needed { vec!["no test command is trusted: `test` in skep.yml names it".to_owned()] } else { Vec::new() };
    TestEvidence {
        purpose,
        tree,
        outcome: if is_needed { TestOutcome::NotRun } else { TestOutcome::NoTests },
        passed: 0,
        failed: 0,
        skipped: 0,
        failing: Vec::new(),
        doubts,
        remarks: Vec::new(),
        output: None,
        report: None,
        coverage: None,
        ms: 0,
    }
}

/// Tests that passed in this run and were not there, or did not pass, in the other.
pub(crate) fn passed_anew<'a>(run: &'a TestRun, before: Option<&'a TestRun>) -> impl Iterator<Item = &'a TestResult> {
    let was_there = move |test: &&TestResult| before.is_some_and(|before| before.tests.iter().any(|old| old.id() == test.id()));
    run.tests.iter().filter(|test| test.outcome == TestCaseOutcome::Passed).filter(move |test| !was_there(test))
}
