//! `skep help`: a command's help, or a topic's.

use crate::args;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page, table};
use wire::ErrorCode;
use wire::code::EXITS;

/// Explain a command or a topic
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep help act\n  skep help journal verify\n  skep help exit-codes")]
pub struct HelpArgs {
    /// A command, or exit-codes
    topic: Vec<String>,
}

impl HelpArgs {
    pub fn run(self, console: &Console) -> ExitResult {
        let topic = self.topic.join(" ");
        if topic == "exit-codes" {
            let explained: Vec<_> = EXITS.iter().map(|(exit, means)| serde_json::json!({"exit": exit, "means": means})).collect();
            console.show(&explained, |_| exit_codes());
            return OK;
        }
        let mut command = args::command();
        command.build();
        let Some(found) = args::find(&command, &topic) else {
            return Err(
                CommandError::new(ErrorCode::BadInput, format!("there is no command `{topic}`")).fix("see all of them with `skep --help`")
            );
        };
        let help = found.clone().render_help();
        let text = if console.out.colour { help.ansi().to_string() } else { help.to_string() };
        console.out.write(text.as_bytes());
        OK
    }
}

fn exit_codes() -> Page {
    table(EXITS.iter().map(|(exit, means)| vec![Line::new().name(format!("{exit:>4}")), Line::new().plain(means)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_is_printed() {
        let text = exit_codes().render(false, None);
        assert!(text.starts_with("   0  done\n   1  the work itself failed"));
        assert_eq!(text.lines().count(), EXITS.len());
    }
}
