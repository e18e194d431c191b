//! What a call would do, in one sentence, for `dry_run`. Looks at places that are open anyway, and at nothing else.

use super::{Body, http, name, patch, run, text, words, write};
use crate::fault::ToolStop;
use crate::manifest::Manifest;
use crate::place::Place;
use crate::tool::Context;
use serde_json::Value;
use world::{Code, Refusal};

pub(super) fn tell(body: Body, manifest: &Manifest, input: &Value, places: &[Place], context: &Context<'_>) -> Result<String, ToolStop> {
    let place = |index: usize| places.get(index).ok_or_else(|| Refusal::new(Code::BadInput, "the call came without its place"));
    let field = |name: &str| text(input, name).unwrap_or_default();
    Ok(match body {
        Body::FsRead => {
            let (_, bytes) = place(0)?.file()?;
            format!("read {} ({bytes} bytes)", shown(place(0)?))
        }
        Body::FsList => format!("list {}", shown(directory(place(0)?)?)),
        Body::FsExists => format!("look whether {} is there", shown(place(0)?)),
        Body::FsWrite => {
            let (path, created) = write::target(place(0)?)?;
            format!("{} `{path}` with {} bytes", if created { "create" } else { "replace" }, field("content").len())
        }
        Body::FsEdit => {
            let path = shown(place(0)?);
            place(0)?.file()?;
            format!("replace {} bytes by {} in {path}", field("old").len(), field("new").len())
        }
        Body::FsDelete => format!("delete `{}`", name::present(place(0)?)?),
        Body::FsMove => format!("move `{}` to `{}`", name::present(place(0)?)?, name::free(place(1)?)?),
        Body::FsPatch => patch::would(input)?,
        Body::SearchGrep => format!("search {} for `{}`", shown(place(0)?), field("pattern")),
        Body::SearchGlob => format!("look for `{}` below {}", field("pattern"), shown(directory(place(0)?)?)),
        Body::ShellRun | Body::SandboxRun => {
            run::room(context)?;
            format!("run `{}` in {}", words(input, "command").join(" "), shown(directory(place(0)?)?))
        }
        Body::TestRun => {
            run::room(context)?;
            format!("run `{}`", run::test_command(input, context)?.join(" "))
        }
        Body::GitStatus => "look at the state of the repository".to_owned(),
        Body::GitDiff => format!("show what changed in {}", shown(place(0)?)),
        Body::GitLog => format!("list commits of {}", shown(place(0)?)),
        Body::GitCommit if places.is_empty() => "commit all changes of the task".to_owned(),
        Body::GitCommit => format!("commit the changes of {}", places.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Body::HttpRequest => {
            let aim = http::aim(input)?;
            context.reach.check(&aim)?;
            format!("send {} to {} with {} bytes", aim.method, aim.url(), field("body").len())
        }
        Body::Adapted(adapter) => format!("call `{}`", adapter.tool()),
        Body::Foreign => format!("run `{}` with the input as JSON", manifest.command.join(" ")),
    })
}

fn shown(place: &Place) -> String {
    format!("`{}`", place.real.as_str())
}

fn directory(place: &Place) -> Result<&Place, Refusal> {
    place.directory().map(|_| place)
}
