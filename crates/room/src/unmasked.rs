//! What no mask keeps from programs in rooms, told by `policy check` and `trust`: files that only an extension denies, and files that git's
//! store holds.

use crate::{RoomContent, ThrowawayRooms};
use gate::{Bundle, POLICY_FILE};
use policy::Warning;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use workspace::stored::{self, Stored};
use workspace::{Sight, reader};
use world::Stop;
use world::ZoneId;

/// For git to look through all of a history. Past that, only what is checked out is looked at.
const HISTORY_MAX: Duration = Duration::from_secs(20);
/// Files that are named one by one.
const NAMED_MAX: usize = 1_000;

/// How the warning begins that brains may read nothing.
pub const NO_READS: &str = "no rule lets this project's brains read a file";

impl ThrowawayRooms {
    /// What rooms over the project at `top` would show by these policy files that nobody expects.
    pub async fn warnings(&self, top: &Path, bundle: &Bundle) -> Result<Vec<Warning>, Stop> {
        let mut warnings = Vec::new();
        if !bundle.rules.is_empty() {
            let what =
                "extension rules are not asked about what sandboxes show: programs there read what only an extension denies to `fs.read`";
            warnings.push(warning(what.into(), "deny it by its path in .skep/policy.yaml too, or name it in `mask` of skep.yml"));
        }
        let Ok(zone) = self.gate.policies.zone(top) else { return Ok(warnings) };
        let Some(sight) = self.gate.sight_of_zone(zone.id, bundle)? else { return Ok(warnings) };
        if sight.shows_nothing() {
            let hint = "add a rule such as `- { name: reads, match: { syscall: fs.read }, action: allow }`";
            warnings.push(warning(format!("{NO_READS}: sandboxes show no file of the project, and none of them can be changed"), hint));
        }
        if sight.hides_folder(".git").is_some() {
            return Ok(warnings);
        }
        match self.stored(zone.id, top).await {
            Ok(stored) => warnings.extend(self.given_away(top, sight, stored).await?),
            Err(stop) => {
                let what = format!("what git's store gives away of masked files is not known: {stop}");
                warnings.push(Warning { hint: None, remedy: Some(world::Remedy::RunDoctor), ..warning(what, "") });
            }
        }
        Ok(warnings)
    }

    /// What git's store has of files that this sight hides.
    async fn given_away(&self, top: &Path, sight: Sight, stored: Stored) -> Result<Vec<Warning>, Stop> {
        let mut warnings = Vec::new();
        let given: Vec<String> = stored.paths.iter().filter_map(|path| sight.hides(path).map(|by| format!("`{path}` ({by})"))).collect();
        let hint = "what was committed stays readable in sandboxes: take it out of the history, or deny programs to this project's brains";
        for path in given.iter().take(NAMED_MAX) {
            warnings.push(warning(format!("git's store gives away the masked file {path}: `git show` in a sandbox prints it"), hint));
        }
        if given.len() > NAMED_MAX {
            warnings.push(warning(format!("git's store gives away {} more masked files", given.len() - NAMED_MAX), hint));
        }
        if !stored.is_whole {
            let what = "the history is too long to be looked through: masked files that were committed once are readable in sandboxes";
            warnings.push(warning(what.into(), "look yourself: git log --all --diff-filter=A --name-only"));
        }
        if !stored.nameless.is_empty() {
            let masks: BTreeSet<PathBuf> = self.gate.masks.find(&Arc::new(sight)).await?.masks.clone();
            warnings.extend(nameless(top, stored.nameless, masks, !given.is_empty()).await?);
        }
        Ok(warnings)
    }

    async fn stored(&self, zone: ZoneId, top: &Path) -> Result<Stored, Stop> {
        let throwaway = self.open(zone, top, RoomContent::Repository).await?;
        let stored = stored::look(throwaway.room()?, HISTORY_MAX).await?;
        throwaway.close().await?;
        Ok(stored)
    }
}

/// Contents that no name leads to, such as those of a file that was added once and taken back: known by what masked files hold now, and
/// counted where they hold something else.
async fn nameless(top: &Path, mut nameless: BTreeSet<String>, masks: BTreeSet<PathBuf>, has_given: bool) -> Result<Vec<Warning>, Stop> {
    let hint = "git prune --expire=now removes what no commit, reflog or index names";
    let (mut warnings, is_masking) = (Vec::new(), has_given || !masks.is_empty());
    let (top, length) = (top.to_owned(), nameless.first().map_or(0, String::len));
    let files = reader::bounded_walk(move || stored::names_of(&top, &masks, length)).await?;
    for (path, name) in files {
        if nameless.remove(&name) {
            let path = path.display();
            let what = format!(
                "git's store gives away the masked file `{path}`, though no commit names it: `git cat-file` in a sandbox prints it"
            );
            warnings.push(warning(what, hint));
        }
    }
    if is_masking && !nameless.is_empty() {
        let what = format!(
            "git's store gives away {} contents that no commit, reflog or index names: what a masked file held earlier may be among them",
            nameless.len()
        );
        warnings.push(warning(what, hint));
    }
    Ok(warnings)
}

fn warning(what: String, hint: &str) -> Warning {
    Warning { file: POLICY_FILE.into(), line: 1, column: 1, what, hint: Some(hint.to_owned()), remedy: None }
}
