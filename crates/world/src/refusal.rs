//! A refusal: the system works and says no.

use crate::Remedy;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// The closed list of reasons for a no. `wire` maps each to JSON-RPC and exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Policy says no, or nothing says yes.
    Denied,
    /// A person must answer first; the review is open.
    Pending,
    /// A budget, rate or queue is used up.
    Exhausted,
    /// The input does not fit the tool.
    BadInput,
    /// Something named does not exist.
    NotFound,
    /// The thing exists and is in the wrong state for this.
    WrongState,
    /// Over a size or count limit.
    TooLarge,
    /// The project's own policy files wait for the operator's trust.
    Untrusted,
    /// This host cannot do it safely.
    Unsupported,
}

impl Code {
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Denied => "denied",
            Code::Pending => "pending",
            Code::Exhausted => "exhausted",
            Code::BadInput => "bad_input",
            Code::NotFound => "not_found",
            Code::WrongState => "wrong_state",
            Code::TooLarge => "too_large",
            Code::Untrusted => "untrusted",
            Code::Unsupported => "unsupported",
        }
    }
}

/// What a [`Code::NotFound`] is about, where clients tell it apart from other things that are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    Task,
    Zone,
    Worker,
    /// A repository.
    Site,
    Skill,
    /// Which of several roles is meant, all of which know a skill.
    OneRole,
}

/// What a refusal is about, where clients tell it apart from others of its [`Code`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// Somebody has the worker to himself.
    WorkerBusy,
    QueueFull,
    /// A repository has as many workers as it may have.
    WorkersMax,
    /// Nobody pays for the brain's models.
    BrainUnauthenticated,
    /// A brain's conversation is gone.
    SessionExpired,
}

/// A no with its reason and, where there is one, the way to a yes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub code: Code,
    pub reason: String,
    /// What the caller can do differently, in words that hold for every face.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What the operator can do; a face says how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Box<Remedy>>,
    /// The review that waits for an answer, with [`Code::Pending`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<crate::ReviewId>,
    /// What does not exist, with [`Code::NotFound`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// What it is about in particular.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RefusalKind>,
    /// What a caller can act on beside the words: which tool, in which state, what there is instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Value>>,
}

impl Refusal {
    pub fn new(code: Code, reason: impl Into<String>) -> Self {
        Refusal { code, reason: short(reason.into()), hint: None, remedy: None, review: None, missing: None, kind: None, detail: None }
    }

    /// Something of a kind that clients know by its own code does not exist.
    pub fn missing(missing: Missing, reason: impl Into<String>) -> Self {
        Refusal { missing: Some(missing), ..Refusal::new(Code::NotFound, reason) }
    }

    /// It has a code of its own on the wire.
    #[must_use]
    pub fn kind(mut self, kind: RefusalKind) -> Self {
        self.kind = Some(kind);
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(short(hint.into()));
        self
    }

    /// One that quotes too much of what was asked is left out: it is recorded and told, as reasons are.
    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Self {
        let is_short = serde_json::to_string(&remedy).is_ok_and(|text| text.len() <= TEXT_BYTES_MAX);
        self.remedy = is_short.then(|| Box::new(remedy));
        self
    }

    /// The hint and the remedy as one text, for those who cannot type a command.
    pub fn advice(&self) -> Option<String> {
        crate::remedy::advice(self.hint.as_deref(), self.remedy.as_deref())
    }

    #[must_use]
    pub fn detail(mut self, detail: Value) -> Self {
        self.detail = Some(Box::new(detail));
        self
    }

    /// It passes by itself after this time: the same call may be made again as it is.
    #[must_use]
    pub fn passes_after(self, wait: Duration) -> Self {
        self.detail(json!({"is_retryable": true, RETRY_AFTER_MS: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)}))
    }

    /// After which time it has passed; `None` for what does not pass by itself.
    pub fn retry_after(&self) -> Option<Duration> {
        self.detail.as_deref()?.get(RETRY_AFTER_MS)?.as_u64().map(Duration::from_millis)
    }

    /// What a caller is told, as structure: `error`, `reason`, `hint`, whether the same call may be made again as it is, the remedy for
    /// faces that have words of their own for it, and the detail.
    pub fn told(&self) -> Value {
        let mut told = json!({"error": self.code, "reason": self.reason, "is_retryable": false});
        if let Some(fields) = told.as_object_mut() {
            fields.extend(self.advice().map(|advice| ("hint".to_owned(), json!(advice))));
            fields.extend(self.remedy.iter().map(|remedy| ("remedy".to_owned(), json!(remedy))));
            let detail = self.detail.as_deref().and_then(Value::as_object).cloned();
            fields.extend(detail.unwrap_or_default());
        }
        told
    }
}

/// The detail of a refusal that passes by itself.
const RETRY_AFTER_MS: &str = "retry_after_ms";

/// Reasons quote what was asked, and a caller chooses how long that is; they are recorded and told.
const TEXT_BYTES_MAX: usize = 4 * 1024;

/// The beginning and the end of a text that is too long: what is wrong stands behind what was asked.
fn short(text: String) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    let (head, tail) = (text.floor_char_boundary(TEXT_BYTES_MAX / 2), text.ceil_char_boundary(text.len() - TEXT_BYTES_MAX / 2));
    format!("{}[… {} bytes …]{}", &text[..head], tail - head, &text[tail..])
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_never_grows_with_what_was_asked() {
        let refusal = Refusal::new(Code::BadInput, format!("`{}` is too long", "é/".repeat(1_000_000))).hint("x".repeat(5_000));
        assert!(refusal.reason.len() < TEXT_BYTES_MAX + 64 && refusal.hint.is_some_and(|hint| hint.len() < TEXT_BYTES_MAX + 64));
        assert!(refusal.reason.starts_with("`é/é/") && refusal.reason.ends_with("/é/` is too long"), "{}", refusal.reason);
        assert_eq!(Refusal::new(Code::BadInput, "short").reason, "short");
    }

    #[test]
    fn a_remedy_is_told_in_words_and_as_data_and_never_grows_with_what_was_asked() {
        let add = |host: &str| Remedy::AddRule { tool: "net.connect".into(), host: Some(host.into()) };
        let refusal = Refusal::new(Code::Denied, "no rule allows it").hint("stay here").remedy(add("docs.rs"));
        let told = json!({
            "error": "denied", "reason": "no rule allows it", "is_retryable": false,
            "hint": "stay here; only the operator can add a rule with `syscall: net.connect`, `host: docs.rs` and `action: allow` to \
                     .skep/policy.yaml and trust it",
            "remedy": {"do": "add_rule", "tool": "net.connect", "host": "docs.rs"},
        });
        assert_eq!(refusal.told(), told);
        assert_eq!(serde_json::from_str::<Refusal>(&serde_json::to_string(&refusal).unwrap()).unwrap(), refusal);
        assert_eq!(Refusal::new(Code::Denied, "no").remedy(add(&"a".repeat(5_000))).remedy, None);
    }

    #[test]
    fn what_passes_by_itself_says_when_and_may_be_asked_again() {
        let refusal = Refusal::new(Code::Exhausted, "too many").passes_after(Duration::from_secs(2));
        let told = json!({"error": "exhausted", "reason": "too many", "is_retryable": true, "retry_after_ms": 2_000});
        assert_eq!((refusal.told(), refusal.retry_after()), (told, Some(Duration::from_secs(2))));
        assert_eq!(Refusal::new(Code::Exhausted, "used up").retry_after(), None);
    }

    /// A record from before `missing`, and every refusal without it, reads and is written as it was.
    #[test]
    fn what_is_missing_is_written_only_where_it_is_known() {
        let old = r#"{"code":"not_found","reason":"there is no task `task-7`"}"#;
        let refusal: Refusal = serde_json::from_str(old).unwrap();
        assert_eq!((refusal.missing, serde_json::to_string(&refusal).unwrap().as_str()), (None, old));
        let refusal = Refusal::missing(Missing::Task, "there is no task `task-7`");
        let text = serde_json::to_string(&refusal).unwrap();
        assert_eq!(text, r#"{"code":"not_found","reason":"there is no task `task-7`","missing":"task"}"#);
        assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap(), refusal);
    }
}
