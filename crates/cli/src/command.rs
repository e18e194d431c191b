//! One file per command.

pub mod act;
pub mod artifact;
pub mod brain;
pub mod budget;
pub mod call;
pub mod cancel;
pub mod cassette;
pub mod complete;
pub mod completions;
pub mod config;
pub mod cron;
pub mod demo;
pub mod diff;
pub mod doctor;
pub mod drop_work;
pub mod exec;
pub mod extension_child;
pub mod gateway;
pub mod grant;
pub mod help;
pub mod hook_child;
pub mod inbox;
pub mod info;
pub mod init;
pub mod journal;
pub mod kernel;
pub mod kill;
pub mod list;
pub mod log;
pub mod man;
pub mod memory;
pub mod merge;
pub mod nice;
pub mod plan;
pub mod policy;
pub mod prompt;
pub mod ps;
pub mod queue;
pub mod reject;
pub mod replay;
pub mod retry;
pub mod review;
pub mod run;
pub mod sandbox;
pub mod say;
pub mod send;
pub mod session;
pub mod setup;
pub mod signal;
pub mod spawn;
pub mod status;
pub mod supervise;
pub mod talk;
pub mod token;
pub mod top;
pub mod trust;
pub mod try_run;
pub mod usage;
pub mod verify;
pub mod wait;
pub mod watch;
pub mod whom;
pub mod zone;

use crate::args::Command;
use crate::console::{Console, ExitResult};
use wire::Mode;
use wire::code::EXIT_FAILED;

pub async fn run(command: Command, console: &Console) -> ExitResult {
    match command {
        Command::Prompt(prompt) => prompt.run(console).await,
        Command::Act(work) => work.run(Mode::Act, console).await,
        Command::Ask(work) => work.run(Mode::Ask, console).await,
        Command::Run(run) => run.run(console).await,
        Command::Plan(plan) => plan.run(console).await,
        Command::Session(session) => session.run(console).await,
        Command::Memory(memory) => memory.run(console).await,
        Command::Call(call) => call.run(console).await,
        Command::Cancel(cancel) => cancel.run(console).await,
        Command::Demo(demo) => demo.run(console).await,
        Command::Status(status) => status.run(console).await,
        Command::Ps(ps) => ps.run(console).await,
        Command::Spawn(spawn) => spawn.run(console).await,
        Command::Kill(kill) => kill.run(console).await,
        Command::Signal(signal) => signal.run(console).await,
        Command::Wait(wait) => wait.run(console).await,
        Command::Exec(exec) => exec.run(console).await,
        Command::Info(info) => info.run(console).await,
        Command::Nice(nice) => nice.run(console).await,
        Command::Send(send) => send.run(console).await,
        Command::Inbox(inbox) => inbox.run(console).await,
        Command::Artifact(artifact) => artifact.run(console).await,
        Command::Cron(cron) => cron.run(console).await,
        Command::Zone(zone) => zone.run(console).await,
        Command::Queue(ps) => ps.run(console).await,
        Command::List(list) => list.run(console).await,
        Command::Log(log) => log.run(console).await,
        Command::Watch(watch) => watch.run(console).await,
        Command::Usage(usage) => usage.run(console).await,
        Command::Brain(brain) => brain.run(console).await,
        Command::Budget(budget) => budget.run(console).await,
        Command::Cassette(cassette) => cassette.run(console).await,
        Command::Replay(replay) => replay.run(console).await,
        Command::Retry(retry) => retry.run(console).await,
        Command::Say(say) => say.run(console).await,
        Command::Talk(talk) => talk.run(console).await,
        Command::Drop(dropped) => dropped.run(console).await,
        Command::Gateway(gateway) => gateway.run(console).await,
        Command::Review(review) => review.run(console).await,
        Command::Grant(grant) => grant.run(console).await,
        Command::Top(top) => top.run(console).await,
        Command::Token(token) => token.run(console).await,
        Command::Policy(policy) => policy.run(console).await,
        Command::Diff(diff) => diff.run(console).await,
        Command::Try(try_out) => try_out.run(console).await,
        Command::Config(config) => config.run(console).await,
        Command::Merge(merge) => merge.run(console).await,
        Command::Verify(verify) => verify.run(console).await,
        Command::Reject(reject) => reject.run(console).await,
        Command::Sandbox(sandbox) => sandbox.run(console).await,
        Command::Setup(setup) => setup.run(console).await,
        Command::Init(init) => init.run(console).await,
        Command::Trust(trust) => trust.run(console).await,
        Command::Journal(journal) => journal.run(console).await,
        Command::Kernel(kernel) => kernel.run(console).await,
        Command::Doctor(doctor) => doctor.run(console).await,
        Command::Complete(complete) => complete.run(console).await,
        Command::Completions(completions) => completions.run(console),
        Command::Man(man) => man.run(console),
        Command::Help(help) => help.run(console),
        Command::Supervise(supervise) => supervise.run(console).await,
        // `run` has taken these away: they need no home and no runtime.
        Command::ExtensionChild(_) | Command::HookChild(_) => Ok(EXIT_FAILED),
    }
}
