//! `skep signal`: sends a signal to a process of the tree.

use crate::command::whom;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page};
use wire::TreeSignal;
use wire::method::Nothing;
use wire::method::program::ProcSignalParams;
use wire::table::ProcSignal;

/// Send a signal to a process of the tree
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep signal price INT      ends its task and keeps what it has\n  skep signal price STOP     it goes on with CONT\n  \
skep signal price TERM --reason 'no longer needed'\n\n\
INT ends the task that it is on. STOP and CONT hold its program and let it go\non. TERM has it shut down, KILL ends it at once; CHLD tells it of a child."
)]
pub struct SignalArgs {
    /// The process, by name or pid (`skep ps`)
    process: String,
    /// TERM, KILL, INT, STOP, CONT or CHLD
    #[arg(value_parser = signal)]
    signal: TreeSignal,
    /// Why, for its program and the journal
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
}

const SIGNALS: [(&str, TreeSignal); 6] = [
    ("TERM", TreeSignal::Term),
    ("KILL", TreeSignal::Kill),
    ("INT", TreeSignal::Int),
    ("STOP", TreeSignal::Stop),
    ("CONT", TreeSignal::Cont),
    ("CHLD", TreeSignal::Chld),
];

fn signal(text: &str) -> Result<TreeSignal, String> {
    let name = text.to_ascii_uppercase();
    let name = name.strip_prefix("SIG").unwrap_or(&name);
    let found = SIGNALS.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal);
    found.ok_or_else(|| format!("`{text}` is none of {}", SIGNALS.map(|(name, _)| name).join(", ")))
}

impl SignalArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let pid = whom::process(&mut kernel, &self.process).await?;
        let params = ProcSignalParams { pid, signal: self.signal, reason: self.reason };
        let sent = console.wait("sending", kernel.call::<ProcSignal>(&params)).await;
        sent.map_err(|error| whom::explain(error, format!("`{}` did not get the signal", self.process), "name a process of `skep ps`"))?;
        console.show(&Nothing {}, |_| Page(vec![Line::new().good("✓ ").name(&self.process).plain(" has the signal")]));
        OK
    }
}
