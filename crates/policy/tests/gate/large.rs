//! A large policy is read in little time, whatever its rules have in common.

use policy::Policy;
use std::fmt::Write as _;

#[test]
fn thousands_of_rules_are_read_at_once() {
    let kinds: [fn(usize) -> String; 3] =
        [|n| format!("path_glob: 'src/module{n}/**'"), |n| format!("path_glob: 'src/*{n}.rs'"), |n| format!("caller: '*{n}*'")];
    // What others do on the machine does not count. A hundred ticks are a second, on every Linux.
    let processor_seconds = || {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
        fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum::<u64>() / 100
    };
    for kind in kinds {
        let mut text = "capabilities:\n".to_owned();
        for n in 0..4_000 {
            let action = if n % 3 == 0 { "deny" } else { "require_review" };
            let _ = writeln!(text, "  - {{ name: r{n}, match: {{ syscall: fs.write, {} }}, action: {action} }}", kind(n));
        }
        let before = processor_seconds();
        let (policy, _) = Policy::parse(&text, "p.yaml").unwrap();
        assert_eq!(policy.rules().len(), 4_000);
        let used = processor_seconds() - before;
        // It takes about one. Quadratic work would take minutes; the limit leaves room for a slow machine.
        assert!(used < 30, "{used} s for {}", kind(1));
    }
}
