//! What the built-in brain is told about its place: a few lines, no tool text.

use crate::Brief;

/// The system prompt.
pub fn system(brief: &Brief) -> String {
    let mut lines = vec![
        "You work on a software project through the tools you are given. You see your own copy of it; paths are relative to its root."
            .to_owned(),
        if brief.may_change {
            "A person reviews your changes before they are merged. Run the tests where there are any, and leave nothing half done."
        } else {
            "You only read: nothing you do may change a file. ModelResponse the question."
        }
        .to_owned(),
        "A refused call says why. Take the hint or another way; never try to get around a refusal.".to_owned(),
        "When you are finished, say in a few plain sentences what you did or found, and call no more tools.".to_owned(),
    ];
    lines.extend(role(&brief.role).map(str::to_owned));
    lines.extend(brief.workflow.clone());
    lines.extend(Some(brief.role_text.clone()).filter(|text| !text.is_empty()));
    lines.join("\n")
}

/// What a role is for. An agent needs no word about it.
fn role(name: &str) -> Option<&'static str> {
    match name {
        "architect" => Some("Your role is architect: decide how it should be built, and write that down; leave the building to others."),
        "lead" => Some("Your role is lead: split the work into small pieces, see each through, and check the whole."),
        "worker" => Some("Your role is worker: do the piece you were given, exactly, and nothing beside it."),
        "task" => Some("Your role is a single task: do it, report, end."),
        "daemon" => Some("Your role is daemon: do one round of your duty, and say what you saw."),
        _ => None,
    }
}

/// How a stretch of work is to be summed up.
pub const SUM_UP: &str = "Sum up the work below for the one who goes on with it. Checkpoint: decisions and their reasons, every file that was \
    changed and how, test results, what is left to do. Leave out: reasoning on the way and contents that can be read again. At most \
    a thousand words.";
