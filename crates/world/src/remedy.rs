//! What the operator can do about a refusal or a fault.
//!
//! A remedy is data: the kernel says what would help, and each face says it in its own words (`crates/cli/src/remedy.rs` with commands).
//! `Display` is for those who have no command line, such as agents and logs. **Invariant.** No word here names a command of a face.

use crate::budget::ALL_TIERS;
use crate::{BanId, Budget, Cap, GrantId, Pid, ReviewId, TaskId};
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! remedies {
    ($($(#[$doc:meta])* $name:ident $({ $($(#[$about:meta])* $field:ident: $type:ty = $example:expr),+ })?;)*) => {
        /// What the operator can do, with what a face needs in order to say how. Stored and sent as `{"do": "revoke_ban", "ban": "b-1"}`.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "do", rename_all = "snake_case")]
        pub enum Remedy {
            $($(#[$doc])* $name $({ $($(#[$about])* $field: $type),+ })?,)*
            /// One that a newer version knows.
            #[serde(other)]
            Unknown,
        }

        impl Remedy {
            /// One of each, for the tests of faces.
            pub fn examples() -> Vec<Remedy> {
                vec![$(Remedy::$name $({ $($field: $example),+ })?),*]
            }
        }
    };
}

remedies! {
    /// Look at the project's own files, and put them in force.
    TrustProject;
    /// Type the phrase that confirms a policy with many breaking changes.
    ConfirmPolicy { phrase: String = "deny 12 calls".to_owned() };
    /// Make a zone of the folder that the reason names.
    InitProject;
    /// Say which repository is meant, from wherever one is.
    NameRepository;
    /// Have a commented default policy written.
    WriteDefaultPolicy;
    /// Have all problems of the policy file listed.
    CheckPolicy;
    /// Change the rule that denies it.
    ChangeRule { rule: String = "protect-src".to_owned() };
    /// Change the extension rule that denies it.
    ChangeExtensionRule { name: String = "not-today".to_owned() };
    /// Change what the operator's own policy says in every project: a rule of it, or that none of it allows the call.
    ChangeHomePolicy { rule: Option<String> = Some("no-cloud".to_owned()) };
    /// Look at the operator's own policy file, and put it in force.
    TrustHomePolicy;
    /// Add a rule that allows the call.
    AddRule { tool: String = "net.connect".to_owned(), host: Option<String> = Some("docs.rs".to_owned()) };
    /// Edit skep.yml or the files in .skep by hand.
    EditPolicyFiles;
    /// Take a pattern out of `mask` in skep.yml.
    Unmask { pattern: String = "secrets/".to_owned() };
    /// Say in skep.yml what tests the project.
    SetTestCommand;
    /// Take a ban back.
    RevokeBan { ban: BanId = BanId(1) };
    /// Take back a grant that demands another input, and answer without that demand.
    RevokeGrant { grant: GrantId = GrantId(1) };
    /// Answer the review that waits.
    AnswerReview { review: ReviewId = ReviewId(1) };
    /// Look at a review whole before the yes.
    ShowReview { review: ReviewId = ReviewId(1) };
    /// Answer the reviews that wait.
    AnswerReviews;
    /// Give a process more of what its budget caps.
    GrantBudget {
        pid: Pid = Pid(3),
        /// A [`Cap`] in words.
        what: String = "tactical tokens".to_owned(),
        /// Tokens, or millionths of a dollar.
        missing: u64 = 1200
    };
    /// Give a process a budget.
    SetBudget { pid: Pid = Pid(3) };
    /// Let a process send more input in one request.
    RaiseContext { pid: Pid = Pid(3), tokens: u64 = 9000 };
    /// Cap tokens beside money, or say what the model costs.
    CapTokens {
        pid: Pid = Pid(3),
        /// The budget that the process has now, with such a cap.
        budget: Budget = Budget { micros: Some(20_500_000), tokens: [("all".to_owned(), 2000)].into(), ..Budget::default() }
    };
    /// Give the work to a task that may write.
    ActInstead;
    /// Say what a task is to do.
    DescribeTask;
    /// Look at where a task stands and at what it did.
    ShowTask { task: TaskId = TaskId(1) };
    /// Wait for a task to end.
    WatchTask { task: TaskId = TaskId(1) };
    /// Have a task go on that stopped.
    RetryTask { task: TaskId = TaskId(1) };
    /// Say something more to a task.
    SayMore { task: TaskId = TaskId(1) };
    /// End a task.
    CancelTask { task: Option<TaskId> = Some(TaskId(1)) };
    /// Look at what a task changes.
    ShowChanges { task: TaskId = TaskId(1) };
    /// Look at why files of a task are left out.
    ShowLeftOut { task: TaskId = TaskId(1) };
    /// Look at the changes again: they are others now.
    ShowChangesAgain { task: TaskId = TaskId(1) };
    /// Look at the changes again, and merge them.
    MergeAgain { task: TaskId = TaskId(1) };
    /// Look at the conflicts of a merge.
    ShowConflicts { task: TaskId = TaskId(1) };
    /// End the work that still needs something, or trust another policy.
    EndWork;
    /// Record the traffic of a task.
    RecordTask;
    /// Read the journal.
    ReadJournal;
    /// Verify the journal.
    VerifyJournal;
    /// Look at what there is.
    List { what: Listing = Listing::Tools };
    /// See what this host lacks.
    RunDoctor;
    /// Have another port of this machine lead to the same one of a room.
    UseOtherPort { here: u16 = 8081, there: u16 = 8080 };
    /// Give the work to the worker that has some already.
    QueueBehind;
    /// Say which of the roles that know a skill is to use it.
    NameRole { roles: Vec<String> = vec!["reviewer".to_owned(), "mechanic".to_owned()] };
    /// Give a task a larger budget of its own.
    LargerTaskBudget {
        #[serde(default)]
        task: Option<TaskId> = Some(TaskId(1)),
        /// Millionths of a dollar that hold what it used, the request that was refused and another like it; 0 where it is not known.
        #[serde(default)]
        micros: u64 = 9_820_000
    };
    /// Commit a merge on the branch that is checked out.
    CommitOnHead;
    /// Let the kernel end.
    StopKernel;
    /// Start the kernel where it may make cgroups.
    DelegateCgroups;
    /// Open the gateway to programs outside rooms.
    OpenLoopback;
    /// Say which models there are, and where their keys are.
    SetUpModel;
}

/// What can be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listing {
    Tools,
    Tasks,
    Processes,
    /// Calls that were made, and what runs.
    Calls,
    Reviews,
    /// Grants, bans and tokens.
    Grants,
    Budgets,
    Merges,
    Rooms,
    Templates,
    Cassettes,
    Doubts,
    /// The blobs that records name.
    Blobs,
    /// One that a newer version knows.
    #[serde(other)]
    Unknown,
}

impl Listing {
    pub const ALL: [Listing; 13] = [
        Listing::Tools,
        Listing::Tasks,
        Listing::Processes,
        Listing::Calls,
        Listing::Reviews,
        Listing::Grants,
        Listing::Budgets,
        Listing::Merges,
        Listing::Rooms,
        Listing::Templates,
        Listing::Cassettes,
        Listing::Doubts,
        Listing::Blobs,
    ];

    fn noun(self) -> &'static str {
        match self {
            Listing::Tools => "tools and what they take",
            Listing::Tasks => "tasks",
            Listing::Processes => "processes",
            Listing::Calls => "calls and what runs",
            Listing::Reviews => "reviews",
            Listing::Grants => "grants, bans and tokens",
            Listing::Budgets => "budgets",
            Listing::Merges => "merges",
            Listing::Rooms => "open sandboxes",
            Listing::Templates => "templates",
            Listing::Cassettes => "cassettes",
            Listing::Doubts => "doubts about the journal",
            Listing::Blobs => "blobs that records name",
            Listing::Unknown => "things there are",
        }
    }
}

/// How much of a cap, as people say it: `1200 more tactical tokens`, `$0.05 more`.
fn amount(what: &str, missing: u64) -> String {
    match Cap::parse(what) {
        Some(Cap::Money | Cap::MoneyPerDay) => {
            let cents = missing.div_ceil(10_000);
            format!("${}.{:02} more", cents / 100, cents % 100)
        }
        _ => format!("{missing} more {what}"),
    }
}

/// For those who cannot type a command: what the operator can do.
impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::TrustProject => f.write_str("the operator must look at the project's own files and trust them"),
            Remedy::ConfirmPolicy { phrase } => write!(f, "the operator must confirm it with the phrase `{phrase}`"),
            Remedy::NameRepository => f.write_str("the operator can name a repository and a branch"),
            Remedy::InitProject => f.write_str("the operator can set that folder up"),
            Remedy::WriteDefaultPolicy => f.write_str("the operator can have a commented default written"),
            Remedy::CheckPolicy => f.write_str("the operator can have the policy checked, which says more"),
            Remedy::ChangeRule { rule } => write!(f, "only the operator can change rule `{rule}` in .skep/policy.yaml and trust it"),
            Remedy::ChangeExtensionRule { name } => {
                write!(f, "only the operator can change the extension rule `{name}` in .skep/rules and trust it")
            }
            Remedy::ChangeHomePolicy { rule: Some(rule) } => {
                write!(f, "only the operator can change rule `{rule}` in policy.yaml of $SKEP_HOME and trust it")
            }
            Remedy::ChangeHomePolicy { rule: None } => {
                f.write_str("only the operator can add a rule that allows it to policy.yaml in $SKEP_HOME and trust it")
            }
            Remedy::TrustHomePolicy => f.write_str("the operator must look at policy.yaml in $SKEP_HOME and trust it"),
            Remedy::AddRule { tool, host } => {
                let host = host.as_ref().map_or_else(String::new, |host| format!(", `host: {host}`"));
                write!(
                    f,
                    "only the operator can add a rule with `syscall: {tool}`{host} and `action: allow` to .skep/policy.yaml and trust it"
                )
            }
            Remedy::EditPolicyFiles => f.write_str("only the operator can edit the file and trust it"),
            Remedy::Unmask { pattern } => {
                write!(f, "only the operator can take `{pattern}` out of `mask` in skep.yml and trust it, if it is not secret")
            }
            Remedy::SetTestCommand => f.write_str("the operator can set `test.command` in skep.yml, such as [cargo, test], and trust it"),
            Remedy::RevokeBan { ban } => write!(f, "only the operator can take {ban} back"),
            Remedy::RevokeGrant { grant } => write!(f, "the operator can take {grant} back, and answer without another input"),
            Remedy::AnswerReview { review } => write!(f, "the operator must answer {review}"),
            Remedy::ShowReview { review } => write!(f, "the operator must look at all of {review} first"),
            Remedy::AnswerReviews => f.write_str("the operator must answer the open reviews"),
            Remedy::GrantBudget { pid, what, missing } => write!(f, "the operator can grant {} to process {pid}", amount(what, *missing)),
            Remedy::SetBudget { pid } => write!(f, "the operator can give process {pid} a budget"),
            Remedy::RaiseContext { pid, tokens } => write!(f, "the operator can raise the context of process {pid} to {tokens} tokens"),
            Remedy::CapTokens { pid, budget } => {
                let all = budget.tokens.get(ALL_TIERS).map_or_else(String::new, |all| format!(", such as at {all} of all tiers"));
                write!(f, "the operator can cap the tokens of process {pid} too{all}, or name the model's price in prices.yaml")
            }
            Remedy::ActInstead => f.write_str("it needs a task that may write"),
            Remedy::DescribeTask => f.write_str("say what to do"),
            Remedy::ShowTask { task } => write!(f, "the operator can look at where {task} stands and at what it did"),
            Remedy::WatchTask { task } => write!(f, "wait for {task}"),
            Remedy::RetryTask { task } => write!(f, "have {task} go on"),
            Remedy::SayMore { task } => write!(f, "say something more to {task}"),
            Remedy::CancelTask { task: Some(task) } => write!(f, "the operator can cancel {task}"),
            Remedy::CancelTask { task: None } => f.write_str("the operator can cancel a task"),
            Remedy::ShowChanges { task } => write!(f, "the operator can look at the changes of {task}"),
            Remedy::ShowLeftOut { task } => write!(f, "the changes of {task} say why of each file"),
            Remedy::ShowChangesAgain { task } => write!(f, "look at the changes of {task} again"),
            Remedy::MergeAgain { task } => write!(f, "look at the changes of {task} again, then merge them"),
            Remedy::ShowConflicts { task } => write!(f, "the merge of {task} lists its conflicts"),
            Remedy::EndWork => f.write_str("the operator must end that work first, or trust another policy"),
            Remedy::RecordTask => f.write_str("the operator can have the traffic of a task recorded"),
            Remedy::ReadJournal => f.write_str("the operator can read it"),
            Remedy::VerifyJournal => f.write_str("the operator must verify the journal and look at the disk"),
            Remedy::List { what } => write!(f, "see the list of {}", what.noun()),
            Remedy::RunDoctor => f.write_str("the operator can have the host checked for what it lacks"),
            Remedy::UseOtherPort { there, .. } => write!(f, "the operator can have another port lead to {there}"),
            Remedy::NameRole { roles } => write!(f, "the operator can say which role: {}", roles.join(" or ")),
            Remedy::QueueBehind => f.write_str("the operator can queue it behind what is worked on"),
            Remedy::LargerTaskBudget { .. } => f.write_str("the operator can give the task a larger budget"),
            Remedy::CommitOnHead => f.write_str("the operator can commit on the branch that is checked out"),
            Remedy::StopKernel => f.write_str("the operator can stop the kernel"),
            Remedy::DelegateCgroups => f.write_str("the operator can start the kernel in a scope with delegated cgroups"),
            Remedy::SetUpModel => f.write_str("the operator can set up models and their keys"),
            Remedy::OpenLoopback => f.write_str("the operator can write `gateway: {loopback: true}` into config.yml in $SKEP_HOME"),
            Remedy::Unknown => f.write_str("the operator can help, with a newer version"),
        }
    }
}

/// The words and what the operator can do, as one text for those who cannot type a command.
pub fn advice(hint: Option<&str>, remedy: Option<&Remedy>) -> Option<String> {
    let parts: Vec<String> = hint.map(str::to_owned).into_iter().chain(remedy.map(Remedy::to_string)).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_remedy_survives_being_stored_and_has_words_without_a_command() {
        let examples = Remedy::examples();
        let mut names = BTreeSet::new();
        for remedy in examples.iter().cloned().chain(Listing::ALL.map(|what| Remedy::List { what })) {
            let stored = serde_json::to_value(&remedy).unwrap();
            names.insert(stored["do"].as_str().unwrap().to_owned());
            assert_eq!(serde_json::from_value::<Remedy>(stored).unwrap(), remedy);
            assert!(
                !remedy.to_string().contains("skep ") && !remedy.to_string().contains(" --") && !remedy.to_string().ends_with('.'),
                "{remedy}"
            );
        }
        assert_eq!(names.len(), examples.len());
        let stored = serde_json::to_string(&Remedy::RevokeBan { ban: BanId(1) }).unwrap();
        assert_eq!(stored, r#"{"do":"revoke_ban","ban":"b-1"}"#);
    }

    #[test]
    fn what_a_newer_version_wrote_is_read_as_unknown() {
        let newer = r#"{"do":"ask_the_moon","phase":3}"#;
        assert_eq!(serde_json::from_str::<Remedy>(newer).unwrap(), Remedy::Unknown);
        let newer = r#"{"do":"list","what":"moons"}"#;
        assert_eq!(serde_json::from_str::<Remedy>(newer).unwrap(), Remedy::List { what: Listing::Unknown });
    }

    #[test]
    fn a_share_is_said_as_people_say_it() {
        let grant = |what: &str, missing| Remedy::GrantBudget { pid: Pid(3), what: what.to_owned(), missing }.to_string();
        assert_eq!(grant("tactical tokens", 7), "the operator can grant 7 more tactical tokens to process 3");
        assert_eq!(grant("money", 10_001), "the operator can grant $0.02 more to process 3");
    }

    #[test]
    fn advice_is_words_then_the_operators_part() {
        let remedy = Remedy::AnswerReviews;
        assert_eq!(advice(None, None), None);
        assert_eq!(advice(Some("wait"), None).unwrap(), "wait");
        assert_eq!(advice(Some("wait"), Some(&remedy)).unwrap(), "wait; the operator must answer the open reviews");
    }
}
