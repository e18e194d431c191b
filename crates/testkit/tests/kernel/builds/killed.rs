//! A kernel dies by SIGKILL while it keeps what a run of the tests built, at every step of that; the next one has the builds whole, or as they
//! were before, and nothing is left of the half.

use super::{SCRIPT, expect};
use journal::Options;
use kernel::{Home, Kernel, Stop, Tuning};
use sandbox::Launcher;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use testkit::bed::Bed;
use world::{Discipline, Event, TaskState};

const CHILD: &str = "kernel-that-keeps-builds";
/// The steps of `keep_builds`, in their order; from this one on the new builds have their name.
const MOMENTS: u64 = 6;
const PUBLISHED: u64 = 4;
const SIGKILL: i32 = 9;
/// How the names of builds begin that are not whole, and of the rooms that runs are made in.
const UNFINISHED: &str = "new-";
const RUNS: &str = "scratch-";

/// Each run adds a build of fifty files to those that it finds, and says how many of them are whole.
const RUN: &str = "mkdir -p build; whole=0; half=0\n\
    for made in build/*/; do [ -e \"$made\" ] || continue\n\
    if [ \"$(cat \"$made\"/* | grep -c whole)\" = 50 ]; then whole=$((whole+1)); else half=$((half+1)); fi; done\n\
    mkdir build/$whole; i=0; while [ $i -lt 50 ]; do echo whole > build/$whole/$i; i=$((i+1)); done\n\
    echo \"# $whole whole, $half half\"\n\
    for test in tests/*.sh; do sh \"$test\" || exit 1; done\n";

pub fn at_every_moment() -> Result<(), String> {
    let bed = super::bed(RUN)?;
    std::fs::write(bed.folder().join("script"), SCRIPT.replace("build/made", "build/other")).map_err(|error| error.to_string())?;
    let (builds, rooms) = (bed.home().join("builds/zone-1"), bed.home().join("work"));
    // The control: without a kill a run adds its build, and the next one finds it.
    expect(bases(&bed, None, 1)?, told(&[0]))?;
    expect(bases(&bed, None, 1)?, told(&[1]))?;
    let mut there = 2;
    for moment in 0..MOMENTS {
        let at = |why| format!("the kernel was killed at {moment}: {why}");
        expect(bases(&bed, Some(moment), 0)?, Vec::new()).map_err(at)?;
        // The control: it died in the middle.
        expect((has(&builds, UNFINISHED)?, has(&rooms, RUNS)?), (moment < PUBLISHED, true)).map_err(at)?;
        there += u64::from(moment >= PUBLISHED);
        expect(bases(&bed, None, 1)?, told(&[there])).map_err(at)?;
        there += 1;
        expect((has(&builds, UNFINISHED)?, names(&builds)?.len(), has(&rooms, RUNS)?), (false, 1, false)).map_err(at)?;
    }
    expect(bases(&bed, None, 1)?, told(&[there]))
}

fn told(whole: &[u64]) -> Vec<String> {
    whole.iter().map(|whole| format!("{whole} whole, 0 half")).collect()
}

fn names(folder: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).map_err(|error| error.to_string())).collect()
}

/// Has a folder something whose name begins so?
fn has(folder: &Path, start: &str) -> Result<bool, String> {
    Ok(names(folder)?.iter().any(|name| name.starts_with(start)))
}

/// What the runs on the base said of the builds that they found, in a kernel of its own process, which goes on with the task that was interrupted,
/// or has one more. With a moment it is killed there, and says nothing.
fn bases(bed: &Bed, moment: Option<u64>, runs: usize) -> Result<Vec<String>, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(me);
    command.arg(CHILD).arg(bed.folder()).arg(moment.map_or_else(|| "-".to_owned(), |moment| moment.to_string()));
    let ended = command.stdout(Stdio::piped()).output().map_err(|error| error.to_string())?;
    let said: Vec<String> = String::from_utf8_lossy(&ended.stdout).lines().map(str::to_owned).collect();
    match moment {
        Some(_) => expect(ended.status.signal(), Some(SIGKILL))?,
        None => expect((ended.status.success(), said.len()), (true, runs)).map_err(|why| format!("{why}: {said:?}"))?,
    }
    Ok(said)
}

/// Is this process to be such a kernel?
pub fn child() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    arguments.next().filter(|first| first == CHILD)?;
    let (Some(folder), Some(moment)) = (arguments.next(), arguments.next()) else { return Some(ExitCode::FAILURE) };
    let kill_at = moment.parse().ok().map(|moment| ("builds".to_owned(), moment));
    Some(match work(Path::new(&folder), kill_at) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    })
}

fn work(folder: &Path, kill_at: Option<(String, u64)>) -> Result<(), String> {
    let launcher = Launcher::start().map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    let work = async {
        let (project, home) = (folder.join("project"), Home::open(&folder.join("home"))?);
        let kernel = Kernel::boot_tuned(home, launcher, Options::default(), kill_at, Tuning::default()).await?;
        let proposal = kernel.gate.init(&project).await?;
        if !proposal.ready() || !proposal.diff.is_empty() {
            testkit::trust(&kernel, &project, &proposal.hash).await?;
        }
        let started =
            journal::Filter { kinds: vec!["kernel.started".to_owned()], reverse: true, limit: Some(1), ..journal::Filter::default() };
        let started = kernel.ledger.read(&started)?.first().map(|record| record.seq);
        let unended = kernel.ledger.look(|world| {
            let waits = |task: &&world::Task| matches!(task.state, TaskState::Running | TaskState::Queued);
            world.tasks.values().filter(waits).map(|task| task.id).collect::<Vec<_>>()
        });
        let task = match unended.first() {
            Some(task) => *task,
            None => {
                let brain = Some(format!("script:{}", folder.join("script").display()));
                let mut new = kernel::NewTask::new(project, world::Mode::Act, "build".to_owned(), brain);
                new.shape.discipline = Some(Discipline::Strict);
                kernel.add(new).await?.task
            }
        };
        let settled = kernel.tasks.settled(task).await?;
        // Nobody knows how far the call came that was interrupted: a person lets it be made again.
        if let (TaskState::Parked { review }, false) = (settled.state, unended.is_empty()) {
            kernel.answer(review, kernel::Reply::yes(), "human", None).await?;
            kernel.tasks.settled(task).await?;
        }
        let ran = journal::Filter { kinds: vec!["tests.ran".to_owned()], after_seq: started, ..journal::Filter::default() };
        for record in kernel.ledger.read(&ran)? {
            let Ok(Event::TestsRan(ran)) = Event::parse(&record.kind, record.payload().map_err(bug)?) else { continue };
            let Some(output) = ran.run.output.filter(|_| ran.run.purpose == world::TestPurpose::Base) else { continue };
            let text = String::from_utf8_lossy(&kernel.ledger.blob(&output)?).into_owned();
            text.lines()
                .filter_map(|line| line.strip_prefix("# "))
                .filter(|line| line.contains("whole"))
                .for_each(|line| println!("{line}"));
        }
        kernel.stop("it is done").await?;
        Ok(())
    };
    runtime.block_on(work).map_err(|stop: Stop| stop.to_string())
}

fn bug(error: impl std::fmt::Display) -> Stop {
    world::Fault::new(world::FaultKind::Bug, "a record cannot be read", error).into()
}
