//! `skep review`: questions that wait for a person.

use crate::console::{Console, OK, Outcome};
use crate::show::{measure, review};
use clap::Subcommand;
use wire::method::review::{Answer as Method, AnswerParams, List, ListParams, Show, ShowParams};
use wire::{Answer, ReviewId};

/// Look at and answer what waits for you
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  skep review\n  skep review show r-3\n  skep review allow r-3\n  \
skep review deny r-3 --reason \"not on this machine\"\n\nAn answer is for exactly the call that is shown, once.")]
pub struct Review {
    #[command(subcommand)]
    what: Option<What>,
    /// Also those that are answered
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List open reviews
    #[command(after_help = "Examples:\n  skep review list\n  skep review list --all")]
    List {
        /// Also those that are answered
        #[arg(long)]
        all: bool,
    },
    /// Show one in full
    #[command(after_help = "Examples:\n  skep review show r-3")]
    Show { review: ReviewId },
    /// Say yes, once, to exactly this call
    #[command(after_help = "Examples:\n  skep review allow r-3")]
    Allow(Said),
    /// Say no
    #[command(after_help = "Examples:\n  skep review deny r-3 --reason \"not on this machine\"")]
    Deny(Said),
}

#[derive(Debug, clap::Args)]
struct Said {
    review: ReviewId,
    /// Why; the brain is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Review {
    pub async fn run(self, console: &Console) -> Outcome {
        let mut kernel = console.kernel().await?;
        let (said, answer) = match self.what.unwrap_or(What::List { all: self.all }) {
            What::List { all } => {
                let result = kernel.call::<List>(&ListParams { all }).await?;
                console.show(&result, |result| review::list(&result.reviews, measure::now_ms()));
                return OK;
            }
            What::Show { review } => {
                let view = kernel.call::<Show>(&ShowParams { review }).await?;
                console.show_whole(&view, |view| review::detail(view, measure::now_ms()));
                return OK;
            }
            What::Allow(said) => (said, Answer::Allow),
            What::Deny(said) => (said, Answer::Deny),
        };
        let view = kernel.call::<Method>(&AnswerParams { review: said.review, answer, reason: said.reason }).await?;
        console.show(&view, review::answered);
        OK
    }
}
