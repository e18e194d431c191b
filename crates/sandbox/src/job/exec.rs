//! Starting the command and burying its tree.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::fault::{At, Failure, Step};
use crate::order::{Bytes, JobReport};
use crate::sys;

/// On the job's own /tmp: a home that vanishes with it.
pub(crate) const HOME: &str = "/tmp/home";

const DEFAULTS: &[(&str, &str)] = &[
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", HOME),
    ("LANG", "C.UTF-8"),
    ("TERM", "dumb"),
    ("USER", "skep"),
];

/// Runs the command to its end and the end of everything it left behind.
pub(super) fn run(argv: &[Bytes], env: &[(Bytes, Bytes)], terminal: bool) -> Result<JobReport, Failure> {
    let env = environment(env);
    let name = argv.first().map(Bytes::os).unwrap_or_default();
    let about = |error| Failure::new(Step::Spawn, error).about(name.display());
    let path = env.iter().find_map(|(key, value)| (key == OsStr::new("PATH")).then_some(value.as_os_str()));
    let program = search(name, path.unwrap_or_default()).map_err(about)?;
    let program = CString::new(program.into_os_string().as_bytes()).map_err(|error| about(error.into()))?;
    let arguments = argv.iter().map(|argument| CString::new(argument.os().as_bytes()));
    let arguments = arguments.collect::<Result<Vec<_>, _>>().map_err(|error| about(error.into()))?;
    let variables = env.iter().map(|(key, value)| CString::new([key.as_bytes(), b"=", value.as_bytes()].concat()));
    let variables = variables.collect::<Result<Vec<_>, _>>().map_err(|error| about(error.into()))?;

    let command = sys::spawn(&program, &arguments, &variables, !terminal).map_err(about)?;
    // The streams are the command's now; held here they would never come to their end.
    for stream in 0..3 {
        drop(sys::placed(stream));
    }
    sys::obey_pauses().at(Step::Spawn)?;
    let status = bury(command).at(Step::Spawn)?;
    sys::kill_all_others();
    while sys::reap(-1, true).is_ok() {}
    Ok(JobReport::Ended { status, usage: sys::children_usage() })
}

/// Reaps whoever ends until it is the command.
fn bury(command: i32) -> io::Result<i32> {
    loop {
        if let Some((pid, status, _)) = sys::reap(-1, true)?
            && pid == command
        {
            return Ok(status);
        }
    }
}

/// The caller's variables over the defaults; the last word on a name counts.
fn environment(given: &[(Bytes, Bytes)]) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let defaults = DEFAULTS.iter().map(|(key, value)| (OsStr::new(key), OsStr::new(value)));
    let mut env: Vec<(std::ffi::OsString, std::ffi::OsString)> = Vec::new();
    for (key, value) in defaults.chain(given.iter().map(|(key, value)| (key.os(), value.os()))) {
        env.retain(|(known, _)| known != key);
        env.push((key.to_owned(), value.to_owned()));
    }
    env
}

/// Finds a program as execvp does, but tells "not found" from "found, yet not executable".
fn search(name: &OsStr, path: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name));
    }
    let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
    for folder in path.as_bytes().split(|byte| *byte == b':').filter(|folder| !folder.is_empty() && !name.is_empty()) {
        match executable(&Path::new(OsStr::from_bytes(folder)).join(name)) {
            Ok(found) => return Ok(found),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => worst = error,
            Err(_) => {}
        }
    }
    Err(worst)
}

fn executable(path: &Path) -> io::Result<PathBuf> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() && metadata.permissions().mode() & 0o111 != 0 {
        Ok(path.to_owned())
    } else {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}
