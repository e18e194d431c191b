//! `skep diff`: what a task changed, once or as it happens.

use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::interrupt::Interrupt;
use crate::show::{Line, diff};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::method::task::{TaskDiffResult, TaskFileParams, TaskIdParams, TaskPatchParams};
use wire::table::{TaskDiff, TaskFile, TaskPatch, TaskShow};
use wire::{ErrorCode, KernelClient, TaskId, base64};

/// Between two looks at a running task.
const LOOK_MS: u64 = 1_000;

/// Show what a task changed
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep diff task-3\n  skep diff task-3 --stat\n  skep diff task-3 --follow           until it is done\n  skep diff task-3 | git apply        in a pipe it is a patch for git\n  skep diff task-3 --file data.bin > new.bin\n\n\
A patch holds what a merge would take. What stays out is told on stderr, and\nwith --text in the output, as on a terminal."
)]
pub struct DiffArgs {
    /// Task id, as `skep status` prints it
    task: TaskId,
    /// Show changes as they are made, until the task is done
    #[arg(long, short)]
    follow: bool,
    /// The files and how many lines change, without the lines
    #[arg(long, conflicts_with_all = ["follow", "file"])]
    stat: bool,
    /// In a pipe too: for people, not for git
    #[arg(long, conflicts_with_all = ["stat", "file"])]
    text: bool,
    /// Print this changed file itself, as the task left it
    #[arg(long, value_name = "PATH", conflicts_with = "follow")]
    file: Option<String>,
    /// With --file: as it was before the task, or before its merge
    #[arg(long, requires = "file")]
    before: bool,
}

impl DiffArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        if let Some(path) = self.file {
            return print(&mut kernel, TaskFileParams { task: self.task, path, before: self.before, offset: 0 }, console).await;
        }
        let params = TaskIdParams { task: self.task };
        if !self.follow {
            let result = console.wait_counting("comparing", Some(self.task), kernel.call::<TaskDiff>(&params)).await?;
            match (self.stat, console.out.tty || self.text || console.json) {
                (true, _) => console.show(&result, |result| diff::stat(result, console.out.columns())),
                (false, true) => console.show_uncut(&result, diff::full),
                (false, false) => {
                    print_patch(&mut kernel, self.task, console).await?;
                    console.err.wrapped(&diff::left_out(&result, console.err.columns()));
                }
            }
            return OK;
        }
        let mut seen = LastShown::default();
        let mut interrupt = Interrupt::open()?;
        loop {
            // The state first: what changed before the end is shown by the look after it.
            let view = kernel.call::<TaskShow>(&params).await?;
            let over = view.state.ended() || view.merge.is_some();
            let result = kernel.call::<TaskDiff>(&params).await?;
            seen.print_changes(&result, console);
            if over {
                return OK;
            }
            tokio::select! {
                () = interrupt.pressed() => return OK,
                () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => {}
            }
        }
    }
}

/// The changes as git takes them. All of it is fetched before any of it is printed: half a patch is none.
async fn print_patch(kernel: &mut KernelClient, task: TaskId, console: &Console) -> Result<(), CommandError> {
    let mut patch = Vec::new();
    let mut digest = None;
    loop {
        let piece = kernel.call::<TaskPatch>(&TaskPatchParams { task, offset: patch.len() as u64 }).await?;
        if digest.get_or_insert_with(|| piece.digest.clone()) != &piece.digest {
            return Err(CommandError::new(ErrorCode::WrongState, format!("{task} changes its files right now"))
                .fix(format!("wait for its end: skep watch {task}")));
        }
        let bytes = base64::decode(&piece.data).filter(|bytes| !bytes.is_empty() || piece.bytes == patch.len() as u64);
        patch.extend(bytes.ok_or_else(|| CommandError::new(ErrorCode::Internal, "the kernel's answer cannot be read"))?);
        if patch.len() as u64 >= piece.bytes {
            console.out.write(&patch);
            return Ok(());
        }
    }
}

/// A changed file, byte for byte; made visible where a person would see it.
async fn print(kernel: &mut KernelClient, mut params: TaskFileParams, console: &Console) -> ExitResult {
    let mut rest = Vec::new();
    loop {
        let piece = kernel.call::<TaskFile>(&params).await?;
        let bytes =
            base64::decode(&piece.data).ok_or_else(|| CommandError::new(ErrorCode::Internal, "the kernel's answer cannot be read"))?;
        params.offset += bytes.len() as u64;
        let over = bytes.is_empty() || params.offset >= piece.bytes;
        if console.out.tty {
            rest.extend(bytes);
            let whole = if over { rest.len() } else { rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
            let lines: Vec<u8> = rest.drain(..whole).collect();
            let page = lines.split_inclusive(|byte| *byte == b'\n');
            console.out.uncut(&page.map(|line| Line::new().plain(server::readable(line.strip_suffix(b"\n").unwrap_or(line)))).collect());
        } else {
            console.out.write(&bytes);
        }
        if over {
            return OK;
        }
    }
}

/// What was shown last.
#[derive(Default)]
struct LastShown {
    files: BTreeMap<String, String>,
    once: bool,
}

impl LastShown {
    /// On a terminal the whole is drawn anew; elsewhere what is new is added.
    fn print_changes(&mut self, result: &TaskDiffResult, console: &Console) {
        let now: BTreeMap<String, String> =
            result.files.iter().map(|file| (file.path.clone(), format!("{} {:?} {}", file.kind, file.refused, file.diff))).collect();
        if self.once && now == self.files {
            return;
        }
        if console.json {
            console.out.json(result);
        } else if console.out.tty {
            console.out.write(b"\x1b[H\x1b[2J");
            console.out.page(&diff::full(result));
        } else {
            let fresh = |path: &String| now.get(path) != self.files.get(path);
            let mut part = result.clone();
            part.files.retain(|file| fresh(&file.path));
            if !part.files.is_empty() {
                console.out.uncut(&diff::files(&part));
            }
            for path in self.files.keys().filter(|path| !now.contains_key(*path)) {
                console.out.uncut(&diff::gone(path));
            }
        }
        self.files = now;
        self.once = true;
    }
}
