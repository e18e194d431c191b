//! The tier of a process bounds the models that it asks for, with the real gateway.

use crate::tree_site::{TreeSite, ended};

#[test]
fn a_process_asks_for_no_model_of_a_higher_tier() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("model.txt");
    std::fs::write(&script, "on \"question\"\n  say It is so.\n").unwrap();
    let tree = TreeSite::new(&format!(
        "providers: {{demo: {{url: \"script:{}\"}}}}\nmodels: {{strategic: demo/dear, operational: demo/cheap}}\n",
        script.display()
    ));
    let spawn = |name: &str, tier: &str, model: &str| {
        tree.spawn(&[name, "--role", "agent", "--tier", tier, "--model", model, "--python", "shows:Asks"]);
    };
    for (name, model) in [("by-tier", "strategic"), ("by-name", "demo/dear"), ("unlisted", "demo/unknown")] {
        spawn(name, "operational", model);
        let (code, said) = ended(tree.exec_beside(name, &["question"]));
        assert!(code != Some(0) && said.contains("builtin:model-tier"), "{model}: {said}");
    }
    spawn("cheap", "operational", "operational");
    assert_eq!(tree.exec("cheap", &["question"]), "It is so.");
    spawn("crown", "strategic", "demo/dear");
    assert_eq!(tree.exec("crown", &["question"]), "It is so.");
    tree.ends_clean();
}
