//! The policy for people: check, explain, trial, log, suggest.

use crate::rpc_error::rpc_error;
use kernel::{CallRange, Kernel};
use policy::{Action, Layer, Warning};
use std::path::Path;
use wire::RpcError;
use wire::method::policy::{
    PolicyCheckParams, PolicyCheckResult, PolicyExplainParams, PolicyExplainResult, PolicyLogResult, PolicyOutcome, PolicyProblem,
    PolicySuggestResult, PolicyTrialParams, PolicyTrialResult, PolicyVersion, RuleEffect, RuleLayer, RuleStatement, TrialChange,
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
    let ok = problems.iter().all(|problem| !problem.error);
    Ok(PolicyCheckResult { rules: checked.rules as u64, extensions: checked.extensions as u64, problems, ok })
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
    let phrase = trial.phrase();
    let changes = trial.changes.into_iter().map(|change| TrialChange {
        seq: change.name.parse().unwrap_or(0),
        about: change.paths.join(" "),
        tool: change.tool,
        before: outcome(change.then),
        after: outcome(change.now),
        why: change.reasons.join("; "),
        breaking: change.kind == policy::VerdictChangeKind::Breaking,
    });
    Ok(PolicyTrialResult { tried: trial.cases as u64, breaking: trial.breaking as u64, phrase, changes: changes.collect() })
}

pub(crate) async fn log(kernel: &Kernel, path: &str) -> Result<PolicyLogResult, RpcError> {
    let versions = kernel.gate.policies.policy_log(Path::new(path)).await.map_err(rpc_error)?;
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
