//! Completions in the shells themselves: what a person sees after the tab key.

use crate::common::provider::eventually;
use crate::common::screen::Screen;
use crate::common::{HOLDS, Site};
use std::path::Path;

/// What is typed behind `skep`, and what the tab key then shows: candidates, or the rest of the only one.
const SHOWN: &[(&str, &[&str])] = &[
    // The first key of all loads the script, and knows names already.
    ("watch ", &["task-1", "task-2"]),
    ("merge undo t", &["task-1", "task-2"]),
    ("call fs.read --task ", &["task-1", "task-2"]),
    ("review deny ", &["r-2", "r-3"]),
    ("grant revoke ", &["revoke g-1"]),
    ("act x --brain na", &["native", "native:fast", "native:tactical"]),
    ("act x --brain native:f", &["--brain native:fast"]),
    ("act x --brain=native:f", &["--brain=native:fast"]),
    ("act x --model f", &["--model fast"]),
    ("act x --model=p/", &["--model=p/big"]),
    // The control: where no name is wanted, commands, options and files are known as before.
    ("kernel sta", &["start", "status"]),
    ("act x --brai", &["act x --brain"]),
    ("merge import only-", &["import only-file.patch"]),
];

/// Two tasks whose changes wait, a grant, and a model by name.
fn site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS), ("only-file.patch", "x\n")]);
    std::fs::create_dir(site.home()).unwrap();
    let config = "providers: {p: {url: 'http://127.0.0.1:1', dialect: chat, models: [big]}}\nmodels: {tactical: p/big, fast: p/big}\n";
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site.trust();
    let brain = site.script("call fs.write path=a.txt content=x\ncall fs.list path=.\ndone\n");
    site.ok(&["act", "first", "--brain", &brain]);
    eventually("it asks", || site.is("task-1", "parked"));
    site.ok(&["review", "allow", "r-1", "--for", "zone"]);
    eventually("it proposes", || site.task("task-1")["review"] == "r-2");
    site.ok(&["act", "second", "--brain", &brain]);
    eventually("it proposes too", || site.task("task-2")["review"] == "r-3");
    site
}

/// Writes the script for a shell to a file, as the help says.
fn install(site: &Site, shell: &str, file: &str) -> std::path::PathBuf {
    let folder = site.folder.path().join("completions");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(file), site.ok(&["completions", shell])).unwrap();
    folder
}

fn complete_all(site: &Site, shell: &str) {
    let bin = Path::new(env!("CARGO_BIN_EXE_skep")).parent().unwrap();
    let screen = Screen::run(site, &format!("PATH={}:$PATH HOME={} {shell}", bin.display(), site.folder.path().display()), (100, 30));
    screen.shows(&["ready>"]);
    for (typed, shown) in SHOWN {
        let line = format!("skep {typed}");
        screen.press(&["-l", &line]);
        screen.shows(&[line.trim_end()]);
        screen.press(&["Tab"]);
        screen.shows(shown);
        // An empty line on an empty screen.
        screen.press(&["C-u", "C-l"]);
        shown.iter().chain([&line.as_str()]).for_each(|part| screen.lacks(part));
    }
}

#[test]
fn bash_completes_names() {
    let site = site();
    let folder = install(&site, "bash", "skep");
    let rc = folder.join("rc");
    let lines = format!(
        "PS1='ready> '\nbind 'set show-all-if-ambiguous on'\nbind 'set enable-bracketed-paste off'\n. {}\n",
        folder.join("skep").display()
    );
    std::fs::write(&rc, lines).unwrap();
    complete_all(&site, &format!("bash --noprofile --rcfile {} -i", rc.display()));
}

#[test]
fn zsh_completes_names() {
    let site = site();
    let folder = install(&site, "zsh", "_skep");
    let lines =
        format!("PS1='ready> '\nunsetopt LIST_AMBIGUOUS\nfpath=({} $fpath)\nautoload -Uz compinit\ncompinit -u -D\n", folder.display());
    std::fs::write(folder.join(".zshrc"), lines).unwrap();
    complete_all(&site, &format!("ZDOTDIR={} zsh -d -i", folder.display()));
}

#[test]
fn fish_completes_names() {
    let site = site();
    let folder = install(&site, "fish", "skep.fish");
    let prompt = "function fish_prompt; echo \"ready> \"; end; function fish_right_prompt; end";
    let lines =
        format!("{prompt}\nset -g fish_greeting\nset -g fish_autosuggestion_enabled 0\nsource {}\n", folder.join("skep.fish").display());
    std::fs::write(folder.join("rc.fish"), lines).unwrap();
    complete_all(&site, &format!("fish --no-config --private -i -C 'source {}'", folder.join("rc.fish").display()));
}
