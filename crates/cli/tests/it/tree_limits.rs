//! Limits of the tree as its agents meet them, over gRPC with the real kernel and the real gateway.

use crate::tree_site::{TreeSite, ended};

/// Most of a budget is spent: who spends it, whose budget it is and those right below that one hear of it, each once, and nobody else.
#[test]
fn agents_hear_that_their_budget_comes_to_its_end() {
    let tree = TreeSite::new("");
    let spawn = |name: &str, parent: &[&str]| {
        let own = [name, "--role", "daemon", "--tier", "tactical", "--python", "limits:Listens"];
        tree.spawn(&[&own[..], parent].concat())
    };
    let queen = spawn("queen", &[]);
    spawn("one", &["--parent", "queen"]);
    spawn("low", &["--parent", "one"]);
    spawn("other", &[]);
    tree.site.ok(&["budget", "set", &queen.to_string(), "--tokens", "all=1000"]);
    // The control: half of it is nothing to be told of.
    tree.exec("low", &["spend 500"]);
    assert_eq!(tree.records("budget.warned").len(), 0);
    tree.exec("low", &["spend 350"]);
    let warning = "budget_warning: tokens 850 of 1000, by ";
    for name in ["queen", "one", "low"] {
        let heard = tree.exec(name, &["hear 1"]);
        assert!(heard.starts_with(warning), "{name}: {heard}");
    }
    // What comes behind it shows that nothing else came before.
    for name in ["queen", "one", "low", "other"] {
        tree.site.ok(&["send", name, "done", "--kind", "last"]);
    }
    for name in ["queen", "one", "low"] {
        let heard = tree.exec(name, &["hear 2"]);
        let lines: Vec<&str> = heard.lines().collect();
        assert!(lines.len() == 2 && lines[0].starts_with(warning) && lines[1] == "last: done", "{name}: {heard}");
    }
    let sent = tree.records("message.sent").iter().filter(|sent| sent["kind"] == "budget_warning").count();
    assert_eq!(sent, 3, "each is told once");
    assert_eq!(tree.exec("other", &["hear 1"]), "last: done", "whose budget it is not hears nothing");
    tree.ends_clean();
}

/// A child that may have so many tokens in its context asks no model with more, whatever its parent may.
#[test]
fn a_request_beyond_the_context_limit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("model.txt");
    std::fs::write(&script, "on \"question\"\n  say It is so.\n").unwrap();
    let tree =
        TreeSite::new(&format!("providers: {{demo: {{url: \"script:{}\"}}}}\nmodels: {{operational: demo/cheap}}\n", script.display()));
    tree.spawn(&["lead", "--role", "lead", "--tier", "operational", "--model", "operational", "--python", "limits:Listens"]);
    tree.exec("lead", &["delegate 2000"]);
    let long = format!("question {}", "word ".repeat(4_000));
    assert_eq!(tree.exec("narrow", &["question"]), "It is so.", "the control: what fits is answered");
    let (code, said) = ended(tree.exec_beside("narrow", &[&long]));
    assert!(code != Some(0) && said.contains("context"), "{said}");
    assert_eq!(tree.exec("lead", &[&long]), "It is so.", "the control: its parent has no such limit");
    let refused = tree.records("call.refused");
    let [refusal] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((&refusal["tool"], &refusal["code"]), (&"model.request".into(), &"exhausted".into()), "{refusal}");
    assert!(refusal["reason"].as_str().unwrap().contains("2000"), "{refusal}");
    tree.ends_clean();
}
