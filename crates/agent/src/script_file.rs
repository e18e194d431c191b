//! The file of a scripted brain, as a task that names it gets it.

use crate::NamedBy;
use brain::script::BrainScript;
use std::path::{Path, PathBuf};
use workspace::MaskedNames;
use workspace::reader::{self, Folder};
use world::{Code, Refusal, Stop};

/// A script longer than this is none.
const SCRIPT_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// The text of a script that can be followed. The operator may name any file; a project names its own, and none that no brain may see.
pub async fn read_script(top: &Path, file: &str, named: NamedBy) -> Result<String, Stop> {
    let path = top.join(file);
    // The operator's way to say "an empty one".
    if named == NamedBy::Operator && path == Path::new("/dev/null") {
        return Ok(String::new());
    }
    let bad = |why: String| {
        let hint = format!("name a text file of at most {} MiB, and no link", SCRIPT_BYTES_MAX >> 20);
        Refusal::new(Code::NotFound, format!("cannot read the script `{}`: {why}", path.display())).hint(hint)
    };
    let (folder, name) = match (path.strip_prefix(top), path.parent(), path.file_name()) {
        (Ok(inside), ..) => (top.to_owned(), inside.to_owned()),
        (_, Some(parent), Some(name)) if named == NamedBy::Operator => (parent.to_owned(), PathBuf::from(name)),
        _ => return Err(bad("it is not a file of the project".into()).into()),
    };
    if named == NamedBy::Project && MaskedNames::new(top, &[])?.find(&name.to_string_lossy()).is_some() {
        return Err(bad("no brain may see it".into()).into());
    }
    let read = reader::bounded(move || Folder::open(&folder)?.read(name, SCRIPT_BYTES_MAX)).await?;
    let bytes = read.map_err(|why| bad(why.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| bad("it is not UTF-8".into()))?;
    BrainScript::parse(&text).map_err(|error| {
        Refusal::new(Code::BadInput, format!("`{}` is not a script: {error}", path.display())).hint("see docs/scripts.md")
    })?;
    Ok(text)
}
