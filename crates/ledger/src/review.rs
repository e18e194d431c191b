//! Questions to a person are state, not held futures: they outlive callers and kernels. A yes is a grant, a lasting no a ban.

use crate::Ledger;
use world::event::{BanGiven, BanLifted, GrantGiven, GrantRevoked, ProcResumed, ReviewAnswered, TokenRevoked};
use world::{
    Alternative, Answer, BanId, CallPattern, Code, Event, GrantId, Listing, ProcessState, Refusal, Remedy, Review, ReviewId, ReviewState,
    Scope, ShownContext, Terms, TokenId, World, limits,
};
use world::{Fault, FaultKind, Stop};

/// The call that a merge is; its question is answered for itself alone.
pub const MERGE: &str = "merge.apply";

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
        what: Option<CallPattern>,
        terms: Terms,
    },
    No {
        alternative: Option<Alternative>,
    },
    /// No, now and later.
    Never {
        scope: Scope,
        what: Option<CallPattern>,
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

impl Ledger {
    /// Deletes what was kept for questions that nobody will answer any more: those of a task, or all.
    pub fn forget_questions(&self, task: Option<world::TaskId>) -> Result<(), Fault> {
        let over: Vec<ReviewId> = self.look(|world| {
            let reviews = world.reviews.values().filter(|review| review.whole.is_some() && review.state != ReviewState::Open);
            reviews.filter(|review| task.is_none() || review.task == task).map(|review| review.id).collect()
        });
        over.into_iter().try_for_each(|id| self.forget_question(id))
    }

    fn forget_question(&self, id: ReviewId) -> Result<(), Fault> {
        self.delete_original(id)
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
            .hint("answer for this call alone, and set no input to a secret")
            .into())
    }

    pub fn review(&self, id: ReviewId) -> Result<Review, Stop> {
        self.look(|world| world.reviews.get(&id).cloned()).ok_or_else(|| unknown(id).into())
    }

    /// Answers a question. One answer counts, however many reviewers watch.
    pub async fn answer(&self, id: ReviewId, reply: Reply, by: &str, reason: Option<String>) -> Result<Review, Stop> {
        self.holds_no_secret(id, &reply)?;
        let pending = self.commit(|world, _| match answerable(world, id, &reply) {
            Ok(review) => (answered(world, review, reply, by, reason), Ok(())),
            Err(refusal) => (Vec::new(), Err(refusal)),
        })?;
        pending.durable().await??;
        self.forget_question(id)?;
        self.review(id)
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
            false => Err(Refusal::new(Code::NotFound, format!("there is no {what}"))
                .remedy(world::Remedy::List { what: world::Listing::Grants })
                .into()),
        }
    }
}

fn unknown(id: ReviewId) -> Refusal {
    Refusal::new(Code::NotFound, format!("there is no review `{id}`")).remedy(world::Remedy::List { what: world::Listing::Reviews })
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
    if review.tool == MERGE && !matches!(reply, Reply::Once { .. } | Reply::No { .. }) {
        let hint = "a rule that lets merges pass goes into .skep/policy.yaml";
        return Err(Refusal::new(Code::BadInput, "a merge is answered one at a time").hint(hint));
    }
    let sets = matches!(reply, Reply::Once { terms } if terms.constraints.as_ref().is_some_and(|terms| !terms.input_overrides.is_empty()));
    if review.tool == MERGE && sets {
        let hint = "answer without another input, or refuse it and say what should be different";
        return Err(Refusal::new(Code::BadInput, "a merge takes no input from an answer").hint(hint));
    }
    match &review.state {
        ReviewState::Open => Ok(review),
        ReviewState::Answered { .. } | ReviewState::Void => Err(review_closed(review)),
    }
}

/// Why a question takes no answer any more.
pub fn review_closed(review: &Review) -> Refusal {
    let id = review.id;
    let why = match &review.state {
        ReviewState::Answered { by, .. } => format!("{id} was answered by {by}"),
        ReviewState::Open | ReviewState::Void => format!("{id} is void: its task has ended"),
    };
    let refusal = Refusal::new(Code::WrongState, why).hint("an answer counts once");
    refusal.remedy(review.task.map_or(Remedy::List { what: Listing::Reviews }, |task| Remedy::ShowTask { task }))
}

fn answered(world: &World, review: &Review, reply: Reply, by: &str, reason: Option<String>) -> Vec<Event> {
    let (pid, task, id, by) = (review.pid, review.task, review.id, by.to_owned());
    let said = |answer, alternative| ReviewAnswered { pid, task, review: id, answer, by: by.clone(), reason: reason.clone(), alternative };
    let shown = ShownContext { room: review.room.clone(), rules: review.rules.clone() };
    let given = |scope, what, terms| {
        let (grant, shown) = (world.next_grant(), Some(shown.clone()));
        GrantGiven { pid, task, grant, scope, what, terms, review: Some(id), by: by.clone(), shown }
    };
    let mut events: Vec<Event> = match reply {
        Reply::Once { terms } => {
            let what = CallPattern::Exact { tool: review.tool.clone(), bind: review.bind.clone() };
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
