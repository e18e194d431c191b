//! The policy for people: check, explain, trial, log, suggest.

use crate::rpc_error::rpc_error;
use kernel::{CallRange, HomeProposal, Kernel, Stop};
use policy::{Action, Layer, Warning};
use std::path::Path;
use wire::RpcError;
use wire::method::policy::{
    PolicyChangeView, PolicyCheckParams, PolicyCheckResult, PolicyExplainParams, PolicyExplainResult, PolicyHomeParams, PolicyHomeResult,
    PolicyLogParams, PolicyLogResult, PolicyOutcome, PolicyProblem, PolicySuggestResult, PolicyTrialParams, PolicyTrialResult,
    PolicyVersion, RuleEffect, RuleLayer, RuleStatement, TrialChange,
};

pub(crate) async fn check(kernel: &Kernel, params: PolicyCheckParams) -> Result<PolicyCheckResult, RpcError> {
    let checked = kernel.check_policy(Path::new(&params.path), params.text.as_deref()).await.map_err(rpc_error)?;
    let mut problems = Vec::new();
    if let Some(error) = checked.error {
        problems.push(PolicyProblem {
            error: true,
            file: error.file,
            line: error.line,
            column: error.column,
            what: error.what,
            hint: error.hint,
            remedy: None,
        });
    }
    for warning in checked.warnings {
        let Warning { file, line, column, what, hint, remedy } = warning;
        problems.push(PolicyProblem { error: false, file, line, column, what, hint, remedy });
    }
    for flaw in checked.flaws {
        let (line, column) = flaw.at.unwrap_or((0, 0));
        let file = format!(".skep/rules/{}", flaw.file);
        let (line, column, what) = (line.into(), column.into(), flaw.what);
        problems.push(PolicyProblem { error: true, file, line, column, what, hint: None, remedy: None });
    }
    // What holds in every project is looked at with each of them.
    problems.extend(home_problems(&kernel.gate.policies.home_proposal().map_err(rpc_error)?));
    let ok = problems.iter().all(|problem| !problem.error);
    Ok(PolicyCheckResult { rules: checked.rules as u64, extensions: checked.extensions as u64, problems, ok })
}

/// What is wrong or odd with the operator's own policy file.
fn home_problems(proposal: &HomeProposal) -> Vec<PolicyProblem> {
    let of = |error, file, line, column, what, hint, remedy| PolicyProblem { error, file, line, column, what, hint, remedy };
    match proposal.check() {
        Ok(warnings) => warnings.into_iter().map(|w| of(false, w.file, w.line, w.column, w.what, w.hint, w.remedy)).collect(),
        Err(error) => vec![of(true, error.file, error.line, error.column, error.what, error.hint, None)],
    }
}

/// Shows the operator's own policy file, or puts it in force.
pub(crate) async fn home(kernel: &Kernel, params: PolicyHomeParams) -> Result<PolicyHomeResult, RpcError> {
    let before = kernel.gate.policies.home_proposal().map_err(rpc_error)?;
    let problems = home_problems(&before);
    let HomeProposal { file, hash, diff, version, .. } = match &params.hash {
        None => {
            let trial = match kernel.gate.try_home(&before.text) {
                Ok(trial) => trial,
                // A file with errors cannot be put in force either; the difference is shown all the same.
                Err(Stop::Refused(_)) => policy::Trial::default(),
                Err(stop) => return Err(rpc_error(stop)),
            };
            let (breaking, phrase, changed) = (trial.breaking as u64, trial.phrase(), !before.diff.is_empty());
            let HomeProposal { file, hash, diff, version, .. } = before;
            return Ok(PolicyHomeResult { file, hash, diff, changed, version, problems, breaking, phrase });
        }
        Some(hash) => kernel.gate.trust_home(hash, params.phrase.as_deref()).await.map_err(rpc_error)?,
    };
    Ok(PolicyHomeResult { file, hash, diff, changed: version != before.version, version, problems, breaking: 0, phrase: None })
}

pub(crate) async fn explain(kernel: &Kernel, params: PolicyExplainParams) -> Result<PolicyExplainResult, RpcError> {
    let path = Path::new(&params.path);
    let explained = kernel.explain(path, params.task, &params.tool, params.input, params.candidate).await.map_err(rpc_error)?;
    let voices = explained.weighed.into_iter().flat_map(|weighed| {
        let about = weighed.path.map(|path| path.as_str().to_owned());
        weighed.voices.into_iter().map(move |voice| (about.clone(), voice))
    });
    let mut rules: Vec<RuleStatement> = voices.map(|(about, voice)| statement(about.as_deref(), voice)).collect();
    rules.extend(explained.standing.into_iter().map(|voice| statement(None, voice)));
    let reason = if explained.reasons.is_empty() { format!("by {}", explained.rules.join(", ")) } else { explained.reasons.join("; ") };
    Ok(PolicyExplainResult { outcome: outcome(explained.verdict), reason, hint: explained.hint, remedy: explained.remedy, rules })
}

fn statement(about: Option<&str>, voice: policy::Statement) -> RuleStatement {
    let layer = match voice.layer {
        Layer::Builtin => RuleLayer::Builtin,
        Layer::Home => RuleLayer::Home,
        Layer::Token => RuleLayer::Token,
        Layer::Rule => RuleLayer::Yaml,
        Layer::Extension => RuleLayer::Extension,
        Layer::Grant => RuleLayer::Grant,
        Layer::Budget => RuleLayer::Budget,
    };
    let said = match voice.says {
        None => RuleEffect::Silent,
        Some(Action::Pass) => RuleEffect::Pass,
        Some(Action::Allow) => RuleEffect::Allow,
        Some(Action::RequireReview) => RuleEffect::RequireReview,
        Some(Action::Deny) => RuleEffect::Deny,
    };
    let place = voice.line.map_or_else(String::new, |line| format!(" (line {line})"));
    let why = about.map_or_else(|| voice.why.clone(), |path| format!("{path}: {}", voice.why));
    RuleStatement { layer, rule: format!("{}{place}", voice.name), said, why }
}

fn outcome(verdict: Action) -> PolicyOutcome {
    match verdict {
        Action::Pass => PolicyOutcome::Pass,
        Action::Allow => PolicyOutcome::Allow,
        Action::RequireReview => PolicyOutcome::Review,
        Action::Deny => PolicyOutcome::Deny,
    }
}

pub(crate) async fn trial(kernel: &Kernel, params: &PolicyTrialParams) -> Result<PolicyTrialResult, RpcError> {
    let range = CallRange { last: params.last, after_seq: params.after_seq, before_seq: params.before_seq };
    let trial = kernel.gate.try_policy(Path::new(&params.path), params.text.as_deref(), &range).await.map_err(rpc_error)?;
    let (phrase, rules) = (trial.phrase(), trial.rules.iter().map(rule_change).collect());
    let changes = trial.changes.into_iter().map(|change| TrialChange {
        seq: change.name.parse().unwrap_or(0),
        about: change.paths.join(" "),
        tool: change.tool,
        before: outcome(change.then),
        after: outcome(change.now),
        why: change.reasons.join("; "),
        breaking: change.kind == policy::VerdictChangeKind::Breaking,
    });
    Ok(PolicyTrialResult { tried: trial.cases as u64, breaking: trial.breaking as u64, phrase, rules, changes: changes.collect() })
}

pub(crate) fn rule_change(change: &policy::RuleChange) -> PolicyChangeView {
    use wire::method::policy::{PolicyChangeEffect as Effect, PolicyChangeKind as Kind};
    PolicyChangeView {
        name: change.name.clone(),
        kind: match change.kind {
            policy::RuleChangeKind::Added => Kind::Added,
            policy::RuleChangeKind::Removed => Kind::Removed,
            policy::RuleChangeKind::Changed => Kind::Changed,
        },
        what: change.what.clone(),
        effect: match change.effect {
            policy::RuleChangeEffect::Looser => Effect::Looser,
            policy::RuleChangeEffect::Stricter => Effect::Stricter,
            policy::RuleChangeEffect::Same => Effect::Same,
        },
    }
}

pub(crate) async fn log(kernel: &Kernel, params: &PolicyLogParams) -> Result<PolicyLogResult, RpcError> {
    let policies = &kernel.gate.policies;
    let versions = if params.home { policies.home_policy_log() } else { policies.policy_log(Path::new(&params.path)).await };
    let versions = versions.map_err(rpc_error)?;
    let shown = versions.into_iter().map(|past| PolicyVersion {
        version: past.version,
        seq: past.seq,
        at_ms: past.at_ms,
        by: past.by,
        hash: past.hash,
        diff: past.diff,
    });
    Ok(PolicyLogResult { versions: shown.collect() })
}

pub(crate) async fn suggest(kernel: &Kernel, path: &str) -> Result<PolicySuggestResult, RpcError> {
    let suggestion = kernel.gate.suggest_rules(Path::new(path)).await.map_err(rpc_error)?;
    let because = suggestion.proposals.iter().map(|proposal| format!("{}: {} questions", proposal.condition, proposal.saved));
    Ok(PolicySuggestResult {
        questions: suggestion.asked as u64,
        saved: suggestion.saved as u64,
        // INVARIANT: `suggest` proposes nothing that lets a denied question through.
        let_through: 0,
        because: because.collect(),
        summary: suggestion.summary(),
        yaml: suggestion.yaml(),
    })
}
