//! The inbox: every question of every process, answered by keys.
//!
//! Only moves things between the terminal, the kernel and the machine in `state`. Several people may have it open; one answer
//! counts, and the others see it.

pub mod form;
pub mod state;

use crate::command::journal::next_line;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::interrupt::Interrupt;
use crate::show::measure::now_ms;
use crate::show::{Page, inbox, review};
use crate::terminal::Terminal;
use crate::terminal::key::KeyPress;
use state::{Inbox, InboxAction};
use std::io::{BufRead, IsTerminal};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use wire::method::Nothing;
use wire::method::journal::RecordFilter;
use wire::method::review::{ReviewAnswerParams, ReviewListParams, ReviewShowParams};
use wire::method::task::TaskIdParams;
use wire::table::{BudgetList, JournalFollow, ReviewAnswer, ReviewList, ReviewShow, TaskShow};
use wire::{ErrorCode, KernelClient};

/// What can open or close a question.
const NEWS: &[&str] = &[
    "review.asked",
    "review.answered",
    "task.finished",
    "task.failed",
    "task.cancelled",
    "task.continued",
    "proc.exited",
    "budget.asked",
    "budget.set",
    "budget.granted",
    "model.reserved",
];
/// How often the picture is drawn when nothing happens: often enough for its ages, and for keys that become valid.
const TICK_MS: u64 = 200;

/// Can somebody press keys here and see what they do?
pub fn is_possible(console: &Console) -> bool {
    !console.json && console.out.tty && std::io::stdin().is_terminal()
}

pub async fn run(mut kernel: KernelClient, console: &Console) -> ExitResult {
    let kinds = NEWS.iter().map(|kind| (*kind).to_owned()).collect();
    kernel.call::<JournalFollow>(&RecordFilter { kinds, ..RecordFilter::default() }).await?;
    let mut inbox = Inbox::default();
    news(&mut kernel, &mut inbox).await?;
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let ended = match dumb {
        true => by_lines(&mut kernel, &mut inbox, console).await,
        false => by_keys(&mut kernel, &mut inbox, console).await,
    };
    // The other screen is gone by now, and its last words with it.
    inbox.said.iter().for_each(|(view, reach)| console.out.page(&review::answered(view, *reach)));
    ended.map_err(|error| match error.code {
        ErrorCode::Unavailable => error.fix("run `skep review` again; what you answered is kept"),
        _ => error,
    })?;
    OK
}

async fn by_keys(kernel: &mut KernelClient, inbox: &mut Inbox, console: &Console) -> Result<(), CommandError> {
    let failed = |error: std::io::Error| {
        let fix = "use `skep review list`, `show`, `allow` and `deny`";
        CommandError::new(ErrorCode::Internal, "cannot use this terminal").why(error).fix(fix)
    };
    let mut interrupt = Interrupt::open()?;
    let mut terminal = Terminal::open(console.out).map_err(failed)?;
    let mut resized = signal(SignalKind::window_change()).map_err(failed)?;
    let mut ended = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hung_up = signal(SignalKind::hangup()).map_err(failed)?;
    let mut tick = tokio::time::interval(Duration::from_millis(TICK_MS));
    loop {
        fetch(kernel, inbox).await?;
        let (columns, rows) = terminal.size();
        terminal.draw(&inbox::frame(inbox, columns, rows, now_ms()));
        tokio::select! {
            keys = terminal.keys() => {
                let Some(keys) = keys else { return Ok(()) };
                for key in keys {
                    match inbox.key(&key, now_ms()) {
                        None => {}
                        Some(InboxAction::Quit) => return Ok(()),
                        Some(InboxAction::Answer(params)) => answer(kernel, inbox, &params).await?,
                    }
                }
            }
            line = next_line(kernel) => match line? {
                Some(_) => news(kernel, inbox).await?,
                None => return Err(CommandError::new(ErrorCode::Unavailable, "the kernel has stopped")),
            },
            _ = resized.recv() => {}
            _ = ended.recv() => return Ok(()),
            _ = hung_up.recv() => return Ok(()),
            () = interrupt.pressed() => return Ok(()),
            _ = tick.tick() => {}
        }
    }
}

/// The same for a terminal that only knows lines: a letter and the enter key.
async fn by_lines(kernel: &mut KernelClient, inbox: &mut Inbox, console: &Console) -> Result<(), CommandError> {
    loop {
        news(kernel, inbox).await?;
        fetch(kernel, inbox).await?;
        if inbox.form.is_none() {
            console.out.uncut(&inbox::sheet(inbox, now_ms()));
            inbox.saw_all();
        }
        if inbox.current().is_none() {
            return Ok(());
        }
        console.out.write(inbox::prompt(inbox).render(console.out.colour).as_bytes());
        console.out.write(b" ");
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) => {}
        }
        if typed_line(kernel, inbox, &line).await? == LineEnd::Leave {
            return Ok(());
        }
        if std::mem::take(&mut inbox.is_helping) {
            console.out.uncut(&inbox::help(inbox));
        }
        if let Some(notice) = inbox.notice.take() {
            console.out.uncut(&Page(vec![inbox::notice_line(&notice)]));
        }
    }
}

/// What follows on a line that was typed below a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    Stay,
    Leave,
}

/// Takes a typed line as keys: its first letter, or all of it where a text is being typed. It is about the question above it, however fast
/// it came.
pub async fn typed_line(kernel: &mut KernelClient, inbox: &mut Inbox, line: &str) -> Result<LineEnd, CommandError> {
    let typed = line.trim_end_matches(['\n', '\r']).chars().map(KeyPress::Char);
    let keys: Vec<KeyPress> = match inbox.form.is_some() || inbox.search.is_typing {
        true => typed.chain([KeyPress::Enter]).collect(),
        false => typed.take(1).collect(),
    };
    for key in keys {
        match inbox.key(&key, i64::MAX) {
            None => {}
            Some(InboxAction::Quit) => return Ok(LineEnd::Leave),
            Some(InboxAction::Answer(params)) => answer(kernel, inbox, &params).await?,
        }
    }
    Ok(LineEnd::Stay)
}

/// Brings the question in sight with all that `review.show` knows.
pub async fn fetch(kernel: &mut KernelClient, inbox: &mut Inbox) -> Result<(), CommandError> {
    while let Some(review) = inbox.wanted() {
        let view = kernel.call::<ReviewShow>(&ReviewShowParams { review, full: true }).await?;
        let about = match view.task {
            Some(task) => Some(kernel.call::<TaskShow>(&TaskIdParams { task }).await?),
            None => None,
        };
        inbox.show(view, about, now_ms());
    }
    Ok(())
}

pub async fn news(kernel: &mut KernelClient, inbox: &mut Inbox) -> Result<(), CommandError> {
    inbox.waits = kernel.call::<BudgetList>(&Nothing {}).await?.accounts.into_iter().flat_map(|account| account.waits).collect();
    let open = kernel.call::<ReviewList>(&ReviewListParams { all: false }).await?.reviews;
    if let Some(review) = inbox.refresh(open) {
        inbox.gone(&kernel.call::<ReviewShow>(&ReviewShowParams { review, full: false }).await?);
    }
    Ok(())
}

/// A no of the kernel is shown; only a broken connection ends the inbox.
pub async fn answer(kernel: &mut KernelClient, inbox: &mut Inbox, params: &ReviewAnswerParams) -> Result<(), CommandError> {
    match kernel.call::<ReviewAnswer>(params).await {
        Ok(view) => inbox.took(view, params),
        Err(wire::ClientError::Answered(error)) => inbox.refused(&wire::ClientError::Answered(error).into()),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
