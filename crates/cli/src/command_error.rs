//! What a person is told when a command does not do what it was asked: what happened, why, and how to fix it.

use crate::remedy;
use crate::show::{Line, Page};
use serde_json::json;
use std::fmt::Display;
use wire::{ClientError, ErrorCode, Refusal, Remedy};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    pub code: ErrorCode,
    pub what: String,
    pub why: Option<String>,
    pub fix: Option<String>,
}

impl CommandError {
    pub fn new(code: ErrorCode, what: impl Into<String>) -> CommandError {
        CommandError { code, what: what.into(), why: None, fix: None }
    }

    #[must_use]
    pub fn why(mut self, why: impl Display) -> CommandError {
        self.why = Some(why.to_string());
        self
    }

    #[must_use]
    pub fn fix(mut self, fix: impl Display) -> CommandError {
        self.fix = Some(fix.to_string());
        self
    }

    /// `what` was refused by the kernel.
    pub fn refused(what: impl Into<String>, refusal: &Refusal) -> CommandError {
        let mut error = CommandError::new(ErrorCode::from(refusal.code), what).why(&refusal.reason);
        let review = || refusal.review.map(|review| format!("look at it with `skep review show {review}`"));
        error.fix = remedy::fix(refusal.hint.as_deref(), refusal.remedy.as_deref()).or_else(review);
        error
    }

    pub fn page(&self) -> Page {
        let mut page = Page::new();
        let mark = if self.code == ErrorCode::Pending { Line::new().wait("◍ ") } else { Line::new().bad("✗ ") };
        let mut lines = self.what.lines();
        page.push(mark.plain(lines.next().unwrap_or_default()));
        lines.for_each(|line| page.push(Line::new().plain("  ").plain(line)));
        if let Some(why) = &self.why {
            page.because("why", why);
        }
        if let Some(fix) = &self.fix {
            page.because("fix", fix);
        }
        page
    }

    pub fn json(&self) -> serde_json::Value {
        json!({"error": {"code": self.code, "what": self.what, "why": self.why, "fix": self.fix}})
    }
}

impl From<ClientError> for CommandError {
    fn from(error: ClientError) -> CommandError {
        let (mut what, why) = (error.to_string(), error.why());
        // Nothing else helps, so it stands where everybody looks.
        if error.remedy() == Some(&Remedy::SetUpModel) && error.fix().is_none() {
            what.push_str(": run `skep setup`");
        }
        CommandError {
            code: error.code(),
            why: why.filter(|why| *why != what),
            fix: remedy::fix(error.fix().as_deref(), error.remedy()),
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::RpcError;

    #[test]
    fn three_lines() {
        let refusal = serde_json::from_value(json!({"code": "denied", "reason": "no rule allows it", "hint": "write inside"})).unwrap();
        let error = CommandError::refused("the write to `/etc/passwd` is refused", &refusal);
        let expected = "✗ the write to `/etc/passwd` is refused\n  ↳ why  no rule allows it\n  ↳ fix  write inside\n";
        assert_eq!(error.page().render(false, None), expected);
        assert!(error.page().render(true, None).starts_with("\x1b[31m✗ \x1b[0mthe write"));
        assert_eq!(error.code.exit(), 3);
    }

    #[test]
    fn the_kernels_no_keeps_its_code() {
        let error = RpcError::new(ErrorCode::TaskNotFound, "there is no `task-9`").fix("skep list tasks");
        let error = CommandError::from(ClientError::from(error));
        assert_eq!((error.code.exit(), error.why, error.fix.as_deref()), (5, None, Some("skep list tasks")));
    }
}
