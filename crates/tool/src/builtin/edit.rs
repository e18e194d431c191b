//! `fs.edit`: one exact replacement in a file.
//!
//! Read here from the file that was decided on, written in the room.

use super::{blocking, bytes_in, exactly, exactly_of, path_in, shown, text, time_of, write};
use crate::context::Context;
use crate::fault::{ToolFault, ToolStop};
use crate::manifest::Manifest;
use crate::resolved_path::{Access, NamedPath, ResolvedPath};
use crate::tool::{Output, Tool, ToolFuture};
use serde_json::{Value, json};
use std::io::Read;
use std::time::Duration;
use world::limits::READ_BYTES_MAX;
use world::{Code, Refusal};

/// Lines that an ambiguous text is told with.
const LINES_TOLD_MAX: usize = 5;

#[derive(Debug)]
pub(super) struct FsEdit(pub(super) Manifest);

impl Tool for FsEdit {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn named_paths(&self, input: &Value) -> Vec<NamedPath> {
        vec![path_in(input, "path", Access::Write)]
    }

    fn size(&self, input: &Value, _paths: &[ResolvedPath]) -> Option<u64> {
        bytes_in(input, "new")
    }

    fn dry_run(&self, input: &Value, paths: &[ResolvedPath], _context: &Context<'_>) -> Result<String, ToolStop> {
        let [path] = exactly_of(paths)?;
        path.file()?;
        let bytes = |field: &str| text(input, field).unwrap_or_default().len();
        Ok(format!("replace {} bytes by {} in {}", bytes("old"), bytes("new"), shown(path)))
    }

    fn execute<'a>(&'a self, input: &'a Value, paths: Vec<ResolvedPath>, context: &'a Context<'a>) -> ToolFuture<'a> {
        Box::pin(async move {
            let [path] = exactly(paths)?;
            run(input, path, context, time_of(&self.0)).await
        })
    }
}

async fn run(input: &Value, resolved: ResolvedPath, context: &Context<'_>, time: Duration) -> Result<Output, ToolStop> {
    let field = |name: &str| text(input, name).unwrap_or_default().to_owned();
    let (old, new) = (field("old"), field("new"));
    let all = input.get("all").and_then(Value::as_bool).unwrap_or(false);
    let (resolved, edited) = blocking(time, move |_| {
        let content = content(&resolved)?;
        let edited = replace(resolved.real.as_str(), &content, &old, &new, all)?;
        Ok((resolved, edited))
    })
    .await?;
    let path = resolved.real.as_str();
    let bytes = edited.content.len();
    write::store(path, edited.content.into_bytes(), None, context, time).await?;
    Ok(Output::good(json!({ "path": path, "replaced": edited.lines.len(), "line": edited.lines.first(), "bytes": bytes })))
}

fn content(resolved: &ResolvedPath) -> Result<String, ToolStop> {
    let path = resolved.real.as_str();
    let (file, size) = resolved.file()?;
    if size > READ_BYTES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("`{path}` has {size} bytes; {READ_BYTES_MAX} can be edited"))
            .hint("change it in the sandbox with shell.run")
            .into());
    }
    let mut bytes = Vec::new();
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| ToolFault::io("read", path, error))?;
    String::from_utf8(bytes)
        .map_err(|_| Refusal::new(Code::BadInput, format!("`{path}` is not text")).hint("change it in the sandbox with shell.run").into())
}

#[derive(Debug, PartialEq)]
struct Edited {
    content: String,
    /// Where the replaced texts began.
    lines: Vec<usize>,
}

fn replace(path: &str, content: &str, old: &str, new: &str, all: bool) -> Result<Edited, Refusal> {
    if old == new {
        return Err(Refusal::new(Code::BadInput, "`old` and `new` are the same").hint("say in `new` what should stand there"));
    }
    let mut counted = (0, 1);
    let mut line_of = |at: usize| {
        let (from, line) = counted;
        counted = (at, line + content[from..at].matches('\n').count());
        counted.1
    };
    let lines: Vec<usize> = content.match_indices(old).map(|(at, _)| line_of(at)).collect();
    match lines.len() {
        0 => Err(Refusal::new(Code::BadInput, format!("`old` does not occur in `{path}`")).hint(near(content, old))),
        1 => Ok(Edited { content: content.replacen(old, new, 1), lines }),
        _ if all => Ok(Edited { content: content.replace(old, new), lines }),
        times => {
            let more = if times > LINES_TOLD_MAX { ", …" } else { "" };
            let told: Vec<String> = lines.iter().take(LINES_TOLD_MAX).map(usize::to_string).collect();
            Err(Refusal::new(Code::BadInput, format!("`old` occurs {times} times in `{path}`, at lines {}{more}", told.join(", ")))
                .hint("take more of the lines around it into `old`, or set `all`"))
        }
    }
}

/// Why a text that seems to be there is not.
fn near(content: &str, old: &str) -> String {
    if content.contains("\r\n") && content.contains(&old.replace('\n', "\r\n")) {
        return "the file's lines end with CR LF; write them as \\r\\n in `old` and `new`".to_owned();
    }
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let alike = |(_, line): &(usize, &str)| !first.is_empty() && words(line).contains(&words(first));
    match content.lines().enumerate().find(alike) {
        Some((index, _)) if words(content).contains(&words(old)) => {
            format!("with other white space it stands at line {}; copy it exactly as fs.read gives it", index + 1)
        }
        Some((index, _)) => format!("only its first line stands there, at line {}; read the file again with fs.read", index + 1),
        None => "read the file again with fs.read: it may have changed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn a() {\n    one();\n    two();\n}\n\nfn b() {\n    one();\n}\n";

    fn hint(content: &str, old: &str) -> (String, String) {
        let refusal = replace("f", content, old, "new", false).unwrap_err();
        (refusal.reason, refusal.hint.unwrap())
    }

    #[test]
    fn exactly_one_place_is_changed() {
        let edited = replace("f", CODE, "    two();\n", "    three();\n", false).unwrap();
        assert_eq!(edited, Edited { content: CODE.replace("two", "three"), lines: vec![3] });
        let edited = replace("f", CODE, "one()", "1", true).unwrap();
        assert_eq!((edited.content.matches("one").count(), edited.lines), (0, vec![2, 7]));
        assert_eq!(replace("f", CODE, "    two();\n", "", false).unwrap().content, CODE.replace("    two();\n", ""));
    }

    #[test]
    fn a_no_says_what_would_be_right() {
        assert_eq!(
            hint(CODE, "one();"),
            ("`old` occurs 2 times in `f`, at lines 2, 7".into(), "take more of the lines around it into `old`, or set `all`".into())
        );
        assert_eq!(hint(CODE, "\tone();\n\ttwo();").1, "with other white space it stands at line 2; copy it exactly as fs.read gives it");
        assert_eq!(hint(CODE, "two();\nsix();").1, "only its first line stands there, at line 3; read the file again with fs.read");
        assert_eq!(hint(CODE, "nowhere").0, "`old` does not occur in `f`");
        assert!(hint("a\r\nb\r\n", "a\nb").1.contains("CR LF"));
        assert_eq!(replace("f", CODE, "one", "one", false).unwrap_err().reason, "`old` and `new` are the same");
    }
}
