//! Which process is meant: `7`, `p7`, or a name that one process has.

use crate::command_error::CommandError;
use wire::method::Nothing;
use wire::method::process::ProcView;
use wire::table::ProcList;
use wire::{ClientError, ErrorCode, KernelClient, Pid, ProcessState};

/// What a refusal of the process tree is in three lines: what was not done, why not, and what helps where the kernel names nothing.
pub fn explain(error: ClientError, what: impl Into<String>, fix: &str) -> CommandError {
    let error = CommandError::from(error);
    match error.why {
        Some(_) => CommandError { fix: error.fix.or_else(|| Some(fix.to_owned())), ..error },
        None => {
            CommandError { code: error.code, what: what.into(), why: Some(error.what), fix: error.fix.or_else(|| Some(fix.to_owned())) }
        }
    }
}

fn is_alive(process: &ProcView) -> bool {
    !matches!(process.state, ProcessState::Zombie | ProcessState::Dead)
}

/// The process that has this pid, or alone has this name. Of several with one name those count that are alive.
pub async fn process(kernel: &mut KernelClient, what: &str) -> Result<Pid, CommandError> {
    let all = kernel.call::<ProcList>(&Nothing {}).await?.processes;
    find(&all, what)
}

fn find(all: &[ProcView], what: &str) -> Result<Pid, CommandError> {
    if let Some(process) = what.parse::<Pid>().ok().and_then(|pid| all.iter().find(|process| process.pid == pid)) {
        return Ok(process.pid);
    }
    let named: Vec<&ProcView> = all.iter().filter(|process| process.name == what).collect();
    let alive: Vec<&ProcView> = named.iter().copied().filter(|process| is_alive(process)).collect();
    match (&alive[..], &named[..]) {
        ([one], _) | ([], [one]) => Ok(one.pid),
        ([], []) => Err(CommandError::new(ErrorCode::NotFound, format!("there is no process `{what}`"))
            .why("no process has this name or number")
            .fix("name one of `skep ps`, by its name or its pid")),
        _ => {
            let pids: Vec<String> = named.iter().map(|process| process.pid.to_string()).collect();
            Err(CommandError::new(ErrorCode::BadInput, format!("several processes are called `{what}`"))
                .why(format!("they have the pids {}", pids.join(", ")))
                .fix("name one by its pid"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::process::tests::process;

    #[test]
    fn a_name_means_the_one_that_is_alive() {
        let all = [
            process(3, Some(1), "queen", ProcessState::Dead),
            process(4, Some(1), "queen", ProcessState::Idle),
            process(5, Some(4), "twin", ProcessState::Idle),
            process(6, Some(4), "twin", ProcessState::Running),
            process(7, Some(4), "gone", ProcessState::Zombie),
        ];
        assert_eq!(find(&all, "queen"), Ok(Pid(4)));
        assert_eq!(find(&all, "gone"), Ok(Pid(7)), "one that ended can still be waited for");
        assert_eq!((find(&all, "7"), find(&all, "p3")), (Ok(Pid(7)), Ok(Pid(3))));
        assert_eq!(find(&all, "9").unwrap_err().code, ErrorCode::NotFound);
        let error = find(&all, "twin").unwrap_err();
        assert_eq!((error.code, error.why.as_deref()), (ErrorCode::BadInput, Some("they have the pids 5, 6")));
        let error = find(&all, "king").unwrap_err();
        assert!(error.code == ErrorCode::NotFound && error.why.is_some() && error.fix.is_some());
    }
}
