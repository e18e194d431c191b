//! Toolchains and caches of the host in rooms: what jobs see of them, and where their writes go.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use sandbox::{HostShare, SandboxError};

use super::host::{Host, Test, sh, text};

pub const TESTS: &[Test] = &[
    ("a_toolchain_is_read_only_and_its_masks_hold", toolchain),
    ("a_cache_is_changed_in_a_layer_that_stays", cache),
    ("a_share_that_is_gone_is_left_out", gone),
    ("a_share_is_apart_from_project_and_system", apart),
    ("what_is_written_into_layers_counts", counted),
];

/// Files of the host beside the project, in folders that only their owner may enter.
fn outside(host: &Host, files: &[(&str, &str)]) -> PathBuf {
    let top = host.folder.path().join("person");
    for (name, content) in files {
        let path = top.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let mut folders = vec![top.clone()];
    while let Some(folder) = folders.pop() {
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
        folders.extend(fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_dir()));
    }
    top
}

fn toolchain(host: &Host) {
    let top = outside(
        host,
        &[("tools/bin/hello", "#!/bin/sh\necho hello\n"), ("tools/etc/token", "secret-text"), ("beside/token", "secret-text")],
    );
    fs::set_permissions(top.join("tools/bin/hello"), PermissionsExt::from_mode(0o700)).unwrap();
    symlink(top.join("beside"), top.join("tools/link")).unwrap();
    let mut spec = host.spec("tools");
    let share = |target: &str| HostShare {
        masked: vec!["etc/token".into(), "not/there".into()],
        ..HostShare::read_only(top.join("tools"), target)
    };
    spec.shares = vec![share("/opt/tools"), share("/tmp/carried/tools")];
    let workspace = host.open_with(spec).unwrap();
    for place in ["/opt/tools", "/tmp/carried/tools"] {
        assert_eq!(text(&host.sh(&workspace, &format!("{place}/bin/hello"))), "hello");
        for hidden in ["etc/token", "link/token"] {
            assert!(!host.sh(&workspace, &format!("cat {place}/{hidden}")).exit.success(), "{place}/{hidden}");
        }
        let write = format!("echo x > {place}/new || echo x >> {place}/bin/hello || rm {place}/bin/hello || chmod 777 {place}");
        assert!(!host.sh(&workspace, &write).exit.success());
    }
    // Neither the folder above it nor what lies beside it is there.
    assert!(!host.sh(&workspace, &format!("ls {}", top.display())).exit.success());
}

fn cache(host: &Host) {
    let top =
        outside(host, &[("cache/kept", "old"), ("cache/gone", "old"), ("cache/deep/er", "old"), ("bin/tool", "#!/bin/sh\necho tool\n")]);
    fs::set_permissions(top.join("bin/tool"), PermissionsExt::from_mode(0o755)).unwrap();
    let spec = |name: &str| {
        let mut spec = host.spec(name);
        spec.shares = vec![
            HostShare::layered(None, "/opt/own", "own"),
            HostShare::read_only(top.join("bin"), "/opt/own/bin"),
            HostShare::layered(Some(top.join("cache")), "/opt/own/cache", "own-cache"),
        ];
        spec
    };
    let look = "cd /opt/own; cat cache/kept cache/deep/er; ls -1 cache; ls -1A . | tr '\\n' ' '";
    {
        let workspace = host.open_with(spec("first")).unwrap();
        assert_eq!(text(&host.sh(&workspace, look)), "oldolddeep\ngone\nkept\nbin cache");
        let change =
            "cd /opt/own; echo new > cache/kept; rm cache/gone; echo more >> cache/deep/er; echo > cache/added; echo > lock; bin/tool";
        assert_eq!(text(&host.sh(&workspace, change)), "tool");
        assert!(!host.sh(&workspace, "echo > /opt/own/bin/x").exit.success());
        assert_eq!(text(&host.sh(&workspace, look)), "new\noldmore\nadded\ndeep\nkept\nbin cache lock");
        // None of it is a change of the project.
        assert!(host.block_on(workspace.changes()).unwrap().changes.is_empty());
        host.block_on(workspace.close()).unwrap();
    }
    let again = host.open_with(spec("first")).unwrap();
    assert_eq!(text(&host.sh(&again, look)), "new\noldmore\nadded\ndeep\nkept\nbin cache lock");
    let other = host.open_with(spec("second")).unwrap();
    assert_eq!(text(&host.sh(&other, look)), "oldolddeep\ngone\nkept\nbin cache");
    let read = |name: &str| fs::read_to_string(top.join("cache").join(name)).unwrap();
    assert_eq!((read("kept"), read("gone"), read("deep/er")), ("old".into(), "old".into(), "old".into()));
    assert_eq!(fs::read_dir(top.join("cache")).unwrap().count(), 3);
}

fn gone(host: &Host) {
    let top = outside(host, &[("there/file", "seen")]);
    let mut spec = host.spec("gone");
    spec.shares = vec![
        HostShare::read_only(top.join("nothing"), "/opt/nothing"),
        HostShare::read_only(top.join("there"), "/opt/there"),
        HostShare::read_only(top.join("there/file"), "/opt/one/file"),
    ];
    let workspace = host.open_with(spec).unwrap();
    assert_eq!(text(&host.sh(&workspace, "cat /opt/there/file /opt/one/file; ls /opt/nothing 2>/dev/null || echo none")), "seenseennone");
}

fn apart(host: &Host) {
    let top = outside(host, &[("there/file", "seen")]);
    let project = host.project().display().to_string();
    let inside = format!("{project}/tools");
    for target in
        ["/", "/usr", "/usr/local/x", "/etc/x", "/proc/x", "/dev/x", "/tmp", "relative", "/opt/../x", project.as_str(), inside.as_str()]
    {
        let mut spec = host.spec("no");
        spec.shares = vec![HostShare::read_only(top.join("there"), target)];
        assert!(matches!(host.open_with(spec), Err(SandboxError::Project { .. })), "{target}");
    }
    for layer in ["", "a/b", "..", "a,b"] {
        let mut spec = host.spec("no");
        spec.shares = vec![HostShare::layered(Some(top.join("there")), "/opt/there", layer)];
        assert!(matches!(host.open_with(spec), Err(SandboxError::Project { .. })), "{layer}");
    }
}

fn counted(host: &Host) {
    let mut spec = host.spec("full");
    spec.shares = vec![HostShare::layered(None, "/opt/own", "own")];
    let workspace = host.open_with(spec).unwrap();
    let mut job = sh("while :; do head -c 1000000 /dev/zero >> /opt/own/file; done");
    job.limits.disk_bytes = Some(8 << 20);
    let outcome = host.run(&workspace, job).unwrap();
    assert!(outcome.overfull.is_some(), "{outcome:?}");
}
