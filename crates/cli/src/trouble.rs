//! What a person is told when a command does not do what it was asked: what happened, why, and how to fix it.

use crate::show::{Line, Page};
use serde_json::json;
use std::fmt::Display;
use wire::{ClientError, Code, Refusal};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub code: Code,
    pub what: String,
    pub why: Option<String>,
    pub fix: Option<String>,
}

impl Trouble {
    pub fn new(code: Code, what: impl Into<String>) -> Trouble {
        Trouble { code, what: what.into(), why: None, fix: None }
    }

    #[must_use]
    pub fn why(mut self, why: impl Display) -> Trouble {
        self.why = Some(why.to_string());
        self
    }

    #[must_use]
    pub fn fix(mut self, fix: impl Display) -> Trouble {
        self.fix = Some(fix.to_string());
        self
    }

    /// `what` was refused by the kernel.
    pub fn refused(what: impl Into<String>, refusal: &Refusal) -> Trouble {
        let mut trouble = Trouble::new(Code::from(refusal.code), what).why(&refusal.reason);
        trouble.fix = match (&refusal.hint, refusal.review) {
            (Some(hint), _) => Some(hint.clone()),
            (None, Some(review)) => Some(format!("look at it with `skep review show {review}`")),
            (None, None) => None,
        };
        trouble
    }

    pub fn page(&self) -> Page {
        let mut page = Page::new();
        let mark = if self.code == Code::Pending { Line::new().wait("◍ ") } else { Line::new().bad("✗ ") };
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

impl From<ClientError> for Trouble {
    fn from(error: ClientError) -> Trouble {
        let (what, why) = (error.to_string(), error.why());
        Trouble { code: error.code(), why: why.filter(|why| *why != what), fix: error.fix(), what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::RpcError;

    #[test]
    fn three_lines() {
        let refusal = serde_json::from_value(json!({"code": "denied", "reason": "no rule allows it", "hint": "write inside"})).unwrap();
        let trouble = Trouble::refused("the write to `/etc/passwd` is refused", &refusal);
        let expected = "✗ the write to `/etc/passwd` is refused\n  ↳ why  no rule allows it\n  ↳ fix  write inside\n";
        assert_eq!(trouble.page().render(false, None), expected);
        assert!(trouble.page().render(true, None).starts_with("\x1b[31m✗ \x1b[0mthe write"));
        assert_eq!(trouble.code.exit(), 3);
    }

    #[test]
    fn the_kernels_no_keeps_its_code() {
        let error = RpcError::new(Code::TaskNotFound, "there is no `task-9`").fix("skep list tasks");
        let trouble = Trouble::from(ClientError::from(error));
        assert_eq!((trouble.code.exit(), trouble.why, trouble.fix.as_deref()), (5, None, Some("skep list tasks")));
    }
}
