//! `skep grant`: what people have given and refused for good.

use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page, grant};
use clap::Subcommand;
use wire::method::Nothing;
use wire::method::grant::GrantRevokeParams;
use wire::table::{GrantList, GrantRevoke};
use wire::{BanId, GrantId, TokenId};

/// List and revoke grants, bans and tokens
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  skep grant list\n  skep grant revoke g-3\n  skep grant revoke b-1 t-2\n\n\
Grants (g-) and bans (b-) come from answers to reviews, tokens (t-) from `skep token issue`.")]
pub struct GrantArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List grants, bans and tokens
    #[command(after_help = "Examples:\n  skep grant list\n  skep grant list --json")]
    List,
    /// Revoke grants and tokens, and lift bans, at once
    #[command(after_help = "Examples:\n  skep grant revoke g-3\n  skep grant revoke g-3 b-1 t-2\n\n\
The next call that would have used it asks again, in children too.")]
    Revoke {
        /// g-1, b-1 or t-1
        #[arg(required = true, value_name = "ID", value_parser = id)]
        ids: Vec<String>,
    },
}

/// Is it a name of something that can be taken back?
fn id(text: &str) -> Result<String, String> {
    let known = text.parse::<GrantId>().is_ok() || text.parse::<BanId>().is_ok() || text.parse::<TokenId>().is_ok();
    if known { Ok(text.to_owned()) } else { Err(format!("`{text}` is no grant (g-1), ban (b-1) or token (t-1)")) }
}

impl GrantArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        match self.action {
            Action::List => {
                let result = kernel.call::<GrantList>(&Nothing {}).await?;
                console.show_wrapped(&result, |result| grant::list(result, &grant::Uptime::now()));
            }
            Action::Revoke { ids } => {
                for id in ids {
                    kernel.call::<GrantRevoke>(&GrantRevokeParams { id: id.clone() }).await?;
                    let done = if id.starts_with('b') { "lifted" } else { "revoked" };
                    console.show_wrapped(&serde_json::json!({"revoked": id}), |_| {
                        Page(vec![Line::new().good("✓ ").name(&id).plain(format!(" {done}"))])
                    });
                }
            }
        }
        OK
    }
}
