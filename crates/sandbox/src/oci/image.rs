//! The image of every container: mount points, links and two small files. Programs and libraries are the host's, bound read-only.
//!
//! Built here from what the host has, so there is nothing to pull and nothing to keep up to date. Its name is the hash of its
//! content.

use std::fs;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::Inner;
use super::guest;
use crate::fault::SandboxError;
use crate::holder::tree;

impl Inner {
    /// The image's name; imported on first use.
    pub(super) async fn image(&self) -> Result<&str, SandboxError> {
        self.image.get_or_try_init(|| self.import()).await.map(String::as_str)
    }

    async fn import(&self) -> Result<String, SandboxError> {
        let archive = self.archive().map_err(SandboxError::io("listing the host's system folders"))?;
        let digest = Sha256::digest(&archive);
        let hash: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        // The hash is part of the repository's name: Podman 4 ignores the tag of an import.
        let repository = format!("localhost/skep-room-{hash}");
        let name = format!("{repository}:latest");
        if self.api.has_image(&name).await {
            return Ok(name);
        }
        self.api.import_image(&repository, "latest", archive).await.map_err(self.fault("importing its image"))?;
        Ok(name)
    }

    fn archive(&self) -> std::io::Result<Vec<u8>> {
        let mut archive = Archive::default();
        // A tmpfs takes its mode from the folder that it covers.
        archive.entry("tmp/", b'5', 0o1777, "", b"");
        for folder in ["dev", "etc", "proc", "run", "sys", guest::LINK_FOLDER.trim_start_matches('/')] {
            archive.folder(folder);
        }
        let (passwd, group) = tree::accounts(self.user);
        archive.file("etc/passwd", passwd.as_bytes());
        archive.file("etc/group", group.as_bytes());
        for (name, text) in tree::TOLD {
            name.rsplit_once('/').into_iter().for_each(|(folder, _)| archive.folder(folder));
            archive.file(name, text.as_bytes());
        }
        archive.file(guest::PROGRAM.trim_start_matches('/'), b"");
        for (name, kind) in host_paths() {
            match kind {
                HostPath::Link => {
                    let target = fs::read_link(Path::new("/").join(&name))?;
                    archive.link(&name, &target.to_string_lossy());
                }
                HostPath::Folder => archive.folder(&name),
                HostPath::File => archive.file(&name, b""),
            }
        }
        Ok(archive.end())
    }
}

pub(super) enum HostPath {
    Link,
    Folder,
    File,
}

/// What a room sees of the host's system, relative to the root.
pub(super) fn host_paths() -> Vec<(String, HostPath)> {
    let names = tree::SYSTEM.iter().map(|name| (*name).to_owned()).chain(tree::ETC.iter().map(|name| format!("etc/{name}")));
    let kind = |name: String| {
        let kind = fs::symlink_metadata(Path::new("/").join(&name)).ok()?.file_type();
        let kind = match (kind.is_symlink(), kind.is_dir()) {
            (true, _) => HostPath::Link,
            (_, true) => HostPath::Folder,
            _ => HostPath::File,
        };
        Some((name, kind))
    };
    // The engine has a file of its own there.
    names.filter(|name| name != "etc/hosts").filter_map(kind).collect()
}

/// A tar archive (ustar) with names under a hundred bytes, all of root and of no time.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
}

impl Archive {
    const BLOCK: usize = 512;

    fn folder(&mut self, name: &str) {
        self.entry(&format!("{name}/"), b'5', 0o755, "", b"");
    }

    fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, b'0', 0o644, "", content);
    }

    fn link(&mut self, name: &str, target: &str) {
        self.entry(name, b'2', 0o777, target, b"");
    }

    fn entry(&mut self, name: &str, kind: u8, mode: u32, target: &str, content: &[u8]) {
        let mut header = [0; Archive::BLOCK];
        let mut put = |at: usize, length: usize, text: &[u8]| {
            let length = length.min(text.len());
            header[at..at + length].copy_from_slice(&text[..length]);
        };
        put(0, 100, name.as_bytes());
        put(100, 8, format!("{mode:07o}\0").as_bytes());
        put(108, 8, b"0000000\0");
        put(116, 8, b"0000000\0");
        put(124, 12, format!("{:011o}\0", content.len()).as_bytes());
        put(136, 12, b"00000000000\0");
        put(148, 8, b"        ");
        put(156, 1, &[kind]);
        put(157, 100, target.as_bytes());
        put(257, 8, b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend(header);
        self.bytes.extend(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(Archive::BLOCK), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * Archive::BLOCK, 0);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the host's own tar reads it.
    #[test]
    fn the_archive_is_a_tar() {
        let mut archive = Archive::default();
        archive.folder("etc");
        archive.file("etc/name", b"skep\n");
        archive.link("bin", "usr/bin");
        let folder = tempfile::tempdir().unwrap();
        let tar = folder.path().join("image.tar");
        fs::write(&tar, archive.end()).unwrap();
        let listed = std::process::Command::new("tar").args(["--extract", "--file"]).arg(&tar).current_dir(folder.path()).status();
        assert!(listed.unwrap().success());
        assert_eq!(fs::read_to_string(folder.path().join("etc/name")).unwrap(), "skep\n");
        assert_eq!(fs::read_link(folder.path().join("bin")).unwrap(), Path::new("usr/bin"));
    }
}
