//! A large policy is read in little time, whatever its rules have in common.

use policy::Policy;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

#[test]
fn thousands_of_rules_are_read_at_once() {
    let kinds: [fn(usize) -> String; 3] =
        [|n| format!("path_glob: 'src/module{n}/**'"), |n| format!("path_glob: 'src/*{n}.rs'"), |n| format!("caller: '*{n}*'")];
    for kind in kinds {
        let mut text = "capabilities:\n".to_owned();
        for n in 0..4_000 {
            let action = if n % 3 == 0 { "deny" } else { "require_review" };
            let _ = writeln!(text, "  - {{ name: r{n}, match: {{ syscall: fs.write, {} }}, action: {action} }}", kind(n));
        }
        let start = Instant::now();
        let (policy, _) = Policy::parse(&text, "p.yaml").unwrap();
        assert_eq!(policy.rules().len(), 4_000);
        // Quadratic work would take minutes here; the limit leaves room for a slow, busy machine without optimisation.
        assert!(start.elapsed() < Duration::from_secs(30), "{:?} for {}", start.elapsed(), kind(1));
    }
}
