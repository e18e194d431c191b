//! `skep review`: questions that wait for a person.

pub mod answer;
pub mod ask;
pub mod inbox;

use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, measure, model, review};
use answer::{AllowArgs, ChangesArgs, DenyArgs};
use clap::Subcommand;
use wire::ReviewId;
use wire::method::Nothing;
use wire::method::review::{ReviewListParams, ReviewShowParams};
use wire::table::{BudgetList, ReviewAnswer, ReviewList, ReviewShow};

/// Look at and answer what waits for you
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  skep review                  the inbox: answered by keys, one after the other\n  \
skep review list\n  skep review show r-3\n  skep review allow r-3\n  skep review allow r-3 --for task --ttl 10m\n  \
skep review deny r-3 --reason \"not on this machine\"\n  skep review changes r-3 --reason \"add a test\"\n\n\
In the inbox: a allows once, s for the session, g always and for everyone, c on conditions, o observed; d denies, D for good, \
i names something better, e sends a merge back with a comment; n and p turn the pages, q leaves. In a pipe, or with --json, it is a list.")]
pub struct ReviewArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// List them, also those that are answered
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List open reviews
    #[command(after_help = "Examples:\n  skep review list\n  skep review list --all")]
    List {
        /// Also those that are answered
        #[arg(long)]
        all: bool,
    },
    /// Show one
    #[command(after_help = "Examples:\n  skep review show r-3\n  skep review show r-3 --full | less -R\n\n\
A record keeps 2,000 bytes of a long text and no secrets; --full shows the exact call, which is kept until you answer.")]
    Show {
        /// Review id, as `skep review` prints it
        review: ReviewId,
        /// All that a yes would cover, neither shortened nor redacted
        #[arg(long)]
        full: bool,
    },
    /// Say yes: to exactly this call, or to calls like it
    #[command(after_help = "Examples:\n  skep review allow r-3                               this call, once\n  \
skep review allow r-3 --for task --ttl 10m          its task, for ten minutes\n  \
skep review allow r-3 --for repository --rate 5/1m  five a minute, here\n  \
skep review allow r-3 --always --paths 'docs/**'    everywhere, below docs\n  \
skep review allow r-3 --writable 'out/**' --max-duration 30s --set limit=10\n\n\
A yes never overrides a deny. Its conditions hold as long as it does; `skep grant revoke` takes it back.")]
    Allow(Box<AllowArgs>),
    /// Say no: to this call, or for good
    #[command(after_help = "Examples:\n  skep review deny r-3 --reason \"not on this machine\"\n  \
skep review deny r-3 --instead fs.write path=out/report.md\n  skep review deny r-3 --for-good --for repository\n\n\
`skep grant list` shows what is denied for good, `skep grant revoke` lifts it.")]
    Deny(DenyArgs),
    /// Send a merge back: its task goes on with what you say
    #[command(after_help = "Examples:\n  skep review changes r-3 --reason \"keep the old name, and add a test\"\n  \
skep review changes r-3 --rebase\n\n\
The brain hears the reason in the same conversation and goes on in the same workspace; then it proposes its changes anew. \
With --rebase its work is first laid over the project as it is now: what clashes there holds both sides, marked, for it to settle.")]
    Changes(ChangesArgs),
}

impl ReviewArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        let params = match self.action {
            None if !self.all && inbox::is_possible(console) => return inbox::run(kernel, console).await,
            None => return list(&mut kernel, self.all, console).await,
            Some(Action::List { all }) => return list(&mut kernel, all, console).await,
            Some(Action::Show { review, full }) => {
                let view = kernel.call::<ReviewShow>(&ReviewShowParams { review, full }).await?;
                console.show_wrapped(&view, |view| review::detail(view, measure::now_ms()));
                return OK;
            }
            Some(Action::Allow(allow)) => {
                let like = match allow.names_calls() {
                    true => kernel.call::<ReviewShow>(&ReviewShowParams { review: allow.review(), full: false }).await?.like,
                    false => None,
                };
                allow.params(like)?
            }
            Some(Action::Deny(deny)) => deny.params()?,
            Some(Action::Changes(changes)) => changes.params(),
        };
        let view = kernel.call::<ReviewAnswer>(&params).await?;
        if params.terms.as_ref().and_then(|terms| terms.constraints.as_ref()).is_some_and(|kept| !kept.input_overrides.is_empty()) {
            let why = "a yes with --set covers the call and not its merge: what it writes is asked about again when it is merged";
            console.note(Line::new().wait("◍ ").plain(why));
        }
        console.show_wrapped(&view, |view| review::answered(view, params.reach));
        OK
    }
}

async fn list(kernel: &mut wire::KernelClient, all: bool, console: &Console) -> ExitResult {
    let result = kernel.call::<ReviewList>(&ReviewListParams { all }).await?;
    console.show(&result, |result| review::list(&result.reviews, measure::now_ms()));
    for wait in kernel.call::<BudgetList>(&Nothing {}).await?.accounts.iter().flat_map(|account| &account.waits) {
        console.note(Line::new().wait("◍ ").plain(model::waits(wait)));
    }
    OK
}
