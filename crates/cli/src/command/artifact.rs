//! `skep artifact`: what processes store for each other.

use crate::bounded_input;
use crate::command::whom;
use crate::command_error::CommandError;
use crate::console::{Console, ExitResult, OK};
use crate::show::{Line, Page, artifact, measure};
use clap::Subcommand;
use std::path::PathBuf;
use wire::limits::STORED_ARTIFACT_BYTES_MAX;
use wire::method::Nothing;
use wire::method::artifact::{ArtifactListParams, ArtifactReadParams, ArtifactRemoveParams, ArtifactStoreParams};
use wire::table::{ArtifactList, ArtifactRead, ArtifactRemove, ArtifactStore};
use wire::{ArtifactId, ErrorCode, Visibility, base64};

/// Show and store what processes keep for each other
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  skep artifact list\n  skep artifact show report > report.md\n  skep artifact store plan plan.md --visibility global"
)]
pub struct ArtifactArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List what is stored
    #[command(after_help = "Examples:\n  skep artifact list\n  skep artifact list rep --of price")]
    List {
        /// Only keys that begin so
        prefix: Option<String>,
        /// Only what this process stored, by name or pid
        #[arg(long, value_name = "PROCESS")]
        of: Option<String>,
    },
    /// Print one, by its key or its id
    #[command(after_help = "Examples:\n  skep artifact show report\n  skep artifact show art-3 > page.html")]
    Show {
        /// Its key, or an id such as art-3
        which: String,
    },
    /// Store a file, or what stands on stdin
    #[command(after_help = "Examples:\n  skep artifact store plan plan.md\n  date | skep artifact store today --visibility global")]
    Store {
        /// Its key
        key: String,
        /// The file [default: stdin]
        file: Option<PathBuf>,
        /// Who can read it: private, user, subtree or global
        #[arg(long, value_name = "WHO", default_value = "user", value_parser = visibility)]
        visibility: Visibility,
        /// Its media type
        #[arg(long = "type", value_name = "TYPE", default_value = "application/octet-stream", hide_default_value = true)]
        content_type: String,
    },
    /// Remove one version
    #[command(after_help = "Examples:\n  skep artifact rm art-3")]
    Rm {
        /// Its id, such as art-3
        artifact: ArtifactId,
    },
}

fn visibility(text: &str) -> Result<Visibility, String> {
    use Visibility::{Global, Private, Subtree, User};
    let found = [Private, User, Subtree, Global].into_iter().find(|visibility| visibility.as_str() == text);
    found.ok_or_else(|| format!("`{text}` is none of private, user, subtree, global"))
}

impl ArtifactArgs {
    pub async fn run(self, console: &Console) -> ExitResult {
        let mut kernel = console.kernel().await?;
        match self.action {
            Action::List { prefix, of } => {
                let pid = match &of {
                    Some(process) => Some(whom::process(&mut kernel, process).await?),
                    None => None,
                };
                let result = kernel.call::<ArtifactList>(&ArtifactListParams { prefix: prefix.unwrap_or_default(), pid }).await?;
                console.show(&result, |result| artifact::list(&result.artifacts, measure::now_ms()));
            }
            Action::Show { which } => {
                let params = match which.parse::<ArtifactId>() {
                    Ok(id) => ArtifactReadParams { artifact: Some(id), key: None },
                    Err(_) => ArtifactReadParams { artifact: None, key: Some(which) },
                };
                let read = kernel.call::<ArtifactRead>(&params).await;
                let read = read.map_err(|error| whom::explain(error, "it cannot be shown", "`skep artifact list` has them"))?;
                if console.json {
                    console.out.json(&read);
                } else {
                    let content = base64::decode(&read.content)
                        .ok_or_else(|| CommandError::new(ErrorCode::Internal, "the kernel sent something unreadable").fix("try again"))?;
                    console.out.write(&content);
                }
            }
            Action::Store { key, file, visibility, content_type } => {
                let content = base64::encode(&bounded_input::read(file.as_deref(), STORED_ARTIFACT_BYTES_MAX)?);
                let stored =
                    kernel.call::<ArtifactStore>(&ArtifactStoreParams { key: key.clone(), content, content_type, visibility }).await?;
                console.show(&stored, |stored| {
                    Page(vec![Line::new().good("✓ ").name(&key).plain(" is stored").faint(format!("  {}", stored.artifact))])
                });
            }
            Action::Rm { artifact } => {
                let removed = kernel.call::<ArtifactRemove>(&ArtifactRemoveParams { artifact }).await;
                removed.map_err(|error| whom::explain(error, format!("`{artifact}` stays"), "`skep artifact list` has them"))?;
                console.show(&Nothing {}, |_| Page(vec![Line::new().good("✓ ").name(artifact.to_string()).plain(" is removed")]));
            }
        }
        OK
    }
}
