//! Trouble that goes up the tree, level by level, until somebody deals with it; from the top it is a question to the person.
//!
//! Each level whose program runs is handed the trouble as a message and answers it: what it accepts is dealt with, what it rejects or passes on goes
//! one up. **Invariant.** Where it is follows from the records, so a restart loses none.

use crate::calls::{CallEffect, TreeCall};
use crate::deliver::HandOverError;
use crate::mailroom::is_pushed;
use crate::send::notice;
use crate::{EscalationOrder, Tree, TreeCaller, TreeFuture, clock};
use gate::{Details, GateDecision, PERSON_ASK, Request, TreeRequest};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use world::event::{EscalationHandled, EscalationPassed, EscalationRaised};
use world::{
    Answer, Code, Escalation, EscalationId, MessageId, MessagePriority, Pid, Process, Recipient, Refusal, ReplyStatus, ReviewId,
    ReviewState, SenderRelation, Stop, TreeMessage, ZoneId, limits,
};

/// The kind of the message that trouble is to the one who hears of it.
const KIND: &str = "escalation";

/// What became of trouble so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EscalationReply {
    pub escalation: EscalationId,
    /// Who dealt with it, or has it now.
    pub with: Pid,
    pub is_handled: bool,
    pub response: String,
    /// The question to the person, when it came to the top.
    pub review: Option<ReviewId>,
}

impl Tree {
    /// Tells those above of trouble. Comes back when one of them has dealt with it, or nobody can at once.
    pub async fn escalate(&self, by: impl Into<TreeCaller>, order: EscalationOrder) -> Result<EscalationReply, Stop> {
        let TreeCaller { pid: by, asked } = by.into();
        check(&order)?;
        if let Some(refusal) = self.ledger.flood_refusal(by) {
            return Err(refusal.into());
        }
        let input = json!({ "issue": order.issue, "severity": order.severity, "auto": order.auto });
        let call = TreeCall { by, tool: "escalation.raise", input, about: Some(TreeRequest::Own), read_only: false };
        let escalation = self
            .commit_asked(call, asked, |world, _, _| {
                let to = world.nearest_live_ancestor(by).ok_or_else(|| Refusal::new(Code::WrongState, "nobody is above the kernel"))?;
                let escalation = world.next_escalation();
                let raised = EscalationRaised {
                    pid: by,
                    task: None,
                    escalation,
                    to,
                    issue: order.issue.clone(),
                    severity: order.severity,
                    context: order.context.clone(),
                    auto: order.auto,
                };
                Ok(CallEffect { events: vec![raised.into()], output: json!({ "escalation": escalation }), value: escalation })
            })
            .await?;
        self.carry_up(escalation).await?;
        self.escalation_reply(escalation)
    }

    /// What is known of it now.
    pub fn escalation_reply(&self, id: EscalationId) -> Result<EscalationReply, Stop> {
        let found = self.ledger.look(|world| world.escalations.get(&id).cloned());
        let Escalation { at, handled, review, .. } = found.ok_or_else(|| missing(id))?;
        Ok(match handled {
            Some(answer) => EscalationReply { escalation: id, with: answer.by, is_handled: true, response: answer.response, review },
            None => EscalationReply { escalation: id, with: at, is_handled: false, response: String::new(), review },
        })
    }

    /// Has it dealt with by whoever has it, or passes it on, as far as that goes without waiting for anybody.
    pub(crate) fn carry_up(&self, id: EscalationId) -> TreeFuture<'_, Result<(), Stop>> {
        Box::pin(self.carry_up_now(id))
    }

    async fn carry_up_now(&self, id: EscalationId) -> Result<(), Stop> {
        loop {
            let open = self.ledger.look(|world| {
                let one = world.escalations.get(&id).filter(|one| one.handled.is_none() && one.review.is_none())?;
                Some((one.clone(), is_pushed(world, &Recipient::Process(one.at)), handler_limit(world.processes.get(&one.at))))
            });
            let Some((escalation, is_up, limit)) = open else { return Ok(()) };
            let at = escalation.at;
            if let Some(response) = self.decided(&escalation).await {
                match self.answer_escalation(at, id, Some(response)).await {
                    Ok(()) => return Ok(()),
                    // A rule has something against it, or somebody dealt with it meanwhile.
                    Err(Stop::Refused(refusal)) => world::log!("skep: what was decided about {id} does not hold: {}", refusal.reason),
                    Err(stop) => return Err(stop),
                }
            }
            if at == Pid::KERNEL {
                return self.ask_about(&escalation).await;
            }
            // The person is asked from the top.
            if at == Pid::OPERATOR {
                self.passed(id, at).await?;
                continue;
            }
            let answer = if is_up { self.tell_of(&escalation, limit).await } else { Err(HandOverError::NotSent("it does not run".into())) };
            match answer {
                Ok((ReplyStatus::Accepted, response)) => {
                    return self.handled(id, at, response.unwrap_or_default()).await;
                }
                // It has it, and says later what it did.
                Ok((ReplyStatus::Queued, _)) => return Ok(()),
                Ok((ReplyStatus::Rejected | ReplyStatus::Escalate | ReplyStatus::Returned, _)) => self.passed(id, at).await?,
                Err(_) if escalation.auto => self.passed(id, at).await?,
                // It waits in the mailbox of the one whose turn it is.
                Err(_) => return self.leave_with(&escalation).await,
            }
        }
    }

    /// Hands it to the agent whose turn it is, as a message that is nowhere but here and in the record of the trouble.
    async fn tell_of(&self, escalation: &Escalation, limit: Duration) -> Result<(ReplyStatus, Option<String>), HandOverError> {
        let from_name = self.ledger.look(|world| world.processes.get(&escalation.from).map(|process| process.name.clone()));
        let body = body(escalation);
        let message = TreeMessage {
            // A number of its own, which no message has: who remembers ids has not seen it.
            id: MessageId(ESCALATION_IDS + escalation.id.0 * 64 + escalation.passed_by.len() as u64),
            from: escalation.from,
            from_name: from_name.unwrap_or_default(),
            from_parent: None,
            from_user: String::new(),
            to: Recipient::Process(escalation.at),
            relation: SenderRelation::Child,
            kind: KIND.to_owned(),
            priority: MessagePriority::High,
            sent_ms: escalation.raised_ms,
            deadline_ms: None,
            requires_ack: true,
            reply_to: Some(escalation.id.to_string()),
            blob: None,
            bytes: body.len() as u64,
            copy_of: None,
            handed: 0,
            holder: None,
            escalated_by: Vec::new(),
        };
        match tokio::time::timeout(limit, self.hand_over(escalation.at, &message, body)).await {
            Ok(answer) => answer,
            Err(_) => Err(HandOverError::NoAnswer("it took too long".into())),
        }
    }

    /// Puts it into the mailbox of one who does not run or did not answer.
    async fn leave_with(&self, escalation: &Escalation) -> Result<(), Stop> {
        let pending = self.ledger.commit(|world, now_ms| match notice(world, escalation.at, KIND, body(escalation), now_ms) {
            Some((sent, arrival)) => (vec![sent.into()], vec![arrival]),
            None => (Vec::new(), Vec::new()),
        })?;
        let arrivals = pending.durable().await?;
        self.announce(&arrivals);
        Ok(())
    }

    async fn passed(&self, id: EscalationId, by: Pid) -> Result<(), Stop> {
        let pending = self.ledger.commit(|world, _| {
            let is_here = world.escalations.get(&id).is_some_and(|one| one.at == by && one.handled.is_none());
            let to = world.nearest_live_ancestor(by).filter(|_| is_here);
            let passed = to.map(|to| EscalationPassed { pid: by, task: None, escalation: id, to: Some(to), review: None }.into());
            (passed.into_iter().collect(), ())
        })?;
        Ok(pending.durable().await?)
    }

    /// Records who dealt with it and how, and tells the one who had the trouble.
    async fn handled(&self, id: EscalationId, by: Pid, response: String) -> Result<(), Stop> {
        let response = cut(response);
        let pending = self.ledger.commit(|world, now_ms| {
            let Some(open) = world.escalations.get(&id).filter(|one| one.handled.is_none()) else { return (Vec::new(), Vec::new()) };
            let handled = EscalationHandled { pid: by, task: None, escalation: id, response: response.clone() };
            let told = json!({ "escalation_id": id, "handled_by": by, "response": response }).to_string().into_bytes();
            let (sent, arrivals) = match notice(world, open.from, "escalation_handled", told, now_ms) {
                Some((sent, arrival)) => (Some(sent.into()), vec![arrival]),
                None => (None, Vec::new()),
            };
            (std::iter::once(handled.into()).chain(sent).collect(), arrivals)
        })?;
        let arrivals = pending.durable().await?;
        self.announce(&arrivals);
        Ok(())
    }

    /// One whose turn it is says what it did, or passes it on with `None`.
    pub async fn answer_escalation(&self, by: Pid, id: EscalationId, response: Option<String>) -> Result<(), Stop> {
        let input = json!({ "escalation": id, "passes": response.is_none() });
        let call = TreeCall { by, tool: "escalation.answer", input, about: Some(TreeRequest::Own), read_only: false };
        self.commit_call(call, |world, _, _| {
            let one = world.escalations.get(&id).filter(|one| one.handled.is_none()).ok_or_else(|| missing(id))?;
            let may_answer = one.at == by || by == Pid::OPERATOR || world.ancestry(one.at).any(|above| above.pid == by);
            if !may_answer || (response.is_none() && one.at != by) {
                return Err(Refusal::new(Code::Denied, format!("{id} is with process {}", one.at)));
            }
            Ok(CallEffect { events: Vec::new(), output: json!({}), value: () })
        })
        .await?;
        match response {
            Some(response) => self.handled(id, by, response).await,
            None => {
                self.passed(id, by).await?;
                self.carry_up(id).await
            }
        }
    }

    /// Asks the person, by the one question that equal trouble merges into.
    async fn ask_about(&self, escalation: &Escalation) -> Result<(), Stop> {
        let who = self.ledger.look(|world| world.processes.get(&escalation.from).map(|process| process.name.clone())).unwrap_or_default();
        let input = json!({
            "question": format!("{who} ({}) needs help: {}", escalation.severity.as_str(), escalation.issue),
            "escalation": escalation.id,
            "context": escalation.context,
        });
        // In the name of the one who has the trouble: who asks too much is paused. Of one who is gone, the operator asks himself.
        let is_alive = self.ledger.look(|world| world.processes.get(&escalation.from).is_some_and(|process| process.state.alive()));
        let asker = if is_alive { escalation.from } else { Pid::OPERATOR };
        let request = Request::new(asker, None, ZoneId::NONE, PERSON_ASK, input);
        for _ in 0..2 {
            let details = Details { tree: Some(TreeRequest::Own), ..Details::of(PERSON_ASK, request.input.clone()) };
            let facts = self.gate.describe_without_files(&request, details).await?;
            match self.gate.admit(&request, &facts).await? {
                None => {}
                Some(GateDecision::Pending { refusal: Refusal { review: Some(review), .. }, .. }) => {
                    return self.asked(escalation.id, review).await;
                }
                Some(GateDecision::Pending { refusal, .. } | GateDecision::Refused { refusal, .. }) => return Err(refusal.into()),
                Some(GateDecision::Admitted { .. }) => {
                    // A rule answers in the person's place.
                    return self.handled(escalation.id, Pid::KERNEL, String::new()).await;
                }
            }
        }
        Err(gate::stale().into())
    }

    async fn asked(&self, id: EscalationId, review: ReviewId) -> Result<(), Stop> {
        let pending = self.ledger.commit(|world, _| {
            let is_open = world.escalations.get(&id).is_some_and(|one| one.handled.is_none() && one.review.is_none());
            let passed = EscalationPassed { pid: Pid::KERNEL, task: None, escalation: id, to: None, review: Some(review) };
            (if is_open { vec![passed.into()] } else { Vec::new() }, ())
        })?;
        Ok(pending.durable().await?)
    }

    /// A person answered questions: trouble that waited for that is dealt with.
    pub(crate) async fn heed_answers(&self) -> Result<(), Stop> {
        let answered = self.ledger.look(|world| {
            let waiting = world.escalations.values().filter(|one| one.handled.is_none());
            let said = |one: &Escalation| match &world.reviews.get(&one.review?)?.state {
                ReviewState::Answered { answer, reason, .. } => {
                    let words = match answer {
                        Answer::Allow => "yes",
                        Answer::Deny | Answer::Changes => "no",
                    };
                    Some((one.id, reason.clone().unwrap_or_else(|| words.to_owned())))
                }
                _ => None,
            };
            waiting.filter_map(said).collect::<Vec<_>>()
        });
        for (id, response) in answered {
            self.handled(id, Pid::OPERATOR, response).await?;
        }
        Ok(())
    }

    /// At boot: what nobody carries further.
    pub(crate) async fn resume_escalations(&self) {
        let open =
            self.ledger.look(|world| world.escalations.values().filter(|one| one.handled.is_none()).map(|one| one.id).collect::<Vec<_>>());
        for id in open {
            if let Err(stop) = self.carry_up(id).await {
                world::log!("skep: {id} goes no further: {stop}");
            }
        }
        if let Err(stop) = self.heed_answers().await {
            world::log!("skep: answers to escalations are not heeded: {stop}");
        }
    }
}

fn body(escalation: &Escalation) -> Vec<u8> {
    let Escalation { id, from, issue, severity, context, raised_ms, passed_by, .. } = escalation;
    let age_ms = clock::now_ms().saturating_sub(*raised_ms);
    let body = json!({
        "escalation_id": id, "from_pid": from, "issue": issue, "severity": severity, "context": context,
        "passed_by": passed_by, "age_ms": age_ms,
    });
    let mut bytes = body.to_string().into_bytes();
    if bytes.len() > limits::MESSAGE_INLINE_MAX {
        // What is too long for a message is on record.
        let context: BTreeMap<String, String> = BTreeMap::new();
        let short: String = issue.chars().take(ISSUE_SHOWN).collect();
        bytes = json!({ "escalation_id": id, "from_pid": from, "issue": short, "severity": severity, "context": context, "is_cut": true })
            .to_string()
            .into_bytes();
    }
    bytes
}

/// Where the numbers begin that trouble has as a message.
const ESCALATION_IDS: u64 = 1 << 52;
/// Characters of an issue that a message shows when it is too long for one.
const ISSUE_SHOWN: usize = 500;

fn handler_limit(process: Option<&Process>) -> Duration {
    let limit = process.and_then(Process::limits).and_then(|limits| limits.timeout_ms);
    Duration::from_millis(limit.unwrap_or(limits::HANDLER_MS_DEFAULT))
}

fn cut(response: String) -> String {
    response.chars().take(limits::LOG_LINE_MAX / 4).collect()
}

fn missing(id: EscalationId) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no open {id}"))
}

fn check(order: &EscalationOrder) -> Result<(), Refusal> {
    if order.issue.trim().is_empty() {
        return Err(Refusal::new(Code::BadInput, "an escalation says what is wrong"));
    }
    let context: usize = order.context.iter().map(|(name, value)| name.len() + value.len()).sum();
    let len = order.issue.len() + context;
    if len > limits::ESCALATION_BYTES_MAX {
        let reason = format!("the issue and its context have {len} bytes, and may have {}", limits::ESCALATION_BYTES_MAX);
        return Err(Refusal::new(Code::TooLarge, reason).hint("store the details as an artifact, and name it"));
    }
    Ok(())
}
