//! Every method of the control protocol: its name, what it takes and what it answers.
//!
//! One file per noun. Parameters refuse unknown keys, so that a misspelt option is an error and not a default; results tolerate
//! them, so that an older client can talk to a newer kernel. Times are milliseconds since 1970 and end in `_ms`.

pub mod call;
pub mod grant;
pub mod journal;
pub mod kernel;
pub mod merge;
pub mod model;
pub mod policy;
pub mod process;
pub mod review;
pub mod sandbox;
pub mod task;
pub mod zone;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

pub trait Method {
    const NAME: &'static str;
    /// How long a client waits for the answer; `None` for what takes as long as the work takes.
    const WAIT_MS_MAX: Option<u64> = Some(30_000);
    type Params: Serialize + DeserializeOwned;
    type Result: Serialize + DeserializeOwned;
}

/// No parameters, or nothing to say: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $wire:literal ($params:ty) -> $result:ty $(, wait $wait:expr)?;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl $crate::method::Method for $name {
            const NAME: &'static str = $wire;
            $(const WAIT_MS_MAX: Option<u64> = $wait;)?
            type Params = $params;
            type Result = $result;
        }
    )*};
}
pub(crate) use methods;

/// Every method's name, for the server's table and for tests.
pub const NAMES: &[&str] = &[
    kernel::Status::NAME,
    kernel::Stop::NAME,
    kernel::Doctor::NAME,
    zone::Init::NAME,
    zone::Trust::NAME,
    zone::Status::NAME,
    process::List::NAME,
    task::Add::NAME,
    task::List::NAME,
    task::Show::NAME,
    task::Await::NAME,
    task::Cancel::NAME,
    task::Diff::NAME,
    task::Merge::NAME,
    task::Reject::NAME,
    task::Replay::NAME,
    task::Try::NAME,
    merge::List::NAME,
    merge::Undo::NAME,
    call::ToolList::NAME,
    call::Run::NAME,
    review::List::NAME,
    review::Show::NAME,
    review::Answer::NAME,
    grant::List::NAME,
    grant::Revoke::NAME,
    grant::Issue::NAME,
    policy::Check::NAME,
    policy::Explain::NAME,
    policy::Trial::NAME,
    policy::Log::NAME,
    policy::Suggest::NAME,
    model::Open::NAME,
    model::Cassettes::NAME,
    model::Usage::NAME,
    model::Budgets::NAME,
    model::Set::NAME,
    model::Grant::NAME,
    sandbox::Templates::NAME,
    sandbox::List::NAME,
    sandbox::Pause::NAME,
    sandbox::Resume::NAME,
    sandbox::Run::NAME,
    journal::Read::NAME,
    journal::Verify::NAME,
    journal::Doubts::NAME,
    journal::Acknowledge::NAME,
    journal::Forget::NAME,
    journal::Follow::NAME,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_noun_verb() {
        let mut names = NAMES.to_vec();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), NAMES.len());
        assert!(names.iter().all(|name| name.split('.').count() == 2));
    }

    #[test]
    fn parameters_have_defaults_and_refuse_what_they_do_not_know() {
        assert_eq!(serde_json::from_str::<journal::Filter>("{}").unwrap(), journal::Filter::default());
        assert!(serde_json::from_str::<journal::Filter>(r#"{"limt":3}"#).is_err());
        assert!(serde_json::from_str::<Nothing>(r#"{"x":3}"#).is_err());
        let add: task::AddParams = serde_json::from_str(r#"{"path":"/p","mode":"act","prompt":"do it"}"#).unwrap();
        assert_eq!((add.brain, add.priority, add.calls_max), (None, None, None));
        assert_eq!(serde_json::to_string(&journal::Filter::default()).unwrap(), "{}");
    }
}
