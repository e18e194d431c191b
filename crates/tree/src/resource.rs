//! More of what a budget caps, from the account above.
//!
//! What is given is added to what there was, and taken from accounts above that have it: the sum never grows. **Invariant.** A request is given
//! whole or not at all.

use crate::calls::{CallEffect, TreeCall};
use crate::decider::Decision;
use crate::view::unknown;
use crate::{EscalationOrder, Tree};
use gate::TreeRequest;
use serde_json::json;
use world::event::ResourceAsked;
use world::{Cap, CapExceeded, Code, Event, Pid, Refusal, Severity, Stop, World, budget::ALL_TIERS};

/// What came of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceReply {
    pub granted: bool,
    pub amount: u64,
    pub reason: String,
}

impl Tree {
    /// Asks for more of what a budget caps: `tokens`, or a cap by its name.
    pub async fn request(&self, by: Pid, what: &str, amount: u64, why: &str) -> Result<ResourceReply, Stop> {
        if amount == 0 {
            return Err(Refusal::new(Code::BadInput, "nothing was asked for").into());
        }
        if let Some(no) = self.decided_against(by, what, amount, why).await? {
            return Ok(no);
        }
        let input = json!({ "what": what, "amount": amount, "why": why });
        let call = TreeCall { by, tool: "resource.request", input, about: Some(TreeRequest::Own), read_only: false };
        let reply = self
            .commit_call(call, |world, _, now_ms| {
                let cap = cap(world, by, what)?;
                let (events, reply) = asked(world, by, &cap, amount, why, now_ms);
                let output = json!({ "granted": reply.granted, "amount": reply.amount, "reason": reply.reason });
                Ok(CallEffect { events, output, value: reply })
            })
            .await?;
        Ok(reply)
    }

    /// Why the brain of the account above does not let it have what that account could give; a person decides where it decides nothing.
    async fn decided_against(&self, by: Pid, what: &str, amount: u64, why: &str) -> Result<Option<ResourceReply>, Stop> {
        let (of, name) = self.ledger.look(|world| {
            let cap = cap(world, by, what)?;
            let (_, reply) = asked(world, by, &cap, amount, why, world.now_ms);
            let from = world.books.accounts.get(&by).and_then(|account| account.allotted_from.get(&cap.to_string()).copied());
            Ok::<_, Refusal>((from.filter(|_| reply.granted), ledger::name_of(world, by)))
        })?;
        let Some(of) = of else { return Ok(None) };
        let issue = format!("{name} (process {by}) asks for {amount} {what} from the account of process {of}: {why}");
        let no = |reason: String| Some(ResourceReply { granted: false, amount: 0, reason });
        Ok(match self.lets_have(of, &issue).await {
            Decision::ByRule => None,
            Decision::Refused => no(format!("process {of} decided against it")),
            Decision::Open => {
                let context = [("resource".to_owned(), what.to_owned()), ("amount".to_owned(), amount.to_string())].into();
                let raised = self.escalate(by, EscalationOrder { issue, severity: Severity::Warning, context, auto: true }).await?;
                let with = raised.review.map_or_else(|| format!("process {}", raised.with), |review| format!("a person ({review})"));
                no(format!("process {of} decided nothing, and it is with {with} now"))
            }
        })
    }
}

/// The cap that is meant: one that the process has, or one that holds for it from above.
fn cap(world: &World, by: Pid, what: &str) -> Result<Cap, Refusal> {
    let process = world.processes.get(&by).ok_or_else(|| unknown(by))?;
    let tier = process.tree_tier().map(|tier| tier.as_str().to_owned());
    let name = what.trim().to_ascii_lowercase();
    if matches!(name.as_str(), "tokens" | "token" | "tokens_total" | "max_tokens_total") {
        let tokens = [Some(ALL_TIERS.to_owned()), tier].into_iter().flatten().map(Cap::Tokens);
        let own = tokens.clone().find(|cap| world.caps(by).contains_key(&cap.to_string()));
        let above = || tokens.clone().find(|cap| world.free(by, cap, world.now_ms).is_some());
        return Ok(own.or_else(above).unwrap_or_else(|| Cap::Tokens(ALL_TIERS.to_owned())));
    }
    let cap = Cap::parse(&name).filter(|cap| !matches!(cap, Cap::Rate | Cap::Context));
    cap.ok_or_else(|| {
        Refusal::new(Code::BadInput, format!("`{what}` is nothing that one account gives to another")).hint("ask for `tokens` or `money`")
    })
}

fn asked(world: &World, by: Pid, cap: &Cap, amount: u64, why: &str, now_ms: i64) -> (Vec<Event>, ResourceReply) {
    let yes = |reason: String| ResourceReply { granted: true, amount, reason };
    let no = |reason: String| ResourceReply { granted: false, amount: 0, reason };
    let name = cap.to_string();
    let own = world.books.accounts.get(&by).filter(|account| account.allotted_from.contains_key(&name));
    let Some(account) = own else {
        let reply = match world.free(by, cap, now_ms) {
            None => yes(format!("nothing caps its {name}")),
            Some((of, free)) if of == by => no(format!("its {name} are capped by a person, who alone raises that; {free} are left")),
            Some((of, free)) if free >= amount => yes(format!("it has its {name} from the account of process {of}, which has {free} left")),
            Some((of, free)) => no(format!("the account of process {of} has {free} {name} left")),
        };
        return (Vec::new(), reply);
    };
    let of = account.allotted_from.get(&name).copied().unwrap_or(Pid::KERNEL);
    let request = ResourceAsked { pid: by, task: None, of, what: name.clone(), amount, reason: why.to_owned() };
    match world.resource_path(by, cap, amount, now_ms) {
        Ok(steps) => {
            let reply = yes(format!("from the account of process {of}"));
            (std::iter::once(request.into()).chain(steps).collect(), reply)
        }
        Err(CapExceeded { pid, cap: bound, .. }) => {
            (vec![request.into()], no(format!("the account of process {pid} has not enough of its {bound} {name}")))
        }
    }
}
