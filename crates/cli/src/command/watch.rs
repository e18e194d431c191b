//! `skep watch`: a story as it happens. Ctrl-c ends the watching, never the work.

use crate::command::journal::next_line;
use crate::command::log::records;
use crate::console::{Console, OK, Outcome};
use crate::record::Record;
use crate::show::progress::{clear, draw};
use crate::show::transcript::Transcript;
use crate::show::{Line, Page};
use crate::trouble::Trouble;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::code::EXIT_FAILED;
use wire::method::Nothing;
use wire::method::journal::RecordFilter;
use wire::table::{JournalFollow, ProcList};
use wire::{Client, Event, Pid, TaskId};

/// Follow a task, or everything, as it happens
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep watch            everything, from now on\n  skep watch task-3     one task, from its beginning to its end\n\n\
Ctrl-c returns; the work goes on."
)]
pub struct Watch {
    /// Which task [default: all]
    task: Option<TaskId>,
}

impl Watch {
    pub async fn run(self, console: &Console) -> Outcome {
        let mut kernel = console.kernel().await?;
        let mut story = Story::new(self.task, console);
        let mut filter = RecordFilter { task: self.task, ..RecordFilter::default() };
        match self.task {
            Some(task) => {
                for line in records(&mut kernel, task).await? {
                    filter.after_seq = story.tell(&line);
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
                    story.hush();
                    return OK;
                }
                _ = tick.tick() => {
                    story.spin();
                    continue;
                }
            };
            let Some(line) = line else { return OK };
            story.tell(&line);
            if let Some(exit) = story.ended {
                return Ok(exit);
            }
        }
    }
}

async fn names(kernel: &mut Client) -> Result<BTreeMap<Pid, String>, Trouble> {
    let processes = kernel.call::<ProcList>(&Nothing {}).await?.processes;
    Ok(processes.into_iter().map(|process| (process.pid, process.name)).collect())
}

struct Story<'a> {
    console: &'a Console,
    /// Of one task, or of all with the process's name before each line.
    task: Option<TaskId>,
    names: BTreeMap<Pid, String>,
    told: Transcript,
    /// Set when the one task has ended.
    ended: Option<u8>,
    frame: usize,
}

impl<'a> Story<'a> {
    fn new(task: Option<TaskId>, console: &'a Console) -> Story<'a> {
        Story { console, task, names: BTreeMap::new(), told: Transcript::default(), ended: None, frame: 0 }
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

    /// Tells one record and returns its number.
    fn tell(&mut self, line: &str) -> Option<u64> {
        let record = Record::parse(line)?;
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
        let page = self.told.tell(&record);
        if !page.is_empty() {
            self.hush();
            self.console.out.story(&if self.task.is_some() { page } else { self.beside(&record, page) });
        }
        Some(record.seq)
    }

    /// `● foreman.1 │ …`
    fn beside(&self, record: &Record, page: Page) -> Page {
        let name = record.pid().and_then(|pid| self.names.get(&pid)).map_or("?", String::as_str);
        let width = self.width();
        let margin = |line| Line::new().good("● ").join(Line::new().strong(name).pad(width)).faint(" │ ").join(line);
        page.0.into_iter().map(margin).collect()
    }

    /// What goes on right now, on a terminal.
    fn spin(&mut self) {
        const FRAMES: [&str; 4] = ["◐", "◓", "◑", "◒"];
        let screen = self.console.err;
        if let Some(doing) = self.told.doing().filter(|_| screen.tty && screen.colour && self.console.out.tty && !self.console.json) {
            self.frame = (self.frame + 1) % FRAMES.len();
            draw(screen, &Line::new().name(format!("  {} ", FRAMES[self.frame])).faint(doing).faint(" …"));
        }
    }

    fn hush(&self) {
        if self.console.err.tty && self.console.err.colour && self.console.out.tty {
            clear(self.console.err);
        }
    }
}
