//! `skep memory`: what sessions taught, for later ones.

use crate::command::act::prompt;
use crate::console::{Console, ExitResult, OK};
use crate::show::measure::{now_ms, plural};
use crate::show::{Line, Page, memory};
use clap::Subcommand;
use wire::LessonId;
use wire::method::Nothing;
use wire::method::memory::{MemoryForgetParams, MemoryShowParams, MemoryWhyParams};
use wire::table::{MemoryForget, MemoryList, MemoryShow, MemoryWhy};

/// Show and forget what sessions taught
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep memory list\n  skep memory show l-3\n  skep memory why \"report the prices\"\n  skep memory forget l-3\n\n\
A session that made steps leaves a lesson of at most 200 characters of its task\nand what came of it, without secrets. The five that fit a task best are told to\n\
its planner as what they are: words of others. `skep run --no-memory` neither\ntells nor learns."
)]
pub struct MemoryArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List lessons, newest first
    #[command(after_help = "Examples:\n  skep memory list\n  skep memory list --json")]
    List,
    /// Show one lesson, and whom it was told to
    #[command(after_help = "Examples:\n  skep memory show l-3")]
    Show {
        /// Its id, such as l-3
        lesson: LessonId,
    },
    /// Forget lessons
    #[command(after_help = "Examples:\n  skep memory forget l-3\n  skep memory forget l-3 l-4 --reason 'no longer true'")]
    Forget {
        /// Their ids, such as l-3
        #[arg(required = true)]
        lessons: Vec<LessonId>,
        /// Why; it goes on record
        #[arg(long, default_value = "asked for", hide_default_value = true)]
        reason: String,
    },
    /// Say which lessons fit a task, and by which words
    #[command(after_help = "Examples:\n  skep memory why \"report the prices\"")]
    Why {
        /// What is to be done; `-` reads it from stdin
        task: String,
    },
}

impl MemoryArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let columns = console.out.columns();
        match self.action {
            Action::List => {
                let result = kernel.call::<MemoryList>(&Nothing {}).await?;
                console.show(&result, |result| memory::list(&result.lessons, now_ms(), columns));
            }
            Action::Show { lesson } => {
                let view = kernel.call::<MemoryShow>(&MemoryShowParams { lesson }).await?;
                console.show(&view, |view| memory::detail(view, now_ms(), columns));
            }
            Action::Forget { lessons, reason } => {
                let count = lessons.len() as u64;
                let left = kernel.call::<MemoryForget>(&MemoryForgetParams { lessons, reason }).await?;
                console.show(&left, |left| {
                    let rest = plural(left.lessons.len() as u64, "lesson");
                    Page(vec![Line::new().good("✓ ").plain(format!("forgot {}; {rest} left", plural(count, "lesson")))])
                });
            }
            Action::Why { task } => {
                let result = kernel.call::<MemoryWhy>(&MemoryWhyParams { text: prompt(task)? }).await?;
                console.show(&result, |result| memory::why(result, columns));
            }
        }
        OK
    }
}
