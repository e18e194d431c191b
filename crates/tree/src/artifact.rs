//! Artifacts: what a process stores for others, by key and visibility.

use crate::calls::{CallEffect, TreeCall};
use crate::{ArtifactOrder, Tree, TreeCaller};
use gate::TreeRequest;
use serde_json::json;
use world::event::{ArtifactRemoved, ArtifactStored};
use world::{ArtifactId, Code, Pid, Refusal, Stop, StoredArtifact, Visibility, World, limits};

/// Which artifact is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactQuery {
    Id(ArtifactId),
    /// What the key means to the one who asks: its own first, then of those above it, then its user's, then the global one.
    Key(String),
}

/// An artifact with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadArtifact {
    pub artifact: StoredArtifact,
    pub content: Vec<u8>,
}

impl Tree {
    /// Stores a new version under a key.
    pub async fn store(&self, by: impl Into<TreeCaller>, order: ArtifactOrder) -> Result<ArtifactId, Stop> {
        let TreeCaller { pid: by, asked } = by.into();
        let ArtifactOrder { key, content, content_type, visibility } = order;
        check(&key, &content, &content_type)?;
        if let Some(refusal) = self.ledger.flood_refusal(by) {
            return Err(refusal.into());
        }
        let bytes = content.len() as u64;
        // Before it is kept: who may not have it on disk does not fill the disk.
        self.ledger.look(|world| has_room(world, by, bytes))?;
        let blob = self.ledger.keep(&content)?;
        let input = json!({ "key": key, "bytes": bytes, "visibility": visibility, "content_type": content_type });
        let about = Some(TreeRequest::Store { key: key.clone(), visibility });
        let call = TreeCall { by, tool: "artifact.store", input, about, read_only: false };
        self.commit_asked(call, asked, |world, _, _| {
            has_room(world, by, bytes)?;
            let artifact = world.next_artifact();
            let stored = ArtifactStored {
                pid: by,
                task: None,
                artifact,
                key: key.clone(),
                version: next_version(world, by, &key, visibility)?,
                visibility,
                content_type: content_type.clone(),
                blob: blob.clone(),
                bytes,
            };
            let output = json!({ "artifact": artifact, "version": stored.version });
            Ok(CallEffect { events: vec![stored.into()], output, value: artifact })
        })
        .await
    }

    /// Reads one; `None` where the key means nothing to the one who asks.
    pub async fn artifact(&self, by: Pid, which: ArtifactQuery) -> Result<Option<ReadArtifact>, Stop> {
        let found = self.ledger.look(|world| match &which {
            ArtifactQuery::Id(id) => Some(*id),
            ArtifactQuery::Key(key) => world.artifact_by_key(by, key).map(|artifact| artifact.id),
        });
        let Some(id) = found else { return Ok(None) };
        let about = Some(TreeRequest::Read { artifact: id });
        let call = TreeCall { by, tool: "artifact.read", input: json!({ "artifact": id }), about, read_only: true };
        let artifact = self
            .commit_call(call, |world, _, _| {
                let artifact = world.artifacts.get(&id).filter(|artifact| world::readable(world, by, artifact)).cloned();
                let artifact = artifact.ok_or_else(|| Refusal::new(Code::NotFound, format!("there is no {id}")))?;
                Ok(CallEffect { events: Vec::new(), output: json!({ "bytes": artifact.bytes }), value: artifact })
            })
            .await?;
        let content = self.ledger.blob_if_kept(&artifact.blob)?;
        Ok(content.map(|content| ReadArtifact { artifact, content }))
    }

    /// The newest version of each that the one who asks can see.
    pub async fn artifacts(&self, by: Pid, prefix: &str, stored_by: Option<Pid>) -> Result<Vec<StoredArtifact>, Stop> {
        let input = json!({ "prefix": prefix, "stored_by": stored_by });
        let call = TreeCall { by, tool: "artifact.read", input, about: Some(TreeRequest::Own), read_only: true };
        self.commit_call(call, |world, _, _| {
            let seen = world.artifacts.values().filter(|artifact| {
                artifact.key.starts_with(prefix)
                    && stored_by.is_none_or(|owner| artifact.owner == owner)
                    && world::readable(world, by, artifact)
            });
            let mut newest: Vec<StoredArtifact> = Vec::new();
            for artifact in seen {
                newest.retain(|other| !artifact.is_version_of(other));
                newest.push(artifact.clone());
            }
            Ok(CallEffect { events: Vec::new(), output: json!({ "count": newest.len() }), value: newest })
        })
        .await
    }

    pub async fn remove_artifact(&self, by: Pid, artifact: ArtifactId) -> Result<(), Stop> {
        if !self.ledger.look(|world| world.artifacts.contains_key(&artifact)) {
            return Err(Refusal::new(Code::NotFound, format!("there is no {artifact}")).into());
        }
        let about = Some(TreeRequest::Remove { artifact });
        let call = TreeCall { by, tool: "artifact.remove", input: json!({ "artifact": artifact }), about, read_only: false };
        self.commit_call(call, |world, _, _| {
            if !world.artifacts.contains_key(&artifact) {
                return Err(Refusal::new(Code::NotFound, format!("there is no {artifact}")));
            }
            Ok(CallEffect { events: vec![ArtifactRemoved { pid: by, task: None, artifact }.into()], output: json!({}), value: () })
        })
        .await
    }
}

fn check(key: &str, content: &[u8], content_type: &str) -> Result<(), Refusal> {
    if key.is_empty() {
        return Err(Refusal::new(Code::BadInput, "an artifact has a key"));
    }
    let sizes = [
        ("key", key.len(), limits::ARTIFACT_KEY_MAX),
        ("content type", content_type.len(), limits::MESSAGE_KIND_MAX),
        ("content", content.len(), limits::STORED_ARTIFACT_BYTES_MAX),
    ];
    match sizes.into_iter().find(|(_, len, max)| len > max) {
        Some((what, len, max)) => Err(Refusal::new(Code::TooLarge, format!("the {what} has {len} bytes, and may have {max}"))),
        None => Ok(()),
    }
}

fn has_room(world: &World, by: Pid, bytes: u64) -> Result<(), Refusal> {
    let user = world.processes.get(&by).map(|process| process.user.as_str()).unwrap_or_default();
    let (count, used) = world.artifacts_of(user);
    if count >= limits::ARTIFACTS_MAX || used.saturating_add(bytes) > limits::ARTIFACT_QUOTA_BYTES {
        let reason = format!("`{user}` has {count} artifacts with {used} bytes, and {bytes} more are too many");
        return Err(Refusal::new(Code::Exhausted, reason).hint("remove some of them first"));
    }
    Ok(())
}

fn next_version(world: &World, by: Pid, key: &str, visibility: Visibility) -> Result<u32, Refusal> {
    let Some(before) = world.artifact_at(by, key, visibility) else { return Ok(1) };
    if !world.owns_artifact(by, before) {
        return Err(Refusal::new(Code::Denied, format!("`{key}` belongs to process {}", before.owner)).hint("use another key"));
    }
    Ok(before.version + 1)
}
