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

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(about = "Queue work that may change files, and return at once", after_help = command::act::ACT_EXAMPLES)]
    Act(command::act::ActArgs),
    #[command(about = "Queue a question; nothing can change", after_help = command::act::ASK_EXAMPLES)]
    Ask(command::act::ActArgs),
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
    Reject(command::reject::RejectArgs),
    Sandbox(command::sandbox::SandboxArgs),
    Setup(command::setup::SetupArgs),
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
    ("Work", &["act", "ask", "say", "talk", "queue", "retry", "call", "cancel", "drop", "demo"]),
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
    ("Decide", &["review", "grant", "token", "diff", "try", "merge", "reject", "init", "trust", "zone del"]),
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
        let read = command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
        read.map_err(|error| match mistake::explain(&error, &arguments) {
            Some(error) => UsageError { error, json: arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json") },
            None => error.exit(),
        })
    }
}

/// The whole command line, with its grouped help.
pub fn command() -> clap::Command {
    let command = Cli::command();
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
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_and_has_a_purpose_and_examples() {
        let command = command();
        let grouped: Vec<_> = GROUPS.iter().flat_map(|(_, members)| members.iter()).map(|path| path.split(' ').next().unwrap()).collect();
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            assert!(grouped.contains(&sub.get_name()), "{} is in no group", sub.get_name());
            for sub in std::iter::once(sub).chain(sub.get_subcommands()) {
                assert!(sub.get_about().is_some(), "{} has no purpose", sub.get_name());
                assert!(sub.get_after_help().is_some_and(|help| help.to_string().contains("skep")), "{} has no examples", sub.get_name());
            }
        }
        for path in GROUPS.iter().flat_map(|(_, members)| members.iter()) {
            assert!(find(&command, path).is_some_and(|found| found.get_about().is_some()), "{path}");
        }
    }

    #[test]
    fn the_overview_fits_a_terminal_of_eighty_columns() {
        let help = command().render_help().to_string();
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert_eq!(wide, Vec::<&str>::new());
    }

    /// An example that is wrapped reads as two, and what all commands take stands last.
    #[test]
    fn every_example_fits_a_terminal_of_eighty_columns() {
        let command = command();
        let subs = command.get_subcommands().flat_map(|sub| std::iter::once(sub).chain(sub.get_subcommands()));
        let helps = subs.filter_map(|sub| sub.get_after_help()).map(ToString::to_string);
        let wide: Vec<String> = helps
            .flat_map(|help| {
                help.lines().filter(|line| line.starts_with("  ") && line.chars().count() > 80).map(str::to_owned).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(wide, Vec::<String>::new());
        let mut command = command;
        command.build();
        let act = command.find_subcommand_mut("act").unwrap().render_help().to_string();
        assert!(act.find("--zone").unwrap() < act.find("--json").unwrap(), "{act}");
    }

    #[test]
    fn every_argument_says_what_it_is() {
        let command = command();
        let all = command.get_subcommands().flat_map(|sub| std::iter::once(sub).chain(sub.get_subcommands()));
        let bare: Vec<String> = all
            .filter(|sub| !sub.is_hide_set())
            .flat_map(|sub| {
                sub.get_arguments().filter(|arg| arg.get_help().is_none()).map(|arg| format!("{} {}", sub.get_name(), arg.get_id()))
            })
            .collect();
        assert_eq!(bare, Vec::<String>::new());
    }

    const GOOD: &[&str] = &[
        "skep act fix-it --brain script:b.txt --await --priority -3 --max-calls 7 --zone /tmp",
        "skep ask why",
        "skep act x --who researcher.1@kimi --when disrupt --after task-1 --after task-2 --timeout 5m",
        "skep ask x --prioritize --watch --who ++",
        "skep act x --talk --when enqueue",
        "skep watch --who worker.1 --zone .",
        "skep status site --zone @main",
        "skep status orchestrator",
        "skep status --task task-1",
        "skep status --who worker.1 --zone org/repo@main",
        "skep list sites",
        "skep list zones --site org/repo",
        "skep list crews --zone @main",
        "skep list tasks --site repo",
        "skep zone del --zone @feat --force --yes",
        "skep queue",
        "skep queue rm 2 --who worker.1",
        "skep queue clear --yes",
        "skep queue pause",
        "skep queue resume --who @kimi --json",
        "skep retry task-1 --await",
        "skep resume task-1",
        "skep say task-1 also-this --json",
        "skep talk worker.2 --ask --brain claude --zone .",
        "skep talk --watch --who worker.1",
        "skep drop task-1 --yes",
        "skep call fs.read path=a --zone . --task task-1 --json",
        "skep --json ps",
        "skep top --json",
        "skep review",
        "skep review allow r-1 --reason ok",
        "skep review allow r-1 --for zone --rate 5/1m --set limit=10 --json",
        "skep review deny r-1 --instead fs.write path=a --for-good --for user",
        "skep grant revoke g-1 b-2 t-3",
        "skep token issue fs.* --paths a b --max-ops 3 --ttl 30s -- ./agent --fast",
        "skep call fs.read path=a --mode dry_run --token T",
        "skep call fs.read path=a --mode real",
        "skep policy explain fs.read path=a --task task-1 --candidate --zone .",
        "skep policy trial new.yaml --last 7 --after 3 --before 9",
        "skep policy update new.yaml --yes",
        "skep policy suggest --json",
        "skep journal verify --offline",
        "skep extension-child",
        "skep journal log --pid 3 --task task-1 --kind call --kind brain.said --since 10m --until 2026-01-01 --limit 5",
        "skep journal export --out f",
        "skep sandbox run -t code-executor --timeout 90s --discard -- sh -c ls",
        "skep sandbox shell",
        "skep sandbox pause task-1",
        "skep sandbox ps --json",
        "skep merge task-1 --yes",
        "skep merge",
        "skep merge list",
        "skep merge apply task-1 --mine a --theirs b",
        "skep merge undo task-1",
        "skep merge import -",
        "skep diff task-1 --follow",
        "skep try task-1 --port 8080 -- python3 -m http.server 8080",
        "skep kernel run",
        "skep kernel start --grpc :50051 --startup agents.json",
        "skep kernel restart --grpc unix:///tmp/core",
        "skep spawn queen --role daemon --tier tactical",
        "skep spawn price --python shop:Price --parent queen --env A=b --tokens 5 --cron x --keep-alive",
        "skep kill price --only --grace 5s",
        "skep signal price int",
        "skep signal price SIGSTOP --reason later",
        "skep wait 7 --timeout 5m",
        "skep exec price report --param month=11",
        "skep info p7 --json",
        "skep nice price -5",
        "skep send price hello --kind news --priority high --ttl 5s",
        "skep send --queue results done",
        "skep inbox price --dead",
        "skep inbox --take --queue results",
        "skep artifact list rep --of price",
        "skep artifact show art-3",
        "skep artifact store plan plan.md --visibility global --type text/plain",
        "skep artifact rm art-3",
        "skep cron add nightly x report --target price --action message --overlap queue --missed once --jitter 5s",
        "skep cron rm cron-1",
        "skep cron run cron-1",
        "skep cron next x --timezone UTC --count 3",
        "skep ps --tree",
        "skep help exit-codes",
        "skep help journal verify",
        "skep list tools",
        "skep setup --yes --only anthropic --server http://127.0.0.1:9000 --key env --no-trial",
        "skep usage --by day",
        "skep budget set 1 --money 0.50 --tokens all=2000 --ask",
        "skep budget grant p3 --tokens strategic=5",
        "skep budget set 3 --none",
        "skep budget set 3 --money 0 --ask",
        "skep budget reconcile 3 --money 0",
        "skep gateway run --login claude -- claude -p hello",
        "skep gateway run --record f.jsonl -- true",
        "skep gateway run --replay f.jsonl --timing -- true",
        "skep act fix-it --record",
        "skep replay task-3 --timing --json",
        "skep cassette export task-3 --out f.jsonl",
        "skep completions zsh",
    ];
    const BAD: &[&str] = &[
        "skep grant revoke task-1",
        "skep token issue",
        "skep token issue fs.read --ttl 30",
        "skep call fs.read --mode dry",
        "skep policy",
        "skep",
        "skep act",
        "skep diff 7",
        "skep say task-1",
        "skep act x --watch --talk",
        "skep act x --watch --await",
        "skep act x --when later",
        "skep act x --new --who worker.1",
        "skep act x --after 3",
        "skep act x --timeout 5",
        "skep watch task-1 --who worker.1",
        "skep queue rm",
        "skep status everything",
        "skep status task-1 --task task-2",
        "skep zone",
        "skep talk --watch --ask",
        "skep talk worker.1 --who worker.2",
        "skep drop",
        "skep review allow task-1",
        "skep journal log --kind calls",
        "skep list people",
        "skep usage --by week",
        "skep budget grant 3",
        "skep budget reconcile 3",
        "skep budget set 3 --none --money 5",
        "skep budget set 3",
        "skep budget set 3 --ask",
        "skep budget set 3 --money -5",
        "skep budget set 3 --requests-per-minute 0",
        "skep budget set 3 --context 0",
        "skep gateway run",
        "skep gateway run --timing -- true",
        "skep replay 3",
        "skep setup --key config",
        "skep sandbox run",
        "skep sandbox run ls",
        "skep sandbox pause 7",
        "skep spawn",
        "skep spawn x --role kernel",
        "skep spawn x --tier low",
        "skep spawn x --python a:B --custom c",
        "skep spawn x --keep-alive",
        "skep spawn x --env A",
        "skep kill",
        "skep kill 7 --force --grace 5s",
        "skep signal 7",
        "skep signal 7 USR1",
        "skep nice 7 high",
        "skep send",
        "skep send 7 x --priority urgent",
        "skep inbox 7 --take",
        "skep inbox --queue q",
        "skep artifact rm report",
        "skep artifact store x --visibility all",
        "skep cron add x",
        "skep cron add x y --action spawn",
        "skep cron rm 1",
        "skep cron next x --count 0",
    ];

    #[test]
    fn what_people_type_is_understood() {
        let parse = |line: &str| Cli::try_parse_from(line.split_whitespace());
        for good in GOOD {
            assert!(parse(good).is_ok(), "{good}: {}", parse(good).unwrap_err());
        }
        for bad in BAD {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
