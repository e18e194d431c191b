//! What a project chooses of the toolchains that were found: its own environment, and the versions that its files name.
//!
//! A project's files are hostile text, read in bounds and through no link. All that they can choose is a version that rooms see anyway.

use super::{Ecosystem, Toolchain, Toolchains, is_apart, node};
use crate::reader::Folder;
use std::path::{Path, PathBuf};

/// More than any file that names a version has.
const FILE_MAX: u64 = 64 * 1024;

impl Toolchains {
    /// The variables of a job in this project. `files` is the project as the job sees it, `cwd` where in it the job begins; a job without
    /// network is told so, and makes do with caches at once. Blocks.
    pub fn environment(&self, project: &Path, files: Option<&Folder>, cwd: &Path, is_offline: bool) -> Vec<(String, String)> {
        // A cache in the project has no layer of its own, and what a tool wrote there would be a change of the project.
        let has_layers = |found: &&Toolchain| found.shares.iter().all(|share| share.layer.is_none() || is_apart(share, project));
        let mut variables: Vec<(String, String)> = Vec::new();
        for found in self.chosen().filter(has_layers) {
            variables.extend(found.variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            variables.extend(found.offline.iter().filter(|_| is_offline).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        }
        let mut first: Vec<PathBuf> = Vec::new();
        if let Some(files) = files {
            if self.choice.has(Ecosystem::Python)
                && let Some(name) = [".venv", "venv"].into_iter().find(|name| files.has_file(&format!("{name}/pyvenv.cfg")))
                && let Some(place) = project.join(name).to_str()
            {
                variables.push(("VIRTUAL_ENV".to_owned(), place.to_owned()));
                first.push(project.join(name).join("bin"));
            }
            if self.choice.has(Ecosystem::Node) && !self.nodes.is_empty() {
                first.extend(self.node_wanted(files).map(|version| version.bin.clone()));
            }
            if self.choice.has(Ecosystem::Rust) {
                variables.extend(self.rust_wanted(files, cwd).map(|name| ("RUSTUP_TOOLCHAIN".to_owned(), name)));
            }
        }
        if !first.is_empty() || !self.path.is_empty() {
            let rest = if self.path.is_empty() { super::SYSTEM_PATH.iter().map(PathBuf::from).collect() } else { self.path.clone() };
            // A folder with a colon in its name cannot be on a PATH.
            let entries =
                first.into_iter().chain(rest).filter_map(|entry| entry.to_str().map(str::to_owned)).filter(|entry| !entry.contains(':'));
            variables.push(("PATH".to_owned(), entries.collect::<Vec<_>>().join(":")));
        }
        variables
    }

    fn node_wanted(&self, files: &Folder) -> Option<&node::NodeVersion> {
        let text = |name: &str| files.read(name, FILE_MAX).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pinned = || {
            let package: serde_json::Value = serde_json::from_str(&text("package.json")?).ok()?;
            Some(package["volta"]["node"].as_str()?.to_owned())
        };
        let wanted = text(".nvmrc").or_else(|| text(".node-version")).or_else(pinned)?;
        node::choose(wanted.lines().next()?, &self.nodes, &self.node_aliases)
    }

    /// The toolchain that the nearest `rust-toolchain.toml` names, if it is installed: rustup would fetch what it lacks of its components.
    fn rust_wanted(&self, files: &Folder, cwd: &Path) -> Option<String> {
        if self.rusts.is_empty() {
            return None;
        }
        // No folder above the project, and none that a `..` leads to.
        let plain = cwd.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let text = cwd.ancestors().filter(|folder| plain || folder.as_os_str().is_empty()).find_map(|folder| {
            let names = ["rust-toolchain.toml", "rust-toolchain"];
            let bytes = names.iter().find_map(|name| files.read(folder.join(name), FILE_MAX).ok())?;
            String::from_utf8(bytes).ok()
        })?;
        let channel = channel(&text)?;
        // `stable` is installed as `stable-x86_64-unknown-linux-gnu`, and is not `stable-2024-05-02-…`.
        let is_it = |name: &&String| {
            name.strip_prefix(channel).is_some_and(|rest| {
                rest.is_empty() || rest.strip_prefix('-').is_some_and(|host| host.starts_with(|first: char| first.is_ascii_alphabetic()))
            })
        };
        self.rusts.iter().find(is_it).cloned()
    }
}

/// The channel of a `rust-toolchain.toml`, or of its older form, which is nothing but the name.
fn channel(text: &str) -> Option<&str> {
    let is_name = |word: &&str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
    let named = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "channel").then(|| value.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']))
    });
    match named {
        Some(name) => Some(name).filter(is_name),
        None => Some(text.trim()).filter(is_name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_read_from_both_forms() {
        for (text, expected) in [
            ("[toolchain]\nchannel = \"1.80\" # why\ncomponents = [\"clippy\"]\n", Some("1.80")),
            ("stable\n", Some("stable")),
            ("[toolchain]\npath = \"/somewhere\"\n", None),
            ("channel = \"../../x\"", None),
            ("", None),
        ] {
            assert_eq!(channel(text), expected, "{text}");
        }
    }
}
