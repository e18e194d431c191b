//! The long form of tests that have a short one: `SKEP_SOAK` is set, and they take many more rounds, kills, rooms and seeds.

use crate::run::{cargo, run};
use crate::test::{has_nextest, install_needs};
use anyhow::{Result, ensure};

/// Name of a soak, and a part of the names of its tests that no other test has.
const SOAKS: &[(&str, &str)] = &[
    ("kills", "killed_before_each"),
    ("merge", "killed_at_each_step_of_a_merge"),
    ("undo", "killed_at_each_step_of_an_undo"),
    ("power", "power_goes"),
    ("edits", "edits::edits_"),
    ("merges", "overlays_of_any_kind"),
    ("tasks", "work_in_rooms"),
    ("rooms", "many_rooms_leave_nothing"),
    ("trees", "random_trees_under_random_kills"),
    ("watches", "a_job_does_not_keep_all_epoll_watches"),
    ("containers", "podman::root::"),
    ("policies", "every_call_is_judged_by_the_policy_that_was_in_force"),
    ("laws", "laws::"),
    ("view", "what_is_shown_may_be_read"),
    ("budgets", "nobody_overspends"),
    ("books", "the_books_say_what_went_out"),
    ("clients", "completes_a_scripted_task"),
    ("brains", "survives_kills"),
    ("agents", "works_in_a_container"),
];

/// All soaks, or those that are named.
pub fn soak(names: &[String]) -> Result<()> {
    for name in names {
        let known: Vec<&str> = SOAKS.iter().map(|(soak, _)| *soak).collect();
        ensure!(known.contains(&name.as_str()), "there is no soak `{name}`\n  there are: {}", known.join(", "));
    }
    install_needs()?;
    let nextest = has_nextest();
    for (name, part) in SOAKS.iter().filter(|(name, _)| names.is_empty() || names.iter().any(|wanted| wanted == name)) {
        eprintln!("soak {name}");
        let mut command = cargo();
        match nextest {
            true => command.args(["nextest", "run", "--workspace", "--profile", "soak", "--no-tests", "fail", part]),
            false => command.args(["test", "--workspace", "--", part]),
        };
        run(command.env("SKEP_SOAK", "1"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// All names of files and all their text below a folder.
    fn sources(folder: &Path, text: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten() {
            let path = entry.path();
            text.push_str(&path.to_string_lossy());
            if path.is_dir() {
                sources(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&std::fs::read_to_string(&path).unwrap_or_default());
            }
        }
    }

    #[test]
    fn every_soak_names_tests_that_there_are() {
        let mut text = String::new();
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates"), &mut text);
        for (name, part) in SOAKS {
            let words: Vec<&str> = part.split("::").filter(|word| !word.is_empty()).collect();
            assert!(!words.is_empty() && words.iter().all(|word| text.contains(word)), "soak {name}: `{part}`");
        }
    }
}
