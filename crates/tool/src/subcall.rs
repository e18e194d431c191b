//! Whom a running tool asks about what its input did not say: where a redirect leads, which files a patch changes.
//!
//! The kernel decides on each as on a call of its own. Knows no policy itself.

use crate::net::Redirect;
use std::pin::Pin;
use world::{Code, Refusal};

/// A file that a tool's patch changes.
#[derive(Debug, Clone, Copy)]
pub struct PatchedFile<'a> {
    /// Relative to the project, normalised.
    pub path: &'a str,
    /// `None` where the file goes away.
    pub content: Option<&'a str>,
}

/// An answer that may take a while.
pub type GateAnswer<'a> = Pin<Box<dyn Future<Output = Result<(), Refusal>> + Send + 'a>>;

/// Decides about what a running call turns out to do.
pub trait SubcallGate: Send + Sync {
    /// May this redirect be followed?
    fn allow_redirect<'a>(&'a self, redirect: Redirect<'a>) -> GateAnswer<'a>;

    /// May this file be changed?
    fn allow_change<'a>(&'a self, change: PatchedFile<'a>) -> GateAnswer<'a>;

    /// Told, not asked: a call met a passing fault and is made again.
    fn retried(&self, attempt: u32, why: &str);
}

/// Nobody to ask: redirects on the same server only, because what was decided for it holds there, and no patch.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoSubcalls;

impl SubcallGate for NoSubcalls {
    fn allow_redirect<'a>(&'a self, redirect: Redirect<'a>) -> GateAnswer<'a> {
        let same = redirect.from.host == redirect.to.host && redirect.from.port == redirect.to.port;
        Box::pin(std::future::ready(if same {
            Ok(())
        } else {
            Err(Refusal::new(Code::Denied, format!("`{}` sends the call on to `{}`", redirect.from.host, redirect.to.host))
                .hint(format!("if that is what you want, ask for {} itself", redirect.to.url())))
        }))
    }

    fn allow_change<'a>(&'a self, change: PatchedFile<'a>) -> GateAnswer<'a> {
        Box::pin(std::future::ready(Err(Refusal::new(Code::Denied, format!("nobody is there to allow a change of `{}`", change.path)))))
    }

    fn retried(&self, _attempt: u32, _why: &str) {}
}
