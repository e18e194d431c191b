//! The tools that there are, and the breakers of those that keep failing.

use gate::Request;
use ledger::Clock;
use std::sync::Arc;
use tool::{AddressFilter, BreakerGuard, Breakers, RegisteredTool, Registry, ToolUnavailable};
use world::{Code, Refusal, limits};

pub struct Tools {
    pub registry: Arc<Registry>,
    /// Tools that keep failing are left alone for a while.
    breakers: Breakers,
    /// Which addresses http.request may connect to.
    pub(crate) reach: AddressFilter,
    clock: Clock,
}

impl Tools {
    pub(crate) fn new(registry: Arc<Registry>, reach: AddressFilter, clock: Clock) -> Tools {
        Tools { registry, breakers: Breakers::default(), reach, clock }
    }

    /// The tool a request names, if the input fits it.
    pub(crate) fn find(&self, request: &Request) -> Result<&RegisteredTool, Refusal> {
        let bytes = request.input.to_string().len();
        if bytes > limits::INPUT_BYTES_MAX {
            return Err(Refusal::new(Code::TooLarge, format!("the input has {bytes} bytes; {} are allowed", limits::INPUT_BYTES_MAX))
                .hint("write large content in several calls"));
        }
        let tool = self.registry.find(&request.tool)?;
        tool.check(&request.input)?;
        // Where it can never go, nobody is asked about.
        if let Some(target) = tool.http_target(&request.input)? {
            self.reach.check(&target)?;
        }
        Ok(tool)
    }

    /// Lets a call use a tool that does not rest. A tool that failed too often rests; its caller is told what there is instead.
    pub(crate) fn enter(&self, name: &str) -> Result<BreakerGuard<'_>, Refusal> {
        let now = self.clock.instant();
        self.breakers.enter(name, now).map_err(|refusal| {
            let resting = self.breakers.open(now);
            let names = self.registry.names().into_iter().map(str::to_owned);
            let available_tools = names.filter(|other| other != name && !resting.contains(other)).collect();
            let (tool_name, current_state) = (name.to_owned(), "resting".to_owned());
            Refusal::from(&ToolUnavailable { tool_name, current_state, reason: refusal.reason, available_tools })
        })
    }
}
