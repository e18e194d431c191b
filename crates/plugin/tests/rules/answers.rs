//! What rules say, and that they say it about the call in hand only.

use policy::Action;
use serde_json::json;

use super::host::{Host, Test, call};

pub const TESTS: &[Test] = &[
    ("the_four_answers", the_four_answers),
    ("a_call_is_seen_whole_and_frozen", a_call_is_seen_whole_and_frozen),
    ("rules_of_many_files_speak_in_order", rules_of_many_files_speak_in_order),
    ("one_bad_rule_does_not_silence_the_others", one_bad_rule_does_not_silence_the_others),
    ("nothing_is_remembered", nothing_is_remembered),
    ("no_clock_and_no_chance", no_clock_and_no_chance),
    ("a_call_too_large_is_denied", a_call_too_large_is_denied),
];

fn the_four_answers(host: &Host) {
    let rules = host.start(
        r#"
        type Judged = "fs.read" | string;
        interface Named { readonly name: Judged }
        const named = <T extends string>(name: T): Named => ({ name } as Named);
        export default rule("four", (call: Call): Answer => {
          const { name } = named(call.tool) satisfies Named;
          if (name === "fs.read") return allow("reading is fine");
          if (call.command?.includes("--force")! && name === "shell.run") return deny("no force", "push without it");
          if (name === "fs.write") return review("a person looks");
          return pass();
        });"#,
    );
    assert_eq!(rules_of(&rules), ["four"]);
    assert_eq!(host.one(&rules, "fs.read"), (Action::Allow, "reading is fine".to_owned()));
    assert_eq!(host.one(&rules, "shell.run"), (Action::Deny, "no force (push without it)".to_owned()));
    assert_eq!(host.one(&rules, "fs.write"), (Action::RequireReview, "a person looks".to_owned()));
    assert_eq!(host.one(&rules, "fs.list"), (Action::Pass, String::new()));
    host.block_on(rules.stop());
}

fn a_call_is_seen_whole_and_frozen(host: &Host) {
    let rules = host.start(
        r#"
        export default [
          rule("seen", (call) => allow(JSON.stringify(call))),
          rule("top", (call) => { (call as any).tool = "fs.read"; return allow("changed"); }),
          rule("deep", (call) => { (call.input as any).deep.list.push(3); return allow("changed"); }),
          rule("after", (call) => allow(JSON.stringify(call))),
        ];"#,
    );
    let call = call("fs.write");
    let said = host.ask(&rules, &call);
    let seen = |number: usize| serde_json::from_str::<serde_json::Value>(&said[number].reason).unwrap();
    assert_eq!(seen(0), call);
    assert_eq!((said[1].says, said[2].says), (Action::Deny, Action::Deny), "{said:?}");
    assert!(said[1].reason.contains("read-only"), "{said:?}");
    assert!(said[2].reason.contains("not extensible"), "{said:?}");
    assert_eq!(seen(3), call);
}

fn rules_of_many_files_speak_in_order(host: &Host) {
    let files = [
        (
            "rules/b.ts",
            "import { word } from './lib/words'; export default [rule('b1', () => allow(word)), rule('b2', () => allow(word + word))];",
        ),
        ("rules/a.ts", "import { word } from './lib/words.ts'; export const a = rule('a', () => review(word)); export const no = 1;"),
        ("rules/lib/words.ts", "import type { Nothing } from './gone'; export const word: string = 'w';"),
    ];
    let rules = host.try_start(&files).unwrap();
    assert_eq!(rules_of(&rules), ["b1", "b2", "a"]);
    let said = host.ask(&rules, &call("fs.write"));
    let heard: Vec<_> = said.iter().map(|said| (said.from.as_str(), said.says, said.reason.as_str())).collect();
    assert_eq!(heard, [("b1", Action::Allow, "w"), ("b2", Action::Allow, "ww"), ("a", Action::RequireReview, "w")]);
}

fn one_bad_rule_does_not_silence_the_others(host: &Host) {
    let rules = host.start(
        "export const a = rule('a', () => { throw new Error('a bug'); });
         export const b = rule('b', () => { null!.x; });
         export const c = rule('c', () => { throw 'text'; });
         export const d = rule('d', () => allow('fine'));",
    );
    let said = host.ask(&rules, &call("fs.write"));
    let heard: Vec<_> = said.iter().map(|said| (said.from.as_str(), said.says)).collect();
    assert_eq!(heard, [("a", Action::Deny), ("b", Action::Deny), ("c", Action::Deny), ("d", Action::Allow)]);
    assert!(said[0].reason.ends_with("it threw at rules/a.ts:1:46: a bug"), "{said:?}");
    assert_eq!(rules.status().restarts, 0);
}

/// Every way to keep something that we know of; each would count up.
fn nothing_is_remembered(host: &Host) {
    let rules = host.start(
        r#"
        let count = 0;
        const kept: { n: number } = { n: 0 };
        class Kept { static n = 0; }
        const memo = new Map<string, number>();
        function own() {}
        const attempt = (f: () => number) => { try { return f(); } catch { return 1; } };
        const symbols = () => Object.getOwnPropertySymbols(Symbol.for("kept")).length + 1;
        export default rule("r", () => {
          const seen = [
            ++count, ++kept.n, ++Kept.n,
            memo.set("n", (memo.get("n") ?? 0) + 1).get("n")!,
            ((own as any).n = ((own as any).n ?? 0) + 1),
            attempt(() => ((globalThis as any).n = ((globalThis as any).n ?? 0) + 1)),
            attempt(() => ((Array.prototype as any).n = ((Array.prototype as any).n ?? 0) + 1)),
            attempt(() => { const a = /x/g; a.test("xx"); return a.lastIndex; }),
            attempt(symbols),
          ];
          Promise.resolve().then(() => { count = 100; kept.n = 100; });
          return allow(seen.join());
        });"#,
    );
    let first = host.one(&rules, "fs.write");
    assert_eq!(first, (Action::Allow, "1,1,1,1,1,1,1,1,1".to_owned()));
    for _ in 0..20 {
        assert_eq!(host.one(&rules, "fs.write"), first);
    }
    // The same counters do count within a call.
    let counted = "let n = 0; export default [1, 2].map((k) => rule('r' + k, () => allow(String(++n))));";
    host.block_on(rules.stop());
    let rules = host.start(counted);
    let said: Vec<String> = host.ask(&rules, &call("fs.write")).into_iter().map(|said| said.reason).collect();
    assert_eq!(said, ["1", "2"]);
}

fn no_clock_and_no_chance(host: &Host) {
    for (what, named) in [
        ("Date.now()", "Date.now"),
        ("new Date().getTime()", "Date"),
        ("Math.random()", "Math.random"),
        ("performance.now()", "performance"),
        ("new WeakRef({})", "WeakRef"),
        ("setTimeout(() => {}, 0)", "setTimeout"),
        ("fetch('http://example.com')", "fetch"),
        ("require('fs')", "require"),
        ("process.env", "process"),
        ("eval('1')", "eval"),
        ("new Function('return 1')()", "code from text"),
        ("(() => {}).constructor('return 1')()", "code from text"),
        ("(async () => {}).constructor('return 1')", "code from text"),
        ("(function* () {}).constructor('return 1')", "code from text"),
        ("Object.getPrototypeOf(async function* () {}).constructor('return 1')", "code from text"),
        ("Reflect.construct(Function, ['return 1'])", "code from text"),
        ("new SharedArrayBuffer(8)", "SharedArrayBuffer"),
    ] {
        let rules = host.start_one(&format!("return allow(String({what}));"));
        host.lost(&rules, named);
        host.control(&rules);
        host.block_on(rules.stop());
    }
    // What is not nondeterministic is there.
    let rules =
        host.start_one("return allow([Math.max(1, 2), /b+/.exec('abbc')![0], 2n ** 70n, new Set([1]).size, [3, 1].toSorted()].join());");
    assert_eq!(host.one(&rules, "fs.write"), (Action::Allow, "2,bb,1180591620717411303424,1,1,3".to_owned()));
}

fn a_call_too_large_is_denied(host: &Host) {
    let rules = host.start_one("return allow('well');");
    let with = |bytes: usize| json!({ "tool": "fs.write", "paths": [], "input": { "content": "x".repeat(bytes) } });
    let said = host.ask(&rules, &with(1 << 20));
    assert_eq!((said[0].from.as_str(), said[0].says), ("*", Action::Deny));
    assert!(said[0].reason.contains("is the most"), "{said:?}");
    assert_eq!(host.ask(&rules, &with(900_000))[0].says, Action::Allow);
}

fn rules_of(extensions: &plugin::Extensions) -> Vec<String> {
    extensions.status().rules
}
