//! A key out of the desktop's own keyring: a real one, on a bus of its own, unlocked for this test.

use crate::bed::Bed;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A session bus, and a keyring that ends with it.
struct Bus {
    daemon: Child,
    environment: Vec<String>,
}

impl Bus {
    fn new(home: &Path) -> Bus {
        let mut daemon = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--print-address"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("dbus-daemon is missing: `cargo xtask test` installs it");
        let mut address = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let home = home.display();
        let environment = vec![
            "-i".to_owned(),
            format!("PATH={}", std::env::var("PATH").unwrap()),
            format!("HOME={home}"),
            format!("XDG_RUNTIME_DIR={home}"),
            format!("DBUS_SESSION_BUS_ADDRESS={}", address.trim()),
        ];
        let bus = Bus { daemon, environment };
        bus.run(&["gnome-keyring-daemon", "--unlock", "--components=secrets"], "a password");
        bus
    }

    fn run(&self, words: &[&str], input: &str) {
        let mut child = Command::new("env")
            .args(&self.environment)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{words:?}: {status}");
    }

    /// What stands in `config.yml` as `keyring`, in the environment of this bus.
    fn lookup(&self) -> Vec<String> {
        let words = ["secret-tool", "lookup", "service", "skep-test"].map(str::to_owned);
        [vec!["env".to_owned()], self.environment.clone(), words.to_vec()].concat()
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        drop(self.daemon.kill());
        drop(self.daemon.wait());
    }
}

#[tokio::test]
async fn a_key_comes_out_of_the_keyring_of_this_desktop() {
    let home = tempfile::tempdir().unwrap();
    let bus = Bus::new(home.path());
    let ring = gateway::KeySettings::Keyring(bus.lookup());
    let bed = Bed::with("", None, |settings, _| settings.providers.get_mut("anthropic").unwrap().key = Some(ring)).await;
    let answer = bed.post("/v1/messages", r#"{"model":"m"}"#).await;
    let said = String::from_utf8_lossy(&answer.body).to_string();
    assert!(answer.status() == 502 && said.contains("`env` gave no key") && said.contains("unlock the keyring"), "{said}");
    bus.run(&["secret-tool", "store", "--label=test", "service", "skep-test"], "sk-from-the-ring");
    assert_eq!(bed.post("/v1/messages", r#"{"model":"m"}"#).await.status(), 200);
    assert!(bed.heard()[0].contains("x-api-key: sk-from-the-ring\r\n"), "{}", bed.heard()[0]);
    assert_eq!(bed.heard().len(), 1);
    bed.rest().await;
}
