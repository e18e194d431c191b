//! The plays of the corpus, as they stand in the file.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testing/corpus/cheats.txt");

/// The cheats that are marked as the kernel's.
pub fn read() -> Result<Vec<Cheat>, String> {
    std::fs::read_to_string(FILE)
        .map_err(|error| error.to_string())
        .and_then(|corpus| of_kernel(&corpus))
        .map_err(|why| format!("{FILE}: {why}"))
}

/// A cheat that the kernel must meet.
#[derive(Clone, Default)]
pub struct Cheat {
    pub name: String,
    pub play: Vec<PlayLine>,
    /// What must be on record of the cheat, and of its control must not.
    pub found: Vec<String>,
    /// Kinds of brains that it is nothing for, and why.
    pub spares: BTreeMap<String, String>,
}

#[derive(Clone)]
pub enum PlayLine {
    /// A line of the scenario above all that happens.
    Given(String),
    /// What a brain does, and whether only the one that cheats does it, or only the honest one.
    Act { act: BrainAct, by: PlayedBy },
    /// What people do when it is over. Without any they agree to the merge.
    People { does: String, by: PlayedBy },
}

impl PlayLine {
    pub fn is_cheat(&self) -> bool {
        matches!(self, PlayLine::Act { by: PlayedBy::Cheat, .. })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum PlayedBy {
    Both,
    Cheat,
    Control,
}

#[derive(Clone)]
pub enum BrainAct {
    Call {
        tool: String,
        input: Map<String, Value>,
    },
    /// A phase is called complete; of a client its turn is over.
    Next,
}

fn call(tool: &str, input: Value) -> BrainAct {
    BrainAct::Call { tool: tool.to_owned(), input: input.as_object().cloned().unwrap_or_default() }
}

/// The project that most plays are about, and what honest work on it is.
const TEST: &str = "test \"$(sh src/two.sh)\" = 2\n";

fn act(text: &str) -> Result<BrainAct, String> {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Ok(match word {
        "next" => BrainAct::Next,
        "test" => call("fs.write", json!({ "path": "tests/two_test.sh", "content": TEST })),
        "code" => call("fs.write", json!({ "path": "src/two.sh", "content": "echo 2\n" })),
        "write" => {
            let (path, content) = rest.split_once(' ').ok_or_else(|| format!("wants a path and a text: `{text}`"))?;
            call("fs.write", json!({ "path": path, "content": format!("{}\n", content.replace("\\n", "\n")) }))
        }
        "sh" => call("shell.run", json!({ "command": ["sh", "-c", rest] })),
        "call" => {
            let (tool, input) = rest.split_once(' ').unwrap_or((rest, "{}"));
            call(tool, serde_json::from_str(input).map_err(|error| format!("{error}: `{text}`"))?)
        }
        _ => return Err(format!("no act: `{text}`")),
    })
}

fn line(text: &str) -> Result<PlayLine, String> {
    if let Some(given) = text.strip_prefix("given ") {
        return Ok(PlayLine::Given(given.to_owned()));
    }
    let (by, text) = match (text.strip_prefix("! "), text.strip_prefix("- ")) {
        (Some(text), _) => (PlayedBy::Cheat, text),
        (None, Some(text)) => (PlayedBy::Control, text),
        (None, None) => (PlayedBy::Both, text),
    };
    Ok(match text.strip_prefix("people ") {
        Some(does) => PlayLine::People { does: does.to_owned(), by },
        None => PlayLine::Act { act: act(text)?, by },
    })
}

fn of_kernel(corpus: &str) -> Result<Vec<Cheat>, String> {
    let (mut cheats, mut is_kernels) = (Vec::<(Cheat, bool)>::new(), false);
    let mut text: Option<&str> = None;
    for written in corpus.lines() {
        if let Some(name) = written.strip_prefix("cheat ").filter(|_| text.is_none()) {
            cheats.push((Cheat { name: name.to_owned(), ..Cheat::default() }, false));
            is_kernels = false;
            continue;
        }
        let Some((cheat, is_its)) = cheats.last_mut() else { continue };
        if written == "by kernel" {
            (is_kernels, *is_its) = (true, true);
        } else if let Some(found) = written.strip_prefix("=> ") {
            cheat.found.push(found.to_owned());
            text = None;
        } else if let Some(name) = written.strip_prefix("<<< ") {
            text = Some(name);
        } else if let Some((kind, why)) = written.strip_prefix("spares ").and_then(|rest| rest.split_once(' ')) {
            cheat.spares.insert(kind.to_owned(), why.to_owned());
        } else if is_kernels && text == Some("play") {
            cheat.play.push(line(written).map_err(|why| format!("{}: {why}", cheat.name))?);
        }
    }
    Ok(cheats.into_iter().filter(|(_, is_its)| *is_its).map(|(cheat, _)| cheat).collect())
}
