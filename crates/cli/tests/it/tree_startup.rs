//! What a tree begins with and is watched by: the three files of a startup folder, and a maid with her monitors.

use crate::tree_site::TreeSite;
use serde_json::json;
use std::fs;

#[test]
fn a_folder_of_three_files_gives_agents_budgets_and_tools() {
    let folder = tempfile::tempdir().unwrap();
    let agents = "agents:\n  - {name: queen, cog: tactical, limits: {children: 3}, budget: {total: 5k, tactical: 1k/day}}\n  - {name: scout, role: worker, parent: queen}\n";
    let budgets = "tactical: [2M/day, 150k/hour]\ntotal: 500000\nmoney: 20/day\n";
    let permissions = "daemon: [web]\nscout: [files, web]\n";
    for (name, text) in [("agents.yaml", agents), ("budgets.yaml", budgets), ("permissions.yaml", permissions)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let tree = TreeSite::new(&format!("grpc: {{startup: {}}}\n", folder.path().display()));
    tree.until("all are there", || tree.living().len() == 2);
    let spawned = tree.records("proc.spawned");
    let program = |name: &str| spawned.iter().find(|one| one["name"].as_str().unwrap().starts_with(name)).unwrap()["program"].clone();
    assert_eq!((&program("queen@")["tools"], &program("scout")["tools"]), (&json!(["web"]), &json!(["files", "web"])));
    assert_eq!(program("queen@")["limits"]["children"], 3);
    let budget = tree.site.json(&["budget"])["accounts"].as_array().unwrap().iter().find(|one| one["pid"] == 1).unwrap()["budget"].clone();
    assert_eq!((&budget["tokens"], &budget["tokens_per_day"]), (&json!({"all": 500_000}), &json!({"tactical": 2_000_000})), "{budget}");
    assert_eq!((&budget["tokens_per_hour"], &budget["micros_per_day"]), (&json!({"tactical": 150_000}), &json!(20_000_000)), "{budget}");
    let queen = spawned.iter().find(|one| one["name"].as_str().unwrap().starts_with("queen@")).unwrap()["pid"].to_string();
    let caps = tree.site.json(&["info", &queen])["caps"].to_string();
    assert!(caps.contains("tactical tokens a day") && caps.contains("5000"), "{caps}");
    tree.ends_clean();
}

#[test]
fn a_maid_has_monitors_that_escalate_to_the_person() {
    let tree = TreeSite::new("");
    let queen = tree.spawn(&["queen", "--role", "daemon", "--tier", "tactical", "--python", "shows:Passes"]);
    let maid = tree.spawn(&[
        "maid",
        "--role",
        "daemon",
        "--tier",
        "tactical",
        "--parent",
        "queen",
        "--python",
        "skep.maid:Maid",
        "--env",
        "MAID_MEMORY_PERCENT=0",
        "--env",
        "MAID_DISK_PERCENT=101",
        "--env",
        "MAID_SECONDS=1",
    ]);
    tree.until("a person is asked", || !tree.records("review.asked").is_empty());
    let names: Vec<String> = tree.living().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect();
    assert!(names.contains(&"memory-monitor".to_owned()) && names.contains(&"disk-monitor".to_owned()), "{names:?}");
    let raised = tree.records("escalation.raised");
    assert_eq!(raised.len(), 1, "the disk is not too full, and memory is told once: {raised:?}");
    assert_eq!(raised[0]["to"].as_u64(), Some(maid));
    assert!(raised[0]["issue"].as_str().unwrap().starts_with("memory: "), "{raised:?}");
    let passed = tree.records("escalation.passed");
    assert_eq!((passed[0]["pid"].as_u64(), passed[0]["to"].as_u64()), (Some(maid), Some(queen)), "{passed:?}");
    let said = tree.exec("maid", &["now"]);
    assert!(said.starts_with("memory ") && said.contains(" %, disk "), "{said}");
    tree.ends_clean();
}
