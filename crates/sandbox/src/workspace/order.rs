//! What the caller wants of a job, checked and put as an order to the holder.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, PathBuf};

use crate::fault::SandboxError;
use crate::inlet::Inlets;
use crate::order::{ActOrder, Bytes, JobOrder};
use crate::spec::{Act, Door, JobSpec};

/// The order for a job; its id comes with its place on the list.
pub(super) fn order(spec: &JobSpec) -> Result<JobOrder, SandboxError> {
    let bad = |why| Err(SandboxError::BadJob { why });
    if spec.profile == crate::spec::Profile::Strict {
        return bad("no program starts under `strict`; a child of ours loads it by itself");
    }
    let has_nul = |text: &OsString| text.as_bytes().contains(&0);
    if spec.env.iter().any(|(key, value)| key.is_empty() || key.as_bytes().contains(&b'=') || has_nul(key) || has_nul(value)) {
        return bad("a variable has an empty name, or a byte that it cannot hold");
    }
    if spec.cwd.is_absolute() || spec.cwd.components().any(|part| part == Component::ParentDir) {
        return bad("the working directory must lie in the project");
    }
    let ports: std::collections::BTreeSet<u16> = spec.doors.iter().map(|door| door.port).collect();
    if ports.len() != spec.doors.len() || ports.len() > Door::MAX || ports.contains(&0) {
        return bad("its doors are too many, or two have one port, or one has none");
    }
    if spec.inlets > Inlets::MAX {
        return bad("its inlets are too many");
    }
    let (act, cwd) = match &spec.act {
        Act::Exec { argv } if argv.first().is_none_or(|name| name.is_empty()) => return bad("the argument list names no program"),
        Act::Exec { argv } if argv.iter().any(has_nul) => return bad("an argument holds a zero byte"),
        Act::Exec { argv } => (ActOrder::Exec { argv: argv.iter().cloned().map(Bytes::from).collect() }, spec.cwd.clone()),
        // Always relative to the project, wherever a command would run.
        Act::Write { path, mode } => (ActOrder::Write { path: path.clone().into(), mode: *mode }, PathBuf::new()),
        Act::Delete { path } => (ActOrder::Delete { path: path.clone().into() }, PathBuf::new()),
        Act::Move { from, to } => (ActOrder::Move { from: from.clone().into(), to: to.clone().into() }, PathBuf::new()),
    };
    let env = spec.env.iter().map(|(key, value)| (key.clone().into(), value.clone().into())).collect();
    let (doors, inlets, terminal) = (spec.doors.clone(), spec.inlets, spec.terminal);
    let (profile, limits) = (spec.profile, spec.limits.clone());
    Ok(JobOrder { id: 0, act, env, cwd: cwd.into(), profile, limits, terminal, doors, inlets })
}
