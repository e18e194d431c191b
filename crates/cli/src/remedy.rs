//! What the operator can do, in the words of the command line: the one place that knows which command a remedy is.

use wire::{AtCap, Budget, Listing, Pid, Remedy, budget::Cap};

/// One text of a hint in words and of what the operator can do.
pub fn fix(hint: Option<&str>, remedy: Option<&Remedy>) -> Option<String> {
    let parts: Vec<String> = hint.map(str::to_owned).into_iter().chain(remedy.and_then(words)).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// A remedy with its exact command; `None` for one of a newer kernel.
fn words(remedy: &Remedy) -> Option<String> {
    Some(match remedy {
        Remedy::TrustProject => "run `skep trust`: it shows the project's own files and asks".to_owned(),
        Remedy::ConfirmPolicy { phrase } => {
            format!("look at `skep policy trial`, then type the phrase `{phrase}` at `skep trust`, or give it with --phrase")
        }
        Remedy::NameRepository => "name a repository from anywhere: `--zone org/repo@branch` (`skep list sites`)".to_owned(),
        Remedy::InitProject => "run `skep init` there".to_owned(),
        Remedy::WriteDefaultPolicy => "`skep init` writes a commented default".to_owned(),
        Remedy::CheckPolicy => "`skep policy check` says more".to_owned(),
        Remedy::ChangeRule { rule } => format!("to allow it, change rule `{rule}`: edit .skep/policy.yaml and run `skep trust`"),
        Remedy::ChangeExtensionRule { name } => {
            format!("to allow it, change the extension rule `{name}` in .skep/rules and run `skep trust`")
        }
        Remedy::ChangeHomePolicy { rule: Some(rule) } => {
            format!(
                "your own policy denies it in every project: change rule `{rule}` in $SKEP_HOME/policy.yaml and run `skep trust --home`"
            )
        }
        Remedy::ChangeHomePolicy { rule: None } => {
            "your own policy allows it in no project: add a rule to $SKEP_HOME/policy.yaml and run `skep trust --home`".to_owned()
        }
        Remedy::TrustHomePolicy => "run `skep trust --home`: it shows $SKEP_HOME/policy.yaml and asks".to_owned(),
        Remedy::AddRule { tool, host } => {
            let host = host.as_ref().map_or_else(String::new, |host| format!(", `host: {host}`"));
            format!("to allow it, add a rule with `syscall: {tool}`{host} and `action: allow`: edit .skep/policy.yaml and run `skep trust`")
        }
        Remedy::EditPolicyFiles => "edit the file yourself and run `skep trust`".to_owned(),
        Remedy::Unmask { pattern } => format!("take `{pattern}` out of `mask` in skep.yml and run `skep trust`, if it is not secret"),
        Remedy::SetTestCommand => "set `test.command` in skep.yml, such as [cargo, test], and run `skep trust`".to_owned(),
        Remedy::RevokeBan { ban } => format!("`skep grant revoke {ban}` takes the ban back"),
        Remedy::RevokeGrant { grant } => format!("`skep grant revoke {grant}`, then answer without --set"),
        Remedy::AnswerReview { review } => format!("`skep review show {review}`, then `skep review allow {review}` or `deny`"),
        Remedy::ShowReview { review } => format!("`skep review show {review} --full` shows it and says how to answer"),
        Remedy::AnswerReviews => "answer them: `skep review`".to_owned(),
        Remedy::GrantBudget { pid, what, missing } => format!("give it more: `{}`", grant_budget(*pid, what, *missing)),
        Remedy::SetBudget { pid } => format!("`skep budget set {pid} …` gives it one"),
        Remedy::RaiseContext { pid, tokens } => format!("raise the cap: `skep budget set {pid} --context {tokens} …`"),
        Remedy::CapTokens { pid, budget } => {
            let set = set_budget(*pid, budget);
            format!("cap its tokens too: `{set}`; or name its price in $SKEP_HOME/prices.yaml")
        }
        Remedy::ActInstead => "give the work to `skep act`".to_owned(),
        Remedy::DescribeTask => {
            "say what to do: `skep act \"fix the typo in README.md\"`, or what to find out: `skep ask \"where are tokens checked?\"`"
                .to_owned()
        }
        Remedy::ShowTask { task } => format!("`skep status` shows where it stands; `skep log {task}` what it did"),
        Remedy::WatchTask { task } => format!("wait for it: `skep watch {task}`"),
        Remedy::RetryTask { task } => format!("have it go on: `skep retry {task}`"),
        Remedy::SayMore { task } => format!("say what else it should do: `skep say {task} \"…\"`"),
        Remedy::CancelTask { task: Some(task) } => format!("`skep cancel {task}` stops a task"),
        Remedy::CancelTask { task: None } => "`skep cancel TASK` stops a task".to_owned(),
        Remedy::ShowChanges { task } => format!("`skep diff {task}` names what it changes"),
        Remedy::ShowLeftOut { task } => format!("`skep diff {task}` says why of each file"),
        Remedy::ShowChangesAgain { task } => format!("run `skep diff {task}` again"),
        Remedy::MergeAgain { task } => format!("run `skep diff {task}` and `skep merge {task}` again"),
        Remedy::ShowConflicts { task } => format!("`skep merge show {task}` lists the conflicts"),
        Remedy::EndWork => "end that work first (`skep reject`, `skep cancel`), or trust another policy".to_owned(),
        Remedy::RecordTask => "`skep act … --record` records one, and `gateway: {record: true}` in config.yml in $SKEP_HOME all".to_owned(),
        Remedy::ReadJournal => "read it with `skep journal log`".to_owned(),
        Remedy::VerifyJournal => "run `skep journal verify` and look at the disk".to_owned(),
        Remedy::List { what } => return list(*what).map(str::to_owned),
        Remedy::RunDoctor => "`skep doctor` says what this host lacks".to_owned(),
        Remedy::UseOtherPort { here, there } => {
            format!("`skep try TASK --port {here}:{there} -- COMMAND` has port {here} of this machine lead there")
        }
        Remedy::NameRole { roles } => {
            let who: Vec<String> = roles.iter().map(|role| format!("--who {role}++")).collect();
            format!("use {}; `skep list skills` shows who knows what", who.join(" or "))
        }
        Remedy::QueueBehind => "leave out --new: `skep act \"…\"` queues it behind what is worked on".to_owned(),
        Remedy::LargerTaskBudget { task: Some(task), micros } if *micros > 0 => {
            format!("give it more: `skep retry {task} --budget {}`", whole_cents(*micros))
        }
        Remedy::LargerTaskBudget { .. } => "give the next task more: `skep act \"…\" --budget 5`".to_owned(),
        Remedy::CommitOnHead => "`skep merge TASK --commit` commits on it".to_owned(),
        Remedy::StopKernel => "`skep kernel stop` stops it".to_owned(),
        Remedy::DelegateCgroups => "systemd-run --user --scope -p Delegate=yes skep kernel start".to_owned(),
        Remedy::OpenLoopback => {
            "write `gateway: {loopback: true}` into config.yml in $SKEP_HOME; `skep kernel status` says if it cannot be used".to_owned()
        }
        Remedy::SetUpModel => "`skep setup` finds keys, model servers and clients, shows what it would write, and asks".to_owned(),
        Remedy::Unknown => return None,
    })
}

fn list(what: Listing) -> Option<&'static str> {
    Some(match what {
        Listing::Tools => "`skep list tools` shows them and what they take",
        Listing::Tasks => "`skep list tasks` shows them",
        Listing::Processes => "`skep ps` lists those that run",
        Listing::Calls => "`skep journal log` names calls, `skep ps` what runs",
        Listing::Reviews => "`skep review list --all` shows them",
        Listing::Grants => "`skep grant list` shows what is given",
        Listing::Budgets => "`skep budget` shows what is capped and what is an estimate",
        Listing::Merges => "`skep merge list` shows what was merged",
        Listing::Rooms => "`skep sandbox ps` lists the sandboxes that are open",
        Listing::Templates => "`skep sandbox templates` lists them",
        Listing::Cassettes => "`skep cassette list` shows them",
        Listing::Doubts => "`skep journal doubts` lists them",
        Listing::Blobs => "`skep journal log --json` shows the blobs that records name",
        Listing::Unknown => return None,
    })
}

/// What lets a waiting request go on: the command alone where that is all of it, so that it can be copied, and words else.
pub fn next_step(remedy: &Remedy) -> String {
    match remedy {
        Remedy::GrantBudget { pid, what, missing } => grant_budget(*pid, what, *missing),
        other => words(other).unwrap_or_else(|| "the kernel is newer than this skep; update it to see what helps".to_owned()),
    }
}

/// Gives a process what a request needs beyond its cap; `what` is a [`Cap`] in words.
pub fn grant_budget(of: Pid, what: &str, missing: u64) -> String {
    // Whole cents, rounded up.
    let dollars = |flag: &str| format!("--{flag} {}.{:02}", missing.div_ceil(10_000) / 100, missing.div_ceil(10_000) % 100);
    let share = match Cap::parse(what) {
        Some(Cap::Tokens(tier)) => format!("--tokens {tier}={missing}"),
        Some(Cap::PerDay(tier)) => format!("--tokens-per-day {tier}={missing}"),
        Some(Cap::PerHour(tier)) => format!("--tokens-per-hour {tier}={missing}"),
        Some(Cap::MoneyPerDay) => dollars("money-per-day"),
        _ => dollars("money"),
    };
    format!("skep budget grant {of} {share}")
}

/// Millionths of a dollar as dollars and whole cents, rounded up.
pub fn whole_cents(micros: u64) -> String {
    let cents = micros.div_ceil(10_000);
    if cents.is_multiple_of(100) { (cents / 100).to_string() } else { format!("{}.{:02}", cents / 100, cents % 100) }
}

/// Gives a process this budget.
fn set_budget(pid: Pid, budget: &Budget) -> String {
    let money = |flag: &str, micros: Option<u64>| {
        let cents = micros.map(|micros| format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000));
        cents.map(|cents| format!("--{flag} {}", cents.trim_end_matches('0').trim_end_matches('.')))
    };
    let money = money("money", budget.micros).into_iter().chain(money("money-per-day", budget.micros_per_day));
    let flags = [("tokens", &budget.tokens), ("tokens-per-day", &budget.tokens_per_day), ("tokens-per-hour", &budget.tokens_per_hour)];
    let tokens = flags.into_iter().flat_map(|(flag, caps)| caps.iter().map(move |(tier, cap)| format!("--{flag} {tier}={cap}")));
    let rate = budget.requests_per_minute.map(|cap| format!("--requests-per-minute {cap}"));
    let context = budget.context.map(|cap| format!("--context {cap}"));
    let ask = (budget.at_cap == AtCap::Ask).then(|| "--ask".to_owned());
    let caps: Vec<String> = money.chain(tokens).chain(rate).chain(context).chain(ask).collect();
    format!("skep budget set {pid} {}", caps.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::documents;

    #[test]
    fn every_remedy_has_a_next_step() {
        let grant = Remedy::GrantBudget { pid: Pid(3), what: "money".into(), missing: 20_000 };
        assert!(next_step(&grant).starts_with("skep budget grant 3 "));
        assert_eq!(next_step(&Remedy::RaiseContext { pid: Pid(3), tokens: 9 }), "raise the cap: `skep budget set 3 --context 9 …`");
        assert!(next_step(&Remedy::Unknown).contains("newer than this skep"));
    }

    #[test]
    fn every_remedy_has_words_and_their_commands_exist() {
        let all = Remedy::examples().into_iter().chain(Listing::ALL.map(|what| Remedy::List { what }));
        for remedy in all.chain([Remedy::CancelTask { task: None }, Remedy::AddRule { tool: "fs.read".into(), host: None }]) {
            let text = words(&remedy).unwrap();
            assert!(documents::seen(&text) > 0 || text.contains("skep kernel start"), "no command in: {text}");
            assert_eq!(documents::mistakes(&text), Vec::<String>::new(), "{text}");
        }
        assert_eq!(documents::mistakes("run `skep trsut`").len(), 1);
        assert_eq!((words(&Remedy::Unknown), words(&Remedy::List { what: Listing::Unknown })), (None, None));
    }

    #[test]
    fn commands_are_told_as_they_are_typed() {
        let grant = |what: &str, missing| next_step(&Remedy::GrantBudget { pid: Pid(3), what: what.to_owned(), missing });
        assert_eq!(grant("tactical tokens", 7), "skep budget grant 3 --tokens tactical=7");
        assert_eq!(grant("tokens", 7), "skep budget grant 3 --tokens all=7");
        assert_eq!(grant("money", 1_990_001), "skep budget grant 3 --money 2.00");
        assert_eq!(grant("tactical tokens a day", 7), "skep budget grant 3 --tokens-per-day tactical=7");
        assert_eq!(grant("tokens an hour", 7), "skep budget grant 3 --tokens-per-hour all=7");
        assert_eq!(grant("money a day", 1_990_001), "skep budget grant 3 --money-per-day 2.00");
        let each_day = [("all".to_owned(), 9)].into();
        let daily = Budget { micros_per_day: Some(5_000_000), tokens_per_day: each_day, ..Budget::default() };
        assert_eq!(set_budget(Pid(1), &daily), "skep budget set 1 --money-per-day 5 --tokens-per-day all=9");
        let budget = Budget { micros: Some(20_500_000), requests_per_minute: Some(900), at_cap: AtCap::Ask, ..Budget::default() };
        assert_eq!(set_budget(Pid(1), &budget), "skep budget set 1 --money 20.5 --requests-per-minute 900 --ask");
    }

    #[test]
    fn a_hint_comes_before_the_command() {
        let fix = |hint, remedy: Option<Remedy>| fix(hint, remedy.as_ref());
        assert_eq!(fix(None, None), None);
        assert_eq!(fix(Some("use it"), Some(Remedy::StopKernel)).unwrap(), "use it; `skep kernel stop` stops it");
        assert_eq!(fix(Some("use it"), Some(Remedy::Unknown)).unwrap(), "use it");
    }
}
