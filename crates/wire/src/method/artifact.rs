//! What processes store for each other.

use serde::{Deserialize, Serialize};
use world::{ArtifactId, Pid, StoredArtifact, Visibility};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactStoreParams {
    pub key: String,
    /// In base64.
    pub content: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub content_type: String,
    #[serde(default)]
    pub visibility: Visibility,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactStoreResult {
    pub artifact: ArtifactId,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArtifactReadParams {
    /// This version, or
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ArtifactId>,
    /// the newest under this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactReadResult {
    pub artifact: StoredArtifact,
    /// In base64.
    pub content: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ArtifactListParams {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Only what this process stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<Pid>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactListResult {
    pub artifacts: Vec<StoredArtifact>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactRemoveParams {
    pub artifact: ArtifactId,
}
