//! `skep watch`: a story as it happens. Ctrl-c ends the watching, never the work.

use crate::command::journal::next_line;
use crate::command::log::records;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::record::ParsedRecord;
use crate::show::progress::{clear, draw};
use crate::show::transcript::Transcript;
use crate::show::{Line, Page};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::code::EXIT_FAILED;
use wire::method::Nothing;
use wire::method::journal::RecordFilter;
use wire::table::{JournalFollow, ProcList};
use wire::{Event, KernelClient, Pid, TaskId};

/// Follow a task, or everything, as it happens
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep watch            everything, from now on\n  skep watch task-3     one task, from its beginning to its end\n\n\
Ctrl-c returns; the work goes on."
)]
pub struct WatchArgs {
    /// Which task [default: all]
    task: Option<TaskId>,
}

impl WatchArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let mut story = Follower::new(self.task, console);
        let mut filter = RecordFilter { task: self.task, ..RecordFilter::default() };
        match self.task {
            Some(task) => {
                for line in records(&mut kernel, task).await? {
                    filter.after_seq = story.print(&line);
                }
            }
            None => {
                story.names = names(&mut kernel).await?;
                story.open();
            }
        }
        if let Some(exit) = story.ended {
            return Ok(exit);
        }
        kernel.call::<JournalFollow>(&filter).await?;
        let mut tick = tokio::time::interval(Duration::from_millis(100));
        loop {
            let line = tokio::select! {
                line = next_line(&mut kernel) => line?,
                _ = tokio::signal::ctrl_c() => {
                    story.clear_spinner();
                    return OK;
                }
                _ = tick.tick() => {
                    story.draw_spinner();
                    continue;
                }
            };
            let Some(line) = line else { return OK };
            story.print(&line);
            if let Some(exit) = story.ended {
                return Ok(exit);
            }
        }
    }
}

async fn names(kernel: &mut KernelClient) -> Result<BTreeMap<Pid, String>, CommandError> {
    let processes = kernel.call::<ProcList>(&Nothing {}).await?.processes;
    Ok(processes.into_iter().map(|process| (process.pid, process.name)).collect())
}

struct Follower<'a> {
    console: &'a Console,
    /// Of one task, or of all with the process's name before each line.
    task: Option<TaskId>,
    names: BTreeMap<Pid, String>,
    transcript: Transcript,
    /// Set when the one task has ended.
    ended: Option<u8>,
    frame: usize,
}

impl<'a> Follower<'a> {
    fn new(task: Option<TaskId>, console: &'a Console) -> Follower<'a> {
        Follower { console, task, names: BTreeMap::new(), transcript: Transcript::default(), ended: None, frame: 0 }
    }

    fn open(&self) {
        let margin = Line::new().plain(" ".repeat(self.width() + 3)).faint("┬");
        let lines = vec![Line::new(), Line::new().plain("lets watch..."), Line::new(), margin];
        if !self.console.json {
            self.console.out.page(&Page(lines));
        }
    }

    fn width(&self) -> usize {
        self.names.values().map(|name| Line::new().plain(name).width()).max().unwrap_or(0)
    }

    /// Prints one record and returns its number.
    fn print(&mut self, line: &str) -> Option<u64> {
        let record = ParsedRecord::parse(line)?;
        if self.task.is_some() {
            self.ended = match &record.event {
                Some(Event::TaskFinished(_)) => Some(0),
                Some(Event::TaskFailed(_) | Event::TaskCancelled(_)) => Some(EXIT_FAILED),
                _ => self.ended,
            };
        }
        if let Some(Event::ProcSpawned(e)) = &record.event {
            self.names.insert(e.pid, e.name.clone());
        }
        if self.console.json {
            self.console.out.json(&serde_json::value::RawValue::from_string(line.to_owned()).ok());
            return Some(record.seq);
        }
        let page = self.transcript.add(&record);
        if !page.is_empty() {
            self.clear_spinner();
            self.console.out.wrapped(&if self.task.is_some() { page } else { self.with_process_name(&record, page) });
        }
        Some(record.seq)
    }

    /// `● foreman.1 │ …`
    fn with_process_name(&self, record: &ParsedRecord, page: Page) -> Page {
        let name = record.pid().and_then(|pid| self.names.get(&pid)).map_or("?", String::as_str);
        let width = self.width();
        let margin = |line| Line::new().good("● ").join(Line::new().strong(name).pad(width)).faint(" │ ").join(line);
        page.0.into_iter().map(margin).collect()
    }

    /// What goes on right now, on a terminal.
    fn draw_spinner(&mut self) {
        const FRAMES: [&str; 4] = ["◐", "◓", "◑", "◒"];
        let screen = self.console.err;
        if let Some(doing) =
            self.transcript.current_call().filter(|_| screen.tty && screen.colour && self.console.out.tty && !self.console.json)
        {
            self.frame = (self.frame + 1) % FRAMES.len();
            draw(screen, &Line::new().name(format!("  {} ", FRAMES[self.frame])).faint(doing).faint(" …"));
        }
    }

    fn clear_spinner(&self) {
        if self.console.err.tty && self.console.err.colour && self.console.out.tty {
            clear(self.console.err);
        }
    }
}
