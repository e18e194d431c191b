//! A real terminal: tmux shows what a person would see and presses the keys.

use super::Site;
use std::process::Command;
use std::time::{Duration, Instant};

/// A terminal of its own server, so that nobody's sessions are touched.
pub struct Screen {
    socket: std::path::PathBuf,
}

impl Screen {
    /// Starts `skep` with these arguments; when it has ended the screen stays and shows its exit code.
    pub fn open(site: &Site, term: &str, arguments: &str) -> Screen {
        let screen = Screen { socket: site.folder.path().join(format!("tmux-{}", arguments.len())) };
        let skep = env!("CARGO_BIN_EXE_skep");
        let line = format!(
            "TERM={term} {skep} {arguments}; echo \"left with $?\"; stty -a | tr ';' '\\n' | grep -o -- '-\\?\\(icanon\\|echo\\) '; sleep 600"
        );
        let mut tmux = screen.tmux();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40"]).arg(line).current_dir(site.project());
        tmux.env("SKEP_HOME", site.home()).env("NO_COLOR", "1");
        assert!(tmux.status().expect("tmux is installed by `cargo xtask test`").success());
        screen
    }

    pub fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(&self.socket).env_remove("TMUX").env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").arg("-u");
        tmux
    }

    pub fn text(&self) -> String {
        let output = self.tmux().args(["capture-pane", "-p"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn press(&self, keys: &[&str]) {
        assert!(self.tmux().arg("send-keys").args(keys).status().unwrap().success());
    }

    /// Waits until the screen shows all of these at once.
    #[track_caller]
    pub fn shows(&self, parts: &[&str]) -> String {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let text = self.text();
            if parts.iter().all(|part| text.contains(part)) {
                return text;
            }
            assert!(Instant::now() < end, "{parts:?} is not on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(self.tmux().arg("kill-server").output());
    }
}
