//! Artifacts, resources, escalations, logs and figures.

use super::process::percent;
use super::speaker::GrpcSpeaker;
use super::status::{refused, status};
use hive::generated::agent::{
    EscalateRequest, EscalateResponse, GetArtifactRequest, GetArtifactResponse, LogRequest, StoreArtifactRequest, StoreArtifactResponse,
};
use hive::generated::core::{
    ArtifactMeta, ListArtifactsRequest, ListArtifactsResponse, MetricRequest, ResourceRequest, ResourceResponse, ResourceUsage,
};
use hive::tonic::Status;
use tree::{ArtifactQuery, Tree, contract};
use world::{ArtifactId, Code, Pid, Refusal, Stop};

pub(super) async fn store(tree: &Tree, speaker: GrpcSpeaker, request: StoreArtifactRequest) -> Result<StoreArtifactResponse, Status> {
    let owner = speaker.me()?;
    let stored = match contract::artifact_order(request) {
        Ok(order) => tree.store(owner, order).await,
        Err(refusal) => Err(refusal.into()),
    };
    Ok(match stored {
        Ok(id) => StoreArtifactResponse { success: true, artifact_id: id.to_string(), error: String::new() },
        Err(stop) => StoreArtifactResponse { success: false, artifact_id: String::new(), error: contract::error_text(&stop) },
    })
}

/// Which artifact a request means: its id counts more than its key.
fn query(request: GetArtifactRequest) -> Result<ArtifactQuery, Refusal> {
    match (request.artifact_id.as_str(), request.key) {
        ("", key) if key.is_empty() => Err(Refusal::new(Code::BadInput, "name an artifact by `artifact_id` or by `key`")),
        ("", key) => Ok(ArtifactQuery::Key(key)),
        (id, _) => id
            .parse::<ArtifactId>()
            .map(ArtifactQuery::Id)
            .map_err(|error| Refusal::new(Code::BadInput, format!("`artifact_id` is none: {error}"))),
    }
}

pub(super) async fn read(tree: &Tree, speaker: GrpcSpeaker, request: GetArtifactRequest) -> Result<GetArtifactResponse, Status> {
    let reader = speaker.me()?;
    let found = match query(request) {
        Ok(query) => tree.artifact(reader, query).await,
        Err(refusal) => Err(refusal.into()),
    };
    Ok(match found {
        Ok(Some(read)) => GetArtifactResponse {
            found: true,
            content: read.content,
            content_type: read.artifact.content_type,
            stored_by_pid: read.artifact.owner.0,
            stored_at: seconds(read.artifact.stored_ms),
            error: String::new(),
        },
        Ok(None) => GetArtifactResponse { error: "artifact not found".to_owned(), ..GetArtifactResponse::default() },
        Err(stop) => GetArtifactResponse { error: contract::error_text(&stop), ..GetArtifactResponse::default() },
    })
}

fn seconds(ms: i64) -> u64 {
    u64::try_from(ms / 1_000).unwrap_or(0)
}

pub(super) async fn list(tree: &Tree, speaker: GrpcSpeaker, request: ListArtifactsRequest) -> Result<ListArtifactsResponse, Status> {
    let reader = speaker.me()?;
    let stored_by = Some(Pid(request.stored_by_pid)).filter(|pid| pid.0 > 0);
    let artifacts = tree.artifacts(reader, &request.prefix, stored_by).await.map_err(status)?;
    let shown = artifacts.into_iter().map(|artifact| ArtifactMeta {
        artifact_id: artifact.id.to_string(),
        key: artifact.key,
        content_type: artifact.content_type,
        size_bytes: artifact.bytes,
        stored_by_pid: artifact.owner.0,
        stored_at: seconds(artifact.stored_ms),
    });
    Ok(ListArtifactsResponse { artifacts: shown.collect() })
}

pub(super) fn usage(tree: &Tree, speaker: GrpcSpeaker) -> Result<ResourceUsage, Status> {
    let usage = tree.usage(speaker.me()?).map_err(status)?;
    Ok(ResourceUsage {
        tokens_consumed: usage.tokens_used,
        // The contract has no word for no limit: it is as much as can be said.
        tokens_remaining: usage.tokens_left.unwrap_or(u64::MAX),
        children_active: usage.children,
        children_max: u32::try_from(usage.children_max.unwrap_or(u64::MAX)).unwrap_or(u32::MAX),
        context_usage_percent: percent(usage.context_permille),
        uptime_seconds: usage.uptime_ms / 1_000,
    })
}

pub(super) async fn request(tree: &Tree, speaker: GrpcSpeaker, request: ResourceRequest) -> Result<ResourceResponse, Status> {
    let me = speaker.me()?;
    match tree.request(me, &request.resource_type, request.amount, &request.justification).await {
        Ok(reply) => Ok(ResourceResponse { granted: reply.granted, granted_amount: reply.amount, reason: reply.reason }),
        Err(stop @ Stop::Refused(_)) => Ok(ResourceResponse { granted: false, granted_amount: 0, reason: contract::error_text(&stop) }),
        Err(stop) => Err(status(stop)),
    }
}

pub(super) async fn escalate(tree: &Tree, speaker: GrpcSpeaker, request: EscalateRequest) -> Result<EscalateResponse, Status> {
    speaker.me()?;
    let escalated = match contract::escalation_order(request) {
        Ok(order) => tree.escalate(speaker.by, order).await,
        Err(refusal) => Err(refusal.into()),
    };
    match escalated {
        Ok(reply) => Ok(EscalateResponse { received: true, handled_by_pid: reply.with.0, response: reply.response }),
        Err(stop @ Stop::Refused(_)) => Ok(EscalateResponse { received: false, handled_by_pid: 0, response: contract::error_text(&stop) }),
        Err(stop) => Err(status(stop)),
    }
}

pub(super) async fn log(tree: &Tree, speaker: GrpcSpeaker, request: LogRequest) -> Result<(), Status> {
    let line = contract::log_line(request).map_err(refused)?;
    tree.log(speaker.by, line).await.map_err(status)
}

pub(super) async fn metric(tree: &Tree, speaker: GrpcSpeaker, request: MetricRequest) -> Result<(), Status> {
    tree.metric(speaker.by, &request.name, request.value).await.map_err(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_artifact_is_named_by_its_id_or_its_key() {
        let of = |id: &str, key: &str| query(GetArtifactRequest { artifact_id: id.into(), key: key.into() });
        assert_eq!(of("art-3", "report"), Ok(ArtifactQuery::Id(ArtifactId(3))));
        assert_eq!(of("", "report"), Ok(ArtifactQuery::Key("report".into())));
        assert!(of("", "").is_err() && of("3", "report").is_err());
    }
}
