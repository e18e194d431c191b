//! Rules that do their worst. Each is a deny, and the next call finds everything as it was.

use std::time::{Duration, Instant};

use policy::Action;
use serde_json::json;

use super::host::{Host, Test, call};

pub const TESTS: &[Test] = &[
    ("endless_loops_are_cut_and_the_child_lives", endless_loops_are_cut_and_the_child_lives),
    ("a_late_answer_is_no_answer", a_late_answer_is_no_answer),
    ("rules_after_an_endless_one_are_lost_too", rules_after_an_endless_one_are_lost_too),
    ("what_the_engine_cannot_cut_is_killed", what_the_engine_cannot_cut_is_killed),
    ("memory_bombs", memory_bombs),
    ("deep_recursion", deep_recursion),
    ("answers_of_the_wrong_kind", answers_of_the_wrong_kind),
    ("huge_answers", huge_answers),
    ("async_rules_are_refused", async_rules_are_refused),
    ("what_is_built_in_cannot_be_changed", what_is_built_in_cannot_be_changed),
    ("hostile_calls_are_only_data", hostile_calls_are_only_data),
];

fn endless_loops_are_cut_and_the_child_lives(host: &Host) {
    for body in [
        "for (;;) {}",
        "try { for (;;) {} } catch { return allow('caught'); } finally { for (;;) {} }",
        "/^(a+)+$/.test('a'.repeat(40) + '!'); return allow('matched');",
    ] {
        let rules = host.start_one(body);
        let pid = rules.status().pid;
        let began = Instant::now();
        host.lost(&rules, "it took more than 100 ms");
        assert!(began.elapsed() >= Duration::from_millis(100), "{:?} for {body}", began.elapsed());
        host.control(&rules);
        assert_eq!((rules.status().pid, rules.status().restarts), (pid, 0), "{body}");
        host.block_on(rules.stop());
    }
}

/// A long step that the engine does not look up from, and that ends before the kernel loses patience.
fn a_late_answer_is_no_answer(host: &Host) {
    let timed = |times: u64| json!({ "tool": "fs.write", "size": times });
    let start = || host.start_one("'a'.repeat(call.size!).indexOf('a'.repeat(1e4) + 'b'); return allow('at last');");
    let mut rules = start();
    let mut times = 10_000;
    // Machines differ: a little more work until it is late and not yet killed for it, and less again after it was. What was killed is
    // set up anew: five kills in a minute, as a busy machine brings them about, would keep it down.
    let mut late = false;
    for _ in 0..200 {
        let said = host.ask(&rules, &timed(times)).remove(0);
        if said.says != Action::Deny {
            times += times / 8;
            continue;
        }
        late = said.reason.contains("it took more than 100 ms");
        if late {
            break;
        }
        assert!(said.reason.contains("it took more than 2000 ms and was killed"), "{said:?}");
        host.block_on(rules.stop());
        rules = start();
        times -= times / 4;
    }
    assert!(late, "no answer was late; {times} was the last try");
    host.until(&rules, |_| host.one(&rules, "control").0 == Action::Allow);
}

fn rules_after_an_endless_one_are_lost_too(host: &Host) {
    let rules = host.start(
        "export const a = rule('a', () => allow('first'));
         export const b = rule('b', (call) => { while (call.tool === 'fs.write') {} return pass(); });
         export const c = rule('c', () => allow('last'));",
    );
    let said: Vec<Action> = host.ask(&rules, &call("fs.write")).into_iter().map(|said| said.says).collect();
    assert_eq!(said, [Action::Allow, Action::Deny, Action::Deny]);
    let said: Vec<Action> = host.ask(&rules, &call("fs.read")).into_iter().map(|said| said.says).collect();
    assert_eq!(said, [Action::Allow, Action::Pass, Action::Allow]);
}

/// One long call into the engine's own code, which never looks at the watch.
fn what_the_engine_cannot_cut_is_killed(host: &Host) {
    let rules = host.start_one("return allow(String('a'.repeat(3e7).indexOf('a'.repeat(1e6) + 'b')));");
    let first = rules.status().pid;
    let began = Instant::now();
    host.lost(&rules, "and was killed");
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    let status = host.up(&rules);
    assert_eq!(status.restarts, 1);
    assert_ne!(status.pid, first);
    host.control(&rules);
}

fn memory_bombs(host: &Host) {
    for body in [
        "const a: any[] = []; for (;;) a.push(new Array(1000).fill(a.length));",
        "let s = 'x'; for (;;) s += s;",
        "const a: any[] = []; try { for (;;) a.push('x'.repeat(1 << 20) + a.length); } catch { for (;;) a.push({}); }",
        "return allow('x'.repeat(2 ** 29).split('').join());",
        "const m = new Map(); for (let i = 0; ; i++) m.set({ i }, [m]);",
    ] {
        let rules = host.start_one(body);
        host.lost(&rules, "");
        // It may have been killed, and then it comes back.
        host.until(&rules, |_| host.one(&rules, "control").0 == Action::Allow);
        host.block_on(rules.stop());
    }
}

fn deep_recursion(host: &Host) {
    for body in [
        "const f = (): number => f() + 1; f(); return allow('deep');",
        "let a: any = []; for (let i = 0; i < 200000; i++) a = [a]; return allow(JSON.stringify(a));",
        "const p: any = new Proxy({}, { get: (_, __, me) => me.x }); p.x; return allow('deep');",
        "return allow(String(new RegExp('('.repeat(100000) + ')'.repeat(100000)).test('')));",
        "const a: any = []; a[0] = a; a.flat(Infinity); return allow('deep');",
    ] {
        let rules = host.start_one(body);
        host.lost(&rules, "");
        host.until(&rules, |_| host.one(&rules, "control").0 == Action::Allow);
        host.block_on(rules.stop());
    }
    // As deep as a rule should need.
    let rules = host.start_one("const f = (n: number): number => n === 0 ? 0 : f(n - 1) + 1; return allow(String(f(1000)));");
    assert_eq!(host.one(&rules, "fs.write"), (Action::Allow, "1000".to_owned()));
}

fn answers_of_the_wrong_kind(host: &Host) {
    let bad = [
        "return undefined as any;",
        "return null as any;",
        "return true as any;",
        "return 'allow' as any;",
        "return 1 as any;",
        "return allow as any;",
        "return { says: 'allow', reason: 'forged', hint: '' } as any;",
        "return Object.create(allow('inherited'));",
        "return { ...allow('copied') } as any;",
        "return new Proxy(allow('wrapped'), {}) as any;",
        "return [allow('listed')] as any;",
        "return Symbol('allow') as any;",
    ];
    for body in bad {
        let rules = host.start_one(body);
        host.lost(&rules, "the answer is not made by allow, deny, review or pass");
        host.control(&rules);
        host.block_on(rules.stop());
    }
    for body in [
        "return (allow as any)();",
        "return allow(1 as any);",
        "return deny('no', {} as any);",
        "return (review as any)({ toString: () => 'x' });",
    ] {
        let rules = host.start_one(body);
        host.lost(&rules, "must be a string");
        host.control(&rules);
        host.block_on(rules.stop());
    }
    // Text that is no text: half of a surrogate pair.
    let rules = host.start_one("return allow('\\ud800');");
    let (says, reason) = host.one(&rules, "fs.write");
    assert!(says == Action::Deny || reason == "\u{fffd}", "{says:?} {reason:?}");
    host.control(&rules);
}

fn huge_answers(host: &Host) {
    let rules = host.start_one("return allow('x'.repeat(call.size!));");
    let ask = |size: u64| host.ask(&rules, &json!({ "tool": "fs.write", "size": size })).remove(0);
    assert_eq!(ask(2_000).says, Action::Allow);
    for size in [2_001, 500_000] {
        let said = ask(size);
        assert_eq!(said.says, Action::Deny);
        assert!(said.reason.contains("longer than 2000 characters") && said.reason.len() < 200, "{said:?}");
    }
    host.block_on(rules.stop());
    let thrown = host.start_one("throw new Error('x'.repeat(5_000_000));");
    let (says, reason) = host.one(&thrown, "fs.write");
    assert!(says == Action::Deny && reason.len() < 1_000, "{}", reason.len());
    host.control(&thrown);
    host.block_on(thrown.stop());
    // Two hundred rules at their longest are more than one message.
    let many = host.start("export default Array.from({ length: 200 }, (_, n) => rule('r' + n, (c) => allow('\u{20ac}'.repeat(c.size!))));");
    let ask = |size: u64| host.ask(&many, &json!({ "tool": "fs.write", "size": size }));
    let said = ask(2_000);
    assert!(said.len() == 200 && said.iter().all(|said| said.says == Action::Deny && said.reason.contains("is the most")), "{:?}", said[0]);
    assert!(ask(200).iter().all(|said| said.says == Action::Allow));
}

fn async_rules_are_refused(host: &Host) {
    for body in
        ["return (async () => allow('late'))() as any;", "return Promise.resolve(allow('late')) as any;", "return import('./a.ts') as any;"]
    {
        let rules = host.start_one(body);
        host.lost(&rules, "the rule is async");
        host.control(&rules);
        host.block_on(rules.stop());
    }
    let rules = host.start("export default rule('r', async (call) => allow('late'));");
    host.lost(&rules, "the rule is async");
    host.block_on(rules.stop());
    // Work left for later is never done.
    let rules = host.start_one("Promise.resolve().then(() => { for (;;) {} }); return allow('now');");
    assert_eq!(host.one(&rules, "fs.write"), (Action::Allow, "now".to_owned()));
    host.control(&rules);
}

/// Tried as a file loads, where it would reach the rules of every other file.
fn what_is_built_in_cannot_be_changed(host: &Host) {
    for attack in [
        "globalThis.deny = allow;",
        "globalThis.rule = () => {};",
        "(globalThis as any).pass = undefined;",
        "Object.defineProperty(globalThis, 'deny', { value: allow });",
        "String.prototype.includes = () => false;",
        "Array.prototype.includes = () => false;",
        "Array.prototype.push = () => 0;",
        "(Object.prototype as any).hint = 'polluted';",
        "({} as any).__proto__.says = 'allow';",
        "([] as any).constructor.prototype.map = () => [];",
        "WeakSet.prototype.has = () => true;",
        "Object.freeze = (x: any) => x;",
        "(Reflect as any).ownKeys = () => [];",
        "JSON.parse = () => ({});",
        "Function.prototype.call = () => allow('x');",
        "(deny as any).prototype = {}; ",
        "(deny as any).call = () => allow('x');",
        "Object.setPrototypeOf(Array.prototype, {});",
        "Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({ done: true });",
        "Object.getPrototypeOf(function* () {}).prototype.next = () => ({ done: true });",
        "RegExp.prototype.exec = () => null;",
        "Symbol.prototype.description = 'x' as any;",
        "Error.prototype.message = 'x';",
        "(Promise as any)[Symbol.hasInstance] = () => false;",
        "Promise.prototype.then = () => 0 as any;",
        "delete (globalThis as any).deny;",
    ] {
        let files = [
            ("rules/a.ts", attack),
            ("rules/b.ts", "export default rule('b', (call) => call.tool === 'control' ? allow('well') : deny('no', 'hint'));"),
        ];
        let error = host.try_start(&files).expect_err(attack).to_string();
        let frozen = ["read-only", "not extensible", "not configurable", "could not delete", "no setter", "prototype"];
        assert!(error.starts_with("rules/a.ts") && frozen.iter().any(|word| error.contains(word)), "{attack} {error}");
    }
    // The same file without an attack, and an attempt that fails quietly.
    let mild = "try { String.prototype.includes = () => false; } catch {} export const a = rule('a', (call) => call.tool.includes('con') ? pass() : review('seen'));";
    let files = [("rules/a.ts", mild), ("rules/b.ts", "export default rule('b', (call) => deny('no', 'hint'));")];
    let rules = host.try_start(&files).unwrap();
    let says = |tool: &str| host.ask(&rules, &call(tool)).into_iter().map(|said| said.says).collect::<Vec<_>>();
    assert_eq!(says("control"), [Action::Pass, Action::Deny]);
    assert_eq!(says("fs.write"), [Action::RequireReview, Action::Deny]);
}

fn hostile_calls_are_only_data(host: &Host) {
    let rules = host.start("export default rule('r', (call) => ('polluted' in {}) || ({} as any).says ? allow('polluted') : review(JSON.stringify(call.input)));");
    let odd =
        json!({ "tool": "fs.write", "input": { "__proto__": { "polluted": true, "says": "allow" }, "constructor": { "prototype": 1 } } });
    let said = host.ask(&rules, &odd).remove(0);
    assert_eq!(said.says, Action::RequireReview, "{said:?}");
    assert!(said.reason.contains("__proto__"), "{said:?}");
    let mut deep = json!(1);
    for _ in 0..100 {
        deep = json!([deep]);
    }
    assert_eq!(host.ask(&rules, &json!({ "tool": "x", "input": deep }))[0].says, Action::RequireReview);
    for odd in [json!(null), json!(1), json!("text"), json!([])] {
        assert_eq!(host.ask(&rules, &odd)[0].says, Action::Deny, "{odd}");
    }
    assert_eq!(rules.status().restarts, 0);
}
