//! What the kernel's own runs of the tests built lies beneath its next ones, and no task puts anything into it.

pub mod killed;

use journal::Filter;
use kernel::{Kernel, Stop};
use sandbox::Launcher;
use std::path::PathBuf;
use std::sync::Arc;
use testkit::bed::Bed;
use testkit::harness::Test;
use world::{Discipline, Event};

pub fn tests() -> Vec<Test> {
    vec![
        Test::new("what_is_built_for_the_base_is_there_for_later_runs", || play(1, built_once)),
        Test::new("a_task_cannot_poison_what_later_tasks_are_tested_with", || play(1, poisoned)),
        Test::new("builds_are_used_over_what_they_were_made_over_and_over_nothing_else", || play(1, moved)),
        Test::new("a_kernel_uses_what_the_one_before_it_finished_and_removes_the_rest", || play(2, restarted)),
        Test::new("a_kernel_that_is_killed_while_it_keeps_builds_leaves_them_whole_or_not_at_all", killed::at_every_moment),
    ]
}

/// The trusted command: it builds what is not there yet, and says what it found and what it left.
const RUN: &str = "mkdir -p build\n\
    if [ -e build/made ]; then echo \"# found $(cat build/made)\"; else echo made > build/made; echo '# found nothing'; fi\n\
    for test in tests/*.sh; do sh \"$test\" || exit 1; done\n\
    echo \"# left $(cat build/made)\"\n";
const OLD: &str = "echo '1..1'; echo 'ok 1 - old'\n";
/// A strict task: a test that wants a file, and the file. Its brain has a build of its own, and its test writes into the kernel's.
const SCRIPT: &str = "call plan.complete\n\
    call fs.write path=build/made content=\"brain\\n\"\n\
    call fs.write path=tests/old.sh content=\"echo '1..2'; echo 'ok 1 - old'; echo poison > build/made; if [ -e new.txt ]; then echo 'ok 2 - new'; else echo 'not ok 2 - new'; echo '# left' $(cat build/made); exit 1; fi\\n\"\n\
    call plan.complete\n\
    call fs.write path=new.txt content=\"here\\n\"\n\
    call plan.complete\n\
    done\n";

struct Builds {
    bed: Bed,
    kernel: Option<Arc<Kernel>>,
    launchers: std::vec::IntoIter<Launcher>,
}

/// A project whose tests are run by this script.
fn bed(run: &str) -> Result<Bed, String> {
    let policy = "capabilities:\n  - { name: runs, match: { syscall: 'fs.*' }, action: allow }\n";
    let files = [
        (".skep/policy.yaml", policy),
        ("skep.yml", "test: { command: [sh, run.sh] }\n"),
        (".gitignore", "build/\n"),
        ("run.sh", run),
        ("tests/old.sh", OLD),
    ];
    Bed::new(&files.map(|(path, text)| (path.to_owned(), text.to_owned())))
}

fn play<F: Future<Output = Result<(), String>>>(kernels: usize, test: impl FnOnce(Builds) -> F) -> Result<(), String> {
    // All are forked while there is no thread.
    let launchers: Vec<Launcher> = (0..kernels).map(|_| Launcher::start()).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    let bed = bed(RUN)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut builds = Builds { bed, kernel: None, launchers: launchers.into_iter() };
        builds.boot().await?;
        test(builds).await
    })
}

impl Builds {
    async fn boot(&mut self) -> Result<(), String> {
        if let Some(kernel) = self.kernel.take() {
            kernel.stop("the next one comes").await.map_err(|fault| fault.to_string())?;
        }
        let launcher = self.launchers.next().ok_or("no launcher is left")?;
        let kernel = self.bed.boot(launcher).await.map_err(|fault| fault.to_string())?;
        let trusted = async {
            let proposal = kernel.gate.init(&self.bed.project()).await?;
            if proposal.ready() && proposal.diff.is_empty() {
                return Ok(());
            }
            testkit::trust(&kernel, &self.bed.project(), &proposal.hash).await.map(drop)
        };
        trusted.await.map_err(|stop: Stop| stop.to_string())?;
        self.kernel = Some(kernel);
        Ok(())
    }

    /// What each run of the tests of one strict task said of the builds that it found and left: base, red, green.
    async fn task(&self) -> Result<Vec<String>, String> {
        let kernel = self.kernel.as_ref().ok_or("no kernel runs")?;
        let script = self.bed.folder().join("script");
        std::fs::write(&script, SCRIPT).map_err(|error| error.to_string())?;
        let mut new = self.bed.task("build", &script);
        new.shape.discipline = Some(Discipline::Strict);
        let ran = async {
            let task = kernel.add(new).await?.task;
            kernel.tasks.settled(task).await?;
            let filter = Filter { task: Some(task.to_string()), kinds: vec!["tests.ran".to_owned()], ..Filter::default() };
            Ok(kernel.ledger.read(&filter)?)
        };
        let records = ran.await.map_err(|stop: Stop| stop.to_string())?;
        let mut told = Vec::new();
        for record in records {
            let event =
                Event::parse(&record.kind, record.payload().map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
            let Event::TestsRan(ran) = event else { continue };
            let output = ran.run.output.ok_or("a run left nothing")?;
            let text = kernel.ledger.blob(&output).map_err(|fault| fault.to_string())?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let said: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# ")).collect();
            told.push(format!("{}: {}", ran.run.purpose.as_str(), said.join(", ")));
        }
        Ok(told)
    }

    fn folder(&self) -> PathBuf {
        self.bed.home().join("builds/zone-1")
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(found: T, wanted: T) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("{found:?} and not {wanted:?}")) }
}

/// The runs of a task that found what an earlier run on the base had made.
const FOUND: [&str; 3] = ["base: found made, left made", "red: found made, left poison", "green: found made, left poison"];

async fn built_once(builds: Builds) -> Result<(), String> {
    let first = ["base: found nothing, left made", FOUND[1], FOUND[2]];
    expect(builds.task().await?, first.map(str::to_owned).to_vec())?;
    expect(builds.task().await?, FOUND.map(str::to_owned).to_vec())?;
    expect(builds.bed.project().join("build").exists(), false)
}

/// The control stands beside it: each run that wrote the poison had it in its own room to the end.
async fn poisoned(builds: Builds) -> Result<(), String> {
    builds.task().await?;
    let kept = std::fs::read_dir(builds.folder()).map_err(|error| error.to_string())?;
    let layers: Vec<PathBuf> = kept.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    expect(layers.len(), 1)?;
    let made = std::fs::read_to_string(layers[0].join("layer/build/made")).map_err(|error| error.to_string())?;
    expect(made.as_str(), "made\n")?;
    expect(layers[0].join("layer/tests").exists(), false)?;
    expect(builds.task().await?, FOUND.map(str::to_owned).to_vec())
}

async fn moved(builds: Builds) -> Result<(), String> {
    builds.task().await?;
    // Beside them somebody works: they still fit.
    builds.bed.write("notes.txt", "mine\n")?;
    expect(builds.task().await?[0].as_str(), FOUND[0])?;
    // Now the person built as well, and what of both would be seen nobody could tell.
    builds.bed.write("build/made", "person\n")?;
    expect(builds.task().await?[0].as_str(), "base: found person, left person")?;
    std::fs::remove_dir_all(builds.bed.project().join("build")).map_err(|error| error.to_string())?;
    expect(builds.task().await?[0].as_str(), "base: found nothing, left made")
}

async fn restarted(mut builds: Builds) -> Result<(), String> {
    builds.task().await?;
    let planted = |path: &str, text: &str| {
        let path = builds.folder().join(path);
        let parent = path.parent().map(PathBuf::from).unwrap_or_default();
        std::fs::create_dir_all(parent).and_then(|()| std::fs::write(path, text)).map_err(|error| error.to_string())
    };
    // As a kernel leaves them that is killed while it copies, and as nobody should.
    planted("new-7/layer/build/made", "half\n")?;
    planted("9/layer/build/made", "no record\n")?;
    planted("../zone-99/1/layer/build/made", "no zone\n")?;
    builds.boot().await?;
    let left = std::fs::read_dir(builds.folder()).map_err(|error| error.to_string())?.count();
    expect((left, builds.folder().with_file_name("zone-99").exists()), (1, false))?;
    expect(builds.task().await?, FOUND.map(str::to_owned).to_vec())
}
