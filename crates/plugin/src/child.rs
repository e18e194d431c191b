//! The child's main: reads the rules, then answers one call after another until its input ends.
//!
//! It runs in a room without network, files or rights, and gives up the rest of what it could ask of the system before the first
//! word of a rule runs.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;

use crate::engine::{RuleProgram, RuleStage};
use crate::fault::RuleFlaw;
use crate::frame::{self, ChildReply, Order, RuleAnswer, VERSION};

/// What the rules see before they are asked in earnest: a call that nobody makes. What they say to it is dropped.
const WARM_UP: &str = r#"{"tool":"skep.warm","paths":[],"caller":"","role":"","zone":"","mode":"ask","workflow_state":"idle","input":{}}"#;

/// Speaks with the kernel over stdin and stdout. For a hidden command of the binary, which nothing but `Extensions` starts.
pub fn child_main() -> ExitCode {
    // Not std's own handles: their locks and buffers are for programs that print.
    let talked = streams().and_then(|(mut input, mut output)| talk(&mut input, &mut output));
    match talked {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn streams() -> io::Result<(std::fs::File, std::fs::File)> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    Ok((input.into(), output.into()))
}

fn talk(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    frame::write(output, &ChildReply::Hello { version: VERSION })?;
    let Some(Order::Load(files)) = frame::read(input)? else { return Ok(()) };
    let program = match RuleProgram::strip(&files) {
        Ok(program) => program,
        Err(flaw) => return frame::write(output, &ChildReply::Flawed(flaw)),
    };
    sandbox::lock(sandbox::Sockets::None)?;
    let mut stage = match warmed(&program) {
        Ok(stage) => stage,
        Err(flaw) => return frame::write(output, &ChildReply::Flawed(flaw)),
    };
    frame::write(output, &ChildReply::Loaded { rules: stage.rules() })?;
    loop {
        frame::write(output, &ChildReply::Ready)?;
        let Some(Order::Judge(call)) = frame::read(input)? else { return Ok(()) };
        let answers = stage.judge(call.get());
        tell(output, answers)?;
        // The next call's stage is set while the kernel acts on this one.
        stage = program.stage().map_err(|flaw| io::Error::other(flaw.to_string()))?;
    }
}

/// The first stage is spent on a call that nobody makes, so that the first real one finds everything in its place.
fn warmed(program: &RuleProgram) -> Result<RuleStage, RuleFlaw> {
    program.stage()?.judge(WARM_UP);
    program.stage()
}

/// Answers that are too long together are no answers.
fn tell(output: &mut impl Write, answers: Vec<RuleAnswer>) -> io::Result<()> {
    let count = answers.len();
    let bytes = frame::pack(&ChildReply::Judged(answers)).or_else(|error| {
        let lost = RuleAnswer::Lost { why: format!("all answers together are {error}") };
        frame::pack(&ChildReply::Judged(vec![lost; count]))
    })?;
    output.write_all(&bytes)
}
