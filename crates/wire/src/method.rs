//! What the methods of the control protocol take and give, one file per noun; [`crate::table`] lists the methods.
//!
//! Parameters refuse unknown keys, so that a misspelt option is an error and not a default; results tolerate
//! them, so that an older client can talk to a newer kernel. Times are milliseconds since 1970 and end in `_ms`.

pub mod artifact;
pub mod brain;
pub mod brain_output;
pub mod call;
pub mod cron;
pub mod discipline;
pub mod escalation;
pub mod grant;
pub mod journal;
pub mod kernel;
pub mod memory;
pub mod merge;
pub mod message;
pub mod model;
pub mod plan;
pub mod policy;
pub mod process;
pub mod program;
pub mod queue;
pub mod review;
pub mod sandbox;
pub mod session;
pub mod skill;
pub mod talk;
pub mod task;
pub mod transcript;
pub mod watch;
pub mod work;
pub mod zone;

use crate::table::MethodId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// A method at compile time: the types that belong to its row of the table.
pub trait Method {
    const ID: MethodId;
    type Params: Serialize + DeserializeOwned;
    type Result: Serialize + DeserializeOwned;
}

/// No parameters, or nothing to say: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_defaults_and_refuse_what_they_do_not_know() {
        assert_eq!(serde_json::from_str::<journal::RecordFilter>("{}").unwrap(), journal::RecordFilter::default());
        assert!(serde_json::from_str::<journal::RecordFilter>(r#"{"limt":3}"#).is_err());
        assert!(serde_json::from_str::<Nothing>(r#"{"x":3}"#).is_err());
        let add: task::TaskAddParams = serde_json::from_str(r#"{"path":"/p","mode":"act","prompt":"do it"}"#).unwrap();
        assert_eq!((add.brain, add.priority, add.calls_max), (None, None, None));
        assert_eq!(serde_json::to_string(&journal::RecordFilter::default()).unwrap(), "{}");
    }
}
