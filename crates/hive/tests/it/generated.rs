//! The generated code is what today's protos and generator make. `SKEP_UPDATE=1` writes it again.

use std::fs;
use std::path::{Path, PathBuf};

const FILES: [(&str, &str); 2] = [("hivekernel.agent.rs", "agent.rs"), ("hivekernel.core.rs", "core.rs")];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// What the generator makes, by the name that each file has in `src/generated`.
fn made() -> Vec<(&'static str, String)> {
    let protos = protox::compile(["agent.proto", "core.proto"], [folder("proto")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    // Clients come without `connect`, which would need tonic's own transport. Maps are ordered: what is sent twice is the same twice.
    let builder = tonic_prost_build::configure().build_transport(false).btree_map(".").out_dir(out.path());
    builder.compile_fds(protos).unwrap();
    FILES.iter().map(|(made, kept)| (*kept, fs::read_to_string(out.path().join(made)).unwrap())).collect()
}

#[test]
fn the_generated_code_is_of_these_protos() {
    for (name, made) in made() {
        let path = folder("src/generated").join(name);
        if std::env::var_os("SKEP_UPDATE").is_some() {
            fs::write(&path, &made).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(made.len() > 10_000, "{name}: the generator made {} bytes", made.len());
        assert!(kept == made, "{} differs from what the protos make: SKEP_UPDATE=1 writes it again", path.display());
    }
}
