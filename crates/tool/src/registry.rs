//! The tools there are, by name.

use crate::adapted::AdaptedTool;
use crate::builtin;
use crate::command::CommandTool;
use crate::manifest::{Manifest, ManifestError, Room};
use crate::registered::RegisteredTool;
use crate::tool::Tool;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use world::near::distance;
use world::{Code, Refusal};

/// Far above any manifest, far below what hurts.
const MANIFEST_BYTES_MAX: u64 = 256 * 1024;

#[derive(Debug)]
pub struct Registry {
    tools: BTreeMap<String, RegisteredTool>,
    left_out: Vec<ManifestError>,
}

impl Registry {
    /// The tools that are part of skep.
    pub fn builtin() -> Registry {
        let mut registry = Registry { tools: BTreeMap::new(), left_out: Vec::new() };
        builtin::all().into_iter().for_each(|tool| registry.insert(tool));
        registry
    }

    /// Adds a tool, if its manifest can be used and its name is free. Whoever adds one vouches for what its manifest says.
    pub fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ManifestError> {
        let manifest = tool.manifest();
        manifest.check(&manifest.name)?;
        self.check_name(&manifest.name).map_err(|what| ManifestError { file: manifest.name.clone(), line: 0, column: 0, what })?;
        self.insert(tool);
        Ok(())
    }

    fn insert(&mut self, tool: Arc<dyn Tool>) {
        self.tools.insert(tool.manifest().name.clone(), RegisteredTool::new(tool));
    }

    /// Adds the tools of a folder: each subfolder with a `tool.yaml` is one. What cannot be used is left out, and kept for
    /// [`Registry::left_out`].
    pub fn load(&mut self, folder: &Path) {
        let (mut folders, mut errors) = (Vec::new(), Vec::new());
        match std::fs::read_dir(folder) {
            // What git or an editor keeps here is nobody's tool.
            Ok(entries) => {
                let found = entries.flatten().map(|entry| entry.path()).filter(|path| !is_hidden(path));
                let (own, others): (Vec<_>, Vec<_>) = found.partition(|path| path.is_dir());
                let misplaced = others.into_iter().filter(|path| is_manifest(path));
                errors.extend(misplaced.map(|path| unusable(&path, "a tool is a folder of its own with a `tool.yaml` in it".to_owned())));
                folders.extend(own);
            }
            Err(error) => errors.push(unusable(folder, format!("the folder cannot be read: {error}"))),
        }
        folders.sort();
        for folder in folders {
            let file = folder.join("tool.yaml");
            let loaded = match file.is_file() {
                true => self.load_file(&file),
                false => Err(unusable(&file, "it is missing or not a regular file".to_owned())),
            };
            if let Err(error) = loaded {
                errors.push(error);
            }
        }
        self.left_out.extend(errors);
    }

    /// Manifests that were found and cannot be used, with the reason of each.
    pub fn left_out(&self) -> &[ManifestError] {
        &self.left_out
    }

    fn load_file(&mut self, file: &Path) -> Result<(), ManifestError> {
        let shown = file.display().to_string();
        let size = std::fs::metadata(file).map(|metadata| metadata.len()).unwrap_or(u64::MAX);
        if size > MANIFEST_BYTES_MAX {
            return Err(unusable(file, format!("it has more than {MANIFEST_BYTES_MAX} bytes")));
        }
        let text = std::fs::read_to_string(file).map_err(|error| unusable(file, error.to_string()))?;
        let manifest = Manifest::parse(&text, &shown)?;
        manifest.check(&shown)?;
        let tool = self.loaded(manifest).map_err(|what| unusable(file, what))?;
        self.check_name(&tool.manifest().name).map_err(|what| unusable(file, what))?;
        self.insert(tool);
        Ok(())
    }

    /// The tool of a manifest that somebody wrote: its own command does the work, or a built-in tool.
    fn loaded(&self, mut manifest: Manifest) -> Result<Arc<dyn Tool>, String> {
        if manifest.retries.is_some_and(|retries| retries > 0) {
            return Err("`retries` is for built-in tools: that this one only reads is its own word".to_owned());
        }
        // Its own word that it only reads, or belongs in the kernel's process, is not proof; the built-in tool's is.
        (manifest.read_only, manifest.room) = (false, Room::Sandbox);
        if !manifest.command.is_empty() {
            return Ok(Arc::new(CommandTool::new(manifest)?));
        }
        let mut tool = AdaptedTool::new(manifest)?;
        if let Some(worker) = self.tools.get(tool.worker()) {
            tool.run_like(worker.manifest());
        }
        Ok(Arc::new(tool))
    }

    /// Is a name free? Models know a tool without its dot, so two that differ in nothing else would be one to them.
    fn check_name(&self, name: &str) -> Result<(), String> {
        let plain = |name: &str| name.replace('.', "_");
        let Some(known) = self.tools.keys().find(|known| plain(known) == plain(name)) else { return Ok(()) };
        let why = if known == name { "" } else { ", and to a model that is the same name" };
        Err(format!("there is a tool `{known}` already{why}"))
    }

    /// The tool of a name, for whoever has nothing to say of one that there is not.
    pub fn get(&self, name: &str) -> Option<&RegisteredTool> {
        self.tools.get(name)
    }

    pub fn find(&self, name: &str) -> Result<&RegisteredTool, Refusal> {
        self.get(name).ok_or_else(|| {
            let near = self.nearest(name);
            let hint = if near.is_empty() {
                format!("there are {}", self.names().join(", "))
            } else {
                format!("did you mean {}?", near.join(" or "))
            };
            Refusal::new(Code::NotFound, format!("there is no tool `{name}`")).hint(hint)
        })
    }

    /// By name.
    pub fn list(&self) -> impl Iterator<Item = &RegisteredTool> {
        self.tools.values()
    }

    /// Names of what a caller can call; the tools of vendors' clients are not for others.
    pub fn names(&self) -> Vec<&str> {
        self.tools.keys().map(String::as_str).filter(|name| !name.starts_with("brain.")).collect()
    }

    /// Names that a slip of the pen or of the memory makes out of this one.
    fn nearest(&self, name: &str) -> Vec<String> {
        let verb = |name: &str| name.rsplit_once('.').map(|(_, verb)| verb.to_owned());
        let near = |known: &&String| {
            distance(name, known) <= 2 || (verb(name).is_some() && verb(name) == verb(known)) || known.rsplit('.').next() == Some(name)
        };
        self.tools.keys().filter(near).map(|known| format!("`{known}`")).collect()
    }
}

/// Whether a file was meant to be a tool.
fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."))
}

fn unusable(file: &Path, what: String) -> ManifestError {
    ManifestError { file: file.display().to_string(), line: 0, column: 0, what }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "there are fs.delete, fs.edit, fs.exists, fs.list, fs.move, fs.patch, fs.read, fs.write, git.commit, git.diff, git.log, \
        git.status, http.request, sandbox.run, search.glob, search.grep, shell.run, test.run";

    #[test]
    fn every_built_in_manifest_can_be_used_and_mocked() {
        for tool in Registry::builtin().list() {
            let manifest = tool.manifest();
            assert_eq!(manifest.check(&manifest.name), Ok(()));
            assert!(manifest.supports.mock && manifest.supports.dry_run, "{}", manifest.name);
        }
    }

    #[test]
    fn a_folder_of_tools_is_loaded_and_what_cannot_be_used_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let good = "version: 1.0.0\ndescription: counts\nrunner: shell\ncommand: [sh, -c, 'wc -c']\ninput_schema: {type: object}\n\
            output_schema: {}\ntimeout_ms: 1000\nread_only: true\nroom: kernel\n";
        let put = |name: &str, text: String| {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("tool.yaml"), text).unwrap();
        };
        put("a", format!("name: count\n{good}"));
        put("b", format!("name: fs.read\n{good}"));
        put("c", format!("name: count2\n{}", good.replace("runner: shell\ncommand: [sh, -c, 'wc -c']", "runner: http")));
        put("d", "name: [".to_owned());
        put("e", format!("name: fs_read\n{good}"));
        put("f", format!("name: again\n{good}retries: 1\n"));
        put("g", format!("name: narrow\n{good}permissions: ['network:request:*']\n"));
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        let mut registry = Registry::builtin();
        registry.load(folder.path());
        let told: Vec<&str> = registry.left_out().iter().map(|error| &*error.what).collect();
        assert_eq!(told[..2], ["there is a tool `fs.read` already", "`runner: http` wants a `url` in its input_schema"]);
        let same = "there is a tool `fs.read` already, and to a model that is the same name";
        let retries = "`retries` is for built-in tools: that this one only reads is its own word";
        let network = "its `command` can do all that its sandbox lets it, and its `permissions` do not name `shell:exec:workspace`";
        let missing = "it is missing or not a regular file";
        assert_eq!(told[3..], [same, missing, retries, network]);
        let manifest = registry.find("count").unwrap().manifest();
        assert_eq!((manifest.read_only, manifest.room), (false, Room::Sandbox), "a foreign tool's word is not proof");
        let before = registry.left_out().len();
        registry.load(&folder.path().join("nowhere"));
        assert_eq!(registry.left_out().len(), before + 1);
    }

    #[test]
    fn a_missing_tool_has_near_ones() {
        let registry = Registry::builtin();
        assert_eq!(registry.find("fs.read").unwrap().manifest().name, "fs.read");
        let hint = |name: &str| registry.find(name).unwrap_err().hint.unwrap();
        assert_eq!(hint("fs.raed"), "did you mean `fs.read`?");
        assert_eq!(hint("read"), "did you mean `fs.read`?");
        assert_eq!(hint("file.write"), "did you mean `fs.write`?");
        assert_eq!(hint("warp"), ALL);
        assert_eq!(registry.find("warp").unwrap_err().code, Code::NotFound);
    }
}
