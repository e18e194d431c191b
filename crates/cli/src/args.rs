//! The command line: its shape, and its help.

mod mistake;

use crate::command;
use crate::command_error::CommandError;
use crate::show::ColourChoice;
use clap::builder::styling::{AnsiColor, Style, Styles};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

const STYLES: Styles = Styles::styled()
    .header(Style::new().bold())
    .usage(Style::new().bold())
    .literal(AnsiColor::Cyan.on_default())
    .placeholder(Style::new().dimmed())
    .error(AnsiColor::Red.on_default().bold())
    .valid(AnsiColor::Green.on_default())
    .invalid(AnsiColor::Yellow.on_default());

const EXAMPLES: &str = "\
Examples:
  skep                                       a prompt, on a terminal
  skep demo                                  see everything once, in a minute
  skep setup                                 find keys, servers and clients
  skep act \"add a --version flag\"            queue work here, return at once
  skep ask \"where is auth?\" --await > a.txt  read-only; the answer on stdout
  skep status                                who works on what here
  skep review                                what waits for your answer
  skep diff task-1 && skep merge task-1      look, then take the changes
  skep journal verify                        prove that the record is whole

Every command starts the kernel when it needs one. `skep help COMMAND` says
more; `skep help exit-codes` lists the exit codes.";

/// What every command takes stands below what is its own.
const GLOBAL_ORDER: usize = 900;

/// An operating-system kernel for AI agents
#[derive(Debug, Parser)]
#[command(name = "skep", version, styles = STYLES, after_help = EXAMPLES, disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Cli {
    /// Print the answer as JSON
    #[arg(long, global = true, display_order = GLOBAL_ORDER)]
    pub json: bool,
    /// When to print colours: auto, always or never
    #[arg(long, global = true, display_order = GLOBAL_ORDER, value_name = "WHEN", default_value = "auto", hide_default_value = true, hide_possible_values = true)]
    pub color: ColourChoice,
    /// Print what is longer than the screen without a pager
    #[arg(long, global = true, display_order = GLOBAL_ORDER)]
    pub no_pager: bool,
    #[command(subcommand)]
    pub command: Command,
}

/// What a command takes is worked out when it is named: to work it out for all of them takes most of a start (decision 0074).
#[derive(Debug, Subcommand)]
#[command(defer = true)]
pub enum Command {
    Prompt(command::prompt::PromptArgs),
    #[command(about = "Queue work that may change files, and return at once", after_help = command::act::ACT_EXAMPLES)]
    Act(command::act::ActArgs),
    #[command(about = "Queue a question; nothing can change", after_help = command::act::ASK_EXAMPLES)]
    Ask(command::act::ActArgs),
    Run(Box<command::run::RunArgs>),
    Plan(Box<command::plan::PlanArgs>),
    Session(command::session::SessionArgs),
    Memory(command::memory::MemoryArgs),
    Call(command::call::CallArgs),
    Cancel(command::cancel::CancelArgs),
    Demo(command::demo::DemoArgs),
    Status(command::status::StatusArgs),
    Ps(command::ps::PsArgs),
    Queue(command::queue::QueueArgs),
    Spawn(command::spawn::SpawnArgs),
    Kill(command::kill::KillArgs),
    Signal(command::signal::SignalArgs),
    Wait(command::wait::WaitArgs),
    Exec(command::exec::ExecArgs),
    Info(command::info::InfoArgs),
    Nice(command::nice::NiceArgs),
    Send(command::send::SendArgs),
    Inbox(command::inbox::InboxArgs),
    Artifact(command::artifact::ArtifactArgs),
    Cron(command::cron::CronArgs),
    Top(command::top::TopArgs),
    List(command::list::ListArgs),
    Log(command::log::LogArgs),
    Watch(command::watch::WatchArgs),
    Zone(command::zone::ZoneArgs),
    Brain(command::brain::BrainArgs),
    Usage(command::usage::UsageArgs),
    Budget(command::budget::BudgetArgs),
    Gateway(command::gateway::GatewayArgs),
    Cassette(command::cassette::CassetteArgs),
    Replay(command::replay::ReplayArgs),
    #[command(visible_alias = "resume")]
    Retry(command::retry::RetryArgs),
    Say(command::say::SayArgs),
    Talk(command::talk::TalkArgs),
    Drop(command::drop_work::DropArgs),
    Review(command::review::ReviewArgs),
    Grant(command::grant::GrantArgs),
    Token(command::token::TokenArgs),
    Policy(command::policy::PolicyArgs),
    Diff(command::diff::DiffArgs),
    Try(command::try_run::TryArgs),
    Merge(command::merge::MergeArgs),
    Verify(command::verify::CommitVerifyArgs),
    Reject(command::reject::RejectArgs),
    Sandbox(command::sandbox::SandboxArgs),
    Setup(command::setup::SetupArgs),
    Config(command::config::ConfigArgs),
    Init(command::init::InitArgs),
    Trust(command::trust::TrustArgs),
    Journal(command::journal::JournalArgs),
    Kernel(command::kernel::KernelArgs),
    Doctor(command::doctor::DoctorArgs),
    #[command(name = "__complete", hide = true)]
    Complete(command::complete::CompleteArgs),
    Completions(command::completions::CompletionsArgs),
    Man(command::man::ManArgs),
    Help(command::help::HelpArgs),
    ExtensionChild(command::extension_child::ExtensionChildArgs),
    HookChild(command::hook_child::HookChildArgs),
    Supervise(command::supervise::SuperviseArgs),
}

/// A command line that cannot be read, and whether whoever typed it wants JSON.
pub struct UsageError {
    pub error: CommandError,
    pub json: bool,
}

/// What belongs together in `skep --help`.
const GROUPS: &[(&str, &[&str])] = &[
    ("Work", &["prompt", "act", "ask", "say", "talk", "queue", "retry", "call", "cancel", "drop", "demo"]),
    (
        "Plans",
        &[
            "run",
            "plan",
            "plan check",
            "plan show",
            "plan run",
            "session list",
            "session show",
            "session watch",
            "session abort",
            "session resume",
            "session replay",
            "memory list",
            "memory show",
            "memory why",
            "memory forget",
        ],
    ),
    ("Look", &["status", "top", "ps", "list", "log", "watch"]),
    (
        "Process tree",
        &[
            "spawn",
            "exec",
            "send",
            "inbox",
            "wait",
            "kill",
            "signal",
            "info",
            "nice",
            "artifact list",
            "artifact show",
            "artifact store",
            "cron add",
            "cron list",
            "cron next",
        ],
    ),
    (
        "Models",
        &[
            "setup",
            "config show",
            "brain list",
            "brain check",
            "brain add",
            "gateway run",
            "gateway open",
            "cassette list",
            "cassette show",
            "cassette export",
            "replay",
            "usage",
            "budget show",
            "budget set",
            "budget grant",
            "budget reconcile",
        ],
    ),
    ("Decide", &["review", "grant", "token", "diff", "try", "merge", "verify", "reject", "init", "trust", "zone del"]),
    (
        "Policy",
        &["policy check", "policy test", "policy explain", "policy trial", "policy update", "policy log", "policy suggest", "policy types"],
    ),
    ("Sandbox", &["sandbox run", "sandbox shell", "sandbox templates", "sandbox ps", "sandbox pause", "sandbox resume", "sandbox doctor"]),
    ("Journal", &["journal log", "journal follow", "journal verify", "journal doubts", "journal forget", "journal export"]),
    (
        "Kernel",
        &[
            "kernel start",
            "kernel stop",
            "kernel restart",
            "kernel status",
            "kernel install",
            "kernel uninstall",
            "doctor",
            "completions",
            "man",
            "help",
        ],
    ),
];

impl Cli {
    /// Reads the process's arguments. A wish for help ends here; a mistake is told as JSON where `--json` stands.
    pub fn read() -> Result<Cli, UsageError> {
        let arguments: Vec<String> = std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
        // On a terminal the bare name is a wish to talk; in a pipe it is one for help.
        if arguments.is_empty() && command::prompt::is_possible() {
            let command = Command::Prompt(command::prompt::PromptArgs::default());
            return Ok(Cli { json: false, color: ColourChoice::Auto, no_pager: false, command });
        }
        let read = |command: clap::Command| command.try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
        if let Ok(cli) = read(Cli::command()) {
            return Ok(cli);
        }
        // Help and what is said of a mistake know every command.
        read(command()).map_err(|error| match mistake::explain(&error, &arguments) {
            Some(error) => UsageError { error, json: arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json") },
            None => error.exit(),
        })
    }
}

/// The whole command line, with its grouped help.
pub fn command() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let template = format!("{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{}{{options}}{{after-help}}", groups(&command));
    command.help_template(template)
}

fn groups(command: &clap::Command) -> String {
    let (header, literal) = (STYLES.get_header(), STYLES.get_literal());
    let mut text = String::new();
    let width = GROUPS.iter().flat_map(|(_, members)| members.iter()).map(|member| member.len()).max().unwrap_or(0);
    for (name, members) in GROUPS {
        text.push_str(&format!("{header}{name}{header:#}\n"));
        for member in *members {
            let about = find(command, member).and_then(|found| found.get_about()).map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {literal}{member:<width$}{literal:#}  {about}\n"));
        }
        text.push('\n');
    }
    text.push_str(&format!("{header}Options{header:#}\n"));
    text
}

/// The command at a path such as `journal verify`.
pub fn find<'a>(command: &'a clap::Command, path: &str) -> Option<&'a clap::Command> {
    path.split_whitespace().try_fold(command, |command, name| command.find_subcommand(name))
}

#[cfg(test)]
pub(crate) mod documents;

#[cfg(test)]
mod tests;
