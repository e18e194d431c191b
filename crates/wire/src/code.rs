//! Error codes: the only place that maps the closed list to JSON-RPC numbers, gRPC statuses and exit codes.
//!
//! [`EXITS`] is the table of exit codes; `skep help exit-codes` prints it.

use serde::{Deserialize, Serialize};
use world::{Missing, Refusal, RefusalKind};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $rpc:literal, $exit:literal;)*) => {
        /// The closed list of error codes, for every surface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum ErrorCode {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl ErrorCode {
            pub const ALL: &'static [ErrorCode] = &[$(ErrorCode::$name),*];

            pub fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$name => $text,)* }
            }

            /// The number in a JSON-RPC error. Seed 000 fixes -32700 to -32600 and -32001 to -32013; ours start at -32020.
            pub fn rpc(self) -> i32 {
                match self { $(ErrorCode::$name => $rpc,)* }
            }

            /// The exit code of a command that ends with it.
            pub fn exit(self) -> u8 {
                match self { $(ErrorCode::$name => $exit,)* }
            }
        }
    };
}

codes! {
    /// The bytes are not JSON.
    Unreadable = "unreadable", -32700, 7;
    /// JSON, and not a request.
    BadRequest = "bad_request", -32600, 7;
    /// No such method: client and kernel are of different versions.
    UnknownMethod = "unknown_method", -32601, 7;
    /// The input does not fit the method or the tool.
    BadInput = "bad_input", -32602, 2;
    /// A fault inside the kernel.
    Internal = "internal", -32603, 7;
    /// Somebody talks with the worker already.
    WorkerBusy = "worker_busy", -32001, 9;
    WorkerNotFound = "worker_not_found", -32002, 5;
    TaskNotFound = "task_not_found", -32003, 5;
    ZoneNotFound = "zone_not_found", -32004, 5;
    /// No repository of this name is registered.
    SiteNotFound = "site_not_found", -32005, 5;
    /// The brain's program is missing or does not start.
    BrainUnavailable = "brain_unavailable", -32006, 12;
    /// Nobody pays for the brain's models: no login, no key.
    BrainUnauthenticated = "brain_not_authenticated", -32007, 5;
    QueueFull = "queue_full", -32008, 8;
    /// A repository has as many workers as it may have.
    WorkersMax = "max_workers_reached", -32009, 8;
    SkillNotFound = "skill_not_found", -32010, 5;
    /// Several roles know the skill.
    SkillAmbiguous = "skill_ambiguous", -32011, 2;
    Timeout = "timeout", -32012, 13;
    /// A brain's conversation is gone.
    SessionExpired = "session_expired", -32013, 9;
    /// Policy says no, or nothing says yes.
    Denied = "denied", -32020, 3;
    /// A person must answer first.
    Pending = "pending", -32021, 4;
    /// A budget or rate is used up.
    Exhausted = "exhausted", -32022, 8;
    /// Something named does not exist.
    NotFound = "not_found", -32023, 5;
    /// The thing exists and is in the wrong state for this.
    WrongState = "wrong_state", -32024, 9;
    /// Over a size or count limit.
    TooLarge = "too_large", -32025, 10;
    /// The project's own policy files wait for the operator's trust.
    Untrusted = "untrusted", -32026, 11;
    /// This host cannot do it safely.
    Unsupported = "unsupported", -32027, 12;
    /// No kernel answers, or it is on its way down.
    Unavailable = "unavailable", -32030, 6;
    DiskFull = "disk_full", -32031, 7;
    /// The operator's own settings cannot be used.
    BadConfig = "bad_config", -32032, 14;
    /// What was tried failed: a brain or a model gave no answer.
    Failed = "failed", -32033, 1;
}

impl ErrorCode {
    /// The number of a gRPC status (`grpc-status`) that says it.
    pub fn grpc(self) -> i32 {
        match self {
            ErrorCode::Unreadable | ErrorCode::BadRequest | ErrorCode::BadInput | ErrorCode::SkillAmbiguous => 3,
            ErrorCode::Timeout => 4,
            ErrorCode::WorkerNotFound
            | ErrorCode::TaskNotFound
            | ErrorCode::ZoneNotFound
            | ErrorCode::SiteNotFound
            | ErrorCode::SkillNotFound
            | ErrorCode::NotFound => 5,
            ErrorCode::Denied => 7,
            ErrorCode::QueueFull | ErrorCode::WorkersMax | ErrorCode::Exhausted | ErrorCode::TooLarge | ErrorCode::DiskFull => 8,
            ErrorCode::WorkerBusy
            | ErrorCode::BrainUnauthenticated
            | ErrorCode::SessionExpired
            | ErrorCode::Pending
            | ErrorCode::WrongState
            | ErrorCode::Untrusted
            | ErrorCode::BadConfig => 9,
            ErrorCode::UnknownMethod | ErrorCode::Unsupported => 12,
            ErrorCode::Internal | ErrorCode::Failed => 13,
            ErrorCode::BrainUnavailable | ErrorCode::Unavailable => 14,
        }
    }
}

/// The work failed though every request was answered.
pub const EXIT_FAILED: u8 = 1;
/// The command line is wrong; clap uses the same.
pub const EXIT_USAGE: u8 = 2;
/// Ended by ctrl-c, as shells count it.
pub const EXIT_INTERRUPTED: u8 = 130;

/// The table of exit codes as people read it.
pub const EXITS: &[(u8, &str)] = &[
    (0, "done"),
    (1, "the work itself failed: a failed task or call, a model without an answer, a finding of `journal verify`, a replay that differs"),
    (2, "the command or its input is wrong"),
    (3, "denied by policy"),
    (4, "a person must answer a review first"),
    (5, "something named does not exist"),
    (6, "no kernel answers"),
    (7, "a fault: the kernel, the disk or the protocol failed"),
    (8, "a budget, rate or queue is used up"),
    (9, "the thing is in the wrong state for this"),
    (10, "over a size or count limit"),
    (11, "the project's own policy files wait for `skep trust`"),
    (12, "this host cannot do it safely, or lacks a program for it"),
    (13, "the time ran out"),
    (14, "`config.yml` in $SKEP_HOME cannot be used"),
    (130, "interrupted with ctrl-c"),
];

impl From<&Refusal> for ErrorCode {
    fn from(refusal: &Refusal) -> ErrorCode {
        match (refusal.missing, refusal.kind) {
            (Some(Missing::Task), _) => ErrorCode::TaskNotFound,
            (Some(Missing::Zone), _) => ErrorCode::ZoneNotFound,
            (Some(Missing::Worker), _) => ErrorCode::WorkerNotFound,
            (Some(Missing::Site), _) => ErrorCode::SiteNotFound,
            (Some(Missing::Skill), _) => ErrorCode::SkillNotFound,
            (Some(Missing::OneRole), _) => ErrorCode::SkillAmbiguous,
            (None, Some(RefusalKind::WorkerBusy)) => ErrorCode::WorkerBusy,
            (None, Some(RefusalKind::QueueFull)) => ErrorCode::QueueFull,
            (None, Some(RefusalKind::WorkersMax)) => ErrorCode::WorkersMax,
            (None, Some(RefusalKind::BrainUnauthenticated)) => ErrorCode::BrainUnauthenticated,
            (None, Some(RefusalKind::SessionExpired)) => ErrorCode::SessionExpired,
            (None, None) => ErrorCode::from(refusal.code),
        }
    }
}

impl From<world::Code> for ErrorCode {
    fn from(code: world::Code) -> ErrorCode {
        match code {
            world::Code::Denied => ErrorCode::Denied,
            world::Code::Pending => ErrorCode::Pending,
            world::Code::Exhausted => ErrorCode::Exhausted,
            world::Code::BadInput => ErrorCode::BadInput,
            world::Code::NotFound => ErrorCode::NotFound,
            world::Code::WrongState => ErrorCode::WrongState,
            world::Code::TooLarge => ErrorCode::TooLarge,
            world::Code::Untrusted => ErrorCode::Untrusted,
            world::Code::Unsupported => ErrorCode::Unsupported,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_and_numbers_are_unique_and_in_their_ranges() {
        let names: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        let numbers: BTreeSet<_> = ErrorCode::ALL.iter().map(|code| code.rpc()).collect();
        assert_eq!(names.len(), ErrorCode::ALL.len());
        assert_eq!(numbers.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            let rpc = code.rpc();
            let fixed = rpc == -32700 || (-32603..=-32600).contains(&rpc) || (-32013..=-32001).contains(&rpc);
            assert!(fixed || (-32099..=-32020).contains(&rpc), "{code:?}");
            assert!((3..=16).contains(&code.grpc()), "{code:?}: an error is neither OK, nor CANCELLED, nor UNKNOWN");
        }
    }

    #[test]
    fn every_exit_code_is_explained_once_and_serde_uses_the_name() {
        let explained: BTreeSet<_> = EXITS.iter().map(|(exit, _)| *exit).collect();
        assert_eq!(explained.len(), EXITS.len());
        for code in ErrorCode::ALL {
            assert!(code.exit() >= EXIT_FAILED && explained.contains(&code.exit()), "{code:?}");
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{}\"", code.as_str()));
        }
        assert!(explained.contains(&EXIT_FAILED) && explained.contains(&EXIT_INTERRUPTED));
    }

    #[test]
    fn what_is_missing_decides_the_code_and_words_do_not() {
        let code = |refusal: &Refusal| ErrorCode::from(refusal);
        assert_eq!(code(&Refusal::missing(Missing::Task, "gone")), ErrorCode::TaskNotFound);
        assert_eq!(code(&Refusal::missing(Missing::Zone, "gone")), ErrorCode::ZoneNotFound);
        assert_eq!(code(&Refusal::new(world::Code::NotFound, "there is no task `task-7`")), ErrorCode::NotFound);
    }

    /// All 18 numbers of seed 000, each of which some refusal or fault has.
    #[test]
    fn the_fixed_numbers_are_all_there() {
        let numbers: BTreeSet<i32> = ErrorCode::ALL.iter().map(|code| code.rpc()).filter(|rpc| *rpc > -32014 || *rpc < -32500).collect();
        let fixed: BTreeSet<i32> = [-32700].into_iter().chain(-32603..=-32600).chain(-32013..=-32001).collect();
        assert_eq!(numbers, fixed);
        let of = |kind| ErrorCode::from(&Refusal::new(world::Code::Exhausted, "no").kind(kind)).rpc();
        assert_eq!((of(RefusalKind::QueueFull), of(RefusalKind::WorkersMax)), (-32008, -32009));
        let missing = |missing| ErrorCode::from(&Refusal::missing(missing, "no")).rpc();
        assert_eq!((missing(Missing::Worker), missing(Missing::Site), missing(Missing::Skill)), (-32002, -32005, -32010));
    }

    #[test]
    fn a_refusal_keeps_its_name() {
        use world::Code::*;
        for code in [Denied, Pending, Exhausted, BadInput, NotFound, WrongState, TooLarge, Untrusted, Unsupported] {
            assert_eq!(ErrorCode::from(code).as_str(), code.as_str());
        }
    }
}
