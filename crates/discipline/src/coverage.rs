//! How much of the project the tests reach: read from what the kernel's own run wrote, and held against the zone's baseline.
//!
//! **Invariant.** A report counts only if the run itself wrote it: before the run nothing stands in its place, whoever brought it. What is older
//! than the run, names files that are not there or more lines than they have is no report, and that is told. Code under test can still write what
//! it likes into its own report (`docs/tests.md`).

use crate::test_run::SeenRun;
use crate::{PhaseWork, TestFirst};
use std::cmp::Ordering;
use std::path::Path;
use std::time::{Duration, SystemTime};
use testing::{Coverage, compare_coverage, read_coverage};
use workflow::discipline::{CoverageStanding, DebtJudgement, DebtLimits, judge_debt};
use workspace::{FileTree, RoomSnapshot, State, aside, text_at};
use world::coverage::percent;
use world::event::CoverageJudged;
use world::{
    CoverageEvidence, CoverageFinding, CoverageVerdict, Event, FileCoverageMove, MeasuredCoverage, MergeId, Stop, Task, TestPurpose,
    Workflow, World, ZoneCoverage, ZoneId,
};

/// Files whose change a record names.
const MOVES_MAX: usize = 20;
/// A file system may keep times of files by the second only.
const TIME_GRAIN: Duration = Duration::from_secs(1);

/// What a run left where its report belongs, or why that is none.
pub(crate) type ReadReport = Result<Coverage, String>;

/// A report's place in the room of a run.
pub(crate) struct CoveragePlace<'a> {
    pub path: &'a str,
    /// Something stood there that the task brought.
    pub was_brought: bool,
}

impl<'a> CoveragePlace<'a> {
    pub fn of(path: &'a str, files: &RoomSnapshot) -> CoveragePlace<'a> {
        let is_there = |state: &State| !matches!(state, State::Absent);
        let was_brought = files.paths.get(path).is_some_and(is_there) || files.unkept.contains(path) || files.hidden.contains(path);
        CoveragePlace { path, was_brought }
    }

    /// The same files with nothing in the report's place.
    pub fn clear(&self, files: &RoomSnapshot) -> RoomSnapshot {
        let mut cleared = files.clone();
        cleared.paths.insert(self.path.to_owned(), State::Absent);
        cleared
    }

    /// Reads what the run left. `tree` shows the room, `upper` holds what was written in it.
    pub fn read(&self, tree: &FileTree, upper: &Path, began: SystemTime, root: &str, is_test: impl Fn(&str) -> bool) -> ReadReport {
        let none = || match self.was_brought {
            true => format!("`{}` was brought by the task and not written by the run of the tests", self.path),
            false => format!("the run of the tests wrote no `{}`", self.path),
        };
        let text = text_at(tree, self.path).ok_or_else(none)?;
        let written = aside(|| upper.join(self.path).symlink_metadata()).and_then(|found| found.modified()).map_err(|_| none())?;
        if written + TIME_GRAIN < began {
            return Err(format!("`{}` is older than the run of the tests", self.path));
        }
        let (_, coverage) = read_coverage(&text, root).map_err(|why| format!("`{}`: {why}", self.path))?;
        let is_outside = |path: &str| path.starts_with('/') || path.starts_with("../");
        let coverage = coverage.without(|path| is_outside(path) || is_test(path));
        if coverage.total().total == 0 {
            return Err(format!("`{}` says nothing of the project's sources", self.path));
        }
        let lines = |path: &str| text_at(tree, path).map(|text| text.lines().count() as u64);
        match coverage.contradiction(lines) {
            Some(why) => Err(format!("`{}` is not of this run: {why}", self.path)),
            None => Ok(coverage),
        }
    }
}

impl TestFirst<'_> {
    /// What is said of coverage by a run that was seen, by a run of its own where the project wants one. `None` where nothing is measured.
    pub(crate) async fn measure(
        &self,
        work: &PhaseWork<'_>,
        workflow: &Workflow,
        files: &RoomSnapshot,
        purpose: TestPurpose,
        seen: Option<&mut SeenRun>,
    ) -> Result<Option<CoverageEvidence>, Stop> {
        let trusted = self.gate.policies.in_force(work.task.zone)?;
        let (Some(wanted), Some(seen)) = (&trusted.config.test.coverage, seen) else { return Ok(None) };
        // New tests are to fail; and what strict work begins with is known from the merge before it.
        let is_of_no_use = match purpose {
            TestPurpose::Red => true,
            TestPurpose::Base => wanted.command.is_some() && workflow.is_test_first(),
            TestPurpose::Green => false,
        };
        if is_of_no_use {
            return Ok(None);
        }
        if wanted.command.is_some() && seen.run.verdict == testing::RunVerdict::Passed {
            let (read, ms) = self.run_coverage(work, files).await?;
            seen.coverage = Some(read);
            seen.ms += ms;
        }
        let read = seen.coverage.take().unwrap_or_else(|| Err("the tests did not pass, so nothing was measured".to_owned()));
        let coverage = match read {
            Ok(coverage) => coverage,
            Err(why) => return Ok(Some(CoverageEvidence::Missing { why: self.ledger.redactor.text(&why).into_owned() })),
        };
        let now = self.keep(&coverage)?;
        let zone = self.zone_coverage(work.task.zone);
        let base = workflow.base.as_ref().and_then(|base| base.coverage.as_ref()).and_then(CoverageEvidence::measured);
        let standing = standing(zone.as_deref(), base.map(|base| &base.now));
        let judged = standing.filter(|_| purpose == TestPurpose::Green && workflow.exemption.is_none());
        let limits = self.debt_limits(work.task.zone)?;
        let verdict = judged.map(|standing| judge_debt(workflow.mode, &limits, &standing, now.hundredths()).verdict);
        let before = zone.map(|zone| zone.baseline_files).or_else(|| base.map(|base| base.now.files.clone()));
        let moves = before.and_then(|before| self.kept(&before)).map(|before| moves_between(&before, &coverage)).unwrap_or_default();
        let finding = CoverageFinding { now, baseline: standing.map(|standing| standing.baseline), verdict, moves };
        Ok(Some(CoverageEvidence::Measured(Box::new(finding))))
    }

    /// Must the project be measured as it was before the task, because no merge of it was measured yet?
    pub(crate) fn wants_base_coverage(&self, task: &Task, workflow: &Workflow) -> Result<bool, Stop> {
        let trusted = self.gate.policies.in_force(task.zone)?;
        let is_wanted = trusted.config.test.coverage.is_some() && workflow.exemption.is_none() && workflow.base.is_none();
        Ok(is_wanted && self.zone_coverage(task.zone).is_none())
    }

    fn zone_coverage(&self, zone: ZoneId) -> Option<Box<ZoneCoverage>> {
        self.ledger.look(|world| world.zones.get(&zone).and_then(|zone| zone.coverage.clone()))
    }

    fn keep(&self, coverage: &Coverage) -> Result<MeasuredCoverage, Stop> {
        let bytes =
            serde_json::to_vec(coverage).map_err(|error| world::Fault::new(world::FaultKind::Bug, "coverage cannot be written", error))?;
        let total = coverage.total();
        Ok(MeasuredCoverage { covered: total.covered, total: total.total, files: aside(|| self.ledger.keep(&bytes))? })
    }

    fn kept(&self, blob: &str) -> Option<Coverage> {
        serde_json::from_slice(&self.ledger.blob(blob).ok()?).ok()
    }

    /// Files of a zone that differ from its baseline; none where its reports were forgotten.
    pub fn zone_moves(&self, zone: &ZoneCoverage) -> Vec<FileCoverageMove> {
        let both = self.kept(&zone.baseline_files).zip(self.kept(&zone.now.files));
        both.map(|(before, now)| moves_between(&before, &now)).unwrap_or_default()
    }

    /// Is work refused here in which tests do not come first?
    pub fn is_explore_locked(&self, zone: ZoneId) -> bool {
        self.ledger.look(|world| world.zones.get(&zone).is_some_and(world::Zone::is_explore_locked))
    }

    /// The limits that the policy in force sets in a zone.
    pub fn debt_limits(&self, zone: ZoneId) -> Result<DebtLimits, Stop> {
        let trusted = self.gate.policies.in_force(zone)?;
        let debt = &trusted.policy.test_rules.debt;
        Ok(DebtLimits { warning: debt.warning, lockout: debt.lockout, locks: debt.locks })
    }
}

fn standing(zone: Option<&ZoneCoverage>, base: Option<&MeasuredCoverage>) -> Option<CoverageStanding> {
    match (zone, base) {
        (Some(zone), _) => Some(CoverageStanding { baseline: zone.baseline, now: zone.now.hundredths(), is_locked: zone.locked }),
        (None, Some(base)) => Some(CoverageStanding::fresh(base.hundredths())),
        (None, None) => None,
    }
}

/// Files whose coverage differs, those that lost most first; the first of them.
fn moves_between(before: &Coverage, now: &Coverage) -> Vec<FileCoverageMove> {
    let changes = compare_coverage(before, now).into_iter().take(MOVES_MAX);
    changes.map(|change| FileCoverageMove { path: change.path, before: change.before, after: change.after }).collect()
}

/// The record of what a merge that is in the project did to coverage; `None` where it was not measured, or owes nothing because it is exempt.
pub fn judged_merge(world: &World, task: &Task, merge: MergeId, limits: &DebtLimits) -> Option<Event> {
    let task = world.tasks.get(&task.id)?;
    let workflow = task.workflow.as_deref().filter(|workflow| workflow.exemption.is_none())?;
    let found = |evidence: Option<&world::TestEvidence>| Some(evidence?.coverage.as_ref()?.measured()?.now.clone());
    let (now, base) = (found(workflow.green.as_ref())?, found(workflow.base.as_ref()));
    let zone = world.zones.get(&task.zone)?.coverage.as_deref();
    let is_strict = workflow.mode == world::Discipline::Strict;
    let before = match standing(zone, base.as_ref()) {
        Some(before) => before,
        None if is_strict => CoverageStanding::fresh(now.hundredths()),
        // Nothing is known that it could be held against.
        None => return None,
    };
    let DebtJudgement { verdict, after, .. } = judge_debt(workflow.mode, limits, &before, now.hundredths());
    let kept_files = zone.map(|zone| zone.baseline_files.clone()).or_else(|| base.map(|base| base.files));
    // Which files the baseline is made of is known while it is what was measured; in debt it stays what it was.
    let baseline_files = match kept_files {
        Some(files) if !(is_strict && after.baseline == now.hundredths()) => files,
        _ => now.files.clone(),
    };
    let was = zone.map(|zone| zone.baseline);
    let (pid, id, mode) = (task.pid, Some(task.id), workflow.mode);
    let (baseline, locked) = (after.baseline, after.is_locked);
    Some(CoverageJudged { pid, task: id, zone: task.zone, merge, mode, verdict, now, baseline, baseline_files, was, locked }.into())
}

/// What whoever decides on a merge is told of coverage.
pub(crate) fn coverage_reasons(evidence: &CoverageEvidence) -> Vec<String> {
    let finding = match evidence {
        CoverageEvidence::Missing { why } => return vec![format!("NO COVERAGE REPORT: {why}; nobody knows what this does to coverage")],
        CoverageEvidence::Measured(finding) => finding,
    };
    let now = finding.now.hundredths();
    let Some(baseline) = finding.baseline else { return vec![format!("coverage: {}, measured for the first time", percent(now))] };
    let change = match now.cmp(&baseline) {
        Ordering::Less => format!("{} below its baseline", percent(baseline - now)),
        Ordering::Equal => "as its baseline".to_owned(),
        Ordering::Greater => format!("{} above its baseline", percent(now - baseline)),
    };
    let now = percent(now);
    let told = match finding.verdict {
        Some(CoverageVerdict::Locked) => {
            format!("COVERAGE FALLS to {now}, {change}: a merge locks explore mode until strict work brings it back")
        }
        Some(CoverageVerdict::Warning) => format!("WARNING: coverage falls to {now}, {change}"),
        Some(CoverageVerdict::Recovered) => format!("coverage: {now}, {change}; a merge unlocks explore mode"),
        Some(CoverageVerdict::Fine) | None => format!("coverage: {now}, {change}"),
    };
    let of = |figure: Option<u64>| figure.map_or_else(|| "none".to_owned(), percent);
    let files = finding.moves.iter().map(|file| format!("coverage of {}: {} to {}", file.path, of(file.before), of(file.after)));
    std::iter::once(told).chain(files).collect()
}

/// Why a merge is not let pass unread for what it does to coverage, or for what nobody knows of that.
pub fn coverage_doubts(workflow: &Workflow, min_delta: i64) -> Vec<String> {
    let Some(evidence) = workflow.green.as_ref().and_then(|green| green.coverage.as_ref()) else { return Vec::new() };
    let fell = match evidence {
        CoverageEvidence::Missing { .. } => true,
        CoverageEvidence::Measured(finding) => {
            let delta = finding.baseline.map(|baseline| finding.now.hundredths() as i64 - baseline as i64);
            workflow.exemption.is_none() && delta.is_some_and(|delta| delta < min_delta)
        }
    };
    if fell { coverage_reasons(evidence).into_iter().take(1).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const REPORT: &str = "out/lcov.info";
    const GOOD: &str = "SF:src/a\nDA:1,1\nDA:2,0\nend_of_record\nSF:tests/t\nDA:1,1\nend_of_record\nSF:/usr/lib/x\nDA:1,1\nend_of_record\n";

    /// A room as it is after a run that left this report, looked at as if the run had begun at `began`.
    fn read(report: Option<&str>, began: SystemTime, files: &RoomSnapshot) -> ReadReport {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for path in ["src/a", "tests/t"] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), "one\ntwo\n").unwrap();
        }
        if let Some(report) = report {
            fs::create_dir_all(root.join("out")).unwrap();
            fs::write(root.join(REPORT), report).unwrap();
        }
        let tree = FileTree::at(root.to_owned()).unwrap();
        CoveragePlace::of(REPORT, files).read(&tree, root, began, "/p", |path| path.starts_with("tests/"))
    }

    #[test]
    fn only_a_report_of_the_run_itself_counts() {
        let (files, now) = (RoomSnapshot::default(), SystemTime::now());
        let why = |report: &str| read(Some(report), now, &files).unwrap_err();
        // The control. Lines of tests and of other folders are not the project's.
        let good = read(Some(GOOD), now, &files).unwrap();
        assert_eq!((good.total().covered, good.total().total), (1, 2));
        assert_eq!(read(None, now, &files).unwrap_err(), "the run of the tests wrote no `out/lcov.info`");
        let later = now + Duration::from_secs(60);
        assert_eq!(read(Some(GOOD), later, &files).unwrap_err(), "`out/lcov.info` is older than the run of the tests");
        assert!(why("SF:src/none\nDA:1,1\nend_of_record\n").ends_with("it names `src/none`, which is not there"));
        assert!(why("SF:src/a\nDA:1,1\nDA:2,1\nDA:3,1\nend_of_record\n").ends_with("it has 3 lines of `src/a`, which has 2"));
        assert!(why("SF:tests/t\nDA:1,1\nend_of_record\n").ends_with("says nothing of the project's sources"));
        assert!(why("nonsense").starts_with("`out/lcov.info`: "));
    }

    #[test]
    fn what_the_task_brought_is_cleared_away_and_named() {
        let mut files = RoomSnapshot::default();
        files.paths.insert(REPORT.to_owned(), State::File { blob: "b".to_owned(), mode: None, owner: None });
        let place = CoveragePlace::of(REPORT, &files);
        assert_eq!(place.clear(&files).paths.get(REPORT), Some(&State::Absent));
        let why = read(None, SystemTime::now(), &files).unwrap_err();
        assert_eq!(why, "`out/lcov.info` was brought by the task and not written by the run of the tests");
        files.paths.insert(REPORT.to_owned(), State::Absent);
        assert!(!CoveragePlace::of(REPORT, &files).was_brought, "the control: it removed one");
    }
}
