//! A brain decides for the kernel, as `config.yml` attaches it: its model is asked once, metered, and answers trouble or passes it on.

use crate::brains::of;
use crate::common::Site;
use crate::native::site;
use serde_json::json;

/// It has trouble, and says who dealt with it.
const TROUBLE: &str = "on \"the shop\"\n  call escalate {\"issue\": \"no shop is open\", \"severity\": \"warning\"}\nthen\n\
    \x20 on result contains \"open at nine\"\n    say The king knew.\n  else\n    say A person is asked.\n";

fn run(otherwise: &str) -> (Site, String) {
    let (site, _) = site(&format!("{TROUBLE}otherwise\n  say {otherwise}\n"), "", &[]);
    let path = site.home().join("config.yml");
    let config = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{config}deciders: {{king: native:operational}}\n")).unwrap();
    site.ok(&["kernel", "restart"]);
    let said = site.ok(&["act", "the shop", "--brain", "native", "--tools", "escalation.raise", "--await"]);
    (site, said)
}

#[test]
fn a_brain_of_the_king_answers_trouble_and_a_person_what_it_leaves() {
    let (site, said) = run("{\"answer\": \"they open at nine\"}");
    assert!(said.contains("The king knew."), "{said}\n{}", site.ok(&["log"]));
    let handled = of(&site, "escalation.handled");
    assert_eq!(handled.iter().map(|one| (&one["pid"], &one["response"])).collect::<Vec<_>>(), [(&json!(1), &json!("they open at nine"))]);
    // In the kernel's own name: on record, metered, and by a call that rules judge.
    let made: Vec<_> = of(&site, "call.admitted").into_iter().filter(|call| call["pid"] == 1).map(|call| call["tool"].clone()).collect();
    assert_eq!(made, ["model.request", "escalation.answer"]);
    assert_eq!(of(&site, "model.used").iter().filter(|used| used["pid"] == 1).count(), 1);
    assert!(of(&site, "review.asked").is_empty());

    let (site, said) = run("{\"pass\": true}");
    assert!(said.contains("A person is asked."), "{said}");
    assert_eq!(of(&site, "review.asked").len(), 1);
    assert!(of(&site, "escalation.handled").is_empty());
    // Only what thinks by itself decides.
    let path = site.home().join("config.yml");
    let config = std::fs::read_to_string(&path).unwrap().replace("native:operational", "claude");
    std::fs::write(&path, config).unwrap();
    let no = site.skep(&["kernel", "restart"]);
    let said = crate::common::text(&no);
    assert!(!no.status.success() && said.contains("only the built-in brain decides"), "{said}");
}
