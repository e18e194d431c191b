//! `skep help`: a command's help, a document's text, or both where they have the same name.

mod topic;

use crate::args;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page, table};
use topic::Topic;
use wire::ErrorCode;
use wire::code::EXITS;

/// Explain a command or a topic
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep help act\n  skep help journal verify\n  skep help models\n  skep help topics\n  skep help exit-codes"
)]
pub struct HelpArgs {
    /// A command or a topic; `skep help topics` lists those
    topic: Vec<String>,
}

impl HelpArgs {
    pub fn run(self, console: &Console) -> ExitResult {
        let asked = self.topic.join(" ");
        match asked.as_str() {
            "exit-codes" => {
                let explained: Vec<_> = EXITS.iter().map(|(exit, means)| serde_json::json!({"exit": exit, "means": means})).collect();
                console.show_wrapped(&explained, |_| exit_codes());
            }
            "topics" => {
                let topics: Vec<_> =
                    Topic::ALL.iter().map(|topic| serde_json::json!({"topic": topic.name, "about": topic.about})).collect();
                console.show_wrapped(&topics, |_| topic::list());
            }
            _ => explain(&asked, console)?,
        }
        OK
    }
}

fn explain(asked: &str, console: &Console) -> Result<(), CommandError> {
    let mut command = args::command();
    command.build();
    let usage = args::find(&command, asked).map(|found| found.clone().render_help());
    let topic = Topic::ALL.iter().find(|topic| topic.name == asked);
    if usage.is_none() && topic.is_none() {
        return Err(CommandError::new(ErrorCode::BadInput, format!("there is no command or topic `{asked}`"))
            .fix("`skep --help` lists the commands, `skep help topics` the topics"));
    }
    if console.json {
        console.out.json(&serde_json::json!({"usage": usage.map(|help| help.to_string()), "text": topic.map(|topic| topic.text)}));
        return Ok(());
    }
    let usage = usage.map(|help| if console.out.colour { help.ansi().to_string() } else { help.to_string() });
    // In a pipe a document is what it is: Markdown.
    let text = topic.map(|topic| if console.out.tty { console.out.render_wrapped(&topic.page()) } else { topic.text.to_owned() });
    console.out.long(&usage.into_iter().chain(text).collect::<Vec<_>>().join("\n"));
    Ok(())
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
