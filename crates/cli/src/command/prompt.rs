//! `skep` alone on a terminal: a prompt at which tasks are typed and reviews are answered.
//!
//! Everything goes by the methods that the other commands use; the prompt is no second way in. **Invariant.** It holds no connection while it waits
//! for a line, so a kernel may come and go; what was typed becomes work only when the kernel has recorded it.

mod answer;
mod completion;
mod editor;
mod held;
mod history;
mod slash;
mod turn;

use crate::args::Cli;
use crate::command::{act, config};
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult};
use crate::interrupt::Interrupt;
use crate::place::{AbsentTree, PlaceArgs};
use crate::show::{Line, Page, task, zone};
use answer::OpenQuestion;
use clap::Parser;
use completion::Completion;
use editor::{LineEditor, LineInput};
use held::{DeferredWish, HeldTask};
use history::History;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use server::BrainSpec;
use slash::{SLASH, TypedLine};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use turn::{FollowedTask, TurnEnd};
use wire::code::EXIT_INTERRUPTED;
use wire::method::brain::BrainListParams;
use wire::method::queue::WorkerPinParams;
use wire::method::task::{TaskAddParams, TaskSayParams};
use wire::method::zone::ZoneStatusParams;
use wire::table::{BrainList, TaskAdd, TaskSay, WorkerPin, ZoneStatus};
use wire::{Discipline, ErrorCode, Mode, TaskId, TaskPlacement};

/// As shells count a command that was ended from outside.
const EXIT_TERMINATED: u8 = 143;
/// What a terminal is told when the line that is typed is given up from outside.
const PASTE_OFF: &[u8] = b"\x1b[?2004l\r\n";

/// Open the prompt, as `skep` alone does
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  skep\n  skep prompt --brain codex\n  skep prompt --zone @feat/auth --who worker.2\n\n\
At the prompt a line is a task, `? …` a question, and `/help` lists the commands. A line that ends in a backslash goes on in the next. \
Ctrl-c stops the turn, twice it leaves; work that goes on is not ended by that.")]
pub struct PromptArgs {
    /// Which brain does your tasks [default: $SKEP_BRAIN, else `brain` in skep.yml or config.yml]
    #[arg(long, value_name = "BRAIN")]
    brain: Option<String>,
    /// Which model the built-in brain thinks with
    #[arg(long, value_name = "MODEL", conflicts_with = "brain")]
    model: Option<String>,
    /// How strictly tests come first: strict, explore or debug [default: $SKEP_DISCIPLINE, else skep.yml or config.yml]
    #[arg(long, value_name = "MODE", value_parser = act::discipline_mode)]
    discipline: Option<Discipline>,
    /// Who does them: [role][.n][@brain] [default: the first worker]
    #[arg(long, value_name = "WHO")]
    who: Option<String>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// May a person be asked for lines?
pub fn is_possible() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

impl PromptArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        if console.json || !is_possible() {
            return Err(CommandError::new(ErrorCode::BadInput, "the prompt needs a terminal")
                .why("standard input or output is not one, or `--json` is given")
                .fix("use `skep act` and `skep watch`"));
        }
        let (brain, model) = act::chosen(self.brain, self.model);
        let native = model.map(|model| BrainSpec::Native { model: Some(model) }.to_string());
        let path = self.place.folder(console, AbsentTree::Make).await?;
        let brains = Arc::new(Mutex::new(Vec::new()));
        let project = config::project(Some(path.as_ref()))?.unwrap_or_else(|| PathBuf::from(&path));
        let completion = Completion { project: project.clone(), brains };
        learn_brains(console, &path, &completion);
        let terminated = signal(SignalKind::terminate())
            .map_err(|error| CommandError::new(ErrorCode::Internal, "the prompt cannot be ended in order").why(error))?;
        let mut prompt = Prompt {
            editor: LineEditor::open(completion, History::at(&console.home), console.out.colour)?,
            interrupt: Interrupt::open()?,
            terminated,
            as_found: tcgetattr(std::io::stdin()).ok(),
            usual: config::usual_discipline(console, &project).await,
            console: console.clone(),
            project,
            path,
            brain: brain.map(act::brain).transpose()?.or(native),
            discipline: act::discipline(self.discipline)?,
            held: HeldTask::default(),
            deferred: None,
            who: self.who.map(act::worker).transpose()?,
            followed: None,
            waiting: None,
        };
        prompt.greet();
        prompt.run().await
    }
}

/// Asks for the brains there are beside everything else: clients are started for it.
fn learn_brains(console: &Console, path: &str, completion: &Completion) {
    let (console, path, brains) = (console.clone(), path.to_owned(), completion.brains.clone());
    drop(tokio::spawn(async move {
        if let Ok(mut kernel) = console.connect().await
            && let Ok(found) = kernel.call::<BrainList>(&BrainListParams { path: Some(path), brain: None }).await
        {
            *brains.lock().unwrap_or_else(PoisonError::into_inner) = found.brains.into_iter().map(|brain| brain.name).collect();
        }
    }));
}

/// No kernel stays.
fn gone() -> CommandError {
    CommandError::new(ErrorCode::Unavailable, "the kernel ends again and again").fix("`skep doctor` says what is wrong")
}

/// What goes on at the prompt.
struct Prompt {
    console: Console,
    editor: LineEditor,
    interrupt: Interrupt,
    terminated: Signal,
    /// The terminal before the first line was read.
    as_found: Option<Termios>,
    path: String,
    /// The top of the repository.
    project: PathBuf,
    brain: Option<String>,
    /// How strictly tests come first in the next task, where somebody said so here.
    discipline: Option<Discipline>,
    /// The same where nobody did: by the project's settings, or the person's own.
    usual: Option<Discipline>,
    /// How the last task is held to it, and where its work stands.
    held: HeldTask,
    /// What a yes to the question that was shown lets begin.
    deferred: Option<DeferredWish>,
    who: Option<String>,
    /// The last task, and how far it was told.
    followed: Option<FollowedTask>,
    /// What it asks.
    waiting: Option<OpenQuestion>,
}

impl Prompt {
    fn greet(&self) {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        let mut page = Page(vec![Line::new().strong(format!("skep {}", env!("CARGO_PKG_VERSION"))).faint(" in ").plain(name)]);
        page.push(Line::new().faint("a line is a task, `? …` a question, /help the commands, ctrl-d leaves"));
        self.show(&page);
    }

    /// Prints, as wide as the terminal is now.
    fn show(&self, page: &Page) {
        self.console.out.measured().wrapped(page);
    }

    fn tell(&self, line: Line) {
        self.show(&Page(vec![line]));
    }

    /// A no or a fault is told, and the prompt stays.
    fn report(&self, error: &CommandError) {
        self.console.report(error);
    }

    fn task(&self) -> Option<TaskId> {
        self.followed.as_ref().map(|followed| followed.task)
    }

    async fn run(&mut self) -> ExitResult {
        let mut interrupts = 0;
        loop {
            let prompt = self.state_line();
            // A line ends without blanks; what is typed begins behind one.
            let (plain, coloured) = (prompt.render(false) + " ", prompt.render(self.console.out.colour) + " ");
            let input = tokio::select! {
                input = self.editor.read(plain, coloured) => input,
                _ = self.terminated.recv() => {
                    self.console.out.write(PASTE_OFF);
                    if let Some(found) = &self.as_found {
                        let _ = tcsetattr(std::io::stdin(), OptionalActions::Drain, found);
                    }
                    return Ok(EXIT_TERMINATED);
                }
            };
            let line = match input {
                LineInput::Line(line) => line,
                LineInput::Interrupted if interrupts > 0 => return Ok(EXIT_INTERRUPTED),
                LineInput::Interrupted => {
                    interrupts += 1;
                    self.tell(Line::new().faint("ctrl-c again leaves"));
                    continue;
                }
                LineInput::End => return Ok(0),
            };
            interrupts = 0;
            let end = match slash::read(&line) {
                TypedLine::Slash("quit", _) => return Ok(0),
                typed => self.obey(typed).await,
            };
            self.look_at_held().await;
            match end {
                Ok(TurnEnd::Left) => return Ok(EXIT_INTERRUPTED),
                Ok(TurnEnd::Terminated) => return Ok(EXIT_TERMINATED),
                Ok(_) => {}
                Err(error) => self.report(&error),
            }
        }
    }

    /// Does what was typed.
    async fn obey(&mut self, typed: TypedLine) -> Result<TurnEnd, CommandError> {
        match typed {
            TypedLine::Nothing => Ok(TurnEnd::Ended),
            TypedLine::Unknown(word, near) => {
                let fix = near.map_or("/help lists them".to_owned(), |near| format!("{near}, if you meant that; /help lists all"));
                Err(CommandError::new(ErrorCode::BadInput, format!("there is no `{word}`")).fix(fix))
            }
            TypedLine::Ask(question) => self.add(Mode::Ask, question).await,
            TypedLine::Act(text) => {
                match self.waiting.as_ref().map(|waiting| (waiting.review, waiting.task.filter(|_| waiting.is_merge))) {
                    // What should be different is said to the one who did it.
                    Some((_, Some(task))) => self.say(task, text).await,
                    Some((review, None)) => {
                        let what = format!("{review} waits for your answer");
                        Err(CommandError::new(ErrorCode::Pending, what).fix("/approve or /reject REASON"))
                    }
                    None => self.add(Mode::Act, text).await,
                }
            }
            TypedLine::Slash(name, rest) => self.slash(name, rest).await,
        }
    }

    async fn slash(&mut self, name: &str, rest: String) -> Result<TurnEnd, CommandError> {
        match name {
            "approve" => self.approve(&rest).await,
            "reject" => self.reject(&rest).await,
            "say" => match self.task() {
                Some(task) if !rest.is_empty() => self.say(task, rest).await,
                _ => Err(CommandError::new(ErrorCode::BadInput, "there is no task to go on with, or nothing to say")
                    .fix("/say TEXT, after a task")),
            },
            "ask" => Err(CommandError::new(ErrorCode::BadInput, "there is no question").fix("/ask QUESTION, or ? QUESTION")),
            "strict" | "explore" | "debug" => self.switch(name).await,
            "diff" => self.about_task(&["diff"], &rest).await,
            "undo" => self.about_task(&["merge", "undo"], &rest).await,
            "status" => {
                if let Some(task) = self.task() {
                    self.show_discipline(task).await?;
                }
                self.command(&["status"]).await
            }
            "budget" => {
                self.command(&["budget", "show"]).await?;
                self.show_debt().await
            }
            "pin" => self.pin((!rest.is_empty()).then_some(rest), None).await,
            "unpin" => match rest.parse() {
                Ok(number) => self.pin(None, Some(number)).await,
                Err(_) => Err(CommandError::new(ErrorCode::BadInput, "no pinned text is named").fix("/unpin NUMBER, as /pin lists them")),
            },
            "brain" if rest.is_empty() => self.command(&["brain", "list"]).await,
            "brain" => {
                self.brain = if rest == "default" { None } else { Some(act::brain(rest)?) };
                let named = self.brain.as_deref().unwrap_or("that of skep.yml or config.yml");
                self.tell(Line::new().faint("your next tasks have the brain ").name(named));
                Ok(TurnEnd::Ended)
            }
            _ => {
                self.help();
                Ok(TurnEnd::Ended)
            }
        }
    }

    /// What is owed in tests here, where something is.
    async fn show_debt(&self) -> Result<TurnEnd, CommandError> {
        let params = ZoneStatusParams { path: Some(self.path.clone()), ..ZoneStatusParams::default() };
        let zones = self.console.kernel().await?.call::<ZoneStatus>(&params).await?.zones;
        for coverage in zones.iter().filter_map(|zone| zone.coverage.as_ref()) {
            self.show(&zone::debt(coverage));
        }
        Ok(TurnEnd::Ended)
    }

    /// Changes what is pinned to the worker, and lists it.
    async fn pin(&self, add: Option<String>, remove: Option<usize>) -> Result<TurnEnd, CommandError> {
        let params = WorkerPinParams { path: self.path.clone(), who: self.who.clone(), add, remove };
        let pins = self.console.kernel().await?.call::<WorkerPin>(&params).await?.pins;
        let mut page = Page::new();
        for (at, pin) in pins.iter().enumerate() {
            page.push(Line::new().name(format!("{:>2}", at + 1)).plain("  ").plain(pin));
        }
        if pins.is_empty() {
            page.push(Line::new().faint("nothing is pinned; /pin TEXT is part of every later prompt of the worker"));
        }
        self.show(&page);
        Ok(TurnEnd::Ended)
    }

    fn help(&self) {
        let mut page = Page::new();
        for command in SLASH {
            let head = Line::new().name(command.name).plain(" ").faint(command.arguments).pad(28);
            page.push(head.plain(" ").plain(command.about));
        }
        page.push(Line::new().faint("\\ at the end of a line goes on in the next; tab completes commands, brains and paths"));
        let columns = self.console.out.measured().columns().unwrap_or(80);
        self.show(&page.0.into_iter().flat_map(|line| line.wrap_under(columns, 29)).collect());
    }

    /// A command of `skep`, as in any shell.
    async fn command(&self, words: &[&str]) -> Result<TurnEnd, CommandError> {
        let cli = Cli::try_parse_from(std::iter::once("skep").chain(words.iter().copied()))
            .map_err(|error| CommandError::new(ErrorCode::BadInput, error.to_string().lines().next().unwrap_or_default().to_owned()))?;
        let console = Console { out: self.console.out.measured(), err: self.console.err.measured(), ..self.console.clone() };
        Box::pin(super::run(cli.command, &console)).await?;
        Ok(TurnEnd::Ended)
    }

    /// The same about a task that is named, or the last one.
    async fn about_task(&mut self, words: &[&str], named: &str) -> Result<TurnEnd, CommandError> {
        let task = match (named.is_empty(), self.task()) {
            (false, _) => named.to_owned(),
            (true, Some(task)) => task.to_string(),
            (true, None) => {
                let what = "no task was begun at this prompt";
                return Err(CommandError::new(ErrorCode::BadInput, what).fix(format!("/{} TASK", words.last().unwrap_or(&"diff"))));
            }
        };
        if words == ["diff"]
            && let Some(waiting) = &mut self.waiting
        {
            waiting.is_unshown = false;
        }
        self.command(&[words, &[task.as_str()]].concat()).await
    }

    /// Queues a task and tells what becomes of it.
    async fn add(&mut self, mode: Mode, prompt: String) -> Result<TurnEnd, CommandError> {
        let params = TaskAddParams {
            path: self.path.clone(),
            mode,
            prompt: prompt.clone(),
            brain: self.brain.clone(),
            priority: None,
            calls_max: None,
            record: false,
            tags: Vec::new(),
            budget: None,
            new_worker: false,
            role: None,
            skill: None,
            params: BTreeMap::new(),
            tools: None,
            discipline: self.discipline,
            placement: TaskPlacement { who: self.who.clone(), ..TaskPlacement::default() },
        };
        let added = match self.console.kernel().await?.call::<TaskAdd>(&params).await {
            Ok(added) => added,
            Err(error) => return self.defer(error, DeferredWish::Add { mode, prompt }).await,
        };
        self.show(&task::added(&added));
        self.waiting = None;
        self.followed = Some(FollowedTask::new(added.task, self.console.out.colour));
        self.turn().await
    }

    /// Goes on with a task.
    async fn say(&mut self, task: TaskId, prompt: String) -> Result<TurnEnd, CommandError> {
        self.console.kernel().await?.call::<TaskSay>(&TaskSayParams { task, prompt }).await?;
        self.tell(Line::new().faint(format!("said to {task}")));
        self.waiting = None;
        self.turn().await
    }

    /// Tells what the current task does, and shows what it asks.
    async fn turn(&mut self) -> Result<TurnEnd, CommandError> {
        let end = self.follow().await?;
        if let TurnEnd::Asks(review) = end {
            self.show_question(review).await?;
        }
        Ok(end)
    }
}
