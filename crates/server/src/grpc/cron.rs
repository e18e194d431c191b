//! What happens at set times.

use super::speaker::GrpcSpeaker;
use hive::generated::core::{AddCronRequest, AddCronResponse, CronEntryProto, ListCronResponse, RemoveCronRequest, RemoveCronResponse};
use tree::{Tree, contract};
use world::{Code, CronAction, CronEntry, CronId, CronSpec, MissedRule, OverlapRule, Pid, Refusal, Stop};

/// An entry as the contract has it: local time, one run at a time, and none is caught up.
fn spec(request: AddCronRequest) -> Result<CronSpec, Refusal> {
    let action = match request.action.as_str() {
        "" => CronAction::Execute,
        name => CronAction::parse(name).ok_or_else(|| {
            let known = CronAction::ALL.map(CronAction::as_str).join(", ");
            Refusal::new(Code::BadInput, format!("there is no action `{name}`: it is one of {known}"))
        })?,
    };
    Ok(CronSpec {
        name: request.name,
        expression: request.cron_expression,
        timezone: String::new(),
        action,
        target: Pid(request.target_pid),
        description: request.execute_description,
        params: request.execute_params.into_iter().collect(),
        program: None,
        enabled: true,
        overlap: OverlapRule::default(),
        missed: MissedRule::default(),
        jitter_ms: 0,
    })
}

pub(super) async fn add(tree: &Tree, speaker: GrpcSpeaker, request: AddCronRequest) -> AddCronResponse {
    let added = match spec(request) {
        Ok(spec) => tree.cron_add(speaker.by, spec).await,
        Err(refusal) => Err(refusal.into()),
    };
    match added {
        Ok(id) => AddCronResponse { cron_id: id.to_string(), error: String::new() },
        Err(stop) => AddCronResponse { cron_id: String::new(), error: contract::error_text(&stop) },
    }
}

pub(super) async fn remove(tree: &Tree, speaker: GrpcSpeaker, request: &RemoveCronRequest) -> RemoveCronResponse {
    let removed = match request.cron_id.parse::<CronId>() {
        Ok(id) => tree.cron_remove(speaker.by, id).await,
        Err(error) => Err(Stop::from(Refusal::new(Code::BadInput, format!("`cron_id` is none: {error}")))),
    };
    match removed {
        Ok(()) => RemoveCronResponse { ok: true, error: String::new() },
        Err(stop) => RemoveCronResponse { ok: false, error: contract::error_text(&stop) },
    }
}

pub(super) fn list(tree: &Tree, speaker: GrpcSpeaker) -> ListCronResponse {
    ListCronResponse { entries: tree.crons_of(speaker.by).into_iter().map(shown).collect() }
}

fn shown(entry: CronEntry) -> CronEntryProto {
    let CronEntry { id, spec, next_ms, last, .. } = entry;
    let last = last.unwrap_or_default();
    CronEntryProto {
        id: id.to_string(),
        name: spec.name,
        cron_expression: spec.expression,
        action: spec.action.as_str().to_owned(),
        target_pid: spec.target.0,
        execute_description: spec.description,
        execute_params: spec.params.into_iter().collect(),
        enabled: spec.enabled,
        last_run_ms: last.started_ms,
        next_run_ms: next_ms.unwrap_or(0),
        last_exit_code: last.exit_code.unwrap_or(0),
        last_output: last.output,
        last_duration_ms: last.ended_ms.map_or(0, |ended| ended.saturating_sub(last.started_ms)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use world::CronRun;

    #[test]
    fn an_entry_goes_in_and_comes_out() {
        let request = AddCronRequest {
            name: "nightly".into(),
            cron_expression: "0 3 * * *".into(),
            action: "message".into(),
            target_pid: 7,
            execute_description: "report".into(),
            execute_params: [("month".to_owned(), "11".to_owned())].into(),
        };
        let spec = spec(request.clone()).unwrap();
        let last = CronRun { started_ms: 100, ended_ms: Some(250), exit_code: Some(7), output: "seven".into(), ..CronRun::default() };
        let entry = CronEntry { id: CronId(3), owner: Pid(1), spec, added_ms: 0, next_ms: Some(900), last: Some(last), running: 0 };
        let proto = shown(entry);
        assert_eq!((proto.id.as_str(), proto.action.as_str(), proto.target_pid), ("cron-3", "message", 7));
        assert_eq!((proto.last_run_ms, proto.last_duration_ms, proto.last_exit_code, proto.next_run_ms), (100, 150, 7, 900));
        assert_eq!((proto.execute_params, proto.last_output.as_str()), (request.execute_params, "seven"));
        assert_eq!(super::spec(AddCronRequest::default()).unwrap().action, CronAction::Execute);
        assert!(super::spec(AddCronRequest { action: "dance".into(), ..AddCronRequest::default() }).is_err());
    }
}
