//! A real terminal: tmux shows what a person would see and presses the keys.

use super::Site;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The sizes that every screen is looked at in: columns and rows.
pub const SMALL: (u16, u16) = (80, 24);
pub const LARGE: (u16, u16) = (120, 40);

/// A terminal of its own server, so that nobody's sessions are touched.
pub struct Screen {
    socket: std::path::PathBuf,
}

impl Screen {
    /// Starts `skep` with these arguments; when it has ended the screen stays and shows its exit code.
    pub fn open(site: &Site, term: &str, arguments: &str) -> Screen {
        Screen::open_with(site, term, "", arguments)
    }

    /// The same behind a command such as `env`.
    pub fn open_with(site: &Site, term: &str, before: &str, arguments: &str) -> Screen {
        Screen::start(site, term, before, arguments, (100, 40))
    }

    /// The same with so many columns and rows.
    pub fn sized(site: &Site, term: &str, arguments: &str, size: (u16, u16)) -> Screen {
        Screen::start(site, term, "", arguments, size)
    }

    fn start(site: &Site, term: &str, before: &str, arguments: &str, size: (u16, u16)) -> Screen {
        let skep = env!("CARGO_BIN_EXE_skep");
        let line = format!(
            "TERM={term} {before} {skep} {arguments}; echo \"left with $?\"; stty -a | tr ';' '\\n' | grep -o -- '-\\?\\(icanon\\|echo\\) '; sleep 600"
        );
        Screen::run(site, &line, size)
    }

    /// Starts any command.
    pub fn run(site: &Site, line: &str, (columns, rows): (u16, u16)) -> Screen {
        static OPENED: AtomicUsize = AtomicUsize::new(0);
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let screen = Screen { socket: site.folder.path().join(format!("tmux-{number}")) };
        let mut tmux = screen.tmux();
        tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", &columns.to_string(), "-y", &rows.to_string()])
            .arg(line)
            .current_dir(site.project());
        tmux.env("SKEP_HOME", site.home()).env("NO_COLOR", "1");
        assert!(tmux.status().expect("tmux is installed by `cargo xtask test`").success());
        screen
    }

    /// Starts a line of the shell with an environment of its own.
    pub fn shell(site: &Site, line: &str, (columns, rows): (u16, u16), environment: impl FnOnce(&mut Command)) -> Screen {
        // A server that ends still holds its socket.
        let socket = tempfile::Builder::new().prefix("tmux-").make_in(site.folder.path(), |path| Ok(path.to_owned()));
        let screen = Screen { socket: socket.unwrap().into_temp_path().to_path_buf() };
        let mut tmux = screen.tmux();
        environment(&mut tmux);
        tmux.env("TERM", "xterm-256color").args(["-f", "/dev/null", "new-session", "-d"]);
        tmux.args(["-x", &columns.to_string(), "-y", &rows.to_string()]).arg(format!("TERM=xterm-256color {line}"));
        assert!(tmux.current_dir(site.project()).status().expect("tmux is installed by `cargo xtask test`").success());
        screen
    }

    /// Everything that was printed, from the first line on.
    pub fn history(&self) -> String {
        let output = self.tmux().args(["capture-pane", "-p", "-S", "-"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
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

    /// Presses these keys until the screen shows all of these at once. Vendors' clients drop keys: one that draws before it reads, one that
    /// takes an Enter close behind typed text for a part of a paste, one that still looks for completions. A person presses again.
    #[track_caller]
    pub fn press_until(&self, keys: &[&str], parts: &[&str]) -> String {
        self.press_while(keys, |text| !parts.iter().all(|part| text.contains(part)))
    }

    /// Types a line into a client until it stands on the screen. What arrived of it before is taken back.
    #[track_caller]
    pub fn types(&self, line: &str) {
        self.press(&["-l", line]);
        let end = Instant::now() + Duration::from_secs(180);
        let mut typed = Instant::now();
        while !self.text().contains(line) {
            assert!(Instant::now() < end, "`{line}` was typed in vain:\n{}", self.text());
            if typed.elapsed() > Duration::from_secs(10) {
                self.press(&["C-u"]);
                self.press(&["-l", line]);
                typed = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses these keys for as long as this can be said of the screen.
    #[track_caller]
    pub fn press_while(&self, keys: &[&str], waits: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + Duration::from_secs(180);
        let mut pressed: Option<Instant> = None;
        loop {
            let text = self.text();
            if !waits(&text) {
                return text;
            }
            assert!(Instant::now() < end, "{keys:?} were pressed in vain:\n{text}");
            if pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(10)) {
                self.press(keys);
                pressed = Some(Instant::now());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen shows all of these at once.
    #[track_caller]
    pub fn shows(&self, parts: &[&str]) -> String {
        let end = Instant::now() + Duration::from_secs(120);
        loop {
            let text = self.text();
            if parts.iter().all(|part| text.contains(part)) {
                return text;
            }
            assert!(Instant::now() < end, "{parts:?} is not on the screen:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen shows this no more.
    #[track_caller]
    pub fn lacks(&self, part: &str) {
        let end = Instant::now() + Duration::from_secs(120);
        while self.text().contains(part.trim_end()) {
            assert!(Instant::now() < end, "`{part}` is still on the screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(self.tmux().arg("kill-server").output());
    }
}
