//! What processes store for each other.

use super::measure::{ago, bytes};
use super::{Line, Page, table};
use wire::StoredArtifact;

pub fn list(artifacts: &[StoredArtifact], now_ms: i64) -> Page {
    if artifacts.is_empty() {
        return Page(vec![Line::new().faint("nothing is stored")]);
    }
    let row = |artifact: &StoredArtifact| {
        vec![
            Line::new().name(artifact.id.to_string()),
            Line::new().strong(&artifact.key),
            Line::new().faint(format!("version {}", artifact.version)),
            Line::new().plain(artifact.visibility.as_str()),
            Line::new().plain(bytes(artifact.bytes)),
            Line::new().plain(&artifact.content_type),
            Line::new().faint(format!("by {} of {}", artifact.owner, artifact.user)),
            Line::new().faint(ago(artifact.stored_ms, now_ms)),
        ]
    };
    table(artifacts.iter().map(row).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{ArtifactId, Pid, Visibility};

    #[test]
    fn an_artifact_tells_whose_it_is_and_who_reads_it() {
        let artifact = StoredArtifact {
            id: ArtifactId(3),
            owner: Pid(7),
            user: "ann".into(),
            key: "report".into(),
            version: 2,
            visibility: Visibility::Subtree,
            content_type: "text/plain".into(),
            blob: "b".into(),
            bytes: 1_500,
            stored_ms: 0,
        };
        let text = list(&[artifact], 5_000).render(false, None);
        assert_eq!(text, "art-3  report  version 2  subtree  1.5 kB  text/plain  by 7 of ann  5s ago\n");
        assert_eq!(list(&[], 0).render(false, None), "nothing is stored\n");
    }
}
