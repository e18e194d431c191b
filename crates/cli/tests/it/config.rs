//! `skep config show`: which value counts, and where it comes from.

use crate::common::{HOLDS, Site, text};
use serde_json::Value;

fn site() -> Site {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS), ("skep.yml", "# ours\nbrain: claude\n")]);
    std::fs::create_dir_all(site.home()).unwrap();
    let config = "brain: codex\nbrain_idle: 5m\nenvironment: { COLOUR: blue }\nproviders: { own: { url: 'http://127.0.0.1:9', free: true, dialect: chat } }\n";
    std::fs::write(site.home().join("config.yml"), config).unwrap();
    site
}

fn setting(site: &Site, key: &str, variables: &[(&str, &str)], more: &[&str]) -> Value {
    let mut command = site.command(&[&["config", "show", key, "--json"], more].concat());
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    serde_json::from_slice::<Value>(&output.stdout).unwrap()[0].clone()
}

#[test]
fn each_layer_counts_before_the_next() {
    let site = site();
    let told = |variables: &[(&str, &str)], more: &[&str]| {
        let found = setting(&site, "brain", variables, more);
        (found["value"].as_str().unwrap().to_owned(), found["origin"]["layer"].as_str().unwrap().to_owned())
    };
    let is = |value: &str, layer: &str| (value.to_owned(), layer.to_owned());
    assert_eq!(told(&[("SKEP_BRAIN", "gemini")], &["--brain", "native"]), is("native", "flag"));
    assert_eq!(told(&[("SKEP_BRAIN", "gemini")], &[]), is("gemini", "environment"));
    assert_eq!(told(&[], &[]), is("claude", "project"));
    assert_eq!(setting(&site, "brain", &[], &[])["origin"]["line"], 2);
    std::fs::remove_file(site.project().join("skep.yml")).unwrap();
    assert_eq!(told(&[], &[]), is("codex", "home"));
    std::fs::remove_file(site.home().join("config.yml")).unwrap();
    assert_eq!(told(&[], &[]).1, "built-in");
}

#[test]
fn a_table_says_where_and_what_is_overridden_and_hides_what_may_be_secret() {
    let site = site();
    let shown = site.ok(&["config", "show", "--origin"]);
    for part in ["skep.yml:2", "config.yml:1 (overridden)", "(set, not shown)", "built-in", "$NO_COLOR"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("blue"), "{shown}");
    let plain = site.ok(&["config", "show", "brain_idle"]);
    assert_eq!(plain.trim(), "brain_idle  5m");
    assert!(site.ok(&["config", "show", "providers"]).contains("providers.own.url"));
    let unknown = site.fails(5, &["config", "show", "brian"]);
    assert!(unknown.contains("`brain`, if you meant that"), "{unknown}");
    std::fs::write(site.home().join("config.yml"), "brain: [\n").unwrap();
    assert!(site.fails(14, &["config", "show"]).contains("cannot read"));
}

#[test]
fn the_brain_of_the_environment_does_a_task_that_names_none() {
    let site = Site::new(&[(".skep/policy.yaml", HOLDS)]);
    site.trust();
    let script = site.project().join("said.txt");
    std::fs::write(&script, "done by the environment\n").unwrap();
    let brain = format!("script:{}", script.display());
    let output = site.command(&["ask", "who?", "--await"]).env("SKEP_BRAIN", &brain).output().unwrap();
    assert!(text(&output).contains("by the environment"), "{}", text(&output));
    // A flag counts before it.
    let other = site.project().join("other.txt");
    std::fs::write(&other, "done by the flag\n").unwrap();
    let flag = format!("script:{}", other.display());
    let output = site.command(&["ask", "who?", "--await", "--brain", &flag]).env("SKEP_BRAIN", &brain).output().unwrap();
    assert!(text(&output).contains("by the flag"), "{}", text(&output));
}
