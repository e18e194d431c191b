//! Questions to a person are state, not held futures: they outlive callers and kernels. A yes is a grant, a lasting no a ban.

use crate::{Kernel, Ledger};
use serde_json::Value;
use world::event::{BanGiven, BanLifted, GrantGiven, GrantRevoked, ProcResumed, ReviewAnswered, TokenRevoked};
use world::{
    Alternative, Answer, BanId, Code, Event, GrantId, ProcessState, Refusal, Review, ReviewId, ReviewState, Scope, Terms, TokenId, What,
    World, limits,
};
use world::{Fault, FaultKind, Stop};

/// What a person says to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Yes to exactly this call, under these terms.
    Once {
        terms: Terms,
    },
    /// Yes to calls like this one.
    Wide {
        scope: Scope,
        what: Option<What>,
        terms: Terms,
    },
    No {
        alternative: Option<Alternative>,
    },
    /// No, now and later.
    Never {
        scope: Scope,
        what: Option<What>,
        alternative: Option<Alternative>,
    },
}

impl Reply {
    pub fn yes() -> Reply {
        Reply::Once { terms: Terms::default() }
    }

    pub fn no() -> Reply {
        Reply::No { alternative: None }
    }
}

/// All that a yes would cover.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The exact input; as it is on record where that is all there is.
    pub input: Value,
    /// What a yes would change, where that can be told.
    pub diff: Option<String>,
    /// The record shows less than a yes covers.
    pub is_cut: bool,
    /// What the record leaves out is gone, or was never text: nobody can show it here.
    pub is_lost: bool,
    /// What a yes must repeat where the question is cut, to say that its whole was seen.
    pub seen: String,
}

/// Characters of the digest that an answer repeats.
const SEEN_CHARS: usize = 8;

impl Ledger {
    /// Deletes what was kept for questions that nobody will answer any more: those of a task, or all.
    pub(crate) fn forget_questions(&self, task: Option<world::TaskId>) -> Result<(), Fault> {
        let over: Vec<ReviewId> = self.look(|world| {
            let reviews = world.reviews.values().filter(|review| review.whole.is_some() && review.state != ReviewState::Open);
            reviews.filter(|review| task.is_none() || review.task == task).map(|review| review.id).collect()
        });
        over.into_iter().try_for_each(|id| self.forget_question(id))
    }

    fn forget_question(&self, id: ReviewId) -> Result<(), Fault> {
        self.unconfide(id)
    }

    /// A grant or ban is matched by what it says, so nothing of it can be taken out; then it is not given.
    fn holds_no_secret(&self, id: ReviewId, reply: &Reply) -> Result<(), Stop> {
        let like = self.look(|world| world.reviews.get(&id).map(|review| review.like.clone()));
        let said = match reply {
            Reply::Once { terms } => serde_json::to_value(terms),
            Reply::Wide { what, terms, .. } => serde_json::to_value((what.as_ref().or(like.as_ref()), terms)),
            Reply::Never { what, .. } => serde_json::to_value(what.as_ref().or(like.as_ref())),
            Reply::No { .. } => return Ok(()),
        };
        let said = said.map_err(|error| Fault::new(FaultKind::Bug, "an answer cannot be written", error))?;
        let mut clean = said.clone();
        self.redactor.strings(&mut clean);
        if clean == said && !said.to_string().contains(journal::REDACTED) {
            return Ok(());
        }
        Err(Refusal::new(Code::BadInput, "the answer would keep a secret in the journal")
            .hint("answer for this call alone, without `--set` of a secret")
            .into())
    }

    pub fn review(&self, id: ReviewId) -> Result<Review, Stop> {
        self.look(|world| world.reviews.get(&id).cloned()).ok_or_else(|| unknown(id).into())
    }

    /// Takes a grant back: the next call that would have used it asks again.
    pub async fn revoke_grant(&self, grant: GrantId, by: &str) -> Result<(), Stop> {
        self.take_back(format!("grant `{grant}`"), |world| {
            let held = world.grants.get(&grant)?;
            Some(GrantRevoked { pid: held.pid, task: held.task, grant, by: by.to_owned() }.into())
        })
        .await
    }

    pub async fn lift_ban(&self, ban: BanId, by: &str) -> Result<(), Stop> {
        self.take_back(format!("ban `{ban}`"), |world| {
            Some(BanLifted { pid: world.bans.get(&ban)?.pid, task: None, ban, by: by.to_owned() }.into())
        })
        .await
    }

    pub async fn revoke_token(&self, token: TokenId, by: &str) -> Result<(), Stop> {
        self.take_back(format!("token `{token}`"), |world| {
            Some(TokenRevoked { pid: world.tokens.get(&token)?.pid, task: None, token, by: by.to_owned() }.into())
        })
        .await
    }

    async fn take_back(&self, what: String, event: impl FnOnce(&World) -> Option<Event>) -> Result<(), Stop> {
        let pending = self.commit(|world, _| match event(world) {
            Some(event) => (vec![event], true),
            None => (Vec::new(), false),
        })?;
        match pending.durable().await? {
            true => Ok(()),
            false => Err(Refusal::new(Code::NotFound, format!("there is no {what}")).hint("`skep grant list` shows what is given").into()),
        }
    }
}

impl Kernel {
    /// A question as far as it can be shown at all. The exact input is kept until there is an answer.
    pub async fn question(&self, review: &Review) -> Result<Question, Stop> {
        let code = |digest: &str| digest.get(..SEEN_CHARS).unwrap_or(digest).to_owned();
        if review.tool == crate::MERGE {
            let files = match review.task {
                Some(task) => self.diff(task).await?.files,
                None => Vec::new(),
            };
            let unshown = files.iter().any(|file| !file.is_whole && file.refused.is_none());
            let diff = files.iter().map(|file| file.in_question()).collect();
            let (input, seen) = (review.input.clone(), code(&review.bind));
            return Ok(Question { input, diff: Some(diff), is_cut: unshown, is_lost: unshown, seen });
        }
        let open = review.state == ReviewState::Open;
        let (input, is_lost) = match &review.whole {
            Some(_) if open => {
                match workspace::aside(|| self.ledger.journal().vault().get(&review.id.to_string())).map_err(crate::ledger::fault)? {
                    Some(bytes) => {
                        let read = serde_json::from_slice(&bytes);
                        (read.map_err(|error| Fault::new(FaultKind::Bug, "a kept input cannot be read", error))?, false)
                    }
                    None => (review.input.clone(), true),
                }
            }
            whole => (review.input.clone(), whole.is_some() || was_shortened(&review.input)),
        };
        let is_cut = review.whole.is_some() || is_lost;
        let diff = if open && !is_lost { self.review_diff(review, &input).await } else { None };
        Ok(Question { diff, is_cut, is_lost, seen: code(review.whole.as_ref().unwrap_or(&review.bind)), input })
    }

    /// Answers for a person who was shown the question: a yes to one that its record cuts short names what its whole was shown with.
    pub async fn answer_shown(
        &self,
        id: ReviewId,
        reply: Reply,
        by: &str,
        reason: Option<String>,
        seen: Option<&str>,
    ) -> Result<Review, Stop> {
        if matches!(reply, Reply::Once { .. } | Reply::Wide { .. }) {
            let question = self.question(&self.ledger.review(id)?).await?;
            if question.is_cut && seen != Some(question.seen.as_str()) {
                return Err(Refusal::new(Code::WrongState, format!("{id} was not shown whole, and a yes covers all of it"))
                    .hint(format!("`skep review show {id} --full` shows it and says how to answer"))
                    .into());
            }
        }
        self.answer(id, reply, by, reason).await
    }

    /// Answers a question. One answer counts, however many reviewers watch.
    pub async fn answer(&self, id: ReviewId, reply: Reply, by: &str, reason: Option<String>) -> Result<Review, Stop> {
        self.ledger.holds_no_secret(id, &reply)?;
        let pending = self.ledger.commit(|world, _| match answerable(world, id, &reply) {
            Ok(review) => (answered(world, review, reply, by, reason), Ok(())),
            Err(refusal) => (Vec::new(), Err(refusal)),
        })?;
        pending.durable().await??;
        self.ledger.forget_question(id)?;
        self.tasks.wake();
        self.ledger.review(id)
    }
}

/// A record of an earlier version says only in its text that it is not all.
fn was_shortened(input: &Value) -> bool {
    match input {
        Value::String(text) => text.len() > crate::call::KEPT_CHARS && text.ends_with(" bytes in all]"),
        Value::Array(items) => items.iter().any(was_shortened),
        Value::Object(fields) => fields.values().any(was_shortened),
        _ => false,
    }
}

fn unknown(id: ReviewId) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no review `{id}`")).hint("`skep review list --all` shows them")
}

fn answerable<'a>(world: &'a World, id: ReviewId, reply: &Reply) -> Result<&'a Review, Refusal> {
    let review = world.reviews.get(&id).ok_or_else(|| unknown(id))?;
    let what = match reply {
        Reply::Wide { what, .. } | Reply::Never { what, .. } => what.as_ref(),
        Reply::Once { .. } | Reply::No { .. } => None,
    };
    if what.is_some_and(|what| what.tool() != review.tool) {
        return Err(Refusal::new(Code::BadInput, format!("{id} asks about `{}`, and an answer is about the same", review.tool)));
    }
    if review.tool == crate::MERGE && !matches!(reply, Reply::Once { .. } | Reply::No { .. }) {
        let hint = "a rule that lets merges pass goes into .skep/policy.yaml";
        return Err(Refusal::new(Code::BadInput, "a merge is answered one at a time").hint(hint));
    }
    let sets = matches!(reply, Reply::Once { terms } if terms.constraints.as_ref().is_some_and(|terms| !terms.input_overrides.is_empty()));
    if review.tool == crate::MERGE && sets {
        let hint = "answer without --set, or refuse it and say what should be different";
        return Err(Refusal::new(Code::BadInput, "a merge takes no input from an answer").hint(hint));
    }
    match &review.state {
        ReviewState::Open => Ok(review),
        ReviewState::Answered { by, .. } => Err(Refusal::new(Code::WrongState, format!("{id} was answered by {by}"))),
        ReviewState::Void => Err(Refusal::new(Code::WrongState, format!("{id} is void: its task has ended"))),
    }
}

fn answered(world: &World, review: &Review, reply: Reply, by: &str, reason: Option<String>) -> Vec<Event> {
    let (pid, task, id, by) = (review.pid, review.task, review.id, by.to_owned());
    let said = |answer, alternative| ReviewAnswered { pid, task, review: id, answer, by: by.clone(), reason: reason.clone(), alternative };
    let given =
        |scope, what, terms| GrantGiven { pid, task, grant: world.next_grant(), scope, what, terms, review: Some(id), by: by.clone() };
    let mut events: Vec<Event> = match reply {
        Reply::Once { terms } => {
            let what = What::Exact { tool: review.tool.clone(), bind: review.bind.clone() };
            let terms = Terms { uses_left: Some(1), ..terms };
            vec![said(Answer::Allow, None).into(), given(Scope::Process { pid }, what, terms).into()]
        }
        Reply::Wide { scope, what, terms } => {
            vec![said(Answer::Allow, None).into(), given(scope, what.unwrap_or_else(|| review.like.clone()), terms).into()]
        }
        Reply::No { alternative } => vec![said(Answer::Deny, alternative).into()],
        Reply::Never { scope, what, alternative } => {
            let what = what.unwrap_or_else(|| review.like.clone().wherever());
            let reason = reason.clone().unwrap_or_else(|| format!("refused for good in {id}"));
            let (alternative, ban) = (alternative.clone(), world.next_ban());
            let banned =
                BanGiven { pid, task, ban, scope, what, reason, alternative: alternative.clone(), review: Some(id), by: by.clone() };
            vec![said(Answer::Deny, alternative).into(), banned.into()]
        }
    };
    // A process that paused over too many questions goes on once they are fewer.
    let paused = world.processes.get(&pid).is_some_and(|process| process.state == ProcessState::Paused);
    if paused && world.open_reviews(pid) <= limits::REVIEWS_OPEN_MAX {
        events.push(ProcResumed { pid, task: None, by }.into());
    }
    events
}
