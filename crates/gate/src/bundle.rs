//! Reads what a project proposes: its `skep.yml`, its policy, its extension rules and its roles, as they stand in the tree.
//!
//! Project files are read in one bounded way and through no link. It knows nothing of what is in force.

use crate::role::ROLES_FOLDER;
use crate::zone::{Bundle, CONFIG_FILE, POLICY_FILE, RULES_FOLDER};
use std::path::Path;
use workspace::reader::{self, Folder, Unread};
use world::{Code, Fault, FaultKind, Refusal, Stop, limits};

const RULES_MAX: usize = 64;
/// Of all kinds; whoever has more has a flood.
const ENTRIES_MAX: usize = 10_000;
/// `org/role/skills/name/SKILL.md`.
const ROLE_DEPTH_MAX: usize = 4;
/// A policy larger than this is a mistake or an attack on the parser.
pub(crate) const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The files of a tree as they are, and their hash.
pub async fn read_bundle(top: &Path) -> Result<(Bundle, String), Stop> {
    let path = top.to_owned();
    let bundle = reader::bounded(move || {
        let project = Folder::open(&path).map_err(|why| unread(".", why))?;
        let (config, policy) = (read_file(&project, CONFIG_FILE)?, read_file(&project, POLICY_FILE)?);
        Ok::<_, Refusal>(Bundle { config, policy, rules: read_rules(&project)?, roles: read_roles(&project)? })
    })
    .await??;
    let bytes = serde_json::to_vec(&bundle).map_err(|error| Fault::new(FaultKind::Bug, "cannot write a bundle", error))?;
    Ok((bundle, workspace::hash::sha256(&bytes)))
}

/// The extension rules in the tree, sorted by name.
fn read_rules(project: &Folder) -> Result<Vec<(String, String)>, Refusal> {
    let names = match project.list(RULES_FOLDER, ENTRIES_MAX) {
        Ok(names) => names,
        Err(Unread::Absent) => return Ok(Vec::new()),
        Err(why) => return Err(unread(RULES_FOLDER, why)),
    };
    let names = names.into_iter().filter_map(|name| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".ts") && !name.ends_with(".d.ts")).collect();
    if names.len() > RULES_MAX {
        return Err(Refusal::new(Code::TooLarge, format!("{RULES_FOLDER} holds {} files; {RULES_MAX} are allowed", names.len())));
    }
    names.sort();
    names.into_iter().map(|name| Ok((name.clone(), read_file(project, &format!("{RULES_FOLDER}/{name}"))?))).collect()
}

/// The texts of roles in the tree, sorted by path. Links and everything that is no text of a role are left out.
fn read_roles(project: &Folder) -> Result<Vec<(String, String)>, Refusal> {
    let (mut files, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        let entries = match project.entries(&Path::new(ROLES_FOLDER).join(&folder)) {
            Ok(entries) => entries,
            Err(Unread::Absent) => continue,
            Err(why) => return Err(unread(ROLES_FOLDER, why)),
        };
        for entry in entries {
            let Ok(name) = entry.name.into_string() else { continue };
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entry.kind.is_dir() && path.split('/').count() <= ROLE_DEPTH_MAX && !path.ends_with(".git") {
                folders.push(path);
            } else if entry.kind.is_file() && path.ends_with(".md") {
                files.push(path);
            }
            if files.len() > limits::ROLE_FILES_MAX || folders.len() > limits::ROLE_FILES_MAX {
                return Err(Refusal::new(Code::TooLarge, format!("{ROLES_FOLDER} holds more than {} files", limits::ROLE_FILES_MAX)));
            }
        }
    }
    files.sort();
    let read = |path: String| Ok((path.clone(), read_text(project, &format!("{ROLES_FOLDER}/{path}"), limits::ROLE_FILE_BYTES_MAX)?));
    files.into_iter().map(read).collect()
}

/// A proposal's text; a missing file is an empty one.
fn read_file(project: &Folder, name: &str) -> Result<String, Refusal> {
    read_text(project, name, FILE_BYTES_MAX)
}

fn read_text(project: &Folder, name: &str, bytes_max: u64) -> Result<String, Refusal> {
    let bytes = match project.read(name, bytes_max) {
        Ok(bytes) => bytes,
        Err(Unread::Absent) => return Ok(String::new()),
        Err(why) => return Err(unread_of(name, bytes_max, &why)),
    };
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        Refusal::new(Code::BadInput, format!("{name}:{line}:{column}: this is not UTF-8")).hint("save the file as UTF-8")
    })
}

pub(crate) fn unread(name: &str, why: Unread) -> Refusal {
    unread_of(name, FILE_BYTES_MAX, &why)
}

fn unread_of(name: &str, bytes_max: u64, why: &Unread) -> Refusal {
    let reason = format!("`{name}` is not an ordinary file of at most {} KiB: {why}", bytes_max / 1024);
    Refusal::new(Code::BadInput, reason).hint("replace it").remedy(world::Remedy::TrustProject)
}
