//! What no mask keeps from programs in rooms, told by `policy check` and `trust`: files that only an extension denies, and files that git's
//! store holds.

use crate::Kernel;
use crate::throwaway_room::RoomContent;
use gate::{Bundle, POLICY_FILE};
use policy::Warning;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use workspace::git;
use world::ZoneId;
use world::{Fault, FaultKind, Stop};

/// For git to look through all of a history. Past that, only what is checked out is looked at.
const HISTORY_MAX: Duration = Duration::from_secs(20);
/// Files that are named one by one.
const NAMED_MAX: usize = 1_000;

impl Kernel {
    pub(crate) async fn room_warnings(&self, top: &Path, bundle: &Bundle) -> Result<Vec<Warning>, Stop> {
        let mut warnings = Vec::new();
        if !bundle.rules.is_empty() {
            let what =
                "extension rules are not asked about what rooms show: programs there read what only an extension denies to `fs.read`";
            warnings.push(warning(what.into(), "deny it by its path in .skep/policy.yaml too, or name it in `mask` of skep.yml"));
        }
        let Ok(zone) = self.gate.policies.zone(top) else { return Ok(warnings) };
        let Some(sight) = self.gate.proposed_sight(zone.id, top, bundle)? else { return Ok(warnings) };
        match self.stored(zone.id, top).await {
            Ok((paths, whole)) => {
                let given: Vec<String> = paths.iter().filter_map(|path| sight.hides(path).map(|by| format!("`{path}` ({by})"))).collect();
                let hint =
                    "what was committed stays readable in rooms: take it out of the history, or deny programs to this project's brains";
                for path in given.iter().take(NAMED_MAX) {
                    warnings.push(warning(format!("git's store gives away the masked file {path}: `git show` in a room prints it"), hint));
                }
                if given.len() > NAMED_MAX {
                    warnings.push(warning(format!("git's store gives away {} more masked files", given.len() - NAMED_MAX), hint));
                }
                if !whole {
                    let what = "the history is too long to be looked through: masked files that were committed once are readable in rooms";
                    warnings.push(warning(what.into(), "look yourself: git log --all --diff-filter=A --name-only"));
                }
            }
            Err(stop) => {
                let what = format!("what git's store gives away of masked files is not known: {stop}");
                warnings.push(Warning { hint: None, remedy: Some(world::Remedy::RunDoctor), ..warning(what, "") });
            }
        }
        Ok(warnings)
    }

    /// Every path that git's store has a content of, by commits and the index; false where only the index was looked at.
    async fn stored(&self, zone: ZoneId, top: &Path) -> Result<(BTreeSet<String>, bool), Stop> {
        let throwaway = self.throwaway_room(zone, top, RoomContent::Repository).await?;
        let history = tokio::time::timeout(HISTORY_MAX, history(throwaway.room()?)).await;
        let (listed, whole) = match history {
            Ok(Ok(listed)) => (listed, true),
            Ok(Err(_)) | Err(_) => (git(throwaway.room()?, &["ls-files", "-z"], None).await?, false),
        };
        throwaway.close().await?;
        let listed = tokio::task::spawn_blocking(move || {
            let text = String::from_utf8_lossy(&listed);
            let path = |entry: &str| if whole { entry.split_once(' ').map(|(_, path)| path.to_owned()) } else { Some(entry.to_owned()) };
            text.split(if whole { '\n' } else { '\0' }).filter_map(path).filter(|path| !path.is_empty()).collect::<BTreeSet<String>>()
        });
        Ok((listed.await.map_err(|error| Fault::new(FaultKind::Bug, "reading a list failed", error))?, whole))
    }
}

/// Ids and paths of all contents that commits and the index name: every commit of the store, also those that nothing leads to any more.
async fn history(room: &sandbox::Workspace) -> Result<Vec<u8>, Stop> {
    let named = ["rev-list", "--objects", "--filter=object:type=blob", "--all", "--reflog", "--indexed-objects"];
    let every = ["cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objecttype) %(objectname)"];
    if let Ok(objects) = git(room, &every, None).await {
        let objects = String::from_utf8_lossy(&objects).into_owned();
        let commits: String = objects.lines().filter_map(|line| line.strip_prefix("commit ")).flat_map(|id| [id, "\n"]).collect();
        // Of a commit that nothing leads to, parts may be pruned.
        let with_commits = [&named[..], &["--missing=allow-any", "--stdin"]].concat();
        if let Ok(listed) = git(room, &with_commits, Some(commits.into_bytes())).await {
            return Ok(listed);
        }
    }
    git(room, &named, None).await
}

fn warning(what: String, hint: &str) -> Warning {
    Warning { file: POLICY_FILE.into(), line: 1, column: 1, what, hint: Some(hint.to_owned()), remedy: None }
}
